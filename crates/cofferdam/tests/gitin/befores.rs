//! The before-ref.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use cofferdam::git::UserRules;
use cofferdam::git::before::{self, Before, BeforeLimits, NotRecorded};
use cofferdam::git::identity::user_config;
use cofferdam::git::nested;
use cofferdam::git::walked::IndexAt;
use cofferdam::names::SandboxId;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};

use crate::support::{World, gits, never};

async fn record(world: &World, limits: BeforeLimits) -> (Option<Before>, SandboxId) {
    let repo = world.repo().await;
    let home = world.user_home();
    let config = user_config(&repo, Some(&home), &never()).await.unwrap();
    let rules = UserRules {
        config: Some(&config),
        caller_home: Some(&home),
    };
    let id = SandboxId::random().unwrap();
    let scratch = world.path().join("scratch");
    let hidden = [PathBuf::from("hidden")];
    let index = IndexAt {
        path: repo.git_dir.join("index"),
        format: repo.format,
    };
    let found = nested::scan_compared(&world.top, &index).unwrap();
    let cancel = never();
    let look = async |walked| {
        let done = before::look(&repo, rules, &hidden, scratch.clone(), walked, &cancel);
        done.await.unwrap()
    };
    let walked = look(found.walked.as_ref()).await.changes().clone();
    let seen = look(None).await;
    assert_eq!(&walked, seen.changes());
    let is_clean = seen.changes().is_empty();
    let done = before::record(&repo, seen, id, limits, &never())
        .await
        .unwrap();
    assert_eq!(is_clean, done.is_none());
    assert!(!scratch.exists());
    (done, id)
}

#[tokio::test]
async fn everything_is_recorded_and_nothing_touched() {
    for git in gits() {
        let world = World::new(&git);
        for name in ["kept", "edited", "staged", "both", "gone", "sub dir/x"] {
            world.write(name, name);
        }
        let head = world.commit(".gitignore", "ignored\n");
        assert_eq!(record(&world, BeforeLimits::default()).await.0, None);
        world.write("edited", "EDITED");
        world.write("staged", "STAGED");
        world.write("both", "index side");
        world.run(&["add", "staged", "both"]);
        world.write("both", "work side");
        std::fs::remove_file(world.top.join("gone")).unwrap();
        world.write("new dir/ü\n\"q\"", "new");
        world.write(std::ffi::OsStr::from_bytes(b"raw\xff"), "raw");
        world.write("intended", "later");
        world.run(&["add", "-N", "intended"]);
        world.write("ignored", "ignored");
        world.write("globally", "ignored by the user");
        std::fs::write(world.user_home().join("excl"), "globally\n").unwrap();
        world.run(&["config", "--global", "core.excludesFile", "~/excl"]);
        std::fs::create_dir(world.top.join("embedded")).unwrap();
        world.run_in(&world.top.join("embedded"), &["init", "-q"]);
        std::fs::write(world.top.join("embedded/f"), "x").unwrap();

        let (status, index) = (
            world.run(&["status", "--porcelain"]),
            std::fs::read(world.top.join(".git/index")),
        );
        let (done, id) = record(&world, BeforeLimits::default()).await;
        let done = done.unwrap();
        assert_eq!(world.run(&["status", "--porcelain"]), status);
        assert_eq!(
            std::fs::read(world.top.join(".git/index")).unwrap().len(),
            index.unwrap().len()
        );
        assert_eq!(world.oid(&before::reference(id)), done.commit);
        let commit = done.commit.as_str();
        assert_eq!(world.oid(&format!("{commit}^1")), head);
        let show = |name: &str| world.run(&["show", &format!("{commit}{name}")]);
        assert_eq!(show(":edited"), "EDITED");
        assert_eq!(show(":both"), "work side");
        assert_eq!(show("^2:both"), "index side");
        assert_eq!(show("^2:edited"), "edited");
        let names = world.run(&["ls-tree", "-r", "-z", "--name-only", commit]);
        for name in ["kept", "intended", "new dir/ü\n\"q\"", "raw\u{fffd}"] {
            assert!(
                names.split('\0').any(|listed| listed == name),
                "{name}: {names:?}"
            );
        }
        for name in ["gone", "ignored", "globally", "embedded"] {
            assert!(
                names.split('\0').all(|listed| !listed.starts_with(name)),
                "{name}"
            );
        }
        assert_eq!(
            done.not_recorded,
            [("embedded/".into(), NotRecorded::Repository)]
        );
        world.run(&["fsck"]);
    }
}

/// A checkout that nobody changed for an hour, with a git that tells what it is asked.
fn settled() -> World {
    let mut world = World::new(&gits()[0]);
    let names = ["a", "b/c", "empty", "node_modules/tracked", ".gitignore"];
    for name in names {
        world.write(name, name);
    }
    world.write("empty", "");
    world.write(".gitignore", "node_modules\n*.log\n");
    world.run(&["add", "--force", "."]);
    world.commit("a", "text");
    let old = SystemTime::now() - Duration::from_secs(3600);
    for name in names {
        let file = File::options().write(true).open(world.top.join(name));
        file.unwrap().set_modified(old).unwrap();
    }
    std::os::unix::fs::symlink("a", world.top.join("link")).unwrap();
    let link = world.top.join("link");
    let times = Timestamps {
        last_access: seconds(1_600_000_000),
        last_modification: seconds(1_600_000_000),
    };
    rustix::fs::utimensat(CWD, &link, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    world.run(&["add", "."]);
    world.run(&["commit", "-q", "-m", "link"]);
    let git = world.path().join("git");
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> {}\nexec git \"$@\"\n",
        world.path().join("asked").display()
    );
    std::fs::write(&git, script).unwrap();
    std::fs::set_permissions(&git, Permissions::from_mode(0o755)).unwrap();
    world.git = git;
    world
}

fn seconds(tv_sec: i64) -> Timespec {
    Timespec { tv_sec, tv_nsec: 0 }
}

/// Where git looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    Paths,
    All,
}
use Asked::{All, Nothing, Paths};

/// What a walk of the files finds beyond doubt, git is not asked again.
#[tokio::test]
async fn git_looks_where_a_walk_leaves_a_doubt() {
    type Change = fn(&World);
    let changes: [(&str, Asked, Change); 20] = [
        ("nothing", Nothing, |_| {}),
        ("ignored", Nothing, |world| {
            world.write("node_modules/deep/er/untracked", "x");
            world.write("b/x.log", "x");
            world.write(":(top)x.log", "x");
        }),
        ("Cofferdam's own", Nothing, |world| {
            world.write(".cofferdam/x", "x");
        }),
        ("new", Paths, |world| world.write("b/new", "x")),
        ("new directories", Paths, |world| {
            world.write("new/er/x", "x");
            world.write("new/er/x.log", "x");
            world.write("new/x.log/x", "x");
            world.write(":(glob)**/x", "x");
        }),
        ("nothing in it", Paths, |world| {
            std::fs::create_dir_all(world.top.join("new/er")).unwrap();
        }),
        ("as long, and as old", Paths, |world| {
            let file = File::options().write(true).open(world.top.join("a"));
            let mut file = file.unwrap();
            let before = file.metadata().unwrap().modified().unwrap();
            file.write_all(b"TEXT").unwrap();
            file.set_modified(before).unwrap();
        }),
        ("younger, and the same", Paths, |world| {
            world.write("a", "text");
        }),
        ("gone", Paths, |world| {
            std::fs::remove_file(world.top.join("empty")).unwrap();
        }),
        ("its directory gone", Paths, |world| {
            std::fs::remove_dir_all(world.top.join("b")).unwrap();
        }),
        ("executable", Paths, |world| {
            let mode = Permissions::from_mode(0o755);
            std::fs::set_permissions(world.top.join("a"), mode).unwrap();
        }),
        ("a link in its place", Paths, |world| {
            std::fs::remove_file(world.top.join("a")).unwrap();
            std::os::unix::fs::symlink("b/c", world.top.join("a")).unwrap();
        }),
        ("a directory in its place", Paths, |world| {
            std::fs::remove_file(world.top.join("a")).unwrap();
            world.write("a/x.log", "x");
            world.write("a/x", "x");
        }),
        ("a file in the place of its directory", Paths, |world| {
            std::fs::remove_dir_all(world.top.join("b")).unwrap();
            world.write("b", "x");
        }),
        ("just now", Paths, |world| {
            let index = File::open(world.top.join(".git/index")).unwrap();
            let a = world.top.join("a").metadata().unwrap();
            index.set_modified(a.modified().unwrap()).unwrap();
        }),
        ("many", All, |world| {
            (0..100).for_each(|n| world.write(format!("b/{n}"), "x"));
        }),
        ("staged", All, |world| {
            world.run(&["rm", "-q", "--cached", "b/c"]);
            world.write(".git/info/exclude", "c\n");
        }),
        ("a commit behind", All, |world| {
            world.run(&["reset", "-q", "--soft", "HEAD~"]);
        }),
        ("not to be looked at", All, |world| {
            world.run(&["update-index", "--assume-unchanged", "a"]);
        }),
        ("a repository", All, |world| {
            world.run(&["init", "-q", "node_modules/inner"]);
        }),
    ];
    for (what, wanted, change) in changes {
        let world = settled();
        change(&world);
        let repo = world.repo().await;
        let index = IndexAt {
            path: repo.git_dir.join("index"),
            format: repo.format,
        };
        let found = nested::scan_compared(&world.top, &index).unwrap();
        let cancel = never();
        let look = async |walked| {
            let scratch = world.path().join("scratch");
            let done = before::look(&repo, UserRules::default(), &[], scratch, walked, &cancel);
            done.await.unwrap().changes().clone()
        };
        let log = world.path().join("asked");
        let _ = std::fs::remove_file(&log);
        let walked = look(found.walked.as_ref()).await;
        let log = std::fs::read_to_string(log).unwrap_or_default();
        let asked = log.lines().find(|line| line.contains(" status "));
        let asked = asked.map_or(
            Nothing,
            |line| if line.ends_with(" --") { All } else { Paths },
        );
        assert_eq!(asked, wanted, "{what}: {log}");
        assert_eq!(walked, look(None).await, "{what}");
    }
}

#[tokio::test]
async fn conflicts_pipes_limits_and_submodules() {
    for git in gits() {
        let world = World::new(&git);
        world.commit("a", "base");
        world.run(&["checkout", "-q", "-b", "side"]);
        world.commit("a", "side");
        world.run(&["checkout", "-q", "main"]);
        // A populated submodule whose configuration must not be obeyed.
        let sub = world.top.join("sub");
        world.run(&["init", "-q", "sub"]);
        world.run_in(
            &sub,
            &[
                "-c",
                "user.name=x",
                "-c",
                "user.email=x",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "s",
            ],
        );
        world.run(&["-c", "advice.addEmbeddedRepo=false", "add", "sub"]);
        world.commit("a", "main");
        let canary = world.path().join("canary");
        let monitor = format!("touch '{}'; false", canary.display());
        world.run_in(&sub, &["config", "core.fsmonitor", &monitor]);
        std::fs::write(sub.join("file"), "dirty").unwrap();
        assert!(
            !world
                .command(&world.top)
                .args(["merge", "-q", "side"])
                .status()
                .unwrap()
                .success()
        );
        let _ = std::fs::remove_file(&canary);
        world.write("large", vec![b'x'; 5000]);
        world.write("small", "x");
        let (done, _) = record(
            &world,
            BeforeLimits {
                file: 4096,
                total: 1 << 20,
            },
        )
        .await;
        let done = done.unwrap();
        assert!(!done.staged);
        assert_eq!(done.not_recorded, [("large".into(), NotRecorded::TooLarge)]);
        assert!(
            world
                .run(&["show", &format!("{}:a", done.commit)])
                .contains("<<<<<<<")
        );
        assert_eq!(world.run(&["show", &format!("{}:small", done.commit)]), "x");
        assert!(world.run(&["status", "--porcelain"]).contains("UU a") || canary.exists());
        // The positive control: plain git obeys it. Our own calls did not.
        let _ = std::fs::remove_file(&canary);
        record(&world, BeforeLimits::default()).await;
        assert!(!canary.exists());
        world.run(&["status"]);
        assert!(canary.exists());
    }
}

#[tokio::test]
async fn in_a_linked_worktree_detached() {
    let world = World::new(&gits()[0]);
    world.commit("a", "one");
    let linked = world.path().join("linked tree");
    world.run(&[
        "worktree",
        "add",
        "-q",
        "--detach",
        linked.to_str().unwrap(),
    ]);
    let world = World {
        top: linked,
        ..world
    };
    world.write("a", "two");
    let (done, _) = record(&world, BeforeLimits::default()).await;
    assert_eq!(
        world.run(&["show", &format!("{}:a", done.unwrap().commit)]),
        "two"
    );
}

#[tokio::test]
async fn kinds_that_changed_and_files_that_cannot_be_read() {
    for git in gits() {
        let world = World::new(&git);
        for name in ["dir/x", "dir/y", "link dir/x", "file", "plain"] {
            world.write(name, name);
        }
        world.commit("last", "x");
        std::fs::remove_dir_all(world.top.join("dir")).unwrap();
        world.write("dir", "now a file");
        std::fs::remove_dir_all(world.top.join("link dir")).unwrap();
        std::os::unix::fs::symlink("dir2", world.top.join("link dir")).unwrap();
        world.write("dir2/x", "x");
        std::fs::remove_file(world.top.join("file")).unwrap();
        world.write("file/inside", "inside");
        world.write("secret", "no");
        let locked = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(world.top.join("secret"), locked).unwrap();
        let (done, _) = record(&world, BeforeLimits::default()).await;
        let done = done.unwrap();
        let names = world.run(&["ls-tree", "-r", "--name-only", done.commit.as_str()]);
        let mut want = vec!["dir", "dir2/x", "file/inside", "last", "link dir", "plain"];
        if rustix::process::geteuid().is_root() {
            want.push("secret");
        } else {
            assert_eq!(
                done.not_recorded,
                [("secret".into(), NotRecorded::Unreadable)]
            );
        }
        assert_eq!(names.lines().collect::<Vec<_>>(), want);
    }
}

#[tokio::test]
async fn secrets_and_what_is_hidden_stay_out() {
    for git in gits() {
        let world = World::new(&git);
        world.write("hidden/tracked", "old");
        world.write(".cofferdam/.env", "KEY=old");
        world.run(&["add", "-Af"]);
        let head = world.commit("a", "a");
        for name in [".cofferdam/.env", "hidden/tracked", "hidden/new"] {
            world.write(name, "SECRET-VALUE");
        }
        let (done, _) = record(&world, BeforeLimits::default()).await;
        assert_eq!(done, None, "nothing else differs");
        // Staged by mistake, and beside real work.
        world.run(&["add", "-Af"]);
        world.write(".cofferdam/logs/l", "SECRET-VALUE");
        world.write("b", "b");
        let (done, _) = record(&world, BeforeLimits::default()).await;
        let commit = done.unwrap().commit;
        let names = |one: &str| world.run(&["ls-tree", "-r", "--name-only", one]);
        assert_eq!(
            names(commit.as_str()),
            ".cofferdam/.env\na\nb\nhidden/tracked"
        );
        for one in [format!("{commit}"), format!("{commit}^2")] {
            assert_eq!(
                world.run(&["show", &format!("{one}:hidden/tracked")]),
                "old"
            );
            let env = world.run(&["show", &format!("{one}:.cofferdam/.env")]);
            assert_eq!(env, "KEY=old");
        }
        let diff = world.run(&["diff", "--name-only", head.as_str(), &format!("{commit}^2")]);
        assert_eq!(diff, "");
    }
}
