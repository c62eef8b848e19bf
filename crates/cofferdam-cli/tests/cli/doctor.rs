use std::os::unix::fs::PermissionsExt;

use crate::environment::TestEnvironment;

fn findings(environment: &TestEnvironment) -> Vec<serde_json::Value> {
    let done = environment.cofferdam(&["doctor", "--json"]);
    serde_json::from_str(&done.stdout).unwrap()
}

fn status(findings: &[serde_json::Value], name: &str) -> String {
    let found = findings
        .iter()
        .find(|finding| finding["name"] == name)
        .unwrap();
    found["status"].as_str().unwrap().to_owned()
}

#[test]
fn this_machine_can_do_the_main_job() {
    let environment = TestEnvironment::empty();
    let done = environment.cofferdam(&["doctor"]).expect_code(0);
    assert!(
        done.stdout
            .lines()
            .any(|line| line.starts_with("ok        git")),
        "{done}"
    );
    assert!(!done.stdout.contains("missing"), "{done}");
    assert!(done.stdout.lines().count() > 3, "{done}");
    // Looking makes nothing.
    assert!(!environment.home().join(".cofferdam").exists());
}

/// The wall was really raised, and no gateway was started for that.
#[test]
fn the_wall_is_tried() {
    let environment = TestEnvironment::empty();
    let findings = findings(&environment);
    assert_eq!(status(&findings, "network wall"), "ok");
    assert_eq!(status(&findings, "gateway"), "ok");
    status(&findings, "`--network open`");
    assert!(!environment.home().join(".cofferdam").exists());
}

#[test]
fn an_old_git_is_missing() {
    let environment = TestEnvironment::empty();
    let bin = environment.temporary().join("bin");
    cofferdam::fsx::private_dir(&bin).unwrap();
    let fake = b"#!/bin/sh\necho git version 2.38.1\n";
    cofferdam::fsx::write_with_mode(&bin.join("git"), fake, 0o755).unwrap();
    let done = crate::environment::finish(
        environment
            .command(&["doctor"])
            .env("PATH", &bin)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap(),
    )
    .expect_code(1);
    let line = done
        .stdout
        .lines()
        .find(|line| line.contains(" git "))
        .unwrap();
    assert!(
        line.starts_with("missing") && line.contains("2.38.1"),
        "{done}"
    );
    assert!(done.stdout.contains("hint: install git 2.39"), "{done}");
}

#[test]
fn a_home_that_others_can_read_is_degraded() {
    let environment = TestEnvironment::empty();
    let home = environment.home().join(".cofferdam");
    cofferdam::fsx::private_dir(&home).unwrap();
    assert_eq!(status(&findings(&environment), "own files"), "ok");
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(status(&findings(&environment), "own files"), "degraded");
    std::fs::remove_dir(&home).unwrap();
    std::fs::File::create(&home).unwrap();
    assert_eq!(status(&findings(&environment), "own files"), "missing");
}
