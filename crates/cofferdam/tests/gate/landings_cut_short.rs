//! Landings in a checkout that a death, a full disk or the user came between.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cofferdam::git::land::{self, LandError};
use cofferdam::git::{Git, Repository};
use cofferdam::session::Landing;

use super::landings::journal;
use super::world::*;

/// The branch has moved, its checkout has not, and the user took away the lock as git advises.
async fn killed(git: &Path, files: &[(&str, &str)]) -> (World, cofferdam::git::Oid) {
    let w = World::new(git).await;
    let accepted = w.work(files, false).await;
    journal(&w, "update", accepted.tip());
    w.user(&["update-ref", "refs/heads/main", accepted.tip().as_str()]);
    (w, accepted.tip().clone())
}

async fn finish(w: &World) -> land::Landed {
    land::finish(&w.repo, &w.state(), &|_| None, &w.cancel)
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn a_user_who_switched_after_a_crash_has_nothing_staged() {
    for git in gits() {
        let (w, tip) = killed(&git, &[("a.txt", "agent\n"), ("n/new", "n\n")]).await;
        w.user(&["checkout", "-q", "-b", "other"]);
        assert_ne!(w.status(), "");
        assert_landed(&finish(&w).await, &tip);
        assert_eq!(w.status(), "");
        assert_eq!(read(&w.host(), "a.txt"), "agent\n");
        assert_eq!(w.user(&["symbolic-ref", "HEAD"]), "refs/heads/other");
        w.sound();
        // A branch without the commits has the old files by right.
        let (w, tip) = killed(&git, &[("a.txt", "agent\n"), ("n/new", "n\n")]).await;
        w.user(&["checkout", "-q", "secret"]);
        assert_landed(&finish(&w).await, &tip);
        assert_eq!(w.status(), "");
        assert_eq!(read(&w.host(), "a.txt"), "one\ntwo\nthree\n");
        assert_eq!(w.user(&["rev-parse", "main"]), tip.as_str());
        w.sound();
    }
}

#[tokio::test]
async fn what_is_still_behind_a_commit_on_top_is_brought_up() {
    for git in gits() {
        let (w, tip) = killed(&git, &[("a.txt", "agent\n"), ("n/new", "n\n")]).await;
        put(&w.host(), "c.txt", "mine\n");
        put(&w.host(), "staged", "s\n");
        w.user(&["add", "staged"]);
        // Of this one path: the rest of the commit is as HEAD has it, and the index stays behind.
        w.user(&["commit", "-qm", "mine", "--", "c.txt"]);
        assert_landed(&finish(&w).await, &tip);
        assert_eq!(w.status(), "A  staged\n");
        assert_eq!(read(&w.host(), "a.txt"), "agent\n");
        assert_eq!(read(&w.host(), "n/new"), "n\n");
        assert_eq!(w.user(&["show", "HEAD:c.txt"]), "mine");
        w.sound();
    }
}

#[tokio::test]
async fn a_file_that_was_cut_off_is_written_again_and_any_other_is_told() {
    for git in gits() {
        let files = [("a.txt", "a line of the agent\n"), ("n/new", "whole\n")];
        let (w, tip) = killed(&git, &files).await;
        put(&w.host(), "a.txt", "a line of");
        put(&w.host(), "n/new", "");
        let landed = finish(&w).await;
        assert_landed(&landed, &tip);
        assert_eq!(read(&w.host(), "a.txt"), "a line of the agent\n");
        assert_eq!(read(&w.host(), "n/new"), "whole\n");
        assert!(landed.changed_outside.is_empty(), "{landed:?}");
        assert_eq!(w.status(), "");
        w.sound();

        let w = World::new(&git).await;
        std::fs::remove_file(w.inside().join("c.txt")).unwrap();
        let accepted = w.work(&files, false).await;
        journal(&w, "update", accepted.tip());
        w.user(&["update-ref", "refs/heads/main", accepted.tip().as_str()]);
        put(&w.host(), "a.txt", "a line of the user\n");
        put(&w.host(), "c.txt", "the user's\n");
        let landed = finish(&w).await;
        assert_eq!(landed.changed_outside, ["a.txt", "c.txt"]);
        assert_eq!(read(&w.host(), "a.txt"), "a line of the user\n");
        assert_eq!(read(&w.host(), "c.txt"), "the user's\n");
        w.sound();
    }
}

/// Git under a limit for the size of files, as on a disk that is full, where it runs one of `calls`.
async fn confined(w: &World, calls: &str, limit: &str) -> Repository {
    let program = w.dir.path().join("git-on-a-full-disk");
    let script = format!(
        "#!/bin/sh\nfor a; do case $a in {calls}) full=1;; -n) full=;; esac; done\n\
         [ -z \"$full\" ] || {{ trap '' 25; ulimit -f {limit}; }}\nexec '{}' \"$@\"\n",
        w.git.display()
    );
    put(w.dir.path(), "git-on-a-full-disk", &script);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let start = starting_at(&w.host());
    Repository::discover(&Git::new(&program), &start, None, &w.cancel)
        .await
        .unwrap()
}

async fn try_merge(
    w: &World,
    repo: &Repository,
    accepted: &cofferdam::git::gate::Accepted,
) -> Result<land::Landed, LandError> {
    let target = land::Merging {
        start: &w.head(),
        source: None,
        identity: &identity(),
        message: "Merge the sandbox's work\n",
        squash: false,
        has: None,
    };
    let (incoming, state) = (accepted.into(), w.state());
    land::merge_to_head(repo, &target, &incoming, &state, &|_| None, &w.cancel).await
}

#[tokio::test]
async fn what_a_full_disk_cut_short_is_taken_back() {
    for git in gits() {
        let w = World::new(&git).await;
        std::fs::remove_file(w.inside().join("dir/b.txt")).unwrap();
        let big = "x".repeat(100_000);
        let files = [("a.txt", "agent\n"), ("n/big", big.as_str())];
        let accepted = w.work(&files, false).await;
        put(&w.host(), "c.txt", "the user's\n");
        let full = confined(&w, "read-tree", "16").await;
        let landed = try_merge(&w, &full, &accepted).await.unwrap();
        assert_kept(&landed, "could not be written");
        assert_eq!(w.user(&["rev-parse", "main"]), w.base.as_str());
        assert_eq!(w.status(), " M c.txt\n");
        assert_eq!(read(&w.host(), "a.txt"), "one\ntwo\nthree\n");
        assert!(!w.host().join("n").exists());
        w.sound();
        // With room it lands.
        assert_landed(&w.merge(&accepted).await, accepted.tip());
        assert_eq!(read(&w.host(), "n/big"), big);
        assert_eq!(w.status(), " M c.txt\n");
        w.sound();
    }
}

#[tokio::test]
async fn what_cannot_be_taken_back_stays_half_done_and_is_finished() {
    for git in gits() {
        let w = World::new(&git).await;
        let big = "x".repeat(100_000);
        let files = [("a.txt", big.as_str()), ("n/new", "n\n")];
        let accepted = w.work(&files, false).await;
        let full = confined(&w, "read-tree|checkout-index", "0").await;
        let error = try_merge(&w, &full, &accepted).await.unwrap_err();
        assert!(
            matches!(&error, LandError::HalfDone { why } if why.contains("a.txt")),
            "{error}"
        );
        assert!(land::is_half_done(&w.state()));
        assert_landed(&finish(&w).await, accepted.tip());
        assert_eq!(read(&w.host(), "a.txt"), big);
        assert_eq!(read(&w.host(), "n/new"), "n\n");
        assert_eq!(w.status(), "");
        w.sound();
    }
}

#[tokio::test]
async fn commits_are_said_to_be_only_where_they_are() {
    for git in gits() {
        let w = World::new(&git).await;
        let accepted = w.work(&[("a.txt", "agent\n")], false).await;
        let own = accepted.tip_ref();
        w.user(&["branch", "feature", accepted.tip().as_str()]);
        journal(&w, "update", accepted.tip());
        // It had not moved yet when it died, and the user went on.
        w.user(&["commit", "-q", "--allow-empty", "-m", "the user's"]);
        let kept_on = |landed: &land::Landed, name: &str| {
            let right =
                matches!(&landed.landing, Landing::Kept { reference, .. } if reference == name);
            assert!(right, "{landed:?}");
        };
        kept_on(&finish(&w).await, &own);
        w.user(&["update-ref", "-d", &own]);
        journal(&w, "update", accepted.tip());
        kept_on(&finish(&w).await, "feature");
        w.sound();
    }
}
