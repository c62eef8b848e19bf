//! Ports of this machine that lead into a sandbox.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use cofferdam::fsx::write_private;
use serde_json::json;

use crate::containers;
use crate::environment::finish;
use crate::lives::Lives;
use crate::mcp_client::Client;
use crate::mcp_containers::everywhere;

/// Answers once it has heard all of what it is told.
const SERVER: &str = r#"
import socketserver
class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        heard = b""
        while some := self.request.recv(65536):
            heard += some
        self.request.sendall(b"heard %d" % len(heard))
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
Server(("127.0.0.1", 8000), Answer).serve_forever()
"#;

/// Nobody's, for as long as nobody else takes it.
pub(crate) fn free() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn say(port: u16, bytes: usize) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(&vec![b'x'; bytes])?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn serve(lives: &Lives) {
    let words = [
        "exec",
        "--detach",
        "dev",
        "--",
        "/usr/bin/python3",
        "-c",
        SERVER,
    ];
    lives.cofferdam(&words).expect_code(0);
}

/// A server takes a moment to come up.
#[track_caller]
fn answers(port: u16, bytes: usize) {
    let until = Instant::now() + Duration::from_secs(20);
    let wanted = format!("heard {bytes}");
    loop {
        match say(port, bytes) {
            Ok(answer) if answer == wanted => return,
            other => assert!(Instant::now() < until, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

// covers: S3-57
#[test]
fn they_lead_in_for_as_long_as_it_runs() {
    let lives = Lives::new();
    let (one, other) = (free(), free());
    let published = format!("{one}:8000");
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, one)).unwrap();
    let refused = lives.cofferdam(&["start", "-p", &published]).expect_code(1);
    let why = format!("port {one} of this machine cannot be published");
    assert!(refused.stderr.contains(&why), "{refused}");
    assert_eq!(lives.listed("dev"), None);
    drop(taken);

    let second = other.to_string();
    let made = lives.cofferdam(&["start", "-p", &published, "--publish", &second]);
    let line = format!("127.0.0.1:{one} is port 8000 inside\n");
    assert!(made.expect_code(0).stderr.contains(&line));
    // On the loopback and on no other address.
    drop(TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), one)).unwrap());
    // Where nobody listens inside nobody answers.
    assert!(say(one, 1).map_or(true, |answer| answer.is_empty()));
    serve(&lives);
    answers(one, 3 << 20);
    assert!(say(other, 1).map_or(true, |answer| answer.is_empty()));

    let status = lives.cofferdam(&["status", "dev"]).expect_code(0);
    let shown = format!("port:    127.0.0.1:{one} is port 8000 inside\n");
    assert!(status.stdout.contains(&shown), "{status}");

    // While it stands still nobody comes in, and who is in waits.
    let mut waits = TcpStream::connect((Ipv4Addr::LOCALHOST, one)).unwrap();
    waits.write_all(b"seven").unwrap();
    lives.cofferdam(&["pause", "dev"]).expect_code(0);
    waits.write_all(b"77").unwrap();
    waits.shutdown(Shutdown::Write).unwrap();
    assert!(say(one, 1).map_or(true, |answer| answer.is_empty()));
    lives.cofferdam(&["resume", "dev"]).expect_code(0);
    let mut answer = String::new();
    waits.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "heard 7");

    // Whoever carries them may die: the next command sees to it.
    lives.kill_watcher("dev");
    lives.exec("dev", "true").expect_code(0);
    answers(one, 5);

    // Other ones are for the next start.
    let third = free().to_string();
    let running = lives.cofferdam(&["start", "-p", &third]).expect_code(2);
    assert!(running.stderr.contains("`cofferdam stop dev`"), "{running}");
    lives.cofferdam(&["stop", "dev"]).expect_code(0);
    // Who carried them hears of the end a moment later.
    let until = Instant::now() + Duration::from_secs(20);
    let taken = loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, one)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            taken => break taken.unwrap(),
        }
    };
    // It is needed for its files too: a port that somebody else has keeps nobody out.
    let started = lives.cofferdam(&["start"]).expect_code(0);
    let why = format!("127.0.0.1:{one} does not lead into dev: another program has that port\n");
    assert!(started.stderr.contains(&why), "{started}");
    assert!(
        started.stderr.contains("cofferdam restart dev"),
        "{started}"
    );
    let status = lives.cofferdam(&["status", "dev", "--json"]).expect_code(0);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["ports"][0]["host"], one);
    assert!(status["ports"][0]["problem"].is_string(), "{status}");
    assert!(status["ports"][1]["problem"].is_null(), "{status}");
    serve(&lives);
    let until = Instant::now() + Duration::from_secs(20);
    let shown = loop {
        let shown = lives.cofferdam(&["ports", "dev"]).expect_code(0).stdout;
        if shown.contains("8000") || Instant::now() > until {
            break shown;
        }
    };
    assert!(shown.contains("cofferdam forward dev 8000"), "{shown}");
    drop(taken);
    lives.cofferdam(&["restart"]).expect_code(0);
    serve(&lives);
    answers(one, 9);

    // The configuration says it too, at each start, where nobody has named others.
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
    let config = lives.home().join(".cofferdam/config.yaml");
    let text = format!("ports: [\"{third}:8000\"]\n");
    write_private(&config, text.as_bytes()).unwrap();
    // One that somebody else has refuses nothing then.
    let third: u16 = third.parse().unwrap();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, third)).unwrap();
    let made = lives.cofferdam(&["start"]).expect_code(0);
    assert!(made.stderr.contains("does not lead into dev"), "{made}");
    drop(taken);
    lives.cofferdam(&["restart"]).expect_code(0);
    serve(&lives);
    answers(third, 11);
    // What it does not say any more is not published any more.
    write_private(&config, b"{}\n").unwrap();
    let restarted = lives.cofferdam(&["restart"]).expect_code(0);
    assert!(!restarted.stderr.contains("127.0.0.1:"), "{restarted}");
    drop(TcpListener::bind((Ipv4Addr::LOCALHOST, third)).unwrap());
    drop(TcpListener::bind((Ipv4Addr::LOCALHOST, one)).unwrap());
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
    lives.expect_clean();
}

#[test]
fn one_is_forwarded_for_as_long_as_somebody_wants_it() {
    let lives = Lives::with("box", &["--network", "none"]);
    let words = [
        "exec",
        "--detach",
        "box",
        "--",
        "/usr/bin/python3",
        "-c",
        SERVER,
    ];
    lives.cofferdam(&words).expect_code(0);
    let port = free();
    let asked = format!("{port}:8000");
    let mut forward = lives.command(&["forward", "box", &asked]);
    let mut forward = forward.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(forward.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let first = format!("http://127.0.0.1:{port} is port 8000 of box\n");
    assert_eq!(line, first);
    answers(port, 3);
    let twice = lives.cofferdam(&["forward", "box", &asked]).expect_code(1);
    assert!(twice.stderr.contains("cannot be published"), "{twice}");
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("`box` is stopped"), "{rest}");
    assert_eq!(finish(forward).status.code(), Some(1));
    assert!(say(port, 1).is_err());
    let stopped = lives.cofferdam(&["forward", "box", &asked]).expect_code(1);
    assert!(stopped.stderr.contains("cofferdam start box"), "{stopped}");
}

#[test]
fn what_cannot_be_published_is_refused() {
    let lives = Lives::new();
    for (words, code, why) in [
        (&["start", "-p", "0"][..], 2, "is no port such as 3000"),
        (&["start", "-p", "0.0.0.0:80:80"], 2, "loopback"),
        (
            &["start", "-p", "80:1", "-p", "80:2"],
            2,
            "port 80 of this machine is named twice",
        ),
        (
            &["start", "-p", "3000", "--network", "open"],
            1,
            "network `open`",
        ),
        (
            &["start", "-p", "3000", "box"],
            2,
            "these options are for the dev sandbox",
        ),
        (&["forward", "nobody", "3000"], 1, "nobody"),
    ] {
        let refused = lives.cofferdam(words).expect_code(code);
        assert!(refused.stderr.contains(why), "{words:?}: {refused}");
    }
    lives.create("box", &["--network", "open"]);
    let refused = lives.cofferdam(&["forward", "box", "3000"]).expect_code(1);
    assert!(refused.stderr.contains("network `open`"), "{refused}");
}

/// Of a server's first page.
fn page(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[track_caller]
fn shows_the_page(port: u16, at: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let answer = page(port);
        let text = answer.as_deref().unwrap_or_default();
        if text.ends_with("from-inside\n") {
            return;
        }
        assert!(Instant::now() < until, "{at}: {answer:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Of a sandbox that an agent made by tools, with its wall: natively and in containers, until it is deleted.
#[test]
fn one_of_a_tools_sandbox_is_forwarded_until_that_is_deleted() {
    const SERVES: &str = "mkdir -p /tmp/w && echo from-inside >/tmp/w/index.html && { httpd -f -p 127.0.0.1:8000 -h /tmp/w || \
        perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(Listen => 5, LocalAddr => q(127.0.0.1), LocalPort => 8000) or die; \
        while (my $c = $s->accept) { while (defined(my $l = <$c>)) { last if $l !~ /\\S/ } print $c qq(from-inside\\n); close $c }'; }";
    everywhere(|world| {
        let at = world.engine;
        let mut client = Client::with(world.command(&["mcp"]));
        client.tool("sandbox-create", &json!({"name": "one"}));
        assert_eq!(world.status("one", "network"), "allowlist", "{at}");
        let serves = json!({"sandbox": "one", "command": SERVES, "background": true});
        client.tool("sandbox-exec", &serves);
        let until = Instant::now() + Duration::from_secs(20);
        let told = "8000: for the person you work for, `cofferdam forward one 8000`\n";
        let ports = json!({"sandbox": "one"});
        while !client.tool("sandbox-ports", &ports).contains(told) {
            assert!(Instant::now() < until, "{at}: nobody listens");
        }
        // Nobody has asked for it.
        let port = free();
        assert!(page(port).is_err(), "{at}");
        let mut forward = world.command(&["forward", "one", &format!("{port}:8000")]);
        let mut forward = forward.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(forward.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let first = format!("http://127.0.0.1:{port} is port 8000 of one\n");
        assert_eq!(line, first, "{at}");
        shows_the_page(port, at);
        drop(client);
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("one"), "{at}: {rest}");
        assert_eq!(finish(forward).status.code(), Some(1), "{at}: {rest}");
        assert!(page(port).is_err(), "{at}");
    });
}

/// By the guest alone: an engine would need a network of its own for it.
#[test]
fn they_lead_into_containers_too() {
    for world in containers::worlds() {
        let port = free();
        let published = format!("{port}:8000");
        let making = containers::making("start", world.engine, &["-p", &published]);
        world.cofferdam(&making).expect_code(0);
        let serve = "mkdir -p ~/w && echo from-inside >~/w/index.html && exec httpd -f -p 127.0.0.1:8000 -h ~/w";
        let words = ["exec", "--detach", "dev", "--", "sh", "-c", serve];
        world.cofferdam(&words).expect_code(0);
        shows_the_page(port, world.engine);
        world
            .cofferdam(&["delete", "--force", "dev"])
            .expect_code(0);
        assert!(page(port).is_err());
        world.environment.expect_clean();
    }
}
