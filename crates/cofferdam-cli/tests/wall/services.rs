//! Attacks 11, 12, 13: services nearby that trust whoever can reach them.

use std::time::{Duration, Instant};

use cofferdam_lab::lab::place as lab_place;
use cofferdam_lab::probe::Task;

use crate::bench::{SIBLINGS, at};
use crate::house::{EVERYWHERE, LOOPBACK, OUTSIDE};
use crate::place::Place;
use crate::trial::{Trial, http, line, word};

pub(crate) fn metadata(trial: &mut Trial<'_>) {
    for address in [
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "[fd00:ec2::254]",
    ] {
        let to = format!("{address}:80");
        trial.exfil(&to, |place, nonce| {
            place.ask(&http(&to, address, &format!("/latest/{nonce}")))
        });
        trial.exfil(&format!("{to}, CONNECT"), |place, nonce| {
            place.connect(address, 80, line(nonce))
        });
        trial.exfil(&format!("{to}, absolute form"), |place, nonce| {
            place.absolute(address, 80, &format!("/latest/{nonce}"))
        });
    }
    trial.exfil("by name", |place, nonce| {
        place.connect("metadata.google.internal", 80, line(nonce))
    });
    trial.allowed_works();
}

pub(crate) fn host(trial: &mut Trial<'_>) {
    for (host, port) in [
        ("127.0.0.1", LOOPBACK),
        ("192.0.2.2", OUTSIDE),
        ("192.0.2.2", EVERYWHERE),
        ("[::1]", EVERYWHERE),
        ("[2001:db8:1::2]", EVERYWHERE),
        ("localhost", EVERYWHERE),
        ("0.0.0.0", EVERYWHERE),
        ("127.1", LOOPBACK),
        ("2130706433", LOOPBACK),
        ("0x7f000001", LOOPBACK),
        ("017700000001", LOOPBACK),
        ("[::ffff:127.0.0.1]", LOOPBACK),
        ("host.docker.internal", EVERYWHERE),
        ("host.containers.internal", EVERYWHERE),
        ("host.cofferdam.internal", EVERYWHERE),
    ] {
        let what = format!("{host}:{port}");
        trial.exfil(&what, |place, nonce| place.ask(&word(&what, nonce)));
        trial.exfil(&format!("{what}, proxy"), |place, nonce| {
            place.connect(host, port, line(nonce))
        });
        trial.exfil(&format!("{what}, socks"), |place, nonce| {
            place.socks(host, port, line(nonce))
        });
    }
    trial.allowed_works();
}

pub(crate) fn sibling(trial: &mut Trial<'_>) {
    const PORT: u16 = 5000;
    let bench = trial.bench;
    // Names that an engine's own name server would give.
    for name in ["sibling", "cofferdam-sibling"] {
        bench
            .control
            .name(name, vec![at(&[lab_place::HOUSE], 60)])
            .unwrap();
    }
    let hits = |place: &Place| place.ask(&Task::Hits { port: PORT }).heard;
    for place in [&bench.sibling, &bench.open] {
        let outcome = place.ask(&Task::Listen { port: PORT });
        assert!(outcome.error.is_none(), "{}: {outcome:?}", place.name);
    }
    // Sandboxes without a wall share the host's network: one reaches another's servers, by whatever name.
    for host in [
        "127.0.0.1",
        "localhost",
        "sibling",
        "cofferdam-sibling",
        "127.0.0.2",
        "192.0.2.2",
    ] {
        let to = format!("{host}:{PORT}");
        for (form, direct) in [("", true), (", CONNECT", false)] {
            let what = format!("{to}{form}");
            let deed = |place: &Place, nonce: &str| {
                if direct {
                    place.ask(&word(&to, nonce))
                } else {
                    place.connect(host, PORT, line(nonce))
                }
            };
            let before = hits(&bench.open);
            let nonce = trial.nonce();
            let outcome = deed(&bench.open, &nonce);
            // Counted by another thread than the one that answers.
            let start = Instant::now();
            let mut more = hits(&bench.open) != before;
            while !more && start.elapsed() < Duration::from_secs(5) {
                more = hits(&bench.open) != before;
            }
            trial.fires(&what, more, &outcome);
            let before = hits(&bench.open);
            trial.stays_in(&what, &bench.wall, deed);
            trial.refuses(&what, hits(&bench.open) == before, &before);
        }
    }
    trial.refuses("hits", hits(&bench.sibling) == "0", &hits(&bench.sibling));
    // The other's address for a name that only it may reach means nothing here.
    let found = bench.sibling.ask(&Task::Lookup {
        name: "sibling-only.test".to_owned(),
    });
    let address = found.found.first().cloned().unwrap_or_default();
    let nonce = trial.nonce();
    let to = format!("{address}:80");
    let outcome = bench
        .sibling
        .ask(&http(&to, "sibling-only.test", &format!("/{nonce}")));
    trial.fires("its own name", !trial.visits(&nonce).is_empty(), &outcome);
    let nonce = trial.nonce();
    let outcome = bench
        .wall
        .ask(&http(&to, "sibling-only.test", &format!("/{nonce}")));
    let visits = trial.visits(&nonce);
    let there = visits
        .iter()
        .any(|visit| visit.at.ip().to_string() == SIBLINGS);
    trial.refuses("its address", !there, &(visits, outcome));
    trial.allowed_works();
}
