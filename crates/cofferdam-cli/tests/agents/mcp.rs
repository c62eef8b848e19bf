//! `cofferdam mcp`, as clients drive it that others wrote: Claude Code with these tools alone, and the protocol's own kit for
//! JavaScript.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use cofferdam_lab::model::{Tool, Turn};
use serde_json::{Value, json};

use crate::program::{Program, installed};
use crate::world::{World, finish};

pub(crate) fn tool(name: &str, input: Value) -> Turn {
    Turn::tool(Tool::Named {
        name: format!("mcp__cofferdam__{name}"),
        input,
    })
}

/// Makes a sandbox, looks, changes a file, runs a program, and says that it is done. Each turn needs what the tool before it gave:
/// the program shows its model what a tool tells as data.
pub(crate) fn task() -> [Turn; 6] {
    let edit = json!({"sandbox": "fix", "path": "src/lib.txt", "old": "one", "new": "ONE"});
    let exec = json!({"sandbox": "fix", "command": "cat src/lib.txt && echo new > new.txt"});
    [
        tool("sandbox-create", json!({"name": "fix"})),
        tool(
            "sandbox-read",
            json!({"sandbox": "fix", "path": "src/lib.txt"}),
        )
        .after("cofferdam/fix"),
        tool("sandbox-edit", edit).after("one\\ntwo\\n"),
        tool("sandbox-exec", exec).after("sandbox-edit: src/lib.txt"),
        tool("sandbox-diff", json!({"sandbox": "fix"})).after("ONE\\ntwo\\n"),
        Turn::say("Done: cofferdam merge fix").after("+ONE"),
    ]
}

// covers: S4-G5, S4-G3
#[test]
fn claude_code_does_a_task_with_these_tools_alone() {
    let world = World::new(Program::ClaudeCode, task());
    let before = world.git(&["status", "--porcelain=v2", "--branch"]);
    let done = finish(claude(&world).spawn().unwrap()).expect_code(0);
    let result = done.report();
    assert_eq!(result["result"], "Done: cofferdam merge fix", "{result}");
    let seen = world.seen();
    assert_eq!(seen.work().count(), 6);
    // It has no other tool that changes files or runs programs, nor any that looks at them, and calls none.
    for request in seen.work() {
        let tools = request.tools();
        assert_eq!(tools.len(), 13, "{tools:?}");
        assert_eq!(others(tools), [""; 0]);
    }
    let called = called(&done.lines());
    assert_eq!(called.len(), 5, "{called:?}");
    assert_eq!(others(called.iter().map(String::as_str)), [""; 0]);
    let subjects = world.git(&["log", "--format=%s", "cofferdam/fix"]);
    assert_eq!(
        subjects,
        "sandbox-exec: new.txt\nsandbox-edit: src/lib.txt\nstart"
    );
    assert_eq!(world.git(&["status", "--porcelain=v2", "--branch"]), before);
    world
        .cofferdam(&["merge", "--squash", "fix"])
        .expect_code(0);
    assert_eq!(world.git(&["show", "HEAD:src/lib.txt"]), "ONE\ntwo");
    world
        .cofferdam(&["delete", "--force", "fix"])
        .expect_code(0);
}

/// A model that wants a shell all the same has none, and the check of what was called sees that it wanted one.
#[test]
fn claude_code_has_no_shell_beside_these_tools() {
    let shell = Tool::Named {
        name: "Bash".to_owned(),
        input: json!({"command": "echo x > made-outside", "description": "write"}),
    };
    let script = [
        Turn::tool(shell),
        Turn::say("There is none.").after("No such tool"),
    ];
    let world = World::new(Program::ClaudeCode, script);
    let done = finish(claude(&world).spawn().unwrap()).expect_code(0);
    assert_eq!(done.report()["result"], "There is none.");
    world.seen();
    let called = called(&done.lines());
    assert_eq!(others(called.iter().map(String::as_str)), ["Bash"]);
    assert!(!world.repository().join("made-outside").exists());
}

/// The same of a program that calls them by other names.
pub(crate) fn named(turn: Turn, by: impl Fn(&str) -> String) -> Turn {
    match turn.tool {
        Some(Tool::Named { name, input }) => Turn {
            tool: Some(Tool::Named {
                name: by(&name),
                input,
            }),
            ..turn
        },
        _ => turn,
    }
}

/// Codex calls them by names without a dash.
pub(crate) fn of_codex(turn: Turn) -> Turn {
    named(turn, |name| name.replace('-', "_"))
}

// covers: S4-G5
#[test]
fn codex_does_a_task_with_these_tools() {
    let world = World::new(Program::Codex, task().map(of_codex));
    let before = world.git(&["status", "--porcelain=v2", "--branch"]);
    // As `cofferdam mcp install codex` enters it.
    let home = world.token();
    let home = home.parent().unwrap();
    let server = format!(
        "mcp_servers.cofferdam={{command={:?},args=[\"mcp\"],env={{COFFERDAM_HOME={home:?}}}}}",
        env!("CARGO_BIN_EXE_cofferdam")
    );
    let mut codex = world.program_outside();
    codex
        .args([
            "exec",
            "--json",
            "--dangerously-bypass-approvals-and-sandbox",
        ])
        .args(["--config", &server, "Make one ONE."])
        .stdin(std::process::Stdio::null());
    let done = finish(codex.spawn().unwrap()).expect_code(0);
    assert_eq!(world.seen().work().count(), 6);
    let subjects = world.git(&["log", "--format=%s", "cofferdam/fix"]);
    assert_eq!(
        subjects, "sandbox-exec: new.txt\nsandbox-edit: src/lib.txt\nstart",
        "{done:?}"
    );
    assert_eq!(world.git(&["status", "--porcelain=v2", "--branch"]), before);
    world
        .cofferdam(&["delete", "--force", "fix"])
        .expect_code(0);
}

/// The program, outside of any sandbox, with these tools alone.
fn claude(world: &World) -> Command {
    let server = json!({"mcpServers": {"cofferdam": {
        "command": env!("CARGO_BIN_EXE_cofferdam"),
        "args": ["mcp"],
    }}});
    let mut claude = claude_with_servers(world);
    claude.args(["--mcp-config", &server.to_string(), "--strict-mcp-config"]);
    claude
}

/// The same with whatever servers it finds.
pub(crate) fn claude_with_servers(world: &World) -> Command {
    let mut claude = world.program_outside();
    claude
        .args([
            "-p",
            "Make one ONE.",
            "--output-format",
            "stream-json",
            "--verbose",
        ])
        .args(["--allowedTools", "mcp__cofferdam", "--tools", ""])
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        // All of them are told to the model, from its first turn on.
        .env("ENABLE_TOOL_SEARCH", "false")
        .env("MCP_CONNECTION_NONBLOCKING", "0");
    claude
}

/// Those that are not ours.
pub(crate) fn others<'a>(tools: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let tools = tools.into_iter();
    tools
        .filter(|name| !name.starts_with("mcp__cofferdam__sandbox-"))
        .collect()
}

/// The tools that were called, as the program tells of it.
pub(crate) fn called(lines: &[Value]) -> Vec<String> {
    let said = lines.iter().filter(|line| line["type"] == "assistant");
    let blocks = said.filter_map(|line| line["message"]["content"].as_array());
    let calls = blocks.flatten().filter(|one| one["type"] == "tool_use");
    calls
        .map(|call| call["name"].as_str().unwrap().to_owned())
        .collect()
}

/// It checks what each tool tells against the schema that the server gives for it.
// covers: S4-G5
#[test]
fn the_protocols_own_client_does_a_task() {
    let world = World::new(Program::ClaudeCode, [Turn::default()]);
    does_a_task(&world, &[env!("CARGO_BIN_EXE_cofferdam")]);
}

/// The same over HTTP, where who does not know the word, and what comes from a page or under another name, is refused first.
// covers: S4-G5
#[test]
fn the_protocols_own_client_does_a_task_over_http() {
    let world = World::new(Program::ClaudeCode, [Turn::default()]);
    let mut served = Served(world.server());
    let mut said = String::new();
    let stderr = served.0.stderr.as_mut().unwrap();
    BufReader::new(stderr).read_line(&mut said).unwrap();
    let address = said.split(' ').next().unwrap();
    assert!(address.starts_with("http://127.0.0.1:"), "{said}");
    let file = world.token();
    does_a_task(&world, &[address, file.to_str().unwrap()]);
    // One that has gone leaves its sandbox, and the server is there for the next one.
    assert!(served.0.try_wait().unwrap().is_none());
}

/// Ends with its test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn does_a_task(world: &World, server: &[&str]) {
    let kit = installed().join(".npm-global/lib/node_modules/@modelcontextprotocol/sdk");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/client.mjs");
    let mut client = world.outside(&node());
    client.arg(script).arg(kit).args(server);
    let done = finish(client.spawn().unwrap()).expect_code(0);
    assert!(
        done.stdout.ends_with("everything held\n"),
        "{}",
        done.stdout
    );
    let subjects = world.git(&["log", "--format=%s", "cofferdam/by-the-kit"]);
    assert_eq!(
        subjects,
        "sandbox-exec: made by a program\nsandbox-edit: a/b\nsandbox-write: a/b\nstart"
    );
    world
        .cofferdam(&["delete", "--force", "by-the-kit"])
        .expect_code(0);
}

/// Of the system, or beside the programs.
fn node() -> PathBuf {
    let beside = installed().join(".npm-global/bin/node");
    if beside.exists() {
        beside
    } else {
        "node".into()
    }
}
