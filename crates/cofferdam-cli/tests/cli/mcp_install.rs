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

/// As an entry names it.
fn program(lives: &Lives) -> String {
    let command = lives.command(&[]);
    command.get_program().to_str().unwrap().to_owned()
}

/// Each client's own form, beside what is there already: a comment too, where its file may have one.
#[test]
fn each_client_gets_its_own_form() {
    let lives = Lives::new();
    let program = program(&lives);
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

/// What else its user has said of the server stays, and where what is ours fits, nothing changes.
#[test]
fn an_entry_that_is_there_keeps_what_else_is_in_it() {
    let lives = Lives::new();
    let program = program(&lives);
    for (client, file, servers, there, becomes) in [
        (
            "claude-code",
            ".mcp.json",
            "mcpServers",
            json!({"command": "old", "args": ["mcp"], "env": {"A": "1"}}),
            json!({"command": program, "args": ["mcp"], "env": {"A": "1"}}),
        ),
        (
            "cursor",
            ".cursor/mcp.json",
            "mcpServers",
            json!({"type": "stdio", "command": program}),
            json!({"type": "stdio", "command": program, "args": ["-C", "${workspaceFolder}", "mcp"]}),
        ),
        (
            "zed",
            ".zed/settings.json",
            "context_servers",
            json!({"source": "custom", "command": program, "args": ["x"], "env": {}}),
            json!({"source": "custom", "command": program, "args": ["mcp"], "env": {}}),
        ),
        (
            "opencode",
            "opencode.json",
            "mcp",
            json!({"type": "local", "command": ["old", "mcp"], "enabled": false, "timeout": 9}),
            json!({"type": "local", "command": [program, "mcp"], "enabled": false, "timeout": 9}),
        ),
    ] {
        let of = |entry: &Value| json!({servers: {"cofferdam": entry}});
        lives.write(file, &of(&there).to_string());
        lives
            .cofferdam(&["mcp", "install", client, "--yes"])
            .expect_code(0);
        let text = lives.read(file);
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, of(&becomes), "{client}");
        let again = lives.cofferdam(&["mcp", "install", client]).expect_code(0);
        assert!(again.stderr.contains("has it already"), "{again}");
        assert_eq!(lives.read(file), text, "{client}");
    }
    let entry = |command: &str, argument: &str| {
        format!(
            "[mcp_servers.cofferdam]\ncommand = \"{command}\" # mine\nargs = [\"{argument}\"]\n\
             default_tools_approval_mode = \"approve\"\n\n[mcp_servers.cofferdam.env]\nA = \"1\"\n"
        )
    };
    let own = lives.puts(".codex/config.toml", &entry("old", "x"));
    lives
        .cofferdam(&["mcp", "install", "codex", "--yes"])
        .expect_code(0);
    let text = std::fs::read_to_string(&own).unwrap();
    assert_eq!(text, entry(&program, "mcp"));
    let again = lives.cofferdam(&["mcp", "install", "codex"]).expect_code(0);
    assert!(again.stderr.contains("has it already"), "{again}");
    // One that is reached over HTTP is another one.
    lives.write(
        ".mcp.json",
        "{\"mcpServers\": {\"cofferdam\": {\"type\": \"http\", \"url\": \"http://127.0.0.1:7070/\"}}}",
    );
    let refused = lives
        .cofferdam(&["mcp", "install", "claude-code", "--yes"])
        .expect_code(1);
    assert!(
        refused.stderr.contains("its entry `cofferdam` has a `url`"),
        "{refused}"
    );
}

/// A link is followed as far as the repository goes, and its user is told what to do about others.
#[test]
fn a_file_that_is_a_link_out_of_the_repository_stays() {
    let lives = Lives::new();
    let (link, outside) = (
        lives.repository().join(".mcp.json"),
        lives.temporary().join("theirs.json"),
    );
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let install = ["mcp", "install", "claude-code", "--yes"];
    let refused = lives.cofferdam(&install).expect_code(1);
    assert!(
        refused
            .stderr
            .contains("it is a link that leads nowhere\nhint: take the link away: `rm "),
        "{refused}"
    );
    cofferdam::fsx::write_private(&outside, b"{}\n").unwrap();
    let refused = lives.cofferdam(&install).expect_code(1);
    let outside = outside.canonicalize().unwrap();
    let [leads, enter] = [
        format!("it leads to {}\n", outside.display()),
        format!("enter the server in {} yourself", outside.display()),
    ];
    assert!(
        refused.stderr.contains(&leads) && refused.stderr.contains(&enter),
        "{refused}"
    );
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "{}\n");
}

/// Of a client that is none of those, it is said what there is to enter.
#[test]
fn another_client_is_told_of() {
    let lives = Lives::new();
    let refused = lives
        .cofferdam(&["mcp", "install", "vscode"])
        .expect_code(2);
    assert!(
        refused.stderr.contains(
            "tip: any other client is to start the command `cofferdam` with the argument `mcp`"
        ),
        "{refused}"
    );
}
