//! `cofferdam codex` without words: its first screen offers a login, so what a browser brings comes back where none is kept.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use cofferdam_lab::skip;
use cofferdam_lab::turn::Turn;

use crate::environment::finish;
use crate::lives::{Lives, OnTerminal};

const PORT: u16 = 1455;
const FOUR: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SIX: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
/// Offers a login as Codex does, and has one once a page of it was asked for that is not its callback's.
const CODEX: &str = r#"#!/usr/bin/python3
import http.server, os, sys

if sys.argv[1:]:
    print("asked:", *sys.argv[1:], flush=True)
    sys.exit(5)

class Login(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("got", self.path, flush=True)
        if self.path.startswith("/auth/callback"):
            self.send_response(302)
            self.send_header("Location", "/success")
        else:
            self.send_response(200)
            self.server.done = True
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass

server = http.server.HTTPServer(("127.0.0.1", 1455), Login)
server.done = False
print("waiting", flush=True)
while not server.done:
    server.handle_request()
os.makedirs(os.path.expanduser("~/.codex"), exist_ok=True)
with open(os.path.expanduser("~/.codex/auth.json"), "w") as login:
    login.write('{"OPENAI_API_KEY":"of-the-browser"}')
"#;
/// What nobody needs who is inside already.
const FROM_INSIDE: &str = r#"
import http.client
page = http.client.HTTPConnection("127.0.0.1", 1455)
page.request("GET", "/inside")
print(page.getresponse().status)
"#;

/// A user who has this Codex.
struct User {
    lives: Lives,
    path: String,
}

impl User {
    fn new() -> Self {
        let lives = Lives::new();
        let bin = lives.has_program("codex", CODEX);
        let path = format!("{}:/usr/bin:/bin", bin.display());
        Self { lives, path }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.lives.command(words);
        command.env("PATH", &self.path);
        command
    }

    fn codex(&self) -> OnTerminal {
        OnTerminal::start(&self.command(&["codex"]), (40, 100))
    }

    #[track_caller]
    fn start(&self) {
        let mut command = self.command(&["start"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().unwrap()).expect_code(0);
    }

    /// The login ends, and no browser of this machine was needed.
    #[track_caller]
    fn ends_from_inside(&self, name: &str) {
        let words = ["exec", name, "--", "/usr/bin/python3", "-c", FROM_INSIDE];
        let asked = self.lives.cofferdam(&words).expect_code(0);
        assert_eq!(asked.stdout, "200\n", "{asked}");
    }
}

/// Whoever has a port of the same number at this address.
fn is_taken(address: IpAddr) -> bool {
    let taken = TcpListener::bind((address, PORT));
    taken.is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
}

#[track_caller]
fn nobody_listens(address: IpAddr) {
    let refused = TcpStream::connect((address, PORT)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[track_caller]
fn get(address: IpAddr, path: &str) -> String {
    let mut stream = TcpStream::connect((address, PORT)).unwrap();
    let host = if address == SIX { "[::1]" } else { "127.0.0.1" };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}:{PORT}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

// covers: S3-76
#[test]
fn its_login_comes_back_where_none_is_kept() {
    let _turn = Turn::at(PORT).unwrap();
    if is_taken(FOUR) || is_taken(SIX) {
        return skip!("port {PORT} of this machine is taken");
    }
    let has_six = TcpListener::bind((SIX, 0)).is_ok();
    if !has_six {
        skip!("this machine has no ::1: the browser comes back by 127.0.0.1 alone");
    }
    let addresses: &[IpAddr] = if has_six { &[SIX, FOUR] } else { &[FOUR] };
    let user = User::new();
    user.start();
    let mut login = user.codex();
    login.expect("waiting");
    // At the loopback's own addresses and at no other.
    drop(TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), PORT)).unwrap());
    for &address in addresses {
        let other = get(address, "/success");
        assert!(other.starts_with("HTTP/1.1 404 "), "{address}: {other}");
    }
    let answer = get(addresses[0], "/auth/callback?code=one&state=two");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // Once is once, at both.
    for &address in addresses {
        nobody_listens(address);
    }
    login.expect("got /auth/callback?code=one&state=two");
    login.expect("got /success");
    login.expect("the login of codex that was made in dev is kept");
    login.ends_with(0);

    // By now one is kept: nothing comes in from this machine.
    let mut knows = user.codex();
    knows.expect("waiting");
    for &address in addresses {
        nobody_listens(address);
    }
    user.ends_from_inside("dev");
    knows.expect("got /inside");
    knows.ends_with(0);
    user.lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
    user.lives.expect_clean();
}

/// A login without a browser is left to it, and its user is told why theirs would come to somebody else.
// covers: S3-76
#[test]
fn it_goes_on_where_its_port_is_taken() {
    let _turn = Turn::at(PORT).unwrap();
    let Ok(taken) = TcpListener::bind((FOUR, PORT)) else {
        return skip!("port {PORT} of this machine is taken");
    };
    let user = User::new();
    let mut goes_on = user.codex();
    goes_on.expect("waiting");
    user.ends_from_inside("codex");
    goes_on.expect("got /inside");
    goes_on.ends_with(0);
    // Whoever has the port has heard of nothing.
    taken.set_nonblocking(true).unwrap();
    let heard = taken.accept().map_err(|error| error.kind());
    assert_eq!(heard.unwrap_err(), ErrorKind::WouldBlock);
    assert!(goes_on.text().contains("1455"), "{}", goes_on.text());
    user.lives
        .cofferdam(&["delete", "--force", "codex"])
        .expect_code(0);
    user.lives.expect_clean();
}
