//! `cofferdam mcp install`.

use serde_json::{Value, json};

use crate::lives::Lives;

/// What is to be written is shown first, and written for whoever says so.
#[test]
fn a_clients_file_gets_the_entry() {
    let lives = Lives::new();
    let shown = lives
        .cofferdam(&["mcp", "install", "claude-code"])
        .expect_code(1);
    assert!(shown.stdout.contains("+    \"cofferdam\": {\n"), "{shown}");
    assert!(shown.stderr.contains("write it with `--yes`"), "{shown}");
    let file = lives.repository().join(".mcp.json");
    assert!(!file.exists());
    lives
        .cofferdam(&["mcp", "install", "claude-code", "--yes"])
        .expect_code(0);
    let text = std::fs::read_to_string(&file).unwrap();
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read["mcpServers"]["cofferdam"]["args"], json!(["mcp"]));
    let again = lives
        .cofferdam(&["mcp", "install", "claude-code"])
        .expect_code(0);
    assert!(again.stderr.contains("has it already"), "{again}");
    lives
        .cofferdam(&["mcp", "install", "codex", "--yes"])
        .expect_code(0);
    let text = std::fs::read_to_string(lives.home().join(".codex/config.toml")).unwrap();
    assert!(text.starts_with("[mcp_servers.cofferdam]\n"), "{text}");
    // What cannot be read is not written over.
    lives.write(".mcp.json", "{");
    let refused = lives
        .cofferdam(&["mcp", "install", "claude-code", "--yes"])
        .expect_code(1);
    assert!(refused.stderr.contains("cannot be changed"), "{refused}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{");
}
