//! A sandbox whose git or whose repository is not where it was: what is said of it leads on.

use std::fs;
use std::process::Stdio;

use crate::environment::{TestEnvironment, finish};
use crate::lives::Lives;

#[test]
fn a_sandbox_without_git_gives_up_its_files() {
    let lives = Lives::with("one", &[]);
    lives
        .exec("one", "echo work > kept; rm -rf .git/HEAD")
        .expect_code(0);
    let done = lives.cofferdam(&["collect", "one"]).expect_code(1);
    let why = "`HEAD` in the sandbox's git directory cannot be read";
    assert_eq!(done.stdout.matches(why).count(), 1, "{done}");
    assert!(!done.stderr.contains(why), "{done}");
    let next = done
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("next: "));
    let next = next.unwrap_or_else(|| panic!("{done}"));
    let program = env!("CARGO_BIN_EXE_cofferdam");
    let follow = || lives.shell(&format!("cofferdam() {{ '{program}' \"$@\"; }}; {next}"));
    follow().expect_code(0);
    lives.shell("tar -xOf one.tar ./kept > kept").expect_code(0);
    assert_eq!(lives.read("kept"), "work\n");
    // A file of that name may be the user's.
    lives.write("one.tar", "mine");
    follow().expect_code(1);
    assert_eq!(lives.read("one.tar"), "mine");
    lives.cofferdam(&["delete", "one"]).expect_code(1);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// A user who looks for theirs in another repository, or in one that was moved.
#[test]
fn a_sandbox_of_another_place_is_named() {
    let lives = Lives::with("one", &[]);
    let other = lives.repository().with_file_name("other");
    lives.git(&["clone", "--quiet", ".", other.to_str().unwrap()]);
    let there = |words: &[&str]| {
        let mut command = lives.command(words);
        command.current_dir(&other);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    };
    let done = there(&["status", "one"]).expect_code(1);
    let hint = format!("cofferdam -C {} list", lives.repository().display());
    assert!(done.stderr.contains(&hint), "{done}");
    let list = there(&["list"]).expect_code(0);
    assert!(!list.stderr.contains("moved"), "{list}");

    fs::remove_dir_all(&other).unwrap();
    fs::rename(lives.repository(), &other).unwrap();
    let done = there(&["status", "one"]).expect_code(1);
    assert!(done.stderr.contains("which is gone"), "{done}");
    let list = there(&["list"]).expect_code(0);
    let hint = "`cofferdam list --all-repos`";
    assert!(list.stderr.contains(hint), "{list}");
    let all = there(&["list", "--all-repos"]).expect_code(0);
    assert!(all.stderr.contains("put it back"), "{all}");
    fs::rename(&other, lives.repository()).unwrap();
    lives.cofferdam(&["status", "one"]).expect_code(0);
}

#[test]
fn nobody_is_sent_elsewhere_without_one_there() {
    let environment = TestEnvironment::with_repository();
    let done = environment.cofferdam(&["status", "one"]).expect_code(1);
    assert!(done.stderr.contains("see which there are in"), "{done}");
}

/// Another branch that is refused for the same reason is told all the same.
#[test]
fn two_refusals_are_two() {
    let lives = Lives::with("one", &[]);
    let submodule = "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub";
    let script = format!(
        "{submodule}; git commit -qm one; git checkout -qb other; git commit -q --allow-empty -m two"
    );
    lives.exec("one", &script).expect_code(0);
    let done = lives.cofferdam(&["collect", "one"]).expect_code(1);
    let next = "next: cofferdam shell one   # mend that inside, then `cofferdam collect one`";
    assert!(done.stdout.contains(next), "{done}");
    assert!(
        done.stderr
            .contains("note: commits that are not on the branch"),
        "{done}"
    );
}
