//! Whose sandboxes the tools of `cofferdam mcp` are about: never those of a directory that somebody merely stands in.

use serde_json::json;

use crate::lives::Lives;
use crate::mcp_client::Client;

/// A client names a repository where the server is of none, and only what its user's own configuration lists.
#[test]
fn a_server_of_no_repository_serves_those_that_are_listed() {
    let lives = Lives::new();
    let outside = lives.temporary();
    let start = ["-C", outside.to_str().unwrap(), "mcp"];
    // Nothing is listed: it says so, and does not begin.
    let refused = lives.cofferdam(&start).expect_code(1);
    assert!(refused.stderr.contains("`mcp.repositories`"), "{refused}");

    let own = lives.repository();
    for name in ["others/listed", "unlisted"] {
        let there = outside.join(name);
        lives.git(&["clone", "-q", ".", there.to_str().unwrap()]);
    }
    let (below, unlisted) = (outside.join("others/listed"), outside.join("unlisted"));
    std::os::unix::fs::symlink(&unlisted, outside.join("others/link")).unwrap();
    lives.configure(&format!(
        "mcp: {{repositories: ['{}', '{}', /nowhere]}}\n",
        own.display(),
        outside.join("others").display()
    ));
    let mut client = Client::with(lives.command(&start));
    let told = client.ask("tools/list", &json!({}));
    for tool in told["tools"].as_array().unwrap() {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["properties"]["repository"]["type"], "string");
        let required = schema["required"].as_array().unwrap();
        assert!(required.contains(&json!("repository")), "{tool}");
    }
    for (repository, name) in [(&own, "one"), (&below, "two")] {
        let made = client.tool(
            "sandbox-create",
            &json!({"name": name, "repository": repository}),
        );
        assert!(made.contains(name), "{made}");
        let listed = client.tool("sandbox-list", &json!({"repository": repository}));
        assert_eq!(listed.lines().count(), 1, "{listed}");
        assert!(listed.contains(name), "{listed}");
        let write = json!({"sandbox": name, "repository": repository, "path": "x", "content": "x"});
        client.tool("sandbox-write", &write);
        let branch = format!("cofferdam/{name}");
        let tree = [
            "-C",
            repository.to_str().unwrap(),
            "ls-tree",
            "--name-only",
            &branch,
        ];
        assert!(lives.git(&tree).lines().any(|line| line == "x"));
    }
    // Who names none, or one that is not listed, is told those that are and there.
    let there = format!("{}, {}", own.display(), outside.join("others").display());
    for wrong in [json!({}), json!({"repository": unlisted})] {
        let refused = client.error("sandbox-list", &wrong);
        assert!(refused.contains(&there), "{refused}");
    }
    let other = json!({"sandbox": "one", "repository": below, "path": "README.md"});
    assert!(client.error("sandbox-read", &other).contains("not found"));

    let link = outside.join("others/link");
    let above = outside.join("others/..");
    let relative = "repository";
    for path in [
        unlisted.to_str().unwrap(),
        link.to_str().unwrap(),
        above.to_str().unwrap(),
        "/",
        "/nowhere",
        relative,
        "",
    ] {
        let refused = client.error("sandbox-list", &json!({"repository": path}));
        let why = format!("the repository {path} is not among those that may be named");
        assert!(refused.contains(&why), "{refused}");
    }
    // What is listed leads to one that is not.
    let led = outside.join("others/led");
    std::fs::create_dir_all(&led).unwrap();
    let leads = format!("gitdir: {}\n", unlisted.join(".git").display());
    cofferdam::fsx::write_private(&led.join(".git"), leads.as_bytes()).unwrap();
    let worktree = outside.join("others/worktree");
    let add = [
        "-C",
        unlisted.to_str().unwrap(),
        "worktree",
        "add",
        "-q",
        worktree.to_str().unwrap(),
    ];
    lives.git(&add);
    for path in [&led, &worktree] {
        let refused = client.error("sandbox-list", &json!({"repository": path}));
        assert!(refused.contains("is not among those"), "{refused}");
    }
    // It is listed, and is no repository.
    let none = outside.join("others");
    let refused = client.error("sandbox-list", &json!({"repository": none}));
    assert!(
        refused.contains("no git repository") || refused.contains("not in a git"),
        "{refused}"
    );
    let missing = client.error("sandbox-list", &json!({}));
    assert!(missing.contains("`repository` is to be given"), "{missing}");
    // What counts is what is listed now.
    lives.configure("mcp: {repositories: []}\n");
    client.error("sandbox-list", &json!({"repository": own}));
    drop(client);

    // One that was started in a repository is of that one.
    lives.configure(&format!("mcp: {{repositories: ['{}']}}\n", below.display()));
    let mut client = Client::start(&lives);
    let refused = client.error("sandbox-list", &json!({"repository": below}));
    assert!(refused.contains("unknown field `repository`"), "{refused}");
    drop(client);
    for (repository, name) in [(&own, "one"), (&below, "two")] {
        let at = repository.to_str().unwrap();
        lives
            .cofferdam(&["-C", at, "delete", "--force", name])
            .expect_code(0);
    }
}

/// A repository says nothing of who may name what.
#[test]
fn a_repository_lists_nothing() {
    let lives = Lives::new();
    lives.write(".cofferdam/config.yaml", "mcp: {repositories: [/]}\n");
    let checked = lives.cofferdam(&["config", "check"]).expect_code(1);
    let why = "mcp: this counts in your own config.yaml alone";
    assert!(checked.stderr.contains(why), "{checked}");
}
