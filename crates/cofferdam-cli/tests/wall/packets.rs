//! Attacks 7, 8, 9: what is no connection.

use cofferdam_lab::probe::Task;

use crate::bench::{ALLOWED, DENIED};
use crate::trial::Trial;

pub(crate) fn udp(trial: &mut Trial<'_>) {
    for to in [
        format!("{ALLOWED}:443"),
        format!("{ALLOWED}:123"),
        "allowed.test:443".to_owned(),
        // A rule names the range, for tcp.
        "203.0.113.133:5432".to_owned(),
        "[2001:db8:2::10]:443".to_owned(),
    ] {
        trial.exfil(&to, |place, nonce| {
            place.ask(&Task::Udp {
                to: to.clone(),
                payload: nonce.into(),
            })
        });
    }
    let wall = &trial.bench.wall;
    let outcome = wall.ask(&Task::Udp {
        to: format!("{ALLOWED}:443"),
        payload: b"x".to_vec(),
    });
    trial.refuses("said at once", outcome.error.is_some(), &outcome);
    trial.allowed_works();
}

fn echo_request(to: &str, nonce: &str, raw: bool) -> Task {
    Task::Ping {
        to: to.to_owned(),
        payload: nonce.repeat(1024 / nonce.len()).into_bytes(),
        raw,
    }
}

pub(crate) fn ping(trial: &mut Trial<'_>) {
    for to in [DENIED, ALLOWED] {
        trial.exfil("a socket for echo requests", |place, nonce| {
            place.ask(&echo_request(to, nonce, false))
        });
        // Not even without the wall: the filter of system calls stops it.
        trial.exfil_against(&trial.bench.house, "a raw socket", |place, nonce| {
            place.ask(&echo_request(to, nonce, true))
        });
    }
    trial.allowed_works();
}

pub(crate) fn raw_sockets(trial: &mut Trial<'_>) {
    const PACKET: i32 = 17;
    const RAW: i32 = 3;
    for (what, domain, kind, protocol) in [
        ("packet, raw", PACKET, RAW, 0x0300),
        ("packet, cooked", PACKET, 2, 0x0300),
        ("inet, tcp", 2, RAW, 6),
        ("inet, any", 2, RAW, 255),
        ("inet6, icmp", 10, RAW, 58),
        ("packet filter", 16, RAW, 12),
    ] {
        let task = Task::Socket {
            domain,
            kind,
            protocol,
        };
        let outcome = trial.bench.house.ask(&task);
        trial.fires(what, outcome.error.is_none(), &outcome);
        let outcome = trial.bench.wall.ask(&task);
        trial.refuses(what, outcome.error.is_some(), &outcome);
    }
    trial.exfil_against(
        &trial.bench.house,
        "a packet of a protocol of one's own",
        |place, nonce| {
            place.ask(&Task::Raw {
                to: DENIED.to_owned(),
                payload: nonce.into(),
            })
        },
    );
    trial.allowed_works();
}
