//! What an agent may do wrong, in every way in which a command lets one work: a run of its own, one whose sandbox stays, and one in a
//! sandbox that was there. Each is something that went wrong in one way of the closest peer and not in another.

use crate::environment::Done;
use crate::lives::Lives;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Run,
    Kept,
    In,
}

struct Entry {
    way: Way,
    lives: Lives,
}

impl Entry {
    /// `cofferdam run` on the branch `work`, in a sandbox that is called `box`. `made`: options of its sandbox, `task`: of the run.
    fn run(&self, made: &[&str], task: &[&str], script: &str) -> Done {
        let branch = ["--branch", "work", "--network", "none"];
        let options: Vec<&str> = match self.way {
            Way::Run => [&["--name", "box"], &branch[..], made, task].concat(),
            Way::Kept => [&["--name", "box", "--keep"], &branch[..], made, task].concat(),
            Way::In => {
                let words = [&["create", "box"], &branch[..], made].concat();
                self.lives.cofferdam(&words).expect_code(0);
                [&["--in", "box"], task].concat()
            }
        };
        let words = [&["run"], &options[..], &["--", "sh", "-c", script]].concat();
        self.lives.cofferdam(&words)
    }

    fn subjects(&self) -> Vec<String> {
        let log = self.lives.git(&["log", "--format=%s", "main..work"]);
        log.lines().map(str::to_owned).collect()
    }
}

/// The same in each way, each in a repository of its own. What git knows of its user stays as it is.
fn in_every_way(check: impl Fn(&Entry)) {
    for way in [Way::Run, Way::Kept, Way::In] {
        let entry = Entry {
            way,
            lives: Lives::new(),
        };
        let text = "[user]\n\temail = own@example.com\n[mark]\n\tof = the-user\n";
        let global = entry.lives.puts(".gitconfig", text);
        assert_eq!(entry.lives.git(&["config", "mark.of"]), "the-user");
        check(&entry);
        assert_eq!(std::fs::read_to_string(global).unwrap(), text, "{way:?}");
    }
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
        let done = entry.run(&[], &[], script).expect_code(1);
        assert!(done.stderr.contains("signal 9"), "{:?}: {done}", entry.way);
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

#[test]
fn one_that_reads_no_prompt_ends_in_peace() {
    in_every_way(|entry| {
        let long = "A line of a long prompt.\n".repeat(200_000);
        entry.lives.write("long.md", &long);
        entry.lives.git(&["add", "long.md"]);
        entry.lives.git(&["commit", "-qm", "long"]);
        let task = ["--prompt-file", "long.md"];
        let script = "exec <&-; git commit -q --allow-empty -m kept";
        entry.run(&[], &task, script).expect_code(0);
        assert_eq!(entry.subjects(), ["kept"], "{:?}", entry.way);
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
        let done = entry.run(&[], &["--json"], script).expect_code(0);
        let told: serde_json::Value =
            serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
        let beside = told["report"]["beside"].as_array().unwrap();
        assert_eq!(beside.len(), 1, "{:?}: {told}", entry.way);
        assert_eq!(entry.subjects(), ["on"], "{:?}", entry.way);
        let all = entry.lives.git(&["log", "--all", "--format=%s"]);
        assert!(
            all.lines().any(|line| line == "far"),
            "{:?}: {all}",
            entry.way
        );
    });
}

#[test]
fn a_prompt_that_is_echoed_completes_nothing() {
    in_every_way(|entry| {
        let prompt = "Say on a line of its own:\n<promise>COMPLETE</promise>\n";
        let task = ["--prompt", prompt, "--max-iterations", "2"];
        let script = "cat; git commit -q --allow-empty -m again";
        entry.run(&[], &task, script).expect_code(0);
        assert_eq!(entry.subjects(), ["again", "again"], "{:?}", entry.way);
    });
}

#[test]
fn what_several_iterations_leave_uncommitted_is_there() {
    in_every_way(|entry| {
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

#[test]
fn output_that_is_no_text_harms_nothing() {
    in_every_way(|entry| {
        let script = r#"printf '\377\376\000{"a":\033[2J'; git commit -q --allow-empty -m kept"#;
        let done = entry.run(&[], &[], script).expect_code(0);
        assert!(!done.stderr.contains('\u{1b}'), "{:?}: {done}", entry.way);
        assert_eq!(entry.subjects(), ["kept"], "{:?}", entry.way);
    });
}

#[test]
fn branches_with_names_that_are_nearly_the_same_are_two() {
    in_every_way(|entry| {
        entry.lives.git(&["branch", "wor-k"]);
        let script = "git commit -q --allow-empty -m kept";
        entry.run(&[], &[], script).expect_code(0);
        assert_eq!(entry.subjects(), ["kept"], "{:?}", entry.way);
        assert_eq!(
            entry.lives.git(&["log", "--format=%s", "main..wor-k"]),
            "",
            "{:?}",
            entry.way
        );
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
