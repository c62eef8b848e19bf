//! A sandbox that dies in the middle of its run: the run ends with an error that says so, and what was committed is kept.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::containers::{IMAGE, own, worlds};
use crate::environment::{TestEnvironment, finish};
use crate::interactive;
use crate::lives::Lives;

const WORK: &str = "git commit -q --allow-empty -m kept; echo at work; sleep 600";

/// What it says goes to a file, to be read while it goes on.
fn start(environment: &TestEnvironment, mut command: Command) -> Child {
    let said = File::create(environment.temporary().join("said")).unwrap();
    command.stdout(Stdio::null()).stderr(said);
    let mut child = command.spawn().unwrap();
    let began = Instant::now();
    while !said_by(environment).contains("  | at work") {
        assert_eq!(child.try_wait().unwrap(), None, "{}", said_by(environment));
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn said_by(environment: &TestEnvironment) -> String {
    std::fs::read_to_string(environment.temporary().join("said")).unwrap()
}

#[track_caller]
fn ended(environment: &TestEnvironment, child: Child) {
    let mut done = finish(child);
    done.stderr = said_by(environment);
    let done = done.expect_code(1);
    assert!(done.stderr.contains("error: "), "{done}");
    assert!(done.stderr.contains("sandbox"), "{done}");
    let kept = environment.git(&["log", "--all", "--format=%s"]);
    assert!(kept.lines().any(|line| line == "kept"), "{kept}: {done}");
}

/// A process of this machine.
struct Process {
    parent: i32,
    /// It is number 1 in a namespace.
    is_first: bool,
}

fn processes() -> BTreeMap<i32, Process> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else {
            continue;
        };
        let Ok(status) = std::fs::read_to_string(entry.path().join("status")) else {
            continue;
        };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default()
                .split_whitespace()
                .collect::<Vec<_>>()
        };
        let parent = field("PPid:")[0].parse().unwrap();
        let numbers = field("NSpid:");
        let is_first = numbers.len() > 1 && numbers.last() == Some(&"1");
        all.insert(pid, Process { parent, is_first });
    }
    all
}

/// Process 1 of the sandbox that this command made: a process of its tree that is number 1 in a namespace.
fn init_below(child: &Child) -> i32 {
    let all = processes();
    let root = i32::try_from(child.id()).unwrap();
    let is_below = |mut pid: i32| loop {
        match all.get(&pid) {
            Some(above) if above.parent == root => return true,
            Some(above) if above.parent > 1 => pid = above.parent,
            _ => return false,
        }
    };
    let mut firsts = all.iter().filter(|(_, one)| one.is_first);
    *firsts.find(|&(&pid, _)| is_below(pid)).unwrap().0
}

/// Process 1 of the sandbox in which a program sleeps for so long, once it does: a number that nothing else sleeps for.
pub(crate) fn init_around_sleep(seconds: &str) -> Option<Pid> {
    let words = format!("sleep\0{seconds}\0");
    let all = processes();
    let sleeps = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|its| its == words.as_bytes())
    };
    let mut pid = all.keys().copied().find(sleeps)?;
    while !all[&pid].is_first {
        pid = all[&pid].parent;
    }
    Pid::from_raw(pid)
}

#[test]
fn one_of_this_machines_that_is_killed() {
    for mode in ["layer", "bind", "copy"] {
        let environment = TestEnvironment::with_repository();
        let options = ["--branch", "work", "--mode", mode, "--", "sh", "-c", WORK];
        let child = start(
            &environment,
            environment.command(&[&["run"], &options[..]].concat()),
        );
        let init = Pid::from_raw(init_below(&child)).unwrap();
        kill_process(init, Signal::KILL).unwrap();
        ended(&environment, child);
    }
}

/// Commits, and then sleeps for so long.
fn sleeping(seconds: &str) -> String {
    format!("git commit -q --allow-empty -m kept; echo at work; exec sleep {seconds}")
}

#[track_caller]
fn kill_around_sleep(seconds: &str) {
    let began = Instant::now();
    let init = loop {
        if let Some(init) = init_around_sleep(seconds) {
            break init;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nobody sleeps");
        std::thread::sleep(Duration::from_millis(10));
    };
    kill_process(init, Signal::KILL).unwrap();
}

/// Somebody sits at its program: they have their terminal again, and their commits.
#[test]
fn one_at_whose_terminal_somebody_sits() {
    for (number, mode) in [(604, "layer"), (605, "bind"), (606, "copy")] {
        let lives = Lives::new();
        let seconds = format!("{number}.{}", std::process::id());
        let script = sleeping(&seconds);
        let made = ["--branch", "work", "--mode", mode, "--network", "none"];
        let words = [&made[..], &["--", "sh", "-c", &script]].concat();
        let mut terminal = interactive::at(&lives, &words);
        terminal.expect("at work");
        kill_around_sleep(&seconds);
        terminal.expect("the sandbox is gone");
        terminal.expect("1 commit on work");
        terminal.ends_with(1);
        let text = terminal.text();
        let last = lives.git(&["log", "-1", "--format=%s", "work"]);
        assert_eq!(last, "kept", "{mode}: {text}");
        // Whoever comes next finds nothing in the way.
        let again = ["--branch", "work", "--network", "none"];
        lives.run(&again, "git log -1 | grep kept").expect_code(0);
    }
}

/// It lives on, as a sandbox that has ended does: what is committed in it comes home by the next step, and it can be started.
#[test]
fn one_that_lives_on_under_its_agent() {
    for (number, attended) in [(607, false), (608, true)] {
        let lives = Lives::with("box", &["--network", "none"]);
        let seconds = format!("{number}.{}", std::process::id());
        let script = sleeping(&seconds);
        let words = ["--in", "box", "--", "sh", "-c", &script];
        let said = if attended {
            let mut terminal = interactive::at(&lives, &words);
            terminal.expect("at work");
            kill_around_sleep(&seconds);
            terminal.expect("error:");
            terminal.ends_with(1);
            terminal.done().stderr
        } else {
            let child = start(&lives, lives.command(&[&["run"], &words[..]].concat()));
            kill_around_sleep(&seconds);
            finish(child).expect_code(1);
            said_by(&lives)
        };
        assert!(said.contains("sandbox `box`"), "{said}");
        // Home, or where the next step finds it.
        let home = said.contains("1 commit on cofferdam/box");
        assert!(home || said.contains("cofferdam collect box"), "{said}");
        lives.cofferdam(&["collect", "box"]).expect_code(0);
        let last = lives.git(&["log", "-1", "--format=%s", "cofferdam/box"]);
        assert_eq!(last, "kept", "{said}");
        assert_eq!(lives.state("box"), "stopped", "{said}");
        lives.cofferdam(&["start", "box"]).expect_code(0);
        let again = lives.run(&["--in", "box"], "git log -1 | grep kept");
        again.expect_code(0);
    }
}

#[test]
fn one_whose_container_is_removed() {
    for world in worlds() {
        let how = ["run", "--sandbox", world.engine, "--image", IMAGE];
        let what = ["--branch", "work", "--", "sh", "-c", WORK];
        let child = start(
            &world.environment,
            world.command(&[&how[..], &what].concat()),
        );
        own(world.engine, &["rm", "--force", &world.agents()]).unwrap();
        ended(&world.environment, child);
    }
}
