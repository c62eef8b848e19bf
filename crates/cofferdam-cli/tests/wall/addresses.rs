//! Attacks 1, 3, 6, 23, 27: to addresses and ports that no rule names.

use cofferdam_lab::lab::Transport;

use crate::bench::{ALLOWED, DENIED, INSIDE, SHARED};
use crate::place::PROXY;
use crate::trial::{Trial, http, line, request, tcp, word};

pub(crate) fn denied_address(trial: &mut Trial<'_>) {
    for to in ["203.0.113.11:443", "203.0.113.11:80", "203.0.113.11:22"] {
        trial.exfil(to, |place, nonce| place.ask(&word(to, nonce)));
    }
    trial.exfil("port 8080", |place, nonce| {
        place.ask(&http(
            &format!("{DENIED}:8080"),
            DENIED,
            &format!("/{nonce}"),
        ))
    });
    trial.exfil("port 53", |place, nonce| {
        place.ask(&word("192.0.2.53:53", nonce))
    });
    trial.exfil("through the proxy", |place, nonce| {
        place.connect(DENIED, 80, line(nonce))
    });
    trial.allowed_works();
}

pub(crate) fn denied_port(trial: &mut Trial<'_>) {
    trial.exfil("allowed.test:8443", |place, nonce| {
        place.ask(&word("allowed.test:8443", nonce))
    });
    let nonce = trial.nonce();
    let wall = &trial.bench.wall;
    let outcome = wall.ask(&word("allowed.test:4000", &nonce));
    trial.refuses("port 4000", outcome.error.is_some(), &outcome);
    let log = wall.user.cofferdam(&["net", "log", "wall", "--json"]);
    let line = log.stdout.lines().find(|line| {
        line.contains("allowed.test") && line.contains("4000") && line.contains("refused")
    });
    trial.refuses(
        "in the log",
        line.is_some_and(|line| line.contains("reason")),
        &log,
    );
    let outcome = wall.ask(&tcp("allowed.test:22", "hello"));
    let banner = format!("SSH-2.0-lab {ALLOWED}:22");
    trial.works(
        "a port that is named",
        outcome.heard.starts_with(&banner),
        &outcome,
    );
    trial.allowed_works();
}

pub(crate) fn ipv6(trial: &mut Trial<'_>) {
    let scope = link_of_the_wire();
    for to in [
        "[fd00:1ab::11]:80",
        "[2001:db8:2::10]:80",
        "[::ffff:203.0.113.11]:80",
        &format!("[fe80::1%{scope}]:80"),
    ] {
        trial.exfil(to, |place, nonce| {
            place.ask(&http(to, "six.test", &format!("/{nonce}")))
        });
    }
    for host in ["[2001:db8:2::10]", "[::ffff:203.0.113.11]"] {
        trial.exfil(&format!("{host} by CONNECT"), |place, nonce| {
            place.connect(host, 80, request("six.test", &format!("/{nonce}")))
        });
    }
    // There is no control of this one: nothing in the lab translates from IPv6 to IPv4.
    let translated = "[64:ff9b::203.0.113.11]";
    trial.stays_in(translated, &trial.bench.wall, |place, nonce| {
        place.connect(translated, 80, line(nonce))
    });
    trial.allowed_works();
}

/// The number of the house's interface, without which a link-local address says nothing.
fn link_of_the_wire() -> u32 {
    let table = std::fs::read_to_string("/proc/net/if_inet6").unwrap();
    let line = table.lines().find(|line| line.ends_with("house0"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    u32::from_str_radix(number, 16).unwrap()
}

pub(crate) fn shared(trial: &mut Trial<'_>) {
    let by_ip = format!("{SHARED}:80");
    trial.exfil("the bare address", |place, nonce| {
        place.ask(&http(&by_ip, "cdn-allowed.test", &format!("/{nonce}")))
    });
    trial.exfil("the address with the denied Host", |place, nonce| {
        place.ask(&http(&by_ip, "cdn-denied.test", &format!("/{nonce}")))
    });
    trial.exfil("the allowed name with the denied Host", |place, nonce| {
        place.ask(&http(
            "cdn-allowed.test:80",
            "cdn-denied.test",
            &format!("/{nonce}"),
        ))
    });
    trial.exfil("the denied name", |place, nonce| {
        place.ask(&http(
            "cdn-denied.test:80",
            "cdn-denied.test",
            &format!("/{nonce}"),
        ))
    });
    trial.exfil("the denied name through the proxy", |place, nonce| {
        place.absolute("cdn-denied.test", 80, &format!("/{nonce}"))
    });
    let wall = &trial.bench.wall;
    let outcome = wall.ask(&http("cdn-allowed.test:80", "cdn-allowed.test", "/"));
    let there = outcome.heard.contains(&by_ip);
    trial.works("the allowed name", there, &outcome);
}

pub(crate) fn range(trial: &mut Trial<'_>) {
    for to in [
        format!("{INSIDE}:22"),
        "203.0.113.127:5432".to_owned(),
        "203.0.113.144:5432".to_owned(),
        // A name that resolves into the range has no rule.
        "inside.test:5432".to_owned(),
    ] {
        trial.exfil(&to, |place, nonce| place.ask(&word(&to, nonce)));
    }
    let mark = trial.bench.control.mark().unwrap();
    let to = format!("{INSIDE}:5432");
    let outcome = trial.bench.wall.ask(&tcp(&to, "hello"));
    trial.works("inside", outcome.heard.starts_with("SSH-2.0-lab"), &outcome);
    let packets = trial.bench.control.since(mark).unwrap().packets;
    let connections = packets
        .iter()
        .filter(|packet| packet.transport == Transport::Syn);
    trial.works("one connection", connections.count() == 1, &packets);
    let proxied = trial.bench.wall.ask(&tcp(
        PROXY,
        format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n"),
    ));
    trial.works(
        "inside by proxy",
        proxied.heard.contains("SSH-2.0-lab"),
        &proxied,
    );
}
