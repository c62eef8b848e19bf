//! What is beside a sandbox's branch and has a reference of its own: what is said of it works, and it is in nobody's way.

use crate::lives::Lives;

/// A stash inside, and a file that is in no commit.
const STASHED: &str = "echo stashed >> README.md; git stash -q; echo new > new.txt";

#[test]
fn a_sandbox_with_a_stash_goes_when_its_work_was_applied() {
    for mode in ["layer", "copy"] {
        let lives = Lives::with("one", &["--mode", mode, "--network", "none"]);
        lives.exec("one", STASHED).expect_code(0);
        lives.cofferdam(&["apply", "one"]).expect_code(0);
        assert_eq!(lives.read("new.txt"), "new\n");
        let done = lives.cofferdam(&["delete", "one"]).expect_code(0);
        assert!(done.stderr.contains("deleted one"), "{mode}: {done}");
        let trash = lives.git(&[
            "for-each-ref",
            "--format=%(refname)",
            "refs/cofferdam/trash",
        ]);
        let applies = |reference: &&str| {
            let shown = lives.shell(&format!("git stash show -p '{reference}' 2>/dev/null"));
            shown.stdout.contains("+stashed")
        };
        assert!(trash.lines().any(|one| applies(&one)), "{mode}: {trash}");
        lives.expect_clean();
    }
}

#[test]
fn a_stash_is_taken_as_it_is_printed() {
    for mode in ["layer", "bind"] {
        let lives = Lives::with("one", &["--mode", mode, "--network", "none"]);
        lives.exec("one", STASHED).expect_code(0);
        lives.cofferdam(&["collect", "one"]).expect_code(0);
        let status = lives.cofferdam(&["status", "one"]).expect_code(0);
        let told = format!("{}{}", status.stdout, status.stderr);
        let commands: Vec<&str> = told
            .split('`')
            .filter(|part| part.starts_with("git stash "))
            .collect();
        let [see, take] = commands[..] else {
            panic!("{mode}: {status}");
        };
        let seen = lives.shell(see).expect_code(0);
        assert!(seen.stdout.contains("+stashed"), "{mode}: {seen}");
        lives.shell(take).expect_code(0);
        assert!(lives.read("README.md").contains("stashed"), "{mode}");
        lives.git(&["checkout", "README.md"]);
    }
}

/// Two words of somebody who had a shell in mind.
#[test]
fn a_line_of_a_shell_is_no_program_to_install() {
    let lives = Lives::with("one", &["--network", "none"]);
    for (word, line) in [
        ("make test", "-- sh -c 'make test'"),
        ("cd", "-- sh -c 'cd …'"),
    ] {
        let done = lives.cofferdam(&["exec", "one", "--", word]);
        assert_ne!(done.status.code(), Some(0), "{done}");
        assert!(done.stderr.contains(line), "{done}");
        assert!(!done.stderr.contains("install"), "{done}");
    }
}

/// A file of the user's that a program inside wrote over in their own checkout.
#[test]
fn the_end_of_one_in_the_checkout_names_what_it_changed() {
    let lives = Lives::new();
    lives.write("local.cfg", "mine\n");
    lives.create("one", &["--head"]);
    lives.exec("one", "echo other > local.cfg").expect_code(0);
    let done = lives.cofferdam(&["delete", "one"]).expect_code(0);
    assert_eq!(lives.read("local.cfg"), "other\n");
    let said = done
        .stderr
        .lines()
        .find_map(|line| line.trim_end_matches('`').split_once("as they were: `"));
    let (what, way) = said.unwrap_or_else(|| panic!("{done}"));
    assert!(what.contains("local.cfg"), "{done}");
    lives
        .shell(&way.replace("PATH", "local.cfg"))
        .expect_code(0);
    assert_eq!(lives.read("local.cfg"), "mine\n");
}
