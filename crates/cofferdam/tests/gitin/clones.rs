//! The vault and private clones.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use cofferdam::git::Git;
use cofferdam::git::identity::user_config;
use cofferdam::git::private_clone::{PrivateHead, read_refs};
use cofferdam::git::vault::{Vault, VaultError};

use crate::support::{World, gits, has, never};

#[tokio::test]
async fn a_private_clone_has_its_history_and_nothing_else() {
    for git in gits() {
        let world = World::new(&git);
        let first = world.commit("a", "one");
        world.run(&["checkout", "-q", "-b", "other"]);
        let other = world.commit("secret", "on another branch");
        let secret = world.oid("other:secret");
        world.run(&["checkout", "-q", "main"]);
        world.write("a", "stashed");
        world.run(&["stash"]);
        let stash = world.oid("stash");
        world.write("dangling", "dangling");
        let dangling = world.run(&["hash-object", "-w", "dangling"]);
        std::fs::remove_file(world.top.join("dangling")).unwrap();
        let tip = world.commit("b", "two");
        // What the other branch's objects are packed with must not matter.
        world.run(&["repack", "-adq"]);
        let refs = world.refs();

        // Exported before, so that its packs lie in the same vault.
        world.export(&other).await;
        let clone = world.clone_of(&tip, None).await;
        let git_dir = &clone.git_dir;
        assert_eq!(
            world.run_in(git_dir, &["rev-parse", "HEAD", "HEAD^"]),
            format!("{tip}\n{first}")
        );
        assert_eq!(
            world.run_in(git_dir, &["symbolic-ref", "HEAD"]),
            "refs/heads/work/x"
        );
        assert_eq!(
            world.run_in(git_dir, &["for-each-ref", "--format=%(refname)"]),
            "refs/heads/work/x"
        );
        assert_eq!(world.run_in(git_dir, &["show", "HEAD:b"]), "two");
        world.run_in(git_dir, &["fsck", "--full", "--strict"]);
        let identity = world.run_in(git_dir, &["var", "GIT_AUTHOR_IDENT"]);
        assert!(identity.starts_with("A \"b\" \\c <a@b>"), "{identity}");
        assert!(has(&world, &clone, first.as_str()));
        for hidden in [other.as_str(), secret.as_str(), stash.as_str(), &dangling] {
            assert!(!has(&world, &clone, hidden), "{hidden} is visible");
        }
        assert_eq!(world.refs(), refs);
        world.run(&["fsck"]);
        let seen = read_refs(git_dir, world.repo().await.format, None).unwrap();
        assert_eq!(
            seen.head,
            Some(PrivateHead::Symbolic(b"refs/heads/work/x".to_vec()))
        );
        assert_eq!(seen.head_commit(), Some(&tip));
        let pack = std::fs::read_dir(clone.vault.join("pack"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(pack.metadata().unwrap().mode() & 0o222, 0);
        assert_eq!(
            std::fs::metadata(world.home().path())
                .unwrap()
                .permissions()
                .mode()
                & 0o77,
            0
        );
    }
}

#[tokio::test]
async fn a_known_tip_costs_no_process_and_chains_stay_short() {
    let world = World::new(&gits()[0]);
    let mut tip = world.commit("a", "0");
    let repo = world.repo().await;
    let vault = Vault::open(&world.home(), &repo).unwrap();
    let mut longest = 0;
    for n in 1..40 {
        tip = world.commit("a", &n.to_string());
        let export = vault.export(&repo, &tip, &never()).await.unwrap();
        longest = longest.max(export.packs.len());
    }
    assert!((2..=16).contains(&longest), "{longest}");
    let clone = world.clone_of(&tip, None).await;
    world.run_in(&clone.git_dir, &["fsck", "--full"]);
    assert_eq!(
        world.run_in(&clone.git_dir, &["rev-list", "--count", "HEAD"]),
        "40"
    );
    let mut broken = repo.clone();
    broken.git = Git::new("/nonexistent");
    vault.export(&broken, &tip, &never()).await.unwrap();
    let new = world.commit("a", "new");
    assert!(matches!(
        vault.export(&broken, &new, &never()).await,
        Err(VaultError::Git(_))
    ));
}

#[tokio::test]
async fn damage_and_leftovers_are_repaired() {
    let world = World::new(&gits()[0]);
    let tip = world.commit("a", "one");
    let repo = world.repo().await;
    let vault = Vault::open(&world.home(), &repo).unwrap();
    let export = vault.export(&repo, &tip, &never()).await.unwrap();
    let pack = export.packs[0].clone();
    drop(export);
    let directory = world.home().vault(&repo.top);
    std::fs::create_dir_all(directory.join("tmp/4711/pack")).unwrap();
    std::fs::write(directory.join("packs/pack-orphan.pack"), "x").unwrap();
    std::fs::set_permissions(&pack, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&pack, "truncated").unwrap();
    let clone = world.clone_of(&tip, None).await;
    world.run_in(&clone.git_dir, &["fsck", "--full"]);
    assert!(!directory.join("tmp/4711").exists());
    assert!(!directory.join("packs/pack-orphan.pack").exists());
}

#[tokio::test]
async fn exports_at_the_same_time() {
    let world = World::new(&gits()[0]);
    let tips: Vec<_> = (0..6).map(|n| world.commit("a", &n.to_string())).collect();
    let repo = world.repo().await;
    let vault = Vault::open(&world.home(), &repo).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for tip in tips.iter().chain(&tips) {
        let (vault, repo, tip) = (vault.clone(), repo.clone(), tip.clone());
        tasks.spawn(async move { vault.export(&repo, &tip, &never()).await.map(|_| ()) });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    let clone = world.clone_of(&tips[5], None).await;
    assert_eq!(
        world.run_in(&clone.git_dir, &["rev-list", "--count", "HEAD"]),
        "6"
    );
}

#[tokio::test]
async fn shallow_then_whole() {
    for git in gits() {
        let world = World::new(&git);
        for n in 0..5 {
            world.commit("a", &n.to_string());
        }
        let url = format!("file://{}", world.top.display());
        let shallow = World::new(&git);
        let top = shallow.path().join("shallow");
        let top_text = top.to_str().unwrap();
        shallow.run(&["clone", "-q", "--depth=2", &url, top_text]);
        let shallow = World { top, ..shallow };
        let tip = shallow.oid("HEAD");
        let clone = shallow.clone_of(&tip, None).await;
        assert_eq!(
            shallow.run_in(&clone.git_dir, &["rev-list", "--count", "HEAD"]),
            "2"
        );
        shallow.run_in(&clone.git_dir, &["fsck", "--full"]);
        shallow.run(&["fetch", "-q", "--unshallow"]);
        let clone = shallow.clone_of(&tip, None).await;
        assert_eq!(
            shallow.run_in(&clone.git_dir, &["rev-list", "--count", "HEAD"]),
            "5"
        );
    }
}

#[tokio::test]
async fn partial_clones_name_the_next_step() {
    for git in gits() {
        let world = World::new(&git);
        world.commit("a", "old");
        world.commit("a", "new");
        world.run(&["config", "uploadpack.allowFilter", "true"]);
        let url = format!("ssh://nowhere.invalid{}", world.top.display());
        let top = world.path().join("partial");
        let from = format!("file://{}", world.top.display());
        world.run(&[
            "clone",
            "-q",
            "--filter=blob:none",
            &from,
            top.to_str().unwrap(),
        ]);
        let partial = World {
            top,
            ..World::new(&git)
        };
        partial.run(&["remote", "set-url", "origin", &url]);
        let repo = partial.repo().await;
        let vault = Vault::open(&partial.home(), &repo).unwrap();
        let error = vault
            .export(&repo, &partial.oid("HEAD"), &never())
            .await
            .unwrap_err();
        assert!(matches!(error, VaultError::PartialClone { .. }), "{error}");
        drop(world);
    }
}

/// Nor does git that does not know how to be told not to. One that knows is such a one where it is not told.
#[tokio::test]
async fn a_look_at_a_partial_clone_fetches_nothing() {
    for git in gits() {
        let world = World::new(&git);
        world.commit("a", "one");
        world.run(&["config", "uploadpack.allowFilter", "true"]);
        world.run(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
        let top = world.path().join("partial");
        let from = format!("file://{}", world.top.display());
        let to = top.to_str().unwrap();
        world.run(&["clone", "-q", "--filter=blob:none", &from, to]);
        let newer = world.commit("a", "two");
        let older = world.path().join("older-git");
        let script = format!(
            "#!/bin/sh\nunset GIT_NO_LAZY_FETCH\nexec {} \"$@\"\n",
            git.display()
        );
        std::fs::write(&older, script).unwrap();
        std::fs::set_permissions(&older, std::fs::Permissions::from_mode(0o755)).unwrap();
        let partial = World {
            top: top.clone(),
            ..World::new(&older)
        };
        let packs = || {
            std::fs::read_dir(top.join(".git/objects/pack"))
                .unwrap()
                .count()
        };
        let before = packs();
        let repo = partial.repo().await;
        let head = partial.oid("HEAD");
        assert!(!repo.is_ancestor(&newer, &head, &never()).await.unwrap());
        assert_eq!(packs(), before, "{git:?} has fetched");
        // The control: git itself, where nobody keeps it from that.
        partial.run(&["cat-file", "-e", newer.as_str()]);
        assert!(packs() > before);
    }
}

#[tokio::test]
async fn other_formats_and_odd_paths() {
    for git in gits() {
        let mut inits: Vec<Vec<&str>> = vec![vec!["--object-format=sha256"]];
        let probe = World::new(&git);
        let version = probe.run(&["version"]);
        if !version.contains("2.39") {
            inits.push(vec!["--ref-format=reftable"]);
        }
        for init in inits {
            let world = World::at(&git, OsStr::new("repo"), &init);
            let tip = world.commit("a", "one");
            let clone = world.clone_of(&tip, None).await;
            assert_eq!(
                world.run_in(&clone.git_dir, &["show", "HEAD:a"]),
                "one",
                "{init:?}"
            );
        }
        for name in [
            &b"sp ace"[..],
            b"quo\"te\\",
            b"new\nline",
            b"\xff\xfe",
            b"co:lon",
        ] {
            let world = World::at(&git, OsStr::from_bytes(name), &[]);
            let first = world.commit("a", "one");
            world.export(&first).await;
            let tip = world.commit("a", "two");
            let clone = world.clone_of(&tip, None).await;
            assert_eq!(world.run_in(&clone.git_dir, &["show", "HEAD:a"]), "two");
        }
    }
}

#[tokio::test]
async fn an_export_that_dies_at_any_point_leaves_a_usable_vault() {
    let world = World::new(&gits()[0]);
    let mut tip = world.commit("a", "0");
    let repo = world.repo().await;
    let vault = Vault::open(&world.home(), &repo).unwrap();
    let directory = world.home().vault(&repo.top);
    for n in 0..25u64 {
        tip = world.commit("a", &format!("content {n}"));
        let cut = std::time::Duration::from_micros(n * 500);
        // Dropping the future kills git where it is and skips every step that would follow.
        let _ = tokio::time::timeout(cut, vault.export(&repo, &tip, &never())).await;
    }
    drop(vault.export(&repo, &tip, &never()).await.unwrap());
    let clone = world.clone_of(&tip, None).await;
    assert_eq!(
        world.run_in(&clone.git_dir, &["rev-list", "--count", "HEAD"]),
        "26"
    );
    world.run_in(&clone.git_dir, &["fsck", "--full"]);
    let left = std::fs::read_dir(directory.join("tmp")).unwrap().count();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn hooks_and_settings_travel() {
    for git in gits() {
        let world = World::new(&git);
        let tip = world.commit("a", "one");
        let hooks = world.top.join(".git/hooks");
        std::fs::create_dir_all(&hooks).unwrap();
        for (name, mode) in [
            ("pre-commit", 0o755),
            ("pre-push", 0o644),
            ("x.sample", 0o755),
        ] {
            std::fs::write(hooks.join(name), "#!/bin/sh\n").unwrap();
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(hooks.join(name), mode).unwrap();
        }
        std::fs::create_dir_all(world.top.join(".git/info")).unwrap();
        std::fs::write(world.top.join(".git/info/exclude"), "mine\n").unwrap();
        world.run(&["config", "core.autocrlf", "input"]);
        world.run(&["config", "remote.origin.url", "https://token@example.org"]);
        let export = world.export(&tip).await;
        let repo = world.repo().await;
        let make = async || {
            let home = world.user_home();
            let config = user_config(&repo, Some(&home), &never()).await.unwrap();
            assert_eq!(config.identity.as_ref().unwrap().email, "user@example.org");
            world.clone_from(&export, None, &config).await
        };
        let clone = make().await;
        let names = |path: &std::path::Path| {
            let entries = std::fs::read_dir(path).unwrap();
            entries
                .map(|entry| entry.unwrap().file_name())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&clone.hooks), ["pre-commit"]);
        assert_eq!(names(&clone.git_dir.join("hooks")), [""; 0]);
        let get = |git_dir, name| world.run_in(git_dir, &["config", "--get", name]);
        assert_eq!(get(&clone.git_dir, "core.autocrlf"), "input");
        assert_eq!(
            std::fs::read(clone.git_dir.join("info/exclude")).unwrap(),
            b"mine\n"
        );
        let config = std::fs::read_to_string(clone.git_dir.join("config")).unwrap();
        assert!(!config.contains("token"), "{config}");
        let inside = world.top.join(".husky/_");
        world.run(&["config", "core.hooksPath", inside.to_str().unwrap()]);
        let clone = make().await;
        assert_eq!(get(&clone.git_dir, "core.hooksPath"), ".husky/_");
        assert_eq!(names(&clone.hooks), [""; 0]);
        world.run(&["config", "core.hooksPath", "../outside"]);
        let config = std::fs::read_to_string(make().await.git_dir.join("config")).unwrap();
        assert!(!config.contains("hooksPath"), "{config}");
    }
}

#[tokio::test]
async fn through_a_symlink_and_from_a_linked_worktree() {
    for git in gits() {
        let world = World::new(&git);
        world.commit("a", "one");
        let linked = world.path().join("linked");
        world.run(&[
            "worktree",
            "add",
            "-q",
            "-b",
            "side",
            linked.to_str().unwrap(),
        ]);
        let link = world.path().join("link");
        std::os::unix::fs::symlink(&linked, &link).unwrap();
        let world = World { top: link, ..world };
        let tip = world.commit("b", "two");
        let clone = world.clone_of(&tip, None).await;
        assert_eq!(world.run_in(&clone.git_dir, &["show", "HEAD:b"]), "two");
        let repo = world.repo().await;
        assert_eq!(repo.top.as_path(), linked);
    }
}
