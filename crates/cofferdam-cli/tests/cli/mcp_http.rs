//! `cofferdam mcp --http`: who is heard, and who is not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::environment::Done;
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
        let top = lives.repository().canonicalize().unwrap();
        let serves = format!("/ serves {}, to clients ", top.display());
        assert!(said.contains(&serves), "{said}");
        let port = said.split("127.0.0.1:").nth(1).unwrap();
        let port = port.split('/').next().unwrap().parse().unwrap();
        Self { child, port }
    }

    /// A connection over which this was asked, and nothing is read yet.
    fn ask(&self, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        let asked = format!(
            "POST / HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Content-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}"
        );
        stream.write_all(asked.as_bytes()).unwrap();
        stream
    }

    /// The first line of the answer, and all of what came within a moment.
    fn post(&self, headers: &str) -> (String, String) {
        let mut stream = self.ask(headers, HELLO);
        stream
            .set_read_timeout(Some(Duration::from_secs(2)))
            .unwrap();
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
    // What it tells to do makes one that is taken.
    let make = |refused: &Done| {
        let hint = refused.stderr.split("only you can read: `").nth(1);
        let command = hint.and_then(|hint| hint.split('`').next());
        lives.shell(command.unwrap()).expect_code(0);
    };
    make(&refused);
    drop(Served::start(&lives, &["--token-file", file]));
    let elsewhere = lives.home().join("none/token");
    let elsewhere = elsewhere.to_str().unwrap();
    let with = ["mcp", "--http", "127.0.0.1:0", "--token-file", elsewhere];
    let refused = lives.cofferdam(&with).expect_code(1);
    make(&refused);
    drop(Served::start(&lives, &["--token-file", elsewhere]));
    // One that is missing is made, as Cofferdam's own is.
    let made = lives.home().join("none/made");
    drop(Served::start(
        &lives,
        &["--token-file", made.to_str().unwrap()],
    ));
    assert_eq!(std::fs::read_to_string(&made).unwrap().trim().len(), 64);
    assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    for wrong in ["7071", "localhost:7071"] {
        let refused = lives.cofferdam(&["mcp", "--http", wrong]).expect_code(2);
        assert!(refused.stderr.contains("127.0.0.1:7071"), "{refused}");
    }
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

/// The lines that let somebody in.
fn known(lives: &Lives, served: &Served) -> String {
    let token = std::fs::read_to_string(lives.home().join(".cofferdam/mcp-token")).unwrap();
    let port = served.port;
    format!(
        "Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {}\r\n",
        token.trim()
    )
}

/// Those that connect and say nothing, or only begin to, give way to whoever comes with the word.
#[test]
fn who_says_nothing_keeps_nobody_out() {
    let lives = Lives::new();
    let served = Served::start(&lives, &[]);
    let known = known(&lives, &served);
    let mut silent: Vec<TcpStream> = Vec::new();
    for number in 0..300 {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
        if number % 2 == 1 {
            let _ = stream.write_all(b"POST / HTTP/1.1\r\nHost: x\r\n");
        }
        silent.push(stream);
        if number % 100 == 99 {
            let (line, answer) = served.post(&known);
            assert_eq!(line, "HTTP/1.1 200 OK", "{number}: {answer}");
        }
    }
    // The first of them have gone, and no more are held than there may be.
    let first = &mut silent[0];
    first
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    assert_eq!(first.read(&mut [0]).unwrap(), 0);
    let sockets = std::fs::read_dir(format!("/proc/{}/fd", served.child.id())).unwrap();
    let links = sockets.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    let count = links.filter(|link| link.to_string_lossy().starts_with("socket:"));
    let count = count.count();
    assert!(count < 100, "{count}");
    // A head that never ends has its time.
    let last = silent.last_mut().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut rest = Vec::new();
    let _ = last.read_to_end(&mut rest);
    let rest = String::from_utf8_lossy(&rest);
    assert!(!rest.contains("200"), "{rest}");
}

/// What a client has begun that goes away comes to its end, and is on the branch; whoever comes next goes on.
#[test]
fn a_client_that_vanishes_in_the_middle_of_a_call_leaves_a_sandbox_to_work_in() {
    let lives = Lives::new();
    let served = Served::start(&lives, &[]);
    let known = known(&lives, &served);
    let session = || {
        let (_, answer) = served.post(&known);
        let mut lines = answer.lines();
        let id = lines.find_map(|line| {
            let (name, id) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("mcp-session-id").then_some(id)
        });
        let headers = format!("{known}Mcp-Session-Id: {}\r\n", id.expect(&answer));
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let mut stream = served.ask(&headers, &ready.to_string());
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        assert!(told.starts_with("HTTP/1.1 202"), "{told}");
        headers
    };
    let call = |headers: &str, tool: &str, arguments: serde_json::Value| {
        let params = json!({"name": tool, "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        served.ask(headers, &call.to_string())
    };
    let whole = |mut stream: TcpStream| {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        told
    };
    let first = session();
    let made = whole(call(&first, "sandbox-create", json!({"name": "one"})));
    assert!(made.contains("Made the sandbox one"), "{made}");
    let command = "touch /tmp/begun; until test -e /tmp/go; do sleep 0.1; done; echo x > late";
    let command = json!({"sandbox": "one", "command": command});
    let gone = call(&first, "sandbox-exec", command);
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while lives.exec("one", "test -e /tmp/begun").status.code() != Some(0) {
        assert!(std::time::Instant::now() < until);
    }
    drop(gone);
    // Another one works in it meanwhile.
    let second = session();
    let write = json!({"sandbox": "one", "path": "now", "content": "x\n"});
    let told = whole(call(&second, "sandbox-write", write));
    assert!(told.contains("sandbox-write: now"), "{told}");
    lives.exec("one", "touch /tmp/go").expect_code(0);
    let there = || {
        let tree = lives.git(&["ls-tree", "--name-only", "cofferdam/one"]);
        tree.contains("late")
    };
    while !there() {
        assert!(std::time::Instant::now() < until + Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(50));
    }
    let read = json!({"sandbox": "one", "path": "late"});
    let told = whole(call(&second, "sandbox-read", read));
    assert!(
        told.contains("\"isError\":false") && told.contains("late"),
        "{told}"
    );
    drop(served);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}
