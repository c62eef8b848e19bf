//! Ports that a repository's own file asks for: nobody opens one before its user has said so.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use crate::dev_ports::free;
use crate::environment::Done;
use crate::kept::follow;
use crate::lives::Lives;

const SERVER: &str = r#"
import socketserver
class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"from inside")
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
Server(("127.0.0.1", 8000), Answer).serve_forever()
"#;
/// What is said where the file asks for something that nobody has approved.
const WAITS: &str = ".cofferdam/config.yaml asks for one thing that waits for you, and goes without: see `cofferdam approve`";

/// Its programs end at each restart.
#[track_caller]
fn serve(lives: &Lives) {
    let program = ["--", "/usr/bin/python3", "-c", SERVER];
    let words = [&["exec", "--detach", "dev"][..], &program].concat();
    lives.cofferdam(&words).expect_code(0);
}

fn ask(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A server takes a moment to come up.
#[track_caller]
fn answers(port: u16) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match ask(port) {
            Ok(answer) if answer == "from inside" => return,
            other => assert!(Instant::now() < until, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whoever carried it hears of the end a moment later.
#[track_caller]
fn closes(port: u16) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match ask(port) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return,
            other => assert!(Instant::now() < until, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[track_caller]
fn is_closed(port: u16) {
    let refused = ask(port).map_err(|error| error.kind());
    assert_eq!(refused, Err(ErrorKind::ConnectionRefused));
}

/// Runs the command that stands in backquotes after `word`, as it is printed.
#[track_caller]
fn runs(lives: &Lives, said: &str, word: &str) -> Done {
    let (_, rest) = said.split_once(word).unwrap_or_else(|| panic!("{said}"));
    let line = rest.split('`').nth(1).unwrap_or_else(|| panic!("{said}"));
    follow(lives, line, "")
}

// covers: S3-57
#[test]
fn ports_of_a_repositorys_file_wait_for_its_user() {
    let lives = Lives::new();
    let port = free();
    let asks_for = |inside: u16| {
        let text = format!("ports: [\"{port}:{inside}\"]\n");
        lives.write(".cofferdam/config.yaml", &text);
    };
    let opened = format!("127.0.0.1:{port} is port 8000 inside\n");
    let restart = || lives.cofferdam(&["restart"]).expect_code(0);
    let stays_closed = |done: &Done| {
        assert!(done.stderr.contains(WAITS), "{done}");
        assert!(!done.stderr.contains("127.0.0.1:"), "{done}");
    };

    asks_for(8000);
    let made = lives.cofferdam(&["start"]).expect_code(0);
    stays_closed(&made);
    serve(&lives);
    is_closed(port);

    // What is printed is what there is to do, and it counts from the next start on.
    let asked = runs(&lives, &made.stderr, "see ").expect_code(1);
    let line = format!("+ ports: \"{port}:8000\"\n");
    assert!(asked.stdout.contains(&line), "{asked}");
    let approved = runs(&lives, &asked.stderr, "approve all of it: ").expect_code(0);
    assert!(approved.stderr.contains("approved: 1 line"), "{approved}");
    is_closed(port);
    let restarted = restart();
    assert!(restarted.stderr.contains(&opened), "{restarted}");
    assert!(!restarted.stderr.contains(WAITS), "{restarted}");
    serve(&lives);
    answers(port);

    // What was approved is what the file said then.
    asks_for(8001);
    answers(port);
    stays_closed(&restart());
    serve(&lives);
    closes(port);
    asks_for(8000);
    let restarted = restart();
    assert!(restarted.stderr.contains(&opened), "{restarted}");
    serve(&lives);
    answers(port);
    lives.cofferdam(&["approve", "--revoke"]).expect_code(0);
    stays_closed(&restart());
    closes(port);
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
    lives.expect_clean();
}
