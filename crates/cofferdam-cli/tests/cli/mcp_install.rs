//! `cofferdam mcp install`.

use serde_json::{Value, json};

use crate::lives::Lives;

/// What is to be written is shown first, and written for whoever says so, for each client.
#[test]
fn nothing_is_written_unasked() {
    let lives = Lives::new();
    let json = ("{\n  \"kept\": true\n}\n", "\"cofferdam\": {");
    let toml = ("kept = true\n", "[mcp_servers.cofferdam]");
    for (client, file, (there, entry)) in [
        ("claude-code", ".mcp.json", json),
        ("cursor", ".cursor/mcp.json", json),
        ("zed", ".zed/settings.json", json),
        ("opencode", "opencode.json", json),
        ("codex", ".codex/config.toml", toml),
    ] {
        let top = if client == "codex" {
            lives.home()
        } else {
            lives.repository()
        };
        let file = top.join(file);
        for before in [None, Some(there)] {
            if let Some(text) = before {
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                cofferdam::fsx::write_private(&file, text.as_bytes()).unwrap();
            }
            let shown = lives.cofferdam(&["mcp", "install", client]).expect_code(1);
            let mut added = shown.stdout.split_inclusive('\n');
            let is_entry = |line: &str| line.starts_with('+') && line.contains(entry);
            assert!(added.any(is_entry), "{client}: {shown}");
            let hint = shown.stderr.contains("write it with `--yes`");
            assert!(hint, "{client}: {shown}");
            let after = std::fs::read_to_string(&file).ok();
            assert_eq!(after.as_deref(), before, "{client}");
        }
        // For whoever says so it is.
        let install = ["mcp", "install", client, "--yes"];
        lives.cofferdam(&install).expect_code(0);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            text.contains(entry) && text.contains("kept"),
            "{client}: {text}"
        );
    }
}

#[test]
fn a_clients_file_gets_the_entry() {
    let lives = Lives::new();
    let file = lives.repository().join(".mcp.json");
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

/// Each client's own form, beside what is there already: a comment too, where its file may have one.
#[test]
fn each_client_gets_its_own_form() {
    let lives = Lives::new();
    let program = lives
        .command(&[])
        .get_program()
        .to_str()
        .unwrap()
        .to_owned();
    let usual = json!({"command": program, "args": ["mcp"]});
    let of_cursor = json!({"command": program, "args": ["-C", "${workspaceFolder}", "mcp"]});
    let of_zed = json!({"source": "custom", "command": program, "args": ["mcp"]});
    let of_opencode = json!({"type": "local", "command": [program, "mcp"], "enabled": true});
    for (client, file, servers, entry) in [
        ("claude-code", ".mcp.json", "mcpServers", usual),
        ("cursor", ".cursor/mcp.json", "mcpServers", of_cursor),
        ("zed", ".zed/settings.json", "context_servers", of_zed),
        ("opencode", "opencode.json", "mcp", of_opencode),
    ] {
        const COMMENT: &str = "// of the user's\n";
        lives.write(
            file,
            &format!("{{\n  {COMMENT}  \"{servers}\": {{\"other\": {{\"x\": 1}}}},\n  \"kept\": true\n}}\n"),
        );
        lives
            .cofferdam(&["mcp", "install", client, "--yes"])
            .expect_code(0);
        let text = lives.read(file);
        assert!(text.contains(COMMENT), "{text}");
        let read: Value = serde_json::from_str(&text.replace(COMMENT, "")).unwrap();
        let wanted = json!({"kept": true, servers: {"other": {"x": 1}, "cofferdam": entry}});
        assert_eq!(read, wanted, "{client}");
        let again = lives.cofferdam(&["mcp", "install", client]).expect_code(0);
        assert!(again.stderr.contains("has it already"), "{again}");
    }
    let own = lives.home().join(".codex/config.toml");
    cofferdam::fsx::private_dir(own.parent().unwrap()).unwrap();
    cofferdam::fsx::write_private(
        &own,
        b"# of the user's\nmodel = \"x\"\n\n[mcp_servers.other]\ncommand = \"y\"\n",
    )
    .unwrap();
    lives
        .cofferdam(&["mcp", "install", "codex", "--yes"])
        .expect_code(0);
    let text = std::fs::read_to_string(&own).unwrap();
    let entry = format!("[mcp_servers.cofferdam]\ncommand = \"{program}\"\nargs = [\"mcp\"]\n");
    assert!(
        text.starts_with("# of the user's\nmodel = \"x\"\n"),
        "{text}"
    );
    assert!(
        text.contains("[mcp_servers.other]\ncommand = \"y\"\n"),
        "{text}"
    );
    assert!(text.contains(&entry), "{text}");
    // It starts a server with few of its user's variables: one that says where ours are is entered.
    let elsewhere = lives.home().join("elsewhere");
    let mut again = lives.command(&["mcp", "install", "codex", "--yes"]);
    again.env("COFFERDAM_HOME", &elsewhere);
    assert!(again.output().unwrap().status.success());
    let text = std::fs::read_to_string(lives.home().join(".codex/config.toml")).unwrap();
    let line = format!("env = {{ COFFERDAM_HOME = \"{}\" }}\n", elsewhere.display());
    assert!(text.contains(&format!("{entry}{line}")), "{text}");
}
