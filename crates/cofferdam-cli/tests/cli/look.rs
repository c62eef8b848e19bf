//! `cofferdam diff` and `cofferdam log`.

use cofferdam_lab::way::Mode;

use crate::environment::{TestEnvironment, check, commit_script};
use crate::everywhere::everywhere;

fn with_sandbox() -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    environment
        .run(
            &["--branch", "feature", "--name", "look"],
            &commit_script(&["a", "b"]),
        )
        .expect_code(0);
    environment
}

#[test]
fn diff_in_three_styles() {
    let environment = with_sandbox();
    let done = environment.cofferdam(&["diff", "look", "--name-status"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    A	a.txt
    A	b.txt
    --- stderr
    ");
    let done = environment
        .cofferdam(&["diff", "look", "--stat"])
        .expect_code(0);
    assert!(
        done.stdout.contains("2 files changed, 2 insertions(+)"),
        "{done}"
    );
    let done = environment.cofferdam(&["diff", "look"]).expect_code(0);
    assert!(done.stdout.contains("\n+a\n"), "{done}");
    environment
        .cofferdam(&["diff", "look", "--stat", "--name-status"])
        .expect_code(2);
}

#[test]
fn log_newest_last() {
    let environment = with_sandbox();
    let done = environment.cofferdam(&["log", "look"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    [SHORT] a
    [SHORT] b
    --- stderr
    ");
    let done = environment
        .cofferdam(&["log", "look", "--json"])
        .expect_code(0);
    let commits: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(commits[1]["subject"], "b");
    assert_eq!(commits[1]["id"], environment.git(&["rev-parse", "feature"]));
}

#[test]
fn hostile_names_and_subjects_are_inert() {
    everywhere(131, |world| {
        let script = r#"
        name=$(printf 'a\033[2Jb\302\233c'); echo x > "$name"; git add -A
        git commit -qm "$(printf 'red \033[31m \342\200\256 end')"
    "#;
        let done = world
            .run(&["--branch", "hostile", "--name", "hostile"], script)
            .expect_code(0);
        for text in [
            done.stdout,
            done.stderr,
            world.cofferdam(&["log", "hostile"]).expect_code(0).stdout,
            world
                .cofferdam(&["log", "hostile", "--json"])
                .expect_code(0)
                .stdout,
            world.cofferdam(&["diff", "hostile"]).expect_code(0).stdout,
            world
                .cofferdam(&["diff", "hostile", "--stat"])
                .expect_code(0)
                .stdout,
            world.cofferdam(&["list"]).expect_code(0).stdout,
        ] {
            assert!(!text.is_empty());
            assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{text:?}");
        }
        world
            .cofferdam(&["delete", "--force", "hostile"])
            .expect_code(0);
    });
}

/// Whatever a commit says, of whom and how long: what is shown of it has no byte that a terminal obeys, and an end.
#[test]
fn whatever_a_commit_says_is_shown_inert_and_bounded() {
    everywhere(67, |world| {
        let script = r#"
        odd=$(printf 'a\033[2Jb\033]52;c;eA==\007c\033]8;;x\007d\re\177f\302\233g\342\200\256h')
        export GIT_AUTHOR_NAME="$odd" GIT_COMMITTER_NAME="$odd" GIT_AUTHOR_EMAIL="$odd"
        printf '%s\n' "$odd" > file; printf 'overwritten\rnew\n' > "$odd"; git add -A; git commit -qm "$odd"
        { printf '%s' "$odd"; head -c 1000000 /dev/zero | tr '\0' x; printf '\n\n'; head -c 1000000 /dev/zero | tr '\0' y; } > /tmp/m
        head -c 1000000 /dev/zero | tr '\0' z > line; git add line; git commit -qF /tmp/m
        git checkout -q -b "$(printf 'b\342\200\256y')"; git commit -q --allow-empty -m beside; git checkout -q -
    "#;
        let done = world
            .run(&["--branch", "odd", "--name", "odd"], script)
            .expect_code(0);
        let told = format!("{}{}", done.stdout, done.stderr);
        let listed = world.cofferdam(&["list", "--json"]).expect_code(0).stdout;
        let mode = format!("\"mode\":\"{}\"", Mode::of_this_pass());
        assert!(listed.contains(&mode), "{listed}");
        let commands = [
            &["log", "odd"][..],
            &["log", "odd", "--json"],
            &["diff", "odd", "--stat"],
            &["diff", "odd", "--name-status"],
            &["list"],
            &["list", "--json"],
            &["status", "odd"],
        ];
        let mut texts = vec![(told, 64 << 10)];
        for words in commands {
            let done = world.cofferdam(words).expect_code(0);
            assert!(!done.stdout.is_empty(), "{words:?}: {done}");
            // What is for programs is whole.
            let most = if words == ["log", "odd", "--json"] {
                2_000_000
            } else {
                64 << 10
            };
            texts.push((format!("{}{}", done.stdout, done.stderr), most));
        }
        // It is in the file, and so it is shown, once.
        let diff = world.cofferdam(&["diff", "odd"]).expect_code(0).stdout;
        assert!(diff.contains("+overwritten\\u{d}new\n"));
        texts.push((diff, 2_000_000));
        let obeyed = |c: &char| {
            c.is_control() && !['\n', '\t'].contains(c)
                || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        for (text, most) in texts {
            let begin: String = text.chars().take(400).collect();
            assert_eq!(text.chars().find(obeyed), None, "{begin:?}");
            assert!(text.len() < most, "{}: {begin:?}", text.len());
        }
        world
            .cofferdam(&["delete", "--force", "odd"])
            .expect_code(0);
    });
}

#[test]
fn unknown_names() {
    let environment = TestEnvironment::with_repository();
    for command in ["diff", "log", "merge", "delete"] {
        let done = environment.cofferdam(&[command, "nobody"]).expect_code(1);
        assert!(
            done.stderr.starts_with("error: ") && done.stderr.contains("nobody"),
            "{done}"
        );
    }
}

/// What is binary is said to differ, and nothing of it is shown; a zero byte in a script hides nothing. Paths leave out the rest.
#[test]
fn binary_files_are_said_to_differ() {
    let script = r"
        mkdir sub; head -c 3000 /dev/urandom > image.png; printf '\211PNG\r\n\032\n\000\000\000\rIHDR' > sub/small
        printf '#!/bin/sh\n\000touch hidden-work\n' > script; echo text > sub/text; git add -A; git commit -qm all";
    let environment = with_commits_of(script);
    let all = environment
        .cofferdam(&["diff", "one"])
        .expect_code(0)
        .stdout;
    for path in ["image.png", "sub/small"] {
        let said = format!("Binary files a/{path} and b/{path} differ\n");
        assert!(all.contains(&said), "{all}");
    }
    assert!(!all.contains("IHDR") && all.len() < 1000, "{all}");
    assert!(
        all.contains("hidden-work") && all.contains("+text"),
        "{all}"
    );
    let of = |paths: &[&str]| {
        let words = [&["diff", "one"], paths].concat();
        environment.cofferdam(&words).expect_code(0).stdout
    };
    let sub = of(&["sub"]);
    assert!(
        sub.contains("+text") && sub.contains("sub/small differ"),
        "{sub}"
    );
    assert!(!sub.contains("script") && !sub.contains("image"), "{sub}");
    let one = of(&["./sub/../script", "--stat"]);
    assert!(one.contains("script") && !one.contains("sub"), "{one}");
    assert_eq!(of(&["none-such"]), "");
    environment
        .cofferdam(&["diff", "one", "/etc"])
        .expect_code(2);
}

fn with_commits_of(script: &str) -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    environment
        .run(&["--branch", "feature", "--name", "one"], script)
        .expect_code(0);
    environment
}
