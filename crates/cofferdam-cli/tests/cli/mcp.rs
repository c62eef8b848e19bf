//! `cofferdam mcp`, as a client of the protocol meets it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::containers;
use crate::lives::Lives;
use crate::mcp_client::Client;

/// From the names of the documents to what is on the branch, and nowhere else.
// covers: S4-G5, S4-UJ1, S4-UJ2, S4-FR1.1, S4-FR1.2, S4-FR1.3, S4-FR4.2, S4-FR5.3, S4-AC1.1, S4-AC1.2, S4-AC1.5, S4-D2, S4-D5, S4-D6
#[test]
fn an_agent_works_in_a_sandbox_by_tools() {
    let lives = Lives::new();
    lives.write("src/lib.txt", "one\ntwo\nthree\n");
    lives.write(".gitignore", "*.secret\n");
    lives.git(&["add", "-A"]);
    lives.git(&["commit", "-qm", "files"]);
    let head = lives.git(&["rev-parse", "HEAD"]);
    // What its user has begun.
    lives.write("README.md", "begun\n");
    lives.write("staged", "x\n");
    lives.git(&["add", "staged"]);
    lives.write("untracked", "x\n");
    let begun = || {
        let index = std::fs::read(lives.repository().join(".git/index")).unwrap();
        let shown = [
            &["status", "--porcelain"][..],
            &["diff"],
            &["diff", "--cached"],
        ];
        (shown.map(|words| lives.git(words)), index)
    };
    // Git looks at it once, and knows it then.
    begun();
    let before = begun();
    let mut client = Client::start(&lives);
    let tools = client.ask("tools/list", &json!({}));
    let names: Vec<&str> = tools["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "sandbox-create",
            "sandbox-list",
            "sandbox-exec",
            "sandbox-output",
            "sandbox-kill",
            "sandbox-read",
            "sandbox-write",
            "sandbox-edit",
            "sandbox-ls",
            "sandbox-glob",
            "sandbox-grep",
            "sandbox-diff",
            "sandbox-ports"
        ]
    );
    let made = client.tool("sandbox-create", &json!({"name": "My Feature Name!@#"}));
    assert!(made.contains("my-feature-name"), "{made}");
    assert_eq!(lives.state("my-feature-name"), "active");
    let branch = lives.git(&["rev-parse", "cofferdam/my-feature-name"]);
    assert_eq!(branch, head);
    let references = lives.references();
    let again = client.error("sandbox-create", &json!({"name": "my feature name"}));
    assert_eq!(lives.references(), references);
    assert_eq!(lives.all().len(), 1);
    assert!(
        again.starts_with(
            "Error: Sandbox 'my-feature-name' already exists. Please choose a different name.\n"
        ),
        "{again}"
    );
    let invalid = client.error("sandbox-create", &json!({"name": "!!!"}));
    let words = "Error: Invalid sandbox name. Slugified names must be 1-63 characters and contain only [a-z0-9-].\n";
    assert!(invalid.starts_with(words), "{invalid}");
    let at = |more: Value| {
        let mut arguments = json!({"sandbox": "my-feature-name"});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        arguments
    };
    let ran = client.tool(
        "sandbox-exec",
        &at(json!({"command": "echo out; echo err >&2; cat src/lib.txt; exit 3"})),
    );
    assert_eq!(ran, "out\nerr\none\ntwo\nthree\n[exit code 3]\n");
    let read = client.tool(
        "sandbox-read",
        &at(json!({"path": "src/lib.txt", "first_line": 2, "lines": 1})),
    );
    assert!(read.starts_with("two\n[lines 2 to 2 of 3"), "{read}");
    let wrote = client.tool(
        "sandbox-write",
        &at(json!({"path": "src/new/file.txt", "content": "new\n"})),
    );
    assert!(
        wrote.contains("sandbox-write: src/new/file.txt]"),
        "{wrote}"
    );
    let edited = client.tool(
        "sandbox-edit",
        &at(json!({"path": "src/lib.txt", "old": "two", "new": "2"})),
    );
    assert!(edited.contains("sandbox-edit: src/lib.txt]"), "{edited}");
    let lost = client.error(
        "sandbox-edit",
        &at(json!({"path": "src/lib.txt", "old": "two", "new": "2"})),
    );
    assert!(lost.contains("`old` is not in src/lib.txt"), "{lost}");
    let patch = "--- a/src/lib.txt\n+++ b/src/lib.txt\n@@ -1,3 +1,3 @@\n one\n 2\n-three\n+3\n\
        --- /dev/null\n+++ b/made\n@@ -0,0 +1 @@\n+made\n";
    let patched = client.tool("sandbox-edit", &at(json!({"patch": patch})));
    assert!(
        patched.starts_with("Changed made, src/lib.txt.\n"),
        "{patched}"
    );
    let twice = client.error("sandbox-edit", &at(json!({"patch": patch})));
    assert!(twice.contains("the patch does not apply: "), "{twice}");
    assert!(twice.contains("patch failed: src/lib.txt:1"), "{twice}");
    let back = "--- a/src/lib.txt\n+++ b/src/lib.txt\n@@ -1,3 +1,3 @@\n one\n 2\n-3\n+three\n--- a/made\n+++ /dev/null\n@@ -1 +0,0 @@\n-made\n";
    client.tool("sandbox-edit", &at(json!({"patch": back})));
    let renamed = "diff --git a/src/lib.txt b/moved\nsimilarity index 100%\nrename from src/lib.txt\nrename to moved\n";
    let renamed = client.tool("sandbox-edit", &at(json!({"patch": renamed})));
    assert!(
        renamed.starts_with("Changed moved, src/lib.txt.\n"),
        "{renamed}"
    );
    let back = "diff --git a/moved b/src/lib.txt\nsimilarity index 100%\nrename from moved\nrename to src/lib.txt\n";
    client.tool("sandbox-edit", &at(json!({"patch": back})));
    for outside in ["../x", ".git/config", "/etc/x"] {
        let patch = format!("--- /dev/null\n+++ b/{outside}\n@@ -0,0 +1 @@\n+x\n");
        let refused = client.error("sandbox-edit", &at(json!({"patch": patch})));
        assert!(refused.contains("Nothing was changed"), "{refused}");
    }
    let secret = client.tool(
        "sandbox-write",
        &at(json!({"path": "a.secret", "content": "s\n"})),
    );
    assert!(!secret.contains("[commit"), "{secret}");
    let ran = client.tool("sandbox-exec", &at(json!({"command": "rm src/new/file.txt; mkdir d; echo x > d/x; chmod +x d/x; ln -s x d/y"})));
    assert!(ran.contains("sandbox-exec: d/x and 2 more]"), "{ran}");
    // It is on the branch, and nowhere else.
    let log = lives.git(&["log", "--format=%s", "HEAD..cofferdam/my-feature-name"]);
    assert_eq!(
        log,
        "sandbox-exec: d/x and 2 more\nsandbox-edit: moved and 1 more\nsandbox-edit: moved and 1 more\nsandbox-edit: made and 1 more\nsandbox-edit: made and 1 more\nsandbox-edit: src/lib.txt\nsandbox-write: src/new/file.txt"
    );
    let tree = lives.git(&["ls-tree", "-r", "cofferdam/my-feature-name"]);
    for entry in ["100755 blob ", "120000 blob "] {
        assert!(tree.contains(entry), "{tree}");
    }
    assert!(
        !tree.contains(".secret") && !tree.contains("new/file"),
        "{tree}"
    );
    let inside = client.tool(
        "sandbox-exec",
        &at(json!({"command": "git status --porcelain; git log -1 --format=%s"})),
    );
    assert_eq!(inside, "sandbox-exec: d/x and 2 more\n[exit code 0]\n");
    assert_eq!(lives.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(begun(), before);
    let diff = client.tool("sandbox-diff", &at(json!({})));
    assert!(
        diff.contains("\n-two\n+2\n") && !diff.contains("secret"),
        "{diff}"
    );
    let listed = client.tool("sandbox-ls", &at(json!({"path": "d"})));
    assert_eq!(listed, "x (2 bytes)\ny -> x\n");
    let found = client.tool("sandbox-glob", &at(json!({"pattern": "**/*.txt"})));
    assert_eq!(found, "src/lib.txt\n");
    let lines = client.tool(
        "sandbox-grep",
        &at(json!({"pattern": "^thr", "context": 1})),
    );
    assert_eq!(lines, "src/lib.txt-2-2\nsrc/lib.txt:3:three\n");
    // What goes on in the background.
    let began = client.tool("sandbox-exec", &at(json!({"command": "echo begun; sleep 0.3; echo late > late; echo done; sleep 100", "background": true})));
    let id = began
        .split(" as ")
        .nth(1)
        .unwrap()
        .split(':')
        .next()
        .unwrap()
        .to_owned();
    let told = loop {
        let told = client.tool("sandbox-output", &at(json!({"id": id})));
        if told.contains("done") {
            break told;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert!(
        told.starts_with("begun\ndone\n") && told.contains("[it still runs]"),
        "{told}"
    );
    // What it changed comes with the call that ends it.
    let killed = client.tool("sandbox-kill", &at(json!({"id": id, "force": true})));
    assert!(killed.contains("sandbox-kill: late]"), "{killed}");
    let tree = lives.git(&["ls-tree", "--name-only", "cofferdam/my-feature-name"]);
    assert!(tree.lines().any(|name| name == "late"), "{tree}");
    let slow = client.tool(
        "sandbox-exec",
        &at(json!({"command": "echo begun; sleep 100", "timeout": 1})),
    );
    assert!(
        slow.contains("begun\n[ended by signal 9]") && slow.contains("killed"),
        "{slow}"
    );
    let missing = client.error("sandbox-read", &json!({"sandbox": "no-such", "path": "x"}));
    assert!(
        missing.starts_with("Error: Sandbox 'no-such' not found.\n"),
        "{missing}"
    );
    lives
        .cofferdam(&["pause", "my-feature-name"])
        .expect_code(0);
    let paused = client.error("sandbox-exec", &at(json!({"command": "true"})));
    assert!(
        paused.contains("cofferdam resume my-feature-name"),
        "{paused}"
    );
    lives
        .cofferdam(&["resume", "my-feature-name"])
        .expect_code(0);
    assert_eq!(lives.state("my-feature-name"), "active");
    // What is on the branch is what its user gets, as commits or as changes.
    lives
        .cofferdam(&["merge", "my-feature-name"])
        .expect_code(0);
    assert_eq!(lives.read("src/lib.txt"), "one\n2\nthree\n");
    client.tool("sandbox-create", &json!({"name": "two"}));
    let two = json!({"sandbox": "two", "path": "src/lib.txt", "content": "applied\n"});
    client.tool("sandbox-write", &two);
    let secret = json!({"sandbox": "two", "path": "b.secret", "content": "s\n"});
    client.tool("sandbox-write", &secret);
    let merged = lives.git(&["rev-parse", "HEAD"]);
    lives.cofferdam(&["apply", "two"]).expect_code(0);
    assert_eq!(lives.read("src/lib.txt"), "applied\n");
    assert_eq!(lives.git(&["rev-parse", "HEAD"]), merged);
    for not in ["a.secret", "b.secret"] {
        assert!(!lives.repository().join(not).exists(), "{not}");
    }
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "my-feature-name", "two"])
        .expect_code(0);
}

/// Nothing of an image is needed for it but a shell for its commands: no git, no program that reads or writes files.
// covers: S4-FR1.5, S4-FR1.6, S4-AC1.3, S4-AC1.4, S4-AC4.1, S4-AC4.2
#[test]
fn it_is_the_same_in_containers() {
    for world in containers::worlds() {
        let engine = world.engine;
        world
            .environment
            .configure(&format!("sandbox: {engine}\nimage: busybox:latest\n"));
        world.environment.write("run.sh", "echo ran\n");
        std::os::unix::fs::symlink("src/lib.txt", world.environment.repository().join("link"))
            .unwrap();
        world.environment.git(&["add", "-A"]);
        world
            .environment
            .git(&["update-index", "--chmod=+x", "run.sh"]);
        world.environment.git(&["commit", "-qm", "files"]);
        let mut client = Client::with(world.command(&["mcp"]));
        // What is in no commit is not there.
        world.environment.write("src/lib.txt", "unsaved\n");
        world.environment.write("unsaved", "x\n");
        let made = client.tool("sandbox-create", &json!({"name": "one"}));
        assert!(made.contains("/workspace/repository"), "{made}");
        assert!(
            made.contains("Its set-up printed:\nhello world\n"),
            "{made}"
        );
        let files = client.run("ls; test -x run.sh && cat README.md; command -v git");
        assert_eq!(
            files, "README.md\nlink\nrun.sh\nsrc\nhello\n[exit code 127]\n",
            "{engine}"
        );
        let exact = client
            .run("readlink link; cat link; find . -name .git -prune -o -type f -perm -u+x -print");
        assert_eq!(
            exact, "src/lib.txt\none\ntwo\n./run.sh\n[exit code 0]\n",
            "{engine}"
        );
        for outside in ["ls /host/root", "echo x >> /etc/passwd"] {
            let refused = client.run(outside);
            assert!(!refused.contains("[exit code 0]"), "{engine}: {refused}");
        }
        let write = json!({"sandbox": "one", "path": "a/b", "content": "one\ntwo\n"});
        client.tool("sandbox-write", &write);
        let edit = json!({"sandbox": "one", "path": "a/b", "old": "two", "new": "2"});
        client.tool("sandbox-edit", &edit);
        client.run("rm README.md; echo made > made");
        let read = client.tool("sandbox-read", &json!({"sandbox": "one", "path": "a/b"}));
        assert_eq!(read, "one\n2\n", "{engine}");
        let tree = ["ls-tree", "-r", "--name-only", "cofferdam/one"];
        assert_eq!(
            world.environment.git(&tree),
            "a/b\nlink\nmade\nrun.sh\nsrc/lib.txt"
        );
        // No directory of the checkout is in it: what is mounted is ours.
        let mounts = containers::own(
            engine,
            &["inspect", "--format", "{{json .Mounts}}", &world.agents()],
        );
        let mounts: Value = serde_json::from_str(&mounts.unwrap()).unwrap();
        let home = world.environment.home().join(".cofferdam");
        let home = home.canonicalize().unwrap();
        let mounts = mounts.as_array().unwrap();
        assert!(!mounts.is_empty());
        for mount in mounts.iter().filter(|mount| mount["Type"] == "bind") {
            // The machine's certificates, which everybody may read.
            let place = mount["Destination"].as_str().unwrap_or_default();
            if place.starts_with("/.cofferdam-") && place.ends_with("/ca.pem") {
                continue;
            }
            let source = mount["Source"].as_str().unwrap_or_default();
            assert!(std::path::Path::new(source).starts_with(&home), "{mount}");
        }
        drop(client);
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        world.expect_clean();
    }
}

/// A set-up that fails keeps its sandbox for a look, and says so to the agent; what else fails leaves nothing.
// covers: S4-E3, S4-E4, S4-E5, S4-E6, S4-D1
#[test]
fn what_cannot_be_made_leaves_nothing_but_what_is_worth_a_look() {
    let lives = Lives::new();
    lives.configure("setup: echo broken >&2; exit 7\n");
    let mut client = Client::start(&lives);
    let failed = client.error("sandbox-create", &json!({"name": "one"}));
    assert!(
        failed.starts_with("Error: Setup Command Failed: the setup of sandbox 'one' failed"),
        "{failed}"
    );
    assert!(failed.contains("broken"), "{failed}");
    assert_eq!(lives.state("one"), "failed-setup");
    // What the error tells to do next.
    let look = json!({"sandbox": "one", "command": "echo looked"});
    assert!(client.tool("sandbox-exec", &look).contains("looked"));
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
    lives.configure("");
    let before = lives.git(&["for-each-ref"]);
    for arguments in [
        json!({"name": "two", "base": "no-such"}),
        json!({"name": "x".repeat(64)}),
        json!({"name": ""}),
        json!({"name": "two", "image": "x"}),
    ] {
        let refused = client.error("sandbox-create", &arguments);
        assert!(refused.starts_with("Error: "), "{refused}");
    }
    drop(client);
    // There is nobody who could make it.
    lives.configure("sandbox: docker\nimage: busybox:latest\n");
    let mut command = lives.command(&["mcp"]);
    command.env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    let mut client = Client::with(command);
    let refused = client.error("sandbox-create", &json!({"name": "two"}));
    assert!(
        refused.starts_with("Error: Container Provisioning Failed: "),
        "{refused}"
    );
    assert!(refused.contains("/nowhere/docker.sock"), "{refused}");
    assert_eq!(lives.git(&["for-each-ref"]), before);
    drop(client);
    lives.configure("");
    let mut client = Client::start(&lives);
    // A branch where ours would be below, and a commit that is not whole.
    lives.git(&["branch", "cofferdam"]);
    let refused = client.error("sandbox-create", &json!({"name": "two"}));
    assert!(
        refused.starts_with("Error: Git Branch Creation Failed: "),
        "{refused}"
    );
    lives.git(&["branch", "-D", "cofferdam"]);
    lives.write("new.txt", "new\n");
    lives.git(&["add", "new.txt"]);
    lives.git(&["commit", "-qm", "new"]);
    let before = lives.git(&["for-each-ref"]);
    let blob = lives.git(&["rev-parse", "HEAD:new.txt"]);
    let (directory, file) = blob.split_at(2);
    let object = lives
        .repository()
        .join(".git/objects")
        .join(directory)
        .join(file);
    let aside = object.with_extension("aside");
    std::fs::rename(&object, &aside).unwrap();
    let refused = client.error("sandbox-create", &json!({"name": "two"}));
    assert!(
        refused.starts_with("Error: Source Code Copy Failed: "),
        "{refused}"
    );
    std::fs::rename(&aside, &object).unwrap();
    assert_eq!(lives.git(&["for-each-ref"]), before);
    assert!(lives.all().is_empty());
    drop(client);
    lives.configure("");
    lives.expect_clean();
}

/// Half a message, one that is none, one with nonsense for a tool, and a client that is gone: the next one finds everything as it was.
#[test]
fn a_client_that_goes_wrong_harms_nothing() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    for nonsense in [
        json!("text"),
        json!({"jsonrpc": "2.0"}),
        json!([1, 2]),
        json!({"jsonrpc": "2.0", "method": "no/such"}),
    ] {
        client.say(&nonsense);
    }
    for (tool, arguments) in [
        ("sandbox-exec", json!({"sandbox": "one"})),
        ("sandbox-exec", json!({"sandbox": "one", "command": 7})),
        (
            "sandbox-exec",
            json!({"sandbox": "one", "command": "true", "directory": "/no/such"}),
        ),
        (
            "sandbox-exec",
            json!({"sandbox": "one", "program": ["no-such"]}),
        ),
        ("sandbox-read", json!({"sandbox": "one", "path": "a\u{0}b"})),
        (
            "sandbox-read",
            json!({"sandbox": "one", "path": "/proc/self/mem"}),
        ),
        (
            "sandbox-write",
            json!({"sandbox": "one", "path": "/etc/passwd", "content": ""}),
        ),
        (
            "sandbox-write",
            json!({"sandbox": "one", "path": ".", "content": ""}),
        ),
        ("sandbox-glob", json!({"sandbox": "one", "pattern": "[a"})),
        ("sandbox-grep", json!({"sandbox": "one", "pattern": "(a"})),
        ("sandbox-output", json!({"sandbox": "one", "id": "9.9"})),
        ("sandbox-ls", json!({"sandbox": "one", "path": "README.md"})),
    ] {
        let refused = client.error(tool, &arguments);
        assert!(
            refused.starts_with("Error: "),
            "{tool} {arguments}: {refused}"
        );
        // And what to do next.
        assert!(refused.trim_end().lines().count() > 1, "{tool}: {refused}");
    }
    // What is no message, and half of one.
    for raw in ["no json\n", "{\"jsonrpc\": \"2.0\"\n", "\n", "\u{0}\n"] {
        client.raw(raw.as_bytes());
    }
    client.raw(b"\xff\xfe\n");
    // A slow call holds up nobody else, and one that nobody wants any more ends.
    let slow =
        json!({"sandbox": "one", "command": "echo $$ > /tmp/slow; sleep 1000", "timeout": 3600});
    client.begin("slow", "sandbox-exec", &slow);
    let began = Instant::now();
    while client.run("cat /tmp/slow") == "[exit code 1]\n" {
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    client.tool(
        "sandbox-read",
        &json!({"sandbox": "one", "path": "README.md"}),
    );
    assert!(began.elapsed() < Duration::from_secs(60));
    client.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}}));
    let alive = "kill -0 $(cat /tmp/slow) 2>/dev/null && echo alive; true";
    let until = Instant::now() + Duration::from_secs(20);
    while client.run(alive).starts_with("alive") {
        assert!(Instant::now() < until);
    }
    let began = client.tool(
        "sandbox-exec",
        &json!({"sandbox": "one", "command": "sleep 0.5; echo late > late", "background": true}),
    );
    assert!(began.contains("it runs in the background"), "{began}");
    client.kill();
    let mut other = Client::start(&lives);
    std::thread::sleep(std::time::Duration::from_millis(700));
    let next = other.tool(
        "sandbox-exec",
        &json!({"sandbox": "one", "command": "cat late"}),
    );
    assert!(next.starts_with("late\n[exit code 0]\n[commit"), "{next}");
    // A client that leaves while a call is under way: what it waited for ends, what it left goes on.
    let left =
        json!({"sandbox": "one", "command": "echo $$ > /tmp/left; sleep 1000", "background": true});
    other.tool("sandbox-exec", &left);
    let slow =
        json!({"sandbox": "one", "command": "echo $$ > /tmp/slow; touch /tmp/again; sleep 1000"});
    other.begin("slow", "sandbox-exec", &slow);
    let until = Instant::now() + Duration::from_secs(20);
    while lives.exec("one", "test -e /tmp/again").status.code() != Some(0) {
        assert!(Instant::now() < until);
    }
    drop(other);
    // One that ends in the middle of a message: nothing of that is done.
    let mut half = Client::start(&lives);
    half.raw(br#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"sandbox-write","arguments":{"sandbox":"one","path":"half","content":"x"}}"#);
    drop(half);
    assert_ne!(lives.exec("one", "test -e half").status.code(), Some(0));
    let left = lives.exec(
        "one",
        "kill -0 $(cat /tmp/left); echo $?; kill -0 $(cat /tmp/slow) 2>/dev/null; echo $?",
    );
    assert_eq!(left.stdout, "0\n1\n");
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// Clients give up on what takes long. Nothing of what was being made stays, and its name is free.
#[test]
fn one_that_nobody_waits_for_is_not_made() {
    let lives = Lives::new();
    let before = lives.references();
    for how in ["cancelled", "left", "killed"] {
        lives.configure("setup: sleep 1000\n");
        let mut client = Client::start(&lives);
        client.begin("slow", "sandbox-create", &json!({"name": "one"}));
        let until = Instant::now() + Duration::from_secs(60);
        let states = || {
            let states = lives.all().into_iter();
            states
                .map(|one| one["state"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        while states() != ["creating"] {
            assert!(Instant::now() < until, "{how}: {:?}", states());
        }
        match how {
            "cancelled" => {
                let slow = json!({"requestId": "slow"});
                client.say(
                    &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": slow}),
                );
                while !states().is_empty() {
                    assert!(Instant::now() < until, "{how}: {:?}", states());
                }
                drop(client);
            }
            "left" => drop(client),
            _ => {
                client.kill();
                lives.cofferdam(&["gc"]).expect_code(0);
            }
        }
        assert_eq!(states(), [""; 0], "{how}");
        assert_eq!(lives.references(), before, "{how}");
        lives.configure("");
        let mut client = Client::start(&lives);
        client.tool("sandbox-create", &json!({"name": "one"}));
        drop(client);
        lives
            .cofferdam(&["delete", "--purge", "one"])
            .expect_code(0);
        assert_eq!(lives.references(), before, "{how}");
    }
}

/// Two agents with one sandbox each, and one that two have: every change is there once.
#[test]
fn two_clients_work_at_once() {
    let lives = Lives::new();
    let mut clients = [Client::start(&lives), Client::start(&lives)];
    clients[0].tool("sandbox-create", &json!({"name": "both"}));
    std::thread::scope(|scope| {
        for (number, client) in clients.iter_mut().enumerate() {
            scope.spawn(move || {
                for round in 0..5 {
                    let path = format!("{number}-{round}");
                    let write = json!({"sandbox": "both", "path": path, "content": "x\n"});
                    client.tool("sandbox-write", &write);
                    // And a line of the same file.
                    let new = format!("{path}\nhello");
                    let edit =
                        json!({"sandbox": "both", "path": "README.md", "old": "hello", "new": new});
                    client.tool("sandbox-edit", &edit);
                }
            });
        }
    });
    let file = lives.git(&["show", "cofferdam/both:README.md"]);
    assert_eq!(file.lines().count(), 11, "{file}");
    let tree = lives.git(&["ls-tree", "--name-only", "cofferdam/both"]);
    for path in (0..2).flat_map(|number| (0..5).map(move |round| format!("{number}-{round}"))) {
        assert!(tree.lines().any(|line| line == path), "{path}: {tree}");
    }
    drop(clients);
    lives
        .cofferdam(&["delete", "--force", "both"])
        .expect_code(0);
}

/// All of a repository, and all of all: what is none of ours is not asked.
// covers: S4-UJ3, S4-UJ4, S4-FR2.2, S4-FR2.3, S4-AC2.2, S4-AC2.3
#[test]
fn all_are_paused_and_go_on() {
    let lives = Lives::with("one", &["--network", "none"]);
    lives.create("two", &["--network", "none"]);
    let none = lives.cofferdam(&["resume", "--all-envs"]).expect_code(0);
    assert_eq!(none.stderr, "no sandbox is paused\n");
    let paused = lives.cofferdam(&["pause", "--all-envs"]).expect_code(0);
    for name in ["one", "two"] {
        assert!(
            paused.stderr.contains(&format!("paused {name};")),
            "{paused}"
        );
        assert_eq!(lives.state(name), "paused");
    }
    lives.cofferdam(&["resume", "one"]).expect_code(0);
    // Those of another repository are no part of this one's.
    let other = lives.temporary().join("other");
    let other = other.to_str().unwrap();
    lives.git(&["clone", "-q", ".", other]);
    lives
        .cofferdam(&["-C", other, "create", "three", "--network", "none"])
        .expect_code(0);
    let state_of_three = || {
        let all = lives.all();
        let three = all.iter().find(|one| one["name"] == "three").unwrap();
        three["state"].as_str().unwrap().to_owned()
    };
    lives.cofferdam(&["pause", "--all-envs"]).expect_code(0);
    assert_eq!(
        (lives.state("one"), state_of_three()),
        ("paused".into(), "active".into())
    );
    lives.cofferdam(&["resume", "one"]).expect_code(0);
    // From anywhere.
    let elsewhere = lives.home().clone();
    let elsewhere = elsewhere.to_str().unwrap();
    let paused = lives
        .cofferdam(&["-C", elsewhere, "pause", "--all-repos"])
        .expect_code(0);
    assert!(paused.stderr.contains("paused one;"), "{paused}");
    assert!(!paused.stderr.contains("two"), "{paused}");
    assert_eq!(
        (lives.state("one"), state_of_three()),
        ("paused".into(), "paused".into())
    );
    lives
        .cofferdam(&["-C", elsewhere, "resume", "--all-repos"])
        .expect_code(0);
    for name in ["one", "two"] {
        assert_eq!(lives.state(name), "active");
    }
    assert_eq!(state_of_three(), "active");
    lives
        .cofferdam(&["-C", other, "delete", "--force", "three"])
        .expect_code(0);
    for both in [&["pause", "one", "--all-envs"][..], &["pause"]] {
        lives.cofferdam(both).expect_code(2);
    }
}

/// Those of servers inside, and how one gets there.
#[test]
fn ports_are_told() {
    let lives = Lives::with("box", &["--network", "none"]);
    let none = lives.cofferdam(&["ports", "box"]).expect_code(0);
    assert_eq!(none.stderr, "nothing in box listens on a TCP port\n");
    let server = "use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1:8123\") or die; print \"up\\n\"; sleep 100";
    let id = lives.cofferdam(&["exec", "--detach", "box", "--", "perl", "-e", server]);
    let id = id.expect_code(0).stdout.trim().to_owned();
    let began = std::time::Instant::now();
    while !lives.cofferdam(&["logs", "box", &id]).stdout.contains("up")
        && began.elapsed().as_secs() < 20
    {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let told = lives.cofferdam(&["ports", "box"]).expect_code(0).stdout;
    assert!(told.contains("8123"), "{told}");
    assert!(told.contains("cofferdam forward box 8123"), "{told}");
    let told = lives.cofferdam(&["ports", "--json", "box"]).expect_code(0);
    assert_eq!(told.stdout, "[{\"inside\":8123,\"host\":null}]\n");
    let mut client = Client::start(&lives);
    let told = client.tool("sandbox-ports", &json!({"sandbox": "box"}));
    assert!(told.starts_with("8123: "), "{told}");
}

/// Each answer has an end, and says how to ask for the rest.
#[test]
fn every_answer_has_a_bound() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    let at = |more: Value| {
        let mut arguments = json!({"sandbox": "one"});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        arguments
    };
    let numbers: String = (1..=20_000).map(|number| format!("{number}\n")).collect();
    let ran = client.tool("sandbox-exec", &at(json!({"command": "seq 20000"})));
    assert!(ran.len() < 32_000, "{}", ran.len());
    assert!(ran.starts_with("1\n2\n") && ran.contains("19999\n20000\n[exit code 0]"));
    let id = ran.split("with the id ").nth(1).unwrap();
    let id = id.split(' ').next().unwrap();
    let (mut whole, mut offset) = (String::new(), 0);
    while offset < numbers.len() {
        let part = client.ask(
            "tools/call",
            &json!({"name": "sandbox-output", "arguments": at(json!({"id": id, "offset": offset}))}),
        );
        let part = &part["structuredContent"];
        whole.push_str(part["output"].as_str().unwrap());
        offset = usize::try_from(part["next"].as_u64().unwrap()).unwrap();
    }
    assert_eq!(whole, numbers);
    client.tool(
        "sandbox-exec",
        &at(json!({"command": "seq 20000 > numbers; mkdir many; cd many; seq 1200 | xargs touch"})),
    );
    let read = client.tool("sandbox-read", &at(json!({"path": "numbers"})));
    assert!(read.ends_with(
        "1999\n2000\n[lines 1 to 2000 of 20000: ask for others with `first_line` and `lines`]\n"
    ));
    let more = at(json!({"path": "numbers", "first_line": 19_999}));
    assert!(
        client
            .tool("sandbox-read", &more)
            .starts_with("19999\n20000\n")
    );
    let listed = client.tool("sandbox-ls", &at(json!({"path": "many"})));
    assert!(listed.contains("ask with the offset 1000"), "{listed}");
    let found = client.tool("sandbox-glob", &at(json!({"pattern": "many/*"})));
    assert!(found.contains("ask with the offset 1000"), "{found}");
    let lines = client.tool("sandbox-grep", &at(json!({"pattern": "1"})));
    assert!(
        lines.contains("ask with the offset 500") && lines.len() < 60_000,
        "{lines}"
    );
    let diff = client.tool("sandbox-diff", &at(json!({})));
    assert!(
        diff.len() < 60_000 && diff.contains("bytes more: ask with the offset"),
        "{diff}"
    );
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// What a person made for their own checkout is not an agent's to change.
#[test]
fn one_that_works_in_a_checkout_is_only_looked_at() {
    let lives = Lives::with("theirs", &["--head", "--network", "none"]);
    let mut client = Client::start(&lives);
    for (tool, more) in [
        ("sandbox-exec", json!({"command": "true"})),
        ("sandbox-write", json!({"path": "x", "content": "x"})),
        (
            "sandbox-edit",
            json!({"path": "README.md", "old": "hello", "new": "x"}),
        ),
    ] {
        let mut arguments = json!({"sandbox": "theirs"});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        let refused = client.error(tool, &arguments);
        assert!(
            refused.contains("works in a checkout of its user's"),
            "{refused}"
        );
    }
    let read = json!({"sandbox": "theirs", "path": "README.md"});
    assert_eq!(client.tool("sandbox-read", &read), "hello\n");
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "theirs"])
        .expect_code(0);
}

/// A program that an agent waits for is somebody's, as one of `exec` is; one in the background is nobody's.
// covers: S4-E14
#[test]
fn what_an_agent_waits_for_is_not_deleted() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    let exec = json!({"sandbox": "one", "command": "touch /tmp/begun; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo done"});
    client.begin("x", "sandbox-exec", &exec);
    let begun = || lives.exec("one", "test -e /tmp/begun").status.code() == Some(0);
    let until = Instant::now() + Duration::from_secs(20);
    while !begun() {
        assert!(Instant::now() < until);
    }
    let refused = lives.cofferdam(&["delete", "one"]).expect_code(1);
    assert!(refused.stderr.contains("/tmp/begun"), "{refused}");
    assert!(refused.stderr.contains("--force"), "{refused}");
    // It comes to no end while it is paused.
    lives.cofferdam(&["pause", "one"]).expect_code(0);
    let refused = lives.cofferdam(&["delete", "one"]).expect_code(1);
    assert!(
        refused.stderr.contains(
            " runs there, and it is paused\nhint: let it go on with `cofferdam resume one`"
        ),
        "{refused}"
    );
    lives.cofferdam(&["resume", "one"]).expect_code(0);
    lives.exec("one", "touch /tmp/go").expect_code(0);
    let told = client.hear();
    assert!(told["result"].to_string().contains("done"), "{told}");
    let exec = json!({"sandbox": "one", "command": "sleep 1000", "background": true});
    client.tool("sandbox-exec", &exec);
    drop(client);
    lives.cofferdam(&["delete", "one"]).expect_code(0);
}

/// Where somebody ends it all the same, the agent is told so, and what to do next.
#[test]
fn what_was_deleted_or_stopped_under_a_program_is_named() {
    for end in [&["delete", "--force", "one"][..], &["stop", "one"]] {
        let lives = Lives::new();
        let mut client = Client::start(&lives);
        client.tool("sandbox-create", &json!({"name": "one"}));
        let exec = json!({"sandbox": "one", "command": "touch /tmp/begun; sleep 1000"});
        client.begin("x", "sandbox-exec", &exec);
        let until = Instant::now() + Duration::from_secs(20);
        while lives.exec("one", "test -e /tmp/begun").status.code() != Some(0) {
            assert!(Instant::now() < until);
        }
        lives.cofferdam(end).expect_code(0);
        let told = client.hear();
        let text = told["result"]["content"][0]["text"].as_str().unwrap();
        let named = "Error: sandbox `one` was deleted or stopped while its program ran\n\
                     `sandbox-list` tells which there are.";
        // The signal that ended the program may be there first.
        let is_ended = text.starts_with("[ended by signal ") && text.contains("sandbox `one`");
        assert!(text == named || is_ended, "{end:?}: {told}");
        drop(client);
        if end[0] == "stop" {
            lives.cofferdam(&["delete", "one"]).expect_code(0);
        }
    }
}
