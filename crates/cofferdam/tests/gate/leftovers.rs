//! What is cleared away later: trash, leftovers of the dead, nested git directories.

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use cofferdam::git::land::{self};
use cofferdam::git::nested;
use cofferdam::git::refs;
use cofferdam::names::{BranchName, Slug};

use super::world::*;

#[tokio::test]
async fn trash_keeps_and_expires() {
    for git in gits() {
        let w = World::new(&git).await;
        let accepted = w.work(&[("x", "x")], false).await;
        let slug = Slug::from_text("my box").unwrap();
        let name: BranchName = "cofferdam/my-box".parse().unwrap();
        land::branch(
            &w.repo,
            &name,
            land::Expected::New,
            None,
            &accepted,
            &w.cancel,
        )
        .await
        .unwrap();
        let main: BranchName = "main".parse().unwrap();
        let error = refs::delete_branch_to_trash(&w.repo, &main, &w.base, &slug, &w.cancel)
            .await
            .unwrap_err();
        assert!(
            matches!(error, refs::RefError::CheckedOut { .. }),
            "{error}"
        );
        let error = refs::delete_branch_to_trash(&w.repo, &name, &w.base, &slug, &w.cancel)
            .await
            .unwrap_err();
        assert!(matches!(error, refs::RefError::Moved { .. }), "{error}");
        let first = refs::delete_branch_to_trash(&w.repo, &name, accepted.tip(), &slug, &w.cancel)
            .await
            .unwrap();
        assert_eq!(first, "refs/cofferdam/trash/my-box");
        let second = refs::to_trash(
            &w.repo,
            &slug,
            (refs::Was::Commits, &w.base),
            &[],
            &w.cancel,
        )
        .await
        .unwrap();
        assert_eq!(second, "refs/cofferdam/trash/my-box-2");
        // The sandbox's own refs: the tip is in the trash already.
        assert!(
            refs::delete_own(&w.repo, w.id, &slug, &w.cancel)
                .await
                .unwrap()
                .is_empty()
        );
        let now = jiff::Timestamp::now();
        let days = |n: i64| now + jiff::SignedDuration::from_hours(24 * n);
        assert!(
            refs::expire(
                &w.repo,
                &std::collections::BTreeSet::new(),
                days(29),
                &w.cancel
            )
            .await
            .unwrap()
            .is_empty()
        );
        assert_eq!(refs::trash(&w.repo, &w.cancel).await.unwrap().len(), 2);
        assert_eq!(
            refs::expire(
                &w.repo,
                &std::collections::BTreeSet::new(),
                days(31),
                &w.cancel
            )
            .await
            .unwrap()
            .len(),
            2
        );
        w.nothing_else_changed();
        // Without any other holder the tip goes to the trash.
        let accepted = w.work(&[("y", "y")], false).await;
        assert_eq!(
            refs::delete_own(&w.repo, w.id, &slug, &w.cancel)
                .await
                .unwrap(),
            std::slice::from_ref(&first)
        );
        assert_eq!(w.user(&["rev-parse", &first]), accepted.tip().as_str());
    }
}

/// When its sandbox went nobody knows: what a reference alone held is in the trash before it goes.
#[tokio::test]
async fn what_a_forgotten_sandbox_alone_had_goes_through_the_trash() {
    for git in gits() {
        let w = World::new(&git).await;
        let accepted = w.work(&[("x", "x")], false).await;
        let tip = refs::own(w.id, refs::Own::Tip);
        assert_eq!(w.user(&["rev-parse", &tip]), accepted.tip().as_str());
        let now = jiff::Timestamp::now();
        let later = now + jiff::SignedDuration::from_hours(24 * 31);
        // The control: as long as there is a state directory of that id, it stays.
        let alive = BTreeSet::from([w.id]);
        let expired = refs::expire(&w.repo, &alive, later, &w.cancel).await;
        assert_eq!(expired.unwrap(), []);
        let nobody = BTreeSet::new();
        let expired = refs::expire(&w.repo, &nobody, later, &w.cancel).await;
        let trash = format!("refs/cofferdam/trash/{}", w.id);
        let expected = refs::Expired {
            reference: tip,
            trash: Some(trash.clone()),
        };
        assert_eq!(expired.unwrap(), [expected]);
        assert_eq!(w.user(&["rev-parse", &trash]), accepted.tip().as_str());
    }
}

#[tokio::test]
async fn leftovers_of_the_dead_go_and_of_the_living_stay() {
    let git = gits().remove(0);
    let w = World::new(&git).await;
    let objects_dir = w.host().join(".git/objects");
    let dead = format!("incoming-cofferdam-{}-dead", w.id);
    put(&objects_dir, &format!("{dead}/pack/tmp_pack_x"), "x");
    put(&objects_dir, "incoming-abc/pack/tmp_pack_x", "git's own");
    let me = std::process::id();
    let start = cofferdam::process::start_time_of(me).unwrap();
    put(
        &objects_dir,
        "pack/pack-1.keep",
        &format!("cofferdam {} {me} 1", w.id),
    );
    put(&objects_dir, "pack/pack-1.pack", "no index");
    put(
        &objects_dir,
        "pack/pack-2.keep",
        &format!("cofferdam {} {me} {start}", w.id),
    );
    put(&objects_dir, "pack/pack-3.keep", "the user's");
    let alive = objects_dir.join(format!("incoming-cofferdam-{}-alive", w.id));
    std::fs::create_dir(&alive).unwrap();
    let lock = std::fs::File::open(&alive).unwrap();
    #[expect(clippy::disallowed_methods, reason = "as another process has it")]
    lock.lock().unwrap();
    let gone = cofferdam::git::gate::remove_stale(&w.repo).unwrap();
    assert_eq!(gone.len(), 2, "{gone:?}");
    for (path, there) in [
        (dead.as_str(), false),
        ("incoming-abc", true),
        ("pack/pack-1.keep", false),
        ("pack/pack-1.pack", false),
        ("pack/pack-2.keep", true),
        ("pack/pack-3.keep", true),
    ] {
        assert_eq!(objects_dir.join(path).exists(), there, "{path}");
    }
    assert!(alive.exists());
}

#[test]
fn nested_git_entries_move_out() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().join("top");
    let outside = dir.path().join("outside");
    put(&top, "sub/.git/config", "[core]\n\tfsmonitor = evil\n");
    put(&top, "old/.git/config", "the user's");
    put(&top, "file/.git", "gitdir: ../../evil");
    put(&outside, ".git/config", "must stay");
    symlink(&outside, top.join("link")).unwrap();
    let set = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<BTreeSet<_>>();
    let before = set(&["old/.git"]);
    let now = set(&[
        "old/.git",
        "sub/.git",
        "file/.git",
        "link/.git",
        "../outside/.git",
        "missing/.git",
    ]);
    let to = dir.path().join("state/nested");
    let result = land::move_out(&top, &before, &now, &to).unwrap();
    let moved: Vec<_> = result
        .moved
        .iter()
        .map(|(from, _)| from.to_str().unwrap())
        .collect();
    assert_eq!(moved, ["file/.git", "sub/.git"]);
    assert_eq!(result.failed.len(), 2, "{:?}", result.failed);
    assert!(!top.join("sub/.git").exists() && !top.join("file/.git").exists());
    assert!(top.join("old/.git/config").exists());
    assert_eq!(read(&outside, ".git/config"), "must stay");
    let kept = &result.moved[1].1;
    assert!(read(kept, "config").contains("fsmonitor"));
}

/// Root is never kept out, so this is for an ordinary user.
#[test]
fn nested_git_entries_in_closed_directories_move_out() {
    if rustix::process::geteuid().is_root() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let copy = dir.path().join("gate");
        std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        #[expect(
            clippy::disallowed_methods,
            reason = "the tests act as the user and as the sandbox"
        )]
        let done = std::process::Command::new("setpriv")
            .args(["--reuid", "1234", "--regid", "1234", "--clear-groups"])
            .arg(copy)
            .args([
                "--exact",
                "leftovers::nested_git_entries_in_closed_directories_move_out",
            ])
            .current_dir("/")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stdout);
        assert!(
            done.status.success() && text.contains("1 passed"),
            "{text}{}",
            String::from_utf8_lossy(&done.stderr)
        );
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().join("top");
    for place in ["itself", "above", "unlisted", "deep/unlisted", "."] {
        put(&top.join(place), ".git/config", "evil");
    }
    for (place, mode) in [
        ("itself/.git", 0o555),
        ("above", 0o555),
        ("unlisted", 0o111),
        ("deep/unlisted", 0o000),
        ("deep", 0o111),
        (".", 0o111),
    ] {
        std::fs::set_permissions(top.join(place), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let now = nested::scan(&top, nested::Closed::Open).unwrap();
    let to = dir.path().join("state/nested");
    let result = land::move_out(&top, &BTreeSet::new(), &now, &to).unwrap();
    assert!(result.failed.is_empty(), "{:?}", result.failed);
    assert_eq!(result.moved.len(), 4, "{:?}", result.moved);
    assert_eq!(
        nested::scan(&top, nested::Closed::Skip).unwrap(),
        BTreeSet::new()
    );
}
