//! What tools change is committed by its paths alone, and the commit is the same as one of all files.

use serde_json::json;

use crate::lives::Lives;
use crate::mcp_client::Client;

/// What the files are, as a tree that git makes of all of them.
const TREE: &str =
    "GIT_INDEX_FILE=/tmp/i git add --all && GIT_INDEX_FILE=/tmp/i git write-tree; rm /tmp/i";

#[test]
fn a_commit_by_paths_is_one_of_all_files() {
    let lives = Lives::new();
    for name in [
        "changed",
        "gone",
        "from",
        "file",
        "dir/a",
        "dir/b",
        "much/a",
        "much/b",
        "deep/er/x",
    ] {
        lives.write(name, &format!("{name}\n"));
    }
    std::os::unix::fs::symlink("changed", lives.repository().join("link")).unwrap();
    lives.git(&["add", "-A"]);
    lives.git(&["commit", "-qm", "files"]);
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    for change in [
        "mkdir -p new/dir; echo 1 > new/dir/file; echo 2 > ' of space '; echo 3 > -dash; ln -s nowhere new/link; printf '\\0\\1' > binary",
        "n=$(printf 'tab\\there'); echo x > \"$n\"; n=$(printf 'two\\nlines'); echo x > \"$n\"; echo x > '\"quoted\"'; n=$(printf 'byte\\377'); echo x > \"$n\"",
        "chmod +x changed; rm gone; mv from to",
        "echo more >> changed; n=$(printf 'two\\nlines'); rm \"$n\"",
        "rm file; mkdir file; echo x > file/x",
        "rm -r dir; echo x > dir",
        "rm link; mkdir link; echo x > link/in",
        "rm -r deep much/a; echo x > much/c",
        "rm dir; ln -s much dir",
        // What it commits by itself is gone on from.
        "echo own > own; git add own; git commit -qm own; echo x > after",
        "rm -r much new",
    ] {
        client.run(change);
        let all = client.run(TREE);
        let tree = lives.git(&["rev-parse", "cofferdam/one^{tree}"]);
        assert_eq!(all, format!("{}\n[exit code 0]\n", tree.trim()), "{change}");
        let clean = client.run("git status --porcelain; git diff-index --cached HEAD");
        assert_eq!(clean, "[exit code 0]\n", "{change}");
    }
    let fsck = client.run("git fsck --no-dangling 2>&1");
    assert_eq!(fsck, "[exit code 0]\n");
    // What was not looked at by the whole index has no times there.
    client.run("echo y > by-path");
    let known = client.run("git ls-files --debug by-path");
    assert!(known.contains("mtime: 0:0"), "{known}");
    // What is staged is none of the paths' business: everything is looked at.
    client.run("echo staged > staged; git add staged; rm staged; echo x > last");
    let known = client.run("git ls-files --debug last");
    assert!(
        known.contains("mtime: ") && !known.contains("mtime: 0:0"),
        "{known}"
    );
    assert_eq!(client.run("git status --porcelain"), "[exit code 0]\n");
    let log = lives.git(&["log", "-1", "--format=%an %s", "cofferdam/one~2"]);
    assert!(log.contains("sandbox-exec: much/b and "), "{log}");
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}
