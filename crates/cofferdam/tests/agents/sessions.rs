//! Session files as the real programs leave them, and the same in another home and another directory.

use std::path::Path;

use cofferdam::agent::{SessionFile, SessionFiles, SessionLayout, SessionTarget};

use crate::world::agent;

const ID: &str = "01234567-89ab-cdef-0123-456789abcdef";

fn layout(name: &str) -> SessionLayout {
    let layout = match agent(name, &[]).sessions() {
        Some(SessionFiles::Layout(layout)) => Some(layout),
        _ => None,
    };
    layout.unwrap()
}

fn file(path: &str, text: &str) -> SessionFile {
    SessionFile {
        path: path.to_owned(),
        bytes: text.as_bytes().to_vec(),
    }
}

fn moved(
    name: &str,
    from: &[(&str, &str)],
    to: &str,
    index: Option<&str>,
) -> Vec<(String, String)> {
    let files = from.iter().map(|(path, text)| file(path, text)).collect();
    let target = SessionTarget {
        directory: to,
        index: index.map(str::as_bytes),
    };
    let files = (layout(name).moved)(files, &target).unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    files
        .into_iter()
        .map(|file| (file.path, text(file.bytes)))
        .collect()
}

/// Those of `belong` are of the session, those of `others` are not, and all of the first are looked for in one place.
fn check(name: &str, within: &str, belong: &[&str], others: &[&str]) {
    let layout = layout(name);
    assert_eq!((layout.within)("/work/a_b.c"), within, "{name}");
    for path in belong {
        assert!((layout.belongs)(path, ID), "{name}: {path}");
        assert!(path.starts_with(within), "{name}: {path}");
    }
    let out = belong.iter().flat_map(|path| {
        let (above, last) = path.rsplit_once('/').unwrap();
        [
            format!("{above}/../{last}"),
            format!("/{path}"),
            format!("x/{path}"),
        ]
    });
    let out: Vec<String> = out.collect();
    for path in others.iter().copied().chain(out.iter().map(String::as_str)) {
        assert!(!(layout.belongs)(path, ID), "{name}: {path}");
    }
    let target = SessionTarget {
        directory: "/w",
        index: None,
    };
    let refused = (layout.moved)(vec![file("../x/y/z/a.jsonl", "{}\n")], &target);
    assert!(refused.is_err(), "{name}: {refused:?}");
}

#[test]
fn where_they_are() {
    check(
        "claude-code",
        "projects/-work-a-b-c",
        &[
            "projects/-work-a-b-c/01234567-89ab-cdef-0123-456789abcdef.jsonl",
            "projects/-work-a-b-c/01234567-89ab-cdef-0123-456789abcdef/subagents/agent-a1.jsonl",
            "projects/-work-a-b-c/01234567-89ab-cdef-0123-456789abcdef/subagents/agent-a1.meta.json",
        ],
        &[
            "projects/-work-a-b-c/11234567-89ab-cdef-0123-456789abcdef.jsonl",
            "projects/-work-a-b-c/01234567-89ab-cdef-0123-456789abcdef.json",
            "projects/-work-a-b-c/memory/01234567-89ab-cdef-0123-456789abcdef.jsonl",
            "01234567-89ab-cdef-0123-456789abcdef.jsonl",
        ],
    );
    check(
        "codex",
        "sessions",
        &[
            "sessions/2026/11/26/rollout-2026-11-26T07-01-50-01234567-89ab-cdef-0123-456789abcdef.jsonl",
        ],
        &[
            "sessions/2026/11/26/rollout-2026-11-26T07-01-50-11234567-89ab-cdef-0123-456789abcdef.jsonl",
            "sessions/2026/11/26/rollout-01234567-89ab-cdef-0123-456789abcdef",
            "sessions/rollout-2026-11-26T07-01-50-01234567-89ab-cdef-0123-456789abcdef.jsonl",
        ],
    );
    check(
        "pi",
        "sessions/--work-a_b.c--",
        &[
            "sessions/--work-a_b.c--/2026-11-26T07-01-50-267Z_01234567-89ab-cdef-0123-456789abcdef.jsonl",
        ],
        &[
            "sessions/--work-a_b.c--/2026-11-26T07-01-50-267Z_11234567-89ab-cdef-0123-456789abcdef.jsonl",
        ],
    );
    check(
        "copilot",
        "session-state",
        &[
            "session-state/01234567-89ab-cdef-0123-456789abcdef/events.jsonl",
            "session-state/01234567-89ab-cdef-0123-456789abcdef/workspace.yaml",
            "session-state/01234567-89ab-cdef-0123-456789abcdef/checkpoints/index.md",
        ],
        &[
            "session-state/01234567-89ab-cdef-0123-456789abcdef/.workspace-fork.lock",
            "session-state/.session-operation-locks/01234567-89ab-cdef-0123-456789abcdef.lock",
            "session-store.db",
        ],
    );
    check(
        "gemini",
        "tmp",
        &[
            "tmp/work/chats/session-2026-11-26T07-01-01234567.jsonl",
            "tmp/work/chats/01234567-89ab-cdef-0123-456789abcdef/11234567-89ab-cdef-0123-456789abcdef.jsonl",
        ],
        &[
            "tmp/work/chats/session-2026-11-26T07-01-11234567.jsonl",
            "tmp/work/.project_root",
            "projects.json",
        ],
    );
    check(
        "qwen",
        "projects/-work-a-b-c/chats",
        &["projects/-work-a-b-c/chats/01234567-89ab-cdef-0123-456789abcdef.jsonl"],
        &["projects/-work-a-b-c/chats/11234567-89ab-cdef-0123-456789abcdef.jsonl"],
    );
    assert!(agent("cursor", &[]).sessions().is_none());
    assert!(agent("command", &["x"]).sessions().is_none());
}

#[test]
fn whose_home() {
    let root = |name: &str, variable: &str| {
        let environment = [(variable.into(), "/else".into())].into();
        layout(name).root(Path::new("/home/a"), &environment)
    };
    assert_eq!(root("claude-code", "X"), Path::new("/home/a/.claude"));
    assert_eq!(root("claude-code", "CLAUDE_CONFIG_DIR"), Path::new("/else"));
    assert_eq!(root("codex", "CODEX_HOME"), Path::new("/else"));
    assert_eq!(root("pi", "X"), Path::new("/home/a/.pi/agent"));
    assert_eq!(
        root("gemini", "GEMINI_CLI_HOME"),
        Path::new("/else/.gemini")
    );
}

#[test]
fn a_path_is_all_that_changes() {
    let record = "{\"cwd\":\"/old\"}\n";
    let path = format!("projects/-old/{ID}.jsonl");
    let below = format!("projects/-old/{ID}/subagents/agent-a.jsonl");
    let got = moved(
        "claude-code",
        &[(&path, record), (&below, "x")],
        "/new/b",
        None,
    );
    let want = [
        (format!("projects/-new-b/{ID}.jsonl"), record.to_owned()),
        (
            format!("projects/-new-b/{ID}/subagents/agent-a.jsonl"),
            "x".to_owned(),
        ),
    ];
    assert_eq!(got, want);
    let path = format!("sessions/2026/11/26/rollout-2026-11-26T07-01-50-{ID}.jsonl");
    let got = moved("codex", &[(&path, record)], "/new/b", None);
    assert_eq!(got, [(path, record.to_owned())]);
}

#[test]
fn pi_works_where_its_first_line_says() {
    let name = format!("2026-11-26T07-01-50-267Z_{ID}.jsonl");
    let path = format!("sessions/--old--/{name}");
    let head = format!("{{\"type\":\"session\",\"version\":3,\"id\":\"{ID}\",\"cwd\":\"/old\"}}");
    let rest = "\n{\"type\":\"message\",\"cwd\":\"/old\"}\n";
    let got = moved("pi", &[(&path, &format!("{head}{rest}"))], "/new/b", None);
    assert_eq!(got[0].0, format!("sessions/--new-b--/{name}"));
    let (first, after) = got[0].1.split_once('\n').unwrap();
    let first: serde_json::Value = serde_json::from_str(first).unwrap();
    let want = serde_json::json!({"type": "session", "version": 3, "id": ID, "cwd": "/new/b"});
    assert_eq!(first, want);
    assert_eq!(format!("\n{after}"), rest);
    let target = SessionTarget {
        directory: "/w",
        index: None,
    };
    for text in ["", "{}", "no\n", "{\"type\":\"message\"}\n"] {
        let refused = (layout("pi").moved)(vec![file(&path, text)], &target).unwrap_err();
        assert!(
            refused
                .to_string()
                .ends_with("its first line is not that of a session")
        );
    }
}

#[test]
fn qwen_takes_what_is_of_its_directory() {
    let path = format!("projects/-old/chats/{ID}.jsonl");
    let text = "{\"cwd\":\"/old\",\"type\":\"user\"}\n{\"cwd\":\"/old\"}\n";
    let got = moved("qwen", &[(&path, text)], "/new/b", None);
    let want = text.replacen("/old", "/new/b", 1);
    assert_eq!(got, [(format!("projects/-new-b/chats/{ID}.jsonl"), want)]);
}

#[test]
fn copilot_works_where_its_workspace_says() {
    let at = |name: &str| format!("session-state/{ID}/{name}");
    let (yaml, events) = (at("workspace.yaml"), at("events.jsonl"));
    let text =
        format!("id: {ID}\ncwd: /old\ngit_root: /old\nname: |-\n  cwd: /old\nuser_named: false\n");
    let from = [(&*yaml, &*text), (&*events, "{\"cwd\":\"/old\"}\n")];
    let got = moved("copilot", &from, "/new: b", None);
    let want = format!(
        "id: {ID}\ncwd: \"/new: b\"\ngit_root: \"/new: b\"\nname: |-\n  cwd: /old\nuser_named: false\n"
    );
    assert_eq!(
        got,
        [(yaml, want), (events, "{\"cwd\":\"/old\"}\n".to_owned())]
    );
}

#[test]
fn gemini_finds_a_directory_by_the_name_that_it_gave_to_it() {
    let path = "tmp/old/chats/session-2026-11-26T07-01-01234567.jsonl";
    let check = |index: Option<&str>, name: &str, projects: serde_json::Value| {
        let got = moved("gemini", &[(path, "x\n")], "/new/My Work", index);
        let chat = format!("tmp/{name}/chats/session-2026-11-26T07-01-01234567.jsonl");
        assert_eq!(got[0], (chat, "x\n".to_owned()));
        let root = format!("tmp/{name}/.project_root");
        assert_eq!(got[1], (root, "/new/My Work".to_owned()));
        assert_eq!(got[2].0, "projects.json");
        let written: serde_json::Value = serde_json::from_str(&got[2].1).unwrap();
        assert_eq!(written, serde_json::json!({ "projects": projects }));
    };
    let alone = serde_json::json!({"/new/My Work": "my-work"});
    for index in [None, Some("no"), Some("{\"projects\":7}")] {
        check(index, "my-work", alone.clone());
    }
    check(
        Some(r#"{"projects":{"/other":"my-work"}}"#),
        "my-work-1",
        serde_json::json!({"/other": "my-work", "/new/My Work": "my-work-1"}),
    );
    check(
        Some(r#"{"projects":{"/new/My Work":"own"}}"#),
        "own",
        serde_json::json!({"/new/My Work": "own"}),
    );
    // An index that came out of a sandbox leads nowhere else.
    check(
        Some(r#"{"projects":{"/new/My Work":"../x"}}"#),
        "my-work",
        alone,
    );
}

#[test]
fn opencode_moves_its_own() {
    let Some(SessionFiles::Commands(commands)) = agent("opencode", &[]).sessions() else {
        panic!("a database is no file of one session");
    };
    assert_eq!((commands.export)("ses_1"), ["opencode", "export", "ses_1"]);
    let import = (commands.import)(Path::new("/tmp/s.json"));
    assert_eq!(import, ["opencode", "import", "/tmp/s.json"]);
}

#[test]
fn what_a_program_calls_a_conversation_is_found() {
    let identified = layout("gemini").identified.unwrap();
    let first = format!("{{\"sessionId\":\"{ID}\",\"kind\":\"main\"}}");
    assert_eq!(identified(first.as_bytes()).as_deref(), Some(ID));
    let more = format!("{first}\n{{\"sessionId\":\"other\"}}\n");
    assert_eq!(identified(more.as_bytes()).as_deref(), Some(ID));
    for other in [
        "",
        "{}",
        "{\"sessionId\":7}",
        "{\"sessionId\":\"../x\"}",
        &first[1..],
    ] {
        assert_eq!(identified(other.as_bytes()), None, "{other}");
    }
    let agent = agent("opencode", &[]);
    let Some(SessionFiles::Commands(commands)) = agent.sessions() else {
        panic!("opencode keeps its conversations in a database");
    };
    let newest = |printed: &str| (commands.newest)(printed.as_bytes());
    let two = r#"[{"id":"ses_a","updated":1500},{"id":"ses_b","updated":2999},{"id":"--x","updated":9999},{"id":"ses_c"}]"#;
    assert_eq!(newest(two), Some(("ses_b".to_owned(), 2)));
    assert_eq!(newest(""), None);
    assert_eq!(newest("[]"), None);
}
