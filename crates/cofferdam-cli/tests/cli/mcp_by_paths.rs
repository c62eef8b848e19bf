//! What tools change is committed by its paths alone, and the commit is the same as one of all files.

use serde_json::json;

use crate::lives::Lives;
use crate::mcp_client::Client;

/// What the files are, as a tree that git makes of all of them.
const TREE: &str =
    "GIT_INDEX_FILE=/tmp/i git add --all && GIT_INDEX_FILE=/tmp/i git write-tree; rm /tmp/i";

/// Whatever is changed, in both modes that sandboxes of tools have. In a copy nothing goes by paths, and all is the same.
#[test]
fn a_commit_by_paths_is_one_of_all_files() {
    in_each_mode(|lives, client, mode| {
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
            is_one_of_all_files(lives, client, &format!("{mode}: {change}"));
        }
        let fsck = client.run("git fsck --no-dangling 2>&1");
        assert_eq!(fsck, "[exit code 0]\n");
        if mode == "layer" {
            goes_by_paths(lives, client);
        }
    });
}

/// A writer that died between the index and HEAD leaves what it did staged: the next call commits all of it, once.
#[test]
fn what_a_dead_one_staged_is_the_next_commit() {
    in_each_mode(|lives, client, mode| {
        client.run("echo own > own; echo 1 > after");
        let tip = || lives.git(&["rev-parse", "cofferdam/one"]);
        let before = tip();
        // As the script does it, by a person whose programs nobody records after.
        let died = "set -e; echo dead > dead; echo 2 > after; rm own
        for one in dead after; do printf '100644 %s\\t%s\\n' \"$(git hash-object -w $one)\" $one; done | git update-index --index-info
        git update-index --force-remove own; test \"$(git diff-index --cached --name-only HEAD | wc -l)\" -eq 3";
        lives.exec("one", died).expect_code(0);
        assert_eq!(tip(), before, "{mode}");
        let said = client.run("true");
        assert!(
            said.contains("sandbox-exec: after and 2 more]"),
            "{mode}: {said}"
        );
        let count = format!("{before}..cofferdam/one");
        assert_eq!(lives.git(&["rev-list", "--count", &count]), "1", "{mode}");
        is_one_of_all_files(lives, client, mode);
        // And nothing is left of it for one more.
        let after = tip();
        assert_eq!(client.run("true"), "[exit code 0]\n", "{mode}");
        assert_eq!(tip(), after, "{mode}");
    });
}

/// A repository with files of many kinds, a client, and a sandbox.
fn in_each_mode(check: impl Fn(&Lives, &mut Client, &str)) {
    for mode in ["layer", "copy"] {
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
        if mode == "copy" {
            // Its files are never laid over others; all of them are in it.
            lives.git(&["sparse-checkout", "set", "--no-cone", "/*"]);
        }
        let mut client = Client::start(&lives);
        client.tool("sandbox-create", &json!({"name": "one"}));
        assert_eq!(lives.status("one", "mode"), mode);
        check(&lives, &mut client, mode);
        drop(client);
        lives
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
    }
}

/// What is on the branch is what git makes of all files, and the sandbox's own git finds nothing to do.
#[track_caller]
fn is_one_of_all_files(lives: &Lives, client: &mut Client, what: &str) {
    let all = client.run(TREE);
    let tree = lives.git(&["rev-parse", "cofferdam/one^{tree}"]);
    assert_eq!(all, format!("{tree}\n[exit code 0]\n"), "{what}");
    let clean = client.run("git status --porcelain; git diff-index --cached HEAD");
    assert_eq!(clean, "[exit code 0]\n", "{what}");
}

fn goes_by_paths(lives: &Lives, client: &mut Client) {
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
}
