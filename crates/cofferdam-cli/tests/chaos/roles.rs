//! `kill -9` of each process that takes part, in each command on a sandbox that lives on. One share of the table in each run
//! of the suite, and all of it with `scripts/test --all`.

use std::process::Child;
use std::time::Duration;

use cofferdam_lab::sample::Sample;
use cofferdam_lab::skip;
use rustix::process::{Pid, Signal, kill_process};

use crate::checker::User;
use crate::environment::Environment;
use crate::keeper::children_of;
use crate::living::{
    ALL, WALL, arguments_behind, check, end, kill, kill_number, ready_behind, start,
};
use crate::walled::{eventually, name, of};

const ROLES: [&str; 5] = ["command", "launcher", "guest", "supervisor", "gateway"];
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

/// Whether it died while the command was at it.
fn dies(role: &str, command: &str, delay: Duration, again: &str) -> bool {
    let environment = ready_behind(command, &WALL);
    let before = User::of(&environment);
    let mut child = start(&environment, &arguments_behind(command, &WALL));
    let hit = if role == "command" {
        std::thread::sleep(delay);
        kill(&child);
        true
    } else {
        let hit = hit(&environment, &mut child, role, delay);
        let gone = || hit.is_none_or(|pid| name(pid).is_empty());
        eventually("it dies", gone);
        hit.is_some()
    };
    let done = end(child, command);
    let what = format!("{command}, {role} killed after {delay:?} ({again}): {done:?}");
    check(&environment, &before, command != "create", &what);
    hit && (role != "command" || done.0.is_none())
}

/// Kills the process, at this time or as soon as there is one, unless the command ends before.
fn hit(environment: &Environment, child: &mut Child, role: &str, delay: Duration) -> Option<u32> {
    let command = child.id();
    let is_there = || match role {
        "launcher" => (children_of(command).into_iter())
            .find(|(_, _, line)| line.starts_with("cofferdam-guest"))
            .map(|(pid, ..)| pid),
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
