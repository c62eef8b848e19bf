//! Real sockets, real servers: what a sandbox's program says to port 80 of an allowed name.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::TokioExecutor;
use proptest::prelude::*;

use super::*;
use crate::gateway::testing::{Lab, Program, Seen, accept, echo, web};

/// `allowed.test` is allowed on 80; `denied.test` has a server that nobody may see.
struct Site {
    lab: Lab,
    seen: Seen,
    denied: Seen,
    release: CancellationToken,
    /// Where connections to `allowed.test:80` arrive.
    gate: SocketAddr,
}

async fn site(two: bool) -> Site {
    let lab = Lab::new(&["allowed.test"]);
    let release = CancellationToken::new();
    let (server, seen) = web(two, release.clone()).await;
    let (elsewhere, denied) = web(two, release.clone()).await;
    lab.serve("allowed.test:80", server);
    lab.serve("denied.test:80", elsewhere);
    let gate = gate(&lab).await;
    Site {
        lab,
        seen,
        denied,
        release,
        gate,
    }
}

async fn gate(lab: &Lab) -> SocketAddr {
    let lab = lab.clone();
    accept(move |stream| {
        let lab = lab.clone();
        async move {
            let wanted = "allowed.test".parse().unwrap();
            carry(stream, &wanted, 80, lab, Via::Transparent).await;
        }
    })
    .await
}

impl Site {
    /// What comes back for these bytes until the connection ends.
    async fn say(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut program = Program::connect(self.gate).await;
        program.say(bytes).await;
        program.rest().await
    }

    fn seen(&self) -> Vec<String> {
        assert!(self.denied.lock().unwrap().is_empty());
        self.seen.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_request_is_written_anew() {
    let site = site(false).await;
    let response = site
        .say(
            "POST /a?b=c HTTP/1.1\r\nHOST: Allowed.Test.:80\r\nConnection: close, X-Private\r\nX-Private: 1\r\n\
             Keep-Alive: 5\r\nProxy-Authorization: Basic x\r\nTE: trailers\r\nUpgrade: h2c\r\nX-Kept: 2\r\n\
             Content-Length: 5\r\n\r\nhello",
        )
        .await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert_eq!(site.seen(), ["POST allowed.test /a hello"]);
    assert!(response.contains("x-kept"), "{response}");
    let gone = [
        "x-private",
        "keep-alive",
        "proxy-auth",
        "\"te\"",
        "upgrade",
        "connection\"",
    ];
    for name in gone {
        assert!(!response.contains(name), "{name} in {response}");
    }
    assert!(site.lab.refused().is_empty());
    let (sent, received) = site.lab.bytes();
    assert!(sent > 60 && received > 60, "{sent} {received}");
}

// Attacks: smuggling. A second request hides where one reader sees a body and another does not.
#[tokio::test]
async fn what_two_programs_could_read_differently_reaches_nobody() {
    let hidden = "GET /hidden HTTP/1.1\r\nHost: denied.test\r\n\r\n";
    for head in [
        "POST / HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: x, chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 0\r\nContent-Length: 9\r\n\r\n",
        "GET / HTTP/1.1\nHost: allowed.test\n\n",
        "GET / HTTP/1.1\r\nHost: allowed.test\nHost: denied.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: allowed.test\rHost: denied.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: allowed.test\r\nHost: denied.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: allowed.test\r\nHost: allowed.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: allowed.test\r\n denied.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : allowed.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: allowed.test\0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: allowed.test, denied.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: user@allowed.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: allowed.test:80@denied.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: allowed%2etest\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: allowed.test:080\r\n\r\n",
        "GET / HTTP/1.1\r\nHost:\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET http://allowed.test/ HTTP/1.1\r\n\r\n",
        "GET http://allowed.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n",
        "GET http://denied.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        "GET http://allowed.test:81/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        "GET http://user@allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        "GET https://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        "GET allowed.test:80 HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        "CONNECT denied.test:80 HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        "CONNECT allowed.test:80 HTTP/1.1\r\nHost: allowed.test:80\r\n\r\n",
    ] {
        let site = site(false).await;
        let response = site.say(format!("{head}{hidden}")).await;
        assert!(
            response.starts_with("HTTP/1.1 400 ") || response.starts_with("HTTP/1.0 400 "),
            "{head:?}: {response}"
        );
        assert_eq!(site.seen(), [""; 0], "{head:?}");
        assert!(site.lab.dialled().is_empty(), "{head:?}");
    }
}

#[tokio::test]
async fn what_is_refused_is_logged_and_says_how_to_allow_it() {
    for (head, status, logged) in [
        (
            "GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n",
            "403",
            "denied.test:80: this connection is to allowed.test:80",
        ),
        (
            "GET / HTTP/1.1\r\nHost: allowed.test:8080\r\n\r\n",
            "403",
            "allowed.test:8080: this connection is to allowed.test:80",
        ),
        (
            "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            "403",
            "127.0.0.1:80: this connection is to allowed.test:80",
        ),
        (
            "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n",
            "403",
            "[::1]:80: this connection is to allowed.test:80",
        ),
        (
            "GET / HTTP/1.1\r\nHost: 192.0.2.7\r\n\r\n",
            "403",
            "192.0.2.7:80: this connection is to allowed.test:80",
        ),
        (
            "GET / HTTP/1.1\r\nHost: x.allowed.test\r\n\r\n",
            "403",
            "x.allowed.test:80: this connection is to allowed.test:80",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a.test\r\nHost: a.test\r\n\r\n",
            "400",
            "allowed.test:80: the request has more than one Host",
        ),
        (
            "GET / HTTP/1.1\nHost: a.test\n\n",
            "400",
            "allowed.test:80: a line of the request does not end with CR LF",
        ),
        (
            "GET / HTTP/1.1\r\nHost: allowed.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
            "501",
            "allowed.test:80: upgrades are not carried where requests are checked",
        ),
    ] {
        let site = site(false).await;
        let response = site.say(head).await;
        assert!(
            response.contains(&format!(" {status} ")),
            "{head:?}: {response}"
        );
        assert_eq!(site.lab.refused(), [logged]);
        assert_eq!(site.seen(), [""; 0]);
        let (is_request, opens) = site.lab.opens().remove(0);
        assert!(is_request);
        let what = logged.split(": this").next().unwrap();
        // Nothing opens this machine by an address.
        let is_loopback = ["127.0.0.1:80", "[::1]:80"].contains(&what);
        if let Some((_, command)) = response.split_once("cofferdam allow ") {
            // What a shell makes of it is a rule, and the log says the same.
            let rule = command.trim_end().trim_matches('\'');
            crate::Rule::parse(rule, crate::Origin::Live).unwrap();
            assert_eq!(opens.as_deref(), Some(rule), "{response}");
        } else {
            let kind = if is_loopback { "403" } else { "400" };
            assert_eq!((status, opens), (kind, None), "{response}");
        }
        if status == "403" && !is_loopback {
            assert!(
                response.ends_with(&format!("cofferdam allow {what}\n")),
                "{response}"
            );
        }
    }
}

#[tokio::test]
async fn every_request_of_a_connection_is_checked() {
    let site = site(false).await;
    let mut program = Program::connect(site.gate).await;
    program
        .say("GET /1 HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        .await;
    program.until("}\n").await;
    // Two at once, as apt(8) does.
    program
        .say("GET /2 HTTP/1.1\r\nHost: allowed.test\r\n\r\nGET /3 HTTP/1.1\r\nHost: denied.test\r\n\r\nGET /4 HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        .await;
    let rest = program.rest().await;
    assert!(rest.contains("HTTP/1.1 403 Forbidden"), "{rest}");
    assert_eq!(site.seen(), ["GET allowed.test /1", "GET allowed.test /2"]);
    assert_eq!(site.lab.dialled(), ["allowed.test:80"]);
}

#[tokio::test]
async fn a_redirect_is_passed_on_and_not_followed() {
    let site = site(false).await;
    let response = site
        .say("GET /redirect HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n")
        .await;
    assert!(response.starts_with("HTTP/1.1 302 Found"), "{response}");
    assert!(
        response.contains("location: http://denied.test/"),
        "{response}"
    );
    assert_eq!(site.lab.dialled(), ["allowed.test:80"]);
    assert_eq!(site.seen(), ["GET allowed.test /redirect"]);
}

#[tokio::test]
async fn bodies_flow_in_pieces_and_wait_for_100() {
    let site = site(false).await;
    let mut program = Program::connect(site.gate).await;
    program
        .say("POST / HTTP/1.1\r\nHost: allowed.test\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    program.until("HTTP/1.1 100 Continue\r\n\r\n").await;
    program.say("3\r\nabc\r\n").await;
    program.say("2\r\nde\r\n0\r\n\r\n").await;
    program.until("}\n").await;
    assert_eq!(site.seen(), ["POST allowed.test / abcde"]);
    program
        .say("GET /drip HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n")
        .await;
    program.until("first").await;
    site.release.cancel();
    assert!(program.rest().await.contains("last"));
}

#[tokio::test]
async fn an_open_connection_ends_with_its_rule() {
    let site = site(false).await;
    let mut program = Program::connect(site.gate).await;
    program
        .say("GET /drip HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        .await;
    program.until("first").await;
    site.lab.end();
    assert!(program.is_reset().await);
    // The same for one that waits for its next request.
    let site = self::site(false).await;
    let mut program = Program::connect(site.gate).await;
    program
        .say("GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        .await;
    program.until("}\n").await;
    site.lab.end();
    assert!(program.is_reset().await);
}

#[tokio::test]
async fn a_server_that_does_not_answer_in_time_is_504() {
    let lab = Lab::new(&["allowed.test"]);
    lab.hesitate("allowed.test:80");
    let mut program = Program::connect(gate(&lab).await).await;
    program
        .say("GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        .await;
    let response = program.rest().await;
    assert!(response.starts_with("HTTP/1.1 504 "), "{response}");
    assert!(
        response.ends_with("could not be reached: no answer\n"),
        "{response}"
    );
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_502_and_a_rule_that_went_is_403() {
    let lab = Lab::new(&["allowed.test"]);
    let mut program = Program::connect(gate(&lab).await).await;
    program
        .say("GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        .await;
    let response = program.rest().await;
    assert!(response.starts_with("HTTP/1.1 502 "), "{response}");
    assert!(
        response.ends_with(
            "cofferdam: allowed.test:80 is allowed, and could not be reached: no such name\n"
        ),
        "{response}"
    );
    let lab = Lab::new(&[]);
    let mut program = Program::connect(gate(&lab).await).await;
    program
        .say("GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        .await;
    let response = program.rest().await;
    assert!(response.starts_with("HTTP/1.1 403 "), "{response}");
    assert!(
        response.ends_with("cofferdam allow allowed.test:80\n"),
        "{response}"
    );
}

#[tokio::test]
async fn a_kept_connection_that_the_server_closed_is_made_anew() {
    let lab = Lab::new(&["allowed.test"]);
    // Answers once and closes without a word.
    let server = accept(|stream| async move {
        let mut program = Program(stream);
        program.until("\r\n\r\n").await;
        program
            .say("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nend")
            .await;
    })
    .await;
    lab.serve("allowed.test:80", server);
    let mut program = Program::connect(gate(&lab).await).await;
    for _ in 0..3 {
        program
            .say("GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
            .await;
        let response = program.until("end").await;
        assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
    }
    assert_eq!(lab.dialled().len(), 3);
}

#[tokio::test]
async fn a_server_that_switches_protocols_unasked_is_not_followed() {
    let lab = Lab::new(&["allowed.test"]);
    let server = accept(|stream| async move {
        let mut program = Program(stream);
        program.until("\r\n\r\n").await;
        program
            .say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nraw")
            .await;
    })
    .await;
    lab.serve("allowed.test:80", server);
    let mut program = Program::connect(gate(&lab).await).await;
    program
        .say("GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        .await;
    let response = program.rest().await;
    assert!(response.starts_with("HTTP/1.1 502 "), "{response}");
    assert!(!response.contains("raw"), "{response}");
}

#[tokio::test]
async fn a_head_is_bounded_in_size() {
    let site = site(false).await;
    let long = format!(
        "GET / HTTP/1.1\r\nHost: allowed.test\r\nX: {}",
        "x".repeat(Framing::MAX_HEAD)
    );
    assert!(site.say(long).await.starts_with("HTTP/1.1 400 "));
    let many = format!(
        "GET / HTTP/1.1\r\nHost: allowed.test\r\n{}\r\n",
        "X: y\r\n".repeat(MAX_HEADERS)
    );
    assert!(site.say(many).await.starts_with("HTTP/1.1 431 "));
    assert!(site.lab.dialled().is_empty());
}

/// Virtual time: it passes as soon as everybody waits.
#[tokio::test(start_paused = true)]
async fn a_head_is_bounded_in_time() {
    let site = site(false).await;
    for begun in ["", "GET / HTTP/1.1\r\nHost: all", "PRI * HTTP/2.0\r\n"] {
        let before = tokio::time::Instant::now();
        let mut program = Program::connect(site.gate).await;
        program.say(begun).await;
        program.rest().await;
        assert!(before.elapsed() >= HEAD_TIME, "{begun:?}");
    }
    assert!(site.lab.dialled().is_empty());
}

type Streams = http2::SendRequest<Empty<Bytes>>;

async fn streams(gate: SocketAddr) -> Streams {
    let stream = tokio::net::TcpStream::connect(gate).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

async fn ask(streams: &mut Streams, uri: &str, host: Option<&str>) -> (u16, String, bool) {
    let mut request = Request::builder().uri(uri).header("te", "trailers");
    if let Some(host) = host {
        request = request.header("host", host);
    }
    let request = request.body(Empty::new()).unwrap();
    let response = streams.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    let whole = response.into_body().collect().await.unwrap();
    let trailers = whole.trailers().is_some_and(|t| t["grpc-status"] == "0");
    let text = String::from_utf8(whole.to_bytes().to_vec()).unwrap();
    (status, text, trailers)
}

// Attack: frames that are a request of another kind to a server that reads HTTP/1.
#[tokio::test]
async fn a_server_of_http_1_gets_nothing_of_a_request_in_http_2() {
    let lab = Lab::new(&["allowed.test"]);
    let (server, got) = echo("").await;
    lab.serve("allowed.test:80", server);
    let mut streams = streams(gate(&lab).await).await;
    let long = "a".repeat(5000);
    let uri = format!("http://allowed.test/{long}");
    let (status, text, _) = ask(&mut streams, &uri, None).await;
    assert_eq!(status, 502);
    assert!(text.contains("does not speak HTTP/2"), "{text}");
    assert!(got.lock().unwrap().len() < 500);
}

#[tokio::test]
async fn every_stream_is_checked_and_trailers_pass() {
    let site = site(true).await;
    let mut streams = streams(site.gate).await;
    let (status, text, trailers) = ask(&mut streams, "http://allowed.test/trailers", None).await;
    assert_eq!((status, text.as_str(), trailers), (200, "body", true));
    let (status, text, _) = ask(&mut streams, "http://denied.test/", None).await;
    assert_eq!(status, 403);
    assert!(text.ends_with("cofferdam allow denied.test:80\n"), "{text}");
    let (status, text, _) = ask(&mut streams, "http://allowed.test/te", Some("Allowed.test")).await;
    assert_eq!(status, 200);
    assert!(text.contains("trailers"), "{text}");
    for (uri, host, expected) in [
        ("http://allowed.test/", Some("denied.test"), 400),
        ("http://denied.test/", Some("allowed.test"), 400),
        ("https://allowed.test/", None, 400),
        ("http://user@allowed.test/", None, 400),
        ("http://allowed.test:81/", None, 403),
    ] {
        let (status, ..) = ask(&mut streams, uri, host).await;
        assert_eq!(status, expected, "{uri} {host:?}");
    }
    let connect = Request::connect("denied.test:80")
        .body(Empty::new())
        .unwrap();
    let response = streams.send_request(connect).await.unwrap();
    assert_eq!(response.status(), 400);
    assert_eq!(
        site.seen(),
        ["GET allowed.test /trailers", "GET allowed.test /te"]
    );
    assert_eq!(site.lab.dialled(), ["allowed.test:80"]);
    site.lab.end();
    // The connection ends with its rule.
    while streams.ready().await.is_ok() {
        tokio::task::yield_now().await;
    }
}

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"GET / HTTP/1.1\r\n".to_vec()),
        Just(b"POST http://denied.test/ HTTP/1.1\r\n".to_vec()),
        Just(b"Host: allowed.test\r\n".to_vec()),
        Just(b"Host: denied.test\r\n".to_vec()),
        Just(b"Content-Length: 30\r\n".to_vec()),
        Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"0\r\n\r\n".to_vec()),
        Just(PREFACE.to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn whatever_is_said_only_the_allowed_place_hears_of_it(bytes in pieces()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let site = site(false).await;
            let mut program = Program::connect(site.gate).await;
            program.say(&bytes).await;
            tokio::io::AsyncWriteExt::shutdown(&mut program.0).await.unwrap();
            program.rest().await;
            for request in site.seen() {
                assert_eq!(request.split(' ').nth(1), Some("allowed.test"));
            }
            assert!(site.lab.dialled().iter().all(|to| to == "allowed.test:80"));
        });
    }
}
