//! How tools change files: where links lead, what a patch may, what git itself is in the middle of.

use serde_json::json;

use crate::lives::Lives;
use crate::mcp_client::Client;

/// What git itself is in the middle of is not committed over, whatever it is, and what is in the way is named.
#[test]
fn a_merge_that_is_under_way_is_left_alone() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    let commit = |text: &str| format!("echo {text} > README.md && git commit -qam {text}");
    let (side, first, ours) = (commit("side"), commit("first"), commit("ours"));
    let begun = client.run(&format!(
        "git switch -qc side && {side} && git switch -q cofferdam/one && {first} && git branch first && {ours}"
    ));
    assert!(begun.contains("[exit code 0]"), "{begun}");
    for (number, (conflict, abort)) in [
        ("git merge side", "git merge --abort"),
        ("git cherry-pick side", "git cherry-pick --abort"),
        ("git revert --no-edit first", "git revert --abort"),
        ("git rebase --merge side", "git rebase --abort"),
        ("git rebase --apply side", "git rebase --abort"),
    ]
    .into_iter()
    .enumerate()
    {
        let before = lives.git(&["rev-parse", "cofferdam/one"]);
        let said = client.run(conflict);
        let why = "a merge or a rebase is under way inside";
        assert!(said.contains(why), "{conflict}: {said}");
        let path = format!("new{number}");
        let write = json!({"sandbox": "one", "path": path, "content": "x\n"});
        let said = client.tool("sandbox-write", &write);
        assert!(said.contains(why), "{conflict}: {said}");
        let status = client.run("git status --porcelain");
        let wanted = format!("UU README.md\n?? {path}\n");
        assert!(status.starts_with(&wanted), "{conflict}: {status}");
        let after = lives.git(&["rev-parse", "cofferdam/one"]);
        assert_eq!(after, before, "{conflict}");
        // What was changed meanwhile comes with the call that ends it.
        let over = client.run(abort);
        let told = format!("sandbox-exec: {path}]");
        assert!(over.contains(&told), "{conflict}: {over}");
        assert_eq!(lives.git(&["show", "cofferdam/one:README.md"]), "ours");
    }
    let over = client.run("touch $(git rev-parse --git-dir)/index.lock; echo x > x");
    assert!(
        over.contains("index.lock; where none runs any more"),
        "{over}"
    );
    let over = client.run("rm $(git rev-parse --git-dir)/index.lock");
    assert!(over.contains("sandbox-exec: x]"), "{over}");
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// A link on the way is followed as it is inside, and what is behind it is what changes.
#[test]
fn links_lead_where_they_lead_inside() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    let links = "mkdir -p other/deep && echo right > other/x && echo wrong > x && ln -s ../x other/deep/l && ln -s other/deep dir && ln -s nowhere gone";
    client.tool("sandbox-exec", &json!({"sandbox": "one", "command": links}));
    let read = json!({"sandbox": "one", "path": "dir/l"});
    assert_eq!(client.tool("sandbox-read", &read), "right\n");
    let edit = json!({"sandbox": "one", "path": "dir/l", "old": "right", "new": "changed"});
    client.tool("sandbox-edit", &edit);
    let seen = client.tool(
        "sandbox-exec",
        &json!({"sandbox": "one", "command": "cat other/x x; readlink dir other/deep/l"}),
    );
    assert_eq!(seen, "changed\nwrong\nother/deep\n../x\n[exit code 0]\n");
    let gone = client.error(
        "sandbox-write",
        &json!({"sandbox": "one", "path": "gone", "content": "x"}),
    );
    assert!(gone.contains("it is a link that leads nowhere"), "{gone}");
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// Whatever a patch says, it changes files of the repository inside, all that it says of them, or nothing.
#[test]
fn a_patch_leads_nowhere_else() {
    const MAIL: &str = "From 1234567890123456789012345678901234567890 Mon Sep 17 00:00:00 2001\nFrom: x <x@example.com>\n\
        Subject: [PATCH] x\n\nFrom: y <y@example.com>\n---\n x | 1 +\n\n";
    const WITHIN: &str = "--- a/README.md\n+++ b/README.md\n@@ -1 +1,2 @@\n hello\n+more\n";
    let apply = |patch: &str| json!({"sandbox": "one", "patch": patch});
    let made = |path: &str, mode: &str, text: &str| {
        format!(
            "diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{text}\n"
        )
    };
    let link =
        |path: &str, target: &str| made(path, "120000", target) + "\\ No newline at end of file\n";
    let patches = [
        made("../out", "100644", "x"),
        made("/tmp/out", "100644", "x"),
        made("src/../../out", "100644", "x"),
        made(".git/hooks/post-checkout", "100755", "x"),
        made("sub/.GIT/config", "100644", "x"),
        "diff --git a/README.md b/../out\nsimilarity index 100%\nrename from README.md\nrename to ../out\n".to_owned(),
        "diff --git a/../../etc/passwd b/leak\nsimilarity index 100%\ncopy from ../../etc/passwd\ncopy to leak\n".to_owned(),
        "diff --git a/.git/config b/leak\nsimilarity index 100%\ncopy from .git/config\ncopy to leak\n".to_owned(),
        // A link of its own, a file behind it, and one behind a link that is there.
        link("l", "/tmp"),
        link("l", "/tmp") + &made("l/out", "100644", "x"),
        made("there/out", "100644", "x"),
        // The same behind one that fits.
        format!("{WITHIN}{}", made("there/deep/out", "100644", "x")),
        // A mail, whose first patch is harmless.
        format!("{MAIL}{WITHIN}{MAIL}{}", made("../out", "100644", "x")),
        // A part that fits, and one that does not.
        format!("{WITHIN}--- a/src/lib.txt\n+++ b/src/lib.txt\n@@ -1 +1 @@\n-nothing like this\n+x\n"),
    ];
    for mode in ["layer", "copy"] {
        let lives = Lives::with("one", &["--mode", mode, "--network", "none"]);
        let mut client = Client::start(&lives);
        client.run("ln -s /tmp there && git add there && git commit -qm there; git config core.hooksPath >/dev/null; true",
    );
        let look = "git status --porcelain; git log -1 --format=%s; ls /tmp/out ../out ../../out .git/hooks/post-checkout 2>/dev/null; \
        find . -name '*.rej' -o -name '*.orig' -o -name leak; cat README.md";
        let before = client.run(look);
        for patch in &patches {
            let refused = client.error("sandbox-edit", &apply(patch));
            assert!(
                refused.contains("Nothing was changed"),
                "{patch}: {refused}"
            );
            assert_eq!(client.run(look), before, "{patch}");
        }
        assert_eq!(lives.git(&["status", "--porcelain"]), "");
        // The control: the same mail with the harmless one alone.
        let done = client.tool("sandbox-edit", &apply(&format!("{MAIL}{WITHIN}")));
        assert!(done.starts_with("Changed README.md.\n"), "{done}");
        let after = client.run("cat README.md");
        assert!(after.starts_with("hello\nmore\n"), "{after}");
        drop(client);
        lives
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
    }
    // One whose files are a worktree of the user's is only looked at, so that no patch goes there.
    let lives = Lives::with("one", &["--mode", "bind", "--network", "none"]);
    let mut client = Client::start(&lives);
    for patch in patches.iter().map(String::as_str).chain([WITHIN]) {
        let refused = client.error("sandbox-edit", &apply(patch));
        assert!(refused.contains("no tool changes that"), "{refused}");
    }
    let status = lives
        .shell("git -C .cofferdam/worktrees/* status --porcelain")
        .expect_code(0);
    assert_eq!(status.stdout, "");
}

/// A file of many answers goes in by one call, comes back by ranges as it was, and is in the commit. So do a replacement and a patch:
/// the defect "content passed on a command line" is one that files of more than 128 kB show, the longest word that the kernel takes.
#[test]
fn a_large_file_goes_in_and_comes_back() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    // Each line once, with what JSON writes in another way, and no end of the last one.
    let line = |number: usize| format!("{number} \"quoted\" \\ \u{e9}\u{1f980}\ttab {number}");
    let lines: Vec<String> = (0..10_000).map(line).collect();
    let content = lines.join("\n");
    assert!(content.len() > 300_000, "{}", content.len());
    let write = json!({"sandbox": "one", "path": "large", "content": content});
    let wrote = client.tool("sandbox-write", &write);
    assert!(
        wrote.starts_with(&format!("Made large, {} bytes.\n[commit ", content.len())),
        "{wrote}"
    );
    assert_eq!(lives.git(&["show", "cofferdam/one:large"]), content);
    let (mut whole, mut first) = (String::new(), 1);
    while first <= lines.len() {
        let read = json!({"sandbox": "one", "path": "large", "first_line": first, "lines": 1700});
        let read = client.ask(
            "tools/call",
            &json!({"name": "sandbox-read", "arguments": read}),
        );
        let told = &read["structuredContent"];
        assert_eq!(
            (&told["first_line"], &told["total_lines"], &told["cut"]),
            (&json!(first), &json!(10_000), &json!(false))
        );
        whole.push_str(told["content"].as_str().unwrap());
        let count = usize::try_from(told["lines"].as_u64().unwrap()).unwrap();
        assert!(count > 0, "none from line {first} on");
        first += count;
    }
    assert!(whole == content, "{} bytes came back", whole.len());
    let last = "9999 \"quoted\"";
    let edit = json!({"sandbox": "one", "path": "large", "old": last, "new": content});
    let edited = client.tool("sandbox-edit", &edit);
    assert!(edited.starts_with("Replaced once in large.\n"), "{edited}");
    let wanted = content.replace(last, &content);
    assert!(lives.git(&["show", "cofferdam/one:large"]) == wanted);
    let patch = format!(
        "--- /dev/null\n+++ b/patched\n@@ -0,0 +1,{} @@\n+{}\n\\ No newline at end of file\n",
        lines.len(),
        lines.join("\n+")
    );
    let patched = client.tool("sandbox-edit", &json!({"sandbox": "one", "patch": patch}));
    assert!(patched.starts_with("Changed patched.\n"), "{patched}");
    assert!(lives.git(&["show", "cofferdam/one:patched"]) == content);
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// A line that is longer than an answer is told by its beginning, whole characters of it, and by the command that prints the rest.
#[test]
fn what_is_left_of_a_long_line_can_be_had() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    // Two bytes each, behind one: the bound of an answer is in the middle of one of them.
    let long = format!("x{}", "\u{e9}".repeat(100_000));
    let content = format!("first\n{long}\n\nlast\n");
    for path in ["long", "it's long"] {
        let write = json!({"sandbox": "one", "path": path, "content": content});
        client.tool("sandbox-write", &write);
        let read = json!({"sandbox": "one", "path": path, "first_line": 2});
        let read = json!({"name": "sandbox-read", "arguments": read});
        let read = client.ask("tools/call", &read);
        let told = &read["structuredContent"];
        assert_eq!((&told["lines"], &told["cut"]), (&json!(1), &json!(true)));
        let begin = told["content"].as_str().unwrap();
        assert!(begin.len() > 90_000 && long.starts_with(begin), "{path}");
        let command = told["rest"].as_str().unwrap();
        let text = read["content"][0]["text"].as_str().unwrap();
        let note = format!("`sandbox-exec` prints it with `{command}`]\n");
        assert!(text.contains(&note), "{path}: {command}");
        client.run(&format!("{command} > rest"));
        let rest = lives.git(&["show", "cofferdam/one:rest"]);
        assert!(format!("{begin}{rest}") == long, "{path}: {}", rest.len());
        // What is not as long is told whole, and by no command.
        let last = json!({"sandbox": "one", "path": path, "first_line": 3});
        let last = client.ask(
            "tools/call",
            &json!({"name": "sandbox-read", "arguments": last}),
        );
        let last = &last["structuredContent"];
        assert_eq!(
            (&last["content"], &last["cut"], &last["rest"]),
            (&json!("\nlast\n"), &json!(false), &json!(null))
        );
        client.run("rm rest");
    }
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// A patch changes more files than an answer names.
#[test]
fn of_many_changed_files_the_first_are_told() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    let long = ["d".repeat(200), "d".repeat(200), "d".repeat(200)].join("/");
    for (directory, most) in [("few".to_owned(), 20), (long, 13)] {
        let made = |number: usize| {
            format!("--- /dev/null\n+++ b/{directory}/{number}\n@@ -0,0 +1 @@\n+x\n")
        };
        let patch: String = (100..200).map(made).collect();
        let arguments = json!({"sandbox": "one", "patch": patch});
        let call = json!({"name": "sandbox-edit", "arguments": arguments});
        let edited = client.ask("tools/call", &call);
        let told = &edited["structuredContent"];
        let first: Vec<String> = (100..100 + most)
            .map(|number| format!("{directory}/{number}"))
            .collect();
        assert_eq!(
            (&told["paths"], &told["files"]),
            (&json!(first), &json!(100))
        );
        let text = edited["content"][0]["text"].as_str().unwrap();
        let wanted = format!("Changed {} and {} more.\n", first.join(", "), 100 - most);
        assert!(text.starts_with(&wanted), "{text}");
        assert!(text.len() < 12_000, "{}", text.len());
        let there = ["ls-tree", "-r", "--name-only", "cofferdam/one"];
        let there = lives.git(&there);
        let there = there.lines().filter(|path| path.starts_with(&directory));
        assert_eq!(there.count(), 100);
    }
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// What is just short enough is a message as any other; what is longer is refused, changes nothing, and harms nobody who comes after it.
#[test]
fn a_message_has_a_bound() {
    // Bytes, without the end of its line.
    const LONGEST: usize = (16 << 20) - 1;
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    let message = |id: &str, path: &str, length: usize| {
        let with = |content: &str| {
            let arguments = json!({"sandbox": "one", "path": path, "content": content});
            let params = json!({"name": "sandbox-write", "arguments": arguments});
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
                .to_string()
        };
        let whole = with(&"x".repeat(length - with("").len()));
        assert_eq!(whole.len(), length);
        whole + "\n"
    };
    client.raw(message("fits", "fits", LONGEST).as_bytes());
    let told = client.hear();
    assert_eq!(
        (&told["id"], &told["result"]["isError"]),
        (&json!("fits"), &json!(false)),
        "{told}"
    );
    // The id comes last in what the clients of others send, behind whatever may look like one.
    let last = "\\\"id\\\":1,".repeat(2 << 20);
    let last = format!(
        "{{\"method\":\"tools/call\",\"params\":{{\"x\":\"{last}\"}},\"jsonrpc\":\"2.0\",\"id\":7}}\n"
    );
    let none = format!("{}\n", "x".repeat(LONGEST + 1));
    for (long, id) in [
        (message("long", "long", LONGEST + 1), json!("long")),
        (last, json!(7)),
        (none, json!(null)),
    ] {
        client.raw(long.as_bytes());
        // Whoever comes behind it takes longer.
        let after = json!({"sandbox": "one", "command": "sleep 2"});
        client.begin("after", "sandbox-exec", &after);
        let told = client.hear();
        assert_eq!((&told["id"], &told["error"]["code"]), (&id, &json!(-32600)));
        let why = told["error"]["message"].as_str().unwrap();
        assert!(id.is_null() || why.contains("16 MiB at most"), "{told}");
        assert_eq!(client.hear()["id"], "after");
    }
    let files = client.run("cat fits | tr -d x | wc -c; ls");
    assert_eq!(files, "0\nREADME.md\nfits\nsrc\n[exit code 0]\n");
    let size = lives.git(&["cat-file", "-s", "cofferdam/one:fits"]);
    assert!(size.parse::<usize>().unwrap() > LONGEST - 1000, "{size}");
    let there = lives.git(&["ls-tree", "--name-only", "cofferdam/one"]);
    assert_eq!(there, "README.md\nfits\nsrc");
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}
