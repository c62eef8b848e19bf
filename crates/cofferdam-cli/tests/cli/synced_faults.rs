//! Syncs that cannot be as they were meant: what goes is there, what does not is named, and the next one makes it good.

use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cofferdam_lab::sample::{Sample, all};
use rustix::process::{Pid, Signal, kill_process};

use crate::configured::User;
use crate::environment::finish;

/// Nothing waits for whoever would write to it, and nothing without an end is read.
#[test]
fn what_is_no_file_is_named_and_the_rest_is_there() {
    let user = User::new(
        "sync:\n  - {src: /dev/zero, dest: ~/zero}\n  - {src: ~/things/*, dest: ~/things/}\n  - {src: ~/things, dest: ~/other}\n",
    );
    user.puts("things/good", "good\n");
    let things = user.home().join("things");
    let _socket = UnixListener::bind(things.join("socket")).unwrap();
    user.puts(".cofferdam/home/also", "also\n");
    user.shell("mkfifo ~/things/pipe ~/.cofferdam/home/pipe")
        .expect_code(0);
    let made = user.make();
    for (name, why) in [
        ("at line 2: /dev/zero", "it is no regular file"),
        ("things/pipe", "it is no regular file"),
        ("things/socket", "it is no regular file"),
        ("things", "it is a directory"),
        (".cofferdam/home/pipe", "it is no regular file"),
    ] {
        let said = format!("{name}: {why}");
        assert!(made.stderr.contains(&said), "{said}: {made}");
    }
    assert_eq!(
        user.inside("cd; cat things/good also; ls things"),
        "good\nalso\ngood\n"
    );
    user.ends();
}

/// A pattern with very many files.
#[test]
fn very_many_files_match() {
    let count = if all() { 100_000 } else { 3_000 };
    let user = User::new("sync: [{src: ~/many/*/f*, dest: ~/many/}]\n");
    for number in 0..count {
        let path = user
            .home()
            .join(format!("many/d{}/f{number}", number % 100));
        if number < 100 {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        std::fs::File::create(path).unwrap();
    }
    user.make();
    assert_eq!(user.inside("ls ~/many | wc -l"), format!("{count}\n"));
    let synced = user.cofferdam(&["sync", "box"]).expect_code(0);
    assert!(synced.stderr.contains("box: 0 files sent"), "{synced}");
    user.ends();
}

const FILES: usize = 60;

/// Whenever the command dies, each file inside is an old or a new one, and the next sync brings the new ones.
#[test]
fn one_that_was_cut_short_is_made_good_by_the_next() {
    let user = User::new("on_sync: [{cmd: echo >> ~/hooks}]\n");
    let write = |turn: usize| {
        for number in 0..FILES {
            let text = format!("{turn} {number} ").repeat(2_000);
            user.puts(&format!(".cofferdam/home/d/f{number}"), &text);
        }
    };
    write(0);
    user.make();
    let mut sample = Sample::new("a sync that is cut short");
    for turn in 1..=5 {
        write(turn);
        let mut command = user.command(&["sync", "box"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_micros(sample.below(150_000)));
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        finish(child);
        let what = format!("turn {turn} ({})", sample.again());
        // Whole ones: each says one turn, as often as it is written.
        let torn = user.inside(
            "cd ~/d && for f in f*; do test \"$(tr ' ' '\\n' <$f | sort -u | grep -c .) $(wc -w <$f)\" = '2 4000' \
             || test \"$(wc -w <$f)\" = 4000 -a \"$(tr ' ' '\\n' <$f | sort -u | grep -c .)\" = 1 || echo $f; done",
        );
        assert_eq!(torn, "", "{what}");
        user.cofferdam(&["sync", "box"]).expect_code(0);
        let new = user.inside(&format!("cd ~/d && grep -lE '^{turn} ' f* | wc -l"));
        assert_eq!(new, format!("{FILES}\n"), "{what}");
        let left = user.inside("ls -A ~/d | grep -v '^f' || true");
        assert_eq!(left, "", "{what}");
    }
    user.ends();
}

/// What is brought is a file as it was at some time, or it is named; once it stands still it is there.
#[test]
fn one_that_changes_while_it_is_read() {
    // Each turn writes its number over the one before from the beginning on, so the file is always one number, or one and then the
    // number before it. Whoever reads while it is written finds others.
    const NUMBERS: usize = 1 << 18;
    let user = User::new("");
    let text = |turn: usize| format!("{turn:07}\n").repeat(NUMBERS);
    let path = user.puts(".cofferdam/home/log", &text(0));
    user.make();
    let ended = AtomicBool::new(false);
    let mut named = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            for turn in 1.. {
                file.write_all_at(text(turn).as_bytes(), 0).unwrap();
                if ended.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..5 {
            let synced = user.cofferdam(&["sync", "box"]);
            let numbers = user.exec("box", "uniq ~/log; wc -l < ~/log");
            named += usize::from(
                synced
                    .stderr
                    .contains("/home/agent/log: it changed while it was read"),
            );
            let lines: Vec<usize> = (numbers.stdout.split_whitespace())
                .map(|word| word.parse().unwrap())
                .collect();
            let is_whole = match lines[..] {
                [_, NUMBERS] => true,
                [new, old, NUMBERS] => new == old + 1,
                _ => false,
            };
            if !is_whole || !synced.status.success() {
                ended.store(true, Ordering::Relaxed);
                panic!("{synced}{numbers}");
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert!(named > 0, "no sync met the writer");
    user.cofferdam(&["sync", "box"]).expect_code(0);
    let last = std::fs::read(&path).unwrap();
    let last = String::from_utf8_lossy(&last[..8]).into_owned();
    assert_eq!(user.inside("uniq ~/log"), last);
    user.ends();
}

/// What a place refuses, whoever tries again, leaves no sync unfinished: commands run once. What may be otherwise the next time does.
// covers: S1-69, S1-114
#[test]
fn a_place_that_takes_nothing_is_named_and_not_tried_for_ever() {
    let user = User::new(
        "sync: [{src: ~/one, dest: /usr/bin/in}]\non_sync: [{cmd: echo synced >> ~/count}]\n",
    );
    user.puts("one", "one\n");
    user.puts(".cofferdam/home/two", "two\n");
    let made = user.make();
    assert!(made.stderr.contains("not synced: /usr/bin/in: "), "{made}");
    let synced = || {
        user.run(&["--in", "box"], "true").expect_code(0);
        user.inside("wc -l < ~/count")
            .trim()
            .parse::<u32>()
            .unwrap()
    };
    assert_eq!(synced(), 1);
    // Somebody inside is in the way of another one.
    user.inside("rm ~/two; mkdir ~/two");
    user.puts(".cofferdam/home/two", "second\n");
    assert_eq!(synced(), 2);
    user.inside("rmdir ~/two");
    assert_eq!(synced(), 3);
    assert_eq!(synced(), 3);
    assert_eq!(user.inside("cat ~/two"), "second\n");
    user.ends();
}

/// Where there is none, nothing is said; where it cannot be read, no files are not what is meant.
#[test]
fn a_home_that_is_no_directory_is_named() {
    let user = User::new("");
    let made = user.make();
    assert!(!made.stderr.contains("not synced"), "{made}");
    user.puts(".cofferdam/home", "a file\n");
    let synced = user.cofferdam(&["sync", "box"]).expect_code(0);
    assert!(
        synced.stderr.contains(".cofferdam/home: Not a directory"),
        "{synced}"
    );
    user.ends();
}
