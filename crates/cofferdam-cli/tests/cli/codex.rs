//! `cofferdam codex`: its login comes back by a browser of this machine, and nothing else comes in.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Stdio;

use cofferdam_lab::skip;
use cofferdam_lab::turn::Turn;

use crate::environment::finish;
use crate::lives::{Lives, OnTerminal};

const PORT: u16 = 1455;
/// Waits for a login as Codex does: it answers what the browser brings with a page of its own, and ends after that one.
const CODEX: &str = r#"#!/usr/bin/python3
import http.server, os, sys

if sys.argv[1:] != ["login"]:
    print("asked:", *sys.argv[1:], os.getcwd(), flush=True)
    sys.exit(5)

class Login(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("got", self.path, self.headers["Host"], flush=True)
        if self.path.startswith("/auth/callback"):
            self.send_response(302)
            self.send_header("Location", "http://localhost:1455/success?done=1")
        else:
            self.send_response(200)
            self.server.done = True
        self.end_headers()
        self.wfile.write(b"<script>of the sandbox's</script>")

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

fn ask(request: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(path: &str, host: &str) -> String {
    ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
}

// covers: S3-76
#[test]
fn a_login_comes_back_once_and_nothing_else_comes_in() {
    let _turn = Turn::at(PORT).unwrap();
    let Ok(taken) = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)) else {
        skip!("port {PORT} of this machine is taken");
        return;
    };
    let lives = Lives::new();
    let bin = lives.has_program("codex", CODEX);
    let open = |words: &[&str]| {
        let mut command = lives.command(words);
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        OnTerminal::start(&command, (40, 100))
    };
    let start = |words: &[&str]| {
        let mut command = lives.command(words);
        command
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(command.spawn().unwrap()).expect_code(0);
    };
    // Where somebody else listens it is said before anything is made; what needs no browser goes on.
    let mut refused = open(&["codex", "--", "login"]);
    refused.expect("port 1455");
    refused.expect("--device-auth");
    refused.ends_with(1);
    assert_eq!(lives.listed("codex"), None);
    let mut goes_on = open(&["codex", "--", "login", "--device-auth"]);
    goes_on.expect("asked: login --device-auth /workspace/repository");
    goes_on.ends_with(5);
    drop(taken);

    let mut login = open(&["codex", "--", "login"]);
    login.expect("waiting");
    let local = "localhost:1455";
    for answer in [
        get("/", local),
        get("/success", local),
        get("/auth/callback/../../success", local),
        get("/auth/callback?code=stolen", "evil.test:1455"),
        ask(
            "POST /auth/callback?code=x HTTP/1.1\r\nHost: localhost:1455\r\nContent-Length: 0\r\n\r\n",
        ),
    ] {
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    }
    let answer = get("/auth/callback?code=one&state=two", local);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(!answer.contains("script"), "{answer}");
    // Once is once.
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).is_err());
    login.expect("got /auth/callback?code=one&state=two localhost:1455");
    login.expect("got /success?done=1 localhost:1455");
    login.ends_with(0);
    assert!(!login.text().contains("stolen"), "{}", login.text());
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).is_err());
    // Where somebody lives in the checkout it is there, and is kept for all others.
    start(&["start"]);
    let mut login = open(&["codex", "--", "login"]);
    login.expect("waiting");
    assert!(get("/auth/callback?code=one&state=two", local).starts_with("HTTP/1.1 200 "));
    login.expect("the login of codex that was made in dev is kept");
    login.ends_with(0);
    let mut by_path = open(&["codex", ".", "--", "exec"]);
    by_path.expect("asked: exec /workspace/repository");
    by_path.ends_with(5);
    start(&["start", "--branch", "three"]);
    let given = lives.exec("dev-three", "cat ~/.codex/auth.json");
    assert!(given.stdout.contains("of-the-browser"), "{given}");
    let used = lives.cofferdam(&["volume", "remove", "cofferdam-codex-config"]);
    let used = used.expect_code(1);
    assert!(used.stderr.contains("dev"), "{used}");
    let inspected = lives.cofferdam(&["volume", "inspect", "cofferdam-codex-config"]);
    let inspected = inspected.expect_code(0).stdout;
    assert!(inspected.contains("dev-three"), "{inspected}");
    // On a branch it is the dev sandbox of that.
    let mut on_branch = open(&["codex", "--branch", "two", "--", "exec"]);
    on_branch.expect("asked: exec /repo-shelf/worktrees/two");
    on_branch.ends_with(5);
    // Where the network is this machine's own, so is the port: the program listens there itself.
    start(&["create", "open", "--network", "open"]);
    let mut login = open(&["codex", "open", "--", "login"]);
    login.expect("waiting");
    let answer = get("/auth/callback?code=one&state=two", local);
    assert!(answer.contains(" 302 "), "{answer}");
    get("/success?done=1", local);
    login.ends_with(0);
    lives
        .cofferdam(&["delete", "--force", "open"])
        .expect_code(0);
    lives
        .cofferdam(&["delete", "--force", "codex", "dev", "dev-two", "dev-three"])
        .expect_code(0);
}
