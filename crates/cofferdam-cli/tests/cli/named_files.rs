//! Files that a user names in a checkout, where an agent has left links: none is read or written through one.

use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;

use crate::environment::{Done, TestEnvironment};

const CANARY: &str = "canary-of-the-host";

/// A checkout in which an agent left `FILE`, a link to a file of the user's, and `away`, one to the directory that it is in.
fn planted(file: &str) -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    let key = environment.puts("keys/key", CANARY);
    symlink(&key, environment.repository().join(file)).unwrap();
    let away = environment.repository().join("away");
    symlink(key.parent().unwrap(), away).unwrap();
    environment
}

#[track_caller]
fn refused(done: &Done, link: &str) {
    assert_ne!(done.status.code(), Some(0), "{done}");
    let names = done.stderr.contains(&format!("{link} is a symlink to"));
    assert!(
        names && done.stderr.contains("\nhint: see who made it"),
        "{done}"
    );
    assert!(!done.to_string().contains(CANARY), "{done}");
}

fn key(environment: &TestEnvironment) -> String {
    std::fs::read_to_string(environment.home().join("keys/key")).unwrap()
}

#[test]
fn nothing_is_read_through_a_link_of_a_checkout() {
    let environment = planted("link.md");
    let schema = ["--output-tag", "x", "--output-schema"];
    for (named, link) in [("link.md", "link.md"), ("away/key", "away")] {
        for options in [
            &["run", "--head", "--prompt-file", named, "--", "cat"][..],
            &["run", "--prompt-file", named, "--", "cat"],
            &["run", "--plan", named, "--", "cat"],
            &["prompt", "check", named],
            &[&["run"], &schema[..], &[named, "--", "true"]].concat(),
            &["run", "--agent", "codex", "--prompt", "x", "--login", named],
        ] {
            refused(&environment.cofferdam(options), link);
        }
    }
    environment.expect_nothing_made();
    // What is the user's own, outside, is read through links as ever.
    let link = environment.home().join("prompt.md");
    symlink(environment.home().join("keys/key"), &link).unwrap();
    let words = ["run", "--prompt-file", link.to_str().unwrap(), "--", "cat"];
    let done = environment.cofferdam(&words).expect_code(0);
    assert!(done.stderr.contains(CANARY), "{done}");
}

#[test]
fn nothing_is_written_through_a_link_of_a_checkout() {
    let environment = planted("link.json");
    environment.cofferdam(&["init", "."]).expect_code(0);
    let volumes = environment.cofferdam(&["volume"]).expect_code(0).stdout;
    let volume = volumes.lines().next().unwrap();
    for (named, link) in [("link.json", "link.json"), ("away/new", "away")] {
        let output = ["--output-tag", "x", "--output-file", named];
        let script = "echo '<x>1</x>'";
        refused(&environment.run(&output, script), link);
        refused(&environment.run(&["--log", named], "true"), link);
        refused(&environment.cofferdam(&["man", "away/man"]), "away");
        refused(
            &environment.cofferdam(&["volume", "export", volume, "away/new"]),
            "away",
        );
    }
    assert_eq!(key(&environment), CANARY);
    let there = std::fs::read_dir(environment.home().join("keys")).unwrap();
    assert_eq!(there.count(), 1);
    assert!(environment.repository().join("link.json").is_symlink());
}

/// A device is written to and stays one, and what a shell opens is read and written.
#[test]
fn streams_are_what_they_are() {
    let environment = TestEnvironment::with_repository();
    let program = env!("CARGO_BIN_EXE_cofferdam");
    let output = ["--output-tag", "x", "--output-file"];
    for device in ["/dev/null", "/dev/full"] {
        let options = [&output[..], &[device]].concat();
        let done = environment.run(&options, "echo '<x>1</x>'");
        assert_eq!(done.status.success(), device == "/dev/null", "{done}");
        let found = Path::new(device).metadata().unwrap();
        assert!(found.file_type().is_char_device());
    }
    let log = environment.run(&["--log", "/dev/null"], "true");
    log.expect_code(0);
    for line in [
        format!("'{program}' run --prompt-file <(echo piped-in) -- cat"),
        format!("echo piped-in | '{program}' run --prompt-file /dev/stdin -- cat"),
        format!("echo piped-in > it; '{program}' run --prompt-file /dev/stdin -- cat < it"),
        format!("'{program}' prompt check <(echo piped-in)"),
        format!(
            "'{program}' run --plan <(echo '{{\"tasks\": [{{\"name\": \"a\", \"prompt\": \"piped-in\"}}]}}') -- cat"
        ),
        format!(
            "'{program}' run -q --output-tag x --output-file >(cat >&2) -- sh -c 'echo \"<x>piped-in</x>\"'; wait $!"
        ),
    ] {
        let done = environment.shell(&line).expect_code(0);
        assert!(done.to_string().contains("piped-in"), "{line}: {done}");
    }
}

/// What is written is there whole, in the place of what was: a reader has one or the other.
#[test]
fn a_file_that_is_there_is_replaced() {
    let environment = TestEnvironment::with_repository();
    environment.write("out.json", "before");
    let before = std::fs::File::open(environment.repository().join("out.json")).unwrap();
    let output = ["--output-tag", "x", "--output-file", "out.json"];
    environment.run(&output, "echo '<x>now</x>'").expect_code(0);
    assert_eq!(environment.read("out.json"), "now\n");
    assert_eq!(std::io::read_to_string(before).unwrap(), "before");
}
