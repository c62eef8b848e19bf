//! Somebody removes the files of commits by hand while a sandbox stands on them: there its git takes every file for
//! deleted, and nothing of the user's may follow.

use rustix::process::{Pid, Signal, kill_process};

use crate::environment::{Done, TestEnvironment};
use crate::lives::Lives;
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

/// Files of an earlier boot may be torn, and are written again: nobody has removed them while the sandbox ran.
#[test]
fn a_power_cut_holds_no_commit_back() {
    for looks in [false, true] {
        let lives = Lives::with("box", &["--network", "none", "--mode", "layer"]);
        lives
            .exec(
                "box",
                "echo new > new; git add new; git commit -qm new; echo more > more",
            )
            .expect_code(0);
        let status = lives.cofferdam(&["status", "box", "--json"]).expect_code(0);
        let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
        let guest = i32::try_from(status["process"].as_i64().unwrap()).unwrap();
        kill_process(Pid::from_raw(guest).unwrap(), Signal::KILL).unwrap();
        eventually("it has ended", || lives.state("box") == "stopped");
        let trees = lives.home().join(".cofferdam/trees");
        for store in trees.read_dir().unwrap().flatten() {
            for layer in store.path().read_dir().into_iter().flatten().flatten() {
                let about = layer.path().join("about");
                let Ok(text) = std::fs::read_to_string(&about) else {
                    continue;
                };
                let boot = text.lines().find(|line| line.starts_with("boot "));
                let other = text.replace(boot.unwrap(), "boot another");
                cofferdam::fsx::write_private(&about, other.as_bytes()).unwrap();
            }
        }
        if looks {
            // Whoever looks at its files has them written again first.
            let shown = lives.cofferdam(&["diff", "--uncommitted", "box", "--name-status"]);
            assert_eq!(shown.expect_code(0).stdout, "A\tmore\n");
        }
        let done = lives.cofferdam(&["merge", "box"]).expect_code(0);
        assert_eq!(lives.git(&["show", "main:new"]), "new", "{done}");
        lives
            .cofferdam(&["delete", "--force", "box"])
            .expect_code(0);
    }
}
