//! Clients that find `cofferdam mcp` by what `cofferdam mcp install` wrote, and by nothing else.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cofferdam_lab::model::{Tool, Turn};
use serde_json::{Value, json};

use crate::mcp::{called, claude_with_servers, named, of_codex, others, task, tool};
use crate::program::{KEY, Program};
use crate::world::{Done, World, finish, finish_within};

/// OpenCode takes ten seconds to its first request, and more where others compute.
const LIMIT: Duration = Duration::from_secs(180);

/// Its entry goes into the repository, or into the home of programs outside.
#[track_caller]
fn install(world: &World) {
    let mut install = world.outside(Path::new(env!("CARGO_BIN_EXE_cofferdam")));
    install.args(["mcp", "install", world.program.name(), "--yes"]);
    finish(install.spawn().unwrap()).expect_code(0);
}

/// Runs the client through the whole script. The task is on the sandbox's branch, and nothing else was changed.
#[track_caller]
fn does_the_task(world: &World, mut client: Command, turns: usize) -> Done {
    let status = ["status", "--porcelain=v2", "--branch"];
    let before = world.git(&status);
    let done = finish_within(client.spawn().unwrap(), LIMIT).expect_code(0);
    assert_eq!(world.seen().work().count(), turns, "{done:?}");
    assert_eq!(
        world.git(&["log", "--format=%s", "cofferdam/fix"]),
        "sandbox-exec: new.txt\nsandbox-edit: src/lib.txt\nstart",
        "{done:?}"
    );
    let file = world.git(&["show", "cofferdam/fix:src/lib.txt"]);
    assert_eq!(file, "ONE\ntwo");
    assert_eq!(world.git(&status), before);
    assert!(!world.repository().join("made-outside").exists());
    world
        .cofferdam(&["delete", "--force", "fix"])
        .expect_code(0);
    done
}

/// A session without a person at it starts a server of the repository's without asking; one with a person asks once.
// covers: S4-G5
#[test]
fn claude_code_finds_its_entry() {
    let world = World::new(Program::ClaudeCode, task());
    install(&world);
    let mut list = world.program_outside();
    list.args(["mcp", "list"]);
    let listed = finish(list.spawn().unwrap()).expect_code(0);
    let line = format!("cofferdam: {} mcp", env!("CARGO_BIN_EXE_cofferdam"));
    assert!(listed.stdout.contains(&line), "{listed:?}");
    assert!(listed.stdout.contains("Pending approval"), "{listed:?}");

    let done = does_the_task(&world, claude_with_servers(&world), 6);
    let lines = done.lines();
    let begun = lines.iter().find(|line| line["subtype"] == "init").unwrap();
    let servers = begun["mcp_servers"].as_array().unwrap();
    assert_eq!(servers.len(), 1, "{begun}");
    assert_eq!(servers[0]["name"], "cofferdam", "{begun}");
    assert_eq!(servers[0]["status"], "connected", "{begun}");
    let called = called(&lines);
    assert_eq!(called.len(), 5, "{called:?}");
    assert_eq!(others(called.iter().map(String::as_str)), [""; 0]);
}

/// Its shell is taken away as docs/mcp.md says, and a model that wants one all the same has none.
// covers: S4-G5
#[test]
fn codex_finds_its_entry() {
    let shell = Tool::Named {
        name: "exec_command".to_owned(),
        input: json!({"cmd": "echo x > made-outside"}),
    };
    let [create, read, edit, exec, diff, end] = task().map(of_codex);
    let create = create.after("is not a function");
    let script = [Turn::tool(shell), create, read, edit, exec, diff, end];
    let world = World::new(Program::Codex, script);
    let settings = world.home_outside().join(".codex");
    std::fs::create_dir_all(&settings).unwrap();
    let settings = settings.join("config.toml");
    std::fs::write(&settings, "[features]\nshell_tool = false\n").unwrap();
    install(&world);

    let mut list = world.program_outside();
    list.args(["mcp", "list", "--json"]);
    let listed = finish(list.spawn().unwrap()).expect_code(0);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["name"], "cofferdam", "{listed}");
    assert_eq!(listed[0]["enabled"], true, "{listed}");

    let mut codex = world.program_outside();
    codex.args(["exec", "--json"]).args([
        "--dangerously-bypass-approvals-and-sandbox",
        "Make one ONE.",
    ]);
    does_the_task(&world, codex, 7);
}

/// OpenCode calls them by the server's name and theirs, and shows its model what they say as text.
fn of_opencode(turn: Turn) -> Turn {
    let turn = named(turn, |name| name.replace("mcp__cofferdam__", "cofferdam_"));
    let after = turn.after.map(|after| after.replace("\\n", "\n"));
    Turn { after, ..turn }
}

/// With these tools alone, as docs/mcp.md says.
// covers: S4-G5
#[test]
fn opencode_finds_its_entry() {
    if !Program::OpenCode.is_wanted() {
        return;
    }
    let world = World::new(Program::OpenCode, task().map(of_opencode));
    let settings = json!({"permission": {"*": "deny", "cofferdam_*": "allow"}});
    let file = world.repository().join("opencode.json");
    std::fs::write(&file, settings.to_string()).unwrap();
    install(&world);
    let text = std::fs::read_to_string(&file).unwrap();
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read["permission"], settings["permission"], "{text}");

    let done = does_the_task(&world, opencode(&world), 6);
    let seen = world.seen();
    Program::OpenCode.expect_key(&seen, KEY);
    for request in seen.work() {
        let tools = request.tools();
        assert_eq!(tools.len(), 13, "{tools:?}");
        let is_ours = |tool: &&str| tool.starts_with("cofferdam_sandbox-");
        assert!(tools.iter().all(is_ours), "{tools:?}");
    }
    // What it takes for strange in a schema it tells its user.
    assert!(!done.stderr.contains("unknown format"), "{}", done.stderr);
    let lines = done.lines();
    let calls = lines.iter().filter(|line| line["type"] == "tool_use");
    assert_eq!(calls.count(), 5, "{lines:?}");
    let said = lines.iter().rfind(|line| line["type"] == "text").unwrap();
    assert_eq!(said["part"]["text"], "Done: cofferdam merge fix", "{said}");
}

/// A model that wants a shell all the same has none.
#[test]
fn opencode_has_no_shell_beside_these_tools() {
    if !Program::OpenCode.is_wanted() {
        return;
    }
    let script = [
        Turn::shell("echo x > made-outside"),
        tool("sandbox-list", json!({})).after("unavailable tool"),
        Turn::say("There is none."),
    ];
    let world = World::new(Program::OpenCode, script.map(of_opencode));
    let settings = json!({"permission": {"*": "deny", "cofferdam_*": "allow"}});
    let file = world.repository().join("opencode.json");
    std::fs::write(file, settings.to_string()).unwrap();
    install(&world);
    finish_within(opencode(&world).spawn().unwrap(), LIMIT).expect_code(0);
    assert_eq!(world.seen().work().count(), 3);
    assert!(!world.repository().join("made-outside").exists());
}

/// The program outside of any sandbox. It asks nobody for its models or a newer version of itself.
fn opencode(world: &World) -> Command {
    let mut opencode = world.program_outside();
    opencode
        .args(["run", "--format", "json"])
        .args(
            Program::OpenCode
                .model()
                .map(|model| format!("--model={model}")),
        )
        .arg("Make one ONE.")
        .env("OPENCODE_DISABLE_AUTOUPDATE", "1")
        .env("OPENCODE_DISABLE_MODELS_FETCH", "1");
    opencode
}
