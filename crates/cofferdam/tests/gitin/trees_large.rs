//! The tree store with very many files: what it says that they take, and how long they take.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use cofferdam::git::index::format;
use cofferdam::git::trees::{self, Far, Stack, Tell, Trees};
use cofferdam_lab::{sample, skip};

use crate::support::{World, gits, never};

/// As du(1) counts what lies below.
fn on_disk(path: &Path) -> u64 {
    let found = path.symlink_metadata().unwrap();
    let own = found.blocks() * 512;
    if !found.is_dir() {
        return own;
    }
    let entries = fs::read_dir(path).unwrap();
    own + entries
        .map(|entry| on_disk(&entry.unwrap().path()))
        .sum::<u64>()
}

async fn stack(world: &World) -> Stack {
    stack_telling(world, &Tell::nobody()).await
}

async fn stack_telling(world: &World, tell: &Tell) -> Stack {
    let repo = world.repo().await;
    let trees = Trees::open(&world.home(), &repo).unwrap();
    let tree = repo.tree_of(&world.oid("HEAD"), &never()).await.unwrap();
    trees.stack(&repo, &tree, tell, &never()).await.unwrap()
}

/// `gc` keeps a bound by it, so it has to be about true, where most of it is directories too.
#[tokio::test]
async fn what_a_layer_takes_is_about_what_du_says() {
    let world = World::new(&gits()[0]);
    if on_disk(&world.path().join("home")) != 4096 {
        return skip!("a file system on which a directory takes a block");
    }
    // One in a directory of its own: three for each file.
    let write = |numbers: std::ops::Range<u32>| {
        for number in numbers {
            world.write(format!("many/{number}/deep/er/file"), format!("{number}\n"));
        }
    };
    let taken = || trees::taken(&world.home()).unwrap().bytes;
    let close = |said: u64, is: u64| {
        let far = said.abs_diff(is);
        assert!(far * 5 <= is, "{said} bytes are told, {is} are taken");
    };
    write(0..800);
    world.run(&["add", "-A"]);
    world.run(&["commit", "-qm", "base"]);
    let base = stack(&world).await;
    assert_eq!(base.layers.len(), 1);
    let of_base = taken();
    close(of_base, on_disk(base.layers[0].parent().unwrap()));
    // What differs: new ones, and as many that are gone, whose whiteouts take little.
    write(800..900);
    world.run(&["rm", "-rq", "many/1", "many/2", "many/3", "many/77/deep"]);
    world.run(&["add", "-A"]);
    world.run(&["commit", "-qm", "delta"]);
    let delta = stack(&world).await;
    assert_eq!(delta.layers.len(), 2);
    close(
        taken() - of_base,
        on_disk(delta.layers[0].parent().unwrap()),
    );
}

/// No file of the user's is made for it: git has the commit from a stream.
#[tokio::test]
async fn a_million_files() {
    // Whoever has no time for them has a part of them.
    let many = if sample::all() { 1_000_000 } else { 20_000 };
    let world = World::new(&gits()[0]);
    let mut child = world
        .command(&world.top)
        .args(["fast-import", "--quiet"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stream =
        "blob\nmark :1\ndata 0\n\nblob\nmark :2\ndata 2\nx\n\ncommit refs/heads/main\n\
         committer A <a@b> 1700000000 +0000\ndata 1\nm\n"
            .to_owned();
    let path = |number: u64| {
        format!(
            "d{}/{}/file-{number}",
            number / 100_000,
            number / 1_000 % 100
        )
    };
    // Most are empty, so that a small disk has room for them.
    let text = |number: u64| {
        if number.is_multiple_of(1_000) {
            "x\n"
        } else {
            ""
        }
    };
    for number in 0..many {
        let mark = if text(number).is_empty() { 1 } else { 2 };
        writeln!(stream, "M 100644 :{mark} {}", path(number)).unwrap();
    }
    let mut input = child.stdin.take().unwrap();
    input.write_all(stream.as_bytes()).unwrap();
    drop((input, stream));
    assert!(child.wait().unwrap().success());
    let writers = Arc::new(Mutex::new(HashSet::new()));
    let tell = Tell::new({
        let writers = Arc::clone(&writers);
        move |far| {
            if let Far::Wrote { .. } = far {
                writers.lock().unwrap().insert(thread::current().id());
            }
        }
    });
    let began = Instant::now();
    let stack = stack_telling(&world, &tell).await;
    let written = began.elapsed();
    // Each is told of many times, whoever is at the next thousand.
    let alone = thread::available_parallelism().unwrap().get() == 1;
    assert_eq!(writers.lock().unwrap().len() == 1, alone);
    let bytes = fs::read(&stack.index).unwrap();
    let index = format::parse(&bytes, cofferdam::git::ObjectFormat::Sha1).unwrap();
    assert_eq!(index.entries.len() as u64, many);
    for number in (0..many).step_by(500).chain([many - 1]) {
        let there = fs::read_to_string(stack.layers[0].join(path(number))).unwrap();
        assert_eq!(there, text(number), "{number}");
    }
    // Known from now on, whatever the number is.
    let began = Instant::now();
    drop(self::stack(&world).await);
    let known = began.elapsed();
    println!("{many} files: written in {written:?}, known in {known:?}");
    if sample::all() {
        assert!(known * 10 < written, "{known:?} and {written:?}");
    }
}
