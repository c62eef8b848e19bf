//! Files of the user's that git does not track, where a merge brings files of the same names.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::environment::{Done, TestEnvironment};

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
    let changes: [(&str, Change); 4] = [
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
