//! What a start looks for anew: its user has said or made something else in the checkout while their sandbox was stopped.

use std::os::unix::fs::PermissionsExt;

use crate::lives::Lives;

/// Whoever writes there runs programs as the user.
const HOOK: &str = "printf '#!/bin/sh\\ntouch ../ran\\n' > .githooks/pre-commit";

/// What their git runs, and what they protect, is read-only from the next start on; until then they are told.
#[test]
fn what_counts_since_the_last_start_is_protected() {
    let lives = Lives::new();
    lives.write(".githooks/pre-commit", "#!/bin/sh\n");
    let hook = lives.repository().join(".githooks/pre-commit");
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    lives.write("conf/ci/run", "run\n");
    lives.git(&["add", "-A"]);
    lives.git(&["commit", "-q", "-m", "hooks"]);
    lives.cofferdam(&["start"]).expect_code(0);
    // The control: nothing says that git runs what is there.
    let before = lives.exec(
        "dev",
        "touch .githooks/one conf/ci/one && rm .githooks/one conf/ci/one",
    );
    assert!(!before.expect_code(0).stderr.contains("your git runs"));

    lives.git(&["config", "core.hooksPath", ".githooks"]);
    lives.configure("protect: [conf/ci]\n");
    let told = lives.exec("dev", HOOK).expect_code(0);
    let said =
        "your git runs or obeys .githooks by now, where the sandbox may write until its next start";
    assert!(told.stderr.contains(said), "{told}");
    assert!(told.stderr.contains("`cofferdam restart dev`"), "{told}");
    lives.git(&["checkout", "-q", "--", "."]);

    lives.cofferdam(&["stop", "dev"]).expect_code(0);
    // Nobody looks at the settings before the start.
    lives.configure("protect: [conf/ci, zz/made]\n");
    lives.cofferdam(&["start"]).expect_code(0);
    let refused = lives.exec("dev", HOOK);
    assert_ne!(refused.status.code(), Some(0), "{refused}");
    assert!(!refused.stderr.contains("your git runs"), "{refused}");
    let script = "for path in .githooks conf/ci zz/made; do touch $path/x 2>/dev/null && echo $path; done; \
                  for path in conf zz .githooks; do mv $path other 2>/dev/null && echo $path; done; touch conf/beside && echo beside";
    let seen = lives.exec("dev", script);
    assert_eq!(seen.stdout, "beside\n", "{seen}");
    assert!(lives.repository().join("zz/made").is_dir());
    std::fs::remove_file(lives.repository().join("conf/beside")).unwrap();
    lives.git(&["commit", "-q", "--allow-empty", "-m", "by the user"]);
    assert!(!lives.temporary().join("ran").exists());
    // What was made for it goes with it, also what a later start has made.
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
    assert!(!lives.repository().join("zz").exists());
    lives.expect_clean();
}

/// A branch has not what another one has: it starts all the same, and nobody inside makes it.
#[test]
fn it_starts_on_a_branch_without_what_was_protected() {
    let lives = Lives::new();
    lives.git(&["branch", "without"]);
    lives.write(".husky/pre-commit", "#!/bin/sh\n");
    lives.write("deep/conf/ci", "x\n");
    lives.configure("protect: [deep/conf]\n");
    lives.git(&["add", "-A"]);
    lives.git(&["commit", "-q", "-m", "hooks"]);
    lives.cofferdam(&["start"]).expect_code(0);
    lives.cofferdam(&["stop", "dev"]).expect_code(0);
    lives.git(&["switch", "-q", "without"]);
    assert!(!lives.repository().join(".husky").exists());
    lives.cofferdam(&["start"]).expect_code(0);
    let script = "for path in .husky deep/conf; do touch $path/x 2>/dev/null && echo $path; done; mv deep other 2>/dev/null && echo moved; git branch --show-current";
    let seen = lives.exec("dev", script).expect_code(0);
    assert_eq!(seen.stdout, "without\n", "{seen}");
    // And with them again, where one of them is a link by now.
    lives.cofferdam(&["stop", "dev"]).expect_code(0);
    lives.git(&["switch", "-q", "main"]);
    lives.git(&["rm", "-rq", "deep"]);
    std::os::unix::fs::symlink("src", lives.repository().join("deep")).unwrap();
    lives.cofferdam(&["start"]).expect_code(0);
    let seen = lives.exec("dev", "touch .husky/x 2>/dev/null && echo written; echo on");
    assert_eq!(seen.stdout, "on\n", "{seen}");
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
    assert_eq!(lives.read(".husky/pre-commit"), "#!/bin/sh\n");
}

/// What its user clones while nothing of the sandbox runs is theirs; what programs inside have made stays the sandbox's.
#[test]
fn a_clone_of_the_users_is_theirs() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    let beside = ["start", "--branch", "two"];
    lives.cofferdam(&beside).expect_code(0);
    lives.exec("dev", "git init -q inside").expect_code(0);
    lives.cofferdam(&["stop", "dev", "dev-two"]).expect_code(0);
    lives.git(&["clone", "-q", ".", "vendor"]);
    lives.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        "./vendor",
        "sub",
    ]);
    let started = lives.cofferdam(&["start"]).expect_code(0);
    assert!(!started.stderr.contains("moved"), "{started}");
    for path in ["vendor/.git/config", "sub/.git"] {
        assert!(lives.repository().join(path).exists(), "{path}");
    }
    let script = "for path in vendor/.git/x sub/.git inside/.git/x; do echo x >> $path && echo $path; done 2>/dev/null";
    let seen = lives.exec("dev", script).expect_code(0);
    assert_eq!(seen.stdout, "inside/.git/x\n", "{seen}");
    assert!(!seen.stderr.contains("moved"), "{seen}");
    // The next one that is started finds it as its user's, too.
    lives.cofferdam(&beside).expect_code(0);
    let script = script.replace("for path", "cd /workspace/repository; for path");
    let seen = lives.exec("dev-two", &script).expect_code(0);
    assert_eq!(seen.stdout, "inside/.git/x\n", "{seen}");
    assert!(!seen.stderr.contains("moved"), "{seen}");
    lives
        .cofferdam(&["delete", "--force", "dev-two"])
        .expect_code(0);
    // Whoever is inside while one is made can have made it.
    lives.git(&["clone", "-q", ".", "late"]);
    lives.cofferdam(&["restart", "dev"]).expect_code(0);
    let seen = lives.exec("dev", "echo x > late/.git/x && echo late");
    assert_eq!(seen.stdout, "late\n", "{seen}");
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
}
