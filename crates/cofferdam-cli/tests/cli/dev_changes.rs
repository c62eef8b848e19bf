//! What counts in a dev sandbox that was made before: its configuration, its image, the hooks of its repository.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use cofferdam_lab::skip;

use crate::containers;
use crate::dev::LOGIN;
use crate::environment::finish;
use crate::images::dockerfile;
use crate::lives::Lives;

/// Where a login is.
const IN: &str = "~/.claude/.credentials.json";

fn subjects(lives: &Lives) -> String {
    lives.git(&["log", "--format=%s", "main"])
}

fn commit(path: &str) -> String {
    format!("mkdir -p $(dirname {path}); echo x > {path}; git add {path} && git commit -qm {path}")
}

/// Who leaves brings commits to the branch that is checked out: what that has to pass is what the configuration says by then.
// covers: S3-63, S3-64
#[test]
fn what_comes_home_is_checked_as_the_configuration_says_now() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    lives.configure("gate: {checks: [{cmd: echo none; ls | grep -q ^pas}]}\n");
    let left = lives.exec("dev", &commit("one")).expect_code(0);
    assert!(
        left.stderr
            .contains("the check `echo none; ls | grep -q ^pas` failed"),
        "{left}"
    );
    assert!(left.stderr.contains("\n  none\n"), "{left}");
    assert_eq!(subjects(&lives), "start");
    let held_back = || {
        let status = lives.cofferdam(&["status", "dev"]).expect_code(0);
        status.stdout.contains("held back") && status.stdout.contains("echo none")
    };
    assert!(held_back());
    let collected = lives.cofferdam(&["collect", "dev"]).expect_code(1);
    // Nothing is merged into the checkout while it works there.
    let next = "`cofferdam stop dev && cofferdam merge --no-checks dev && cofferdam start dev` if that is what you want";
    assert!(collected.stdout.contains(next), "{collected}");
    // It works on meanwhile, and what succeeds is home.
    lives.exec("dev", &commit("passes")).expect_code(0);
    assert_eq!(subjects(&lives), "passes\none\nstart");
    assert!(!held_back());

    lives.configure("protect: [ci]\n");
    let refused = lives.exec("dev", &commit("ci/new")).expect_code(0);
    assert!(refused.stderr.contains("it is protected"), "{refused}");
    assert_eq!(subjects(&lives), "passes\none\nstart");
    lives
        .exec("dev", "git reset -q --hard HEAD^; rm -rf ci")
        .expect_code(0);
    // From its next start on nobody can write there.
    lives.cofferdam(&["restart"]).expect_code(0);
    let written = lives.exec("dev", "echo x > ci/new");
    assert!(!written.status.success(), "{written}");
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
}

/// The hooks of its user's own commits run on the shelf as well, and agents find the rules where their programs look for them.
// covers: S3-58, S3-67
#[test]
fn hooks_run_on_the_shelf_and_the_rules_are_told() {
    let lives = Lives::new();
    let hook = lives.repository().join(".git/hooks/pre-commit");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let text = b"#!/bin/sh\necho the hook says no >&2\nexit 1\n";
    cofferdam::fsx::write_private(&hook, text).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    lives
        .cofferdam(&["start", "--branch", "two"])
        .expect_code(0);
    let refused = lives.exec("dev-two", &commit("one"));
    assert!(refused.stderr.contains("the hook says no"), "{refused}");
    assert!(!refused.status.success());
    let around = lives.exec("dev-two", "git commit --no-verify --allow-empty -m x");
    assert!(!around.status.success(), "{around}");
    for file in ["~/.claude/CLAUDE.md", "~/.codex/AGENTS.md"] {
        let rules = lives.exec("dev-two", &format!("cat {file}")).expect_code(0);
        for rule in ["--no-verify", ".husky", "git push host", "cofferdam allow"] {
            assert!(rules.stdout.contains(rule), "{file}: {rule}");
        }
    }
    // What Codex is told once for all takes their place.
    lives.cofferdam(&["codex-init-config"]).expect_code(0);
    let told = lives.exec("dev-two", "cat ~/.codex/AGENTS.md");
    for said in ["Where you are", "--no-verify", "git push host"] {
        assert!(told.stdout.contains(said), "{said}: {told}");
    }
    lives
        .cofferdam(&["delete", "--force", "dev-two"])
        .expect_code(0);
}

/// Two branches come to a shelf that nobody has made yet.
// covers: S3-131
#[test]
fn two_branches_at_once_have_one_shelf() {
    let lives = Lives::new();
    lives.git(&["branch", "one"]);
    let starts = ["one", "new"].map(|branch| {
        let mut command = lives.command(&["start", "--branch", branch]);
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    });
    for start in starts {
        finish(start).expect_code(0);
    }
    let shelf = "ls /repo-shelf/worktrees; git -C /repo-shelf/repo fsck --no-dangling && git status --short";
    let seen = lives.exec("dev-one", shelf).expect_code(0);
    assert_eq!(seen.stdout, "new\none\n", "{seen}");
    lives
        .cofferdam(&["delete", "--force", "dev-one", "dev-new"])
        .expect_code(0);
}

/// Each branch begins where the host has it, else where the origin has it, else at what is checked out.
// covers: S3-115, S3-116
#[test]
fn a_branch_begins_where_the_host_has_it() {
    let lives = Lives::new();
    for (branch, reference) in [
        ("feature/one", "refs/heads/feature/one"),
        ("far", "refs/remotes/origin/far"),
    ] {
        let tree = lives.git(&["rev-parse", "main^{tree}"]);
        let commit = lives.git(&["commit-tree", "-p", "main", "-m", branch, &tree]);
        lives.git(&["update-ref", reference, &commit]);
    }
    for (branch, name, subject) in [
        ("feature/one", "dev-feature-one", "feature/one"),
        ("far", "dev-far", "far"),
        ("fresh", "dev-fresh", "start"),
    ] {
        lives
            .cofferdam(&["start", "--branch", branch])
            .expect_code(0);
        let seen = lives.exec(name, "git log -1 --format=%s").expect_code(0);
        assert_eq!(seen.stdout, format!("{subject}\n"), "{branch}");
        lives.cofferdam(&["delete", "--force", name]).expect_code(0);
    }
}

/// What runs in the background when somebody leaves their shell goes on, whichever shell it is.
#[test]
fn background_work_goes_on_when_its_shell_is_left() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    for (shell, number) in [("bash", "4711"), ("zsh", "4712")] {
        let is_there = lives.exec("dev", &format!("command -v {shell}"));
        if !is_there.status.success() {
            skip!("there is no {shell} on this machine");
            continue;
        }
        let mut on = lives.on_a_terminal(&["exec", "-t", "dev", "--", shell, "-i"]);
        on.press(&format!("sleep {number} & echo be''gun\r"));
        on.expect("begun");
        on.press("exit\r");
        on.ends();
        // Not its own words.
        let (first, rest) = number.split_at(1);
        let running = format!("grep -qs '[{first}]{rest}' /proc/[0-9]*/cmdline && echo it runs");
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            let seen = lives.exec("dev", &running);
            assert!(seen.stdout.contains("it runs"), "{shell}: {seen}");
        }
    }
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
}

/// It is made from the new image with all that it was made with, and its home stays; where that cannot be built it stays as it is.
// covers: S3-119, S1-124
#[test]
fn a_new_image_keeps_what_it_was_made_with() {
    for world in containers::worlds() {
        let made = |text: &str| {
            let text = format!("FROM {}\nRUN {text}\n", containers::IMAGE);
            dockerfile(&world.environment, &text);
            world.build_trusted()
        };
        made("echo one > /made").expect_code(0);
        let start = ["start", "--build", "--base-tag", "any", "--network", "none"];
        let start = [&start[..], &["--sandbox", world.engine]].concat();
        world.cofferdam(&start).expect_code(0);
        let before = world
            .exec_in(
                "dev",
                &format!(
                    "mkdir -p ~/.claude; printf '%s\\n' '{LOGIN}' > {IN}; cat /made; hostname"
                ),
            )
            .expect_code(0)
            .stdout;
        made("echo two > /made").expect_code(0);
        world.cofferdam(&["restart", "--build"]).expect_code(0);
        let after = world
            .exec_in("dev", &format!("cat /made {IN}; hostname"))
            .expect_code(0)
            .stdout;
        let (_, host) = before.split_once('\n').unwrap();
        assert_eq!(after, format!("two\n{LOGIN}\n{host}"));
        // Made where nobody has left, it is kept before the sandbox is stopped.
        let newer = LOGIN.replace("\"a\"", "\"newer\"").replace(":1}", ":2}");
        assert_ne!(newer, LOGIN);
        let left = ["exec", "--detach", "dev", "--", "sh", "-c"];
        let script = format!("printf '%s\\n' '{newer}' > {IN}");
        let left = world.cofferdam(&[&left[..], &[&script]].concat());
        let id = left.expect_code(0).stdout.trim().to_owned();
        let ended = world.cofferdam(&["logs", "--follow", "dev", &id]);
        ended.expect_code(0);
        world.cofferdam(&["restart", "--build"]).expect_code(0);
        let other = ["start", "--branch", "other", "--network", "none"];
        let other = [&other[..], &["--sandbox", world.engine]].concat();
        world.cofferdam(&other).expect_code(0);
        let given = world.exec_in("dev-other", &format!("cat {IN}"));
        assert_eq!(given.expect_code(0).stdout, format!("{newer}\n"));
        let delete = ["delete", "--force", "dev-other"];
        world.cofferdam(&delete).expect_code(0);
        assert_eq!(world.status("dev", "network"), "none");
        let same = ["start", "--sandbox", world.engine];
        world.cofferdam(&same).expect_code(0);

        made("false").expect_code(1);
        let failed = world.cofferdam(&["restart", "--build"]).expect_code(1);
        assert!(failed.stderr.contains("the build failed"), "{failed}");
        let there = world.exec_in("dev", "cat /made").expect_code(0);
        assert_eq!(there.stdout, "two\n");
        world
            .cofferdam(&["delete", "--force", "dev"])
            .expect_code(0);
        world
            .cofferdam(&[world.engine, "remove-image"])
            .expect_code(0);
    }
}

/// What nobody has left yet.
fn commit_in_the_background(lives: &Lives) {
    let script = format!("{} && echo committed", commit("work"));
    let left = lives.cofferdam(&["exec", "--detach", "dev", "--", "sh", "-c", &script]);
    let id = left.expect_code(0).stdout.trim().to_owned();
    let until = Instant::now() + Duration::from_secs(20);
    while !lives
        .cofferdam(&["logs", "dev", &id])
        .stdout
        .contains("committed")
    {
        assert!(Instant::now() < until);
    }
}

/// A commit that comes home by a delete moves the branch that is checked out, and that is said.
#[test]
fn a_delete_says_what_it_brings_home() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    commit_in_the_background(&lives);
    let deleted = lives.cofferdam(&["delete", "dev"]).expect_code(0);
    assert!(deleted.stderr.contains("main"), "{deleted}");
    assert!(deleted.stderr.contains(" work\n"), "{deleted}");
    assert_eq!(subjects(&lives), "work\nstart");
}

/// Whoever throws a sandbox away checks nothing: what was to be checked by then is on no branch, and is not lost.
// covers: S3-63
#[test]
fn what_is_deleted_by_force_lands_nowhere_unchecked() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    commit_in_the_background(&lives);
    let before = lives.git(&["rev-parse", "main"]);
    lives.configure("gate: {checks: [{cmd: 'false'}]}\n");
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
    assert_eq!(lives.git(&["rev-parse", "main"]), before);
    let kept = lives.git(&["log", "--format=%s", "--glob=refs/cofferdam"]);
    assert!(kept.lines().any(|line| line == "work"), "{kept}");
}

/// What is there already is found by its branch, and a working tree that somebody has taken away is made again.
// covers: S3-119
#[test]
fn a_branch_is_whole_again_when_it_is_started() {
    let lives = Lives::new();
    let made = lives
        .cofferdam(&["start", "--branch", "two"])
        .expect_code(0);
    let is_new = "two is a new branch, from main: no branch had that name here or at the origin";
    assert!(made.stderr.contains(is_new), "{made}");
    for command in [&["list"][..], &["status", "dev-two"]] {
        let shown = lives.cofferdam(command).expect_code(0).stdout;
        assert!(
            shown.contains(" two\n") || shown.contains(" two "),
            "{shown}"
        );
    }
    let exec =
        |script: &str| lives.cofferdam(&["exec", "--branch", "two", "--", "sh", "-c", script]);
    let place = "/repo-shelf/worktrees/two";
    assert_eq!(exec("pwd").expect_code(0).stdout, format!("{place}\n"));
    exec(&format!("cd / && rm -rf {place}")).expect_code(0);
    lives.cofferdam(&["stop", "--branch", "two"]).expect_code(0);
    let started = lives
        .cofferdam(&["start", "--branch", "two"])
        .expect_code(0);
    assert!(!started.stderr.contains("new branch"), "{started}");
    let seen = exec("git branch --show-current; cat README.md").expect_code(0);
    assert_eq!(seen.stdout, "two\nhello\n");
    let named = lives.cofferdam(&["exec", "dev-two", "--branch", "two", "--", "true"]);
    assert!(named.expect_code(2).stderr.contains("leave out dev-two"));
    lives
        .cofferdam(&["delete", "--force", "dev-two"])
        .expect_code(0);
}
