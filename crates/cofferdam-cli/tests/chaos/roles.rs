//! `kill -9` of each process that takes part, in each command on a sandbox that lives on. One share of the table in each run
//! of the suite, and all of it with `scripts/test --all`.

use std::process::Child;
use std::time::Duration;

use cofferdam_lab::sample::Sample;
use cofferdam_lab::skip;
use rustix::process::{Pid, Signal, kill_process};

use crate::checker::{self, User};
use crate::environment::Environment;
use crate::keeper::children_of;
use crate::living::{
    ALL, NAME, arguments_behind, check_used, end, kill, kill_number, ready_with, start, wall,
};
use crate::walled::{Service, ask, eventually, name, of, passes_again};

/// A watcher is there only where a sandbox works in the checkout.
const ROLES: [&str; 6] = [
    "command",
    "launcher",
    "guest",
    "supervisor",
    "gateway",
    "watcher",
];
/// One of so many places of the table is tried, unless all are wanted.
const SHARE: u64 = 10;
/// No command here takes longer on a machine that has time for it.
const LONGEST: u64 = 200_000;

/// So long a command goes on between two looks.
const SLICE: Duration = Duration::from_micros(500);

/// Where a launcher has nothing to do: it makes sandboxes, those of the gate too.
const WITHOUT_LAUNCHER: [&str; 4] = ["exec", "pause", "resume", "stop"];

#[test]
fn each_dies_in_each_command() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root sees whose a process is that cannot be dumped");
    }
    a_new_one_asks_at_once();
    let table = ROLES.map(|role| ALL.map(|command| (role, command)));
    let mut sample = Sample::new("living, roles");
    for (role, command) in sample.of(table.into_iter().flatten(), SHARE) {
        let is_one = role != "launcher" || !WITHOUT_LAUNCHER.contains(&command);
        // A command that was over, or a process that was gone, when it was to be hit: sooner the next time, and then at
        // once, as often as a busy machine may need.
        let mut most = LONGEST;
        let tries = if is_one { 12 } else { 1 };
        let hit = (0..tries).any(|_| {
            let delay = Duration::from_micros(sample.below(most));
            most = (most / 16).max(1);
            dies(role, command, delay, &sample.again())
        });
        assert_eq!(hit, is_one, "{role} in {command}: was it there?");
    }
}

/// As in [`ready_with`], and one that is only being made asks them before its command has ended.
fn options(services: &[Service; 2]) -> Vec<String> {
    let asks = format!("for n in 1 2 3; do {}; done", ask(&services.each_ref()));
    let hook = format!("bash -c {}", quoted(&asks));
    let hooked = ["--on-sandbox-ready".to_owned(), hook];
    wall(services).into_iter().chain(hooked).collect()
}

/// In its user's checkout. What watches that is there before a hook inside, which would stand still without it.
fn in_the_checkout(services: &[Service; 2]) -> Vec<String> {
    let head = "--head".to_owned();
    wall(services).into_iter().chain([head]).collect()
}

fn quoted(script: &str) -> String {
    format!("'{}'", script.replace('\'', r"'\''"))
}

/// The control of those that die while they are made: with nobody dead, what is allowed passes then.
fn a_new_one_asks_at_once() {
    let services = [(); 2].map(|()| Service::new());
    let options = options(&services);
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let environment = Environment::new();
    let made = environment.cofferdam(&arguments_behind("create", &options));
    assert_eq!(made.status, 0, "{}", made.stderr);
    assert!(services[0].came() > 0, "nothing passes: {}", made.stderr);
    assert_eq!(services[1].came(), 0);
    let deleted = environment.cofferdam(&["delete", NAME]);
    assert_eq!(deleted.status, 0, "{}", deleted.stderr);
}

/// Whether it died while the command was at it. Whoever it is, nothing opens.
fn dies(role: &str, command: &str, delay: Duration, again: &str) -> bool {
    let services = [(); 2].map(|()| Service::new());
    let options = if role == "watcher" {
        in_the_checkout(&services)
    } else {
        options(&services)
    };
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let environment = ready_with(command, &options, Some(&services));
    let before = User::of(&environment);
    let mut child = start(&environment, &arguments_behind(command, &options));
    let hit = if role == "command" {
        std::thread::sleep(delay);
        kill(&child);
        true
    } else {
        let hit = hit(&environment, &mut child, role, delay);
        let gone = || hit.is_none_or(|pid| name(pid).is_empty());
        eventually("it dies", gone);
        if role == "watcher" && command == "exec" {
            // Its programs stand still until another one comes.
            environment.cofferdam(&["exec", NAME, "--", "true"]);
        }
        hit.is_some()
    };
    let done = end(child, command);
    let what = format!("{command}, {role} killed after {delay:?} ({again}): {done:?}");
    let passes = passes_again(&services);
    check_used(&environment, &before, command != "create", &passes, &what);
    assert_eq!(services[1].came(), 0, "{what}: the wall was open");
    hit && (role != "command" || done.0.is_none())
}

/// Those of this environment's sandboxes, by their command lines.
fn watchers(environment: &Environment) -> Vec<u32> {
    let ids = checker::ids(environment);
    let is_one = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|&byte| byte == 0).collect();
        words.contains(&&b"watch-checkout"[..])
            && ids.iter().any(|id| words.contains(&id.as_bytes()))
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
        .filter(is_one)
        .collect()
}

/// Kills the process, at this time or as soon as there is one, unless the command ends before.
fn hit(environment: &Environment, child: &mut Child, role: &str, delay: Duration) -> Option<u32> {
    let command = child.id();
    let is_there = || match role {
        "launcher" => (children_of(command).into_iter())
            .find(|(_, _, line)| line.starts_with("cofferdam-guest"))
            .map(|(pid, ..)| pid),
        "watcher" => watchers(environment).first().copied(),
        role => of(environment, role).first().copied(),
    };
    let number = Pid::from_raw(i32::try_from(command).unwrap()).unwrap();
    let tell = |signal| kill_process(number, signal).unwrap();
    let mut there = is_there();
    if there.is_some() {
        std::thread::sleep(delay);
    }
    // While one looks, the command stands still: it cannot be through meanwhile.
    while there.is_none() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(SLICE);
        tell(Signal::STOP);
        there = is_there();
        if there.is_none() {
            tell(Signal::CONT);
        }
    }
    let hit = there.filter(|pid| kill_number(*pid) && child.try_wait().unwrap().is_none());
    if child.try_wait().unwrap().is_none() {
        tell(Signal::CONT);
    }
    hit
}
