//! What the tools tell: long lists in parts, names as they are, and what an agent has to know to go on.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lives::Lives;
use crate::mcp_client::Client;

/// The structured content of all parts of a list, joined; and how many parts there were.
#[track_caller]
fn parts(client: &mut Client, tool: &str, arguments: &Value, list: &str) -> (Vec<Value>, usize) {
    let (mut all, mut count, mut arguments) = (Vec::new(), 0, arguments.clone());
    loop {
        let call = json!({"name": tool, "arguments": arguments});
        let told = client.ask("tools/call", &call);
        let text = told["content"][0]["text"].as_str().unwrap();
        assert!(text.len() < 70_000, "{tool}: {}", text.len());
        let told = &told["structuredContent"];
        all.extend(told[list].as_array().unwrap().iter().cloned());
        count += 1;
        let Some(next) = told["next"].as_u64() else {
            assert!(!text.contains("there are more"), "{text}");
            return (all, count);
        };
        assert!(
            text.ends_with(&format!(
                "[there are more: ask with the offset {next}, or say more exactly what you look for]\n"
            )),
            "{text}"
        );
        arguments["offset"] = json!(next);
    }
}

/// Whatever is asked for can be had as a whole, and no part of it is long.
#[test]
fn long_lists_come_in_parts() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    // Those of one directory are many, those of the other have long names, and long lines.
    let make = "mkdir many long && cd many && seq 2100 | xargs touch && cd ../long && \
        long=$(printf %0200d 7) && for n in $(seq 1000 1700); do echo \"$long\" > \"$n-$long\"; done";
    client.run(make);
    let names = |all: &[Value], of: &str| {
        let mut names: Vec<String> = all
            .iter()
            .map(|one| match one {
                Value::String(path) => path.clone(),
                one => one[of].as_str().unwrap().to_owned(),
            })
            .collect();
        let told = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), told, "one was told twice");
        names
    };
    for (directory, entries, most) in [("many", 2100, 3), ("long", 701, 4)] {
        let place = json!({"sandbox": "one", "path": directory});
        let (all, count) = parts(&mut client, "sandbox-ls", &place, "entries");
        assert_eq!(names(&all, "path").len(), entries);
        assert!((2..=most).contains(&count), "{directory}: {count}");
        let fits = json!({"sandbox": "one", "pattern": format!("{directory}/*")});
        let (all, count) = parts(&mut client, "sandbox-glob", &fits, "paths");
        assert_eq!(names(&all, "").len(), entries);
        assert!((2..=most).contains(&count), "{directory}: {count}");
    }
    // Where they lead is as long as anything.
    client.run("mkdir links && cd links && to=$(printf %04000d 7) && for n in $(seq 60); do ln -s $to $n; done");
    let place = json!({"sandbox": "one", "path": "links"});
    let (all, count) = parts(&mut client, "sandbox-ls", &place, "entries");
    assert_eq!(names(&all, "path").len(), 60);
    assert_eq!(count, 5);
    let lines = json!({"sandbox": "one", "pattern": "7$", "path": "long"});
    let (all, count) = parts(&mut client, "sandbox-grep", &lines, "lines");
    assert_eq!(names(&all, "path").len(), 701);
    assert!((4..=8).contains(&count), "{count}");
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// A file that nobody looked into is named, and how one looks into it. Whoever listens very often is told in parts.
#[test]
fn what_is_left_out_is_said() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    client.run("{ head -c 9000000 /dev/zero | tr '\\0' '\\n'; echo needle; } > big; echo needle > small; truncate -s 9m hidden.no");
    let find = |more: Value| {
        let mut arguments = json!({"sandbox": "one", "pattern": "needle"});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        arguments
    };
    let big = "[note: big has more than 8388608 bytes and was not looked into: use `grep` with `sandbox-exec`]\n";
    let hidden = big.replace("big", "hidden.no");
    let told = client.tool("sandbox-grep", &find(json!({})));
    assert_eq!(told, format!("small:1:needle\n{big}{hidden}"));
    let told = client.tool("sandbox-grep", &find(json!({"files": "b*"})));
    assert_eq!(told, format!("[no line fits the pattern]\n{big}"));
    // What it is told to do works.
    assert_eq!(client.run("grep -c needle big"), "1\n[exit code 0]\n");
    let server = "use IO::Socket::INET; my @s = map { IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1:$_\") or die } 20000 .. 20449; open my $up, '>', '/tmp/up'; close $up; sleep 1000";
    let begin = json!({"sandbox": "one", "program": ["perl", "-e", server], "background": true});
    client.tool("sandbox-exec", &begin);
    let until = Instant::now() + Duration::from_secs(20);
    while lives.exec("one", "test -e /tmp/up").status.code() != Some(0) {
        assert!(Instant::now() < until);
    }
    let (all, count) = parts(
        &mut client,
        "sandbox-ports",
        &json!({"sandbox": "one"}),
        "ports",
    );
    assert_eq!(all, (20000..20450).map(Value::from).collect::<Vec<_>>());
    assert_eq!(count, 3);
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// No name passes for more than a name.
#[test]
fn names_are_told_on_one_line() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    client.run("mkdir odd && cd odd && name=$(printf 'a\\nb\\033[2J') && echo here > \"$name\" && ln -s \"$name\" link");
    for (tool, more) in [
        ("sandbox-ls", json!({"path": "odd"})),
        ("sandbox-glob", json!({"pattern": "odd/a*"})),
        ("sandbox-grep", json!({"pattern": "here", "path": "odd"})),
    ] {
        let mut arguments = json!({"sandbox": "one"});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        let told = client.tool(tool, &arguments);
        assert!(!told.contains('\u{1b}'), "{tool}: {told:?}");
        assert!(
            told.lines().all(|line| !line.starts_with('b')),
            "{tool}: {told:?}"
        );
        assert!(told.contains('b'), "{tool}: {told:?}");
    }
    // Where a link leads is told too.
    client.run("odd=$(printf '/tmp/x\\n[note: forged]\\033[2J'); echo old > \"$odd\"; ln -s \"$odd\" /tmp/lnk");
    for (tool, more) in [
        ("sandbox-write", json!({"content": "old\n"})),
        ("sandbox-edit", json!({"old": "old", "new": "new"})),
    ] {
        let mut arguments = json!({"sandbox": "one", "path": "/tmp/lnk"});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        let told = client.tool(tool, &arguments);
        assert!(!told.contains('\u{1b}'), "{tool}: {told:?}");
        assert!(
            told.lines().all(|line| !line.starts_with("[note: forged]")),
            "{tool}: {told:?}"
        );
    }
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// What of the commit is not in the sandbox is said when it is made, whichever way its files come in.
#[test]
fn submodules_and_lfs_files_are_reported() {
    for mode in ["layer", "copy"] {
        let lives = Lives::new();
        if mode == "copy" {
            // Its files are never laid over others; all of them are in it.
            lives.git(&["sparse-checkout", "set", "--no-cone", "/*"]);
        }
        let mut client = Client::start(&lives);
        let plain = client.tool("sandbox-create", &json!({"name": "plain"}));
        assert_eq!(lives.status("plain", "mode"), mode);
        let tells = plain.contains("submodules are") || plain.contains("Git LFS");
        assert!(!tells, "{mode}: {plain}");
        lives.write(
            ".gitmodules",
            "[submodule \"lib\"]\n\tpath = lib\n\turl = ../lib\n",
        );
        lives.write(
            ".gitattributes",
            "*.bin filter=lfs diff=lfs merge=lfs -text\n",
        );
        lives.git(&["add", "."]);
        let head = lives.git(&["rev-parse", "HEAD"]);
        let link = format!("160000,{head},lib");
        lives.git(&["update-index", "--add", "--cacheinfo", &link]);
        lives.git(&["commit", "-qm", "with a submodule"]);
        let told = client.tool("sandbox-create", &json!({"name": "one"}));
        assert_eq!(lives.status("one", "mode"), mode);
        for note in [
            "[note: submodules are empty directories inside, because their files are in other repositories: `lib`]",
            "[note: files that Git LFS keeps are pointers inside, without their contents: `*.bin`]",
        ] {
            assert!(told.contains(note), "{mode}: {told}");
        }
        let inside = client.run("ls -A lib | wc -l");
        assert!(inside.starts_with("0\n"), "{mode}: {inside}");
        drop(client);
        lives.cofferdam(&["delete", "one", "plain"]).expect_code(0);
    }
}

/// A program says that a name is not known; why that is so, only the wall knows.
#[test]
fn what_the_network_refused_is_told() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    assert!(!client.run("true").contains("[note"));
    let ask = "perl -e 'print gethostbyname(q(nobody.example.com)) ? q(found) : q(refused)'";
    // It is written down a moment later, which may be after a short program's end.
    let until = Instant::now() + Duration::from_secs(30);
    let note = loop {
        let told = client.run(ask);
        assert!(told.starts_with("refused\n[exit code 0]\n"), "{told}");
        let note = told.lines().find(|line| line.starts_with("[note: "));
        if let Some(note) = note {
            break note.to_owned();
        }
        assert!(Instant::now() < until, "{told}");
    };
    assert!(
        note.starts_with("[note: the network refused nobody.example.com")
            && note.ends_with(
                "; the person you work for opens it with `cofferdam allow nobody.example.com`]"
            ),
        "{note}"
    );
    assert!(!client.run("true").contains("[note"));
    // The same of a program that nobody waits for, and of none beside it.
    let mut begin = |command: &str| {
        let begin = json!({"sandbox": "one", "command": command, "background": true});
        let told = client.tool("sandbox-exec", &begin);
        let id = told.split("background as ").nth(1).unwrap();
        id.split(':').next().unwrap().to_owned()
    };
    let quiet = begin("true");
    let until = Instant::now() + Duration::from_secs(30);
    let mut told = |id: &str, wanted: &str| loop {
        let told = client.tool("sandbox-output", &json!({"sandbox": "one", "id": id}));
        if told.contains(wanted) {
            return told;
        }
        assert!(Instant::now() < until, "{told}");
    };
    assert!(!told(&quiet, "[exit code 0]").contains("[note"));
    // What is refused is written down a moment later, so that counts for one that has just ended.
    std::thread::sleep(Duration::from_millis(1500));
    let begin = json!({"sandbox": "one", "command": format!("{}; sleep 1000", ask.replace("nobody", "somebody")), "background": true});
    let mut other = Client::start(&lives);
    let loud = other.tool("sandbox-exec", &begin);
    let loud = loud.split("background as ").nth(1).unwrap();
    let loud = loud.split(':').next().unwrap();
    let heard = told(loud, "[note: the network refused");
    assert!(
        heard.contains("`cofferdam allow somebody.example.com`"),
        "{heard}"
    );
    assert!(!told(&quiet, "[exit code 0]").contains("[note"));
    drop((client, other));
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// An id that was forgotten is in the list.
#[test]
fn what_runs_in_the_background_is_listed() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    let list = |client: &mut Client| client.tool("sandbox-list", &json!({}));
    assert!(!list(&mut client).contains("background"));
    let sleep = json!({"sandbox": "one", "command": "sleep 600", "background": true});
    let told = client.tool("sandbox-exec", &sleep);
    let id = told.split(" as ").nth(1).unwrap();
    let id = id.split(':').next().unwrap();
    let listed = list(&mut client);
    assert!(
        listed.contains(&format!(", runs in the background: {id}\n")),
        "{listed}"
    );
    client.tool("sandbox-kill", &json!({"sandbox": "one", "id": id}));
    assert!(!list(&mut client).contains("background"));
    client.tool("sandbox-exec", &sleep);
    lives.cofferdam(&["stop", "one"]).expect_code(0);
    assert!(!list(&mut client).contains("background"));
    drop(client);
    lives.cofferdam(&["delete", "one"]).expect_code(0);
}

/// A client that reads no answer keeps no server.
#[test]
fn whoever_has_gone_is_not_waited_for() {
    let lives = Lives::new();
    let mut command = lives.command(&["mcp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let who = json!({"name": "test", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let mut text = format!("{hello}\n{ready}\n");
    for id in 1..200 {
        let list = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {}});
        text.push_str(&format!("{list}\n"));
    }
    std::io::Write::write_all(&mut to, text.as_bytes()).unwrap();
    drop(to);
    // Nobody reads its output, and it stays open.
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it still runs");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(status.success(), "{status}");
}

/// Calls at once may have one commit for all of them: none of the others says that its file is in none.
#[test]
fn files_that_were_written_at_once_are_in_commits() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    for n in 0..8 {
        let write = json!({"sandbox": "one", "path": format!("{n}.txt"), "content": "x\n"});
        client.begin(&format!("call-{n}"), "sandbox-write", &write);
    }
    for _ in 0..8 {
        let heard = client.hear();
        let text = heard["result"]["content"][0]["text"].as_str().unwrap();
        assert!(!text.contains("in no commit"), "{text}");
        assert!(
            text.contains("[commit ") || text.contains("another call made"),
            "{text}"
        );
    }
    drop(client);
    let files = lives.git(&["ls-tree", "--name-only", "cofferdam/one"]);
    for n in 0..8 {
        assert!(files.contains(&format!("{n}.txt")), "{files}");
    }
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// What an ignore file covers is in no commit, and nobody is told that it is.
#[test]
fn what_ignore_files_cover_is_not_said_to_be_in_a_commit() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    client.run("echo '*.log' > .gitignore; echo x > a.log");
    drop(client);
    let status = lives.cofferdam(&["status", "one"]).expect_code(0);
    assert!(
        status
            .stdout
            .contains("everything that no ignore file covers is in a commit\n"),
        "{status}"
    );
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// That nothing is there is not said of the whole branch.
#[test]
fn a_path_that_nothing_was_changed_at_is_named() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    let diff = |client: &mut Client, path: &str| {
        client.tool("sandbox-diff", &json!({"sandbox": "one", "path": path}))
    };
    assert_eq!(diff(&mut client, "src"), "[the branch has no changes]\n");
    for (command, others) in [
        ("echo x > a", "1 other file"),
        ("echo x > b", "2 other files"),
    ] {
        client.run(command);
        assert_eq!(
            diff(&mut client, "src"),
            format!("[nothing below `src` was changed; the branch changes {others}]\n")
        );
    }
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// What cannot be meant is refused, and nothing runs.
#[test]
fn what_a_program_cannot_be_started_with_is_named() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    for (more, told) in [
        (
            json!({"timeout": 0}),
            "Error: `timeout` is 0, and may be 1 to 3600 seconds\n",
        ),
        (
            json!({"timeout": 3601, "background": true}),
            "Error: `timeout` is 3601, and may be 1 to 3600 seconds\n",
        ),
        (
            json!({"environment": {"A=B": "x"}}),
            "Error: `A=B` is no name of a variable\n",
        ),
        (
            json!({"directory": "nosuch"}),
            "Error: there is no directory nosuch\n",
        ),
    ] {
        let mut arguments = json!({"sandbox": "one", "command": "touch ran"});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        let refused = client.error("sandbox-exec", &arguments);
        assert!(refused.starts_with(told), "{refused}");
        assert_eq!(refused.lines().count(), 2, "{refused}");
    }
    assert_eq!(client.run("test ! -e ran"), "[exit code 0]\n");
    let slow = json!({"sandbox": "one", "command": "sleep 1000", "timeout": 1});
    let killed = client.tool("sandbox-exec", &slow);
    assert!(
        killed.contains("[it was killed, because it took longer than its timeout of 1 s; "),
        "{killed}"
    );
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// A call that cannot be meant says what of it is wrong, and one that found nothing what to try next.
#[test]
fn small_things_that_go_wrong_are_told_with_what_to_do() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    for (tool, more, told) in [
        (
            "sandbox-read",
            json!({"path": "README.md", "lines": 0}),
            "Error: `lines` is 0, and may be 1 or more\n",
        ),
        (
            "sandbox-read",
            json!({"path": "README.md", "first_line": 0}),
            "Error: `first_line` is 0, and may be 1 or more\n",
        ),
        (
            "sandbox-read",
            json!({"path": "README.md", "first_line": "2"}),
            "Error: sandbox-read: `first_line` is to be a number, 0 or more, and is \"2\"\n",
        ),
        (
            "sandbox-exec",
            json!({"command": 7}),
            "Error: sandbox-exec: `command` is to be a text, and is integer `7`\n",
        ),
        (
            "sandbox-exec",
            json!({"environment": {"A": 1}, "command": "true"}),
            "Error: sandbox-exec: `environment.A` is to be a text, and is integer `1`\n",
        ),
    ] {
        let mut arguments = json!({"sandbox": "one"});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        let refused = client.error(tool, &arguments);
        assert!(refused.starts_with(told), "{refused}");
    }
    client.begin("x", "sandbox-reed", &json!({}));
    let told = client.hear()["error"]["message"].to_string();
    assert!(
        told.contains("there is no tool `sandbox-reed`; those that there are: sandbox-create, "),
        "{told}"
    );
    let find = |pattern: &str| json!({"sandbox": "one", "pattern": pattern});
    assert_eq!(
        client.tool("sandbox-glob", &find("lib.txt")),
        "[no file fits the pattern; with `**/` before a name it looks in directories below, too]\n"
    );
    assert_eq!(
        client.tool("sandbox-glob", &find("**/lib.txt")),
        "src/lib.txt\n"
    );
    assert_eq!(
        client.tool("sandbox-glob", &find("**/none")),
        "[no file fits the pattern]\n"
    );
    client.run("echo x > a");
    let listed = client.tool("sandbox-list", &json!({}));
    assert!(listed.contains(", 1 commit ahead"), "{listed}");
    let deaf = "trap '' TERM; touch /tmp/deaf; while :; do sleep 0.02; done";
    let begin = json!({"sandbox": "one", "command": deaf, "background": true});
    let told = client.tool("sandbox-exec", &begin);
    let id = told.split(" as ").nth(1).unwrap();
    let id = id.split(':').next().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while lives.exec("one", "test -e /tmp/deaf").status.code() != Some(0) {
        assert!(Instant::now() < until);
    }
    for (force, more) in [(false, " If it goes on, `force` ends it."), (true, "")] {
        let kill = json!({"sandbox": "one", "id": id, "force": force});
        assert_eq!(
            client.tool("sandbox-kill", &kill),
            format!("The signal was sent; `sandbox-output` tells how it ended.{more}\n")
        );
    }
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// A path that only the host or a shell knows makes no directories inside.
#[test]
fn paths_of_the_host_and_of_shells_are_told_from_those_inside() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    let top = lives.repository().canonicalize().unwrap();
    let file = top.join("src/none.txt");
    let content = json!("x\n");
    let host = "Error: the repository is at /workspace/repository in the sandbox\nName it from there on: src/none.txt";
    for (tool, path, content, told) in [
        (
            "sandbox-write",
            file.to_str().unwrap(),
            Some(&content),
            host,
        ),
        ("sandbox-read", file.to_str().unwrap(), None, host),
        (
            "sandbox-write",
            "~/none.txt",
            Some(&content),
            "Error: `~/none.txt` begins with `~`, which only a shell knows\nA file of the repository is named from its top on, ",
        ),
    ] {
        let mut arguments = json!({"sandbox": "one", "path": path});
        if let Some(content) = content {
            arguments["content"] = content.clone();
        }
        let refused = client.error(tool, &arguments);
        assert!(refused.starts_with(told), "{refused}");
    }
    assert_eq!(
        client.run("git status --short; ls"),
        "README.md\nsrc\n[exit code 0]\n"
    );
    // What is below the top is named either way.
    let write = json!({"sandbox": "one", "path": "/workspace/repository/made", "content": content});
    let wrote = client.tool("sandbox-write", &write);
    assert!(wrote.starts_with("Made made, "), "{wrote}");
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}
