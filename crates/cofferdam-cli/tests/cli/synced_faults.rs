//! Syncs that cannot be as they were meant: what goes is there, what does not is named, and the next one makes it good.

use std::io::Write;
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
    let user = User::new("");
    let path = user.puts(".cofferdam/home/log", "begun\n");
    user.make();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = std::fs::File::options().append(true).open(&path).unwrap();
            let line = "x".repeat(1 << 11);
            for _ in 0..5_000 {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                file.write_all(line.as_bytes()).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        for _ in 0..5 {
            let synced = user.cofferdam(&["sync", "box"]).expect_code(0);
            let is_named = synced
                .stderr
                .contains("/home/agent/log: it changed while it was read");
            assert!(
                is_named
                    || synced.stderr.contains("file sent")
                    || synced.stderr.contains("0 files sent"),
                "{synced}"
            );
        }
        ended.store(true, Ordering::Relaxed);
    });
    user.cofferdam(&["sync", "box"]).expect_code(0);
    let size = std::fs::metadata(&path).unwrap().len();
    assert_eq!(user.inside("wc -c < ~/log").trim(), size.to_string());
    user.ends();
}
