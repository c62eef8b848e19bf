//! Sources, names and commands that are not as they usually are: each is brought, or named, and the next sync has all of it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use cofferdam_lab::sample::all;
use cofferdam_lab::skip;
use rustix::process::{Pid, Signal, kill_process};

use crate::configured::User;
use crate::environment::{Done, finish, finish_within};

/// Names of any bytes are brought as they are; in a message every character of theirs is visible.
#[test]
fn names_of_any_bytes() {
    let user = User::new(
        "sync:\n  - {src: \"~/odd/*\", dest: ~/odd/}\n  - {src: \"~/two words\\nand a line\", dest: \"~/to\\nline\"}\n",
    );
    let names: [&[u8]; 6] = [
        b"two words",
        b"line\nfeed",
        b"no \xff\xfe text",
        b"-rf",
        b"$(touch canary)'\"`",
        b"\x1b[31mred",
    ];
    let (odd, home) = (
        user.home().join("odd"),
        user.home().join(".cofferdam/home/at home"),
    );
    for directory in [&odd, &home] {
        cofferdam::fsx::private_dir(directory).unwrap();
        for name in names {
            let path = directory.join(OsStr::from_bytes(name));
            cofferdam::fsx::write_private(&path, name).unwrap();
        }
        let gone = directory.join(OsStr::from_bytes(b"bad\xff\x1b[2J\n"));
        std::os::unix::fs::symlink("/etc/passwd", gone).unwrap();
    }
    user.puts("two words\nand a line", "of a rule\n");
    let made = user.make();
    let told: Vec<&str> = made
        .stderr
        .lines()
        .filter(|line| line.contains("a link leads out of"))
        .collect();
    assert_eq!(told.len(), 2, "{made}");
    for line in told {
        assert!(line.contains("bad"), "{line:?}");
        assert!(!line.contains(char::is_control), "{line:?}");
    }
    // Each says its own name.
    let look = "cd \"$1\" && for f in * .[!.]*; do test -f \"$f\" || continue; printf %s \"$f\" | cmp - \"./$f\" && echo same; done";
    let of = |directory: &str| {
        let words = ["exec", "box", "--", "sh", "-c", look, "sh", directory];
        user.cofferdam(&words).expect_code(0).stdout
    };
    assert_eq!(of("/home/agent/odd"), "same\n".repeat(names.len()));
    assert_eq!(of("/home/agent/at home"), "same\n".repeat(names.len()));
    assert_eq!(user.inside("cat ~/to*line"), "of a rule\n");
    user.ends();
}

/// What cannot be opened, and what opens and cannot be read.
#[test]
fn sources_that_cannot_be_read_are_named_and_come_later() {
    let user = User::new(
        "sync:\n  - {src: /proc/self/mem, dest: ~/memory}\n  - {src: ~/closed, dest: ~/closed}\n  - {src: ~/closed-directory/x, dest: ~/x}\n  - {src: ~/open, dest: ~/open}\n",
    );
    for name in ["closed", "closed-directory/x", "open"] {
        user.puts(name, "text\n");
    }
    let closed = ["closed", "closed-directory"].map(|name| user.home().join(name));
    let set = |mode| {
        for path in &closed {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    // Root reads everything that is a file.
    let is_root = rustix::process::geteuid().is_root();
    set(0o000);
    let made = user.make();
    let is_named = |part: &str| {
        made.stderr
            .lines()
            .any(|line| line.contains("not synced: ") && line.contains(part))
    };
    assert!(is_named("/home/agent/memory: Input/output error"), "{made}");
    assert_eq!(is_named("/closed: Permission denied"), !is_root, "{made}");
    assert_eq!(
        is_named("/closed-directory: Permission denied"),
        !is_root,
        "{made}"
    );
    assert_eq!(
        user.inside("cat ~/open; ls ~/memory 2>/dev/null; true"),
        "text\n"
    );
    set(0o700);
    user.cofferdam(&["sync", "box"]).expect_code(0);
    assert_eq!(user.inside("cat ~/closed ~/x"), "text\ntext\n");
    user.ends();
}

/// It goes through in parts: what that takes of memory does not grow with it.
#[test]
fn a_very_large_one_is_brought_in_parts() {
    const BOUND: u64 = 8 << 20;
    // A file with no more than its length takes no room on this side.
    let (size, patience) = if all() {
        ((4 << 30) + BOUND, Duration::from_secs(850))
    } else {
        (2 * BOUND, Duration::from_secs(60))
    };
    let user = User::new("sync: [{src: ~/large, dest: ~/large}]\n");
    user.make();
    let file = std::fs::File::create(user.home().join("large")).unwrap();
    file.set_len(size).unwrap();
    let mut command = user.command(&["sync", "box"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let (mut most, began) = (0, Instant::now());
    while child.try_wait().unwrap().is_none() {
        let told = std::fs::read_to_string(&status).unwrap_or_default();
        let own = told.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let own = own.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        most = most.max(own.unwrap_or(0) << 10);
        assert!(began.elapsed() < patience, "it goes on");
        std::thread::sleep(Duration::from_millis(2));
    }
    let done = finish(child).expect_code(0);
    assert!(done.stderr.contains("box: 1 file sent"), "{done}");
    assert!((1..BOUND).contains(&most), "{most} bytes of memory");
    assert_eq!(user.inside("wc -c < ~/large").trim(), size.to_string());
    user.ends();
}

/// Of rules for one place in one file the last counts, and of what cannot come nothing is left of what came before.
#[test]
fn of_two_rules_for_one_place_the_later_counts() {
    let user = User::new(
        "sync:\n  - {src: ~/one, dest: ~/place}\n  - {src: ~/many/*, dest: ~/many/}\n  - {src: ~/one, dest: ~/many/two}\n  - {src: ~/two, dest: /home/agent/place, mode: \"0600\"}\n",
    );
    for name in ["one", "two", "many/two", "many/three"] {
        user.puts(name, &format!("{name}\n"));
    }
    user.make();
    assert_eq!(
        user.inside("cd; cat place many/two many/three; stat -c %a place"),
        "two\none\nmany/three\n600\n"
    );
    user.ends();
}

/// `cofferdam sync box`, whose command inside goes on.
fn hanging(user: &User) -> Child {
    let mut command = user.command(&["sync", "box"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let began = Instant::now();
    while !user.exec("box", "test -e ~/started").status.success() {
        assert!(began.elapsed() < Duration::from_secs(30), "it never began");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

pub(crate) const HANGS: &str = "on_sync:\n  - {cmd: echo first >> order}\n  - {cmd: 'touch started; sleep 100000', name: hanging}\n  - {cmd: echo third >> order}\n";
pub(crate) const MENDED: &str = "on_sync:\n  - {cmd: echo first >> order}\n  - {cmd: 'true', name: mended}\n  - {cmd: echo third >> order}\n";

#[track_caller]
fn goes_on(user: &User) {
    user.says(MENDED);
    user.cofferdam(&["sync", "box"]).expect_code(0);
    assert_eq!(user.inside("cat ~/order"), "first\nfirst\nthird\n");
}

/// Whoever interrupts the command ends what it began inside.
#[test]
fn a_command_that_hangs_ends_with_its_sync() {
    let user = User::new("");
    user.make();
    user.says(HANGS);
    let child = hanging(&user);
    let sleeps = || user.inside("grep -lsz 10000[0] /proc/[0-9]*/cmdline | wc -l; true");
    assert_ne!(sleeps(), "0\n");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    finish(child).expect_code(130);
    let began = Instant::now();
    while sleeps() != "0\n" {
        assert!(began.elapsed() < Duration::from_secs(30), "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    goes_on(&user);
    user.ends();
}

/// With nobody there to interrupt it.
#[test]
fn a_command_that_goes_on_for_too_long_is_ended() {
    if !all() {
        return skip!("ten minutes: only with `scripts/test --all`");
    }
    let user = User::new("");
    user.make();
    user.says(HANGS);
    let child = hanging(&user);
    let failed = finish_within(child, Duration::from_secs(660)).expect_code(1);
    assert!(
        failed.stderr.contains("hanging") && failed.stderr.contains("within 600 s"),
        "{failed}"
    );
    goes_on(&user);
    user.ends();
}

/// It was not stopped by its user, who waits for nobody then.
#[test]
fn a_sandbox_that_ends_in_the_middle_is_named_and_has_all_of_it_when_it_is_started() {
    let user = User::new("");
    user.make();
    user.says(HANGS);
    let child = hanging(&user);
    let told = user.cofferdam(&["status", "box", "--json"]).expect_code(0);
    let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    let init = i32::try_from(told["process"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(init).unwrap(), Signal::KILL).unwrap();
    let done = finish(child).expect_code(1);
    assert!(
        done.stderr.contains("hanging")
            && done
                .stderr
                .contains("it ended while the command ran in it: `cofferdam start box`"),
        "{done}"
    );
    assert_eq!(user.state("box"), "stopped");
    user.says(MENDED);
    user.cofferdam(&["start", "box"]).expect_code(0);
    assert_eq!(user.inside("cat ~/order"), "first\nfirst\nthird\n");
    user.ends();
}

/// The same in the middle of its files: those that are there are whole, and the rest comes with the next sync.
#[test]
fn a_sandbox_that_ends_while_files_come() {
    let user = User::new("");
    user.make();
    // Whoever brings them has another number in the next life.
    user.inside("true");
    for number in 0..400 {
        let text = format!("{number} ").repeat(5_000);
        user.puts(&format!(".cofferdam/home/d/f{number}"), &text);
    }
    let mut command = user.command(&["sync", "box"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let told = user.cofferdam(&["status", "box", "--json"]).expect_code(0);
    let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    let init = i32::try_from(told["process"].as_i64().unwrap()).unwrap();
    let place = user.listed("box").unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let inside = user
        .home()
        .join(".cofferdam/state")
        .join(place)
        .join("home/d");
    let child = command.spawn().unwrap();
    let began = Instant::now();
    while !inside.join("f1").exists() {
        assert!(began.elapsed() < Duration::from_secs(30), "none came");
        std::thread::sleep(Duration::from_micros(200));
    }
    kill_process(Pid::from_raw(init).unwrap(), Signal::KILL).unwrap();
    let done = finish(child);
    // Whatever came is whole before anybody brings it again.
    let mut there = 0;
    for number in 0..400 {
        if let Ok(text) = std::fs::read_to_string(inside.join(format!("f{number}"))) {
            assert_eq!(
                text,
                format!("{number} ").repeat(5_000),
                "f{number}: {done}"
            );
            there += 1;
        }
    }
    assert!(there > 0, "{done}");
    user.cofferdam(&["start", "box"]).expect_code(0);
    let whole = "cd ~/d && ls -A | wc -l; for f in f*; do test \"$(wc -w <$f) $(tr ' ' '\\n' <$f | sort -u | grep -c .)\" = '5000 1' || echo \"$f\"; done";
    assert_eq!(user.inside(whole), "400\n", "{done}");
    user.ends();
}

/// What it prints is bounded wherever it goes, and it is not waited for longer than it takes.
#[test]
fn a_command_that_prints_very_much() {
    let much = if all() { "1000000000" } else { "30000000" };
    let user = User::new(&format!(
        "on_sync:\n  - {{cmd: 'echo begins; yes a long line of output | head -c {much}; echo ends; test -e mended; code=$?; touch printed; exit $code', name: talking}}\n"
    ));
    let failed = user
        .cofferdam(&["create", "box", "--network", "none"])
        .expect_code(1);
    assert!(failed.stderr.contains("talking"), "{failed}");
    let shown = |failed: &Done| {
        let (error, output) = (&failed.stderr, &failed.stdout);
        let size = (error.len(), output.len());
        assert!(size.0 < 100_000 && size.1 < 100_000, "{size:?}");
        for part in ["talking", "begins", "ends", "left out"] {
            assert!(error.contains(part), "{part}: {failed}");
        }
    };
    shown(&failed);
    // The same without an end of a line.
    user.says(&format!(
        "on_sync:\n  - {{cmd: 'printf begins; yes | tr -d \"\\n\" | head -c {much}; printf ends; exit 3', name: talking}}\n"
    ));
    shown(&user.cofferdam(&["sync", "box"]).expect_code(1));
    user.ends();
}

#[test]
fn a_command_that_is_killed_is_named_with_its_signal() {
    let user = User::new("");
    user.make();
    user.says("on_sync:\n  - {cmd: echo first >> order}\n  - {cmd: 'echo said; kill -KILL $$', name: dies}\n  - {cmd: echo third >> order}\n");
    let failed: Done = user.cofferdam(&["sync", "box"]).expect_code(1);
    for part in ["dies", "said", "signal 9"] {
        assert!(failed.stderr.contains(part), "{part}: {failed}");
    }
    goes_on(&user);
    user.ends();
}
