//! What a sandbox keeps is told by every command that its user asks, each time, with a command that takes it.

use std::path::Path;

use crate::environment::TestEnvironment;
use crate::lives::Lives;

/// The words between backticks in the hint of `error`, one after another.
fn commands(error: &str) -> Vec<&str> {
    let hint = error.lines().find(|line| line.starts_with("hint:"));
    hint.unwrap_or_default()
        .split('`')
        .skip(1)
        .step_by(2)
        .collect()
}

/// Its agent works in a worktree, and leaves a file there.
fn left_in_a_worktree() -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    environment
        .run(
            &["--name", "left", "-q", "--mode", "bind", "--branch", "work"],
            "echo x > x",
        )
        .expect_code(0);
    environment
}

#[test]
fn what_is_in_a_worktree_is_applied_once_it_is_committed_there() {
    let environment = left_in_a_worktree();
    let done = environment.cofferdam(&["apply", "left"]).expect_code(1);
    assert!(
        done.stderr
            .contains("left has uncommitted work in its worktree"),
        "{done}"
    );
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
    let hint = done
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("hint: commit it there, then give this again: "))
        .unwrap();
    let (commit, again) = hint.rsplit_once(" && ").unwrap();
    assert_eq!(again, "cofferdam apply left");
    environment.shell(&format!("{commit} -qm x")).expect_code(0);
    environment.cofferdam(&["apply", "left"]).expect_code(0);
    assert_eq!(environment.git(&["status", "--porcelain"]), "A  x");
    // Nothing of it is uncommitted any more.
    let done = environment
        .cofferdam(&["diff", "--uncommitted", "left"])
        .expect_code(0);
    assert_eq!(done.stdout, "", "{done}");
}

#[test]
fn a_worktree_that_was_made_of_it_is_what_counts() {
    let environment = Lives::new();
    environment
        .run(&["--name", "left", "-q"], "echo old > x")
        .expect_code(0);
    let made = environment.cofferdam(&["worktree", "left"]).expect_code(0);
    let worktree = Path::new(made.stdout.trim_end());
    environment.shell(&format!("echo new > {}/x", worktree.display()));
    for words in [&["apply", "left"][..], &["diff", "--uncommitted", "left"]] {
        let done = environment.cofferdam(words).expect_code(1);
        assert!(
            done.stderr
                .contains(&format!("git -C {}", worktree.display())),
            "{done}"
        );
    }
    environment
        .shell(&format!(
            "git -C {0} add -A && git -C {0} commit -qm x",
            worktree.display()
        ))
        .expect_code(0);
    environment.cofferdam(&["apply", "left"]).expect_code(0);
    assert_eq!(environment.read("x"), "new\n");
    // What its worktree holds is what its hint removes.
    let done = environment.cofferdam(&["start", "left"]).expect_code(1);
    let remove = commands(&done.stderr)[0].to_owned();
    environment.shell(&format!("echo y > {}/y", worktree.display()));
    environment.shell(&remove).expect_code(0);
    environment.cofferdam(&["start", "left"]).expect_code(0);
}

/// Once all of it is committed there and merged, nothing keeps the sandbox; until then everything does.
#[test]
fn what_was_taken_out_into_a_worktree_is_done_with_there() {
    let left = || {
        let environment = Lives::new();
        environment
            .run(
                &["--name", "left", "-q"],
                "echo one >c; git add c; git commit -qm one; echo u >u",
            )
            .expect_code(0);
        environment.git(&["branch", "-q", "aside"]);
        let made = environment.cofferdam(&["worktree", "left"]).expect_code(0);
        let worktree = made.stdout.trim_end().to_owned();
        (environment, worktree)
    };
    let commit = |environment: &Lives, worktree: &str| {
        let line = format!("git -C {worktree} add -A && git -C {worktree} commit -qm mine");
        environment.shell(&line).expect_code(0);
    };
    let (environment, worktree) = left();
    environment.cofferdam(&["delete", "left"]).expect_code(1);
    environment.cofferdam(&["gc"]).expect_code(0);
    assert!(environment.listed("left").is_some());
    commit(&environment, &worktree);
    environment.cofferdam(&["gc"]).expect_code(0);
    assert!(environment.listed("left").is_some(), "it is not merged");
    let merged = environment.cofferdam(&["merge", "left"]).expect_code(0);
    assert!(!merged.to_string().contains("uncommitted"), "{merged}");
    assert_eq!(environment.read("u"), "u\n");
    environment.cofferdam(&["gc"]).expect_code(0);
    assert!(environment.listed("left").is_none(), "{merged}");
    assert!(!Path::new(&worktree).exists());
    // Without a merge, its user lets go of the branch alone.
    let (environment, worktree) = left();
    commit(&environment, &worktree);
    environment.cofferdam(&["delete", "left"]).expect_code(0);
    assert!(environment.listed("left").is_none());
    // Who goes on in its own files leaves something anew.
    let (environment, worktree) = left();
    let remove = format!("git worktree remove --force {worktree}");
    environment.shell(&remove).expect_code(0);
    environment.cofferdam(&["start", "left"]).expect_code(0);
    let done = environment.cofferdam(&["delete", "left"]).expect_code(1);
    assert!(done.stderr.contains("uncommitted"), "{done}");
}

/// What lies in the user's working tree is theirs; what was taken back out of it is the sandbox's again.
#[test]
fn what_was_applied_keeps_its_sandbox_from_no_delete() {
    for undo in [false, true] {
        let environment = Lives::new();
        environment
            .run(
                &["--name", "left", "-q"],
                "echo c >c; git add c; git commit -qm c; echo u >u",
            )
            .expect_code(0);
        environment.cofferdam(&["delete", "left"]).expect_code(1);
        environment.cofferdam(&["apply", "left"]).expect_code(0);
        // As long as it can be taken back, its sandbox is there.
        environment.cofferdam(&["gc"]).expect_code(0);
        assert!(environment.listed("left").is_some());
        if undo {
            environment
                .cofferdam(&["apply", "--undo", "left"])
                .expect_code(0);
        }
        let code = i32::from(undo);
        environment.cofferdam(&["delete", "left"]).expect_code(code);
        assert_eq!(environment.listed("left").is_some(), undo);
        assert_eq!(environment.repository().join("u").exists(), !undo);
    }
}

/// What did not come out of its files stays work, whatever became of the worktree.
#[test]
fn what_a_worktree_did_not_take_keeps_its_sandbox() {
    let environment = Lives::new();
    environment
        .run(
            &["--name", "left", "-q"],
            "echo u >u; rm README.md; mkfifo README.md",
        )
        .expect_code(0);
    let made = environment.cofferdam(&["worktree", "left"]).expect_code(0);
    assert!(made.stderr.contains("its git cannot read"), "{made}");
    let worktree = made.stdout.trim_end();
    let line = format!("git -C {worktree} add u && git -C {worktree} commit -qm mine");
    environment.shell(&line).expect_code(0);
    environment.cofferdam(&["merge", "left"]).expect_code(0);
    environment.cofferdam(&["gc"]).expect_code(0);
    let done = environment.cofferdam(&["delete", "left"]).expect_code(1);
    assert!(done.stderr.contains("uncommitted"), "{done}");
    assert!(environment.listed("left").is_some());
}

const ON_ITS_BRANCH: &str = "echo m > m; git add m; git commit -qm main-line;";
const ELSEWHERE: &str =
    "git checkout -qb side; echo s > s; git add s; git commit -qm side; git checkout -q -";

#[test]
fn commits_on_another_branch_are_named_with_what_takes_them() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(
            &["--name", "left", "-q"],
            &(ON_ITS_BRANCH.to_owned() + ELSEWHERE),
        )
        .expect_code(0);
    for command in ["diff", "log", "merge"] {
        let done = environment.cofferdam(&[command, "left"]);
        let told = format!("{}{}", done.stdout, done.stderr);
        assert!(told.contains("refs/cofferdam/"), "{command}: {done}");
        assert!(!told.contains("cofferdam delete"), "{command}: {done}");
    }
    let list = environment.cofferdam(&["list"]).expect_code(0);
    assert!(list.stderr.contains("take them with `git merge "), "{list}");
    let list = environment
        .cofferdam(&["list", "--json"])
        .expect_code(0)
        .stdout;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list[0]["beside"].as_array().unwrap().len(), 1, "{list}");
}

#[test]
fn those_of_one_that_lives_on_are_told_each_time() {
    let environment = Lives::with("lives", &[]);
    environment.exec("lives", ON_ITS_BRANCH).expect_code(0);
    environment.exec("lives", ELSEWHERE).expect_code(0);
    environment.cofferdam(&["collect", "lives"]).expect_code(0);
    for _ in 0..2 {
        for words in [
            &["list"][..],
            &["status", "lives"],
            &["log", "lives"],
            &["diff", "lives"],
        ] {
            let done = environment.cofferdam(words).expect_code(0);
            assert!(
                done.stderr
                    .contains("take them with `git merge refs/cofferdam/"),
                "{words:?}: {done}"
            );
        }
    }
    let status = environment
        .cofferdam(&["status", "lives", "--json"])
        .expect_code(0)
        .stdout;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let reference = status["beside"][0].as_str().unwrap().to_owned();
    environment.git(&["merge", "-q", "--no-edit", &reference]);
    // Once it is taken nobody speaks of it.
    let list = environment.cofferdam(&["list"]).expect_code(0);
    assert!(!list.stderr.contains("refs/cofferdam/"), "{list}");
}

#[test]
fn one_that_switched_its_branch_is_told() {
    let environment = Lives::with("lives", &[]);
    environment
        .exec(
            "lives",
            "git checkout -qb other; echo m > m; git add m; git commit -qm other",
        )
        .expect_code(0);
    let done = environment.cofferdam(&["collect", "lives"]).expect_code(0);
    assert!(
        done.stderr.contains(
            "the sandbox left its branch for other: what it has there is on cofferdam/lives here"
        ),
        "{done}"
    );
}

#[test]
fn uncommitted_work_of_one_that_lives_on_is_seen_before_it_is_deleted() {
    for mode in ["layer", "copy", "bind"] {
        let environment = Lives::with("lives", &["--mode", mode]);
        let changes = || {
            let status = environment
                .cofferdam(&["status", "lives", "--json"])
                .expect_code(0);
            let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
            status["changes"].clone()
        };
        assert_eq!(changes(), false, "{mode}");
        environment.exec("lives", "echo x > x").expect_code(0);
        assert_eq!(changes(), true, "{mode}");
        let list = environment.cofferdam(&["list"]).expect_code(0);
        let word = if mode == "bind" { "yes" } else { "maybe" };
        assert!(list.stdout.contains(word), "{mode}: {list}");
        environment.cofferdam(&["stop", "lives"]).expect_code(0);
        assert_eq!(changes(), true, "{mode}");
        environment.cofferdam(&["start", "lives"]).expect_code(0);
        environment
            .exec("lives", "git add x; git commit -qm x")
            .expect_code(0);
        environment.cofferdam(&["collect", "lives"]).expect_code(0);
        assert_eq!(changes(), false, "{mode}");
        environment.cofferdam(&["pause", "lives"]).expect_code(0);
        if mode != "bind" {
            assert_eq!(changes(), serde_json::Value::Null, "{mode}");
        }
        environment.cofferdam(&["resume", "lives"]).expect_code(0);
        environment.cofferdam(&["delete", "lives"]).expect_code(0);
    }
}
