//! What becomes a commit of what tools change, and what does not.

use serde_json::{Value, json};

use crate::lives::Lives;
use crate::mcp::Client;

fn exec(client: &mut Client, command: &str) -> String {
    let exec = json!({"sandbox": "one", "command": command});
    client.tool("sandbox-exec", &exec)
}

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
        exec(
            client,
            "rm .gitignore; mkdir build; echo x > build/x; echo new > new",
        );
        exec(
            client,
            "echo nothing > deep/down/.gitignore; echo x > deep/down/a.log; echo x > deep/down/kept.log",
        );
        // As if by mistake.
        exec(client, "git add -A; echo more > more");
        let tree = tree(lives);
        for there in ["new", "more", "deep/down/kept.log", "deep/down/.gitignore"] {
            assert!(tree.iter().any(|path| path == there), "{there}: {tree:?}");
        }
        for not in [".env", ".gitignore", "build/x", "deep/down/a.log"] {
            assert!(tree.iter().all(|path| path != not), "{not}: {tree:?}");
        }
        assert_eq!(
            exec(client, "cat .env build/x deep/down/a.log"),
            "SECRET=x\nx\nx\n[exit code 0]\n"
        );
    });
}

/// What the gate would refuse is left out and named; everything else comes home, then and later.
#[test]
fn what_the_gate_refuses_holds_up_nothing_else() {
    with_ignore_files(|lives, client| {
        let said = exec(
            client,
            "mkdir v; ln -s /usr/bin/env v/python; echo 1 > v/other; mkdir .husky; echo x > .husky/pre-commit",
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
        let said = exec(
            client,
            "readlink v/python && ln -sf ../README.md v/python && rm -r .husky",
        );
        assert!(said.starts_with("/usr/bin/env\n"), "{said}");
        assert!(!said.contains("refuses"), "{said}");
        assert!(tree(lives).contains(&"v/python".to_owned()));
        // Nothing is left of it that somebody would have to throw away.
        lives.cofferdam(&["merge", "one"]).expect_code(0);
        lives.cofferdam(&["delete", "one"]).expect_code(0);
        client.tool("sandbox-create", &json!({"name": "one"}));
    });
}

/// Commits of the agent's own that the gate refuses stay inside, and whoever merges is told so and not that there are none.
#[test]
fn a_refused_commit_of_the_agents_own_is_no_merge() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    let own = "ln -s /etc/passwd l; git add l; git -c user.name=a -c user.email=a@a commit -qm own";
    let said = exec(&mut client, own);
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
    let said = exec(
        &mut client,
        "git reset --soft HEAD^; rm l; git rm -q --cached l; echo good > good",
    );
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
