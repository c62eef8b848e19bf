//! What the document accepts of making a sandbox and of its walls, by tools: natively and in containers of each engine, with files laid
//! over others and with files of its own.

use std::time::Instant;

use cofferdam_lab::skip;
use serde_json::{Value, json};

use crate::containers::{self, World};
use crate::lives::Lives;
use crate::mcp_client::Client;
use crate::mcp_containers::{LIMIT, NATIVE, everywhere};

/// Files in which a container reads who and where it is, and nothing else. Docker's and ours.
const TOLD: [&str; 5] = [
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/etc/passwd",
    "/etc/group",
];

/// Does it for both modes that sandboxes of tools have.
fn in_each_mode(check: impl Fn(&World, &mut Client, &str)) {
    everywhere(|world| {
        let environment = &world.environment;
        let run = environment.repository().join("run.sh");
        cofferdam::fsx::write_with_mode(&run, b"echo ran\n", 0o755).unwrap();
        let link = environment.repository().join("link");
        std::os::unix::fs::symlink("src/lib.txt", link).unwrap();
        environment.git(&["add", "-A"]);
        environment.git(&["commit", "-qm", "files"]);
        for mode in ["layer", "copy"] {
            if mode == "copy" {
                // Its files are never laid over others; all of them are in it.
                environment.git(&["sparse-checkout", "set", "--no-cone", "/*"]);
            }
            let mut client = Client::with(world.command(&["mcp"]));
            check(world, &mut client, mode);
            drop(client);
            let delete = ["delete", "--force", "--purge", "my-new-feature"];
            world.cofferdam(&delete).expect_code(0);
        }
    });
}

/// What the tool that makes one gives back beside its words.
#[track_caller]
fn make(client: &mut Client, name: &str) -> Value {
    let call = json!({"name": "sandbox-create", "arguments": {"name": name}});
    let made = client.ask("tools/call", &call);
    assert_ne!(made["isError"], true, "{made}");
    made
}

/// What this prints in it, and how it ended.
#[track_caller]
fn run(client: &mut Client, command: &str) -> String {
    let exec = json!({"sandbox": "my-new-feature", "command": command});
    client.tool("sandbox-exec", &exec)
}

// covers: S4-AC1.1, S4-AC1.2, S4-AC1.3, S4-AC1.4, S4-AC1.5, S4-AC1.6, S4-AC1.7, S4-FR1.9, S4-FR1.10, S4-FR1.11
#[test]
fn one_is_made_as_the_document_accepts_it() {
    in_each_mode(|world, client, mode| {
        let environment = &world.environment;
        let at = format!("{}, {mode}", world.engine);
        // What is in no commit is not in it.
        environment.write("src/lib.txt", "unsaved\n");
        environment.write("unsaved", "x\n");
        let head = environment.git(&["rev-parse", "HEAD"]);
        let made = make(client, "My New Feature!@#");
        assert_eq!(made["structuredContent"]["name"], "my-new-feature", "{at}");
        let said = made["content"][0]["text"].as_str().unwrap();
        assert!(said.contains("hello world\n"), "{at}: {said}");
        // 1.1: by the command as by the tool.
        let list = world.cofferdam(&["list", "--json"]).expect_code(0).stdout;
        let list: Value = serde_json::from_str(&list).unwrap();
        assert_eq!(list.as_array().unwrap().len(), 1, "{at}");
        for (field, value) in [
            ("name", "my-new-feature"),
            ("state", "active"),
            ("branch", "cofferdam/my-new-feature"),
            ("mode", mode),
            ("provider", world.engine),
        ] {
            assert_eq!(list[0][field], value, "{at}: {list}");
        }
        // 1.2: the branch begins at HEAD, which has not moved.
        let branch = environment.git(&["rev-parse", "cofferdam/my-new-feature"]);
        assert_eq!(branch, head, "{at}");
        assert_eq!(environment.git(&["rev-parse", "HEAD"]), head, "{at}");
        // 1.3: files, modes and links of the commit, and nothing else.
        let files = run(
            client,
            "find . -name .git -prune -o ! -type d -print | sort; readlink link; cat src/lib.txt README.md; test -x run.sh && ! test -x README.md",
        );
        let exact = "./README.md\n./link\n./run.sh\n./src/lib.txt\nsrc/lib.txt\none\ntwo\nhello\n[exit code 0]\n";
        assert_eq!(files, exact, "{at}");
        // 1.5: under any name that is the same one, by either way, and nothing is made.
        let before = environment.references();
        for name in [
            "my-new-feature",
            "My New Feature!@#",
            "--my--new--feature--",
        ] {
            let refused = client.error("sandbox-create", &json!({"name": name}));
            let words =
                "Error: Sandbox 'my-new-feature' already exists. Please choose a different name.";
            assert_eq!(refused.lines().next(), Some(words), "{at}");
        }
        let by_hand = world
            .cofferdam(&["create", "My New Feature"])
            .expect_code(1);
        assert!(by_hand.stderr.contains("my-new-feature"), "{at}: {by_hand}");
        assert_eq!(environment.references(), before, "{at}");
        // 1.7: where there is a container it is called after both.
        if world.engine != NATIVE {
            let named = ["inspect", "--format", "{{.Name}}", &world.agents()];
            let named = containers::own(world.engine, &named).unwrap();
            let named = named.trim().trim_start_matches('/');
            // Where another path has that name, with its repository's eight digits, and where those are taken, with its id's.
            let rest = named.strip_prefix("cofferdam-repository-my-new-feature");
            let rest = rest.unwrap_or_else(|| panic!("{at}: {named}"));
            let of_id = format!("-{}", &list[0]["id"].as_str().unwrap()[..8]);
            let rest = rest.strip_suffix(&of_id).unwrap_or(rest);
            let is_hash8 =
                |hash: &str| hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
            let is_known = rest.is_empty() || rest.strip_prefix('-').is_some_and(is_hash8);
            assert!(is_known, "{at}: {named}");
        }
        environment.git(&["checkout", "-q", "src/lib.txt"]);
        std::fs::remove_file(environment.repository().join("unsaved")).unwrap();
    });
}

/// What the machine has is there for whoever runs this, and not inside.
// covers: S4-AC4.1, S4-AC4.2, S4-FR4.1, S4-FR4.2, S4-FR1.6
#[test]
fn nothing_of_the_machine_is_read_or_written() {
    in_each_mode(|world, client, mode| {
        let environment = &world.environment;
        let at = format!("{}, {mode}", world.engine);
        make(client, "my-new-feature");
        let outside = environment.temporary().join("of-the-host");
        cofferdam::fsx::write_private(&outside, b"the machine's own\n").unwrap();
        let checkout = environment.repository().join("README.md");
        let passwd = std::fs::read("/etc/passwd").unwrap();
        let (outside, checkout) = (outside.display(), checkout.display());
        for script in [
            "ls /host/root".to_owned(),
            "ls /root/".to_owned(),
            format!("cat {outside}"),
            format!("cat {checkout}"),
            format!("cat /host{outside}"),
            format!("cat /proc/1/root{outside}"),
            format!("echo x > {outside}"),
            format!("echo x >> {checkout}"),
            "echo x >> /etc/passwd".to_owned(),
            "rm /etc/passwd".to_owned(),
            "mv /etc/passwd /etc/other".to_owned(),
            "touch /usr/bin/new".to_owned(),
            "mount -t tmpfs none /mnt".to_owned(),
        ] {
            let told = run(client, &format!("{script} && echo done"));
            assert!(!told.contains("done\n"), "{at}: {script}: {told}");
            assert!(
                !told.contains("the machine's own"),
                "{at}: {script}: {told}"
            );
        }
        // The control: its own place it writes, and what is read is read.
        let own = run(
            client,
            "id -u; cd /tmp && echo x > own && cat own && head -c 4 /etc/passwd && echo done",
        );
        assert!(own.ends_with("x\nrootdone\n[exit code 0]\n"), "{at}: {own}");
        assert!(!own.starts_with("0\n"), "{at}: {own}");
        assert_eq!(std::fs::read("/etc/passwd").unwrap(), passwd, "{at}");
        let text = std::fs::read_to_string(outside.to_string()).unwrap();
        assert_eq!(text, "the machine's own\n", "{at}");
        assert_eq!(environment.git(&["status", "--porcelain"]), "", "{at}");
        if world.engine == NATIVE {
            let mounts = run(client, "cat /proc/self/mountinfo");
            let place = environment.repository();
            let place = place.to_str().unwrap();
            assert!(!mounts.contains(&format!(" {place} ")), "{at}: {mounts}");
            return;
        }
        // What is mounted is named: the guest and its channel, and what only tells.
        let asked = ["inspect", "--format", "{{json .Mounts}}", &world.agents()];
        let mounts = containers::own(world.engine, &asked).unwrap();
        let mounts: Value = serde_json::from_str(&mounts).unwrap();
        let binds: Vec<&Value> = (mounts.as_array().unwrap().iter())
            .filter(|mount| mount["Type"] == "bind")
            .collect();
        assert!(!binds.is_empty(), "{at}");
        for mount in binds {
            let (to, from) = (
                mount["Destination"].as_str().unwrap(),
                mount["Source"].as_str().unwrap(),
            );
            let ours = to == "/.cofferdam"
                || to.starts_with("/.cofferdam/")
                || to.starts_with("/.cofferdam-");
            let told = TOLD.contains(&to);
            let files = to == "/home/agent" || to == "/workspace" || to.starts_with("/workspace/");
            assert!(ours || told || files, "{at}: {mount}");
            // Of the machine's own files none only tells: those are ours, or the engine's.
            let machines = ["/etc", "/home", "/root", "/usr"].iter();
            let mut machines = machines.filter(|top| std::path::Path::new(from).starts_with(top));
            assert!(!told || machines.next().is_none(), "{at}: {mount}");
            let of_checkout = std::path::Path::new(from).starts_with(environment.repository());
            assert!(!of_checkout, "{at}: {mount}");
            // Its files are its own, below our own directory, and so are the guest and its channel. The machine's certificates
            // everybody may read.
            let home = environment.home().join(".cofferdam");
            let home = home.canonicalize().unwrap();
            let of_everybody = to.starts_with("/.cofferdam-") && to.ends_with("/ca.pem");
            assert!(
                !(ours || files) || of_everybody || std::path::Path::new(from).starts_with(home),
                "{at}: {mount}"
            );
        }
    });
}

/// Bytes come home as they are, and no tool needs a program of the image.
#[test]
fn every_tool_works_in_every_place() {
    in_each_mode(|world, client, mode| {
        let at = format!("{}, {mode}", world.engine);
        let listens = "httpd -f -p 127.0.0.1:8126 || perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(Listen => 1, LocalPort => 8126); sleep 1000'";
        make(client, "my-new-feature");
        let patch = "--- /dev/null\n+++ b/made\n@@ -0,0 +1 @@\n+made\n";
        for (tool, more, told) in [
            (
                "write",
                json!({"path": "a/b", "content": "one\ntwo\n"}),
                "sandbox-write: a/b]",
            ),
            (
                "edit",
                json!({"path": "a/b", "old": "two", "new": "2"}),
                "sandbox-edit: a/b]",
            ),
            ("edit", json!({"patch": patch}), "sandbox-edit: made]"),
            (
                "exec",
                json!({"command": "printf 'a\\000\\377\\n' > bin; head -c 100000 /dev/zero >> bin"}),
                "sandbox-exec: bin]",
            ),
            ("read", json!({"path": "a/b"}), "one\n2\n"),
            ("ls", json!({}), "run.sh (9 bytes)\n"),
            ("glob", json!({"pattern": "**/b"}), "a/b\n"),
            ("grep", json!({"pattern": "^2"}), "a/b:2:2\n"),
            ("diff", json!({}), "+++ b/made\n"),
            (
                "exec",
                json!({"command": listens, "background": true}),
                "runs in the background as ",
            ),
        ] {
            let mut arguments = json!({"sandbox": "my-new-feature"});
            for (name, value) in more.as_object().unwrap() {
                arguments[name] = value.clone();
            }
            let said = client.tool(&format!("sandbox-{tool}"), &arguments);
            assert!(said.contains(told), "{at}: {tool}: {said}");
            if let Some(id) = said.split("background as ").nth(1) {
                let id = id.split(':').next().unwrap();
                let until = Instant::now() + LIMIT;
                let ports = json!({"sandbox": "my-new-feature"});
                while !client.tool("sandbox-ports", &ports).contains("8126: ") {
                    assert!(Instant::now() < until, "{at}: nobody listens");
                }
                let kill = json!({"sandbox": "my-new-feature", "id": id, "force": true});
                client.tool("sandbox-kill", &kill);
            }
        }
        let blob = ["cat-file", "-s", "cofferdam/my-new-feature:bin"];
        assert_eq!(world.environment.git(&blob), "100004", "{at}");
        let inside = run(client, "sha256sum <bin");
        let shown = world
            .environment
            .shell("git cat-file blob cofferdam/my-new-feature:bin | sha256sum");
        let shown = shown.expect_code(0).stdout;
        assert_eq!(inside, format!("{shown}[exit code 0]\n"), "{at}");
    });
}

/// A name of 63 characters is one; a longer one is refused with the document's words, and not cut.
// covers: S4-E2, S4-FR1.10
#[test]
fn names_are_as_long_as_the_document_says() {
    const REFUSED: &str = "Error: Invalid sandbox name. Slugified names must be 1-63 characters and contain only [a-z0-9-].";
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    let before = lives.references();
    let long = "x".repeat(64);
    for name in [
        long.as_str(),
        "",
        "!@#",
        "---",
        "\u{e4}\u{f6}",
        &"\u{e4}".repeat(70),
    ] {
        let refused = client.error("sandbox-create", &json!({"name": name}));
        assert_eq!(refused.lines().next(), Some(REFUSED), "{name:?}");
    }
    assert!(lives.all().is_empty());
    assert_eq!(lives.references(), before);
    let longest = &long[1..];
    // What is cut away at its ends does not count.
    let made = make(&mut client, &format!("--{longest}!!"));
    assert_eq!(made["structuredContent"]["name"], longest);
    assert_eq!(lives.state(longest), "active");
    drop(client);
    lives
        .cofferdam(&["delete", "--force", longest])
        .expect_code(0);
}

/// Of two who make one of a name at the same moment one has it, and the other is told so; of one of each name both have theirs.
// covers: S4-FR1.8
#[test]
fn two_who_make_one_at_once() {
    let lives = Lives::new();
    let mut clients = [Client::start(&lives), Client::start(&lives)];
    let at_once = |clients: &mut [Client; 2], names: [&str; 2]| {
        std::thread::scope(|scope| {
            let made = (clients.iter_mut().zip(names)).map(|(client, name)| {
                let name = name.to_owned();
                scope.spawn(move || client.call("sandbox-create", &json!({"name": name})))
            });
            let made: Vec<_> = made.collect();
            made.into_iter()
                .map(|one| one.join().unwrap())
                .collect::<Vec<_>>()
        })
    };
    let told = at_once(&mut clients, ["one", "One"]);
    let refused: Vec<_> = told.iter().filter(|(_, error)| *error).collect();
    assert_eq!(refused.len(), 1, "{told:?}");
    let words = "Error: Sandbox 'one' already exists. Please choose a different name.";
    assert_eq!(refused[0].0.lines().next(), Some(words));
    let told = at_once(&mut clients, ["two", "three"]);
    assert!(told.iter().all(|(_, error)| !error), "{told:?}");
    for name in ["one", "two", "three"] {
        assert_eq!(lives.state(name), "active", "{name}");
    }
    drop(clients);
    lives
        .cofferdam(&["delete", "--force", "one", "two", "three"])
        .expect_code(0);
    lives.expect_clean();
}

/// A repository without a commit has nothing that a sandbox could begin with; it may have one later.
#[test]
fn an_empty_repository_is_refused() {
    let lives = Lives::new();
    let empty = lives.temporary().join("empty");
    let empty = empty.to_str().unwrap();
    lives.git(&["init", "-q", empty]);
    let mut client = Client::with(lives.command(&["-C", empty, "mcp"]));
    let refused = client.error("sandbox-create", &json!({"name": "one"}));
    assert!(refused.starts_with("Error: "), "{refused}");
    assert!(refused.contains("has no commit yet"), "{refused}");
    assert!(refused.contains("git commit --allow-empty"), "{refused}");
    let first = "git -c user.name=x -c user.email=x@example.com commit -q --allow-empty -m start";
    lives
        .shell(&format!("cd {empty} && {first}"))
        .expect_code(0);
    client.tool("sandbox-create", &json!({"name": "one"}));
    drop(client);
    lives
        .cofferdam(&["-C", empty, "delete", "--force", "one"])
        .expect_code(0);
}

/// What this process and those that it has waited for have read, in bytes; proc_pid_io(5).
fn has_read(process: u32) -> Option<u64> {
    let told = std::fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    told.lines()
        .find_map(|line| line.strip_prefix("rchar: ")?.parse().ok())
}

/// Only what an agent changed travels, whatever else is in the repository, in each mode that sandboxes of tools have.
#[test]
fn only_what_changed_is_looked_at() {
    const ALL: u64 = 300 * 40_000;
    for mode in ["layer", "copy"] {
        let lives = Lives::new();
        for number in 0..300 {
            lives.write(&format!("many/{number}"), &"x".repeat(40_000));
        }
        lives.git(&["add", "-A"]);
        lives.git(&["commit", "-qm", "many"]);
        if mode == "copy" {
            // Its files are never laid over others; all of them are in it.
            lives.git(&["sparse-checkout", "set", "--no-cone", "/*"]);
        }
        let mut client = Client::start(&lives);
        client.tool("sandbox-create", &json!({"name": "one"}));
        assert_eq!(lives.status("one", "mode"), mode);
        // Git reads again what is of the second in which its index was written.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let write = json!({"sandbox": "one", "path": "many/6", "content": "new\n"});
        client.tool("sandbox-write", &write);
        let objects = || {
            let all = ["cat-file", "--batch-all-objects", "--batch-check"];
            let all = lives.git(&all);
            all.lines()
                .map(str::to_owned)
                .collect::<std::collections::BTreeSet<_>>()
        };
        let (before, server) = (objects(), client.server());
        let read_by = |client: &mut Client, tool: &str, arguments: Value| {
            let before = has_read(server);
            client.tool(tool, &arguments);
            Some(has_read(server)? - before?)
        };
        let write = json!({"sandbox": "one", "path": "many/7", "content": "newer\n"});
        let by_write = read_by(&mut client, "sandbox-write", write);
        // A file, the two directories above it, and the commit.
        let new = objects();
        let new: Vec<_> = new.difference(&before).collect();
        assert_eq!(new.len(), 4, "{mode}: {new:?}");
        // The control: who looks for words in all of them has it all.
        let grep = json!({"sandbox": "one", "pattern": "nowhere"});
        let by_grep = read_by(&mut client, "sandbox-grep", grep);
        if let (Some(write), Some(grep)) = (by_write, by_grep) {
            assert!(write < ALL / 3 && ALL / 2 < grep, "{mode}: {write}, {grep}");
        } else {
            skip!("the kernel does not say what a process has read");
        }
        drop(client);
        lives
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
    }
}
