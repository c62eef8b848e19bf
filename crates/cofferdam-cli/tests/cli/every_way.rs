//! What an agent may do wrong, in every way in which a command lets one work: a run of its own, one whose sandbox stays, one in a
//! sandbox that was there, one that goes on with an earlier conversation, a task of a plan, and one at which its user sits; natively,
//! and in a container of each engine. Each is something that went wrong in one way of the closest peer and not in another. In
//! containers a run of the whole suite tries the share of ways that its seed chooses.
//!
//! What went wrong there in one way alone, or below all of them, has its tests elsewhere:
//!
//! | what | where |
//! |---|---|
//! | without a sandbox no question is asked of the user | `no_sandbox::it_has_the_users_machine_and_asks_them`, `compile_fail/no_sandbox.rs` |
//! | an agent goes on when its run is stopped | `no_sandbox::it_is_stopped_and_loses_nothing`, `lifecycle::cancelling_ends_the_whole_tree_and_collects` |
//! | a prompt with arguments cannot be gone on from | `runs::one_that_is_still_there_is_gone_on_in` |
//! | asking again for an answer loses commits; only the last message counts | `orchestrate::an_answer_that_does_not_fit_is_asked_for_again` |
//! | hooks hang | `lifecycle::failing_and_hanging_hooks_fail_the_run`, `living::what_cannot_be_made_leaves_nothing` (of the library) |
//! | an error says nothing of what was kept | `lifecycle::a_failing_agent_keeps_its_commits_and_its_words` |
//! | input and variables do not arrive | `conformance/streams.rs`, `conformance/programs.rs`, for each kind of sandbox |
//! | nothing is locked | `mistakes::a_busy_branch_names_its_sandbox_and_what_to_do`, `living_runs::one_agent_at_a_time_works_in_it` |
//! | Ctrl-C leaves agents behind | `interrupt`, `living_runs::what_a_stopped_agent_committed_comes_home`, `plan::a_signal_ends_all_and_says_how_to_go_on` |

use std::process::Stdio;

use cofferdam_lab::{sample, skip};
use serde_json::{Value, json};

use crate::containers::{IMAGE, own};
use crate::environment::{Done, finish};
use crate::interactive;
use crate::lives::Lives;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Run,
    Kept,
    In,
    Continue,
    Plan,
    Interactive,
}

const ALL: [Way; 6] = [
    Way::Run,
    Way::Kept,
    Way::In,
    Way::Continue,
    Way::Plan,
    Way::Interactive,
];
/// In which the sandbox is made for this one start.
const AT_ONCE: [Way; 5] = [Way::Run, Way::Kept, Way::In, Way::Plan, Way::Interactive];
/// In which nobody sits there.
const UNATTENDED: [Way; 5] = [Way::Run, Way::Kept, Way::In, Way::Continue, Way::Plan];
/// In which any program is an agent: it is started again and again, and what it prints is read.
const PRINTING: [Way; 4] = [Way::Run, Way::Kept, Way::In, Way::Plan];

/// In containers a whole run tries one way of so many.
const CONTAINED: u64 = 8;

struct Entry {
    way: Way,
    /// Whose container it is in.
    engine: Option<&'static str>,
    lives: Lives,
}

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

impl Entry {
    /// `cofferdam run` on the branch `work`, in a sandbox that is called `box`. `made`: options of its sandbox, `task`: of the run.
    fn run(&self, made: &[&str], task: &[&str], script: &str) -> Done {
        self.run_on(("box", Some("work")), made, task, script)
    }

    /// Without a branch its commits are to be merged into what is checked out.
    fn run_on(
        &self,
        (name, branch): (&str, Option<&str>),
        made: &[&str],
        task: &[&str],
        script: &str,
    ) -> Done {
        let strategy = match &branch {
            Some(branch) => &["--branch", branch][..],
            None => &["--merge-to-head"],
        };
        let programs = self.lives.home().join("tools/bin");
        let programs = format!("{}:{INSIDE}", programs.display());
        let contained = match &self.engine {
            None => Vec::new(),
            Some(engine) => vec!["--sandbox", engine, "--image", IMAGE],
        };
        let known = match (self.way, self.engine) {
            (Way::Continue | Way::Interactive, Some(_)) => {
                vec!["--mount", &programs, "--env", SEARCH]
            }
            _ => Vec::new(),
        };
        let contained = [&["--network", "none"], &contained[..], &known].concat();
        let made = [&contained, made].concat();
        let named = [&["--name", name], strategy, &made[..], task].concat();
        let options = match self.way {
            Way::Run => named,
            Way::Kept => [&["--keep"], &named[..]].concat(),
            Way::In => {
                let words = [&["create", name], strategy, &made[..]].concat();
                let created = self.lives.cofferdam(&words);
                if !created.status.success() {
                    return created;
                }
                [&["--in", name], task].concat()
            }
            Way::Continue => {
                let rest = format!("{CONVERSING}{script}\nends\n");
                self.lives.has_program("claude", &rest);
                let begin = ["--agent", "claude-code", "--prompt", "begin"];
                let first = [&["run", "--name", name], strategy, &contained, &begin].concat();
                self.with_programs(&first).expect_code(0);
                let asked = task.iter().any(|word| word.starts_with("--prompt"));
                let more: &[&str] = if asked { &[] } else { &["--prompt", "more"] };
                let words = [&["continue", name, "--name", name], &made[..], task, more].concat();
                return self.with_programs(&words);
            }
            Way::Plan => {
                let words = [&made[..], task].concat();
                let (task, others) = task_of((name, branch), &words);
                self.lives
                    .write("plan.json", &json!({ "tasks": [task] }).to_string());
                [&["--plan", "plan.json", "--again"], &others[..]].concat()
            }
            Way::Interactive => return self.attended(&named, script),
        };
        let words = [&["run"], &options[..], &["--", "sh", "-c", script]].concat();
        self.lives.cofferdam(&words)
    }

    /// Its prompt is the last word for it there; a terminal has all that is said.
    fn attended(&self, options: &[&str], script: &str) -> Done {
        let asked = "for asked; do :; done; printf %s \"$asked\" > /tmp/asked; exec < /tmp/asked";
        let program = format!("#!/bin/sh\n{asked}\n{script}\n");
        self.lives.has_program("claude", &program);
        let words = [&["--agent", "claude-code"], options].concat();
        interactive::at(&self.lives, &words).done()
    }

    /// The command, where programs of the user's own are found.
    fn with_programs(&self, words: &[&str]) -> Done {
        let mut command = self.lives.command(words);
        let search = format!("{}/tools/bin:/usr/bin:/bin", self.lives.home().display());
        command
            .env("PATH", search)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    }

    fn subjects_on(&self, branch: &str) -> Vec<String> {
        let new = format!("main..{branch}");
        let log = self.lives.git(&["log", "--format=%s", &new]);
        log.lines().map(str::to_owned).collect()
    }

    fn subjects(&self) -> Vec<String> {
        self.subjects_on("work")
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
fn in_ways(ways: &[Way], check: impl Fn(&Entry)) {
    for &way in ways {
        tried(way, None, &check);
    }
    let test = std::thread::current();
    let test = test.name().unwrap_or_default();
    for engine in ["docker", "podman"] {
        let left_out =
            |way: &Way| sample::leaves_out(&format!("{test} {way:?} {engine}"), CONTAINED);
        let ways: Vec<Way> = ways.iter().copied().filter(|way| !left_out(way)).collect();
        if ways.is_empty() {
            continue;
        }
        if let Err(why) = own(engine, &["image", "inspect", IMAGE]) {
            skip!("{engine}: {why}");
            continue;
        }
        for way in ways {
            tried(way, Some(engine), &check);
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "shown where it fails: in which way, and where"
)]
fn tried(way: Way, engine: Option<&'static str>, check: impl Fn(&Entry)) {
    eprintln!("{way:?} in {}", engine.unwrap_or("the native sandbox"));
    let entry = Entry {
        way,
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

fn in_every_way(check: impl Fn(&Entry)) {
    in_ways(&ALL, check);
}

#[test]
fn a_template_knows_its_branches() {
    in_every_way(|entry| {
        entry
            .lives
            .write("t.md", "S={{SOURCE_BRANCH}} T={{TARGET_BRANCH}} X={{X}}");
        entry.lives.git(&["add", "t.md"]);
        entry.lives.git(&["commit", "-qm", "template"]);
        let task = ["--prompt-file", "t.md", "--arg", "X=$(y) `z`"];
        let script = "cat > got; git add got; git commit -qm got";
        entry.run(&[], &task, script).expect_code(0);
        assert_eq!(
            entry.lives.git(&["show", "work:got"]),
            "S=work T=main X=$(y) `z`",
            "{:?}",
            entry.way
        );
    });
}

#[test]
fn an_agent_that_a_signal_ends_has_failed() {
    in_every_way(|entry| {
        let script = "git commit -q --allow-empty -m kept; kill -9 $$";
        let done = entry.run(&[], &[], script);
        // At a terminal the code is the program's own.
        let code = if entry.way == Way::Interactive {
            137
        } else {
            1
        };
        assert_eq!(done.status.code(), Some(code), "{:?}: {done}", entry.way);
        assert!(
            code == 137 || done.stderr.contains("signal 9"),
            "{:?}: {done}",
            entry.way
        );
        assert_eq!(entry.subjects(), ["kept"], "{:?}", entry.way);
    });
}

#[test]
fn variables_of_its_sandbox_are_there() {
    in_every_way(|entry| {
        let script = "git commit -q --allow-empty -m \"$ONE\"";
        entry.run(&["--env", "ONE=two"], &[], script).expect_code(0);
        assert_eq!(entry.subjects(), ["two"], "{:?}", entry.way);
    });
}

/// At a terminal it is a word.
#[test]
fn one_that_reads_no_prompt_ends_in_peace() {
    in_ways(&UNATTENDED, |entry| {
        let long = "A line of a long prompt.\n".repeat(30_000);
        entry.lives.write("long.md", &long);
        entry.lives.git(&["add", "long.md"]);
        entry.lives.git(&["commit", "-qm", "long"]);
        let task = ["--prompt-file", "long.md"];
        let script = "exec <&-; git commit -q --allow-empty -m kept";
        entry.run(&[], &task, script).expect_code(0);
        assert_eq!(entry.subjects(), ["kept"], "{:?}", entry.way);
    });
}

/// That of a task has a bound, and at a terminal it is a word.
#[test]
fn a_prompt_of_5_mb_arrives_whole() {
    in_ways(&[Way::Run, Way::Kept, Way::In, Way::Continue], |entry| {
        let long = "0123456789 abcdefgh\n".repeat(250_000);
        entry.lives.write("long.md", &long);
        entry.lives.git(&["add", "long.md"]);
        entry.lives.git(&["commit", "-qm", "long"]);
        let task = ["--prompt-file", "long.md"];
        let script = "git commit -q --allow-empty -m \"$(wc -c)\"";
        entry.run(&[], &task, script).expect_code(0);
        assert_eq!(entry.subjects(), ["5000000"], "{:?}", entry.way);
    });
}

/// It works on without its branch, and on one of its own that goes on from that: it is one history.
#[test]
fn commits_beside_the_branch_come_home() {
    in_every_way(|entry| {
        let script = "git commit -q --allow-empty -m on; git checkout -q --detach; \
            git commit -q --allow-empty -m beside; git checkout -q -b other; git commit -q --allow-empty -m far";
        entry.run(&[], &[], script).expect_code(0);
        assert_eq!(entry.subjects(), ["far", "beside", "on"], "{:?}", entry.way);
    });
}

/// What does not go on from the branch is told, and kept.
#[test]
fn commits_of_another_history_are_told() {
    in_every_way(|entry| {
        let script = "git checkout -q -b other; git commit -q --allow-empty -m far; \
            git checkout -q work; git commit -q --allow-empty -m on";
        let done = entry.run(&[], &[], script).expect_code(0);
        assert_eq!(entry.subjects(), ["on"], "{:?}", entry.way);
        let kept = ["for-each-ref", "--format=%(refname) %(subject)"];
        let kept = entry.lives.git(&kept);
        let mut kept = kept.lines().filter_map(|line| line.strip_suffix(" far"));
        let name = kept.next().unwrap();
        let told = format!("(other) are kept at {name}");
        assert!(done.stderr.contains(&told), "{:?}: {done}", entry.way);
    });
}

#[test]
fn a_prompt_that_is_echoed_completes_nothing() {
    in_ways(&PRINTING, |entry| {
        let prompt = "Say on a line of its own:\n<promise>COMPLETE</promise>\n";
        let task = ["--prompt", prompt, "--max-iterations", "2"];
        let script = "cat; git commit -q --allow-empty -m again";
        entry.run(&[], &task, script).expect_code(0);
        assert_eq!(entry.subjects(), ["again", "again"], "{:?}", entry.way);
    });
}

#[test]
fn what_several_iterations_leave_uncommitted_is_there() {
    in_ways(&UNATTENDED, |entry| {
        let script = "echo line >> draft";
        entry
            .run(&[], &["--max-iterations", "3"], script)
            .expect_code(0);
        let draft = entry
            .lives
            .cofferdam(&["diff", "--uncommitted", "box"])
            .expect_code(0)
            .stdout;
        assert_eq!(
            draft.matches("+line").count(),
            3,
            "{:?}: {draft}",
            entry.way
        );
    });
}

/// At a terminal it is the terminal's.
#[test]
fn output_that_is_no_text_harms_nothing() {
    in_ways(&UNATTENDED, |entry| {
        let script = r#"printf '\377\376\000{"a":\033[2J'; git commit -q --allow-empty -m kept"#;
        let done = entry.run(&[], &[], script).expect_code(0);
        assert!(!done.stderr.contains('\u{1b}'), "{:?}: {done}", entry.way);
        assert_eq!(entry.subjects(), ["kept"], "{:?}", entry.way);
    });
}

/// What it sets for all repositories of its user is its sandbox's alone.
#[test]
fn its_settings_of_git_are_its_own() {
    in_every_way(|entry| {
        let script = "git config --global mark.of agent; \
            git commit -q --allow-empty -m \"$(git config --global mark.of)\"";
        entry.run(&[], &[], script).expect_code(0);
        assert_eq!(entry.subjects(), ["agent"], "{:?}", entry.way);
    });
}

#[test]
fn branches_with_names_that_are_nearly_the_same_are_two() {
    in_every_way(|entry| {
        entry.lives.git(&["branch", "wor-k"]);
        let script = "git commit -q --allow-empty -m kept";
        entry.run(&[], &[], script).expect_code(0);
        assert_eq!(entry.subjects(), ["kept"], "{:?}", entry.way);
        assert_eq!(entry.subjects_on("wor-k"), [""; 0], "{:?}", entry.way);
    });
}

/// The user and the agent change the same line: nothing of a merge is left in the checkout, and what is said next is the user's own.
#[test]
fn a_conflict_leaves_no_half_merge() {
    in_ways(&AT_ONCE, |entry| {
        let (way, lives) = (entry.way, &entry.lives);
        let top = lives.repository();
        let mine = format!(
            "cd '{}' && echo mine > README.md && git commit -qam mine",
            top.display()
        );
        let made = ["--on-host-ready", &mine];
        let script = "echo theirs > README.md; git commit -qam theirs";
        let mut done = entry.run_on(("box", None), &made, &[], script);
        if !matches!(way, Way::Run | Way::Interactive) {
            done.expect_code(0);
            done = lives.cofferdam(&["merge", "box"]);
        }
        done = done.expect_code(1);
        let half = top.join(".git/MERGE_HEAD");
        assert!(!half.exists(), "{way:?}: {done}");
        let tracked = ["status", "--porcelain", "--untracked-files=no"];
        assert_eq!(lives.git(&tracked), "", "{way:?}: {done}");
        assert_eq!(lives.read("README.md"), "mine\n", "{way:?}: {done}");
        let log = lives.git(&["log", "--format=%s"]);
        assert_eq!(log, "mine\nstart", "{way:?}: {done}");
        assert_eq!(entry.subjects_on("cofferdam/box"), ["theirs"], "{way:?}");
        let said = format!("{}{}", done.stdout, done.stderr);
        let next = "git merge cofferdam/box";
        assert!(said.contains(next), "{way:?}: {done}");
        // The control: with it they begin the merge that was not begun for them.
        lives.shell(next).expect_code(1);
        assert!(half.exists(), "{way:?}");
    });
}

/// Two branches whose directories would have one name, the second made while the first one's has work in no commit.
#[test]
fn branches_that_differ_in_a_separator_are_two() {
    in_every_way(|entry| {
        let branches = [("one", "a/b"), ("two", "a-b")];
        for (name, branch) in branches {
            let script = format!(
                "git commit -q --allow-empty -m \"$(git branch --show-current)\"; echo {branch} >> left"
            );
            entry
                .run_on((name, Some(branch)), &["--mode", "bind"], &[], &script)
                .expect_code(0);
        }
        for (_, branch) in branches {
            assert_eq!(entry.subjects_on(branch), [branch], "{:?}", entry.way);
        }
        let left = "cd .cofferdam/worktrees && cat */left | sort";
        let left = entry.lives.shell(left).expect_code(0).stdout;
        assert_eq!(left, "a-b\na/b\n", "{:?}", entry.way);
    });
}

#[test]
fn its_branch_begins_where_it_was_told() {
    in_ways(&AT_ONCE, |entry| {
        entry
            .lives
            .git(&["commit", "-q", "--allow-empty", "-m", "later"]);
        let script = "git commit -q --allow-empty -m kept";
        entry.run(&["--base", "main~1"], &[], script).expect_code(0);
        let log = entry.lives.git(&["log", "--format=%s", "work"]);
        assert_eq!(log, "kept\nstart", "{:?}", entry.way);
    });
}

/// The checkout is on no branch: it stays where it is.
#[test]
fn a_checkout_on_no_branch_is_one_to_work_beside() {
    in_every_way(|entry| {
        entry.lives.git(&["checkout", "-q", "--detach"]);
        let before = entry.lives.git(&["rev-parse", "HEAD"]);
        let script = "git commit -q --allow-empty -m kept";
        entry.run(&[], &[], script).expect_code(0);
        assert_eq!(entry.subjects(), ["kept"], "{:?}", entry.way);
        assert_eq!(entry.lives.git(&["rev-parse", "HEAD"]), before);
        assert_eq!(entry.lives.git(&["branch", "--show-current"]), "");
    });
}

/// Its code counts, inside and on the host: no agent is started.
#[test]
fn a_hook_that_fails_ends_it() {
    for hook in [
        "--on-sandbox-ready",
        "--on-host-ready",
        "--on-worktree-ready",
    ] {
        in_every_way(|entry| {
            let made = [hook, "echo why; exit 3"];
            let script = "git commit -q --allow-empty -m never";
            let done = entry.run(&made, &[], script).expect_code(1);
            let told = done.stderr.contains("why") && done.stderr.contains("exit code 3");
            assert!(told, "{:?}, {hook}: {done}", entry.way);
            let all = entry.lives.git(&["log", "--all", "--format=%s"]);
            assert_eq!(all, "start", "{:?}, {hook}", entry.way);
        });
    }
}

/// Also where it fails: neither its commits nor what is in none are thrown away.
#[test]
fn what_a_failing_one_leaves_uncommitted_is_there() {
    in_every_way(|entry| {
        let script = "git commit -q --allow-empty -m kept; echo line > draft; exit 7";
        let done = entry.run(&[], &[], script);
        assert!(!done.status.success(), "{:?}: {done}", entry.way);
        assert_eq!(entry.subjects(), ["kept"], "{:?}", entry.way);
        let draft = ["diff", "--uncommitted", "box"];
        let draft = entry.lives.cofferdam(&draft).expect_code(0).stdout;
        assert!(draft.contains("\n+line\n"), "{:?}: {draft}", entry.way);
    });
}

/// It hangs before its signal, in the middle of it, and after it, or ends, and what it started beside itself goes on: all of them end in
/// time. In a sandbox that stays, what an agent left there that ended by itself is the sandbox's and ends with that, and so is what it
/// put into a session of its own.
#[test]
fn one_that_hangs_ends_with_all_that_it_started() {
    // Numbers that nothing else sleeps for.
    let [child, apart] = [600, 601].map(|number| format!("{number}.{}", std::process::id()));
    let is_alive = |mark: &str| {
        let words = format!("sleep\0{mark}\0");
        let mut all = std::fs::read_dir("/proc").unwrap().flatten();
        all.any(|one| {
            std::fs::read(one.path().join("cmdline")).is_ok_and(|its| its == words.as_bytes())
        })
    };
    let signal = "<promise>COMPLETE</promise>";
    for (then, code) in [
        (format!("sleep {child}"), 1),
        (format!("printf '{}'; sleep {child}", &signal[..12]), 1),
        (format!("echo '{signal}'; sleep {child}"), 0),
        (format!("echo '{signal}'; exit 0"), 0),
    ] {
        in_ways(&PRINTING, |entry| {
            let script = format!(
                "git commit -q --allow-empty -m kept; (setsid sh -c 'touch /tmp/on; exec sleep {apart}' &)
                sleep {child} & until [ -e /tmp/on ]; do sleep 0.01; done; {then}"
            );
            let task = ["--idle-timeout", "2s", "--grace", "1s"];
            let done = entry.run(&[], &task, &script).expect_code(code);
            let what = format!("{:?}, {then}: {done}", entry.way);
            assert_eq!(entry.subjects(), ["kept"], "{what}");
            assert_eq!(done.stderr.contains("printed nothing"), code == 1, "{what}");
            let stays = matches!(entry.way, Way::Kept | Way::In);
            let ended_by_itself = then.ends_with("exit 0");
            assert_eq!(is_alive(&child), stays && ended_by_itself, "{what}");
            assert_eq!(is_alive(&apart), stays, "{what}");
            if stays {
                let delete = ["delete", "--force", "box"];
                entry.lives.cofferdam(&delete).expect_code(0);
            }
            assert!(!is_alive(&child) && !is_alive(&apart), "{what}");
        });
    }
}
