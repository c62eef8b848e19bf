//! States that `list` shows of sandboxes that stay, and what the other commands say in them.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::environment::{commit_script, finish};
use crate::lives::Lives;

/// `create box` whose hook has begun and does not end.
fn being_made(lives: &Lives) -> Child {
    let hook = "touch ~/started; sleep 600";
    let making = lives
        .command(&[
            "create",
            "box",
            "--network",
            "none",
            "--on-sandbox-ready",
            hook,
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let state = lives.home().join(".cofferdam/state");
    until(|| {
        let mut all = state.read_dir().into_iter().flatten().flatten();
        all.any(|one| one.path().join("home/started").exists())
    });
    making
}

/// Neither waits for a command that does not end: also where that does not hear a request to.
#[test]
fn what_a_sync_waits_for_ends_with_the_sandbox() {
    let lives = Lives::with("box", &["--network", "none"]);
    let hangs = |script: &str| {
        let config = format!("on_sync: [{{cmd: \"{script}\"}}]\n");
        lives.puts(".cofferdam/config.yaml", &config);
        let mut syncing = lives.command(&["sync", "box"]);
        let syncing = syncing.stdout(Stdio::piped()).stderr(Stdio::piped());
        let syncing = syncing.spawn().unwrap();
        until(|| lives.exec("box", "rm ~/began").status.success());
        syncing
    };
    let stops: [(&str, &[&str]); 3] = [
        ("touch ~/began; sleep 1000", &["stop", "box"]),
        (
            "trap '' TERM; touch ~/began; while :; do sleep 1; done",
            &["stop", "--time", "1", "box"],
        ),
        ("touch ~/began; sleep 1000", &["delete", "--force", "box"]),
    ];
    for (script, command) in stops {
        let syncing = hangs(script);
        lives.cofferdam(command).expect_code(0);
        finish(syncing).expect_code(1);
        if command[0] == "stop" {
            assert_eq!(lives.state("box"), "stopped");
            lives.puts(".cofferdam/config.yaml", "");
            lives.cofferdam(&["start", "box"]).expect_code(0);
        }
    }
    assert_eq!(lives.listed("box"), None);
}

// covers: S4-D4
#[test]
fn one_that_is_being_made() {
    let lives = Lives::new();
    let making = being_made(&lives);
    assert_eq!(lives.state("box"), "creating");
    for command in [
        &["exec", "box", "--", "true"][..],
        &["pause", "box"],
        &["stop", "box"],
        &["collect", "box"],
    ] {
        let done = lives.cofferdam(command).expect_code(1);
        assert_eq!(
            done.stderr,
            "error: sandbox `box` is still being made\n\
             hint: wait until its `cofferdam create` is through\n"
        );
    }
    kill_process(Pid::from_child(&making), Signal::INT).unwrap();
    finish(making).expect_code(130);
    assert_eq!(lives.listed("box"), None);
    lives.expect_clean();
}

#[test]
fn what_is_being_made_ends_with_whoever_makes_it() {
    let lives = Lives::new();
    let making = being_made(&lives);
    let states = lives.home().join(".cofferdam/state");
    let listens = || {
        states.read_dir().unwrap().flatten().any(|state| {
            // By a path that is short, whatever the directory's is.
            let state = File::open(state.path()).unwrap();
            let socket = format!("/proc/self/fd/{}/guest.sock", state.as_raw_fd());
            UnixStream::connect(socket).is_ok()
        })
    };
    assert!(listens());
    kill_process(Pid::from_child(&making), Signal::KILL).unwrap();
    finish(making);
    until(|| !listens());
    let listed = lives.listed("box").unwrap();
    assert_eq!(listed["interrupted"], true, "{listed}");
    lives.cofferdam(&["gc"]).expect_code(0);
    assert_eq!(lives.listed("box"), None);
    lives.expect_clean();
}

// covers: S4-D4
#[test]
fn one_whose_setup_failed_is_kept_for_a_look() {
    let lives = Lives::new();
    let hook = "echo left > trace; echo one; echo two; exit 3";
    let done = lives.cofferdam(&[
        "create",
        "box",
        "--network",
        "none",
        "--on-sandbox-ready",
        hook,
    ]);
    assert_eq!(done.status.code(), Some(1), "{done}");
    assert!(done.stderr.ends_with(
        "failed: exit code 3\n  | one\n  | two\nhint: it is kept for a look: `cofferdam shell box`; then `cofferdam delete --force box`\n"
    ), "{done}");
    assert_eq!(lives.state("box"), "failed-setup");
    let status = lives.cofferdam(&["status", "box"]).expect_code(0);
    assert!(
        status.stdout.contains(&format!(
            "state:   failed-setup\nwhy:     the sandbox.onSandboxReady hook `{hook}` failed: exit code 3\n         | one\n         | two\nbranch:"
        )),
        "{status}"
    );
    let look = lives.exec("box", "cat trace").expect_code(0);
    assert_eq!(look.stdout, "left\n");
    // No agent works in what is half made.
    let done = lives.run(&["--in", "box"], "true").expect_code(1);
    assert!(
        done.stderr.contains("the setup of sandbox `box` failed"),
        "{done}"
    );
    assert!(
        done.stderr.contains("`cofferdam delete --force box`"),
        "{done}"
    );
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    lives.cofferdam(&["start", "box"]).expect_code(0);
    assert_eq!(lives.state("box"), "failed-setup");
    // What the hook left is nobody's work but is not thrown away unasked.
    lives.cofferdam(&["delete", "box"]).expect_code(1);
    lives
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
    lives.expect_clean();
}

// covers: S4-D4
#[test]
fn one_whose_files_are_gone() {
    let lives = Lives::with("box", &["--mode", "bind", "--network", "none"]);
    lives
        .exec("box", "git commit -qm one --allow-empty")
        .expect_code(0);
    let files = lives.listed("box").unwrap()["workdir"]
        .as_str()
        .unwrap()
        .to_owned();
    std::fs::remove_dir_all(&files).unwrap();
    assert_eq!(lives.state("box"), "missing");
    let status = lives.cofferdam(&["status", "box"]).expect_code(0);
    assert!(status.stdout.contains("state:   missing\n"), "{status}");
    let missing = |command: &[&str]| {
        let done = lives.cofferdam(command).expect_code(1);
        let words = "error: the files of sandbox `box` are gone: there is no directory ";
        assert!(done.stderr.starts_with(words), "{done}");
        assert!(done.stderr.contains("`cofferdam collect box`"), "{done}");
    };
    missing(&["exec", "box", "--", "true"]);
    missing(&["run", "--in", "box", "--agent", "command", "--", "true"]);
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    assert_eq!(lives.state("box"), "missing");
    missing(&["start", "box"]);
    // What was committed is in its git directory, which is elsewhere. Git takes the branch for checked out.
    let done = lives.cofferdam(&["collect", "box"]).expect_code(1);
    assert!(
        done.stdout.contains("kept: 1 commit on refs/cofferdam/"),
        "{done}"
    );
    let log = lives.cofferdam(&["log", "box"]).expect_code(0);
    assert!(log.stdout.contains("one"), "{log}");
    lives
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
    assert_eq!(lives.listed("box"), None);
}

/// Nobody can say what was in them, and each command says so at once.
#[test]
fn files_that_are_gone_are_no_uncommitted_work() {
    for (mode, files) in [("layer", "layer"), ("copy", "work"), ("bind", "")] {
        let lives = Lives::with("box", &["--mode", mode, "--network", "none"]);
        lives.exec("box", &commit_script(&["a"])).expect_code(0);
        lives.cofferdam(&["stop", "box"]).expect_code(0);
        let listed = lives.listed("box").unwrap();
        let id = listed["id"].as_str().unwrap();
        let state = lives.home().join(".cofferdam/state").join(id);
        let files = match listed["workdir"].as_str() {
            Some(path) if files.is_empty() => path.into(),
            _ => state.join(files),
        };
        std::fs::remove_dir_all(&files).unwrap();
        assert_eq!(lives.state("box"), "missing", "{mode}");
        for command in [
            &["delete", "box"][..],
            &["apply", "box"],
            &["diff", "--uncommitted", "box"],
            &["start", "box"],
        ] {
            let done = lives.cofferdam(command).expect_code(1);
            let words = "error: the files of sandbox `box` are gone: there is no directory ";
            let said = done.stderr.lines().any(|line| line.starts_with(words));
            assert!(said, "{mode}: {done}");
            let hint = "`cofferdam delete --force box`";
            assert!(done.stderr.contains(hint), "{mode}: {done}");
        }
        // What the hint says: what is committed is elsewhere.
        let done = lives.cofferdam(&["collect", "box"]);
        let code = i32::from(mode == "bind");
        assert_eq!(done.status.code(), Some(code), "{mode}: {done}");
        let log = lives.cofferdam(&["log", "box"]).expect_code(0);
        assert!(log.stdout.ends_with(" a\n"), "{mode}: {log}");
        lives
            .cofferdam(&["delete", "--force", "box"])
            .expect_code(0);
        lives.expect_clean();
    }
}

/// Its record says that it is active, and it does not.
#[test]
fn one_whose_guest_does_not_answer() {
    let lives = Lives::with("box", &["--network", "none"]);
    let status = lives.cofferdam(&["status", "box", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status.expect_code(0).stdout).unwrap();
    let guest = i32::try_from(status["process"].as_i64().unwrap()).unwrap();
    let guest = Pid::from_raw(guest).unwrap();
    assert_eq!(lives.state("box"), "active");
    kill_process(guest, Signal::STOP).unwrap();
    assert_eq!(lives.state("box"), "silent");
    let elsewhere = lives.home().clone();
    let elsewhere = elsewhere.to_str().unwrap();
    let list = ["-C", elsewhere, "list", "--all-repos"];
    let list = lives.cofferdam(&list).expect_code(0);
    assert!(list.stdout.contains("\nbox   silent  "), "{list}");
    let line = list
        .stderr
        .lines()
        .find(|line| line.starts_with("warning: box "));
    let (_, command) = line.unwrap().rsplit_once("to end it: cofferdam ").unwrap();
    // Of all, the others are paused, and it is said which one is not and what can be done.
    lives.create("two", &["--network", "none"]);
    let paused = lives.cofferdam(&["pause", "--all-envs"]).expect_code(1);
    assert!(paused.stderr.contains("paused two;"), "{paused}");
    assert!(
        paused
            .stderr
            .contains("error: box does not say how it is: "),
        "{paused}"
    );
    assert!(
        paused.stderr.contains("hint: end what hangs in it"),
        "{paused}"
    );
    assert_eq!(lives.state("two"), "paused");
    assert_eq!(lives.state("box"), "silent");
    // As it is printed, from where it is printed.
    let command: Vec<&str> = command.split(' ').collect();
    lives.cofferdam(&command).expect_code(0);
    assert_eq!(lives.state("box"), "stopped");
    lives.cofferdam(&["start", "box"]).expect_code(0);
    assert_eq!(lives.state("box"), "active");
}

/// A program that hears TERM has the time that it needs; nothing is waited for that has ended.
#[test]
fn programs_are_told_before_they_are_stopped() {
    let lives = Lives::with("box", &["--network", "none"]);
    let polite = "trap 'sleep 2.5; echo so > ~/heard; exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let id = lives.cofferdam(&["exec", "--detach", "box", "--", "sh", "-c", polite]);
    let id = id.expect_code(0).stdout.trim().to_owned();
    let mut awaited = lives
        .command(&[
            "exec",
            "box",
            "--",
            "sh",
            "-c",
            &polite.replace("heard", "too"),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shell = lives.on_a_terminal(&["shell", "box"]);
    shell.press("echo re''ady\r");
    shell.expect("ready");
    let hung_up = lives.hung_up("box");
    until(|| lives.cofferdam(&["logs", "box", &id]).stdout == "ready\n");
    let mut ready = [0; 6];
    awaited
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut ready)
        .unwrap();
    let began = Instant::now();
    let done = lives
        .cofferdam(&["stop", "box", "--time", "60"])
        .expect_code(0);
    assert!(began.elapsed() < Duration::from_secs(30), "{done}");
    assert!(
        done.stderr
            .contains("waiting for the programs in box to end, 60 s at most"),
        "{done}"
    );
    assert_eq!(awaited.wait().unwrap().code(), Some(7));
    // It is told that its terminal is gone, as it does not hear the first request.
    shell.ends_with(hung_up);
    let list = lives.cofferdam(&["logs", "box", "--list"]).expect_code(0);
    assert!(list.stdout.contains(&format!("{id}  exit 7")), "{list}");
    lives.cofferdam(&["start", "box"]).expect_code(0);
    lives.exec("box", "cat ~/heard ~/too").expect_code(0);
}

/// Who is deaf has until the time is over, or until the user has enough; in a paused one nobody hears.
#[test]
fn stopping_ends_whatever_its_programs_ignore() {
    let lives = Lives::with("box", &["--network", "none"]);
    let deaf = "trap '' TERM HUP INT; echo ready; while :; do sleep 0.05; done";
    for way in ["time", "ctrl-c", "paused", "nothing"] {
        if way != "time" {
            lives.cofferdam(&["start", "box"]).expect_code(0);
        }
        if way != "nothing" {
            let id = lives.cofferdam(&["exec", "--detach", "box", "--", "sh", "-c", deaf]);
            let id = id.expect_code(0).stdout.trim().to_owned();
            until(|| lives.cofferdam(&["logs", "box", &id]).stdout == "ready\n");
        }
        if way == "paused" {
            lives.cofferdam(&["pause", "box"]).expect_code(0);
        }
        let time = if way == "time" { "2" } else { "600" };
        let began = Instant::now();
        let stopping = lives
            .command(&["stop", "-t", time, "box"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        if way == "ctrl-c" {
            std::thread::sleep(Duration::from_secs(2));
            assert_eq!(lives.state("box"), "active");
            kill_process(Pid::from_child(&stopping), Signal::INT).unwrap();
        }
        let done = finish(stopping).expect_code(0);
        let took = began.elapsed();
        assert!(took < Duration::from_secs(20), "{way}: {took:?}: {done}");
        assert!(way != "time" || took >= Duration::from_secs(2), "{took:?}");
        assert_eq!(lives.state("box"), "stopped", "{way}");
    }
}

#[test]
fn what_is_not_home_and_what_is_not_committed_is_told() {
    let lives = Lives::with("box", &["--mode", "bind", "--network", "none"]);
    let told = |new: &str, uncollected: bool, changes: Option<bool>| {
        let status = lives.cofferdam(&["status", "box"]).expect_code(0);
        assert!(
            status.stdout.contains(&format!("\nnew:     {new}\n")),
            "{status}"
        );
        let listed = lives.listed("box").unwrap();
        assert_eq!(listed["uncollected"], uncollected, "{listed}");
        assert_eq!(listed["changes"].as_bool(), changes, "{listed}");
        let list = lives.cofferdam(&["list"]).expect_code(0);
        let said = list
            .stderr
            .contains("bring them there with: cofferdam collect box");
        assert_eq!(said, uncollected, "{list}");
    };
    let some = "commits inside: cofferdam collect box";
    let none = "nothing to collect";
    for state in ["active", "paused", "stopped"] {
        told(none, false, Some(false));
        lives.exec("box", &commit_script(&[state])).expect_code(0);
        match state {
            "paused" => drop(lives.cofferdam(&["pause", "box"]).expect_code(0)),
            "stopped" => drop(lives.cofferdam(&["stop", "box"]).expect_code(0)),
            _ => {}
        }
        told(some, true, None);
        lives.cofferdam(&["collect", "box"]).expect_code(0);
        told(none, false, Some(false));
        match state {
            "paused" => drop(lives.cofferdam(&["resume", "box"]).expect_code(0)),
            "stopped" => drop(lives.cofferdam(&["start", "box"]).expect_code(0)),
            _ => {}
        }
    }
    lives.exec("box", "echo draft > draft").expect_code(0);
    told(none, false, Some(true));
    // On another branch, and at an older commit, which is nothing new.
    lives
        .exec(
            "box",
            "rm draft; git switch -q --detach HEAD~2; git branch old HEAD~",
        )
        .expect_code(0);
    let status = lives.cofferdam(&["status", "box"]).expect_code(0);
    assert!(status.stdout.contains(none), "{status}");
    lives
        .exec(
            "box",
            "git switch -qc side; git commit -qm side --allow-empty",
        )
        .expect_code(0);
    let status = lives.cofferdam(&["status", "box"]).expect_code(0);
    assert!(status.stdout.contains(some), "{status}");
    // What holds nothing but a mess is told to be that.
    lives
        .exec("box", "rm $(git rev-parse --git-dir)/HEAD")
        .expect_code(0);
    lives.cofferdam(&["status", "box"]).expect_code(0);
    lives.cofferdam(&["list"]).expect_code(0);
}

/// What is refused of one is no reason to keep the others; a name that is none is one to keep all.
#[test]
fn several_are_deleted_as_far_as_they_may_be() {
    let lives = Lives::new();
    for name in ["one", "two", "three"] {
        lives.create(name, &["--mode", "bind", "--network", "none"]);
    }
    let drafts = "mkdir d; for f in a b c d/e; do echo draft > $f; done";
    lives.exec("two", drafts).expect_code(0);
    let done = lives.cofferdam(&["delete", "one", "no-such", "nor-this", "two"]);
    let done = done.expect_code(1);
    for missing in ["no-such", "nor-this"] {
        let said = format!("error: Sandbox '{missing}' not found.");
        assert!(done.stderr.contains(&said), "{done}");
    }
    assert!(done.stderr.ends_with("nothing was deleted\n"), "{done}");
    assert_eq!(lives.state("one"), "active");
    let done = lives.cofferdam(&["delete", "one", "two", "one", "three"]);
    let done = done.expect_code(1);
    let said = " has uncommitted changes: a, b, c and 1 more\n";
    assert!(done.stderr.contains(said), "{done}");
    assert!(
        done.stderr.contains("`cofferdam delete --force two`"),
        "{done}"
    );
    assert!(done.stderr.contains("deleted one\n"), "{done}");
    assert!(done.stderr.contains("deleted three\n"), "{done}");
    let left = ["one", "two", "three"].map(|name| lives.listed(name).is_some());
    assert_eq!(left, [false, true, false]);
}

#[track_caller]
fn until(what: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !what() {
        assert!(Instant::now() < limit, "it never came");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn one_whose_maker_was_killed_is_deleted() {
    let lives = Lives::new();
    let mut making = being_made(&lives);
    making.kill().unwrap();
    making.wait().unwrap();
    let done = lives
        .cofferdam(&["exec", "box", "--", "true"])
        .expect_code(1);
    assert!(done.stderr.contains("`cofferdam delete box`"), "{done}");
    lives.cofferdam(&["delete", "box"]).expect_code(0);
    lives.expect_clean();
}

#[test]
fn doctor_says_how_one_is_kept_apart() {
    let lives = Lives::new();
    lives
        .cofferdam(&["create", "box", "--network", "none"])
        .expect_code(0);
    let told = lives.cofferdam(&["doctor", "box"]).expect_code(0);
    for part in ["user", "capabilities", "new privileges", "namespaces"] {
        let line = told.stdout.lines().find(|line| line.contains(part));
        let line = line.unwrap_or_else(|| panic!("{part}: {told}"));
        // What the kernel shows to root alone is not told as if it had been seen.
        let hidden = part == "namespaces" && !rustix::process::geteuid().is_root();
        let word = if hidden { "degraded" } else { "ok" };
        assert!(line.starts_with(word), "{told}");
    }
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    let stopped = lives.cofferdam(&["doctor", "box"]).expect_code(1);
    assert!(stopped.stderr.contains("cofferdam start box"), "{stopped}");
    lives.cofferdam(&["doctor", "nobody"]).expect_code(1);
    lives.cofferdam(&["delete", "box"]).expect_code(0);
    lives.expect_clean();
}

/// A set-up that failed is mended and runs again, by the command that `status` names.
#[test]
fn one_whose_setup_failed_is_set_up_again() {
    let lives = Lives::new();
    lives.configure("setup: echo trying; test -e /tmp/ready && echo done > made\n");
    let done = lives.cofferdam(&["create", "box", "--network", "none"]);
    let done = done.expect_code(1).stderr;
    assert!(
        done.contains("`cofferdam start box` sets it up again"),
        "{done}"
    );
    let state = |what: &str| {
        let status = lives.cofferdam(&["status", "box"]).expect_code(0).stdout;
        assert!(status.contains(&format!("state:   {what}\n")), "{status}");
        status
    };
    state("failed-setup: cofferdam start box");
    // Still not.
    let done = lives.cofferdam(&["start", "box"]).expect_code(1).stderr;
    assert!(
        done.contains("the setup of sandbox `box` failed again"),
        "{done}"
    );
    assert!(done.contains("trying"), "{done}");
    state("failed-setup: cofferdam start box");
    // Nor is it done where nobody can tell what it is.
    let good = lives.home().join(".cofferdam/config.yaml");
    let text = std::fs::read_to_string(&good).unwrap();
    lives.configure("setup: [\n");
    let done = lives.cofferdam(&["start", "box"]).expect_code(1).stderr;
    assert!(done.contains("config.yaml:1:8"), "{done}");
    lives.configure(&text);
    lives.exec("box", "touch /tmp/ready").expect_code(0);
    let done = lives.cofferdam(&["start", "box"]).expect_code(0).stderr;
    assert!(done.contains("set up box"), "{done}");
    assert!(!state("active").contains("why:"));
    let made = lives.exec("box", "cat made").expect_code(0);
    assert_eq!(made.stdout, "done\n");
    // Once.
    lives.exec("box", "rm made /tmp/ready").expect_code(0);
    let done = lives.cofferdam(&["start", "box"]).expect_code(0).stderr;
    assert!(done.contains("box is running already"), "{done}");
    lives
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
}
