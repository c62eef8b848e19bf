//! `git push host`, from inside: the program that git starts for the address `cofferdam::host` (gitremote-helpers(7)). It says to
//! whoever watches on the host which branch is to move to which commit. It carries no objects: the host takes those by itself,
//! through its gate.

use std::ffi::OsStr;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use cofferdam_guest::protocol::push::{
    self, Answer, DOOR, From, HEAD, Push, Question, SHELF, SOCKET, VERSION,
};

use crate::guard::Word;
use crate::guard::environment;
use crate::guard::real::{Real, USUAL_PATH};

const NAME: &str = "git-remote-cofferdam";

/// Whether the program was started as the helper.
pub(crate) fn is_meant(name: Option<&OsStr>) -> bool {
    name.and_then(|name| Path::new(name).file_name()) == Some(OsStr::new(NAME))
}

/// Does what git asks for on standard input, until it asks no more. The exit code.
pub(crate) fn run() -> i32 {
    match serve(&mut io::stdin().lock(), &mut io::stdout().lock()) {
        Ok(()) => 0,
        Err(error) => {
            say(&format!("error: {error}"));
            1
        }
    }
}

/// Nobody may be listening.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

fn serve(git: &mut impl BufRead, answers: &mut impl Write) -> io::Result<()> {
    let mut dry_run = false;
    let mut wanted: Vec<Word> = Vec::new();
    loop {
        let mut line = Vec::new();
        if git.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        if let Some(what) = line.strip_prefix(b"push ") {
            wanted.push(what.to_vec());
            continue;
        }
        match line {
            b"" if wanted.is_empty() => return Ok(()),
            b"" => {
                for one in wanted.drain(..) {
                    let (branch, said) = pushed(&one, dry_run);
                    answers.write_all(&said_of(&branch, &said))?;
                }
                answers.write_all(b"\n")?;
            }
            b"capabilities" => answers.write_all(b"option\npush\n\n")?,
            b"list for-push" => answers.write_all(&listed()?)?,
            b"option dry-run true" => {
                dry_run = true;
                answers.write_all(b"ok\n")?;
            }
            option if option.starts_with(b"option ") => {
                let known = [
                    &b"option verbosity "[..],
                    b"option progress ",
                    b"option dry-run ",
                ];
                let known = known.iter().any(|one| option.starts_with(one));
                answers.write_all(if known { b"ok\n" } else { b"unsupported\n" })?;
            }
            b"list" => {
                return Err(io::Error::other(
                    "nothing is fetched from the host by this address: what is checked out there is in /workspace",
                ));
            }
            _ => {
                return Err(io::Error::other(
                    "git asks for something that is not known here",
                ));
            }
        }
        answers.flush()?;
    }
}

/// Those of the host's branches whose commits are here too: of others git could not tell whether a push goes forward, and the host can.
fn listed() -> io::Result<Vec<u8>> {
    let branches = match ask(&Question::Branches)? {
        Answer::Branches(branches) => branches,
        Answer::Refused { why, hint } => return Err(io::Error::other(format!("{why}: {hint}"))),
        Answer::Said(_) | Answer::Landed => return Err(odd()),
    };
    let known = if branches.is_empty() {
        Vec::new()
    } else {
        let words = ["git", "rev-list", "--no-walk", "--ignore-missing"].map(str::to_owned);
        let tips = branches.iter().map(|(_, tip)| tip.clone());
        let words = words.into_iter().chain(tips).map(String::into_bytes);
        git()?.answer(&words.collect::<Vec<_>>())?
    };
    let known: Vec<&[u8]> = known.split(|&byte| byte == b'\n').collect();
    let mut lines = Vec::new();
    for (name, tip) in branches {
        if known.contains(&tip.as_bytes()) {
            lines.extend_from_slice(format!("{tip} refs/heads/{name}\n").as_bytes());
        }
    }
    lines.push(b'\n');
    Ok(lines)
}

/// What became of one: for git's own line, nothing where it landed.
type Said = Result<(), String>;

fn said_of(branch: &[u8], said: &Said) -> Vec<u8> {
    match said {
        Ok(()) => [b"ok ", branch, b"\n"].concat(),
        Err(why) => [b"error ", branch, b" ", why.as_bytes(), b"\n"].concat(),
    }
}

/// `+<what>:<branch>`, as git says it. The branch, and what became of it.
fn pushed(what: &[u8], dry_run: bool) -> (Word, Said) {
    let (forced, what) = match what.strip_prefix(b"+") {
        Some(what) => (true, what),
        None => (false, what),
    };
    // A reference has no colon in its name; what stands for a commit may.
    let at = what.iter().rposition(|&byte| byte == b':').unwrap_or(0);
    let (commit, reference) = (&what[..at], what.get(at + 1..).unwrap_or_default());
    (
        reference.to_vec(),
        move_to(commit, reference, forced, dry_run),
    )
}

fn move_to(commit: &[u8], reference: &[u8], forced: bool, dry_run: bool) -> Said {
    let refused = |why: &str, hint: &str| {
        say(&format!("host: {why}: {hint}"));
        Err(why.to_owned())
    };
    let branch = reference.strip_prefix(b"refs/heads/");
    let Some(branch) = branch.and_then(|name| std::str::from_utf8(name).ok()) else {
        return refused("only branches are pushed to the host", "make tags there");
    };
    if commit.is_empty() {
        return refused(
            "no branch of the host's is removed from inside",
            "remove it there",
        );
    }
    if forced {
        return refused(
            "a branch of the host's moves only forward",
            "push without force, or under a new name that begins with cofferdam/",
        );
    }
    let asked = resolved(commit).and_then(|(from, tip)| {
        ask(&Question::Push(Push {
            from,
            branch: branch.to_owned(),
            tip,
            dry_run,
        }))
    });
    match asked {
        Ok(Answer::Landed) => Ok(()),
        Ok(Answer::Refused { why, hint }) => refused(&one_line(&why), &one_line(&hint)),
        Ok(Answer::Branches(_) | Answer::Said(_)) => Err(odd().to_string()),
        Err(error) => Err(one_line(&error.to_string())),
    }
}

/// The commit, and the repository that has it.
fn resolved(commit: &[u8]) -> io::Result<(From, String)> {
    let words = [
        "git",
        "rev-parse",
        "--path-format=absolute",
        "--git-common-dir",
    ];
    let mut words: Vec<Word> = words.map(|word| word.as_bytes().to_vec()).into();
    words.push([commit, b"^{commit}"].concat());
    let answer = git()?.answer(&words)?;
    let answer = String::from_utf8_lossy(&answer);
    let (directory, tip) = answer
        .trim_end()
        .rsplit_once('\n')
        .ok_or_else(|| io::Error::other("git does not say which commit that is"))?;
    let from = if directory == SHELF {
        From::Shelf
    } else {
        From::Workspace
    };
    Ok((from, tip.to_owned()))
}

fn git() -> io::Result<Real> {
    let environment = environment::own();
    let path = environment.get("PATH").unwrap_or(USUAL_PATH);
    Real::find(path, false).map_err(|missing| io::Error::other(missing.to_string()))
}

/// Asks whoever watches, and says what it says meanwhile.
fn ask(question: &Question) -> io::Result<Answer> {
    let nobody = |error: io::Error| {
        io::Error::other(format!(
            "the host takes no push now ({error}): `cofferdam status` there says why"
        ))
    };
    let mut host = UnixStream::connect(Path::new(DOOR).join(SOCKET)).map_err(nobody)?;
    let frame = push::encode(&(VERSION, question)).map_err(io::Error::other)?;
    host.write_all(&frame)?;
    loop {
        let mut head = [0; HEAD];
        let gone = |_| io::Error::other("the host gave no answer: push again");
        host.read_exact(&mut head).map_err(gone)?;
        let length = push::body_length(head).map_err(io::Error::other)?;
        let mut body = vec![0; length];
        host.read_exact(&mut body).map_err(gone)?;
        match push::decode(&body).map_err(io::Error::other)? {
            Answer::Said(text) => say(&format!("host: {}", one_line(&text))),
            answer => return Ok(answer),
        }
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

fn odd() -> io::Error {
    io::Error::other("the host answers something else than was asked")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialogue(asked: &str) -> (io::Result<()>, String) {
        let mut answers = Vec::new();
        let ended = serve(&mut asked.as_bytes(), &mut answers);
        (ended, String::from_utf8(answers).unwrap())
    }

    #[test]
    fn what_is_no_push_of_a_branch_goes_no_further() {
        let asked = "capabilities\noption progress true\noption atomic true\n\
            push refs/tags/v1:refs/tags/v1\npush :refs/heads/main\npush +HEAD:refs/heads/main\n\n\n";
        let (ended, answers) = dialogue(asked);
        assert!(ended.is_ok());
        assert_eq!(
            answers,
            "option\npush\n\nok\nunsupported\n\
             error refs/tags/v1 only branches are pushed to the host\n\
             error refs/heads/main no branch of the host's is removed from inside\n\
             error refs/heads/main a branch of the host's moves only forward\n\n"
        );
    }

    #[test]
    fn nothing_is_fetched_this_way() {
        let (ended, answers) = dialogue("capabilities\nlist\n");
        assert!(ended.is_err_and(|error| error.to_string().contains("/workspace")));
        assert_eq!(answers, "option\npush\n\n");
        assert!(dialogue("import refs/heads/main\n").0.is_err());
    }
}
