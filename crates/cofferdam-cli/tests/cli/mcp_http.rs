//! `cofferdam mcp --http`: who is heard, and who is not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::lives::Lives;

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;

/// Ends with its test.
struct Served {
    child: Child,
    port: u16,
}

impl Served {
    #[track_caller]
    fn start(lives: &Lives, options: &[&str]) -> Self {
        let words = [&["mcp", "--http", "127.0.0.1:0"], options].concat();
        let mut command = lives.command(&words);
        let mut child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.as_mut().unwrap())
            .read_line(&mut said)
            .unwrap();
        let port = said.split("127.0.0.1:").nth(1).unwrap();
        let port = port.split('/').next().unwrap().parse().unwrap();
        Self { child, port }
    }

    /// The first line of the answer, and all of what came within a moment.
    fn post(&self, headers: &str) -> (String, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(2)))
            .unwrap();
        let length = HELLO.len();
        let asked = format!(
            "POST / HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Content-Length: {length}\r\nConnection: close\r\n{headers}\r\n{HELLO}"
        );
        stream.write_all(asked.as_bytes()).unwrap();
        let (mut answer, mut part) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = stream.read(&mut part) {
            answer.extend_from_slice(&part[..count]);
            if String::from_utf8_lossy(&answer).contains("serverInfo") {
                break;
            }
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        (answer.lines().next().unwrap_or_default().to_owned(), answer)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn who_knows_the_word_is_heard_and_nobody_else() {
    let lives = Lives::new();
    let served = Served::start(&lives, &[]);
    let file = lives.home().join(".cofferdam/mcp-token");
    let token = std::fs::read_to_string(&file).unwrap();
    let token = token.trim();
    assert_eq!(token.len(), 64);
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let port = served.port;
    let host = format!("Host: 127.0.0.1:{port}\r\n");
    let known = format!("Authorization: Bearer {token}\r\n");
    let (line, answer) = served.post(&format!("{host}{known}"));
    assert_eq!(line, "HTTP/1.1 200 OK", "{answer}");
    assert!(answer.contains("\"name\":\"cofferdam\""), "{answer}");
    let nearly = format!("Authorization: Bearer {}x\r\n", &token[..63]);
    for unknown in ["", "Authorization: Basic x\r\n", &nearly] {
        let (line, answer) = served.post(&format!("{host}{unknown}"));
        assert_eq!(line, "HTTP/1.1 401 Unauthorized", "{answer}");
    }
    // A page in a browser, and a name that leads here.
    for wrong in [
        format!("{host}{known}Origin: http://evil.example\r\n"),
        format!("Host: evil.example\r\n{known}"),
    ] {
        let (line, answer) = served.post(&wrong);
        assert_eq!(line, "HTTP/1.1 403 Forbidden", "{wrong}: {answer}");
    }
    // In no list of processes, and kept for the next one.
    let words = std::fs::read_to_string(format!("/proc/{}/cmdline", served.child.id())).unwrap();
    assert!(!words.contains(token));
    drop(served);
    let again = Served::start(&lives, &[]);
    let host = format!("Host: localhost:{}\r\n", again.port);
    assert_eq!(again.post(&format!("{host}{known}")).0, "HTTP/1.1 200 OK");
}

#[test]
fn what_others_could_read_or_reach_is_refused() {
    let lives = Lives::new();
    let file = lives.home().join("token");
    cofferdam::fsx::write_with_mode(&file, b"0123456789abcdef0123\n", 0o644).unwrap();
    let file = file.to_str().unwrap();
    let with = ["mcp", "--http", "127.0.0.1:0", "--token-file", file];
    let refused = lives.cofferdam(&with).expect_code(1);
    assert!(
        refused.stderr.contains("others can read the token"),
        "{refused}"
    );
    assert!(refused.stderr.contains("chmod 600"), "{refused}");
    cofferdam::fsx::write_with_mode(file.as_ref(), b"short\n", 0o600).unwrap();
    let refused = lives.cofferdam(&with).expect_code(1);
    assert!(refused.stderr.contains("has no token"), "{refused}");
    let open = lives
        .cofferdam(&["mcp", "--http", "0.0.0.0:0"])
        .expect_code(2);
    assert!(
        open.stderr.contains("can be reached from other machines"),
        "{open}"
    );
    lives
        .cofferdam(&["mcp", "--token-file", file])
        .expect_code(2);
}
