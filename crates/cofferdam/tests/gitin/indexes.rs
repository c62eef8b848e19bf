//! The index handed in.

use std::path::Path;

use cofferdam::git::index::{self, HandedIn, Owner};
use cofferdam::git::{Oid, UserRules};

use crate::support::{World, gits, never};

/// Old enough that nothing of it is written in the second of the index.
fn age(world: &World) {
    for name in world.run(&["ls-files"]).lines() {
        let path = world.top.join(name);
        if path.symlink_metadata().is_ok_and(|found| found.is_file()) {
            let old = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
            std::fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(old)
                .unwrap();
        }
    }
    world.run(&["update-index", "-q", "--refresh"]);
}

async fn build(world: &World, tip: &Oid) -> HandedIn {
    let repo = world.repo().await;
    let scratch = world.path().join("scratch");
    let built = index::build(&repo, tip, Owner::AGENT, &[], &scratch, &never())
        .await
        .unwrap();
    assert!(!scratch.exists());
    built
}

/// What git inside says about the user's working tree, and how many files it had to read.
async fn status(world: &World, tip: &Oid, handed: &HandedIn) -> (String, String) {
    let clone = world.clone_of(tip, Some(&handed.bytes)).await;
    world.run_in(&clone.git_dir, &["fsck"]);
    let run = |arguments: &[&str]| {
        let git_dir = clone.git_dir.to_str().unwrap();
        let top = world.top.to_str().unwrap();
        let mut all = vec!["--git-dir", git_dir, "--work-tree", top];
        all.extend_from_slice(arguments);
        world.run_in(&world.top, &all)
    };
    let tree = run(&["write-tree"]);
    assert_eq!(
        tree,
        world.run(&["rev-parse", &format!("{tip}^{{tree}}")]),
        "index is the tip"
    );
    let stale = run(&["diff-files", "--name-only"]);
    (
        run(&["status", "--porcelain", "--ignore-submodules=all"]),
        stale,
    )
}

#[tokio::test]
async fn staged_dirty_and_clean_files() {
    for git in gits() {
        for version in ["2", "4"] {
            let world = World::new(&git);
            for name in [
                "clean",
                "dir/deep/clean",
                "edited",
                "staged",
                "removed",
                "z",
            ] {
                world.write(name, name);
            }
            world.write(".cofferdam/config.yaml", "x");
            let tip = world.commit("last", "x");
            world.run(&["update-index", "--index-version", version]);
            age(&world);
            let (clean, stale) = status(&world, &tip, &build(&world, &tip).await).await;
            assert_eq!((clean.as_str(), stale.as_str()), ("", ""));

            world.write("staged", "STAGED");
            world.write("new", "new");
            world.write("intended", "new");
            world.run(&["add", "staged", "new"]);
            world.run(&["rm", "-q", "--cached", "removed"]);
            world.run(&["add", "-N", "intended"]);
            world.write("edited", "EDITED");
            let before = std::fs::read(world.top.join(".git/index")).unwrap();
            let (seen, stale) = status(&world, &tip, &build(&world, &tip).await).await;
            assert_eq!(seen, " M edited\n M staged\n?? intended\n?? new");
            // `removed` is only looked at again, for nothing is known of it.
            assert_eq!(stale, "edited\nremoved\nstaged");
            assert_eq!(std::fs::read(world.top.join(".git/index")).unwrap(), before);
            // Masked inside: must not look deleted.
            std::fs::remove_file(world.top.join(".cofferdam/config.yaml")).unwrap();
            let (seen, _) = status(&world, &tip, &build(&world, &tip).await).await;
            assert_eq!(seen, " M edited\n M staged\n?? intended\n?? new");
        }
    }
}

#[tokio::test]
async fn an_edit_in_the_second_of_the_index_is_seen() {
    let world = World::new(&gits()[0]);
    let changed = |name: &str| {
        let found = std::fs::metadata(world.top.join(name)).unwrap();
        found.modified().unwrap()
    };
    let second = |time: std::time::SystemTime| {
        let since = time.duration_since(std::time::UNIX_EPOCH);
        since.unwrap().as_secs()
    };
    // On a busy machine it is not always the same one.
    let (tip, stamp) = loop {
        let tip = world.commit("a", "one");
        let stamp = changed("a");
        if second(stamp) == second(changed(".git/index")) {
            break (tip, stamp);
        }
        world.commit("a", "six");
    };
    world.write("a", "two");
    let file = std::fs::File::options()
        .write(true)
        .open(world.top.join("a"))
        .unwrap();
    file.set_modified(stamp).unwrap();
    let handed = build(&world, &tip).await;
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(status(&world, &tip, &handed).await.0, " M a");
}

#[tokio::test]
async fn split_sparse_and_conflicts() {
    for git in gits() {
        let world = World::new(&git);
        for name in ["a", "in/x", "out/deep/y", "out/z"] {
            world.write(name, name);
        }
        let tip = world.commit("last", "x");
        age(&world);
        world.run(&["update-index", "--split-index"]);
        world.write("a", "staged");
        world.run(&["add", "a"]);
        let (seen, stale) = status(&world, &tip, &build(&world, &tip).await).await;
        assert_eq!((seen.as_str(), stale.as_str()), (" M a", "a"), "split");
        world.run(&["update-index", "--no-split-index"]);
        world.run(&["reset", "-q", "--hard"]);

        world.run(&["sparse-checkout", "set", "--cone", "--sparse-index", "in"]);
        assert!(!world.top.join("out").exists());
        let (seen, _) = status(&world, &tip, &build(&world, &tip).await).await;
        assert_eq!(seen, "", "sparse");
        world.run(&["sparse-checkout", "disable"]);

        world.run(&["checkout", "-q", "-b", "side"]);
        world.commit("a", "side");
        world.run(&["checkout", "-q", "main"]);
        let tip = world.commit("a", "main");
        let merge = world
            .command(&world.top)
            .args(["merge", "side"])
            .output()
            .unwrap();
        assert!(!merge.status.success());
        let (seen, _) = status(&world, &tip, &build(&world, &tip).await).await;
        assert_eq!(seen, " M a", "conflict");
    }
}

#[tokio::test]
async fn missing_broken_and_sha256() {
    let git = &gits()[0];
    let world = World::at(git, "r".as_ref(), &["--object-format=sha256"]);
    let tip = world.commit("a", "one");
    age(&world);
    let (seen, stale) = status(&world, &tip, &build(&world, &tip).await).await;
    assert_eq!((seen.as_str(), stale.as_str()), ("", ""));
    for content in [None, Some(&b"garbage"[..])] {
        let path = world.top.join(".git/index");
        std::fs::remove_file(&path).unwrap();
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        // Broken for git too: what it reads for us is of its own making.
        let (seen, _) = status(&world, &tip, &build(&world, &tip).await).await;
        assert_eq!(seen, "");
        world
            .command(&world.top)
            .args(["read-tree", "HEAD"])
            .status()
            .unwrap();
        std::fs::write(&path, b"").unwrap();
    }
}

#[tokio::test]
async fn gitlinks_are_named() {
    let world = World::new(&gits()[0]);
    let sub = world.commit("a", "one");
    world.run(&[
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("160000,{sub},mods/sub"),
    ]);
    world.run(&["commit", "-qm", "link"]);
    std::fs::create_dir_all(world.top.join("mods/sub")).unwrap();
    let tip = world.oid("HEAD");
    let handed = build(&world, &tip).await;
    assert_eq!(handed.gitlinks, [Path::new("mods/sub")]);
    assert_eq!(status(&world, &tip, &handed).await.0, "");
}

#[tokio::test]
async fn a_tree_is_written_from_objects() {
    for git in gits() {
        let world = World::new(&git);
        world.write("dir/run", "#!/bin/sh");
        std::os::unix::fs::symlink("/etc/passwd", world.top.join("link")).unwrap();
        world.write(".gitattributes", "*.bin filter=own\n");
        let tip = world.commit("b.bin", "content");
        world.run(&["config", "filter.own.smudge", "touch canary; cat"]);
        world.write("dir/run", "edited");
        world.write(".env", "secret");
        let target = world.path().join("copy");
        std::fs::create_dir(&target).unwrap();
        let scratch = world.path().join("scratch");
        let repo = world.repo().await;
        let rules = UserRules::default();
        let cancel = never();
        let made = index::write_tree(&repo, &tip, &target, Owner::AGENT, rules, &scratch, &cancel);
        let handed = made.await.unwrap();
        assert!(!scratch.exists());
        assert_eq!(std::fs::read(target.join("dir/run")).unwrap(), b"#!/bin/sh");
        assert!(target.join("link").is_symlink());
        assert!(!target.join(".env").exists() && !target.join("canary").exists());
        let clone = world.clone_of(&tip, Some(&handed.bytes)).await;
        let git_dir = clone.git_dir.to_str().unwrap();
        let in_copy = [
            "--git-dir",
            git_dir,
            "--work-tree",
            target.to_str().unwrap(),
        ];
        for last in [&["status", "--porcelain"][..], &["diff-files"]] {
            assert_eq!(world.run_in(&target, &[&in_copy, last].concat()), "");
        }
    }
}
