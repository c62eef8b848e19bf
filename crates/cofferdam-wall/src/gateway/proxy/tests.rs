//! Real sockets, real servers: what a sandbox's program says to its proxy port.

use std::net::SocketAddr;

use proptest::prelude::*;
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::gateway::testing::{Lab, Program, Seen, accept, client_hello, echo, web};

struct Site {
    lab: Lab,
    /// What the web servers of `allowed.test` and `second.test` saw.
    seen: Seen,
    /// What reached anybody who is not allowed.
    denied: Seen,
    /// What the other servers got: `allowed.test:22`, `allowed.test:443`, `203.0.113.9:5432`, `[2001:db8::9]:5432`.
    got: Arc<Mutex<Vec<u8>>>,
    proxy: SocketAddr,
}

async fn site() -> Site {
    let lab = Lab::new(&[
        "allowed.test:22,80,443",
        "second.test:80",
        "third.test:80 plain",
        "*.below.test:22",
        "203.0.113.0/24:5432",
        "[2001:db8::/32]:5432",
    ]);
    let release = CancellationToken::new();
    let (server, seen) = web(false, release.clone()).await;
    for to in ["allowed.test:80", "second.test:80", "third.test:80"] {
        lab.serve(to, server);
    }
    let (server, got) = echo("hi\n").await;
    for to in [
        "allowed.test:22",
        "x.below.test:22",
        "203.0.113.9:5432",
        "[2001:db8::9]:5432",
    ] {
        lab.serve(to, server);
    }
    // TLS: the client speaks first, and a server says nothing before.
    let (server, tls) = echo("").await;
    lab.serve("allowed.test:443", server);
    drop(tls);
    let (server, denied) = web(false, release).await;
    for to in [
        "denied.test:80",
        "denied.test:443",
        "denied.test:22",
        "127.0.0.1:80",
        "169.254.169.254:80",
    ] {
        lab.serve(to, server);
    }
    let door = lab.clone();
    let proxy = accept(move |stream| serve(stream, door.clone())).await;
    Site {
        lab,
        seen,
        denied,
        got,
        proxy,
    }
}

impl Site {
    async fn program(&self) -> Program {
        Program::connect(self.proxy).await
    }

    /// What comes back for these bytes until the connection ends.
    async fn say(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut program = self.program().await;
        program.say(bytes).await;
        program.rest().await
    }

    fn seen(&self) -> Vec<String> {
        assert_eq!(*self.denied.lock().unwrap(), [""; 0]);
        self.seen.lock().unwrap().clone()
    }
}

fn connect(to: &str) -> String {
    format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n")
}

const OK: &str = "HTTP/1.1 200 OK\r\n";

#[tokio::test]
async fn connect_opens_what_policy_allows_and_keeps_early_bytes() {
    for to in [
        "allowed.test:22",
        "ALLOWED.Test.:22",
        "x.below.test:22",
        "203.0.113.9:5432",
        "[2001:db8::9]:5432",
    ] {
        let site = site().await;
        let mut program = site.program().await;
        program.say(connect(to) + "early").await;
        let answer = program.until("hi\n").await;
        assert!(answer.starts_with(OK), "{to}: {answer}");
        assert!(
            !answer.contains("content-length") && !answer.contains("transfer"),
            "{answer}"
        );
        program.say(" and late").await;
        program.until("early and late").await;
        assert_eq!(*site.got.lock().unwrap(), b"early and late");
        assert_eq!(site.lab.bytes(), (14, 17));
        assert!(site.lab.refused().is_empty());
        site.lab.end();
        assert_eq!(program.rest().await, "");
    }
}

// Attack: matchers that compare text.
#[tokio::test]
async fn connect_to_anything_else_reaches_nobody() {
    let label = format!("{}.allowed.test:22", "a".repeat(64));
    for (to, status) in [
        ("denied.test:22", 403),
        ("allowed.test:23", 403),
        ("allowed.test.evil.test:22", 403),
        ("xallowed.test:22", 403),
        ("x.allowed.test:22", 403),
        ("below.test:22", 403),
        ("xn--llowed-4ta.test:22", 403),
        ("203.0.114.9:5432", 403),
        ("203.0.113.9:5433", 403),
        ("127.0.0.1:80", 403),
        ("169.254.169.254:80", 403),
        ("[::1]:80", 403),
        ("[::ffff:127.0.0.1]:80", 403),
        ("[::ffff:169.254.169.254]:80", 403),
        ("allowed.test:443@denied.test", 400),
        ("allowed.test:22@denied.test:22", 400),
        ("user@allowed.test:22", 400),
        ("allowed.test", 400),
        ("allowed.test:", 400),
        ("allowed.test:022", 400),
        ("allowed.test:0", 400),
        ("allowed..test:22", 400),
        (".allowed.test:22", 400),
        ("allowed.test..:22", 400),
        ("allowed%2etest:22", 400),
        ("2130706433:80", 400),
        ("0x7f.1:80", 400),
        ("0177.0.0.1:80", 400),
        ("127.1:80", 400),
        ("203.0.113.9.:5432", 400),
        ("[2001:db8::9%25eth0]:5432", 400),
        ("[203.0.113.9]:5432", 400),
        ("http://allowed.test:22", 400),
        ("/", 400),
        ("*", 400),
        ("allowed.test\0.denied.test:22", 400),
        ("allowed.test:22\r\nHost: x", 400),
        (&label, 400),
    ] {
        let site = site().await;
        let answer = site.say(format!("CONNECT {to} HTTP/1.1\r\n\r\n")).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{to:?}: {answer}"
        );
        assert!(site.lab.dialled().is_empty(), "{to:?}");
        assert_eq!(site.lab.refused().len(), 1, "{to:?}");
        if status == 403 {
            assert!(answer.contains("cofferdam: "), "{to:?}: {answer}");
        }
    }
    let site = site().await;
    let answer = site.say(connect("denied.test:443")).await;
    assert!(answer.ends_with("cofferdam: denied.test:443 is refused: no rule names denied.test\nto allow it, on the host: cofferdam allow denied.test:443\n"), "{answer}");
}

// Attack: the name of the CONNECT is allowed, the one inside is not.
#[tokio::test]
async fn the_server_name_is_compared_before_anything_is_dialled() {
    let site = site().await;
    let hello = client_hello(Some(b"allowed.test"));
    let mut program = site.program().await;
    // Together with the CONNECT, and in two pieces.
    program
        .say([connect("allowed.test:443").as_bytes(), &hello[..20]].concat())
        .await;
    assert!(program.until("\r\n\r\n").await.starts_with(OK));
    assert!(site.lab.dialled().is_empty());
    program.say([&hello[20..], b"more"].concat()).await;
    let back = program.until("more").await;
    assert!(back.contains("allowed.test"));
    assert_eq!(site.lab.bytes().0, hello.len() as u64 + 4);

    for (hello, why) in [
        (
            client_hello(Some(b"denied.test")),
            "its TLS client hello names denied.test instead",
        ),
        (client_hello(None), "no server name"),
        (client_hello(Some(b"203.0.113.9")), "reads as an address"),
        (
            client_hello(Some(b"allowed.test\0.denied.test")),
            "has the character",
        ),
        (client_hello(Some(b"allowed.test.")), "malformed"),
        (
            b"GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n".to_vec(),
            "does not begin with a TLS client hello",
        ),
    ] {
        let site = self::site().await;
        for early in [true, false] {
            let mut program = site.program().await;
            if early {
                program
                    .say([connect("allowed.test:443").as_bytes(), &hello].concat())
                    .await;
            } else {
                program.say(connect("allowed.test:443")).await;
                program.until("\r\n\r\n").await;
                program.say(&hello).await;
            }
            let rest = program.rest().await;
            assert!(rest.is_empty() || rest.starts_with(OK), "{rest}");
            let refused = site.lab.refused().pop().unwrap();
            assert!(
                refused.starts_with("allowed.test:443: ") && refused.contains(why),
                "{refused}"
            );
            assert!(site.lab.dialled().is_empty(), "{why}");
        }
    }
}

#[tokio::test]
async fn requests_in_a_connect_to_an_http_port_are_checked() {
    let site = site().await;
    let mut program = site.program().await;
    program
        .say(connect("allowed.test:80") + "GET /1 HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        .await;
    program.until("}\n").await;
    program
        .say("GET /2 HTTP/1.1\r\nHost: denied.test\r\n\r\n")
        .await;
    let rest = program.rest().await;
    assert!(rest.starts_with("HTTP/1.1 403 "), "{rest}");
    assert_eq!(site.seen(), ["GET allowed.test /1"]);
    // A CONNECT within a CONNECT.
    let inner = connect("allowed.test:80") + &connect("denied.test:80");
    assert!(site.say(inner).await.contains("HTTP/1.1 400 "));
    assert_eq!(site.lab.dialled(), ["allowed.test:80"]);
}

#[tokio::test]
async fn requests_with_a_whole_address_are_each_decided() {
    let site = site().await;
    let mut program = site.program().await;
    for host in [
        "allowed.test",
        "second.test",
        "Allowed.test:80",
        "third.test",
    ] {
        program
            .say(format!("GET http://{host}/a?b HTTP/1.1\r\nHost: {host}\r\nProxy-Connection: keep-alive\r\n\r\n"))
            .await;
        let answer = program.until("}\n").await;
        assert!(
            answer.starts_with(OK) && !answer.contains("proxy-connection"),
            "{answer}"
        );
    }
    program
        .say("GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n")
        .await;
    let rest = program.rest().await;
    assert!(rest.starts_with("HTTP/1.1 403 "), "{rest}");
    assert!(rest.ends_with("cofferdam allow denied.test:80\n"), "{rest}");
    assert_eq!(
        site.seen(),
        [
            "GET allowed.test /a",
            "GET second.test /a",
            "GET allowed.test /a",
            "GET third.test /a"
        ]
    );
    assert_eq!(
        site.lab.refused(),
        ["denied.test:80: no rule names denied.test"]
    );
}

#[tokio::test]
async fn other_requests_to_the_proxy_reach_nobody() {
    for (request, status) in [
        (
            "GET http://allowed.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n",
            "400",
        ),
        (
            "GET http://denied.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
            "400",
        ),
        ("GET http://allowed.test/ HTTP/1.1\r\n\r\n", "400"),
        (
            "GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nHost: allowed.test\r\n\r\n",
            "400",
        ),
        (
            "GET http://allowed.test:80@denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n",
            "400",
        ),
        (
            "GET https://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
            "400",
        ),
        (
            "GET ftp://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
            "400",
        ),
        ("GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n", "400"),
        ("OPTIONS * HTTP/1.1\r\nHost: allowed.test\r\n\r\n", "400"),
        (
            "POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "400",
        ),
        (
            "GET http://allowed.test:443/ HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n",
            "403",
        ),
        (
            "GET http://169.254.169.254/latest HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n",
            "403",
        ),
        (
            "GET http://[::ffff:169.254.169.254]/latest HTTP/1.1\r\nHost: [::ffff:169.254.169.254]\r\n\r\n",
            "403",
        ),
        (
            "GET http://2852039166/latest HTTP/1.1\r\nHost: 2852039166\r\n\r\n",
            "400",
        ),
        (
            "GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            "501",
        ),
    ] {
        let site = site().await;
        let answer = site.say(request).await;
        assert_eq!(
            answer.split(' ').nth(1),
            Some(status),
            "{request:?}: {answer}"
        );
        assert!(site.lab.dialled().is_empty(), "{request:?}");
        assert_eq!(site.lab.refused().len(), 1, "{request:?}");
        if request.starts_with("GET / ") {
            assert!(
                answer.contains("this port is the sandbox's proxy"),
                "{answer}"
            );
        }
    }
}

/// A greeting and a request, in one piece.
fn socks(command: u8, kind: u8, address: &[u8], port: u16) -> Vec<u8> {
    [
        &[5, 2, 2, 0, 5, command, 0, kind][..],
        address,
        &port.to_be_bytes(),
    ]
    .concat()
}

fn named(name: &[u8]) -> Vec<u8> {
    [&[u8::try_from(name.len()).unwrap()][..], name].concat()
}

#[tokio::test]
async fn socks_opens_what_policy_allows_and_keeps_early_bytes() {
    let v6: std::net::Ipv6Addr = "2001:db8::9".parse().unwrap();
    for (kind, address, port) in [
        (3, named(b"allowed.test"), 22),
        (3, named(b"Allowed.TEST."), 22),
        (3, named(b"203.0.113.9"), 5432),
        (3, named(b"2001:db8::9"), 5432),
        (1, vec![203, 0, 113, 9], 5432),
        (4, v6.octets().to_vec(), 5432),
    ] {
        let site = site().await;
        let mut program = site.program().await;
        program
            .say([socks(1, kind, &address, port), b"early".to_vec()].concat())
            .await;
        program.until("\x05\0\x05\0\0\x01\0\0\0\0\0\0hi\n").await;
        program.until("early").await;
        assert_eq!(*site.got.lock().unwrap(), b"early");
        assert!(site.lab.refused().is_empty());
    }
}

#[tokio::test]
async fn socks_replies_say_why_not() {
    let long = [b"a.".repeat(127), b"t".to_vec()].concat();
    assert_eq!(long.len(), 255);
    for (request, reply) in [
        (socks(1, 3, &named(b"denied.test"), 22), 2),
        (socks(1, 3, &named(b"allowed.test"), 23), 2),
        (socks(1, 3, &named(b"allowed.test"), 0), 2),
        (socks(1, 3, &named(b"denied.test\0.allowed.test"), 22), 2),
        (socks(1, 3, &named(b"allowed.test\0"), 22), 2),
        (socks(1, 3, &named(b"\xff.test"), 22), 2),
        (socks(1, 3, &named(b""), 22), 2),
        (socks(1, 3, &named(b"127.1"), 80), 2),
        (socks(1, 3, &named(b"[2001:db8::9]"), 5432), 2),
        (socks(1, 3, &named(&long), 22), 2),
        (socks(1, 1, &[127, 0, 0, 1], 80), 2),
        (socks(1, 1, &[169, 254, 169, 254], 80), 2),
        (socks(1, 3, &named(b"y.below.test"), 22), 4),
        (socks(2, 3, &named(b"allowed.test"), 22), 7),
        (socks(3, 1, &[0, 0, 0, 0], 0), 7),
        (socks(1, 9, b"", 22), 8),
    ] {
        let site = site().await;
        let mut program = site.program().await;
        program.say(&request).await;
        let mut answer = [0; 12];
        tokio::io::AsyncReadExt::read_exact(&mut program.0, &mut answer)
            .await
            .unwrap();
        assert_eq!(answer[..4], [5, 0, 5, reply], "{request:?}");
        program.rest().await;
        assert_eq!(site.seen(), [""; 0]);
        assert!(reply == 4 || site.lab.dialled().is_empty(), "{request:?}");
        assert!(reply == 4 || site.lab.refused().len() == 1, "{request:?}");
    }
    let site = site().await;
    let mut program = site.program().await;
    program.say([5, 1, 2]).await;
    let mut answer = [0; 2];
    tokio::io::AsyncReadExt::read_exact(&mut program.0, &mut answer)
        .await
        .unwrap();
    assert_eq!(answer, [5, 0xff], "no login, no way");
}

#[tokio::test]
async fn what_goes_through_socks_is_looked_at_by_its_rule() {
    let site = site().await;
    let request = b"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n";
    let rest = site
        .say([socks(1, 3, &named(b"allowed.test"), 80), request.to_vec()].concat())
        .await;
    assert!(rest.contains("HTTP/1.1 403 "), "{rest}");
    let hello = client_hello(Some(b"denied.test"));
    site.say([socks(1, 3, &named(b"allowed.test"), 443), hello].concat())
        .await;
    assert_eq!(
        site.lab.refused(),
        [
            "denied.test:80: this connection is to allowed.test:80",
            "allowed.test:443: its TLS client hello names denied.test instead"
        ]
    );
    let opens = Some("denied.test:80".to_owned());
    assert_eq!(site.lab.opens(), [(true, opens), (false, None)]);
    assert!(site.lab.dialled().is_empty());
}

/// Virtual time: it passes as soon as everybody waits.
#[tokio::test(start_paused = true)]
async fn a_program_that_says_nothing_is_let_go() {
    let site = site().await;
    for begun in [
        &b""[..],
        b"\x05",
        b"\x05\x01\0\x05\x01",
        b"CONNECT allowed.test",
        connect("allowed.test:443").as_bytes(),
    ] {
        let before = tokio::time::Instant::now();
        let mut program = site.program().await;
        program.say(begun).await;
        program.rest().await;
        assert!(before.elapsed() >= HANDSHAKE, "{begun:?}");
    }
    assert!(site.lab.dialled().is_empty());
}

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"GET http://allowed.test/ HTTP/1.1\r\n".to_vec()),
        Just(b"GET http://denied.test/ HTTP/1.1\r\n".to_vec()),
        Just(b"CONNECT allowed.test:80 HTTP/1.1\r\n\r\n".to_vec()),
        Just(b"CONNECT denied.test:80 HTTP/1.1\r\n\r\n".to_vec()),
        Just(b"Host: allowed.test\r\n".to_vec()),
        Just(b"Host: denied.test\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(socks(1, 3, &named(b"allowed.test"), 80)),
        Just(socks(1, 3, &named(b"denied.test"), 80)),
        Just(socks(1, 1, &[127, 0, 0, 1], 80)),
        prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn whatever_is_said_nobody_hears_of_it_who_is_not_allowed(bytes in pieces()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let site = site().await;
            let mut program = site.program().await;
            program.say(&bytes).await;
            program.0.shutdown().await.unwrap();
            program.rest().await;
            for request in site.seen() {
                let host = request.split(' ').nth(1).unwrap();
                assert!(["allowed.test", "second.test", "third.test"].contains(&host), "{request}");
            }
            let allowed = |to: &String| !to.contains("denied") && !to.contains("127.0.0.1");
            assert!(site.lab.dialled().iter().all(allowed));
        });
    }
}
