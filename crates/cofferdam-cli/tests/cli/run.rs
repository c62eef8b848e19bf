//! The main job, from the command line.

use std::process::Stdio;

use crate::environment::{TestEnvironment, check, commit_script, finish};

// covers: S2-10
#[test]
fn layers_and_merge_to_head_are_the_default_and_the_first_line_says_so() {
    let environment = TestEnvironment::with_repository();
    // Nothing of it is in the checkout before the gate has seen it, and all of it afterwards.
    let script = commit_script(&["a"]) + "git branch --show-current; echo here > left";
    let done = environment.run(&["--name", "one"], &script).expect_code(0);
    let first = done.stderr.lines().next().unwrap();
    assert_eq!(
        first,
        "merge-to-head, mode layer (both the default): the agent works on cofferdam/one, its commits are merged into main"
    );
    assert!(done.stderr.contains("  | cofferdam/one"), "{done}");
    assert_eq!(environment.git(&["log", "--format=%s"]), "a\nstart");
    assert_eq!(environment.read("a.txt"), "a\n");
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
    environment
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
    environment.expect_clean();
}

/// What a layer's index says of its files is so inside, where another directory is over them: git reads none at its first look.
#[test]
fn the_first_status_inside_reads_no_file() {
    let environment = TestEnvironment::with_repository();
    environment.write("secret", "x\n");
    environment.git(&["add", "secret"]);
    environment.git(&["commit", "--quiet", "--message=more"]);
    // What is only compared by its content is named there; a file that is no older than its index git reads in any case.
    let told = "test -z \"$(git diff-files --name-only)\" &&
        test $(stat -c %Y \"$(git rev-parse --git-dir)/index\") -gt $(stat -c %Y README.md)";
    for hidden in [&[][..], &["--hide", "secret"]] {
        let options = [&["--mode", "layer", "-q"], hidden].concat();
        environment.run(&options, told).expect_code(0);
        let touched = format!("touch README.md; {told}");
        environment.run(&options, &touched).expect_code(1);
    }
}

// covers: S2-9
#[test]
fn head_works_in_the_checkout_itself() {
    let environment = TestEnvironment::with_repository();
    environment.write("mine", "the users own\n");
    let script = commit_script(&["a"]) + "cat mine; git branch --show-current";
    let done = environment.run(&["--head"], &script).expect_code(0);
    let said = "  | the users own\n  | main\n";
    assert!(done.stderr.contains(said), "{done}");
    assert_eq!(environment.git(&["log", "--format=%s"]), "a\nstart");
    assert_eq!(environment.git(&["status", "--porcelain"]), "?? mine");
    environment.expect_clean();
}

/// Whoever named one sees that it was heard, and whoever named none, why it is what it is.
#[test]
fn the_first_line_says_what_was_chosen_and_why() {
    let environment = TestEnvironment::with_repository();
    for (options, says) in [
        (&["--head"][..], "head: the agent works in this checkout, "),
        (
            &["--merge-to-head"],
            "merge-to-head, mode layer (the default): the agent works on cofferdam/",
        ),
        (
            &["--branch", "b"],
            "branch, mode layer (the default): the agent's commits land on b",
        ),
        (
            &["--mode", "bind"],
            "merge-to-head (the default), mode bind (as asked): the agent works on cofferdam/",
        ),
        (
            &["--mode", "copy", "--branch", "c"],
            "branch, mode copy (as asked): the agent's commits land on c",
        ),
        (
            &["--on-worktree-ready", "true"],
            "merge-to-head (the default), mode bind (a hook on the host needs the directory): ",
        ),
        (
            &["--on-host-ready", "true", "--branch", "d"],
            "branch, mode bind (a hook on the host needs the directory): ",
        ),
        (
            &["--on-sandbox-ready", "true"],
            "merge-to-head, mode layer (both the default): ",
        ),
    ] {
        let done = environment.run(options, "true").expect_code(0);
        assert!(done.stderr.starts_with(says), "{options:?}: {done}");
        assert!(
            done.stdout.contains("nothing: the agent made no commit"),
            "{done}"
        );
    }
}

/// Where layers cannot be, the default is a worktree, and who asks for them is refused.
#[test]
fn without_layers_it_is_a_worktree_and_the_first_line_says_why() {
    let environment = TestEnvironment::with_repository();
    // A place for them that is none.
    let home = environment.home().join(".cofferdam");
    cofferdam::fsx::private_dir(&home).unwrap();
    cofferdam::fsx::write_private(&home.join("trees"), b"").unwrap();
    let done = environment.run(&[], &commit_script(&["a"])).expect_code(0);
    let says = "merge-to-head (the default), mode bind (layers are not possible here: ";
    assert!(done.stderr.starts_with(says), "{done}");
    assert_eq!(environment.read("a.txt"), "a\n");
    let refused = environment.run(&["--mode", "layer"], "true").expect_code(1);
    let says = "error: layers are not possible here: ";
    assert!(refused.stderr.starts_with(says), "{refused}");
    assert!(
        refused.stderr.contains("\nhint: leave out `--mode layer`"),
        "{refused}"
    );
    environment.expect_clean();
}

// covers: S2-10
#[test]
fn merge_to_head_lands_and_says_what_and_where() {
    let environment = TestEnvironment::with_repository();
    let done = environment
        .run(
            &["--merge-to-head", "--name", "one", "--no-log"],
            &commit_script(&["a", "b"]),
        )
        .expect_code(0);
    check!(environment, done.stdout, @"

    landed: 2 commits on main, which is now at [SHORT]
      [SHORT] a
      [SHORT] b
      a.txt | 1 +
      b.txt | 1 +
      2 files changed, 2 insertions(+)
    1 iteration, [TIME]
    next: git log -p -a --diff-merges=first-parent --no-ext-diff --no-textconv [SHORT]..main
    ");
    assert_eq!(environment.read("a.txt"), "a\n");
    environment.expect_clean();
}

// covers: S2-11
#[test]
fn branch_lands_on_its_branch_only() {
    let environment = TestEnvironment::with_repository();
    let main = environment.git(&["rev-parse", "main"]);
    let done = environment
        .run(&["--branch", "feature/x"], &commit_script(&["a"]))
        .expect_code(0);
    assert!(
        done.stdout.contains("landed: 1 commit on feature/x"),
        "{done}"
    );
    assert!(done.stdout.contains("next: cofferdam merge "), "{done}");
    assert_eq!(environment.git(&["rev-parse", "main"]), main);
    assert_eq!(
        environment.git(&["log", "-1", "--format=%s", "feature/x"]),
        "a"
    );
}

// covers: S2-10
#[test]
fn copy_mode_works_on_a_copy() {
    for mode in ["layer", "copy"] {
        let environment = TestEnvironment::with_repository();
        environment
            .run(&["--mode", mode], &commit_script(&["a"]))
            .expect_code(0);
        assert_eq!(environment.read("a.txt"), "a\n");
        assert_eq!(
            environment.git(&["log", "-1", "--format=%s", "main", "--", "a.txt"]),
            "a"
        );
    }
}

// covers: S2-16 S2-17
#[test]
fn iterations_end_with_the_signal() {
    let environment = TestEnvironment::with_repository();
    let script = "n=$(git rev-list --count HEAD); echo $n > n.txt; git add n.txt; git commit -qm $n; \
                  [ $n = 2 ] && echo ALL-DONE; true";
    let done = environment
        .run(
            &[
                "--branch",
                "b",
                "--max-iterations",
                "5",
                "--completion-signal",
                "ALL-DONE",
            ],
            script,
        )
        .expect_code(0);
    assert!(done.stdout.contains("2 iterations"), "{done}");
    assert!(done.stdout.contains("signalled completion"), "{done}");
    assert_eq!(environment.git(&["rev-list", "--count", "main..b"]), "2");
}

// covers: S2-25 S2-26 S2-27 S2-28
#[test]
fn prompts_reach_the_agent() {
    let environment = TestEnvironment::with_repository();
    let done = environment
        .run(&["--prompt", "do {{THIS}} now"], "cat")
        .expect_code(0);
    assert!(done.stderr.contains("  | do {{THIS}} now"), "{done}");
    environment.write("prompt.md", "fix {{WHAT}} at !`echo home`\n");
    environment.git(&["add", "prompt.md"]);
    environment.git(&["commit", "--quiet", "--message=prompt"]);
    let done = environment
        .run(
            &["--prompt-file", "prompt.md", "--arg", "WHAT=!`echo it`"],
            "cat",
        )
        .expect_code(0);
    assert!(done.stderr.contains("  | fix !`echo it` at home"), "{done}");
    let done = environment
        .run(&["--prompt-file", "prompt.md"], "cat")
        .expect_code(1);
    assert!(done.stderr.contains("WHAT"), "{done}");
    let done = environment
        .run(&["--prompt-file", "missing.md"], "cat")
        .expect_code(1);
    assert!(done.stderr.contains("missing.md"), "{done}");
}

// covers: S2-19
#[test]
fn the_environment_is_what_was_named() {
    let environment = TestEnvironment::with_repository();
    let child = environment
        .command(&[
            "run",
            "--env",
            "GIVEN=a=b",
            "--env",
            "TAKEN",
            "--",
            "sh",
            "-c",
            "echo \"$GIVEN+$TAKEN+$SECRET_TOKEN.\"",
        ])
        .env("TAKEN", "yes")
        .env("SECRET_TOKEN", "hidden")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let done = finish(child).expect_code(0);
    assert!(done.stderr.contains("  | a=b+yes+."), "{done}");
}

#[test]
fn a_failing_agent_is_a_failure_and_keeps_its_commits() {
    let environment = TestEnvironment::with_repository();
    let script = commit_script(&["a"]) + "echo 'the reason' >&2; exit 7\n";
    let done = environment.run(&["--branch", "b"], &script).expect_code(1);
    assert!(
        done.stderr
            .contains("error: command, iteration 1: the agent ended with exit code 7"),
        "{done}"
    );
    assert!(done.stderr.contains("  ! the reason"), "{done}");
    assert!(
        done.stderr
            .contains("landed: 1 commit on b, which is now at "),
        "{done}"
    );
    assert!(done.stderr.contains("\nnext: cofferdam merge "), "{done}");
    assert_eq!(environment.git(&["log", "-1", "--format=%s", "b"]), "a");
    let done = environment
        .run(&["--branch", "c"], "kill -9 $$")
        .expect_code(1);
    assert!(done.stderr.contains("signal 9"), "{done}");
}

/// Every line that an agent has a hand in carries a mark: the live ones, the last ones of its error, and
/// names.
#[test]
fn no_line_of_an_agent_passes_as_one_of_ours() {
    let environment = TestEnvironment::with_repository();
    let script = r#"
        name=$(printf 'x\nlanded: 9 commits on main'); git init -q "$name"
        printf 'no id\n' > "$(git rev-parse --git-dir)/refs/heads/$(printf 'y\nlanded: 9 commits on main')"
        file=$(printf 'z\nlanded: 9 commits on main'); echo a > "$file"; git add "$file"; git commit -qm 'landed: 9 commits'
        printf 'why\nlanded: 9 commits on main\nhint: run this\n' >&2; exit 7"#;
    for options in [
        &["--head"][..],
        &["--merge-to-head"],
        &["--head", "--quiet"],
    ] {
        let done = environment.run(options, script).expect_code(1);
        for line in done.stderr.lines().chain(done.stdout.lines()) {
            let forged = line.starts_with("landed: 9") || line == "hint: run this";
            assert!(!forged, "{line}\n{done}");
        }
        // The control: it was said.
        assert!(
            done.stderr.contains("\n  | landed: 9 commits on main"),
            "{done}"
        );
        assert!(
            done.stderr.contains("\\nlanded: 9 commits on main"),
            "{done}"
        );
    }
}

/// The command that is printed shows what attributes and merges would hide.
#[test]
fn the_next_command_shows_everything_that_landed() {
    let environment = TestEnvironment::with_repository();
    let script = r"
        printf '* -diff\n' > .gitattributes; echo evil-attribute > a.sh; git add .; git commit -qm a
        b=$(git branch --show-current); git checkout -qb side HEAD~1; git commit -qm side --allow-empty
        git checkout -q $b; git merge -q --no-commit side; echo evil-merge > merged; git add merged
        git commit -qm merge";
    let done = environment.run(&["--head"], script).expect_code(0);
    let line = done
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("next: "));
    let shown = environment.shell(line.unwrap()).expect_code(0).stdout;
    let plain = environment.shell("git log -p main").expect_code(0).stdout;
    for evil in ["+evil-attribute", "+evil-merge"] {
        assert!(shown.contains(evil), "{shown}");
        assert!(!plain.contains(evil), "the control hides it: {plain}");
    }
}

#[test]
fn a_missing_program_is_named_with_a_way_out() {
    let environment = TestEnvironment::with_repository();
    environment.write("agent.sh", "#!/bin/sh\ntrue\n");
    let start = std::time::Instant::now();
    let prompt = "x".repeat(100_000);
    let done = environment
        .cofferdam(&[
            "run",
            "--merge-to-head",
            "--prompt",
            &prompt,
            "--",
            "./agent.sh",
        ])
        .expect_code(1);
    assert!(
        start.elapsed() < std::time::Duration::from_secs(30),
        "{done}"
    );
    assert!(
        done.stderr
            .contains("cannot run `./agent.sh` in the sandbox"),
        "{done}"
    );
    assert!(
        done.stderr.contains("hint: ") && done.stderr.contains("`--copy agent.sh`"),
        "{done}"
    );
    environment.expect_clean();
}

#[test]
fn copied_files_are_there() {
    let environment = TestEnvironment::with_repository();
    environment.write("agent.sh", "#!/bin/sh\ncat notes/plan\n");
    environment.write("notes/plan", "the plan\n");
    let done = environment
        .cofferdam(&[
            "run",
            "--merge-to-head",
            "--copy",
            "agent.sh",
            "notes",
            "--",
            "sh",
            "./agent.sh",
        ])
        .expect_code(0);
    assert!(done.stderr.contains("  | the plan"), "{done}");
}

// covers: S2-20 S2-21
#[test]
fn hooks_run_where_they_should_and_fail_the_run() {
    let environment = TestEnvironment::with_repository();
    let marker = environment.temporary().join("host-hook");
    let on_host = format!("pwd > '{}'", marker.display());
    let done = environment
        .run(
            &[
                "--merge-to-head",
                "--on-worktree-ready",
                &on_host,
                "--on-sandbox-ready",
                "echo inside > /tmp/sandbox-hook",
            ],
            "cat /tmp/sandbox-hook",
        )
        .expect_code(0);
    assert!(done.stderr.contains("  | inside"), "{done}");
    assert!(
        std::fs::read_to_string(marker)
            .unwrap()
            .contains(".cofferdam/worktrees/")
    );
    let done = environment
        .run(
            &["--on-host-ready", "echo broken; exit 3"],
            "echo agent-ran",
        )
        .expect_code(1);
    assert!(
        done.stderr.contains("broken") && done.stderr.contains("exit code 3"),
        "{done}"
    );
    assert!(!done.stderr.contains("  | agent-ran"), "{done}");
}

#[test]
fn steps_are_named_only_where_they_were_asked_for() {
    let environment = TestEnvironment::with_repository();
    let steps = ["worktree", "private clone", "sandbox", "collect", "dispose"];
    let done = environment
        .run(&["--merge-to-head"], &commit_script(&["a"]))
        .expect_code(0);
    for step in steps {
        assert!(!done.stderr.lines().any(|line| line == step), "{done}");
    }
    let done = environment
        .run(&["--merge-to-head", "-v"], &commit_script(&["b"]))
        .expect_code(0);
    for step in steps {
        assert!(
            done.stderr.lines().any(|line| line == step),
            "{step}: {done}"
        );
    }
}

#[test]
fn json_is_one_object_for_each_event() {
    let environment = TestEnvironment::with_repository();
    let script = commit_script(&["a"]) + "printf 'red \\033[31m \\302\\233\\n'";
    let done = environment
        .run(&["--json", "--merge-to-head"], &script)
        .expect_code(0);
    assert!(!done.stdout.contains(['\u{1b}', '\u{9b}']), "{done}");
    let events: Vec<serde_json::Value> = done
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.first().unwrap()["event"], "planned");
    let last = events.last().unwrap();
    assert_eq!(last["event"], "finished");
    assert_eq!(last["report"]["commits"][0]["subject"], "a");
    let text = events
        .iter()
        .find(|event| event["event"] == "agent" && event["type"] == "text");
    assert_eq!(text.unwrap()["text"], "red \u{1b}[31m \u{9b}");

    let done = environment.run(&["--json"], "exit 3").expect_code(1);
    let last: serde_json::Value =
        serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "failed");
    assert!(last["error"].as_str().unwrap().contains("exit code 3"));
}

// covers: S2-37
#[test]
fn the_run_log_is_named_and_kept() {
    let environment = TestEnvironment::with_repository();
    let logs = environment.repository().canonicalize().unwrap();
    let logs = logs.join(".cofferdam/logs");
    for (options, name) in [
        (&["--name", "one"][..], "main-one.log"),
        (&["--head"], "main.log"),
    ] {
        let done = environment.run(options, "echo hello").expect_code(0);
        let mut lines = done.stderr.lines();
        let line = lines.find_map(|line| line.strip_prefix("log: tail -f "));
        let line = line.unwrap();
        assert_eq!(line, logs.join(name).to_str().unwrap());
        // As printed, it shows what the agent says.
        let shown = environment.shell(&format!("timeout 5 tail -n 50 {line}"));
        assert!(shown.stdout.contains("hello"), "{shown}");
        assert_eq!(environment.git(&["status", "--porcelain"]), "");
    }
    let done = environment
        .run(&["--log", "../own.log"], "echo hello")
        .expect_code(0);
    assert!(done.stderr.contains("own.log"), "{done}");
    let done = environment.run(&["--no-log"], "true").expect_code(0);
    assert!(!done.stderr.contains("log:"), "{done}");
}

#[test]
fn quiet_says_only_how_it_ended() {
    let environment = TestEnvironment::with_repository();
    let done = environment
        .run(&["--quiet"], &commit_script(&["a"]))
        .expect_code(0);
    assert_eq!(done.stderr, "");
    assert!(done.stdout.contains("landed: 1 commit on main"), "{done}");
}

#[track_caller]
fn refused(environment: &TestEnvironment, options: &[&str], error: &str, hint: &str) {
    let done = environment.run(options, "echo agent-ran").expect_code(1);
    assert!(done.stderr.contains(error), "{done}");
    assert!(
        done.stderr.contains("hint: ") && done.stderr.contains(hint),
        "{done}"
    );
    assert!(!done.stderr.contains("  | agent-ran"), "{done}");
}

#[test]
fn unusable_repositories_are_named_with_a_way_out() {
    let environment = TestEnvironment::empty();
    refused(&environment, &[], "is not in a git repository", "git init");
    environment.git(&["init", "--quiet"]);
    refused(
        &environment,
        &[],
        "has no commit yet",
        "git commit --allow-empty",
    );

    let environment = TestEnvironment::empty();
    environment.git(&["init", "--quiet", "--bare"]);
    refused(
        &environment,
        &[],
        "is a bare repository",
        "git worktree add",
    );

    let environment = TestEnvironment::with_repository();
    refused(
        &environment,
        &["--branch", "main"],
        "is checked out in",
        "name another branch",
    );
    refused(
        &environment,
        &["--branch", "x", "--base", "nowhere"],
        "`nowhere`",
        "git log",
    );
    environment.git(&["checkout", "--quiet", "--detach"]);
    refused(
        &environment,
        &["--merge-to-head"],
        "HEAD is detached",
        "git switch",
    );
}

#[test]
fn any_directory_name_will_do() {
    let environment = TestEnvironment::with_repository();
    let cofferdam = env!("CARGO_BIN_EXE_cofferdam");
    let line = format!(
        r#"
        set -eu
        name=$(printf 'a b\n"q\047\377c'); git clone --quiet . "$name"; cd "$name"
        git config user.name a; git config user.email a@example.com
        agent='echo x > x; git add x; git commit -qm x'
        '{cofferdam}' run --json -- sh -c "$agent" | grep -c '"event":"\(planned\|finished\)"'
        '{cofferdam}' run --branch other --name other -- sh -c "echo y > y; git add y; git commit -qm y" 2>log
        '{cofferdam}' list --json | grep -c '"name":"other"'
        eval "$(sed -n 's/^log: tail -f /cat /p' log)" | grep -c 'sandbox other'
        git log --format=%s --all -- | sort
        "#
    );
    let done = environment.shell(&line).expect_code(0);
    assert!(done.stdout.starts_with("2\n"), "{done}");
    assert!(done.stdout.ends_with("1\n1\nstart\nx\ny\n"), "{done}");
}

#[test]
fn a_conflict_at_the_end_keeps_the_branch_and_fails() {
    let environment = TestEnvironment::with_repository();
    let repository = environment.repository();
    let mine = format!(
        "cd '{}' && echo mine > README.md && git commit -qam mine",
        repository.display()
    );
    let done = environment
        .run(
            &[
                "--merge-to-head",
                "--name",
                "clash",
                "--on-host-ready",
                &mine,
            ],
            "echo theirs > README.md; git commit -qam theirs",
        )
        .expect_code(1);
    assert!(
        done.stdout.contains("kept: 1 commit on cofferdam/clash: "),
        "{done}"
    );
    assert!(
        done.stdout.contains("next: git merge cofferdam/clash"),
        "{done}"
    );
    assert_eq!(environment.read("README.md"), "mine\n");
    assert_eq!(
        environment.git(&["log", "--format=%s", "main"]),
        "mine\nstart"
    );
    assert_eq!(
        environment.git(&["log", "-1", "--format=%s", "cofferdam/clash"]),
        "theirs"
    );
    assert_eq!(
        environment.git(&["status", "--porcelain", "--untracked-files=no"]),
        ""
    );
}

#[test]
fn uncommitted_work_is_kept_and_named() {
    let environment = TestEnvironment::with_repository();
    let done = environment
        .run(
            &["--branch", "feature", "--name", "draft", "--mode", "bind"],
            "echo idea > idea.txt",
        )
        .expect_code(0);
    let line = done
        .stdout
        .lines()
        .find(|line| line.starts_with("uncommitted work"))
        .unwrap();
    let path = line.rsplit(' ').next().unwrap();
    assert_eq!(
        std::fs::read_to_string(format!("{path}/idea.txt")).unwrap(),
        "idea\n"
    );
    assert!(
        done.stdout.contains(&format!("next: git -C {path} status")),
        "{done}"
    );
}

/// A layer has all of a commit; a worktree has what the checkout has.
#[test]
fn a_sparse_checkout_has_a_sparse_sandbox() {
    let environment = TestEnvironment::with_repository();
    environment.write("docs/big", "big\n");
    environment.git(&["add", "docs"]);
    environment.git(&["commit", "-qm", "docs"]);
    environment.git(&["sparse-checkout", "set", "src"]);
    let script = "test ! -e docs && echo a >> src/lib.txt && git commit -qam a";
    let done = environment
        .run(&["--branch", "work"], script)
        .expect_code(0);
    let first = done.stderr.lines().next().unwrap();
    assert!(
        first.contains("mode bind (as sparse as this checkout)"),
        "{done}"
    );
    assert_eq!(
        environment.git(&["show", "--format=", "--name-only", "work"]),
        "src/lib.txt"
    );
    environment.git(&["sparse-checkout", "disable"]);
    let whole = ["--branch", "other"];
    environment.run(&whole, "test -e docs/big").expect_code(0);
}
