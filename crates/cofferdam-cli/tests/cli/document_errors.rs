//! The errors that the fourth document gives, word for word, from the command and from the tool where there are both. Before them
//! commands say `error:`, as before all of theirs, and tools `Error:`, as the document does.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::environment::{Done, finish};
use crate::lives::Lives;
use crate::mcp_client::Client;

/// What went wrong, on one line.
#[track_caller]
fn of_command(done: Done, words: &[&str]) -> String {
    let done = done.expect_code(1);
    assert_eq!(done.stdout, "", "{words:?}");
    let mut lines = done.stderr.lines();
    let error = lines.find_map(|line| line.strip_prefix("error: "));
    let error = error.unwrap_or_else(|| panic!("{words:?}: {done}"));
    error.to_owned()
}

/// The same of a tool.
#[track_caller]
fn of_tool(client: &mut Client, tool: &str, arguments: &Value) -> String {
    let told = client.error(tool, arguments);
    let first = told.lines().next().unwrap_or_default();
    let error = first.strip_prefix("Error: ");
    let error = error.unwrap_or_else(|| panic!("{tool}: {told}"));
    error.to_owned()
}

#[track_caller]
fn both_refuse_to_create(lives: &Lives, client: &mut Client, name: &str, text: &str) {
    let words = ["create", name];
    assert_eq!(of_command(lives.cofferdam(&words), &words), text);
    let arguments = json!({"name": name});
    assert_eq!(of_tool(client, "sandbox-create", &arguments), text);
}

// covers: S4-E2
#[test]
fn a_name_that_is_none() {
    const TEXT: &str =
        "Invalid sandbox name. Slugified names must be 1-63 characters and contain only [a-z0-9-].";
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    let before = lives.references();
    for name in ["", "!@#", "\u{e4}\u{f6}", &"x".repeat(64)] {
        both_refuse_to_create(&lives, &mut client, name, TEXT);
    }
    assert!(lives.all().is_empty());
    assert_eq!(lives.references(), before);
}

// covers: S4-E1
#[test]
fn a_name_that_is_taken() {
    const TEXT: &str = "Sandbox 'my-sandbox' already exists. Please choose a different name.";
    let lives = Lives::with("my-sandbox", &["--network", "none"]);
    let mut client = Client::start(&lives);
    let before = lives.references();
    for name in ["my-sandbox", "My Sandbox!"] {
        both_refuse_to_create(&lives, &mut client, name, TEXT);
    }
    assert_eq!(lives.all().len(), 1);
    assert_eq!(lives.references(), before);
}

// covers: S4-E7, S4-E10, S4-E13
#[test]
fn a_name_that_nobody_has() {
    const NAME: &str = "non-existent-sandbox";
    const TEXT: &str = "Sandbox 'non-existent-sandbox' not found.";
    let lives = Lives::new();
    for words in [
        &["pause", NAME][..],
        &["resume", NAME],
        &["delete", NAME],
        &["delete", "--force", NAME],
        &["start", NAME],
        &["stop", NAME],
        &["status", NAME],
        &["exec", NAME, "--", "true"],
        &["collect", NAME],
        &["diff", NAME],
        &["log", NAME],
        &["merge", NAME],
        &["ports", NAME],
        &["forward", NAME, "8080"],
    ] {
        assert_eq!(of_command(lives.cofferdam(words), words), TEXT, "{words:?}");
    }
    let mut client = Client::start(&lives);
    for (tool, mut arguments) in [
        ("exec", json!({"command": "true"})),
        ("output", json!({"id": "1-1"})),
        ("kill", json!({"id": "1-1"})),
        ("read", json!({"path": "README.md"})),
        ("write", json!({"path": "README.md", "content": "x"})),
        ("edit", json!({"path": "README.md", "old": "a", "new": "b"})),
        ("ls", json!({})),
        ("glob", json!({"pattern": "*"})),
        ("grep", json!({"pattern": "x"})),
        ("diff", json!({})),
        ("ports", json!({})),
    ] {
        arguments["sandbox"] = NAME.into();
        let told = of_tool(&mut client, &format!("sandbox-{tool}"), &arguments);
        assert_eq!(told, TEXT, "{tool}");
    }
}

/// A step of making a sandbox that cannot be done.
struct Step {
    /// What the document calls it.
    text: &'static str,
    spoil: fn(&Lives),
    mend: fn(&Lives),
    /// How its sandbox is afterwards, which is kept for a look; nothing is left of the others.
    state: Option<&'static str>,
}

const STEPS: [Step; 4] = [
    Step {
        text: "Setup Command Failed",
        spoil: |lives| lives.configure("setup: echo broken >&2; exit 7\n"),
        mend: |lives| lives.configure(""),
        state: Some("failed-setup"),
    },
    Step {
        text: "Container Provisioning Failed",
        spoil: |lives| lives.configure("sandbox: docker\nimage: busybox:latest\n"),
        mend: |lives| lives.configure(""),
        state: None,
    },
    // Where ours would be below.
    Step {
        text: "Git Branch Creation Failed",
        spoil: |lives| drop(lives.git(&["branch", "cofferdam"])),
        mend: |lives| drop(lives.git(&["branch", "-D", "cofferdam"])),
        state: None,
    },
    // The commit is not whole.
    Step {
        text: "Source Code Copy Failed",
        spoil: |lives| {
            lives.write("new.txt", "new\n");
            lives.git(&["add", "new.txt"]);
            lives.git(&["commit", "-qm", "new"]);
            let object = object(lives);
            std::fs::rename(&object, object.with_extension("aside")).unwrap();
        },
        mend: |lives| {
            let object = object(lives);
            std::fs::rename(object.with_extension("aside"), &object).unwrap();
        },
        state: None,
    },
];

/// The file in which git has `new.txt`.
fn object(lives: &Lives) -> PathBuf {
    let name = lives.git(&["rev-parse", "HEAD:new.txt"]);
    let (directory, file) = name.split_at(2);
    let objects = lives.repository().join(".git/objects");
    objects.join(directory).join(file)
}

/// The command where no Docker is.
fn without_docker(lives: &Lives, words: &[&str]) -> Command {
    let mut command = lives.command(words);
    command.env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    command
}

// covers: S4-E3, S4-E4, S4-E5, S4-E6, S4-D1
#[test]
fn a_step_that_cannot_be_done() {
    let lives = Lives::new();
    for Step {
        text,
        spoil,
        mend,
        state,
    } in STEPS
    {
        spoil(&lives);
        let before = lives.references();
        let check = |told: String| {
            let why = told.strip_prefix(text).and_then(|it| it.strip_prefix(": "));
            assert!(why.is_some_and(|why| !why.is_empty()), "{text}: {told}");
            if let Some(state) = state {
                assert_eq!(lives.state("one"), state, "{text}");
                let delete = ["delete", "--force", "one"];
                lives.cofferdam(&delete).expect_code(0);
            } else {
                assert_eq!(lives.references(), before, "{text}");
            }
            assert!(lives.all().is_empty(), "{text}");
        };
        let words = ["create", "one", "--network", "none"];
        let mut create = without_docker(&lives, &words);
        create.stdout(Stdio::piped()).stderr(Stdio::piped());
        check(of_command(finish(create.spawn().unwrap()), &words));
        let mut client = Client::with(without_docker(&lives, &["mcp"]));
        let arguments = json!({"name": "one"});
        check(of_tool(&mut client, "sandbox-create", &arguments));
        drop(client);
        mend(&lives);
    }
    lives.expect_clean();
}
