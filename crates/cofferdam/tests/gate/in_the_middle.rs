//! Landings while the user is in the middle of something in the checkout.

use std::path::Path;

use cofferdam::git::{Git, Repository};
use cofferdam_lab::sample::Sample;

use super::world::*;

/// Name, what begins it, what aborts it.
const BEGUN: [(&str, &[&str], &[&str]); 6] = [
    (
        "a merge",
        &["merge", "-q", "--no-ff", "--no-commit", "side"],
        &["merge", "--abort"],
    ),
    (
        "a cherry-pick",
        &["cherry-pick", "side"],
        &["cherry-pick", "--abort"],
    ),
    ("a revert", &["revert", "side"], &["revert", "--abort"]),
    (
        "a rebase",
        &["rebase", "-q", "--exec", "false", "main~1"],
        &["rebase", "--abort"],
    ),
    (
        "a rebase",
        &["rebase", "-q", "--apply", "apart"],
        &["rebase", "--abort"],
    ),
    ("`git am`", &["am", "-q", "side.patch"], &["am", "--abort"]),
];

/// Branches that conflict with `main`, and the last commit of one as a patch.
fn side(w: &World) {
    w.user(&["checkout", "-q", "-b", "side"]);
    for text in ["one\n", "two\n"] {
        put(&w.host(), "c.txt", text);
        w.user(&["commit", "-qam", text]);
    }
    w.user(&["checkout", "-q", "-b", "apart", "main~1"]);
    put(&w.host(), "c.txt", "apart\n");
    w.user(&["add", "c.txt"]);
    w.user(&["commit", "-qm", "apart"]);
    let patch = w.user(&["format-patch", "-1", "--stdout", "side"]);
    put(&w.host(), "side.patch", &format!("{patch}\n"));
    w.user(&["checkout", "-q", "main"]);
    put(&w.host(), ".git/info/exclude", "side.patch\n");
}

/// Everything that ending or aborting it goes by.
fn picture(w: &World) -> Vec<(String, Vec<u8>)> {
    fn below(dir: &Path, found: &mut Vec<(String, Vec<u8>)>) {
        let Ok(entries) = std::fs::read_dir(dir) else {
            return;
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                below(&path, found);
            } else {
                found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
            }
        }
    }
    let git = w.host().join(".git");
    let mut found = Vec::new();
    for name in ["rebase-merge", "rebase-apply", "sequencer"] {
        below(&git.join(name), &mut found);
    }
    for name in ["HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"] {
        let bytes = std::fs::read(git.join(name)).unwrap_or_default();
        found.push((name.to_owned(), bytes));
    }
    for show in [&["ls-files", "--stage"][..], &["rev-parse", "main", "HEAD"]] {
        found.push((show[0].to_owned(), w.user(show).into_bytes()));
    }
    found.push(("status".to_owned(), w.status().into_bytes()));
    found.sort();
    found
}

#[tokio::test]
async fn nothing_moves_in_the_middle_of_what_the_user_began() {
    let mut sample = Sample::new("in the middle");
    for git in gits() {
        for (what, begin, abort) in BEGUN {
            for is_head in sample.of([true, false], 2) {
                let case = format!("{begin:?}, head: {is_head}");
                let w = World::new(&git).await;
                side(&w);
                let accepted = w.work(&[("a.txt", "agent\n")], false).await;
                let _ = try_git(&git, &w.host(), b"", begin);
                if is_head {
                    put(&w.host(), "a.txt", "agent\n");
                }
                let before = picture(&w);
                let land = async || {
                    if is_head {
                        w.land_head(&accepted).await
                    } else {
                        w.merge(&accepted).await
                    }
                };
                let kept = land().await;
                assert_kept(&kept, &format!("{what} is under way in "));
                assert!(kept.landing.waits_for_the_user(), "{case}");
                assert_eq!(picture(&w), before, "{case}");
                assert_eq!(
                    w.user(&["rev-parse", &accepted.tip_ref()]),
                    accepted.tip().as_str(),
                    "{case}"
                );
                // It can be aborted as if nothing had been, and then the same commits land.
                if is_head {
                    w.user(&["checkout", "-q", "HEAD", "--", "a.txt"]);
                }
                w.user(abort);
                assert_eq!(w.user(&["symbolic-ref", "HEAD"]), "refs/heads/main");
                assert_eq!(w.user(&["rev-parse", "main"]), w.base.as_str(), "{case}");
                assert_eq!(w.status(), "", "{case}");
                assert_landed(&land().await, accepted.tip());
                w.sound();
            }
        }
    }
}

#[tokio::test]
async fn a_search_by_bisect_holds_only_a_head_of_its_own() {
    for git in gits() {
        let mut w = World::new(&git).await;
        let accepted = w.work(&[("a.txt", "agent\n")], true).await;
        w.user(&["checkout", "-q", "--detach"]);
        w.user(&["bisect", "start"]);
        w.repo = Repository::discover(&Git::new(&git), &starting_at(&w.host()), None, &w.cancel)
            .await
            .unwrap();
        assert_kept(&w.land_head(&accepted).await, "a bisect is under way");
        assert_eq!(w.user(&["rev-parse", "HEAD"]), w.base.as_str());
        // One that was begun and forgotten moves no branch.
        w.user(&["symbolic-ref", "HEAD", "refs/heads/main"]);
        w.repo = Repository::discover(&Git::new(&git), &starting_at(&w.host()), None, &w.cancel)
            .await
            .unwrap();
        assert_landed(&w.land_head(&accepted).await, accepted.tip());
        w.sound();
    }
}
