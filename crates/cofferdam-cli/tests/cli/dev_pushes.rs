//! Pushes from a dev sandbox while its host is at work in the same repository, and where git has left a lock there.

use crate::containers::{making, worlds};
use crate::environment::{Done, TestEnvironment};
use crate::lives::Lives;

/// The sandbox on the branch `two`.
const TWO: &str = "dev-two";
const PUSHES: &str = r#"for n in 1 2 3 4 5; do
    git commit -q --allow-empty -m "inside-$n" || exit 9
    if git push -q host two; then echo landed; else echo kept; fi
done"#;

fn subjects(environment: &TestEnvironment, branch: &str) -> String {
    environment.git(&["log", "--format=%s", branch, "--"])
}

/// Newest first, on top of what there was.
fn counted(who: &str, most: u32) -> String {
    let mut all: Vec<String> = (1..=most).map(|n| format!("{who}-{n}")).collect();
    all.reverse();
    all.push("start".to_owned());
    all.join("\n")
}

/// Nobody's commit is lost, and no git of the user's fails because of a push.
#[track_caller]
fn both_commit(environment: &TestEnvironment, exec: &(dyn Fn(&str) -> Done + Sync)) {
    let (pushed, outside) = std::thread::scope(|scope| {
        let pushing = scope.spawn(|| exec(PUSHES));
        let mut outside = 0;
        while !pushing.is_finished() {
            outside += 1;
            environment.write("README.md", &format!("{outside}\n"));
            environment.git(&["commit", "-qam", &format!("outside-{outside}")]);
        }
        (pushing.join().unwrap(), outside)
    });
    let pushed = pushed.expect_code(0);
    assert!(outside > 5, "{outside} commits");
    // What did not land at once says why.
    let kept = pushed.stdout.lines().filter(|line| *line == "kept");
    let why = pushed.stderr.lines();
    let why = why.filter(|line| line.starts_with("host: "));
    assert_eq!(kept.count(), why.count(), "{pushed}");
    let unhelpful = "something is wrong on the host";
    assert!(!pushed.stderr.contains(unhelpful), "{pushed}");
    exec("git push -q host two").expect_code(0);
    assert_eq!(subjects(environment, "two"), counted("inside", 5));
    assert_eq!(subjects(environment, "main"), counted("outside", outside));
    assert_eq!(environment.read("README.md"), format!("{outside}\n"));
    assert_eq!(
        environment.git(&["status", "--porcelain", "--untracked-files=no"]),
        ""
    );
}

// covers: S3-106
#[test]
fn it_pushes_while_its_host_commits() {
    let lives = Lives::new();
    lives
        .cofferdam(&["start", "--branch", "two"])
        .expect_code(0);
    both_commit(&lives, &|script| lives.exec(TWO, script));
    lives.cofferdam(&["delete", "--force", TWO]).expect_code(0);
    lives.expect_clean();
}

// covers: S3-106
#[test]
fn a_container_pushes_while_its_host_commits() {
    for world in worlds() {
        let start = making("start", world.engine, &["--branch", "two"]);
        world.cofferdam(&start).expect_code(0);
        both_commit(&world.environment, &|script| world.exec_in(TWO, script));
        world.cofferdam(&["delete", "--force", TWO]).expect_code(0);
        world.expect_clean();
    }
}

/// As `kill -9` of git leaves it: whoever pushes is told what is in the way, and loses nothing.
#[test]
fn a_lock_in_the_way_of_a_push_is_named() {
    let lives = Lives::new();
    lives.git(&["branch", "two"]);
    lives
        .cofferdam(&["start", "--branch", "two"])
        .expect_code(0);
    let lock = ".git/refs/heads/two.lock";
    lives.write(lock, "");
    let push = "git commit -q --allow-empty -m inside && git push host two 2>&1";
    let refused = lives.exec(TWO, push).expect_code(1);
    assert!(refused.stdout.contains("lock"), "{refused}");
    // Where that lies is nobody's inside to know.
    let place = lives.repository();
    let place = place.to_str().unwrap();
    assert!(!refused.stdout.contains(place), "{refused}");
    assert_eq!(subjects(&lives, "two"), "start");
    let kept = lives.exec(TWO, "git log -1 --format=%s").expect_code(0);
    assert_eq!(kept.stdout, "inside\n");

    std::fs::remove_file(lives.repository().join(lock)).unwrap();
    lives.exec(TWO, "git push -q host two").expect_code(0);
    assert_eq!(subjects(&lives, "two"), "inside\nstart");
    lives.cofferdam(&["delete", "--force", TWO]).expect_code(0);
    lives.expect_clean();
}
