//! What people get wrong the first time: the message names the thing, and the hint is the next step.

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::environment::{Done, TestEnvironment, commit_script};

#[track_caller]
fn hinted(done: &Done, hint: &str) {
    let found = done
        .stderr
        .lines()
        .any(|line| line == format!("hint: {hint}"));
    assert!(found, "no hint `{hint}` in {done}");
}

fn executable(environment: &TestEnvironment, path: &str, text: &str) {
    environment.write(path, text);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(environment.repository().join(path), mode).unwrap();
}

#[test]
fn a_git_that_cannot_start_is_to_be_installed() {
    let environment = TestEnvironment::with_repository();
    executable(&environment, "bin/git", "#!/nowhere/sh\n");
    let bin = environment.repository().join("bin");
    for command in ["list", "create box"] {
        let line = format!(
            "PATH='{}' exec '{}' {command}",
            bin.display(),
            env!("CARGO_BIN_EXE_cofferdam")
        );
        let done = environment.shell(&line).expect_code(1);
        hinted(
            &done,
            "install git 2.39 or newer, for example with `apt-get install git`",
        );
    }
}

#[test]
fn a_word_that_is_wrong_is_explained_by_the_help_of_its_command() {
    let environment = TestEnvironment::with_repository();
    environment.write("prompt.md", "do it\n");
    for (command, rest) in [
        ("run", &["--", "true"][..]),
        ("create", &["box"]),
        ("exec", &["box", "--", "true"]),
        ("prompt check", &["prompt.md", "--run"]),
        ("start", &[]),
        ("show-run", &["--sandbox", "docker"]),
    ] {
        let words: Vec<&str> = command.split(' ').chain(["--env", "=x"]).collect();
        let done = environment.cofferdam(&[&words[..], rest].concat());
        let done = done.expect_code(2);
        hinted(&done, &format!("see `cofferdam {command} --help`"));
    }
}

#[test]
fn a_program_that_cannot_start_has_a_next_step_of_its_own() {
    let environment = TestEnvironment::with_repository();
    environment.write("plain.sh", "#!/bin/sh\ntrue\n");
    executable(&environment, "windows.sh", "#!/bin/sh\r\ntrue\r\n");
    executable(&environment, "tools/agent.sh", "#!/bin/sh\ntrue\n");
    let failed = |arguments: &[&str]| {
        let arguments = [&["run"], arguments].concat();
        environment.cofferdam(&arguments).expect_code(1)
    };
    let top = environment.repository();
    let top = top.to_str().unwrap();

    hinted(
        &failed(&["--head", "--", "./plain.sh"]),
        "make it executable with `chmod +x plain.sh`",
    );
    hinted(
        &failed(&["--", "./plain.sh"]),
        "make it executable with `chmod +x plain.sh`, then commit it or add `--copy plain.sh`",
    );
    environment.shell("chmod +x plain.sh").expect_code(0);
    environment
        .cofferdam(&["run", "--head", "--", "./plain.sh"])
        .expect_code(0);

    let done = failed(&["--head", "--", "./windows.sh"]);
    assert!(done.stderr.contains("hint: check its first line"), "{done}");
    hinted(
        &failed(&["--", "./src"]),
        "src is a directory: name a program in it",
    );
    hinted(
        &failed(&["--", "./nowhere.sh"]),
        &format!("there is no nowhere.sh in {top}: check its name"),
    );
    hinted(
        &failed(&["--", "plain.sh"]),
        "for the file here write `./plain.sh`",
    );
    hinted(
        &failed(&["--", &format!("{top}/tools/agent.sh")]),
        "the repository is at another path in the sandbox: write `./tools/agent.sh`",
    );
    hinted(
        &failed(&["-C", "tools", "--", "./agent.sh"]),
        "the agent starts at the top of the repository: write `./tools/agent.sh`",
    );
    environment
        .cofferdam(&["run", "--head", "-C", "tools", "--", "./tools/agent.sh"])
        .expect_code(0);

    let done = failed(&["--", "./plain.sh"]);
    assert!(done.stderr.contains("or add `--copy plain.sh`;"), "{done}");
    environment
        .cofferdam(&["run", "--copy", "plain.sh", "--", "./plain.sh"])
        .expect_code(0);
    let done = failed(&["--", "no-such-program"]);
    assert!(
        done.stderr.contains("hint: install `no-such-program`"),
        "{done}"
    );
}

#[test]
fn a_program_without_the_two_dashes() {
    let environment = TestEnvironment::with_repository();
    let done = environment.cofferdam(&["run", "./agent.sh"]).expect_code(2);
    assert!(
        done.stderr
            .contains("tip: the agent's program goes after `--`, at the end"),
        "{done}"
    );
    let done = environment.cofferdam(&["list", "x"]).expect_code(2);
    assert!(!done.stderr.contains("program"), "{done}");
}

#[test]
fn an_agent_that_needs_a_prompt_says_so_before_anything_is_made() {
    let environment = TestEnvironment::with_repository();
    let done = environment
        .cofferdam(&["run", "--agent", "claude-code"])
        .expect_code(2);
    assert!(done.stderr.contains("claude-code needs a prompt"), "{done}");
    hinted(
        &done,
        "give one with `--prompt TEXT` or `--prompt-file FILE`, or pipe it in: `… | cofferdam run`",
    );
    assert!(!environment.home().join(".cofferdam").exists());
    assert!(!environment.repository().join(".cofferdam").exists());
}

#[test]
fn a_template_without_its_arguments_is_named() {
    let environment = TestEnvironment::with_repository();
    environment.write("fix.md", "Fix {{ISSUE}} in {{PLACE}}.\n");
    let done = environment
        .cofferdam(&["run", "--prompt-file", "fix.md", "--", "true"])
        .expect_code(1);
    let file = environment.repository().join("fix.md");
    let words = format!("{}: line 1, column 5: `{{{{ISSUE}}}}`", file.display());
    assert!(done.stderr.contains(&words), "{done}");
    hinted(
        &done,
        "give what is missing with `--arg ISSUE=VALUE --arg PLACE=VALUE`",
    );
}

#[test]
fn a_branch_is_no_sandbox_but_leads_to_it() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(
            &["--branch", "feature", "--name", "one"],
            &commit_script(&["a"]),
        )
        .expect_code(0);
    for command in ["diff", "log", "merge", "delete"] {
        let done = environment.cofferdam(&[command, "feature"]).expect_code(1);
        hinted(&done, "the sandbox on that branch is `one`");
    }
    environment.cofferdam(&["delete", "one"]).expect_code(0);
}

// covers: S4-E1
#[test]
fn a_name_that_is_taken_is_not_to_be_deleted() {
    let environment = TestEnvironment::with_repository();
    let options = ["--branch", "feature", "--name", "My One"];
    environment
        .run(&options, &commit_script(&["a"]))
        .expect_code(0);
    let before = environment.references();
    // The slug counts: another spelling is the same name.
    let done = environment
        .run(&["--branch", "other", "--name", "my-one"], "true")
        .expect_code(1);
    let words = "error: Sandbox 'my-one' already exists. Please choose a different name.\nhint: ";
    assert!(done.stderr.starts_with(words), "{done}");
    hinted(
        &done,
        "for example `--name my-one-2`; `cofferdam list` shows what `my-one` holds",
    );
    assert!(!done.stderr.contains("delete"), "{done}");
    assert_eq!(environment.references(), before);
    environment
        .run(&["--branch", "other", "--name", "my-one-2"], "true")
        .expect_code(0);
}

// covers: S4-E2
#[test]
fn a_name_of_which_nothing_or_too_much_is_left() {
    let environment = TestEnvironment::with_repository();
    let words = "error: Invalid sandbox name. Slugified names must be 1-63 characters and contain \
                 only [a-z0-9-].\nhint: ";
    for name in ["", "---", "äöü", &"a".repeat(64)] {
        let done = environment
            .run(&[&format!("--name={name}")], "true")
            .expect_code(1);
        assert!(done.stderr.starts_with(words), "{name}: {done}");
        assert!(!environment.repository().join(".cofferdam").exists());
    }
    environment
        .run(&["--name", &"a".repeat(63)], "true")
        .expect_code(0);
}

/// A run of this name, which works on that branch until it is killed, and has a draft there.
#[track_caller]
pub(crate) fn at_work_on(environment: &TestEnvironment, branch: &str, name: &str) -> Child {
    let options = ["--branch", branch, "--name", name, "--mode", "bind"];
    let script = "echo draft > draft.txt; echo at work; sleep 600";
    let words = [&["run"], &options[..], &["--", "sh", "-c", script]].concat();
    let mut command = environment.command(&words);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    crate::gc::wait_for(running.stderr.take().unwrap(), "at work");
    running
}

#[test]
fn a_busy_branch_names_its_sandbox_and_what_to_do() {
    let environment = TestEnvironment::with_repository();
    let mut running = at_work_on(&environment, "feature", "one");
    // It refuses before it makes anything: neither files of a sandbox nor a branch, a log or an event before that one.
    let made = || {
        let all = "find .cofferdam ../home/.cofferdam | sort";
        environment.shell(all).stdout + &environment.references()
    };
    let before = made();
    for mode in ["bind", "layer", "copy"] {
        let options = ["--branch", "feature", "--mode", mode];
        let began = Instant::now();
        let done = environment.run(&options, "true").expect_code(1);
        let took = began.elapsed();
        assert!(took < Duration::from_secs(2), "{mode}: {took:?}");
        let words =
            "error: branch `feature` is in use by the running sandbox `one`\nhint: wait for";
        assert!(done.stderr.starts_with(words), "{done}");
        let json = [&options[..], &["--json"]].concat();
        let done = environment.run(&json, "true").expect_code(1);
        let refused: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!(refused["event"], "failed", "{done}");
        assert!(refused["kept"]["id"].is_null(), "{done}");
        assert_eq!(made(), before, "{mode}");
    }
    running.kill().unwrap();
    crate::environment::finish(running);
    let done = environment
        .run(&["--branch", "feature"], "true")
        .expect_code(1);
    assert!(
        done.stderr
            .contains("held by sandbox `one`, whose run was interrupted"),
        "{done}"
    );
    hinted(
        &done,
        "bring its commits home with `cofferdam gc`, then try again",
    );
    environment.cofferdam(&["gc"]).expect_code(0);

    // Its draft is left, and nobody can work on the branch before that is somewhere.
    let done = environment
        .run(&["--branch", "feature"], "true")
        .expect_code(1);
    assert!(
        done.stderr
            .contains("held by sandbox `one`, which left work without a commit in "),
        "{done}"
    );
    let hint = done
        .stderr
        .lines()
        .find(|line| line.starts_with("hint: "))
        .unwrap();
    // The commands of the hint, word by word, with the commit between them.
    let commands: Vec<&str> = hint.split('`').skip(1).step_by(2).collect();
    let [status, remove, "cofferdam delete --force one"] = commands[..] else {
        panic!("{done}")
    };
    assert!(
        environment
            .shell(status)
            .expect_code(0)
            .stdout
            .contains("draft.txt")
    );
    let at = environment
        .repository()
        .join(".cofferdam/worktrees/feature");
    let commit = format!(
        "cd '{}' && git add draft.txt && git -c user.name=U -c user.email=u@e commit -qm draft",
        at.display()
    );
    environment.shell(&commit).expect_code(0);
    environment.shell(remove).expect_code(0);
    environment
        .run(&["--branch", "feature"], "test -e draft.txt")
        .expect_code(0);
}

#[test]
fn a_clone_that_lacks_objects_says_how_to_complete_it() {
    let environment = TestEnvironment::with_repository();
    environment.git(&["rm", "--quiet", "src/lib.txt"]);
    environment.git(&["commit", "--quiet", "--message=less"]);
    environment.git(&["config", "uploadpack.allowFilter", "true"]);
    let origin = format!("file://{}", environment.repository().display());
    let partial = environment.temporary().join("partial");
    let partial = partial.to_str().unwrap();
    environment.git(&["clone", "--quiet", "--filter=blob:none", &origin, partial]);
    let run = ["-C", partial, "run", "--", "true"];
    let done = environment.cofferdam(&run).expect_code(1);
    let hint = format!("git -C {partial} fetch --refetch --no-filter");
    hinted(&done, &format!("complete it with `{hint}`"));
    environment.shell(&hint).expect_code(0);
    environment.cofferdam(&run).expect_code(0);
}

#[test]
fn what_did_not_start_was_not_ended() {
    let environment = TestEnvironment::with_repository();
    executable(&environment, "windows.sh", "#!/bin/sh\r\ntrue\r\n");
    let done = environment
        .cofferdam(&["run", "--copy", "windows.sh", "--", "./windows.sh"])
        .expect_code(1);
    assert!(
        done.stderr.contains("iteration 1: the agent did not start"),
        "{done}"
    );
    assert!(!done.stderr.contains("cut short"), "{done}");
}

/// A limit that cannot be given is one refusal before anything is made; no warning comes first.
#[test]
fn a_limit_that_this_machine_cannot_give() {
    let environment = TestEnvironment::with_repository();
    // A machine without control groups, also where the tests' own has them.
    let run = |options: &str| {
        environment.shell(&format!(
            "unshare --user --map-root-user --mount sh -c 'mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"' \
             sh '{}' run {options} -- true",
            env!("CARGO_BIN_EXE_cofferdam")
        ))
    };
    for limit in ["--memory 512m", "--cpus 1"] {
        let done = run(limit).expect_code(1);
        assert!(done.stderr.starts_with("error: cannot limit "), "{done}");
        assert!(
            done.stderr.contains("\nhint: leave the limit out"),
            "{done}"
        );
        assert!(!environment.repository().join(".cofferdam").exists());
    }
    let done = run("");
    assert!(!done.stderr.contains("cannot limit"), "{done}");
    assert!(
        environment.repository().join(".cofferdam").exists(),
        "{done}"
    );
}

#[test]
fn a_branch_in_another_worktree() {
    let environment = TestEnvironment::with_repository();
    environment.git(&["worktree", "add", "--quiet", "../tmp/other", "-b", "other"]);
    let other = environment.temporary().join("other");
    let from_there = ["-C", other.to_str().unwrap(), "--branch", "main"];
    let copy = ["--mode", "copy", "--branch", "other"];
    for (options, branch) in [
        (&["--branch", "other"][..], "other"),
        (&copy, "other"),
        (&from_there, "main"),
    ] {
        let done = environment.run(options, "true").expect_code(1);
        let words = format!("error: branch `{branch}` is checked out at ");
        assert!(done.stderr.starts_with(&words), "{done}");
        hinted(
            &done,
            "name another branch, or work in that checkout itself with `-C DIR` and `--head`",
        );
    }
    environment.expect_nothing_made();
    assert!(!other.join(".cofferdam").exists());
    environment.git(&["-C", "../tmp/other", "switch", "--quiet", "--detach"]);
    environment
        .run(&["--branch", "other"], "true")
        .expect_code(0);
}

#[test]
fn a_program_that_is_nowhere_is_found_out_before_anything_is_made() {
    let environment = TestEnvironment::with_repository();
    executable(&environment, "draft.sh", "#!/bin/sh\necho it runs\n");
    let copy = ["--mode", "copy", "--branch", "b"];
    for (options, program) in [
        (&[][..], "no-such-program"),
        (&["--head"], "no-such-program"),
        (&["--head"], "./nowhere.sh"),
        (&[], "/no/such/program"),
        (&[], "src/nowhere.sh"),
        (&["--branch", "b"], "./draft.sh"),
        (&copy, "./draft.sh"),
        (&["--copy", "src"], "src/nowhere.sh"),
    ] {
        let arguments = [&["run"], options, &["--", program]].concat();
        let done = environment.cofferdam(&arguments).expect_code(1);
        let words = format!(
            "error: cannot run `{program}` in the sandbox: there is no such program\nhint: "
        );
        assert!(done.stderr.starts_with(&words), "{options:?}: {done}");
    }
    environment.expect_nothing_made();
    // What is there, or may come from a hook or by another `PATH`, is tried.
    environment.write("link.sh", "");
    std::fs::remove_file(environment.repository().join("link.sh")).unwrap();
    std::os::unix::fs::symlink("src/real.sh", environment.repository().join("link.sh")).unwrap();
    executable(&environment, "src/real.sh", "#!/bin/sh\necho it runs\n");
    environment.git(&["add", "link.sh", "src"]);
    environment.git(&["commit", "--quiet", "--message=programs"]);
    let make = "printf '#!/bin/sh\\necho it runs\\n' > made; chmod +x made";
    for arguments in [
        &["--head", "--", "./draft.sh"][..],
        &["--copy", "draft.sh", "--", "./draft.sh"],
        &["--", "./link.sh"],
        &["--on-worktree-ready", make, "--", "./made"],
        &[
            "--env",
            "PATH=/workspace/repository/src:/usr/bin:/bin",
            "--",
            "real.sh",
        ],
    ] {
        let done = environment.cofferdam(&[&["run"], arguments].concat());
        let done = done.expect_code(0);
        assert!(done.stderr.contains("  | it runs"), "{done}");
    }
}

#[test]
fn a_path_to_copy_that_is_not_there_is_an_error_before_anything_is_made() {
    let environment = TestEnvironment::with_repository();
    environment.write("there", "x\n");
    std::os::unix::fs::symlink("src", environment.repository().join("link")).unwrap();
    let run = |paths: &[&str]| {
        let arguments = [&["run", "--copy"], paths, &["--", "true"]].concat();
        environment.cofferdam(&arguments)
    };
    let at = environment.repository().join("node_modules");
    let done = run(&["there", "node_modules"]).expect_code(1);
    let words = format!(
        "error: `node_modules` cannot be copied: there is nothing at {}\nhint: ",
        at.display()
    );
    assert!(done.stderr.starts_with(&words), "{done}");
    for path in ["README.md/x", "link/lib.txt", "../tmp", ".git/config"] {
        let done = run(&[path]).expect_code(1);
        let words = format!("error: `{path}` cannot be copied: ");
        assert!(done.stderr.starts_with(&words), "{done}");
    }
    environment.expect_nothing_made();
    run(&["there", "link"]).expect_code(0);
}

#[test]
fn a_login_of_another_agent_is_refused_before_anything_is_made() {
    let environment = TestEnvironment::with_repository();
    let theirs = r#"{"tokens": {"id_token": "x"}, "last_refresh": "2026-01-01T00:00:00Z"}"#;
    let claudes = r#"{"claudeAiOauth": {"accessToken": "x"}}"#;
    let run = |agent: &str, text: &str| {
        environment.write("login.json", text);
        let arguments = [
            "run",
            "--agent",
            agent,
            "--login",
            "login.json",
            "--prompt",
            "x",
        ];
        environment.cofferdam(&arguments).expect_code(1)
    };
    let file = environment.repository().join("login.json");
    let file = file.display();
    let done = run("claude-code", theirs);
    let words = format!(
        "error: {file} is no login of claude-code: it is one of codex; expected `claudeAiOauth` in it\n"
    );
    assert!(done.stderr.starts_with(&words), "{done}");
    hinted(
        &done,
        "log in with `claude`, then give its own: `--login ~/.claude/.credentials.json`",
    );
    let done = run("codex", claudes);
    let words = format!(
        "error: {file} is no login of codex: it is one of claude-code; expected `tokens` or `OPENAI_API_KEY` in it\n"
    );
    assert!(done.stderr.starts_with(&words), "{done}");
    let done = run("codex", r#"{"tokens": null, "x": 1}"#);
    let words = format!("error: {file} is no login of codex: expected ");
    assert!(done.stderr.starts_with(&words), "{done}");
    environment.expect_nothing_made();
}

/// The name is said at once, and other commands take what was typed; but never another sandbox by chance.
#[test]
fn a_name_that_is_written_in_another_way_is_said_and_understood() {
    let environment = TestEnvironment::with_repository();
    let done = environment
        .run(
            &["--branch", "b", "--name", "feat/x"],
            &commit_script(&["a"]),
        )
        .expect_code(0);
    let first = "note: the sandbox is called `feat-x`: ";
    assert!(done.stderr.starts_with(first), "{done}");
    // Whatever lies at that path.
    std::fs::create_dir_all(environment.repository().join("feat/x")).unwrap();
    for command in ["log", "diff", "merge"] {
        environment.cofferdam(&[command, "feat/x"]).expect_code(0);
    }
    environment
        .cofferdam(&["net", "log", "feat/x"])
        .expect_code(0);
    // Another sandbox works on a branch of that name.
    environment
        .run(
            &["--branch", "feat/x", "--name", "other"],
            &commit_script(&["b"]),
        )
        .expect_code(0);
    let done = environment.cofferdam(&["delete", "feat/x"]).expect_code(1);
    hinted(&done, "the sandbox on that branch is `other`");
    environment.cofferdam(&["delete", "other"]).expect_code(0);
    environment.cofferdam(&["delete", "feat/x"]).expect_code(0);
    let done = environment.run(&["--name", "plain"], "true").expect_code(0);
    assert!(!done.stderr.contains("is called"), "{done}");
}

#[test]
fn a_count_that_is_none() {
    let environment = TestEnvironment::with_repository();
    let done = environment
        .cofferdam(&["run", "--max-iterations", "0", "--", "true"])
        .expect_code(2);
    assert!(
        done.stderr.contains("`0` is not a number of at least 1"),
        "{done}"
    );
}

#[test]
fn no_sandbox_is_given_cofferdams_own_directory_or_a_whole_account() {
    let environment = TestEnvironment::with_repository();
    let run = |variable: &str, value: &std::path::Path, options: &[&str]| {
        let arguments = [&["run"], options, &["--", "true"]].concat();
        let mut command = environment.command(&arguments);
        command.env(variable, value);
        command.stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        crate::environment::finish(command.spawn().unwrap())
    };
    let repository = environment.repository();
    let home = repository.join(".local/share/cofferdam");
    let done = run("COFFERDAM_HOME", &home, &["--head"]).expect_code(1);
    assert!(done.stderr.contains("Cofferdam's own directory"), "{done}");
    hinted(
        &done,
        "give it files of its own (`--mode copy`, without `--head`), or set COFFERDAM_HOME to a directory outside of it",
    );
    assert!(!home.exists());
    run("COFFERDAM_HOME", &home, &["--mode", "copy"]).expect_code(0);

    let done = run("COFFERDAM_HOME", &repository.join(".cofferdam"), &[]).expect_code(1);
    hinted(
        &done,
        "set COFFERDAM_HOME to a directory outside of the repository",
    );
    let around = environment.home();
    let around = around.parent().unwrap();
    let done = run("COFFERDAM_HOME", around, &["--head"]).expect_code(1);
    hinted(
        &done,
        "give it files of its own (`--mode copy`, without `--head`), or move the repository out of there",
    );
    let inside = repository.join("home");
    let done = run("HOME", &inside, &["--head", "--network", "none"]).expect_code(1);
    assert!(done.stderr.contains("Cofferdam's own directory"), "{done}");
}

/// It would try again for minutes before it said so itself.
#[test]
fn an_agent_without_key_and_login_is_told_before_anything_is_made() {
    let environment = TestEnvironment::with_repository();
    let run = ["run", "--agent", "claude-code", "--prompt", "x"];
    let first = |done: &Done| done.stderr.lines().next().unwrap().to_owned();
    // Who lacks the program as well is not sent for a key first.
    let done = environment.cofferdam(&run).expect_code(1);
    assert_eq!(
        first(&done),
        "error: cannot run `claude` in the sandbox: there is no such program"
    );
    let done = environment
        .cofferdam(&[&run[..], &["--env", "PATH=/elsewhere"]].concat())
        .expect_code(1);
    assert_eq!(
        first(&done),
        "error: claude-code has neither a key nor a login: its model would not answer it"
    );
    hinted(
        &done,
        "set ANTHROPIC_API_KEY, CLAUDE_CODE_OAUTH_TOKEN or ANTHROPIC_AUTH_TOKEN in your environment or in \
         `.cofferdam/.env`, or give it with `--env ANTHROPIC_API_KEY=VALUE`, or log in with `claude`, then give the login once with `cofferdam run --login ~/.claude/.credentials.json …`",
    );
    assert!(!environment.home().join(".cofferdam/state").exists());
    assert!(!environment.repository().join(".cofferdam").exists());
}

/// Before everything else of a run: an agent behind a wall without rules tries for minutes.
#[test]
fn a_config_that_cannot_be_used_is_the_first_line_and_opens_nothing() {
    let environment = TestEnvironment::with_repository();
    let home = environment.home().join(".cofferdam");
    cofferdam::fsx::private_dir(&home).unwrap();
    cofferdam::fsx::write_private(&home.join("config.yaml"), b"firewall:\n  alow: []\n").unwrap();
    let done = environment
        .run(&[], "getent hosts api.anthropic.com && exit 9; exit 0")
        .expect_code(0);
    let first = done.stderr.lines().next().unwrap();
    assert!(
        first.contains("/config.yaml:2:")
            && first.ends_with(
                "until that is mended none of its rules is in force, nor the built-in list"
            ),
        "{done}"
    );
    assert_eq!(done.stderr.matches("/config.yaml:2:").count(), 1, "{done}");
    let done = environment
        .run(&["--network", "none"], "true")
        .expect_code(0);
    // Files and variables come from there as well.
    assert_eq!(done.stderr.matches("/config.yaml:2:").count(), 1, "{done}");
}

/// Nothing of a run is said or made that cannot be.
#[test]
fn an_engine_that_is_not_there_is_the_first_line() {
    let environment = TestEnvironment::with_repository();
    for (engine, variable) in [("docker", "DOCKER_HOST"), ("podman", "CONTAINER_HOST")] {
        for mode in [&[][..], &["--mode", "bind"], &["--head"]] {
            let words = [&["run", "--sandbox", engine], mode, &["--", "true"]].concat();
            let mut command = environment.command(&words);
            command.env(variable, "unix:///nowhere/engine.sock");
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let done = crate::environment::finish(command.spawn().unwrap()).expect_code(1);
            let first = done.stderr.lines().next().unwrap();
            assert!(
                first.starts_with("error: ") && first.contains("/nowhere/engine.sock"),
                "{done}"
            );
            environment.expect_nothing_made();
        }
    }
}

#[test]
fn a_program_in_a_shell_is_execs() {
    let environment = TestEnvironment::empty();
    for words in [&["shell", "one", "--", "ls"][..], &["shell", "one", "ls"]] {
        let done = environment.cofferdam(words).expect_code(2);
        let tip = "tip: `cofferdam exec` runs one program: `cofferdam exec NAME -- PROGRAM`";
        assert!(done.stderr.contains(tip), "{done}");
    }
}
