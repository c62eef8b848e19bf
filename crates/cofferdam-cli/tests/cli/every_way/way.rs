//! The ways themselves: each lets the same script work as an agent, and what it left is asked for in the same words.

use std::process::{Command, Stdio};

use cofferdam_lab::{sample, skip};
use serde_json::{Value, json};

use crate::containers::{IMAGE, own};
use crate::environment::{Done, finish};
use crate::lives::{Lives, OnTerminal};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// `run`.
    Run,
    /// `run --keep`.
    Kept,
    /// `create`, then `run --in`.
    In,
    /// `run`, then `continue` in another sandbox.
    Continue,
    /// `run --keep`, then `continue` in that sandbox.
    ContinueThere,
    /// `run --plan` with one task.
    Plan,
    /// `interactive`.
    Interactive,
    /// `interactive --keep`.
    InteractiveKept,
    /// `create`, then `interactive --in`.
    InteractiveIn,
    /// `interactive --no-sandbox`.
    OnHost,
    /// `start`, then `claude` in that dev sandbox.
    Dev,
}

pub(super) const ALL: [Way; 11] = [
    Way::Run,
    Way::Kept,
    Way::In,
    Way::Continue,
    Way::ContinueThere,
    Way::Plan,
    Way::Interactive,
    Way::InteractiveKept,
    Way::InteractiveIn,
    Way::OnHost,
    Way::Dev,
];

pub(super) fn in_sandbox() -> Vec<Way> {
    all_but(&[Way::OnHost])
}

/// Which take what is said of a run: a branch, a prompt, hooks.
pub(super) fn of_runs() -> Vec<Way> {
    all_but(&[Way::Dev])
}

/// In which what it works in is made for this one start.
pub(super) fn at_once() -> Vec<Way> {
    all_but(&[Way::Continue, Way::ContinueThere, Way::Dev])
}

fn all_but(left_out: &[Way]) -> Vec<Way> {
    let taken = ALL.into_iter().filter(|way| !left_out.contains(way));
    taken.collect()
}

/// In which nobody sits there.
pub(super) const UNATTENDED: [Way; 6] = [
    Way::Run,
    Way::Kept,
    Way::In,
    Way::Continue,
    Way::ContinueThere,
    Way::Plan,
];
/// In which any program is an agent: it is started again and again, and what it prints is read.
pub(super) const PRINTING: [Way; 4] = [Way::Run, Way::Kept, Way::In, Way::Plan];

impl Way {
    pub(super) fn is_attended(self) -> bool {
        !UNATTENDED.contains(&self)
    }

    /// Whether the end of the agent ends its work: with `--merge-to-head` its commits are merged then.
    pub(super) fn merges(self) -> bool {
        matches!(self, Self::Run | Self::Interactive | Self::OnHost)
    }

    /// Whether a command lets it be so.
    fn can_have(self, files: Files) -> bool {
        match self {
            Self::OnHost | Self::Dev => files == Files::Usual,
            // A task has a branch of its own.
            Self::Plan => files != Files::Head,
            _ => true,
        }
    }
}

/// Where the files are that it works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    /// Where they are if nobody says anything.
    Usual,
    /// `--mode bind`: in a worktree.
    Bind,
    /// `--mode copy`: written out for it alone.
    Copy,
    /// `--head`: in the checkout itself.
    Head,
}

/// Beside the checkout.
pub(super) const APART: [Files; 2] = [Files::Bind, Files::Copy];
pub(super) const ANYWHERE: [Files; 3] = [Files::Bind, Files::Copy, Files::Head];

/// In containers a whole run tries one way of so many.
const CONTAINED: u64 = 8;
/// And natively one of so many where the files are elsewhere than usual.
const ELSEWHERE: u64 = 4;

/// Where an agent that a command knows by its name is in a container.
const INSIDE: &str = "/mnt/bin";
const SEARCH: &str = "PATH=/mnt/bin:/usr/local/bin:/usr/bin:/bin";

/// One that has a conversation: at its first start that is all, and at the next the rest of it goes on.
const CONVERSING: &str = r#"#!/bin/sh
cat > /tmp/asked
exec < /tmp/asked
projects=~/.claude/projects/$(pwd | tr -c 'a-zA-Z0-9\n' -)
mkdir -p "$projects"
file=$projects/01234567-89ab-cdef-0123-456789abcdef.jsonl
ends() {
    echo; echo '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"01234567-89ab-cdef-0123-456789abcdef"}'
    exit 0
}
echo line >> "$file"
test "$(wc -l < "$file")" -gt 1 || ends
"#;

/// One at a terminal, which has all that is said: the prompt is its last word. On the host other tests have `/tmp` as well.
const ASKED: &str = r#"#!/bin/sh
for word; do :; done
asked=${TMPDIR:-/tmp}/asked
printf %s "$word" > "$asked"
exec < "$asked"
"#;

const CLAUDE_CODE: [&str; 2] = ["--agent", "claude-code"];

pub(super) struct Entry {
    pub(super) way: Way,
    files: Files,
    /// Whose container it is in.
    engine: Option<&'static str>,
    pub(super) lives: Lives,
}

impl Entry {
    /// On the branch `work`, in a sandbox that is called `box`. `made`: options of its sandbox, `task`: of the run.
    pub(super) fn run(&self, made: &[&str], task: &[&str], script: &str) -> Done {
        self.run_on(("box", Some("work")), made, task, script)
    }

    /// Without a branch its commits are to be merged into what is checked out.
    pub(super) fn run_on(
        &self,
        (name, branch): (&str, Option<&str>),
        made: &[&str],
        task: &[&str],
        script: &str,
    ) -> Done {
        if let Some(branch) = branch.filter(|_| self.is_in_checkout()) {
            self.lives.git(&["checkout", "-q", "-b", branch]);
        }
        if self.is_known() {
            self.has_agent(script);
        }
        let programs = self.lives.home().join("tools/bin");
        let programs = format!("{}:{INSIDE}", programs.display());
        let place = self.place(&programs);
        let strategy = self.strategy(branch);
        let made = [&place[..], made].concat();
        let begin = [&CLAUDE_CODE[..], &["--prompt", "begin"]].concat();
        let first = match self.way {
            Way::In | Way::InteractiveIn => [&["create", name], &strategy[..], &made].concat(),
            Way::Continue => [&["run", "--name", name], &strategy[..], &place, &begin].concat(),
            Way::ContinueThere => {
                let kept = ["run", "--keep", "--name", name];
                [&kept[..], &strategy, &made, &begin].concat()
            }
            Way::Dev => [&["start"], &made[..]].concat(),
            _ => Vec::new(),
        };
        if !first.is_empty() {
            let done = self.cofferdam(&first);
            if !done.status.success() {
                assert_ne!(self.way, Way::Continue, "{done}");
                return done;
            }
        }
        let given = [&["--name", name], &strategy[..], &made, task].concat();
        let is_asked = task.iter().any(|word| word.starts_with("--prompt"));
        let more: &[&str] = if is_asked { &[] } else { &["--prompt", "more"] };
        let words = match self.way {
            Way::Run => [&["run"], &given[..]].concat(),
            Way::Kept => [&["run", "--keep"], &given[..]].concat(),
            Way::In => [&["run", "--in", name], task].concat(),
            Way::Continue => {
                // A branch is gone on with by itself; what is checked out has to be said again.
                let head: &[&str] = match self.files {
                    Files::Head => &["--head"],
                    _ => &[],
                };
                let again = ["continue", name, "--name", name];
                [&again[..], head, &made, task, more].concat()
            }
            Way::ContinueThere => [&["continue", name], task, more].concat(),
            Way::Plan => {
                let said = [&made[..], task].concat();
                let (one, others) = task_of((name, branch), &said);
                let plan = json!({ "tasks": [one] });
                self.lives.write("plan.json", &plan.to_string());
                [&["run", "--plan", "plan.json", "--again"], &others[..]].concat()
            }
            Way::Interactive => [&["interactive"], &CLAUDE_CODE[..], &given].concat(),
            Way::InteractiveKept => [&["interactive", "--keep"], &CLAUDE_CODE[..], &given].concat(),
            Way::InteractiveIn => [&["interactive", "--in", name], &CLAUDE_CODE[..], task].concat(),
            Way::OnHost => [&["interactive", "--no-sandbox"], &CLAUDE_CODE[..], &given].concat(),
            Way::Dev => {
                assert!(task.is_empty(), "its program has words of its own");
                vec!["claude"]
            }
        };
        if self.way.is_attended() {
            return OnTerminal::start(&self.command(&words), (33, 111)).done();
        }
        if self.is_known() {
            return self.cofferdam(&words);
        }
        self.cofferdam(&[&words[..], &["--", "sh", "-c", script]].concat())
    }

    /// Whether the agent is one that commands know by its name.
    fn is_known(&self) -> bool {
        !PRINTING.contains(&self.way)
    }

    /// Whether it works in the user's checkout: on the branch that is checked out.
    fn is_in_checkout(&self) -> bool {
        self.way == Way::Dev || self.files == Files::Head
    }

    fn has_agent(&self, script: &str) {
        let program = if self.way.is_attended() {
            format!("{ASKED}{script}\n")
        } else {
            format!("{CONVERSING}{script}\nends\n")
        };
        self.lives.has_program("claude", &program);
    }

    fn strategy<'a>(&self, branch: Option<&'a str>) -> Vec<&'a str> {
        match branch {
            _ if self.way == Way::Dev => Vec::new(),
            _ if self.files == Files::Head => vec!["--head"],
            Some(branch) => vec!["--branch", branch],
            None => vec!["--merge-to-head"],
        }
    }

    /// Where its sandbox is. `programs`: as `--mount` takes it.
    fn place<'a>(&self, programs: &'a str) -> Vec<&'a str> {
        if self.way == Way::OnHost {
            return Vec::new();
        }
        let mut words = vec!["--network", "none"];
        if let Some(engine) = self.engine {
            words.extend(["--sandbox", engine, "--image", IMAGE]);
            if self.is_known() {
                words.extend(["--mount", programs, "--env", SEARCH]);
            }
        }
        match self.files {
            Files::Bind => words.extend(["--mode", "bind"]),
            Files::Copy => words.extend(["--mode", "copy"]),
            Files::Usual | Files::Head => {}
        }
        words
    }

    /// The command, where the agent's program is found if it is a known one.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.lives.command(words);
        if self.is_known() {
            let search = format!("{}/tools/bin:/usr/bin:/bin", self.lives.home().display());
            command.env("PATH", search);
        }
        command
    }

    fn cofferdam(&self, words: &[&str]) -> Done {
        let mut command = self.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    }

    pub(super) fn subjects_on(&self, branch: &str) -> Vec<String> {
        let new = format!("main..{branch}");
        let log = self.lives.git(&["log", "--format=%s", &new]);
        log.lines().map(str::to_owned).collect()
    }

    pub(super) fn subjects(&self) -> Vec<String> {
        self.subjects_on("work")
    }

    /// How many lines `line` it left in the file `draft`, which is in no commit.
    pub(super) fn lines_left(&self) -> usize {
        let count = |text: &str, line: &str| text.lines().filter(|one| *one == line).count();
        let place = if self.is_in_checkout() {
            "draft"
        } else if self.way == Way::OnHost || self.files == Files::Bind {
            ".cofferdam/worktrees/work/draft"
        } else {
            let diff = ["diff", "--uncommitted", "box"];
            let diff = self.lives.cofferdam(&diff).expect_code(0).stdout;
            return count(&diff, "+line");
        };
        count(&self.lives.read(place), "line")
    }
}

/// What a task of a plan says itself, and what is said for all of them.
fn task_of<'a>((name, branch): (&str, Option<&str>), words: &[&'a str]) -> (Value, Vec<&'a str>) {
    let mut task = json!({ "name": name, "branch": branch });
    let mut others = Vec::new();
    for words in words.chunks(2) {
        match *words {
            ["--base", base] => task["base"] = json!(base),
            ["--prompt", text] => task["prompt"] = json!(text),
            ["--prompt-file", path] => task["prompt_file"] = json!(path),
            ["--arg", given] => {
                let (name, value) = given.split_once('=').unwrap();
                task["args"] = json!({ name: value });
            }
            _ => others.extend(words),
        }
    }
    if task.get("prompt_file").is_none() && task.get("prompt").is_none() {
        task["prompt"] = json!("work");
    }
    (task, others)
}

/// The same in each of these ways and on each engine, each in a repository of its own. What git knows of its user stays as it is.
pub(super) fn in_ways(ways: &[Way], check: impl Fn(&Entry)) {
    with_files(ways, Files::Usual, check);
}

/// The same, and natively where the files are elsewhere too.
pub(super) fn in_modes(ways: &[Way], elsewhere: &[Files], check: impl Fn(&Entry)) {
    with_files(ways, Files::Usual, &check);
    let test = test_name();
    for &way in ways {
        for &files in elsewhere {
            let name = format!("{test} {way:?} {files:?}");
            if way.can_have(files) && !sample::leaves_out(&name, ELSEWHERE) {
                tried((way, files), None, &check);
            }
        }
    }
}

/// The same where all files are there. On the host they are in a worktree whatever is said.
pub(super) fn with_files(ways: &[Way], files: Files, check: impl Fn(&Entry)) {
    for &way in ways {
        tried((way, files), None, &check);
    }
    let test = test_name();
    for engine in ["docker", "podman"] {
        let left_out =
            |way: &Way| sample::leaves_out(&format!("{test} {way:?} {engine}"), CONTAINED);
        let contained = ways.iter().copied().filter(|way| *way != Way::OnHost);
        let ways: Vec<Way> = contained.filter(|way| !left_out(way)).collect();
        if ways.is_empty() {
            continue;
        }
        if let Err(why) = own(engine, &["image", "inspect", IMAGE]) {
            skip!("{engine}: {why}");
            continue;
        }
        for way in ways {
            tried((way, files), Some(engine), &check);
        }
    }
}

fn test_name() -> String {
    let test = std::thread::current();
    test.name().unwrap_or_default().to_owned()
}

#[expect(
    clippy::print_stderr,
    reason = "shown where it fails: in which way, and where"
)]
fn tried((way, files): (Way, Files), engine: Option<&'static str>, check: impl Fn(&Entry)) {
    let place = engine.unwrap_or("no container");
    eprintln!("{way:?}, its files {files:?}, in {place}");
    let entry = Entry {
        way,
        files,
        engine,
        lives: Lives::with_engines(),
    };
    entry
        .lives
        .write(".cofferdam/.env", "ANTHROPIC_API_KEY=none\n");
    let text = "[user]\n\temail = own@example.com\n[mark]\n\tof = the-user\n";
    let global = entry.lives.puts(".gitconfig", text);
    assert_eq!(entry.lives.git(&["config", "mark.of"]), "the-user");
    check(&entry);
    assert_eq!(std::fs::read_to_string(global).unwrap(), text, "{way:?}");
}
