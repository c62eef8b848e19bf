//! Somebody removes the files of commits by hand while a sandbox stands on them: there its git takes every file for
//! deleted, and nothing of the user's may follow.

use crate::environment::{Done, TestEnvironment};
use crate::living_home::eventually;

fn remove_trees(environment: &TestEnvironment) {
    std::fs::remove_dir_all(environment.home().join(".cofferdam/trees")).unwrap();
}

const COMMIT_ALL: &str = "echo new > new; git add new; git add -A; git commit -qm all";

/// Waits until somebody has removed what it stands on, and commits whatever git says then.
const WAITING: &str =
    "touch ready; while ls src 2>/dev/null | grep -q .; do sleep 0.02; done; rm ready";

#[test]
fn what_a_run_commits_then_is_kept_and_named() {
    for options in [&[][..], &["--branch", "topic"]] {
        let environment = TestEnvironment::with_repository();
        let (main, files) = (
            environment.git(&["rev-parse", "main"]),
            environment.git(&["ls-files"]),
        );
        let done = std::thread::scope(|scope| {
            let script = format!("{WAITING}; {COMMIT_ALL}");
            let options = [&["--name", "r", "-q"], options].concat();
            let run = scope.spawn({
                let environment = &environment;
                move || environment.run(&options, &script)
            });
            let state = environment.home().join(".cofferdam/state");
            let ready = |one: std::fs::DirEntry| one.path().join("layer/upper/ready").exists();
            eventually("the agent is at work", || {
                state.read_dir().is_ok_and(|all| all.flatten().any(ready))
            });
            remove_trees(&environment);
            run.join().unwrap()
        });
        let done = done.expect_code(1);
        assert!(done.stdout.contains("were removed meanwhile"), "{done}");
        assert_eq!(environment.git(&["rev-parse", "main"]), main, "{done}");
        assert_eq!(environment.git(&["status", "--porcelain"]), "", "{done}");
        assert_eq!(environment.git(&["ls-files"]), files);
        // What was committed is there, under the name that was told, and `merge` does not take it.
        let kept = kept(&environment, &done);
        let listed = environment.git(&["ls-tree", "-r", "--name-only", &kept]);
        let lacks = !listed.contains("src/lib.txt");
        assert!(lacks, "the control: its git took it for deleted: {listed}");
        let merged = environment.cofferdam(&["merge", "r"]);
        assert!(merged.stdout.is_empty(), "{merged}");
        assert_eq!(environment.git(&["rev-parse", "main"]), main, "{merged}");
    }
}

/// The reference that a command names and that is there.
#[track_caller]
fn kept(environment: &TestEnvironment, done: &Done) -> String {
    let references = environment.git(&["for-each-ref", "--format=%(refname)", "refs/cofferdam/"]);
    let told = references
        .lines()
        .find(|name| done.stdout.contains(*name) || done.stderr.contains(*name));
    told.unwrap_or_else(|| panic!("{references}\n{done}"))
        .to_owned()
}

#[test]
fn of_a_running_one_nothing_is_brought_out_until_it_stands_again() {
    let environment = TestEnvironment::with_repository();
    environment
        .cofferdam(&["create", "box", "--network", "none"])
        .expect_code(0);
    let inside = |line: &str| environment.cofferdam(&["exec", "box", "--", "sh", "-c", line]);
    inside("echo more > more").expect_code(0);
    remove_trees(&environment);
    // The control: so it looks inside.
    let seen = inside("git status --porcelain").expect_code(0);
    assert!(seen.stdout.contains(" D README.md"), "{seen}");

    for command in [&["apply", "box"][..], &["diff", "--uncommitted", "box"]] {
        let done = environment.cofferdam(command).expect_code(1);
        assert!(done.stderr.contains("were removed while it runs"), "{done}");
        let hint = "`cofferdam stop box` and `cofferdam start box`";
        assert!(done.stderr.contains(hint), "{done}");
    }
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
    let list = environment.cofferdam(&["list", "--json"]).expect_code(0);
    assert!(!list.stdout.contains("\"changes\":true"), "{list}");

    // Somebody else's run writes the same files again, which are not those that are mounted.
    environment.run(&["-q"], "true").expect_code(0);
    environment.cofferdam(&["apply", "box"]).expect_code(1);

    inside(COMMIT_ALL).expect_code(0);
    let main = environment.git(&["rev-parse", "main"]);
    for command in [
        &["merge", "box"][..],
        &["collect", "box"],
        &["merge", "box"],
    ] {
        let done = environment.cofferdam(command).expect_code(1);
        let next = format!("next: git diff --stat HEAD...{}", kept(&environment, &done));
        assert!(done.stdout.contains(&next), "{done}");
        assert!(!done.stdout.contains("made no commit"), "{done}");
        assert_eq!(environment.git(&["rev-parse", "main"]), main);
        assert!(environment.git(&["ls-files"]).contains("README.md"));
    }

    environment.cofferdam(&["stop", "box"]).expect_code(0);
    environment.cofferdam(&["start", "box"]).expect_code(0);
    inside("git reset -q --soft HEAD~1 && git reset -q").expect_code(0);
    environment.cofferdam(&["apply", "box"]).expect_code(0);
    assert_eq!(
        environment.git(&["status", "--porcelain"]),
        "A  more\nA  new"
    );
    environment.git(&["reset", "-q", "--hard"]);
    environment
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
}
