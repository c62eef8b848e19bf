//! The tree store: what lies on disk is what the tree says, and an index that git believes goes with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use cofferdam::git::index::format;
use cofferdam::git::trees::{self, Far, LONGEST_STACK, Stack, Tell, TreeError, Trees};
use cofferdam::git::{Oid, Repository};
use cofferdam_lab::opens::Opens;
use cofferdam_lab::sample::Sample;

use crate::support::{World, gits, never};

/// What a path is: its kind, and what is in it.
type Seen = BTreeMap<PathBuf, (char, Vec<u8>)>;

/// What an overlay of these layers shows, by the rules of the kernel's documentation.
fn shown(stack: &Stack) -> Seen {
    let mut all = Seen::new();
    for layer in stack.layers.iter().rev() {
        let mut waiting = vec![PathBuf::new()];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(layer.join(&directory)).unwrap() {
                let entry = entry.unwrap();
                let path = directory.join(entry.file_name());
                let found = entry.metadata().unwrap();
                let kind = found.file_type();
                let hides = !kind.is_dir() || all.get(&path).is_some_and(|(kind, _)| *kind != 'd');
                if hides {
                    all.retain(|one, _| !one.starts_with(&path));
                }
                if kind.is_char_device() {
                    assert_eq!(found.rdev(), 0);
                } else if kind.is_symlink() {
                    let target = fs::read_link(entry.path()).unwrap();
                    all.insert(path, ('l', target.as_os_str().as_bytes().to_vec()));
                } else if kind.is_dir() {
                    all.insert(path.clone(), ('d', Vec::new()));
                    waiting.push(path);
                } else {
                    let mode = found.permissions().mode() & 0o7777;
                    assert!(matches!(mode, 0o644 | 0o755), "{mode:o}");
                    let kind = if mode == 0o755 { 'x' } else { 'f' };
                    all.insert(path, (kind, fs::read(entry.path()).unwrap()));
                }
            }
        }
    }
    all
}

/// What git has of a commit.
fn expected(world: &World, commit: &Oid) -> Seen {
    let listing = world
        .command(&world.top)
        .args(["ls-tree", "-r", "-t", "-z", commit.as_str()])
        .output()
        .unwrap();
    let lines = listing.stdout.split(|&byte| byte == 0);
    let lines: Vec<(Vec<&str>, PathBuf)> = lines
        .filter(|line| !line.is_empty())
        .map(|line| {
            let tab = line.iter().position(|&byte| byte == b'\t').unwrap();
            let words = std::str::from_utf8(&line[..tab]).unwrap().split(' ');
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(&line[tab + 1..]));
            (words.collect(), path)
        })
        .filter(|(_, path)| !path.starts_with(".cofferdam"))
        .collect();
    let questions = world.path().join("questions");
    let blobs = lines.iter().filter(|(words, _)| words[1] == "blob");
    let blobs: String = blobs.map(|(words, _)| format!("{}\n", words[2])).collect();
    fs::write(&questions, blobs).unwrap();
    let answers = world
        .command(&world.top)
        .args(["cat-file", "--batch"])
        .stdin(fs::File::open(&questions).unwrap())
        .output()
        .unwrap();
    let mut rest = answers.stdout.as_slice();
    let mut content = || {
        let end = rest.iter().position(|&byte| byte == b'\n').unwrap();
        let header = std::str::from_utf8(&rest[..end]).unwrap();
        let size: usize = header.rsplit(' ').next().unwrap().parse().unwrap();
        let content = rest[end + 1..end + 1 + size].to_vec();
        rest = &rest[end + 2 + size..];
        content
    };
    let seen = lines.into_iter().map(|(words, path)| {
        let seen = match words[0] {
            "040000" | "160000" => ('d', Vec::new()),
            "120000" => ('l', content()),
            "100755" => ('x', content()),
            _ => ('f', content()),
        };
        (path, seen)
    });
    seen.collect()
}

/// The index has the ids of all trees just as git writes them: nobody inside has to read or compute one.
fn tree_ids_are_there(world: &World, stack: &Stack, commit: &Oid) {
    let scratch = world.path().join("scratch-index");
    let made = world
        .command(&world.top)
        .env("GIT_INDEX_FILE", &scratch)
        .args(["read-tree", commit.as_str()])
        .output()
        .unwrap();
    assert!(made.status.success());
    let (wanted, there) = (fs::read(&scratch).unwrap(), fs::read(&stack.index).unwrap());
    fs::remove_file(&scratch).unwrap();
    let format = cofferdam::git::ObjectFormat::Sha1;
    let trees = |bytes| {
        format::parse(bytes, format)
            .unwrap()
            .trees
            .unwrap()
            .to_vec()
    };
    let (wanted, there) = (trees(&wanted), trees(&there));
    assert_eq!(
        String::from_utf8_lossy(&there),
        String::from_utf8_lossy(&wanted)
    );
    assert!(there == wanted);
}

async fn stack(world: &World, repo: &Repository, commit: &Oid) -> Stack {
    let trees = Trees::open(&world.home(), repo).unwrap();
    let tree = repo.tree_of(commit, &never()).await.unwrap();
    trees
        .stack(repo, &tree, &Tell::nobody(), &never())
        .await
        .unwrap()
}

/// A plain file that has content, and no name of git's, below it.
fn first_file(root: &Path, below: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(root.join(below)).unwrap();
    entries.map(Result::unwrap).find_map(|entry| {
        let path = below.join(entry.file_name());
        let found = entry.metadata().unwrap();
        let is_gits = entry.file_name().to_string_lossy().starts_with(".git");
        if found.is_dir() {
            return first_file(root, &path);
        }
        let is_one =
            found.is_file() && found.len() > 0 && !is_gits && !path.starts_with(".cofferdam");
        is_one.then_some(path)
    })
}

/// The commit's files as git checks them out of the layers' index say that nothing changed, and not one is read.
fn status_reads_nothing(world: &World, stack: &Stack, commit: &Oid) {
    let room = tempfile::tempdir().unwrap();
    let (files, git_dir) = (room.path().join("files"), room.path().join("git"));
    fs::create_dir(&files).unwrap();
    for layer in stack.layers.iter().rev() {
        // Only without whiteouts is a copy what an overlay shows.
        let from = format!("{}/.", layer.display());
        let done = std::process::Command::new("cp")
            .args(["-a", &from])
            .arg(&files)
            .status();
        assert!(done.unwrap().success());
    }
    world.run(&["init", "-q", "--bare", git_dir.to_str().unwrap()]);
    fs::write(
        git_dir.join("objects/info/alternates"),
        world.top.join(".git/objects").as_os_str().as_bytes(),
    )
    .unwrap();
    fs::copy(&stack.index, git_dir.join("index")).unwrap();
    // As old as it was: git reads a file that is no older than its index.
    let written = fs::metadata(&stack.index).unwrap().modified().unwrap();
    let index = fs::File::options().write(true).open(git_dir.join("index"));
    index.unwrap().set_modified(written).unwrap();
    let git = |arguments: &[&str]| {
        let done = world
            .command(&files)
            .args([
                "--git-dir",
                git_dir.to_str().unwrap(),
                "--work-tree",
                files.to_str().unwrap(),
            ])
            .args([
                "-c",
                "core.checkStat=minimal",
                "-c",
                "core.trustctime=false",
                "-c",
                "core.bare=false",
            ])
            .args(arguments)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        String::from_utf8(done.stdout).unwrap()
    };
    git(&["update-ref", "refs/heads/main", commit.as_str()]);
    git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
    // But for what git asks for its rules.
    let opens = Opens::below(&files).unwrap();
    let opened = || {
        let mut names = opens.names();
        names.retain(|name| !name.starts_with(".git"));
        names
    };
    let without_writing = [
        "--no-optional-locks",
        "status",
        "--porcelain",
        "--ignore-submodules=all",
    ];
    assert_eq!(git(&without_writing), "");
    assert_eq!(opened(), [""; 0]);
    // The control: one whose time says nothing is read.
    let one = stack
        .layers
        .iter()
        .find_map(|layer| first_file(layer, Path::new("")));
    let one = one.unwrap();
    let file = fs::File::open(files.join(&one)).unwrap();
    file.set_modified(SystemTime::now()).unwrap();
    drop(file);
    opened();
    assert_eq!(git(&without_writing), "");
    assert_eq!(opened(), [one.file_name().unwrap().to_str().unwrap()]);
    assert_eq!(git(&["diff-files", "--name-only"]).lines().count(), 1);
    assert_eq!(
        git(&["status", "--porcelain", "--ignore-submodules=all"]),
        ""
    );
    assert_eq!(git(&["diff-files", "--name-only"]), "");
    let listed = git(&["ls-files", "-v"]);
    let ours = listed.lines().filter(|line| line.starts_with('S'));
    assert!(ours.clone().count() > 0);
    for line in ours {
        assert!(line.starts_with("S .cofferdam/"), "{line}");
    }
    git(&["fsck"]);
}

fn some_of_everything(world: &World) -> Oid {
    for number in 0..200 {
        world.write(
            format!("many/{}/file-{number}", number % 7),
            format!("{number}\n"),
        );
    }
    world.write("program", "#!/bin/sh\n");
    fs::set_permissions(world.top.join("program"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("many/1", world.top.join("link")).unwrap();
    world.write("empty", "");
    world.write("large", vec![b'l'; 700_000]);
    world.write("odd:,\\ name\n/x", "odd");
    for name in ["case", "CASE", "cased/a", "Cased/a", "Cased/A"] {
        world.write(name, name);
    }
    world.write("converted.txt", "a\r\nb\r\n");
    world.write(".gitattributes", "*.txt text eol=crlf\n*.bin filter=none\n");
    world.write("a.bin", "binary");
    world.write(".cofferdam/config.yaml", "{}\n");
    world.run(&["add", "-A", "-f"]);
    let id = "1234567890123456789012345678901234567890";
    world.run(&[
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("160000,{id},modules/one"),
    ]);
    world.run(&["commit", "-qm", "everything"]);
    world.oid("HEAD")
}

#[tokio::test]
async fn a_tree_lies_on_disk_as_git_has_it() {
    for git in gits() {
        let world = World::new(&git);
        let commit = some_of_everything(&world);
        let repo = world.repo().await;
        let one = stack(&world, &repo, &commit).await;
        assert_eq!(one.layers.len(), 1);
        assert_eq!(shown(&one), expected(&world, &commit));
        assert!(one.layers[0].join("modules/one").is_dir());
        status_reads_nothing(&world, &one, &commit);
        // Once.
        let made = fs::metadata(&one.index).unwrap();
        let again = stack(&world, &repo, &commit).await;
        assert_eq!(again.layers, one.layers);
        assert_eq!(fs::metadata(&again.index).unwrap().ino(), made.ino());
    }
}

/// Every kind of change on top of every other, as deltas and, where a stack is full, on one layer again.
#[tokio::test]
async fn what_differs_lies_on_top() {
    let git = gits().remove(0);
    let world = World::new(&git);
    for number in 0..1_000 {
        world.write(format!("same/{number}"), "same");
    }
    some_of_everything(&world);
    let repo = world.repo().await;
    let mut numbers = Sample::new("trees");
    let (mut rewritten, mut deltas) = (0, 0);
    for step in 0..30 {
        for _ in 0..=numbers.below(6) {
            change(&world, &mut numbers);
        }
        world.run(&["add", "-A", "-f"]);
        world.run(&["commit", "-qm", "step", "--allow-empty"]);
        let commit = world.oid("HEAD");
        let made = stack(&world, &repo, &commit).await;
        assert!(made.layers.len() <= LONGEST_STACK);
        let (seen, wanted) = (shown(&made), expected(&world, &commit));
        assert!(
            seen == wanted,
            "step {step}, {}: {:?}",
            numbers.again(),
            difference(&seen, &wanted)
        );
        tree_ids_are_there(&world, &made, &commit);
        let listed = world
            .command(&world.top)
            .env("GIT_INDEX_FILE", &made.index)
            .args(["write-tree"])
            .output()
            .unwrap();
        let tree = String::from_utf8(listed.stdout).unwrap();
        assert_eq!(
            tree.trim(),
            world.run(&["rev-parse", "HEAD^{tree}"]),
            "step {step}, {}",
            numbers.again()
        );
        if made.layers.len() > 1 {
            deltas += 1;
        }
        // What follows a full one stands on one that is not.
        if made.layers.len() == LONGEST_STACK && step % 2 == 1 {
            drop(made);
            assert!(rebase(&world, &repo, u64::MAX, &[]).await);
            let made = stack(&world, &repo, &commit).await;
            assert_eq!(made.layers.len(), 1);
            assert!(shown(&made) == wanted, "step {step}");
            tree_ids_are_there(&world, &made, &commit);
            status_reads_nothing(&world, &made, &commit);
            rewritten += 1;
        }
    }
    assert!(rewritten > 1 && deltas > 20, "{rewritten} {deltas}");
}

/// Writes the files that were used last to one layer, where that is to be done.
async fn rebase(world: &World, repo: &Repository, bytes: u64, used: &[&Path]) -> bool {
    let home = world.home();
    let used: BTreeSet<PathBuf> = used.iter().map(|&path| path.to_owned()).collect();
    let Some(tree) = trees::full_stack(&home, repo, bytes, &used).unwrap() else {
        return false;
    };
    let done = trees::rebase(&home, repo, &tree, || Ok(BTreeSet::new()), &never()).await;
    done.unwrap()
}

/// Only a full stack that nobody uses or begins to use, and never half of one.
#[tokio::test]
async fn a_full_stack_becomes_one_layer() {
    let world = World::new(&gits()[0]);
    let home = world.home();
    some_of_everything(&world);
    let repo = world.repo().await;
    assert!(!rebase(&world, &repo, u64::MAX, &[]).await);
    let mut full = None;
    for step in 1..=LONGEST_STACK {
        assert!(!rebase(&world, &repo, u64::MAX, &[]).await, "{step}");
        world.write("many/1/new", format!("{step}"));
        world.run(&["add", "-A", "-f"]);
        world.run(&["commit", "-qm", "step"]);
        let made = stack(&world, &repo, &world.oid("HEAD")).await;
        assert_eq!(made.layers.len(), step);
        full = Some(made);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let commit = world.oid("HEAD");
    let full = full.unwrap();
    let (layers, index) = (
        full.layers.clone(),
        fs::metadata(&full.index).unwrap().ino(),
    );
    let is_as_it_was = || {
        let made = fs::metadata(layers[0].parent().unwrap().join("index")).unwrap();
        let tmp = fs::read_dir(home.trees(&repo.top).join("tmp")).unwrap();
        made.ino() == index && tmp.count() == 0
    };
    // Somebody begins with it; a sandbox stands on it, or has come to; more than may stay.
    assert!(!rebase(&world, &repo, u64::MAX, &[]).await && is_as_it_was());
    drop(full);
    assert!(!rebase(&world, &repo, u64::MAX, &[&layers[0]]).await && is_as_it_was());
    assert!(!rebase(&world, &repo, 1, &[]).await && is_as_it_was());
    let tree = repo.tree_of(&commit, &never()).await.unwrap();
    let late = || Ok(BTreeSet::from([layers[0].clone()]));
    let done = trees::rebase(&home, &repo, &tree, late, &never()).await;
    assert!(!done.unwrap() && is_as_it_was());
    // Another process writes.
    let writing = fs::File::open(home.trees(&repo.top).join("write.lock")).unwrap();
    #[expect(clippy::disallowed_methods, reason = "as another process has it")]
    writing.lock().unwrap();
    assert!(!rebase(&world, &repo, u64::MAX, &[]).await && is_as_it_was());
    writing.unlock().unwrap();
    assert!(rebase(&world, &repo, u64::MAX, &[]).await && !is_as_it_was());
    let made = stack(&world, &repo, &commit).await;
    assert_eq!(made.layers, layers[..1]);
    assert_eq!(shown(&made), expected(&world, &commit));
    drop(made);
    // What comes next is small again, and the old ones go when there is no room.
    world.write("many/1/new", "after");
    world.run(&["add", "-A", "-f"]);
    world.run(&["commit", "-qm", "after"]);
    let next = stack(&world, &repo, &world.oid("HEAD")).await;
    assert_eq!(next.layers[1..], layers[..1]);
    assert_eq!(shown(&next), expected(&world, &world.oid("HEAD")));
    let used = next.layers.iter().cloned().collect();
    drop(next);
    let trimmed = trees::keep(&home, 0, false, || Ok(used)).unwrap();
    assert_eq!(trimmed.layers, LONGEST_STACK as u64 - 1);
}

fn difference<'a>(one: &'a Seen, other: &'a Seen) -> Vec<&'a PathBuf> {
    let differs = |path: &&PathBuf| one.get(*path) != other.get(*path);
    one.keys().chain(other.keys()).filter(differs).collect()
}

fn change(world: &World, numbers: &mut Sample) {
    let directory = format!("many/{}", numbers.below(7));
    let path = world
        .top
        .join(format!("{directory}/file-{}", numbers.below(200)));
    let clear = |path: &Path| {
        let _ = fs::remove_file(path);
        let _ = fs::remove_dir_all(path);
    };
    let parent = path.parent().unwrap();
    if !parent.is_dir() {
        clear(parent);
        fs::create_dir_all(parent).unwrap();
    }
    match numbers.below(8) {
        0 => fs::remove_dir_all(path.parent().unwrap()).unwrap_or_default(),
        1 => clear(&path),
        2 => {
            clear(&path);
            symlink("../elsewhere", &path).unwrap();
        }
        3 => {
            clear(&path);
            fs::create_dir_all(path.join("now/a")).unwrap();
            fs::write(path.join("now/a/directory"), "d").unwrap();
        }
        4 => {
            let whole = world.top.join(&directory);
            clear(&whole);
            fs::write(whole, "a file\n").unwrap();
        }
        5 if path.is_file() => {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        _ => {
            clear(&path);
            fs::write(&path, format!("{}\n", numbers.below(1_000_000))).unwrap();
        }
    }
}

#[tokio::test]
async fn two_at_once_write_it_once() {
    let world = World::new(&gits()[0]);
    let commit = some_of_everything(&world);
    let repo = world.repo().await;
    let tree = repo.tree_of(&commit, &never()).await.unwrap();
    let trees = Trees::open(&world.home(), &repo).unwrap();
    let written = Arc::new(AtomicU64::new(0));
    let tell = {
        let written = Arc::clone(&written);
        Tell::new(move |far| {
            if matches!(far, Far::Wrote { done, of } if done == of) {
                written.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let cancel = never();
    let one = || trees.stack(&repo, &tree, &tell, &cancel);
    let (a, b, c) = tokio::join!(one(), one(), one());
    assert_eq!(a.unwrap().layers, b.unwrap().layers);
    c.unwrap();
    assert_eq!(written.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn who_waits_for_another_writer_hears_of_it() {
    let world = World::new(&gits()[0]);
    let commit = some_of_everything(&world);
    let repo = world.repo().await;
    let tree = repo.tree_of(&commit, &never()).await.unwrap();
    let trees = Trees::open(&world.home(), &repo).unwrap();
    let place = world.home().trees(&repo.top).join("write.lock");
    let other = std::fs::File::create(&place).unwrap();
    rustix::fs::flock(&other, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let (told, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let tell = Tell::new(move |far| told.send(far).unwrap());
    let cancel = never();
    let heard = async {
        assert_eq!(hears.recv().await, Some(Far::Waits));
        drop(other);
        assert_eq!(hears.recv().await, Some(Far::Begins));
    };
    let (stack, ()) = tokio::join!(trees.stack(&repo, &tree, &tell, &cancel), heard);
    stack.unwrap();
}

/// What a death, a cancel or somebody's hand left is made again.
#[tokio::test]
async fn what_is_half_there_is_not_used() {
    let world = World::new(&gits()[0]);
    let first = some_of_everything(&world);
    let repo = world.repo().await;
    let store = world.home().trees(&repo.top);
    // Cancelled while it is written.
    let tree = repo.tree_of(&first, &never()).await.unwrap();
    let trees = Trees::open(&world.home(), &repo).unwrap();
    let cancel = never();
    cancel.cancel();
    let done = trees.stack(&repo, &tree, &Tell::nobody(), &cancel).await;
    assert!(
        matches!(done, Err(TreeError::Cancelled | TreeError::Git(_))),
        "{done:?}"
    );
    assert!(!store.join(tree.as_str()).exists());
    assert_eq!(fs::read_dir(store.join("tmp")).unwrap().count(), 0);
    fs::create_dir_all(store.join("tmp/abandoned/files/x")).unwrap();
    let one = stack(&world, &repo, &first).await;
    assert_eq!(shown(&one), expected(&world, &first));
    assert_eq!(fs::read_dir(store.join("tmp")).unwrap().count(), 0);
    world.write("many/1/new", "new");
    world.run(&["add", "-A", "-f"]);
    world.run(&["commit", "-qm", "second"]);
    let second = world.oid("HEAD");
    let two = stack(&world, &repo, &second).await;
    assert_eq!(two.layers.len(), 2);
    // The base is gone: the delta means nothing without it.
    drop((one, two));
    fs::remove_dir_all(store.join(tree.as_str())).unwrap();
    let two = stack(&world, &repo, &second).await;
    assert_eq!(two.layers.len(), 1);
    assert_eq!(shown(&two), expected(&world, &second));
    // Another boot, and not known to be on the disk.
    let place = two.layers[0].parent().unwrap().to_owned();
    drop(two);
    let about = place.join("about");
    let text = fs::read_to_string(&about).unwrap();
    let boot = text.lines().find(|line| line.starts_with("boot ")).unwrap();
    // One that is used again a minute later is written out.
    assert!(!place.join("synced").exists());
    let early = std::time::SystemTime::now() - std::time::Duration::from_mins(2);
    fs::File::open(&about).unwrap().set_modified(early).unwrap();
    drop(stack(&world, &repo, &second).await);
    while !place.join("synced").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    fs::write(&about, text.replace(boot, "boot another")).unwrap();
    drop(stack(&world, &repo, &second).await);
    assert!(fs::read_to_string(&about).unwrap().contains("boot another"));
    fs::remove_file(place.join("synced")).unwrap();
    let two = stack(&world, &repo, &second).await;
    assert!(!fs::read_to_string(&about).unwrap().contains("boot another"));
    assert_eq!(shown(&two), expected(&world, &second));
}

/// However many there are: a new one looks at a few, and all of them go when there is no room.
#[tokio::test]
async fn ten_thousand_layers() {
    const MANY: u64 = 10_000;
    let world = World::new(&gits()[0]);
    let home = world.home();
    let commit = some_of_everything(&world);
    let repo = world.repo().await;
    let first = stack(&world, &repo, &commit).await;
    let store = home.trees(&repo.top);
    let base = first.layers[0].parent().unwrap().to_owned();
    let about = fs::read_to_string(base.join("about")).unwrap();
    let below = format!("below {}\n", base.file_name().unwrap().to_str().unwrap());
    for number in 0..MANY {
        let place = store.join(format!("{number:040x}"));
        fs::create_dir(&place).unwrap();
        // Half of them say that they stand on the true one, and none is a tree of this repository.
        let stands = if number % 2 == 0 { below.as_str() } else { "" };
        fs::write(place.join("about"), format!("{about}{stands}")).unwrap();
    }
    drop(first);
    world.write("many/1/new", "new");
    world.run(&["add", "-A", "-f"]);
    world.run(&["commit", "-qm", "next"]);
    let next = stack(&world, &repo, &world.oid("HEAD")).await;
    assert_eq!(shown(&next), expected(&world, &world.oid("HEAD")));
    assert_eq!(trees::taken(&home).unwrap().layers, MANY + 2);
    let used: BTreeSet<PathBuf> = next.layers.iter().cloned().collect();
    let stay = used.len() as u64;
    drop(next);
    let trimmed = trees::keep(&home, 0, false, || Ok(used)).unwrap();
    assert_eq!(trimmed.layers, MANY + 2 - stay);
    assert!(
        trees::full_stack(&home, &repo, u64::MAX, &BTreeSet::new())
            .unwrap()
            .is_none()
    );
}

/// Layers go that were used longest ago, as many as are needed; never one that somebody stands on, directly or not.
#[tokio::test]
async fn the_disk_is_kept_within_a_bound() {
    let world = World::new(&gits()[0]);
    let home = world.home();
    some_of_everything(&world);
    let repo = world.repo().await;
    let mut stacks = Vec::new();
    for text in ["one", "two", "three"] {
        world.write("many/1/new", text);
        world.run(&["add", "-A", "-f"]);
        world.run(&["commit", "-qm", text]);
        let made = stack(&world, &repo, &world.oid("HEAD")).await;
        stacks.push((made.layers.clone(), made.index.clone()));
        // So that it is known which was used last.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let there = |index: usize| stacks[index].1.exists();
    let trim = |bytes, used: &[usize]| {
        let used = used
            .iter()
            .map(|&index| stacks[index].0[0].clone())
            .collect();
        trees::keep(&home, bytes, false, || Ok(used)).unwrap()
    };
    // Room for everything, and for nothing where a sandbox stands on the newest, whose layers are all of them.
    assert_eq!(trim(u64::MAX, &[]).layers, 0);
    assert_eq!(stacks[2].0.len(), 3);
    assert_eq!(trim(0, &[2]).layers, 0);
    let dry = trees::keep(&home, 0, true, || Ok(BTreeSet::new())).unwrap();
    assert_eq!((dry.layers, there(2)), (3, true));
    // The middle one stands on the first.
    let trimmed = trim(0, &[1]);
    assert_eq!(
        (trimmed.layers, there(0), there(1), there(2)),
        (1, true, true, false)
    );
    assert!(trimmed.bytes > 0);
    // Where layers are tried meanwhile there is no store, and what such a trial left goes.
    let trial = |name: &str| {
        let path = home.all_trees().join(name);
        fs::create_dir_all(path.join("lower")).unwrap();
        fs::File::open(path).unwrap()
    };
    trial("doctor-now");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    trial("doctor-killed").set_modified(long_ago).unwrap();
    assert_eq!(trim(u64::MAX, &[]).layers, 0);
    let mut names: Vec<_> = fs::read_dir(home.all_trees().join("doctor-now"))
        .unwrap()
        .collect();
    assert_eq!(names.pop().unwrap().unwrap().file_name(), "lower");
    assert!(names.is_empty() && !home.all_trees().join("doctor-killed").exists());
    fs::remove_dir_all(home.all_trees().join("doctor-now")).unwrap();
    // While one is being made or begun with, nothing goes.
    let tree = repo.tree_of(&world.oid("HEAD~1"), &never()).await.unwrap();
    let store = Trees::open(&home, &repo).unwrap();
    let begun = store
        .stack(&repo, &tree, &Tell::nobody(), &never())
        .await
        .unwrap();
    assert_eq!(trim(0, &[]).layers, 0);
    drop(begun);
    // One that was killed while the store was made is no obstacle.
    fs::remove_dir(home.trees(&repo.top).join("tmp")).unwrap();
    assert_eq!(trim(u64::MAX, &[]).layers, 0);
    // A repository that is gone needs none of them, whatever the bound is.
    fs::rename(&world.top, world.top.with_extension("moved")).unwrap();
    assert_eq!(trim(u64::MAX, &[]).layers, 2);
    assert_eq!(
        fs::read_dir(home.trees(&repo.top).join("tmp"))
            .unwrap()
            .count(),
        0
    );
}
