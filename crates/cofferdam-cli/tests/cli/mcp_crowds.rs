//! Many calls at once, and calls that nobody waits for any more.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::lives::Lives;
use crate::mcp_client::Client;

/// What has not come by then does not come, on a machine that has much else to do as well.
const LONG: Duration = Duration::from_secs(180);

/// However many come at once, each has its turn, and none is told that the sandbox has gone.
#[test]
fn forty_calls_at_once_all_have_their_turn() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    let mut other = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    for number in 0..40 {
        let of_two = if number % 8 == 7 {
            &mut other
        } else {
            &mut client
        };
        let (tool, arguments) = match number % 4 {
            0 => (
                "sandbox-exec",
                json!({"sandbox": "one", "command": format!("sleep 1; echo x > by-exec-{number}")}),
            ),
            1 => (
                "sandbox-write",
                json!({"sandbox": "one", "path": format!("by-write-{number}"), "content": "x\n"}),
            ),
            2 => ("sandbox-grep", json!({"sandbox": "one", "pattern": "x"})),
            _ => ("sandbox-ls", json!({"sandbox": "one"})),
        };
        of_two.begin(&format!("call-{number}"), tool, &arguments);
    }
    for number in 0..40 {
        let of_two = if number % 8 == 7 {
            &mut other
        } else {
            &mut client
        };
        let heard = of_two.hear();
        let result = &heard["result"];
        assert_eq!(result["isError"], false, "{heard}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(!text.contains("in no commit yet"), "{text}");
    }
    // What one left for another one is committed by the next.
    client.run("true");
    let tree = lives.git(&["ls-tree", "--name-only", "cofferdam/one"]);
    assert_eq!(tree.matches("by-exec-").count(), 10, "{tree}");
    assert_eq!(tree.matches("by-write-").count(), 10, "{tree}");
    drop((client, other));
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// Lines that are long to compare with this pattern: what has been seen of them never tells what comes.
const SLOW: &str = "a[ab]{60}[0-9]";
const LINES: &str = "head -c 8000000 /dev/urandom | tr '\\000-\\177' a | tr '\\200-\\377' b | fold -w 1000 > /tmp/slow";

fn slow() -> serde_json::Value {
    json!({"sandbox": "one", "path": "/tmp/slow", "pattern": SLOW})
}

/// A client with a sandbox that has them, and its server.
fn with_slow_lines() -> (Lives, Client, u32) {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    client.run(LINES);
    let server = client.server();
    (lives, client, server)
}

/// How long the processors have worked for a process, in hundredths of a second.
fn worked(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Until it compares what is in files. `before`: how long it had worked then.
fn is_at_it(process: u32, before: u64) {
    let began = Instant::now();
    while worked(process) < before + 50 {
        assert!(began.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whoever cancels a search, or goes away, has ended it.
#[test]
fn a_search_that_nobody_waits_for_ends() {
    let (lives, mut client, server) = with_slow_lines();
    let before = worked(server);
    client.begin("slow", "sandbox-grep", &slow());
    is_at_it(server, before);
    client.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}}));
    let cancelled = Instant::now();
    loop {
        let before = worked(server);
        std::thread::sleep(Duration::from_millis(500));
        if worked(server) < before + 5 {
            break;
        }
        assert!(cancelled.elapsed() < LONG, "it goes on");
    }
    client.tool("sandbox-ls", &json!({"sandbox": "one"}));
    let before = worked(server);
    client.begin("slow", "sandbox-grep", &slow());
    is_at_it(server, before);
    let gone = Instant::now();
    drop(client);
    assert!(gone.elapsed() < LONG, "{:?}", gone.elapsed());
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// Searches take the processors that there are, one each, and others are answered meanwhile.
#[test]
fn no_more_searches_work_at_once_than_there_are_processors() {
    let (lives, mut client, server) = with_slow_lines();
    let before = worked(server);
    for number in 0..7 {
        client.begin(&format!("slow-{number}"), "sandbox-grep", &slow());
    }
    is_at_it(server, before);
    let running = || {
        let tasks = std::fs::read_dir(format!("/proc/{server}/task")).unwrap();
        let states = tasks.filter_map(|task| {
            let text = std::fs::read_to_string(task.unwrap().path().join("stat")).ok()?;
            text.rsplit(") ").next()?.chars().next()
        });
        states.filter(|&state| state == 'R').count()
    };
    let processors = std::thread::available_parallelism().unwrap().get();
    for _ in 0..50 {
        let running = running();
        // And whoever answers.
        assert!(running <= processors + 1, "{running} at once");
        std::thread::sleep(Duration::from_millis(20));
    }
    let listed = client.tool("sandbox-ls", &json!({"sandbox": "one"}));
    assert!(listed.contains("README.md"), "{listed}");
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}
