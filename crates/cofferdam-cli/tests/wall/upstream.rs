//! Attacks 21 and 22: a name server that lies, is slow or silent, and one that changes its mind.

use std::time::{Duration, Instant};

use cofferdam_lab::lab::Reply;
use cofferdam_lab::probe::Outcome;

use crate::bench::{ALLOWED, OTHER, at};
use crate::place::Place;
use crate::trial::{Trial, http, line, tcp};

/// Of the rule `*.rebind.test`.
const PORT: u16 = 4000;

fn say(place: &Place, name: &str, nonce: &str) -> Outcome {
    place.ask(&tcp(&format!("{name}:{PORT}"), nonce))
}

pub(crate) fn rebinding(trial: &mut Trial<'_>) {
    let lab = &trial.bench.control;
    for (number, address) in [
        "127.0.0.1",
        "10.0.0.5",
        "169.254.169.254",
        "100.100.100.200",
        "192.168.1.1",
        "0.0.0.0",
        "198.18.0.1",
        // The address of this machine on the wire: public, and its services are no part of the internet.
        "192.0.2.2",
        "::1",
        "fd00:1ab::5",
        "::ffff:10.0.0.5",
        "2001:db8:1::2",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("r{number}.rebind.test");
        lab.name(&name, vec![at(&[address], 0)]).unwrap();
        let what = format!("an allowed name at {address}");
        trial.exfil(&what, |place, nonce| say(place, &name, nonce));
        trial.stays_in(&what, &trial.bench.wall, |place, nonce| {
            place.connect(&name, PORT, line(nonce))
        });
    }
    lab.name(
        "mixed.rebind.test",
        vec![at(&["10.0.0.5", OTHER, "127.0.0.1"], 0)],
    )
    .unwrap();
    only_public(trial, "mixed answers", "mixed.rebind.test", 6);
    let alternating = (0..40).map(|turn| at(&[if turn % 2 == 0 { OTHER } else { "10.0.0.5" }], 0));
    lab.name("turns.rebind.test", alternating.collect())
        .unwrap();
    only_public(trial, "alternating answers", "turns.rebind.test", 6);
    for (name, reply) in [
        ("silent.rebind.test", Reply::Silence),
        ("failing.rebind.test", Reply::ServerFailure),
        ("gone.rebind.test", Reply::NoSuchName),
    ] {
        lab.name(name, vec![reply]).unwrap();
        let nonce = trial.nonce();
        let outcome = say(&trial.bench.wall, name, &nonce);
        trial.refuses(name, outcome.heard.is_empty(), &outcome);
    }
    let slow = Reply::Slow {
        millis: 700,
        addresses: vec![OTHER.parse().unwrap()],
    };
    lab.name("slow.rebind.test", vec![slow]).unwrap();
    let outcome = say(&trial.bench.wall, "slow.rebind.test", "slowly");
    trial.works(
        "a slow name server",
        outcome.heard.contains("slowly"),
        &outcome,
    );
    trial.allowed_works();
}

/// Whatever the name's other addresses are, only the public one is dialled, and it works.
fn only_public(trial: &mut Trial<'_>, what: &str, name: &str, times: usize) {
    let mut worked = false;
    for _ in 0..times {
        let nonce = trial.nonce();
        let outcome = say(&trial.bench.wall, name, &nonce);
        worked |= outcome.heard.contains(&nonce);
        let visits = trial.visits(&nonce);
        let elsewhere = visits
            .iter()
            .any(|visit| visit.at.ip().to_string() != OTHER);
        let at_home = trial.bench.house_services.heard(&nonce);
        trial.refuses(what, !elsewhere && at_home.is_empty(), &(visits, at_home));
    }
    trial.works(what, worked, &name);
}

pub(crate) fn rotation(trial: &mut Trial<'_>) {
    let lab = &trial.bench.control;
    let visit = || {
        let wall = &trial.bench.wall;
        wall.ask(&http("rotate.test:80", "rotate.test", "/")).heard
    };
    lab.name("rotate.test", vec![at(&[ALLOWED], 1)]).unwrap();
    let before = visit();
    lab.name("rotate.test", vec![at(&[OTHER], 1)]).unwrap();
    // The old answer lives for a second; behind that it must be gone.
    let start = Instant::now();
    let mut after = visit();
    while !after.contains(OTHER) && start.elapsed() < Duration::from_secs(5) {
        after = visit();
    }
    let again = visit();
    trial.works(
        "the first address",
        before.contains(&format!("{ALLOWED}:80")),
        &before,
    );
    trial.works(
        "the second address",
        after.contains(&format!("{OTHER}:80")),
        &after,
    );
    trial.works(
        "and it stays",
        again.contains(&format!("{OTHER}:80")),
        &again,
    );
    // Who kept the old address reaches it where there is no wall.
    trial.exfil("the old address", |place, nonce| {
        place.ask(&http(
            &format!("{ALLOWED}:80"),
            "rotate.test",
            &format!("/{nonce}"),
        ))
    });
    trial.allowed_works();
}
