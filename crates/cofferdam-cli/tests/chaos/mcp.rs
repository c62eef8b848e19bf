//! `kill -9` of `cofferdam mcp` while what a tool changed becomes a commit: whoever comes next brings it home, once.

use std::time::Duration;

use cofferdam_lab::sample::Sample;
use serde_json::{Value, json};

use crate::checker::User;
use crate::environment::Environment;
use crate::kill::moment;
use crate::living::{NAME, NONE, check};
use crate::mcp_client::Client;

/// One of so many git calls is tried, unless all are wanted.
const SHARE: u64 = 8;
/// The longest that a call here takes on a machine that has time for it.
const LONGEST: u64 = 200_000;
/// What the tools make.
const MADE: &str = "agent/made";
const HOLDS: &str = "what the tool made";

/// Tools that change files, and what they are asked for.
fn tools() -> [(&'static str, Value); 3] {
    let patch = format!("--- /dev/null\n+++ b/{MADE}\n@@ -0,0 +1 @@\n+{HOLDS}\n");
    let command = format!("mkdir -p agent; echo {HOLDS} > {MADE}");
    [
        (
            "sandbox-write",
            json!({"sandbox": NAME, "path": MADE, "content": format!("{HOLDS}\n")}),
        ),
        ("sandbox-edit", json!({"sandbox": NAME, "patch": patch})),
        ("sandbox-exec", json!({"sandbox": NAME, "command": command})),
    ]
}

/// Who comes after the death, before the next call of a tool.
const AFTERWARDS: [&str; 3] = ["call", "collect", "gc"];

fn ready(mode: &str) -> (Environment, Client) {
    let environment = Environment::new();
    let create = [&["create", NAME, "--mode", mode], &NONE[..]].concat();
    let done = environment.cofferdam(&create);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let mut client = Client::with(environment.command(&["mcp"]));
    // So that no call here is a client's first.
    client.tool("sandbox-list", &json!({}));
    (environment, client)
}

/// What a tool changed is on the branch once, whole, and nothing of it is left inside. `false`: the tool had not come to it.
#[track_caller]
fn has_come_home(environment: &Environment, afterwards: &str, what: &str) -> bool {
    if afterwards != "call" {
        let mut command = vec![afterwards];
        command.extend((afterwards == "collect").then_some(NAME));
        let done = environment.cofferdam(&command);
        assert_eq!(done.status, 0, "{what}: {}", done.stderr);
    }
    let mut client = Client::with(environment.command(&["mcp"]));
    let look = format!("cat {MADE} 2>/dev/null; git status --porcelain; echo looked");
    let looked = json!({"sandbox": NAME, "command": look});
    // The first one commits what was left; a program whose server is dead may write after it.
    let mut looks = (0..3).map(|_| client.tool("sandbox-exec", &looked));
    let clean = |look: &String| !look.contains("?? ") && !look.contains("[commit ");
    let then = looks.find(clean);
    let then = then.unwrap_or_else(|| panic!("{what}: nobody commits it"));
    let there = then.starts_with(HOLDS);
    let inside = if there { HOLDS } else { "" };
    let inside = format!("{inside}\nlooked\n[exit code 0]\n");
    assert_eq!(then, inside.trim_start(), "{what}");
    let branch = format!("cofferdam/{NAME}");
    let commits = environment.git(&["log", "--format=%s", &format!("main..{branch}")]);
    let expected = usize::from(there);
    assert_eq!(commits.lines().count(), expected, "{what}: {commits}");
    if there {
        let holds = environment.git(&["show", &format!("{branch}:{MADE}")]);
        assert_eq!(holds, HOLDS, "{what}");
        let changed = environment.git(&["diff", "--name-only", "main", &branch]);
        assert_eq!(changed, MADE, "{what}");
    }
    // What a death leaves in the repository else is cleared later.
    let whole = environment.try_git(&["fsck", "--full", "--strict", "--no-dangling"]);
    assert!(whole.is_ok(), "{what}: {whole:?}");
    // It works on as before.
    let more = json!({"sandbox": NAME, "path": "agent/more", "content": "more\n"});
    let wrote = client.tool("sandbox-write", &more);
    assert!(wrote.contains("[commit "), "{what}: {wrote}");
    there
}

fn at_git_calls(mode: &str, tool: &str, arguments: &Value) {
    let (counted, mut client) = ready(mode);
    let before = User::of(&counted);
    counted.count_calls();
    client.tool(tool, arguments);
    let calls = counted.calls();
    counted.killed_at();
    assert!(calls > 3, "{tool} makes {calls} git calls");
    let label = format!("{tool} in {mode}");
    assert!(has_come_home(&counted, "call", &label), "{label}");
    drop(client);
    check(&counted, &before, false, &label);
    let mut sample = Sample::new(&format!("mcp, {label}"));
    let (mut killed, mut changed) = (0, 0);
    let share = sample.of(1..=calls, SHARE.min(u64::from(calls)));
    let chosen = share.len();
    for (number, call) in share.into_iter().chain((1..=calls).rev()).enumerate() {
        // The last of them come after the change.
        if number >= chosen && killed > 0 && changed > 0 {
            break;
        }
        let (environment, mut client) = ready(mode);
        let before = User::of(&environment);
        let moment = moment(sample.below(3));
        let afterwards = AFTERWARDS[usize::try_from(sample.below(3)).unwrap()];
        environment.kill_at(call, moment);
        client.begin("x", tool, arguments);
        let heard = client.line();
        let again = sample.again();
        let Some(at) = environment.killed_at() else {
            assert!(!heard.is_empty(), "{label} ended by itself ({again})");
            drop(client);
            let delete = environment.cofferdam(&["delete", "--force", NAME]);
            assert_eq!(delete.status, 0, "{}", delete.stderr);
            continue;
        };
        let what = format!("{label} killed at git call {at}, then {afterwards} ({again})");
        assert_eq!(heard, "", "{what}");
        drop(client);
        killed += 1;
        changed += i32::from(has_come_home(&environment, afterwards, &what));
        check(&environment, &before, false, &what);
    }
    assert!(killed > 0 && changed > 0, "{label}: {killed} {changed}");
}

#[test]
fn a_server_dies_at_git_calls() {
    for mode in ["layer", "copy"] {
        for (tool, arguments) in tools() {
            at_git_calls(mode, tool, &arguments);
        }
    }
}

/// At times that nobody chose, in between as well.
#[test]
fn a_server_dies_at_random_times() {
    let mut sample = Sample::new("mcp, at random times");
    for number in sample.of(0..24_usize, 4) {
        let (tool, arguments) = &tools()[number % 3];
        let mode = ["layer", "copy"][number / 3 % 2];
        let afterwards = AFTERWARDS[usize::try_from(sample.below(3)).unwrap()];
        let delay = Duration::from_micros(sample.below(LONGEST));
        let (environment, mut client) = ready(mode);
        let before = User::of(&environment);
        client.begin("x", tool, arguments);
        std::thread::sleep(delay);
        client.kill();
        let again = sample.again();
        let what = format!("{tool} in {mode} killed after {delay:?}, then {afterwards} ({again})");
        has_come_home(&environment, afterwards, &what);
        check(&environment, &before, false, &what);
    }
}
