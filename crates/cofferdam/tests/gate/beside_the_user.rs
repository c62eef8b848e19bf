//! Landing under `head` while the user edits, stages and commits.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use cofferdam::session::Landing;

use super::world::*;

/// A small reproducible source of choices.
struct Choices(u64);

impl Choices {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// What the user did, as they saw it succeed.
#[derive(Default)]
struct Deeds {
    disk: std::collections::BTreeMap<String, String>,
    staged: std::collections::BTreeMap<String, String>,
    commits: Vec<String>,
}

/// Edits, stages and commits until told to stop.
fn busy_user(
    git: &Path,
    host: &Path,
    seed: u64,
    stop: &std::sync::atomic::AtomicBool,
    deeds: &mut Deeds,
) {
    let mut choices = Choices(seed * 7919 + 1);
    let mut number = 0;
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        let file = format!("mine{}", choices.below(4));
        match choices.below(8) {
            0..3 => {
                number += 1;
                let content = format!("{seed} {number}\n");
                put(host, &file, &content);
                deeds.disk.insert(file, content);
            }
            3..6 => {
                let Some(content) = deeds.disk.get(&file).cloned() else {
                    continue;
                };
                let added = try_git(git, host, b"", &["add", &file]).0.ok;
                if added {
                    deeds.staged.insert(file, content);
                }
            }
            6 => {
                try_git(git, host, b"", &["status"]);
            }
            _ if choices.below(4) == 0
                && try_git(git, host, b"", &["commit", "-qm", "mine"]).0.ok =>
            {
                deeds
                    .commits
                    .push(try_git(git, host, b"", &["rev-parse", "HEAD"]).0.out);
            }
            _ => {}
        }
    }
}

async fn land_beside_a_busy_user(git: &Path, seed: u64) -> bool {
    let w = World::new(git).await;
    let accepted = w
        .work(
            &[("a.txt", "agent\n"), ("agent/new", "n\n"), ("c.txt", "C\n")],
            true,
        )
        .await;
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (git, host, stopped) = (git.to_owned(), w.host(), stop.clone());
    let user = std::thread::spawn(move || {
        let mut deeds = Deeds::default();
        busy_user(&git, &host, seed, &stopped, &mut deeds);
        deeds
    });
    tokio::time::sleep(Duration::from_millis(Choices(seed + 99).below(60))).await;
    let landed = w.land_head(&accepted).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let deeds = user.join().unwrap();
    for (file, content) in &deeds.disk {
        assert_eq!(
            &read(&w.host(), file),
            content,
            "seed {seed}: disk of {file}"
        );
    }
    for (file, content) in &deeds.staged {
        assert_eq!(
            w.user(&["show", &format!(":{file}")]),
            content.trim_end(),
            "seed {seed}: index of {file}"
        );
    }
    let listed: BTreeSet<String> = w
        .user(&["ls-files", "mine*"])
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(
        listed,
        deeds.staged.keys().cloned().collect(),
        "seed {seed}"
    );
    for commit in &deeds.commits {
        w.user(&["merge-base", "--is-ancestor", commit, "main"]);
    }
    assert_eq!(
        w.user(&["rev-parse", &accepted.tip_ref()]),
        accepted.tip().as_str()
    );
    let staged = w.user(&["diff", "--cached", "--name-only"]);
    assert!(
        staged.lines().all(|path| path.starts_with("mine")),
        "seed {seed}: staged {staged}"
    );
    for (path, content) in [("a.txt", "agent\n"), ("agent/new", "n\n"), ("c.txt", "C\n")] {
        assert_eq!(read(&w.host(), path), content, "seed {seed}");
    }
    let is_landed = matches!(landed.landing, Landing::Landed { .. });
    if is_landed {
        w.user(&[
            "merge-base",
            "--is-ancestor",
            accepted.tip().as_str(),
            "main",
        ]);
        for path in ["a.txt", "agent/new", "c.txt"] {
            let at = |at: &str| w.user(&["rev-parse", &format!("{at}:{path}")]);
            assert_eq!(
                at("main"),
                at(accepted.tip().as_str()),
                "seed {seed}: {path}"
            );
        }
    } else {
        let (done, _) = try_git(
            &w.git,
            &w.host(),
            b"",
            &[
                "merge-base",
                "--is-ancestor",
                accepted.tip().as_str(),
                "main",
            ],
        );
        assert!(!done.ok, "seed {seed}: said to be kept, but it landed");
    }
    w.sound();
    is_landed
}

#[tokio::test]
async fn head_beside_a_user_who_edits_stages_and_commits() {
    let gits = gits();
    let mut landed = 0;
    for seed in 0..24 {
        let git = &gits[usize::try_from(seed).unwrap() % gits.len()];
        landed += u32::from(land_beside_a_busy_user(git, seed).await);
    }
    assert!(landed > 0, "never landed: the test shows nothing");
}
