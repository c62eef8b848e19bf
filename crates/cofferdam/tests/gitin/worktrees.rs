//! Linked worktrees of ours.

use std::os::unix::fs::symlink;

use cofferdam::git::UserRules;
use cofferdam::git::worktree::{self, WorktreeError};
use cofferdam::names::BranchName;

use crate::support::{World, gits, never};

fn branch(name: &str) -> BranchName {
    name.parse().unwrap()
}

#[tokio::test]
async fn from_adding_to_removing() {
    for git in gits() {
        let world = World::new(&git);
        let base = world.commit("a", "one");
        let repo = world.repo().await;
        let config = std::fs::read(repo.common_dir.join("config")).unwrap();
        let one = worktree::add(
            &repo,
            &branch("a/b"),
            Some(&base),
            UserRules::default(),
            &never(),
        )
        .await
        .unwrap();
        let two = worktree::add(
            &repo,
            &branch("a-b"),
            Some(&base),
            UserRules::default(),
            &never(),
        )
        .await
        .unwrap();
        assert_ne!(one.path, two.path);
        assert!(one.created_branch);
        assert_eq!(std::fs::read(one.path.join("a")).unwrap(), b"one");
        assert_eq!(world.run(&["status", "--porcelain", "--ignored=no"]), "");
        assert_eq!(
            std::fs::read(repo.common_dir.join("config")).unwrap(),
            config
        );

        let dirty = async |tip| {
            let scratch = world.path().join("scratch");
            let rules = UserRules::default();
            worktree::dirty(&repo, &one, tip, rules, scratch, &never())
                .await
                .unwrap()
        };
        assert!(dirty(&base).await.is_empty());
        std::fs::write(one.path.join("new"), "x").unwrap();
        assert_eq!(dirty(&base).await.untracked(), 1);
        // The work comes home: the branch moves to what the tree already holds.
        let blob = world.run_in(&one.path, &["hash-object", "-w", "new"]);
        let tree = format!(
            "100644 blob {blob}\tnew\n100644 blob {}\ta\n",
            world.oid("HEAD:a")
        );
        std::fs::write(world.path().join("tree"), tree).unwrap();
        let file = std::fs::File::open(world.path().join("tree")).unwrap();
        let made = world
            .command(&world.top)
            .arg("mktree")
            .stdin(file)
            .output()
            .unwrap();
        let tree = String::from_utf8(made.stdout).unwrap();
        let parent = base.as_str();
        let tip = world.run(&["commit-tree", tree.trim(), "-p", parent, "-m", "x"]);
        world.run(&["update-ref", "refs/heads/a/b", &tip]);
        let tip = tip.parse().unwrap();
        assert!(dirty(&tip).await.is_empty());
        worktree::advance_index(&repo, &one, &tip, &never())
            .await
            .unwrap();
        assert_eq!(world.run_in(&one.path, &["status", "--porcelain"]), "");
        assert!(!world.path().join("scratch").exists());

        let again = worktree::add(&repo, &branch("a/b"), None, UserRules::default(), &never())
            .await
            .unwrap_err();
        assert!(
            matches!(&again, WorktreeError::Preserved { at, .. } if *at == one.path),
            "{again}"
        );
        let found = worktree::Worktree::find(&repo, &one.path, branch("a/b"), tip).unwrap();
        worktree::remove(&repo, &found).unwrap();
        worktree::remove(&repo, &one).unwrap();
        assert!(!one.path.exists());
        assert!(!world.run(&["worktree", "list"]).contains("a-b-"));
        let reused = worktree::add(&repo, &branch("a/b"), None, UserRules::default(), &never())
            .await
            .unwrap();
        assert!(!reused.created_branch);
        assert!(reused.path.join("new").exists());
        worktree::remove(&repo, &reused).unwrap();
        worktree::remove(&repo, &two).unwrap();
        assert!(!repo.common_dir.join("worktrees").exists());
        world.run(&["fsck"]);
    }
}

#[tokio::test]
async fn what_is_refused() {
    for git in gits() {
        let world = World::new(&git);
        let base = world.commit("a", "one");
        world.run(&["branch", "x/y"]);
        let elsewhere = world.path().join("elsewhere");
        world.run(&[
            "worktree",
            "add",
            "-q",
            "-b",
            "user",
            elsewhere.to_str().unwrap(),
        ]);
        let repo = world.repo().await;
        let refs = world.refs();
        let check = async |name: &str| {
            worktree::add(
                &repo,
                &branch(name),
                Some(&base),
                UserRules::default(),
                &never(),
            )
            .await
            .unwrap_err()
        };
        let error = check("main").await;
        assert!(
            matches!(&error, WorktreeError::CheckedOut { at, .. } if *at == world.top),
            "{error}"
        );
        let error = check("user").await;
        assert!(
            matches!(&error, WorktreeError::CheckedOut { at, .. } if *at == elsewhere),
            "{error}"
        );
        for (name, with) in [("x", "x/y"), ("x/y/z", "x/y"), ("main/q/r", "main")] {
            let error = check(name).await;
            assert!(
                matches!(&error, WorktreeError::NameConflict { other, .. } if other == with),
                "{error}"
            );
        }
        let error = worktree::add(&repo, &branch("none"), None, UserRules::default(), &never())
            .await
            .unwrap_err();
        assert!(matches!(error, WorktreeError::NoBranch { .. }), "{error}");
        std::fs::remove_dir_all(repo.config_dir()).unwrap();
        symlink(world.user_home(), repo.config_dir()).unwrap();
        let error = check("new").await;
        assert!(matches!(error, WorktreeError::InTheWay { .. }), "{error}");
        std::fs::remove_file(repo.config_dir()).unwrap();
        world.write(".cofferdam", "a file");
        let error = check("new").await;
        assert!(matches!(error, WorktreeError::InTheWay { .. }), "{error}");
        assert_eq!(world.refs(), refs);
    }
}

#[tokio::test]
async fn a_worktree_that_vanished_is_forgotten_and_the_users_is_not() {
    let world = World::new(&gits()[0]);
    let base = world.commit("a", "one");
    let user = world.path().join("user");
    world.run(&[
        "worktree",
        "add",
        "-q",
        "-b",
        "user",
        user.to_str().unwrap(),
    ]);
    std::fs::remove_dir_all(&user).unwrap();
    let repo = world.repo().await;
    let ours = worktree::add(
        &repo,
        &branch("w"),
        Some(&base),
        UserRules::default(),
        &never(),
    )
    .await
    .unwrap();
    std::fs::remove_dir_all(&ours.path).unwrap();
    worktree::prune(&repo).unwrap();
    assert!(!ours.admin.exists());
    assert!(repo.common_dir.join("worktrees/user").exists());
    worktree::add(&repo, &branch("w"), None, UserRules::default(), &never())
        .await
        .unwrap();
}

#[tokio::test]
async fn looking_at_a_hostile_tree_executes_nothing() {
    for git in gits() {
        let world = World::new(&git);
        world.write(
            "run.sh",
            "#!/bin/sh\ntouch \"$CANARY_DIR/x\"; touch canary; cat\n",
        );
        world.write("data.txt", "data");
        let base = world.commit(".gitattributes", "*.txt filter=own\n");
        world.run(&["config", "filter.own.clean", "sh ./run.sh"]);
        world.run(&["config", "filter.own.smudge", "cat"]);
        let repo = world.repo().await;
        let tree = worktree::add(
            &repo,
            &branch("w"),
            Some(&base),
            UserRules::default(),
            &never(),
        )
        .await
        .unwrap();
        std::fs::write(tree.path.join("data.txt"), "DATA").unwrap();
        let scratch = world.path().join("scratch");
        let changes =
            worktree::dirty(&repo, &tree, &base, UserRules::default(), scratch, &never()).await;
        assert_eq!(changes.unwrap().unstaged(), 1);
        assert!(!tree.path.join("canary").exists());
        // The positive control: plain git does run it.
        world.run_in(&tree.path, &["status"]);
        assert!(tree.path.join("canary").exists());
    }
}

#[tokio::test]
async fn two_at_once_for_one_branch() {
    let world = World::new(&gits()[0]);
    let base = world.commit("a", "one");
    let repo = world.repo().await;
    let name = branch("same");
    let cancel = never();
    let add = || worktree::add(&repo, &name, Some(&base), UserRules::default(), &cancel);
    let (one, two) = tokio::join!(add(), add());
    let (made, refused) = if one.is_ok() { (one, two) } else { (two, one) };
    let made = made.unwrap();
    assert!(
        matches!(refused, Err(WorktreeError::Preserved { .. })),
        "{refused:?}"
    );
    assert!(made.path.join("a").exists());
    assert_eq!(world.oid("same"), base);
}

#[tokio::test]
async fn cancelled_half_way_nothing_is_left() {
    let world = World::new(&gits()[0]);
    let base = world.commit("a", "one");
    let repo = world.repo().await;
    let refs = world.refs();
    for n in 0..8u64 {
        let cancel = never();
        let later = cancel.clone();
        let timer = tokio::spawn(async move {
            tokio::time::sleep(std::time::Duration::from_millis(n * 2)).await;
            later.cancel();
        });
        let name = branch("cut");
        let rules = UserRules::default();
        let done = worktree::add(&repo, &name, Some(&base), rules, &cancel).await;
        timer.await.unwrap();
        if let Ok(made) = done {
            worktree::remove(&repo, &made).unwrap();
            world.run(&["branch", "-q", "-D", "cut"]);
        }
        assert_eq!(world.refs(), refs, "{n}");
        assert_eq!(world.run(&["worktree", "list"]).lines().count(), 1, "{n}");
        assert!(!repo.config_dir().join("worktrees/cut").exists());
    }
}

#[tokio::test]
async fn sparse_checkouts_and_submodules() {
    for git in gits() {
        let world = World::new(&git);
        for name in ["top", "in/x", "out/y"] {
            world.write(name, name);
        }
        let sub = world.commit("last", "x");
        world.run(&[
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("160000,{sub},mods/sub"),
        ]);
        world.run(&["commit", "-qm", "link"]);
        std::fs::create_dir_all(world.top.join("mods/sub")).unwrap();
        world.run(&["sparse-checkout", "set", "--cone", "in"]);
        let base = world.oid("HEAD");
        let repo = world.repo().await;
        let name = branch("w");
        let rules = UserRules::default();
        let made = worktree::add(&repo, &name, Some(&base), rules, &never())
            .await
            .unwrap();
        assert!(made.path.join("in/x").exists() && made.path.join("top").exists());
        assert!(!made.path.join("out").exists());
        assert_eq!(world.run_in(&made.path, &["status", "--porcelain"]), "");
        let scratch = world.path().join("scratch");
        let changes = worktree::dirty(&repo, &made, &base, rules, scratch, &never())
            .await
            .unwrap();
        assert!(changes.is_empty(), "{changes:?}");
        worktree::remove(&repo, &made).unwrap();
    }
}
