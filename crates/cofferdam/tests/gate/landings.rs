//! Commits that passed the gate land, under each strategy.

use std::path::Path;

use cofferdam::git::land::{self, Expected};
use cofferdam::git::{Git, Oid, Repository};
use cofferdam::names::BranchName;
use cofferdam::session::Landing;

use super::world::*;

#[tokio::test]
async fn branch_lands_by_compare_and_swap() {
    for git in gits() {
        let w = World::new(&git).await;
        let accepted = w.work(&[("x", "x")], false).await;
        let name: BranchName = "feature/a".parse().unwrap();
        let land = async |expected: Expected<'_>| {
            land::branch(&w.repo, &name, expected, None, &accepted, &w.cancel)
                .await
                .unwrap()
        };
        let secret: Oid = w.user(&["rev-parse", "secret"]).parse().unwrap();
        // A branch that exists although none was expected.
        w.user(&["branch", "feature/a", "secret"]);
        assert!(matches!(land(Expected::New).await, Landing::Kept { .. }));
        // One that the commits do not contain, and one that is not where it was said to be.
        assert!(matches!(
            land(Expected::At(&secret)).await,
            Landing::Kept { .. }
        ));
        assert!(matches!(
            land(Expected::At(&w.base)).await,
            Landing::Kept { .. }
        ));
        assert!(matches!(
            land(Expected::OwnAt(&w.base)).await,
            Landing::Kept { .. }
        ));
        assert_eq!(w.user(&["rev-parse", "feature/a"]), secret.as_str());
        // What is there is the sandbox's own, and may be rewritten.
        assert!(matches!(
            land(Expected::OwnAt(&secret)).await,
            Landing::Landed { .. }
        ));
        // Checked out elsewhere.
        w.user(&["branch", "-f", "feature/a", "main"]);
        let tree = w.dir.path().join("tree");
        w.user(&["worktree", "add", "-q", tree.to_str().unwrap(), "feature/a"]);
        assert!(matches!(
            land(Expected::At(&w.base)).await,
            Landing::Kept { .. }
        ));
        // In the sandbox's own worktree it may be.
        let landing = land::branch(
            &w.repo,
            &name,
            Expected::At(&w.base),
            Some(&tree),
            &accepted,
            &w.cancel,
        )
        .await
        .unwrap();
        assert!(matches!(landing, Landing::Landed { .. }), "{landing:?}");
        assert_eq!(w.user(&["rev-parse", "feature/a"]), accepted.tip().as_str());
        w.user(&["worktree", "remove", "--force", tree.to_str().unwrap()]);
        w.user(&["branch", "-D", "feature/a"]);
        assert!(matches!(land(Expected::New).await, Landing::Landed { .. }));
        let log = w.user(&["reflog", "feature/a"]);
        assert!(log.contains(&format!("cofferdam {}", w.id)), "{log}");
        // A branch that is a symbolic ref to main does not write through.
        w.user(&["symbolic-ref", "refs/heads/sym", "refs/heads/main"]);
        let sym: BranchName = "sym".parse().unwrap();
        land::branch(
            &w.repo,
            &sym,
            Expected::At(&w.base),
            None,
            &accepted,
            &w.cancel,
        )
        .await
        .unwrap();
        assert_eq!(w.user(&["rev-parse", "main"]), w.base.as_str());
        w.sound();
    }
}

#[tokio::test]
async fn head_brings_branch_and_index_and_keeps_what_is_staged() {
    for git in gits() {
        let w = World::new(&git).await;
        put(&w.host(), "staged.txt", "mine\n");
        put(&w.host(), "dir/b.txt", "staged by the user\n");
        w.user(&["add", "staged.txt", "dir/b.txt"]);
        w.user(&["rm", "-q", "--cached", "c.txt"]);
        put(&w.host(), "dir/b.txt", "and edited after\n");
        let accepted = w
            .work(
                &[
                    ("a.txt", "agent\n"),
                    ("new/n.txt", "n\n"),
                    ("dir/b.txt", "agent too\n"),
                    ("gone.txt", "g\n"),
                ],
                false,
            )
            .await;
        for path in ["a.txt", "new/n.txt"] {
            put(&w.host(), path, &read(&w.inside(), path));
        }
        put(&w.host(), "gone.txt", "the user wrote something else\n");
        let landed = w.land_head(&accepted).await;
        assert_landed(&landed, accepted.tip());
        assert_eq!(w.user(&["rev-parse", "main"]), accepted.tip().as_str());
        assert_eq!(w.user(&["symbolic-ref", "HEAD"]), "refs/heads/main");
        // `c.txt` staged as deleted is untracked on disk; `dir/b.txt` staged, edited again.
        assert_eq!(
            w.status(),
            "D  c.txt\nMM dir/b.txt\n M gone.txt\nA  staged.txt\n?? c.txt\n"
        );
        assert_eq!(w.user(&["show", ":dir/b.txt"]), "staged by the user");
        assert_eq!(read(&w.host(), "dir/b.txt"), "and edited after\n");
        assert_eq!(landed.changed_outside, ["dir/b.txt", "gone.txt"]);
        // The trap: a later `commit -a` must not revert anything of the agent's.
        w.user(&["commit", "-qam", "the user's"]);
        assert_eq!(w.user(&["show", "HEAD:a.txt"]), "agent");
        assert_eq!(w.user(&["show", "HEAD:new/n.txt"]), "n");
        w.sound();
    }
}

#[tokio::test]
async fn head_with_files_that_become_directories() {
    for git in gits() {
        let w = World::new(&git).await;
        // The agent turns a file into a directory; the user has that file staged.
        put(&w.host(), "a.txt", "staged\n");
        w.user(&["add", "a.txt"]);
        std::fs::remove_file(w.inside().join("a.txt")).unwrap();
        std::fs::remove_file(w.inside().join("c.txt")).unwrap();
        let accepted = w
            .work(&[("a.txt/inner", "i\n"), ("c.txt/inner", "i\n")], false)
            .await;
        std::fs::remove_file(w.host().join("c.txt")).unwrap();
        put(&w.host(), "c.txt/inner", "i\n");
        assert_landed(&w.land_head(&accepted).await, accepted.tip());
        assert_eq!(w.user(&["show", ":a.txt"]), "staged");
        assert_eq!(w.user(&["ls-files", "c.txt"]), "c.txt/inner");
        w.sound();
    }
}

#[tokio::test]
async fn head_gives_way_to_the_user() {
    for git in gits() {
        // They committed.
        let w = World::new(&git).await;
        let accepted = w.work(&[("x", "x\n")], true).await;
        put(&w.host(), "u", "u\n");
        w.user(&["add", "u"]);
        w.user(&["commit", "-qm", "mine"]);
        let mine = w.user(&["rev-parse", "main"]);
        let landed = w.land_head(&accepted).await;
        assert_kept(&landed, "new commits");
        assert_eq!(w.user(&["rev-parse", "main"]), mine);
        assert_eq!(w.status(), "?? x\n");
        w.sound();
        // They switched.
        let w = World::new(&git).await;
        let accepted = w.work(&[("x", "x\n")], true).await;
        w.user(&["checkout", "-qb", "other"]);
        assert_kept(&w.land_head(&accepted).await, "another branch");
        assert_eq!(
            w.user(&["rev-parse", "other", "main"]),
            format!("{0}\n{0}", w.base)
        );
        w.sound();
        // They hold the index lock (an editor is open in `commit -a`).
        let w = World::new(&git).await;
        let accepted = w.work(&[("x", "x\n")], true).await;
        put(&w.host(), ".git/index.lock", "");
        assert_kept(&w.land_head(&accepted).await, "index.lock");
        assert_eq!(w.user(&["rev-parse", "main"]), w.base.as_str());
        std::fs::remove_file(w.host().join(".git/index.lock")).unwrap();
        w.sound();
    }
}

#[tokio::test]
async fn head_detached_and_in_a_linked_worktree() {
    for git in gits() {
        let mut w = World::new(&git).await;
        w.user(&["checkout", "-q", "--detach"]);
        w.repo = Repository::discover(&Git::new(&git), &starting_at(&w.host()), None, &w.cancel)
            .await
            .unwrap();
        let accepted = w.work(&[("x", "x\n")], true).await;
        assert_landed(&w.land_head(&accepted).await, accepted.tip());
        assert_eq!(w.user(&["rev-parse", "HEAD"]), accepted.tip().as_str());
        assert_eq!(w.user(&["rev-parse", "main"]), w.base.as_str());
        assert_eq!(w.status(), "");

        let tree = w.dir.path().join("a tree");
        w.user(&[
            "worktree",
            "add",
            "-q",
            "-b",
            "linked",
            tree.to_str().unwrap(),
            w.base.as_str(),
        ]);
        w.repo = Repository::discover(&Git::new(&git), &starting_at(&tree), None, &w.cancel)
            .await
            .unwrap();
        put(&tree, "x", "x\n");
        assert_landed(&w.land_head(&accepted).await, accepted.tip());
        let (done, _) = try_git(&git, &tree, b"", &["status", "--porcelain", "--branch"]);
        assert_eq!(done.out, "## linked");
        w.sound();
    }
}

#[tokio::test]
async fn merge_fast_forwards_and_updates_the_checkout() {
    for git in gits() {
        let w = World::new(&git).await;
        // Unrelated local work stays.
        put(&w.host(), "c.txt", "edited\n");
        put(&w.host(), "staged", "s\n");
        w.user(&["add", "staged"]);
        put(&w.host(), "untracked", "u\n");
        std::fs::remove_file(w.inside().join("dir/b.txt")).unwrap();
        let accepted = w
            .work(&[("a.txt", "agent\n"), ("deep/er/new", "n\n")], false)
            .await;
        let landed = w.merge(&accepted).await;
        assert_landed(&landed, accepted.tip());
        assert_eq!(read(&w.host(), "a.txt"), "agent\n");
        assert_eq!(read(&w.host(), "deep/er/new"), "n\n");
        assert!(!w.host().join("dir").exists());
        assert_eq!(w.status(), " M c.txt\nA  staged\n?? untracked\n");
        w.sound();
    }
}

#[tokio::test]
async fn merge_makes_a_commit_or_says_what_conflicts() {
    for git in gits() {
        let w = World::new(&git).await;
        put(&w.host(), "mine", "m\n");
        w.user(&["add", "mine"]);
        w.user(&["commit", "-qm", "mine"]);
        let accepted = w.work(&[("a.txt", "agent\n")], false).await;
        let landed = w.merge(&accepted).await;
        let Landing::Landed { branch, tip } = &landed.landing else {
            panic!("{landed:?}")
        };
        assert_eq!(branch, "main");
        assert_eq!(w.user(&["rev-parse", "main^2"]), accepted.tip().as_str());
        assert_eq!(
            w.user(&["log", "-1", "--format=%an %ce %s", tip.as_str()]),
            "U u@example.com Merge the sandbox's work"
        );
        assert_eq!(w.status(), "");
        assert_eq!(read(&w.host(), "a.txt"), "agent\n");
        // Again: it is there already.
        assert_landed(&w.merge(&accepted).await, tip);

        let w = World::new(&git).await;
        put(&w.host(), "a.txt", "the user's line\n");
        w.user(&["commit", "-qam", "mine"]);
        let before = w.all_refs();
        let accepted = w.work(&[("a.txt", "the agent's line\n")], false).await;
        assert_kept(&w.merge(&accepted).await, "a.txt");
        assert_eq!(w.status(), "");
        assert_eq!(read(&w.host(), "a.txt"), "the user's line\n");
        let own = format!("\nrefs/cofferdam/{}/tip {}", w.id, accepted.tip());
        assert_eq!(
            format!("\n{}", w.all_refs()).replace(&own, ""),
            format!("\n{before}")
        );
        assert!(!w.host().join(".git/MERGE_HEAD").exists());
        w.sound();
    }
}

#[tokio::test]
async fn merge_never_overwrites_local_work() {
    for git in gits() {
        for case in ["edited", "staged", "untracked", "ignored", "directory"] {
            let w = World::new(&git).await;
            let file = match case {
                "edited" => {
                    put(&w.host(), "a.txt", "local\n");
                    "a.txt"
                }
                "staged" => {
                    put(&w.host(), "a.txt", "local\n");
                    w.user(&["add", "a.txt"]);
                    "a.txt"
                }
                "untracked" => {
                    put(&w.host(), "new", "local\n");
                    "new"
                }
                "ignored" => {
                    put(&w.host(), ".git/info/exclude", "new\n");
                    put(&w.host(), "new", "local\n");
                    "new"
                }
                _ => {
                    put(&w.host(), ".git/info/exclude", "new\n");
                    put(&w.host(), "new/inner", "local\n");
                    "new/inner"
                }
            };
            let before = w.status();
            let accepted = w
                .work(&[("a.txt", "agent\n"), ("new", "agent\n")], false)
                .await;
            let landed = w.merge(&accepted).await;
            assert_kept(&landed, file.split('/').next().unwrap());
            assert_eq!(w.user(&["rev-parse", "main"]), w.base.as_str(), "{case}");
            assert_eq!(read(&w.host(), file), "local\n", "{case}");
            assert_eq!(w.status(), before, "{case}");
            w.sound();
        }
    }
}

#[tokio::test]
async fn merge_follows_the_recorded_branch() {
    for git in gits() {
        let w = World::new(&git).await;
        let accepted = w.work(&[("a.txt", "agent\n")], false).await;
        w.user(&["checkout", "-q", "secret"]);
        assert_landed(&w.merge(&accepted).await, accepted.tip());
        assert_eq!(w.user(&["rev-parse", "main"]), accepted.tip().as_str());
        assert_eq!(w.user(&["symbolic-ref", "HEAD"]), "refs/heads/secret");
        assert_eq!(w.status(), "");
        w.sound();
        // Checked out in another working tree by now.
        let w = World::new(&git).await;
        let accepted = w.work(&[("a.txt", "agent\n")], false).await;
        w.user(&["checkout", "-q", "secret"]);
        let tree = w.dir.path().join("tree");
        w.user(&["worktree", "add", "-q", tree.to_str().unwrap(), "main"]);
        assert_landed(&w.merge(&accepted).await, accepted.tip());
        assert_eq!(read(&tree, "a.txt"), "agent\n");
        assert_eq!(w.status(), "");
        w.sound();
        // Gone.
        let w = World::new(&git).await;
        let accepted = w.work(&[("a.txt", "agent\n")], false).await;
        w.user(&["checkout", "-q", "secret"]);
        w.user(&["branch", "-qD", "main"]);
        assert_kept(&w.merge(&accepted).await, "gone");
        w.sound();
    }
}

#[tokio::test]
async fn a_landing_that_was_killed_is_finished() {
    for git in gits() {
        for files in ["are_there", "update"] {
            for point in 0..4 {
                let w = World::new(&git).await;
                put(&w.host(), "staged", "s\n");
                w.user(&["add", "staged"]);
                let in_host = files == "are_there";
                let accepted = w
                    .work(
                        &[("a.txt", "agent\n"), ("n/new", "n\n"), ("c.txt", "C\n")],
                        in_host,
                    )
                    .await;
                let git_dir = w.host().join(".git");
                journal(&w, files, accepted.tip());
                // A process that is dead: ours with another start time.
                put(
                    &git_dir,
                    "index.lock",
                    &format!("cofferdam {} {} 1\n", w.id, std::process::id()),
                );
                if point >= 1 {
                    w.user(&["update-ref", "refs/heads/main", accepted.tip().as_str()]);
                }
                if point >= 2 {
                    // A temporary index with its lock, and files half updated.
                    put(&git_dir, &format!("cofferdam-{}.index", w.id), "torn");
                    put(&git_dir, &format!("cofferdam-{}.index.lock", w.id), "torn");
                    put(&w.host(), "a.txt", "agent\n");
                }
                if point >= 3 && files == "update" {
                    put(&w.host(), "n/new", "n\n");
                    std::fs::remove_file(w.host().join("c.txt")).unwrap();
                }
                let landed = land::finish(&w.repo, &w.state(), &|_| None, &w.cancel)
                    .await
                    .unwrap()
                    .unwrap();
                assert_landed(&landed, accepted.tip());
                assert_eq!(w.status(), "A  staged\n", "{files} {point}");
                assert_eq!(read(&w.host(), "c.txt"), "C\n", "{files} {point}");
                assert_eq!(read(&w.host(), "n/new"), "n\n");
                w.sound();
                assert!(
                    land::finish(&w.repo, &w.state(), &|_| None, &w.cancel)
                        .await
                        .unwrap()
                        .is_none()
                );
            }
        }
    }
}

#[tokio::test]
async fn nothing_lands_where_what_an_agent_left_is_not_collected() {
    for git in gits() {
        let w = World::new(&git).await;
        let accepted = w.work(&[("a.txt", "agent\n")], false).await;
        // Whoever opened this would wait for ever.
        let pipe = w.host().join(".gitattributes");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, 0o600.into(), 0).unwrap();
        let target = land::Merging {
            start: &w.head(),
            source: None,
            identity: &identity(),
            message: "Merge the sandbox's work\n",
            squash: false,
            has: None,
        };
        let barred = |top: &Path| (top == w.host()).then(|| "an agent was there".to_owned());
        let incoming = (&accepted).into();
        let state = w.state();
        let landing = land::merge_to_head(&w.repo, &target, &incoming, &state, &barred, &w.cancel);
        let limit = std::time::Duration::from_secs(20);
        let landed = tokio::time::timeout(limit, landing).await.unwrap().unwrap();
        assert_kept(&landed, "an agent was there");
        assert!(!land::is_half_done(&state));
        assert!(!w.host().join(".git/index.lock").exists());
        std::fs::remove_file(&pipe).unwrap();
        assert_landed(&w.merge(&accepted).await, accepted.tip());
        w.sound();
    }
}

/// Whatever the records say: who can write the files holds a lock of the working tree.
#[tokio::test]
async fn nothing_lands_where_somebody_can_write_the_files() {
    for git in gits() {
        let w = World::new(&git).await;
        let accepted = w.work(&[("a.txt", "agent\n")], false).await;
        let git_dir = w.host().join(".git");
        let held = cofferdam::git::occupy(&git_dir, &w.cancel).await.unwrap();
        assert!(held.is_some());
        assert_kept(&w.merge(&accepted).await, "at work");
        drop(held);
        assert_landed(&w.merge(&accepted).await, accepted.tip());
        w.sound();
    }
}

#[tokio::test]
async fn a_landing_that_waits_can_be_cancelled() {
    for git in gits() {
        let w = World::new(&git).await;
        let accepted = w.work(&[("a.txt", "agent\n")], false).await;
        // Looked at by content, for which git asks the attributes first.
        put(&w.host(), "c.txt", &read(&w.host(), "c.txt"));
        let pipe = w.host().join(".gitattributes");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, 0o600.into(), 0).unwrap();
        let cancel = w.cancel.child_token();
        let target = land::Merging {
            start: &w.head(),
            source: None,
            identity: &identity(),
            message: "Merge the sandbox's work\n",
            squash: false,
            has: None,
        };
        let incoming = (&accepted).into();
        let state = w.state();
        let landing = land::merge_to_head(&w.repo, &target, &incoming, &state, &|_| None, &cancel);
        tokio::pin!(landing);
        let lock = w.host().join(".git/index.lock");
        let limit = std::time::Duration::from_secs(20);
        let locked = tokio::time::timeout(limit, async {
            while !lock.exists() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        });
        tokio::select! {
            done = &mut landing => panic!("it did not wait: {done:?}"),
            locked = locked => locked.unwrap(),
        }
        cancel.cancel();
        let landed = tokio::time::timeout(limit, landing).await.unwrap();
        assert!(landed.is_err(), "{landed:?}");
        assert!(!lock.exists());
        assert!(!land::is_half_done(&state));
        assert_eq!(w.user(&["rev-parse", "main"]), w.base.as_str());
    }
}

/// As a landing leaves it that is killed.
pub(crate) fn journal(w: &World, files: &str, new: &Oid) {
    let bytes = |path: &Path| format!("{:?}", path.to_string_lossy().as_bytes());
    let journal = format!(
        r#"{{"version":1,"id":"{}","files":"{files}","reference":"refs/heads/main","old":"{}","new":"{}","git_dir":{},"top":{}}}"#,
        w.id,
        w.base,
        new,
        bytes(&w.host().join(".git")),
        bytes(&w.host()),
    );
    put(&w.state(), "landing.json", &journal);
}

#[tokio::test]
async fn what_the_user_wrote_after_a_crash_stays() {
    for git in gits() {
        let w = World::new(&git).await;
        let accepted = w.work(&[("a.txt", "agent\n"), ("new", "n\n")], false).await;
        journal(&w, "update", accepted.tip());
        w.user(&["update-ref", "refs/heads/main", accepted.tip().as_str()]);
        put(&w.host(), "a.txt", "the user's\n");
        put(&w.host(), "new", "the user's as well\n");
        let landed = land::finish(&w.repo, &w.state(), &|_| None, &w.cancel)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(landed.changed_outside, ["a.txt", "new"]);
        assert_eq!(read(&w.host(), "a.txt"), "the user's\n");
        assert_eq!(read(&w.host(), "new"), "the user's as well\n");
        assert_eq!(w.status(), " M a.txt\n M new\n");
        w.sound();
    }
}

#[tokio::test]
async fn what_the_user_committed_after_a_crash_is_told() {
    for git in gits() {
        let w = World::new(&git).await;
        let accepted = w.work(&[("a.txt", "agent\n")], false).await;
        journal(&w, "update", accepted.tip());
        w.user(&["update-ref", "refs/heads/main", accepted.tip().as_str()]);
        // The index is the old one still, and git commits it whole.
        w.user(&["commit", "-q", "--allow-empty", "-m", "the user's"]);
        let landed = land::finish(&w.repo, &w.state(), &|_| None, &w.cancel)
            .await
            .unwrap()
            .unwrap();
        let short = accepted.tip().short();
        assert_kept(&landed, &format!("see `git diff {short} main`"));
        assert!(
            matches!(&landed.landing, Landing::Kept { reference, .. } if reference == "main"),
            "{landed:?}"
        );
        w.sound();
    }
}
