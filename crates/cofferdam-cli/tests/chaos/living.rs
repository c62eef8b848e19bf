//! `kill -9` around sandboxes that live on: of the commands on them, of who keeps them and of themselves, and two
//! commands at once.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cofferdam_lab::sample::Sample;
use rustix::process::{Pid, Signal, kill_process};

use crate::checker::{self, User, Work};
use crate::environment::{AGENT, Environment, Moment};
use crate::walled::{Service, eventually, keeps_asking, name, passes_again};

/// One of so many git calls is tried, unless all are wanted.
const SHARE: u64 = 8;
/// One of so many pairs of commands.
const PAIRS: u64 = 12;
pub(crate) const NAME: &str = "one";
/// What an agent's run does.
const RUN: &str = "echo $$ > agent/r-$$.txt; git add agent; \
     until git commit -qm r --allow-empty; do sleep 0.02; done";

/// Without a network there is no gateway.
pub(crate) const NONE: [&str; 2] = ["--network", "none"];

/// Behind the wall, with the first of these services allowed and nothing else.
pub(crate) fn wall(services: &[Service; 2]) -> [String; 4] {
    let rule = format!("host.cofferdam.internal:{}", services[0].port);
    ["--network", "allowlist", "--allow", &rule].map(str::to_owned)
}

fn create(environment: &Environment, network: &[&str]) {
    let done = environment.cofferdam(&[&["create", NAME], network].concat());
    assert_eq!(done.status, 0, "{}", done.stderr);
}

/// In no commit of the agent's.
const DRAFT: &str = "agent/draft";

/// Everything that the agent commits is inside by now, and what it has not committed.
pub(crate) fn work(environment: &Environment) {
    let script = format!("{AGENT}; echo draft > {DRAFT}");
    let done = environment.cofferdam(&["exec", NAME, "--", "sh", "-c", &script]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stdout.contains("all-committed"), "{}", done.stdout);
}

/// Starts `cofferdam` with nobody around it who waits for what it leaves: what lives on is meant to.
pub(crate) fn start(environment: &Environment, arguments: &[&str]) -> Child {
    let mut command: Command = if arguments[0] == "shell" {
        environment.on_a_terminal(arguments)
    } else {
        environment.command(arguments)
    };
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().unwrap()
}

pub(crate) fn kill(child: &Child) {
    let _ = kill_process(Pid::from_child(child), Signal::KILL);
}

/// One that hangs is no end.
pub(crate) fn end(mut child: Child, what: &str) -> (Option<i32>, String) {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(90), "{what} hangs");
        std::thread::sleep(Duration::from_millis(2));
    }
    let done = child.wait_with_output().unwrap();
    let text = [done.stdout, done.stderr].concat();
    (
        done.status.code(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

pub(crate) fn state(environment: &Environment) -> Option<String> {
    let listed = environment.list();
    let one = listed.iter().find(|one| one["name"] == NAME)?;
    Some(one["state"].as_str().unwrap().to_owned())
}

/// Whether nothing of it but its work is left: `gc` or a killed `delete` has ended it.
fn has_ended(environment: &Environment) -> bool {
    let listed = environment.list();
    let one = listed.iter().find(|one| one["name"] == NAME);
    one.is_some_and(|one| one["lives_on"] == false)
}

/// Whether its guest listens.
fn listens(state: &Path) -> bool {
    // By a path that is short, whatever the directory's is.
    File::open(state).is_ok_and(|directory| {
        let short = format!("/proc/self/fd/{}/guest.sock", directory.as_raw_fd());
        UnixStream::connect(short).is_ok()
    })
}

/// What `list` says is so, whatever died just now: each record is told, none is of a sandbox that is not there, and who is
/// said to run runs. What is still dying is waited for. Says how the one that lives on is.
#[track_caller]
fn listed_rightly(environment: &Environment, what: &str) -> Option<String> {
    let mut wrong = String::new();
    let mut found = None;
    let mut is_right = || {
        let listed = environment.list();
        let ids: Vec<_> = (listed.iter())
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect();
        let with_record = environment.states().into_iter();
        let with_record = with_record.filter(|state| state.join("record.json").exists());
        let there: Vec<_> = with_record
            .map(|state| state.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        wrong = format!("{listed:?} of {there:?}");
        if !there.iter().all(|id| ids.contains(id)) || ids.len() != there.len() {
            return false;
        }
        found = None;
        listed.iter().all(|one| {
            let told = one["state"].as_str().unwrap();
            let runs = listens(
                &environment
                    .home()
                    .join("state")
                    .join(one["id"].as_str().unwrap()),
            );
            if one["lives_on"] != true {
                // Nobody is at it any more.
                return !runs && (one["interrupted"] == true || told != "creating");
            }
            found = Some(told.to_owned());
            let is_so = match told {
                "active" | "paused" => runs,
                "stopped" => !runs,
                _ => false,
            };
            is_so && one["interrupted"] == false
        })
    };
    let began = Instant::now();
    while !is_right() {
        let waits = began.elapsed() < crate::walled::LIMIT;
        assert!(waits, "{what}: `list` is wrong: {wrong}");
        std::thread::sleep(Duration::from_millis(2));
    }
    found
}

/// Whatever a killed command left: `list` tells it, `gc` leaves a whole one alone and clears a half-made one, the next
/// commands work, and at the end nothing is left.
pub(crate) fn check(environment: &Environment, before: &User, worked: bool, what: &str) {
    check_used(environment, before, worked, "true", what);
}

/// The same, with what is run inside as soon as that is possible again.
pub(crate) fn check_used(
    environment: &Environment,
    before: &User,
    worked: bool,
    script: &str,
    what: &str,
) {
    let kept = Work::of(environment);
    let ids = checker::ids(environment);
    let told = listed_rightly(environment, what);
    let said = checker::gc(environment, what);
    kept.assert_kept_or_inside(environment, what);
    if told.is_some() {
        assert_eq!(told, state(environment), "{what}: {said}");
    }
    match state(environment).as_deref() {
        None => {}
        Some("stopped") if has_ended(environment) => {}
        Some(found) => {
            let on = if found == "paused" { "resume" } else { "start" };
            let started = environment.cofferdam(&[on, NAME]);
            assert_eq!(started.status, 0, "{what}: {said}{}", started.stderr);
            if worked {
                let draft = environment.cofferdam(&["exec", NAME, "--", "cat", DRAFT]);
                assert_eq!(draft.stdout, "draft\n", "{what}: {}", draft.stderr);
            }
            let used = environment.cofferdam(&["exec", NAME, "--", "bash", "-c", script]);
            assert_eq!(used.status, 0, "{what}: {}", used.stderr);
            let home = environment.cofferdam(&["collect", NAME]);
            assert_eq!(home.status, 0, "{what}: {}{}", home.stdout, home.stderr);
            let again = checker::gc(environment, what);
            assert_eq!(again, "nothing to clean up\n", "{what}");
            assert_eq!(state(environment).as_deref(), Some("active"), "{what}");
        }
    }
    if worked {
        assert_eq!(checker::subjects(environment).len(), 3, "{what}: {said}");
    }
    if state(environment).is_some() {
        let deleted = environment.cofferdam(&["delete", "--force", NAME]);
        assert_eq!(deleted.status, 0, "{what}: {}", deleted.stderr);
    }
    assert_eq!(environment.list().len(), 0, "{what}");
    if environment.git(&["ls-files", DRAFT]).is_empty() {
        // With `--head` it is its user's now.
        let _ = std::fs::remove_file(environment.repo().join(DRAFT));
    }
    checker::gc(environment, what);
    checker::assert_nothing_alive(environment, &ids, what);
    checker::assert_clean(environment, before, what, &said);
    assert!(
        environment.states().is_empty(),
        "{what}: {:?}",
        environment.states()
    );
}

/// A sandbox in the state in which a command finds it.
pub(crate) fn ready(command: &str) -> Environment {
    ready_behind(command, &NONE)
}

pub(crate) fn ready_behind(command: &str, network: &[&str]) -> Environment {
    ready_with(command, network, None)
}

/// With a program inside that asks these services for as long as it is let. One of them has answered it by then.
pub(crate) fn ready_with(
    command: &str,
    network: &[&str],
    services: Option<&[Service; 2]>,
) -> Environment {
    let environment = Environment::new();
    if command == "create" {
        return environment;
    }
    create(&environment, network);
    work(&environment);
    if let Some(services) = services {
        let came = services[0].came();
        let script = keeps_asking(services);
        let begun = environment.cofferdam(&["exec", NAME, "--detach", "--", "bash", "-c", &script]);
        assert_eq!(begun.status, 0, "{}", begun.stderr);
        // The control of whoever says later that the other one has answered nobody.
        eventually("what is allowed passes", || services[0].came() > came);
    }
    let before = match command {
        "start" => "stop",
        "resume" => "pause",
        "close" => {
            let script = format!("git add {DRAFT}; git commit -q --amend --no-edit");
            let done = environment.cofferdam(&["exec", NAME, "--", "sh", "-c", &script]);
            assert_eq!(done.status, 0, "{}", done.stderr);
            return environment;
        }
        _ => return environment,
    };
    let done = environment.cofferdam(&[before, NAME]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    environment
}

pub(crate) fn arguments(command: &str) -> Vec<&str> {
    arguments_behind(command, &NONE)
}

pub(crate) fn arguments_behind<'a>(command: &'a str, network: &[&'a str]) -> Vec<&'a str> {
    match command {
        "create" => [&["create", NAME], network].concat(),
        "exec" => vec!["exec", NAME, "--", "sleep", "0.1"],
        "delete" => vec!["delete", "--force", NAME],
        // Without force, which looks first whether anything would be lost.
        "close" => vec!["delete", NAME],
        "run" => vec!["run", "--json", "--in", NAME, "--", "sh", "-c", RUN],
        other => vec![other, NAME],
    }
}

/// Where its files are decides what is to be done: each mode calls git in its own places.
fn at_git_calls_in_each_mode(command: &str) {
    for mode in ["layer", "bind", "copy"] {
        at_git_calls(command, &[&NONE[..], &["--mode", mode]].concat());
    }
    at_git_calls(command, &[&NONE[..], &["--head"]].concat());
}

fn at_git_calls(command: &str, options: &[&str]) {
    let counted = ready_behind(command, options);
    let before = User::of(&counted);
    counted.count_calls();
    let done = end(
        start(&counted, &arguments_behind(command, options)),
        command,
    );
    assert_eq!(done.0, Some(0), "{command} {options:?}: {}", done.1);
    let calls = counted.calls();
    counted.killed_at();
    check(&counted, &before, command != "create", command);
    assert!(calls > 0, "{command} {options:?} calls no git");
    let mut killed = 0;
    let mut sample = Sample::new(&format!("git calls of living {command} {options:?}"));
    let share: Vec<_> = sample
        .of(1..=calls, SHARE.min(u64::from(calls)))
        .into_iter()
        .collect();
    let chosen = share.len();
    // The last ones may be made only where something takes long: then others are taken.
    for (number, call) in share.into_iter().chain(1..=calls).enumerate() {
        if number >= chosen && killed > 0 {
            break;
        }
        let moment = [Moment::Before, Moment::During, Moment::After]
            [usize::try_from(sample.below(3)).unwrap()];
        let environment = ready_behind(command, options);
        let before = User::of(&environment);
        environment.kill_at(call, moment);
        let arguments = arguments_behind(command, options);
        let child = start(&environment, &arguments);
        let own = child.id();
        let done = end(child, command);
        let Some(at) = environment.killed_at() else {
            let name = command;
            end(start(&environment, &["delete", "--force", NAME]), name);
            continue;
        };
        killed += 1;
        let what = format!(
            "{command} {options:?} killed at git call {at} ({})",
            sample.again()
        );
        if environment.killed_process() == Some(own) {
            assert_eq!(done.0, None, "{what}: {}", done.1);
        } else {
            // Who watches the checkout died: the command ends by itself, and says so where it needs them.
            let told = done.0 == Some(1) && done.1.contains("hint: ");
            assert!(done.0 == Some(0) || told, "{what}: {done:?}");
        }
        check(&environment, &before, command != "create", &what);
    }
    assert!(killed > 0, "of {calls} git calls of {command} none was hit");
}

#[test]
fn create_at_git_calls() {
    at_git_calls_in_each_mode("create");
}

#[test]
fn collect_at_git_calls() {
    at_git_calls_in_each_mode("collect");
}

#[test]
fn delete_at_git_calls() {
    at_git_calls_in_each_mode("delete");
}

#[test]
fn close_at_git_calls() {
    at_git_calls_in_each_mode("close");
}

/// With `--head` it starts who watches the checkout, who calls it too.
#[test]
fn start_at_git_calls() {
    at_git_calls_in_each_mode("start");
}

#[test]
fn the_others_call_none() {
    for command in ["exec", "pause", "resume", "stop"] {
        let counted = ready(command);
        counted.count_calls();
        let done = end(start(&counted, &arguments(command)), command);
        assert_eq!(done.0, Some(0), "{command}: {}", done.1);
        assert_eq!(counted.calls(), 0, "{command}");
        counted.killed_at();
        let deleted = counted.cofferdam(&["delete", "--force", NAME]);
        assert_eq!(deleted.status, 0, "{command}: {}", deleted.stderr);
    }
}

pub(crate) const ALL: [&str; 9] = [
    "create", "exec", "collect", "pause", "resume", "stop", "start", "delete", "close",
];

pub(crate) fn one_of<T: Copy>(sample: &mut Sample, all: &[T]) -> T {
    all[usize::try_from(sample.below(all.len() as u64)).unwrap()]
}

/// Kills `command` before its end, sooner and sooner until it is, and says after which time: what is there then, and what its
/// user had before. None where it is through too soon for that.
pub(crate) fn killed(
    command: &str,
    mut delay: Duration,
    sample: &Sample,
) -> Option<(Environment, User, Duration)> {
    loop {
        let environment = ready(command);
        let before = User::of(&environment);
        let child = start(&environment, &arguments(command));
        std::thread::sleep(delay);
        kill(&child);
        if end(child, command).0.is_none() {
            return Some((environment, before, delay));
        }
        let what = format!("{command} ended within {delay:?} ({})", sample.again());
        check(&environment, &before, command != "create", &what);
        if delay.is_zero() {
            return None;
        }
        delay /= 4;
    }
}

/// At times that nobody chose.
#[test]
fn commands_at_random_times() {
    let mut sample = Sample::new("living, at random times");
    let mut hit = 0;
    for _ in sample.of(0..24, 3) {
        let command = one_of(&mut sample, &ALL);
        let delay = Duration::from_micros(sample.below(250_000));
        let Some((environment, before, delay)) = killed(command, delay, &sample) else {
            continue;
        };
        hit += 1;
        let what = format!("{command} killed after {delay:?} ({})", sample.again());
        check(&environment, &before, command != "create", &what);
    }
    assert!(hit > 0, "nothing was killed before its end");
}

/// The processes of this environment's sandbox: its init, its supervisor, and where it has a wall the gateway.
pub(crate) fn processes(environment: &Environment) -> Vec<u32> {
    let place = environment.path("");
    let place = place.file_name().unwrap().to_str().unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let path = entry.path();
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        if !line.starts_with(b"cofferdam-") {
            continue;
        }
        let fds = std::fs::read_dir(path.join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        let holds = fds
            .filter_map(|fd| std::fs::read_link(fd.path()).ok())
            .any(|to| to.to_string_lossy().contains(place));
        let sees =
            std::fs::read_to_string(path.join("mountinfo")).is_ok_and(|it| it.contains(place));
        if holds || sees {
            found.push(pid);
        }
    }
    found
}

/// Who keeps it, and it itself, die while a command is at it.
fn what_dies_meanwhile(network: &[&str], services: Option<&[Service; 2]>, what: &str) {
    let mut sample = Sample::new(&format!("living, what dies {what}"));
    let mut killed = 0;
    for _ in sample.of(0..12, 3) {
        let command = one_of(&mut sample, &ALL);
        let delay = Duration::from_micros(sample.below(60_000));
        let environment = ready_with(command, network, services);
        let before = User::of(&environment);
        let child = start(&environment, &arguments_behind(command, network));
        std::thread::sleep(delay);
        let mut there = processes(&environment);
        // Until there is one, of a sandbox that is only being made.
        let until = Instant::now() + Duration::from_secs(5);
        while there.is_empty() && command == "create" && Instant::now() < until {
            there = processes(&environment);
        }
        let mut dead = None;
        if !there.is_empty() {
            let one = one_of(&mut sample, &there);
            dead = Some(name(one));
            killed += i32::from(kill_number(one));
        }
        let done = end(child, command);
        let what = format!(
            "{command}, {dead:?} after {delay:?} ({}): {done:?}",
            sample.again()
        );
        let worked = command != "create";
        let Some(services) = services else {
            check(&environment, &before, worked, &what);
            continue;
        };
        let again = passes_again(services);
        check_used(&environment, &before, worked, &again, &what);
        assert_eq!(services[1].came(), 0, "{what}: the wall was open");
    }
    assert!(killed > 0, "nothing was there to be killed");
}

pub(crate) fn kill_number(number: u32) -> bool {
    let pid = Pid::from_raw(i32::try_from(number).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).is_ok()
}

#[test]
fn whatever_of_it_dies_meanwhile() {
    what_dies_meanwhile(&NONE, None, "alone");
}

#[test]
fn whatever_of_it_dies_meanwhile_behind_the_wall() {
    let services = [(); 2].map(|()| Service::new());
    let network = wall(&services);
    let network = network.each_ref().map(String::as_str);
    what_dies_meanwhile(&network, Some(&services), "behind the wall");
}

/// Two commands at once on one sandbox: both say what is, and nothing is lost.
#[test]
fn two_at_once() {
    let all = [
        "create", "exec", "shell", "collect", "diff", "log", "pause", "resume", "stop", "start",
        "delete", "merge", "run",
    ];
    let mut pairs = Vec::new();
    for (index, one) in all.iter().enumerate() {
        pairs.extend(all[index..].iter().map(|other| [*one, *other]));
    }
    // Two that make it are `two_of_one_name`.
    pairs.remove(0);
    let mut sample = Sample::new("living, two at once");
    for pair in sample.of(pairs, PAIRS) {
        // Of two that start it, one is to have something to do.
        let environment = ready(if pair == ["start", "start"] {
            "start"
        } else {
            "exec"
        });
        let before = User::of(&environment);
        let both = pair.map(|command| (command, start(&environment, &arguments(command))));
        // What is paused in its middle goes on first.
        let (first, then): (Vec<_>, Vec<_>) = both
            .into_iter()
            .partition(|(command, _)| *command == "pause");
        let again = sample.again();
        let ended = |(command, child)| end(child, &format!("{command} of {pair:?} ({again})"));
        let mut ends: Vec<_> = first.into_iter().map(ended).collect();
        environment.cofferdam(&["resume", NAME]);
        ends.extend(then.into_iter().map(ended));
        let what = format!("{pair:?} ({again}): {ends:?}");
        assert!(ends.iter().any(|(code, _)| *code == Some(0)), "{what}");
        // What `exec`, `shell` or `run` runs may be ended by the other: that is the program's own end, and nobody's error.
        let runs = |one: &&str| ["exec", "shell", "run"].contains(one);
        let may_be_ended =
            pair.iter().any(runs) && pair.iter().any(|one| ["stop", "delete"].contains(one));
        // One shell says a signal's number in its own way.
        let hung_up = pair.contains(&"shell").then_some(1);
        let told_to_end = |code| code == hung_up || [129, 137, 143].map(Some).contains(&code);
        for (code, said) in &ends {
            let agent = said.contains("the agent ended with signal") && *code == Some(1);
            if may_be_ended && (told_to_end(*code) || agent) {
                continue;
            }
            assert!(code.is_some(), "{what}");
            assert!(
                *code == Some(0) || said.contains("`one`") || said.contains("'one'"),
                "{what}"
            );
            assert!(*code == Some(0) || said.contains("hint: "), "{what}");
        }
        check(&environment, &before, true, &what);
    }
}

#[test]
fn two_of_one_name() {
    for _ in 0..3 {
        let environment = Environment::new();
        let before = User::of(&environment);
        let both = [0, 1].map(|_| start(&environment, &arguments("create")));
        let ends = both.map(|child| end(child, "create"));
        let won = ends.iter().filter(|(code, _)| *code == Some(0)).count();
        assert_eq!(won, 1, "{ends:?}");
        let lost = ends.iter().find(|(code, _)| *code != Some(0)).unwrap();
        assert!(lost.1.contains(NAME), "{ends:?}");
        check(&environment, &before, false, "two of one name");
    }
}
