//! What can only be said of new names and those beside them: that a directory became a repository, and that two
//! names are one on some file systems. Only the directories on the way to what changed are read, not the whole tree.

use std::collections::{BTreeSet, HashMap, HashSet};

use tokio_util::sync::CancellationToken;

use super::names::{self, fold_path};
use super::objects::{lines, odd, parse_batch};
use super::quarantine::Quarantine;
use super::verdict::{Changes, MOST, Verdict, path_of, shown};
use super::{Gate, GateError, Refusal, Violation};
use crate::git::{ObjectFormat, Oid};
use crate::process::{Input, Sink};

/// Bytes of all names of a commit: a tree of small objects can stand for any number of them.
const LISTING: usize = 256 << 20;
/// Bytes of the questions for single directories. Who changes more is asked for everything: each question reads the trees
/// above its directory again, and a sandbox can make those as large as there are questions.
const QUESTIONS: usize = 64 << 10;

/// The command that tells of trees.
const ASKED: &str = "cat-file";

/// Adds to the verdict what the new names bring, or refuses them.
pub(super) async fn judge(
    gate: &Gate,
    quarantine: &Quarantine,
    changes: &Changes,
    tip: &Oid,
    verdict: &mut Verdict,
    cancel: &CancellationToken,
) -> Result<(), GateError> {
    let mut alive = changes.values().flatten();
    if !alive.any(Option::is_some) {
        return Ok(());
    }
    let listing = beside(gate, quarantine, changes, tip, cancel).await?;
    repositories(gate, quarantine, changes, &listing, verdict, cancel).await?;
    collisions(changes, &listing, verdict);
    Ok(())
}

/// The names in all directories above what changed, as a commit has them: each as a path, directories too, with a zero
/// byte after it.
async fn beside(
    gate: &Gate,
    quarantine: &Quarantine,
    changes: &Changes,
    commit: &Oid,
    cancel: &CancellationToken,
) -> Result<Vec<u8>, GateError> {
    let mut directories: BTreeSet<&[u8]> = BTreeSet::from([&b""[..]]);
    let mut bytes = 0;
    for path in changes.keys() {
        for above in prefixes(path).filter(|above| above.len() < path.len()) {
            if directories.insert(above) {
                bytes += commit.as_str().len() + above.len() + 2;
            }
        }
        if bytes > QUESTIONS {
            return names_at(gate, quarantine, commit, cancel).await;
        }
    }
    let asked: Vec<Vec<u8>> = directories
        .iter()
        .map(|directory| [commit.as_str().as_bytes(), b":", directory].concat())
        .collect();
    let command = |words: [&str; 3], input| {
        let command = quarantine.command(&gate.repo).args(words);
        let command = command.input(Input::Bytes(input)).limit(gate.limits.time);
        command.output(Sink::Capture(LISTING))
    };
    let check = "--batch-check=%(objectname) %(objecttype)";
    let input = asked.iter().flat_map(|one| [one, &b"\0"[..]].concat());
    let done = command([ASKED, check, "-z"], input.collect())
        .run(cancel)
        .await?;
    let trees =
        kinds(&done.stdout, &asked).ok_or_else(|| odd(ASKED, "an answer of another form"))?;
    let wanted: BTreeSet<&Oid> = trees.iter().flatten().collect();
    let input = lines(wanted.into_iter());
    let done = command([ASKED, "--batch", "--buffer"], input)
        .run(cancel)
        .await?;
    let contents =
        parse_batch(&done.stdout).ok_or_else(|| odd(ASKED, "objects of another form"))?;
    let mut listing = Vec::new();
    for (directory, tree) in directories.iter().zip(&trees) {
        let content = tree.as_ref().and_then(|tree| contents.get(tree));
        for name in names_of(content.copied().unwrap_or_default(), gate.repo.format) {
            listing.extend_from_slice(directory);
            if !directory.is_empty() {
                listing.push(b'/');
            }
            listing.extend_from_slice(name.ok_or_else(|| odd(ASKED, "a tree of another form"))?);
            listing.push(0);
            if listing.len() > LISTING {
                return Err(odd(ASKED, "more names than are looked at"));
            }
        }
    }
    Ok(listing)
}

/// The trees among what was asked for: an answer is `<id> <kind>`, or the question with ` missing` behind it. A question
/// may have line ends in it, so that nothing but its own words says where it ends.
fn kinds(mut rest: &[u8], asked: &[Vec<u8>]) -> Option<Vec<Option<Oid>>> {
    let mut found = Vec::with_capacity(asked.len());
    for question in asked {
        if let Some(answer) = rest.strip_prefix(&question[..]) {
            rest = answer.strip_prefix(b" missing\n")?;
            found.push(None);
            continue;
        }
        let end = rest.iter().position(|&b| b == b'\n')?;
        let (id, kind) = std::str::from_utf8(&rest[..end]).ok()?.split_once(' ')?;
        rest = &rest[end + 1..];
        found.push(if kind == "tree" {
            Some(id.parse().ok()?)
        } else {
            None
        });
    }
    rest.is_empty().then_some(found)
}

/// The names in a tree object, which is `<mode> <name>`, a zero byte, the raw id, and so on; `None` where it ends early.
fn names_of(mut rest: &[u8], format: ObjectFormat) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let space = rest.iter().position(|&b| b == b' ');
        let zero = rest.iter().position(|&b| b == 0);
        let (Some(space), Some(zero)) = (space, zero) else {
            rest = &[];
            return Some(None);
        };
        let name = rest.get(space + 1..zero);
        rest = rest
            .get(zero + 1 + format.hex_len() / 2..)
            .unwrap_or_default();
        Some(name)
    })
}

/// Every path of a commit, directories too, each with a zero byte after it.
async fn names_at(
    gate: &Gate,
    quarantine: &Quarantine,
    commit: &Oid,
    cancel: &CancellationToken,
) -> Result<Vec<u8>, GateError> {
    let done = quarantine
        .command(&gate.repo)
        .args([
            "ls-tree",
            "-r",
            "-t",
            "-z",
            "--name-only",
            "--full-tree",
            commit.as_str(),
        ])
        .output(Sink::Capture(LISTING))
        .limit(gate.limits.time)
        .run(cancel)
        .await?;
    Ok(done.stdout)
}

fn split_names(listing: &[u8]) -> impl Iterator<Item = &[u8]> {
    listing.split(|&b| b == 0).filter(|path| !path.is_empty())
}

/// No commit may make a directory a git directory: git takes one with the right entries for a bare
/// repository, whatever its name, and does what its configuration says. Those of the base are the
/// user's; a change below them is told.
async fn repositories(
    gate: &Gate,
    quarantine: &Quarantine,
    changes: &Changes,
    listing: &[u8],
    verdict: &mut Verdict,
    cancel: &CancellationToken,
) -> Result<(), GateError> {
    // Also what is gone from all of them: whatever a commit in between has, the tip has or some commit takes away.
    let changed = changes.keys().flat_map(|path| prefixes(path));
    let found = names::bare_repositories(split_names(listing).chain(changed));
    if found.is_empty() {
        return Ok(());
    }
    let mut given = Vec::new();
    for commit in gate.given() {
        given.push(beside(gate, quarantine, changes, commit, cancel).await?);
    }
    let own = given
        .iter()
        .map(|names| names::bare_repositories(split_names(names)));
    let own: BTreeSet<_> = own.flatten().collect();
    let new = found
        .difference(&own)
        .take(MOST)
        .map(|directory| Violation {
            path: path_of(directory),
            what: "git would take it for a repository".into(),
        });
    let new: Vec<Violation> = new.collect();
    if !new.is_empty() {
        return Err(GateError::refused(Refusal::Tree(new)));
    }
    let below_own = |path: &[u8]| prefixes(path).any(|above| own.contains(above));
    let told = changes.keys().filter(|path| below_own(path));
    verdict.executes.extend(told.map(|path| shown(path)));
    Ok(())
}

/// Notes names that a case-insensitive or normalising file system cannot tell apart: among the
/// directories that hold new names.
fn collisions(changes: &Changes, listing: &[u8], verdict: &mut Verdict) {
    let alive = changes
        .iter()
        .filter(|(_, states)| states.iter().any(Option::is_some));
    let new = alive.map(|(path, _)| path.as_slice());
    // Most names are ASCII in lower case and fold to themselves: only the others can collide with
    // something, and only they are looked up.
    let all: Vec<&[u8]> = split_names(listing).collect();
    let changed: HashSet<&[u8]> = new.flat_map(prefixes).collect();
    let mut by_fold: HashMap<String, &[u8]> = HashMap::new();
    for path in all.iter().filter(|path| !folds_to_itself(path)) {
        let folded = fold_path(path);
        if let Some(other) = by_fold.insert(folded, path)
            && (changed.contains(other) || changed.contains(*path))
        {
            verdict.notes.add(|| collide(other, path));
        }
    }
    if !by_fold.is_empty() {
        for path in all.iter().filter(|path| folds_to_itself(path)) {
            let Ok(text) = std::str::from_utf8(path) else {
                continue;
            };
            if let Some(other) = by_fold.get(text)
                && (changed.contains(other) || changed.contains(*path))
            {
                verdict.notes.add(|| collide(path, other));
            }
        }
    }
}

fn collide(one: &[u8], other: &[u8]) -> String {
    format!(
        "`{}` and `{}` are one name on some file systems",
        shown(one),
        shown(other)
    )
}

/// The path and the directories above it.
fn prefixes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path
        .iter()
        .enumerate()
        .filter(|&(_, &b)| b == b'/')
        .map(|(at, _)| at);
    ends.chain(std::iter::once(path.len()))
        .map(|end| &path[..end])
}

fn folds_to_itself(path: &[u8]) -> bool {
    path.iter().enumerate().all(|(at, &b)| {
        let ends = path.get(at + 1).is_none_or(|&next| next == b'/');
        b.is_ascii() && !b.is_ascii_uppercase() && b != b':' && !(ends && matches!(b, b'.' | b' '))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0975d99730fc22ccb726da3cddc09abf450b7f30";

    #[test]
    fn a_name_that_looks_like_an_answer_is_none() {
        let asked = [
            b"c:".to_vec(),
            format!("c:a\n{ID} tree\nb").into_bytes(),
            b"c:file".to_vec(),
            b"c:d".to_vec(),
        ];
        let (name, tree) = (&asked[1], format!("{ID} tree\n"));
        let said = [
            tree.as_bytes(),
            name,
            b" missing\n",
            format!("{ID} blob\n").as_bytes(),
            tree.as_bytes(),
        ]
        .concat();
        let id: Oid = ID.parse().unwrap();
        let expected = vec![Some(id.clone()), None, None, Some(id)];
        assert_eq!(kinds(&said, &asked), Some(expected));
        assert_eq!(kinds(&said, &asked[..3]), None);
        assert_eq!(kinds(&said[..said.len() - 1], &asked), None);
    }

    #[test]
    fn the_names_of_a_tree() {
        let entry = |name: &[u8]| [b"100644 ", name, &[0], &[b' '; 20]].concat();
        let tree = [entry(b"a b"), entry(b"c\n")].concat();
        let names: Vec<_> = names_of(&tree, ObjectFormat::Sha1).collect();
        assert_eq!(names, [Some(&b"a b"[..]), Some(b"c\n")]);
        assert_eq!(names_of(b"100644 a", ObjectFormat::Sha1).last(), Some(None));
    }
}
