//! What becomes a commit of what tools change, and what does not.

use serde_json::{Value, json};

use crate::lives::Lives;
use crate::mcp_client::Client;

fn tree(lives: &Lives) -> Vec<String> {
    let tree = lives.git(&["ls-tree", "-r", "--name-only", "cofferdam/one"]);
    tree.lines().map(str::to_owned).collect()
}

/// A repository with ignore files, a client, and a sandbox of each mode that tools have.
fn with_ignore_files(check: impl Fn(&Lives, &mut Client)) {
    for mode in ["layer", "copy"] {
        let lives = Lives::new();
        lives.write(".gitignore", ".env\n/build/\n");
        lives.write("deep/down/.gitignore", "*.log\n!kept.log\n");
        lives.write("deep/down/file", "x\n");
        lives.git(&["add", "-A"]);
        lives.git(&["commit", "-qm", "files"]);
        if mode == "copy" {
            // Its files are never laid over others.
            lives.git(&["sparse-checkout", "set", "deep"]);
        }
        let mut client = Client::start(&lives);
        client.tool("sandbox-create", &json!({"name": "one"}));
        let status = lives.cofferdam(&["status", "one", "--json"]).expect_code(0);
        let status: Value = serde_json::from_str(&status.stdout).unwrap();
        assert_eq!(status["mode"], mode);
        check(&lives, &mut client);
        drop(client);
        lives
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
    }
}

/// An agent that takes an ignore file away, or rewrites it, brings no secret out that the repository's own covered.
#[test]
fn what_the_repository_ignores_stays_ignored() {
    with_ignore_files(|lives, client| {
        let write = json!({"sandbox": "one", "path": ".env", "content": "SECRET=x\n"});
        let said = client.tool("sandbox-write", &write);
        assert!(said.contains("an ignore file covers it"), "{said}");
        client.run("rm .gitignore; mkdir build; echo x > build/x; echo new > new");
        client.run("echo nothing > deep/down/.gitignore; echo x > deep/down/a.log; echo x > deep/down/kept.log",
        );
        // As if by mistake.
        client.run("git add -A; echo more > more");
        let tree = tree(lives);
        for there in ["new", "more", "deep/down/kept.log", "deep/down/.gitignore"] {
            assert!(tree.iter().any(|path| path == there), "{there}: {tree:?}");
        }
        for not in [".env", ".gitignore", "build/x", "deep/down/a.log"] {
            assert!(tree.iter().all(|path| path != not), "{not}: {tree:?}");
        }
        assert_eq!(
            client.run("cat .env build/x deep/down/a.log"),
            "SECRET=x\nx\nx\n[exit code 0]\n"
        );
    });
}

/// Nothing is looked at where nothing can have changed; so whatever does is told by a call that comes after idle ones.
#[test]
fn what_changes_after_idle_calls_is_recorded() {
    with_ignore_files(|lives, client| {
        client.run("mkdir d; echo 1 > same; echo 1 > d/gone; echo 1 > d/moved; ln -s same link; echo 1 > mode");
        for (change, path) in [
            ("echo 2 > same", "same"),
            ("rm d/gone", "gone"),
            ("mv d/moved d/else", "d/else"),
            ("ln -sf mode link", "link"),
            ("chmod +x mode", "mode"),
            ("echo x > d/new", "new"),
            ("echo 2 > deep/down/file", "file"),
            ("git rm -q --cached d/new; mv d/new /tmp/", "d/new"),
            ("(sleep 0.2; echo 3 > same) & wait", "same"),
            ("git commit -q --allow-empty -m 'of its own'", "of its own"),
        ] {
            for _ in 0..2 {
                std::thread::sleep(std::time::Duration::from_millis(50));
                let said = client.run("true");
                assert_eq!(said, "[exit code 0]\n", "before {change}");
            }
            let before = lives.git(&["rev-parse", "cofferdam/one"]);
            let said = client.run(change);
            assert!(said.contains(path), "{change}: {said}");
            assert_ne!(
                lives.git(&["rev-parse", "cofferdam/one"]),
                before,
                "{change}: {said}"
            );
        }
        assert_eq!(lives.git(&["show", "cofferdam/one:same"]), "3");
    });
}

/// One that git cannot convert as the attributes say holds up the others: the agent is told which it is.
#[test]
fn what_git_cannot_read_is_named() {
    with_ignore_files(|lives, client| {
        let said = client.run(
            "echo '*.txt working-tree-encoding=UTF-16' > .gitattributes; printf odd > bad.txt; echo x > good",
        );
        assert!(
            said.contains("git cannot read a path: ") && said.contains("bad.txt"),
            "{said}"
        );
        client.run("rm bad.txt");
        assert!(tree(lives).contains(&"good".to_owned()));
    });
}

/// Programs go on while the commits are checked: what they change meanwhile is the next call's.
#[test]
fn what_changes_while_checks_run_is_recorded() {
    let lives = Lives::new();
    lives.configure("gate: {checks: [{cmd: sleep 3}]}\n");
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    client.run("(sleep 1; echo late > late) >/dev/null 2>&1 & echo early > early");
    client.run("until test -e late; do sleep 0.1; done");
    assert!(tree(&lives).contains(&"late".to_owned()));
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// What was changed in the second in which the index was written, to as many bytes, shows only to who reads it.
#[test]
fn what_is_as_old_as_the_index_is_read_again() {
    with_ignore_files(|_, client| {
        let old = "touch -d @1700000000";
        let said = client.run(&format!(
            "echo 1 > racy; git add racy; git commit -qm made; {old} racy; git update-index --refresh; {old} $(git rev-parse --git-dir)/index"
        ));
        assert!(said.contains("made"), "{said}");
        let said = client.run(&format!("echo 2 > racy; {old} racy"));
        assert!(said.contains("sandbox-exec: racy"), "{said}");
    });
}

/// What the gate would refuse is left out and named; everything else comes home, then and later.
#[test]
fn what_the_gate_refuses_holds_up_nothing_else() {
    with_ignore_files(|lives, client| {
        let said = client.run("mkdir v; ln -s /usr/bin/env v/python; echo 1 > v/other; mkdir .husky; echo x > .husky/pre-commit",
        );
        for what in ["`v/python`", "absolute", "`.husky/pre-commit`"] {
            assert!(said.contains(what), "{what}: {said}");
        }
        let write = json!({"sandbox": "one", "path": "later", "content": "x\n"});
        let said = client.tool("sandbox-write", &write);
        assert!(said.contains("sandbox-write: later"), "{said}");
        let paths = tree(lives);
        assert!(paths.contains(&"v/other".to_owned()), "{paths:?}");
        assert!(paths.contains(&"later".to_owned()), "{paths:?}");
        assert!(!paths.contains(&"v/python".to_owned()), "{paths:?}");
        assert!(
            !paths.contains(&".husky/pre-commit".to_owned()),
            "{paths:?}"
        );
        // It is as it was made, and mended it comes as well.
        let said = client.run("readlink v/python && ln -sf ../README.md v/python && rm -r .husky");
        assert!(said.starts_with("/usr/bin/env\n"), "{said}");
        assert!(!said.contains("refuses"), "{said}");
        assert!(tree(lives).contains(&"v/python".to_owned()));
        // Nothing is left of it that somebody would have to throw away.
        lives.cofferdam(&["merge", "one"]).expect_code(0);
        lives.cofferdam(&["delete", "one"]).expect_code(0);
        client.tool("sandbox-create", &json!({"name": "one"}));
    });
}

/// Names that no message shows as they are: what a shell makes of the first is what is in the second.
const ODD: [(&str, &str); 4] = [
    (r"a\nb", r"a\nb"),
    (r"a\tb\033[31m", r"a\tb\u{1b}[31m"),
    (r"n\377\376", "n\u{fffd}\u{fffd}"),
    ("$(printf %0200d 0)/$(printf %0200d 1)", "0000"),
];

/// The same under whatever name: it is found again to be left out, and shown so that no terminal obeys it.
#[test]
fn an_odd_name_that_the_gate_refuses_holds_up_nothing_else() {
    with_ignore_files(|lives, client| {
        for (number, (odd, shown)) in ODD.into_iter().enumerate() {
            for (kind, make, why) in [
                ("p", "echo x >", "it is protected"),
                ("l", "ln -s /etc/passwd", "it is a symlink"),
            ] {
                let top = if kind == "p" { ".husky" } else { "links" };
                let good = format!("good-{kind}{number}");
                let said = client.run(&format!(
                    "path=\"$(printf \"{top}/{odd}\")\"; mkdir -p \"$(dirname \"$path\")\"; {make} \"$path\"; echo x > {good}"
                ));
                assert!(said.contains(&format!("sandbox-exec: {good}")), "{said}");
                assert!(said.contains(&format!("`{top}/{shown}")), "{shown}: {said}");
                assert!(said.contains(why), "{said}");
                assert!(!said.contains('\u{1b}'), "{said:?}");
                let paths = tree(lives);
                assert!(paths.contains(&good), "{paths:?}");
                // The next call works as this one did, with what is refused still there.
                let later = format!("later-{kind}{number}");
                let write = json!({"sandbox": "one", "path": later, "content": "x\n"});
                let said = client.tool("sandbox-write", &write);
                assert!(said.contains(&format!("sandbox-write: {later}")), "{said}");
                assert!(said.contains(&format!("`{top}/{shown}")), "{shown}: {said}");
                let paths = tree(lives);
                assert!(paths.contains(&later), "{paths:?}");
                assert!(!paths.iter().any(|path| path.contains(top)), "{paths:?}");
                client.run("rm -rf .husky links");
            }
        }
        // What is refused as a whole directory.
        let said = client.run("r='r\ns'; git init -q --bare \"$r\"; touch \"$r/refs/x\" \"$r/objects/x\"; echo x > beside");
        assert!(
            said.contains("git would take it for a repository"),
            "{said}"
        );
        let paths = tree(lives);
        assert!(paths.contains(&"beside".to_owned()), "{paths:?}");
        assert!(!paths.iter().any(|path| path.contains("HEAD")), "{paths:?}");
    });
}

/// What an agent commits by itself under such a name is refused and named as safely, and what comes after it has gone lands.
#[test]
fn an_odd_name_in_a_commit_of_the_agents_own_is_shown_safely() {
    let lives = Lives::with("one", &["--network", "none"]);
    for (number, (odd, shown)) in ODD.into_iter().enumerate() {
        let commit = format!(
            "path=\"$(printf \".husky/{odd}\")\"; mkdir -p \"$(dirname \"$path\")\"; echo x > \"$path\"; echo x > good{number}; git add -A; git commit -qm own"
        );
        lives.exec("one", &commit).expect_code(0);
        let said = lives.cofferdam(&["collect", "one"]).expect_code(1);
        let all = format!("{}{}", said.stdout, said.stderr);
        assert!(all.contains(&format!("`.husky/{shown}")), "{shown}: {all}");
        assert!(!all.contains('\u{1b}'), "{all:?}");
        let again = "git rm -rqf .husky; git commit -q --amend -m own";
        lives.exec("one", again).expect_code(0);
        lives.cofferdam(&["collect", "one"]).expect_code(0);
        let paths = tree(&lives);
        assert!(paths.contains(&format!("good{number}")), "{paths:?}");
    }
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// Commits of the agent's own that the gate refuses stay inside, and whoever merges is told so and not that there are none.
#[test]
fn a_refused_commit_of_the_agents_own_is_no_merge() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    let own = "ln -s /etc/passwd l; git add l; git -c user.name=a -c user.email=a@a commit -qm own";
    let said = client.run(own);
    assert!(said.contains("the commit gate refuses them"), "{said}");
    assert!(said.contains("git reset --soft"), "{said}");
    let before = lives.git(&["rev-parse", "main"]);
    let merged = lives.cofferdam(&["merge", "one"]).expect_code(1);
    assert!(!merged.stdout.contains("nothing"), "{merged}");
    assert!(
        merged.stdout.contains("next: cofferdam shell one"),
        "{merged}"
    );
    assert_eq!(lives.git(&["rev-parse", "main"]), before);
    let said = client.run("git reset --soft HEAD^; rm l; git rm -q --cached l; echo good > good");
    assert!(said.contains("sandbox-exec: good"), "{said}");
    drop(client);
    lives.cofferdam(&["merge", "one"]).expect_code(0);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// A branch of the user's that happens to have the name is theirs.
// covers: S4-E4
#[test]
fn a_branch_that_is_there_is_not_taken_over() {
    let lives = Lives::new();
    lives.git(&["branch", "cofferdam/mine"]);
    lives.git(&["commit", "-q", "--allow-empty", "-m", "second"]);
    let before = lives.references();
    let mut client = Client::start(&lives);
    let refused = client.error("sandbox-create", &json!({"name": "mine"}));
    assert!(
        refused.contains("the branch cofferdam/mine is there already"),
        "{refused}"
    );
    assert!(refused.contains("Choose another name"), "{refused}");
    assert_eq!(lives.references(), before);
    assert!(lives.all().is_empty());
    // A branch where ours would be below.
    lives.git(&["branch", "-D", "cofferdam/mine"]);
    lives.git(&["branch", "cofferdam"]);
    let before = lives.references();
    let refused = client.error("sandbox-create", &json!({"name": "two"}));
    assert!(
        refused.contains("branch `cofferdam/two` cannot be made"),
        "{refused}"
    );
    assert!(refused.contains("git branch -m"), "{refused}");
    assert!(!refused.contains("--branch`"), "{refused}");
    assert_eq!(lives.references(), before);
    assert!(lives.all().is_empty());
}

/// A subject that is as long as a commit may be is shown by its beginning, and holds up no command.
#[test]
fn a_subject_without_end_is_cut() {
    let lives = Lives::with("one", &["--network", "none"]);
    lives
        .exec("one", "git commit -q --allow-empty -m first")
        .expect_code(0);
    lives.cofferdam(&["collect", "one"]).expect_code(0);
    let long = "{ head -c 70000000 /dev/zero | tr '\\0' x; echo; } > /tmp/m; git commit -q --allow-empty -F /tmp/m";
    lives.exec("one", long).expect_code(0);
    lives.cofferdam(&["collect", "one"]).expect_code(0);
    let log = lives.cofferdam(&["log", "one"]).expect_code(0).stdout;
    assert!(log.contains("xxxx") && log.len() < 2000, "{}", log.len());
    lives.cofferdam(&["delete", "one"]).expect_code(0);
}

/// What is being written while another call commits is in no commit, whatever it is called meanwhile.
#[test]
fn half_a_file_is_in_no_commit() {
    let lives = Lives::new();
    lives.write(".gitignore", "*.pem\n");
    lives.git(&["add", "-A"]);
    lives.git(&["commit", "-qm", "files"]);
    let mut client = Client::start(&lives);
    let mut other = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    let write = json!({"sandbox": "one", "path": "server.pem", "content": "x".repeat(12 << 20)});
    client.begin("w", "sandbox-write", &write);
    for turn in 0..6 {
        other.run(&format!("echo {turn} > f{turn}"));
    }
    assert_eq!(client.hear()["id"], "w");
    // As one of ours that was killed leaves it.
    other.run("mkdir d; echo half > d/.cofferdam-sync-0123456789abcdef; echo x > d/x");
    let names = lives.git(&["log", "--format=", "--name-only", "cofferdam/one"]);
    assert!(names.contains("d/x") && names.contains("f5"), "{names}");
    assert!(!names.contains("cofferdam-sync"), "{names}");
    assert!(!names.contains("pem"), "{names}");
    drop((client, other));
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// A pipe where git looks first holds up nothing.
#[test]
fn a_pipe_in_the_git_directory_is_taken_away() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    let began = std::time::Instant::now();
    let dir = "d=$(git rev-parse --git-dir)";
    client.run(&format!(
        "{dir}; rm -f $d/info/exclude; mkdir -p $d/info; mkfifo $d/info/exclude; echo 1 > a"
    ));
    assert!(began.elapsed() < std::time::Duration::from_secs(60));
    assert!(tree(&lives).contains(&"a".to_owned()));
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// What one call may ask for is bounded before it is made.
#[test]
fn no_call_asks_for_more_than_it_may() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    client.run("head -c 5000000 /dev/zero | tr '\\0' a > a");
    let all =
        json!({"sandbox": "one", "path": "a", "old": "a", "new": "b".repeat(4096), "all": true});
    let refused = client.error("sandbox-edit", &all);
    assert!(refused.contains("would have more than"), "{refused}");
    let long = json!({"sandbox": "one", "pattern": "a".repeat(5000)});
    for tool in ["sandbox-glob", "sandbox-grep"] {
        assert!(client.error(tool, &long).contains("more than 4096 bytes"));
    }
    let many = "for i in 1 2 3 4 5; do head -c 15000000 /dev/zero | tr '\\0' a > f$i; done";
    client.run(many);
    let patch: String = (1..=5)
        .map(|n| format!("--- a/f{n}\n+++ b/f{n}\n@@ -1 +1 @@\n-x\n+y\n"))
        .collect();
    let refused = client.error("sandbox-edit", &json!({"sandbox": "one", "patch": patch}));
    assert!(
        refused.contains("the files that it names have more than"),
        "{refused}"
    );
    for base in [
        "stash@{0}",
        "refs/stash",
        "HEAD@{1}",
        "refs/cofferdam/trash/one",
    ] {
        let refused = client.error("sandbox-create", &json!({"name": "two", "base": base}));
        assert!(refused.contains("no branch, no tag"), "{refused}");
    }
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// The time of a program that stands still does not run.
#[test]
fn a_pause_takes_none_of_a_programs_time() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    let run =
        json!({"sandbox": "one", "command": "touch /tmp/begun; sleep 2; echo done", "timeout": 5});
    client.begin("x", "sandbox-exec", &run);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while lives.exec("one", "test -e /tmp/begun").status.code() != Some(0) {
        assert!(std::time::Instant::now() < until);
    }
    lives.cofferdam(&["pause", "one"]).expect_code(0);
    std::thread::sleep(std::time::Duration::from_secs(6));
    lives.cofferdam(&["resume", "one"]).expect_code(0);
    let told = client.hear()["result"]["structuredContent"].clone();
    assert_eq!(
        (&told["exit_code"], &told["output"]),
        (&json!(0), &json!("done\n")),
        "{told}"
    );
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// Each word that somebody could take for a secret has a tool that gets it, and none of them is in what a commit says of itself.
#[test]
fn no_message_has_what_a_tool_was_given() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    let mut commits = Vec::new();
    let mut changes = |tool: &str, arguments: Value| {
        let mut call = json!({"sandbox": "one"});
        call.as_object_mut()
            .unwrap()
            .extend(arguments.as_object().unwrap().clone());
        client.tool(tool, &call);
        commits.push(lives.git(&["rev-parse", "cofferdam/one"]));
        let message = lives.git(&["log", "-1", "--format=%B", "cofferdam/one"]);
        message.trim_end().to_owned()
    };
    let write = json!({"path": "a", "content": "hunter-content hunter-old\n"});
    assert_eq!(changes("sandbox-write", write), "sandbox-write: a");
    let edit = json!({"path": "a", "old": "hunter-old", "new": "hunter-new"});
    assert_eq!(changes("sandbox-edit", edit), "sandbox-edit: a");
    let patch = "--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+hunter-patch\n";
    assert_eq!(
        changes("sandbox-edit", json!({"patch": patch})),
        "sandbox-edit: b"
    );
    let exec = json!({
        "command": "echo $TOKEN hunter-command > c; echo hunter-printed",
        "environment": {"TOKEN": "hunter-variable"},
    });
    assert_eq!(changes("sandbox-exec", exec), "sandbox-exec: c");
    let program = json!({"program": ["sh", "-c", "echo $1 > d", "x", "hunter-argument"]});
    assert_eq!(changes("sandbox-exec", program), "sandbox-exec: d");
    // Several files, more than are named one by one.
    let many = json!({"command": "for i in 1 2 3 4 5 6 7 8 9; do echo hunter-many > many$i; done"});
    let paths: Vec<String> = (1..=9).map(|number| format!("many{number}")).collect();
    assert_eq!(
        changes("sandbox-exec", many),
        format!("sandbox-exec: many1 and 8 more\n\n{}", paths.join("\n"))
    );
    // Begun in the background, and committed by a call that knows nothing of it.
    let begun = "echo hunter-background > e; touch /tmp/written; sleep 1000";
    let begun = json!({"sandbox": "one", "command": begun, "background": true});
    client.tool("sandbox-exec", &begun);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while lives.exec("one", "test -e /tmp/written").status.code() != Some(0) {
        assert!(std::time::Instant::now() < until);
    }
    client.tool("sandbox-diff", &json!({"sandbox": "one"}));
    commits.push(lives.git(&["rev-parse", "cofferdam/one"]));
    let message = lives.git(&["log", "-1", "--format=%B", "cofferdam/one"]);
    assert_eq!(message.trim_end(), "sandbox-diff: e");

    // All of each commit but its files: also who made it, notes, and what is said of where a reference was.
    commits.dedup();
    assert_eq!(commits.len(), 7);
    for commit in &commits {
        let whole = lives.git(&["cat-file", "commit", commit]);
        assert!(!whole.contains("hunter"), "{whole}");
    }
    let log = lives.git(&["log", "--walk-reflogs", "--format=%gs", "cofferdam/one"]);
    assert!(!log.contains("hunter"), "{log}");
    let inside = "git log --format=raw --all; git reflog; git stash list; cat $(git rev-parse --git-dir)/COMMIT_EDITMSG 2>/dev/null; true";
    let inside = client.run(inside);
    assert!(inside.contains("sandbox-edit: b"), "{inside}");
    assert!(!inside.contains("hunter"), "{inside}");
    // The control: they are in what was committed.
    let all = lives.git(&["log", "-p", "cofferdam/one"]);
    for word in [
        "content",
        "old",
        "new",
        "patch",
        "command",
        "variable",
        "argument",
        "many",
        "background",
    ] {
        assert!(all.contains(&format!("hunter-{word}")), "{word}");
    }
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// What is on no branch and no tag is the person's alone, by whatever name it could be found.
#[test]
fn what_was_put_away_or_deleted_is_no_base() {
    let lives = Lives::new();
    lives.write("README.md", "private\n");
    lives.git(&["stash"]);
    let stash = lives.git(&["rev-parse", "stash"]);
    lives.git(&["branch", "gone-too"]);
    lives.git(&["checkout", "-q", "gone-too"]);
    lives.git(&["commit", "-q", "--allow-empty", "-m", "undone"]);
    let undone = lives.git(&["rev-parse", "HEAD"]);
    lives.git(&["checkout", "-q", "main"]);
    lives.git(&["branch", "-D", "gone-too"]);
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    client.run("echo x > x");
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
    let trash = lives.git(&["rev-parse", "refs/cofferdam/trash/one"]);
    let index = format!("{stash}^2");
    for base in [
        "stash",
        "refs/stash",
        "stash@{0}",
        &stash,
        &stash[..8],
        &index,
        &undone,
        &undone[..8],
        "cofferdam/trash/one",
        "refs/cofferdam/trash/one",
        &trash,
        "no-such",
    ] {
        let refused = client.error("sandbox-create", &json!({"name": "two", "base": base}));
        assert!(refused.contains("no branch, no tag"), "{base}: {refused}");
    }
    let head = lives.git(&["rev-parse", "HEAD"]);
    for (number, base) in ["main", "HEAD", &head, &head[..8]].into_iter().enumerate() {
        let name = format!("good-{number}");
        client.tool("sandbox-create", &json!({"name": name, "base": base}));
        lives.cofferdam(&["delete", &name]).expect_code(0);
    }
}

/// A name that is a pattern elsewhere, and attributes of an agent's making, take none of the repository's rules away.
#[test]
fn ignore_files_are_read_as_the_repository_has_them() {
    let attributes = "echo '.gitignore working-tree-encoding=UTF-16' >";
    for trick in [
        "echo x > ':!x'".to_owned(),
        "echo x > ':(foo)x'".to_owned(),
        format!("d=$(git rev-parse --git-dir); mkdir -p $d/info; {attributes} $d/info/attributes"),
        format!("{attributes} .gitattributes"),
    ] {
        with_ignore_files(|lives, client| {
            client.run(&format!(
                "{trick}; : > .gitignore; echo pw > .env; echo ok > ok"
            ));
            let tree = tree(lives);
            assert!(tree.contains(&"ok".to_owned()), "{trick}: {tree:?}");
            assert!(!tree.contains(&".env".to_owned()), "{trick}: {tree:?}");
        });
    }
}

/// A repository among its files is no part of the branch, and nobody takes it for one.
#[test]
fn a_repository_in_it_is_told() {
    with_ignore_files(|lives, client| {
        let said = client.run(
            "git init -q sub; cd sub; echo x > x; git add x; git -c user.name=a -c user.email=a@b commit -qm x; cd ..; echo ok > ok",
        );
        assert!(said.contains("sub"), "{said}");
        let tree = tree(lives);
        assert!(tree.contains(&"ok".to_owned()), "{tree:?}");
        assert!(tree.iter().all(|path| !path.starts_with("sub")), "{tree:?}");
    });
}
