//! `protect`, `setup` and `gate.checks` of the configuration: what commits may not change, what runs before anybody works, and what must
//! succeed before a branch moves.

use crate::configured::User;
use crate::environment::Done;

const WORK: &str = "echo work > work; git add work; git commit -qm work";

#[track_caller]
fn says(done: &Done, text: &str) {
    assert!(done.to_string().contains(text), "{text:?}\n{done}");
}

/// Nothing of a check's sandbox is left.
#[track_caller]
fn no_check_is_left(user: &User) {
    let list = user.cofferdam(&["list", "--wide"]).expect_code(0);
    assert!(!list.stdout.contains("check-"), "{list}");
    assert!(!user.references().contains("check-"));
}

#[test]
fn protected_paths_are_not_changed_whichever_file_says_so() {
    let user = User::new("protect: [ci, .cofferdam]\n");
    user.write(".cofferdam/config.yaml", "protect: [./README.md]\n");
    for (mode, path) in [
        ("layer", "ci/new"),
        ("bind", "CI/new"),
        ("copy", "README.md"),
    ] {
        let change = format!("mkdir -p ci CI; echo x > {path}; git add -A; git commit -qm x");
        let done = user.run(&["--mode", mode], &change).expect_code(1);
        says(&done, "it is protected");
        // The control: what is beside it is not.
        user.run(
            &["--mode", mode],
            "date +%N > beside; git add -A; git commit -qm x",
        )
        .expect_code(0);
    }
    // What a sandbox sees of the host's own files is read-only.
    let write = "echo x > README.md";
    says(&user.run(&["--head"], write), "Read-only file system");
    assert_eq!(user.read("README.md"), "hello\n");
    user.run(&["--head"], "echo x > beside").expect_code(0);
    user.says("protect: [.git]\n");
    let done = user.run(&[], "true").expect_code(1);
    says(
        &done,
        ".git cannot be protected: git's own files do not travel",
    );
    says(&done, "correct `protect` in the configuration");
}

#[test]
fn set_up_runs_once_before_anybody_works() {
    let user = User::new("env: {OF_USER: $HOME}\nsetup: echo own ${OF_USER-none} >> ~/set-up\n");
    user.make().expect_code(0);
    assert_eq!(user.inside("cut -c 1-5 ~/set-up"), "own /\n");
    user.cofferdam(&["stop", "box"]).expect_code(0);
    user.cofferdam(&["start", "box"]).expect_code(0);
    user.cofferdam(&["sync", "box"]).expect_code(0);
    assert_eq!(user.inside("cat ~/set-up").lines().count(), 1);
    user.cofferdam(&["delete", "--force", "box"]).expect_code(0);
    // A repository's has no value of its user's, and takes the other's place.
    user.write(
        ".cofferdam/config.yaml",
        "setup: echo theirs ${OF_USER-none} >> ~/set-up; pwd >> ~/set-up\n",
    );
    let seen = user
        .run(&["--network", "none"], "cat ~/set-up")
        .expect_code(0);
    says(&seen, "theirs none\n");
    says(&seen, "/workspace/");
    // One that fails leaves the sandbox for a look.
    user.write(".cofferdam/config.yaml", "setup: echo broken >&2; exit 7\n");
    let made = user
        .cofferdam(&["create", "box", "--network", "none"])
        .expect_code(1);
    says(&made, "broken");
    says(&made, "exit code 7");
    let list = user.cofferdam(&["list"]).expect_code(0);
    says(&list, "failed-setup");
    user.ends();
}

#[test]
fn commits_are_merged_once_their_checks_succeed() {
    let user = User::new(
        "env: {OF_USER: $HOME}\nsetup: touch ~/set-up\ngate:\n  checks:\n    - cmd: test -z \"$OF_USER\" -a ! -e ~/set-up -a ! -e ~/of-home\n    - cmd: grep -q good work\n      name: work is good\n",
    );
    user.puts(".cofferdam/home/of-home", "");
    let head = || user.git(&["rev-parse", "HEAD"]);
    let before = head();
    for options in [&[][..], &["--mode", "bind"]] {
        let done = user
            .run(
                &[&["--name", "bad", "--network", "none"], options].concat(),
                WORK,
            )
            .expect_code(1);
        says(
            &done,
            "1 commit on cofferdam/bad: the check `work is good` failed: exit code 1",
        );
        says(
            &done,
            "cofferdam diff bad   # `cofferdam merge --no-checks bad`",
        );
        assert_eq!(head(), before);
        no_check_is_left(&user);
        user.cofferdam(&["delete", "--force", "bad"]).expect_code(0);
    }
    let good = WORK.replace("echo work", "echo good");
    // What lies about in the agent's sandbox, and in no commit, is no help.
    let lies = "echo work > work; git add work; git commit -qm w; echo good > work; cp work /tmp";
    user.run(&["--name", "lies", "--network", "none"], lies)
        .expect_code(1);
    let merged = user.cofferdam(&["merge", "lies"]).expect_code(1);
    says(&merged, "the check `work is good` failed");
    assert_eq!(head(), before);
    user.cofferdam(&["merge", "--no-checks", "lies"])
        .expect_code(0);
    assert_ne!(head(), before);
    user.git(&["reset", "--quiet", "--hard", before.trim()]);
    let done = user.run(&["--network", "none"], &good).expect_code(0);
    says(&done, "hook sandbox.check: test -z");
    assert_eq!(user.read("work"), "good\n");
    no_check_is_left(&user);
    // What passed is not checked again.
    user.git(&["reset", "--quiet", "--hard", before.trim()]);
    let again = user.run(&["--network", "none"], &good).expect_code(0);
    assert!(!again.stderr.contains("sandbox.check"), "{again}");
    assert_eq!(user.read("work"), "good\n");
    // A branch that the user names moves by the same.
    user.git(&["branch", "named"]);
    let at = || user.git(&["rev-parse", "named"]);
    let was = at();
    let named = |work: &str| {
        user.run(
            &["--branch", "named", "--name", "named", "--network", "none"],
            work,
        )
    };
    let failed = named(WORK).expect_code(1);
    says(&failed, "the check `work is good` failed");
    assert_eq!(at(), was);
    user.cofferdam(&["delete", "--force", "named"])
        .expect_code(0);
    named("echo very good > work; git commit -qam good").expect_code(0);
    assert_ne!(at(), was);
    // One that lives on is merged by `merge`.
    user.make().expect_code(0);
    user.inside("echo bad > work; git commit -qam bad");
    user.cofferdam(&["merge", "box"]).expect_code(1);
    user.inside("echo good again > work; git commit -qam good");
    user.cofferdam(&["merge", "box"]).expect_code(0);
    assert_eq!(user.read("work"), "good again\n");
    user.ends();
}

/// What a repository wants to run before a merge waits for its user, with the files that it names; and commits that replace such a file
/// are not judged by it.
#[test]
fn a_repositorys_checks_are_approved_with_the_files_they_name() {
    let user = User::new("");
    user.write("ci.sh", "exit 3\n");
    user.git(&["add", "ci.sh"]);
    user.git(&["commit", "-qm", "ci"]);
    user.write(
        ".cofferdam/config.yaml",
        "gate: {checks: [{cmd: sh ci.sh}]}\n",
    );
    let approve = || {
        let asked = user.cofferdam(&["approve"]).expect_code(1);
        let words = asked.stderr.split_whitespace();
        let trust = words.skip_while(|word| *word != "--trust").nth(1).unwrap();
        let trust = trust.trim_end_matches('`').to_owned();
        user.cofferdam(&["approve", "--trust", &trust])
            .expect_code(0);
        asked
    };
    let run = |script: &str| user.run(&["--network", "none", "--name", "one"], script);
    // Nobody has approved it.
    let done = run(WORK).expect_code(0);
    says(&done, "move without 1 of the `gate.checks`");
    let asked = approve();
    says(&asked, "gate.checks: \"sh ci.sh\", \"ci.sh\" with SHA-256 ");
    let failed = run("echo more >> work; git commit -qam more").expect_code(1);
    says(&failed, "the check `sh ci.sh` failed: exit code 3");
    user.cofferdam(&["delete", "--force", "one"]).expect_code(0);
    // An agent that makes its own judge.
    let own = "echo exit 0 > ci.sh; git commit -qam judge";
    let failed = run(own).expect_code(1);
    says(
        &failed,
        "`ci.sh`, which the check `sh ci.sh` runs, is not in the commits as it is in your checkout",
    );
    user.cofferdam(&["delete", "--force", "one"]).expect_code(0);
    // Another file of that name is another one to approve.
    user.write("ci.sh", "exit 0\n");
    user.git(&["commit", "-qam", "mended"]);
    let config = user.cofferdam(&["config"]).expect_code(0);
    says(&config, "waits for `cofferdam approve`: gate.checks: ");
    approve();
    run("echo more >> work; git commit -qam more").expect_code(0);
    no_check_is_left(&user);
}
