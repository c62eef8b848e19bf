//! Files of the user's that git does not track, where a merge brings files of the same names.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::environment::{Done, TestEnvironment};
use crate::lives::Lives;

/// As README has it: an agent of the user's own, which then commits all that it finds.
const AGENT: &str = "#!/bin/sh\necho done > made && git add -A && git commit -qm all\n";

/// What its commit is put on, in words of `run`.
const BRANCH: &[&str] = &["--branch", "feature", "--name", "one"];

fn with_an_agent() -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    environment.write("agent.sh", AGENT);
    let path = environment.repository().join("agent.sh");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    environment
}

#[track_caller]
fn runs(environment: &TestEnvironment, options: &[&str]) -> Done {
    let run = ["--copy", "agent.sh", "--", "./agent.sh"];
    let done = environment.cofferdam(&[&["run"], options, &run].concat());
    done.expect_code(0)
}

#[test]
fn the_same_file_is_in_nobodys_way() {
    for ignored in [false, true] {
        for options in [&[][..], BRANCH] {
            let environment = with_an_agent();
            if ignored {
                environment.write(".git/info/exclude", "agent.sh\n");
                let text = AGENT.replace("add -A", "add -Af");
                environment.write("agent.sh", &text);
            }
            let before = environment.read("agent.sh");
            let mut done = runs(&environment, options);
            if !options.is_empty() {
                done = environment.cofferdam(&["merge", "one"]).expect_code(0);
            }
            assert!(done.stdout.contains("landed: 1 commit on main"), "{done}");
            assert_eq!(environment.read("agent.sh"), before);
            assert_eq!(environment.git(&["status", "--porcelain"]), "");
            let known = environment.git(&["ls-files", "agent.sh", "made"]);
            assert_eq!(known, "agent.sh\nmade");
        }
    }
}

/// What becomes of the file before the merge.
type Change = fn(&TestEnvironment);

#[test]
fn one_that_is_another_stays() {
    let changes: [(&str, Change); 6] = [
        ("content", |environment| {
            environment.write("agent.sh", "mine\n");
        }),
        ("rights", |environment| {
            let path = environment.repository().join("agent.sh");
            fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
        }),
        ("beginning", |environment| {
            environment.write("agent.sh", &AGENT[..9]);
        }),
        // Git would make the same of it, and not this again.
        ("line ends", |environment| {
            environment.write(".git/info/attributes", "agent.sh text\n");
            environment.write("agent.sh", &AGENT.replace('\n', "\r\n"));
        }),
        ("unseen", |environment| {
            environment.git(&["config", "core.ignoreStat", "true"]);
            environment.write("agent.sh", "mine\n");
        }),
        ("kind", |environment| {
            environment.write("elsewhere", AGENT);
            let path = environment.repository().join("agent.sh");
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink("elsewhere", path).unwrap();
        }),
    ];
    for (what, change) in changes {
        let environment = with_an_agent();
        runs(&environment, BRANCH);
        change(&environment);
        let path = environment.repository().join("agent.sh");
        let rights = fs::symlink_metadata(&path).unwrap().permissions();
        let (bytes, before) = (
            fs::read(&path).unwrap(),
            environment.git(&["rev-parse", "HEAD"]),
        );
        let done = environment.cofferdam(&["merge", "one"]).expect_code(1);
        assert!(done.stdout.contains("agent.sh"), "{what}: {done}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "{what}");
        assert_eq!(
            fs::symlink_metadata(&path).unwrap().permissions(),
            rights,
            "{what}"
        );
        assert_eq!(environment.git(&["rev-parse", "HEAD"]), before, "{what}");
        let status = environment.git(&["status", "--porcelain", "agent.sh"]);
        assert_eq!(status, "?? agent.sh", "{what}");
    }
}

/// What somebody has staged at its path is theirs, and goes into their next commit.
#[test]
fn what_is_staged_there_stays() {
    let environment = with_an_agent();
    runs(&environment, BRANCH);
    environment.write("agent.sh", "mine\n");
    environment.git(&["add", "agent.sh"]);
    environment.write("agent.sh", AGENT);
    let done = environment.cofferdam(&["merge", "one"]).expect_code(1);
    assert!(done.stdout.contains("agent.sh"), "{done}");
    assert_eq!(environment.git(&["show", ":agent.sh"]), "mine");
    assert_eq!(environment.read("agent.sh"), AGENT);
}

/// There is no place for both, and nothing else has it.
#[test]
fn what_is_staged_below_it_stays() {
    let lives = Lives::with("one", &[]);
    lives
        .exec("one", "echo x > new; git add new; git commit -qm new")
        .expect_code(0);
    lives.write("new/kept", "mine\n");
    lives.git(&["add", "new/kept"]);
    fs::remove_dir_all(lives.repository().join("new")).unwrap();
    lives.write("new", "x\n");
    lives.cofferdam(&["merge", "one"]).expect_code(1);
    assert_eq!(lives.git(&["show", ":new/kept"]), "mine");
    assert_eq!(lives.read("new"), "x\n");
}

/// Git takes files away that such a checkout leaves out.
#[test]
fn a_sparse_checkout_takes_none_away() {
    let lives = Lives::with("one", &[]);
    lives
        .exec(
            "one",
            "mkdir out; echo x > out/new; git add out; git commit -qm new",
        )
        .expect_code(0);
    lives.git(&["sparse-checkout", "set", "--no-cone", "/*", "!/out/"]);
    lives.write("out/new", "x\n");
    lives.cofferdam(&["merge", "one"]).expect_code(1);
    assert_eq!(lives.read("out/new"), "x\n");
}
