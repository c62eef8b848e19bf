//! Attacks 14 to 17 and 26: before the wall is up, while it is down, and after a rule has gone.

use std::fs;
use std::time::{Duration, Instant};

use cofferdam_lab::probe::{Outcome, Task};
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{CONFIG, DENIED};
use crate::place::Place;
use crate::trial::{Trial, http, word};

/// Set where everything is tried, however long it takes.
const ALL: &str = "COFFERDAM_TEST_ALL";
/// How long the gateway stands still.
const LONG_STOP: Duration = Duration::from_secs(20);
/// Where time matters; the command that looks at the gateway has waited for its bound by then.
const SHORT_STOP: Duration = Duration::from_secs(6);

pub(crate) fn start_race(trial: &mut Trial<'_>) {
    let race = |trial: &mut Trial<'_>, options: &[&str]| {
        let nonce = trial.nonce();
        let user = trial.bench.beside(&format!("race-{nonce}"));
        let mut arguments = vec!["run", "--head"];
        arguments.extend(options);
        arguments.extend(crate::engine::words(options));
        let address = format!("{DENIED}:80");
        arguments.extend([
            "--",
            "./probe",
            "--probe",
            "race",
            &address,
            "denied.test",
            &nonce,
        ]);
        let mark = trial.bench.control.mark().unwrap();
        let done = user.cofferdam(&arguments);
        assert_eq!(done.code, Some(0), "{done:?}");
        let packets = trial.bench.control.since(mark).unwrap().packets;
        let to_denied = packets
            .into_iter()
            .filter(|packet| packet.to.to_string() == DENIED)
            .count();
        (trial.found(&nonce), to_denied)
    };
    let (found, packets) = race(trial, &["--network", "open"]);
    trial.fires(
        "a program that is at once there",
        !found.is_empty() && packets > 0,
        &found,
    );
    for _ in 0..3 {
        let (found, packets) = race(trial, &["--allow", "allowed.test"]);
        trial.refuses(
            "from its first instruction on",
            found.is_empty() && packets == 0,
            &found,
        );
    }
    trial.allowed_works();
}

fn signal(process: i32, signal: Signal) {
    kill_process(Pid::from_raw(process).unwrap(), signal).unwrap();
}

fn denied(trial: &mut Trial<'_>, what: &str) {
    trial.exfil(what, |place, nonce| {
        place.ask(&word("203.0.113.11:80", nonce))
    });
}

pub(crate) fn stop_and_continue(trial: &mut Trial<'_>) {
    let (program, init) = trial.bench.wall.processes();
    for process in [init, program] {
        signal(process, Signal::STOP);
        signal(process, Signal::CONT);
        denied(trial, "after stop and continue");
        trial.allowed_works();
    }
}

/// The gateways of this lab.
fn gateways() -> Vec<i32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let is_gateway = |path: &std::path::Path| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        line.starts_with(b"cofferdam-gateway")
    };
    processes
        .filter(|entry| is_gateway(&entry.path()))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn visit(place: &Place) -> Outcome {
    place.ask(&http("allowed.test:80", "allowed.test", "/"))
}

/// Asks again until it works, as a program does that has lost its connection.
fn works_again(place: &Place) -> (bool, Outcome) {
    let start = Instant::now();
    loop {
        let outcome = visit(place);
        let there = outcome.heard.contains("203.0.113.10:80");
        if there || start.elapsed() > Duration::from_secs(10) {
            return (there, outcome);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn gateway_dies(trial: &mut Trial<'_>) {
    let wall = &trial.bench.wall;
    let running = gateways();
    assert!(!running.is_empty(), "no gateway");
    // Stopped: nothing moves, not even what is allowed.
    for process in &running {
        signal(*process, Signal::STOP);
    }
    // The kernel still says again what was said to it before: the first time after a second.
    std::thread::sleep(Duration::from_millis(1500));
    let nonce = trial.nonce();
    let mark = trial.bench.control.mark().unwrap();
    let held = wall.ask(&http(
        "allowed.test:80",
        "allowed.test",
        &format!("/{nonce}"),
    ));
    let away = wall.ask(&word("203.0.113.11:80", &nonce));
    let left = trial.left_since(mark);
    let found = trial.found(&nonce);
    let still = left.is_empty() && found.is_empty() && held.heard.is_empty();
    trial.refuses("while stopped", still, &(&left, &found, &held, away));
    // And for as long as that lasts, while its user can see what is wrong.
    let nonce = trial.nonce();
    let mark = trial.bench.control.mark().unwrap();
    let doctor = wall.user.cofferdam(&["doctor"]);
    let named = running
        .iter()
        .any(|process| doctor.stdout.contains(&format!("kill -CONT {process}")));
    trial.refuses("without a word", named, &doctor);
    let stop = if std::env::var_os(ALL).is_some() {
        LONG_STOP
    } else {
        SHORT_STOP
    };
    let (mut attempts, start) = (0, Instant::now());
    while start.elapsed() < stop {
        wall.ask(&word("203.0.113.11:80", &nonce));
        wall.ask(&Task::Udp {
            to: format!("{DENIED}:443"),
            payload: nonce.clone().into_bytes(),
        });
        attempts += 1;
    }
    let left = trial.left_since(mark);
    let found = trial.found(&nonce);
    let still = left.is_empty() && found.is_empty() && attempts > 0;
    trial.refuses("while stopped for long", still, &(&left, &found, attempts));
    for process in &running {
        signal(*process, Signal::CONT);
    }
    let (there, outcome) = works_again(wall);
    trial.works("after it goes on", there, &outcome);
    // Killed, again and again, while a program tries.
    for round in 0..3 {
        let mark = trial.bench.control.mark().unwrap();
        for process in gateways() {
            signal(process, Signal::KILL);
        }
        let nonce = trial.nonce();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(400) {
            wall.ask(&word("203.0.113.11:80", &nonce));
            let payload = nonce.clone().into_bytes();
            let to = format!("{DENIED}:443");
            wall.ask(&Task::Udp { to, payload });
            let name = format!("{nonce}.denied.test");
            wall.ask(&Task::Lookup { name });
        }
        let found = trial.found(&nonce);
        trial.refuses("while killed", found.is_empty(), &(round, found));
        let packets = trial.bench.control.since(mark).unwrap().packets;
        let to_denied = packets.iter().any(|packet| packet.to.to_string() == DENIED);
        trial.refuses("while killed", !to_denied, &packets);
        let (there, outcome) = works_again(wall);
        trial.works("after it was killed", there, &outcome);
    }
    denied(trial, "afterwards");
    // Whoever starts the sandbox dies: the sandbox has no network, or is no more.
    let mut orphan = Place::start(
        trial.bench.beside("orphan"),
        "orphan",
        &["--allow", "allowed.test"],
    )
    .ready();
    orphan.child.kill().unwrap();
    orphan.child.wait().unwrap();
    let nonce = trial.nonce();
    let outcome = orphan.try_ask(&word("203.0.113.11:80", &nonce));
    let found = trial.found(&nonce);
    trial.refuses(
        "after its command was killed",
        found.is_empty(),
        &(found, outcome),
    );
    trial.allowed_works();
}

pub(crate) fn start_again(trial: &mut Trial<'_>) {
    let user = trial.bench.stranger("again");
    for round in 0..3 {
        let nonce = trial.nonce();
        let (done, outcomes) = user.once(
            &["--allow", "allowed.test"],
            &[
                http("allowed.test:80", "allowed.test", "/"),
                word("203.0.113.11:80", &nonce),
                Task::Ping {
                    to: DENIED.to_owned(),
                    payload: nonce.clone().into_bytes(),
                    raw: false,
                },
            ],
        );
        let there = outcomes
            .first()
            .is_some_and(|outcome| outcome.heard.contains("203.0.113.10:80"));
        trial.works("a run", there, &(round, &done, &outcomes));
        let found = trial.found(&nonce);
        trial.refuses("a run", found.is_empty(), &(round, found, &outcomes));
        // Between the runs everything of before ends: politely, or not.
        for process in gateways() {
            let how = if round == 0 {
                Signal::TERM
            } else {
                Signal::KILL
            };
            signal(process, how);
        }
    }
    let nonce = trial.nonce();
    let (done, _) = user.once(&["--network", "open"], &[word("203.0.113.11:80", &nonce)]);
    trial.fires(
        "a run without the wall",
        !trial.found(&nonce).is_empty(),
        &done,
    );
    // The sandboxes that lost their gateway have one again.
    let (there, outcome) = works_again(&trial.bench.wall);
    trial.works("the sandbox of before", there, &outcome);
}

pub(crate) fn rule_goes(trial: &mut Trial<'_>) {
    let bench = trial.bench;
    let open = |key: &str| Task::Open {
        key: key.to_owned(),
        to: "live.test:7".to_owned(),
    };
    let talk = |key: &str, say: &str| Task::Talk {
        key: key.to_owned(),
        say: say.into(),
    };
    for place in [&bench.wall, &bench.open] {
        let outcome = place.ask(&open("long"));
        assert!(outcome.error.is_none(), "{}: {outcome:?}", place.name);
    }
    let outcome = bench.wall.ask(&talk("long", "before"));
    trial.works("before", outcome.heard == "before", &outcome);
    let user = &bench.wall.user;
    user.configure("firewall:\n  allow: []\n");
    let start = Instant::now();
    let done = user.cofferdam(&["net", "reload"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let mut outcome = bench.wall.ask(&talk("long", "after"));
    while outcome.error.is_none() && start.elapsed() < Duration::from_secs(5) {
        outcome = bench.wall.ask(&talk("long", "after"));
    }
    trial.refuses("within five seconds", outcome.error.is_some(), &outcome);
    let outcome = bench.wall.ask(&open("next"));
    let nonce = trial.nonce();
    let said = bench.wall.ask(&talk("next", &nonce));
    trial.refuses(
        "a new one",
        trial.found(&nonce).is_empty(),
        &(outcome, said),
    );
    let outcome = bench.open.ask(&talk("long", "still"));
    trial.fires(
        "goes on without the wall",
        outcome.heard == "still",
        &outcome,
    );
    user.configure(CONFIG);
    let done = user.cofferdam(&["net", "reload"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    bench.wall.ask(&open("again"));
    let outcome = bench.wall.ask(&talk("again", "back"));
    trial.works("with the rule again", outcome.heard == "back", &outcome);
    trial.allowed_works();
}
