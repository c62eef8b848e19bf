//! A port of this machine that two sandboxes want at the same moment: one has it, and the other one is told how it gets another.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::dev_ports::free;
use crate::environment::finish;
use crate::lives::Lives;

/// So often two `forward` want the same one.
const ROUNDS: usize = 6;
/// The same of two that start, which takes longer.
const STARTS: usize = 3;
/// What was found free may be somebody else's a moment later.
const TRIES: usize = 5;
/// A server takes a moment to come up.
const LIMIT: Duration = Duration::from_secs(20);

/// Says its name to everybody.
const SERVER: &str = r#"
import socketserver, sys
class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(sys.argv[1].encode())
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
Server(("127.0.0.1", 8000), Answer).serve_forever()
"#;

/// Has `sandbox` of the checkout `place` say `name` at port 8000.
#[track_caller]
fn serve(lives: &Lives, place: &str, sandbox: &str, name: &str) {
    let server = ["/usr/bin/python3", "-c", SERVER, name];
    let exec = ["-C", place, "exec", "--detach", sandbox, "--"];
    lives
        .cofferdam(&[&exec[..], &server].concat())
        .expect_code(0);
}

/// Nobody else is behind it.
#[track_caller]
fn leads_to(port: u16, name: &str) {
    let until = Instant::now() + LIMIT;
    loop {
        let mut answer = String::new();
        let asked = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).and_then(|mut stream| {
            stream.set_read_timeout(Some(LIMIT))?;
            stream.read_to_string(&mut answer)
        });
        if asked.is_ok() && answer == name {
            return;
        }
        assert!(answer.is_empty(), "{port} leads to {answer}, not {name}");
        assert!(Instant::now() < until, "{port}: {asked:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A `cofferdam forward` to port 8000 of a sandbox.
struct Forward {
    of: &'static str,
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Forward {
    fn begin(lives: &Lives, of: &'static str, port: u16) -> Self {
        let mut command = lives.command(&["forward", of, &format!("{port}:8000")]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        Self { of, child, said }
    }

    /// What it says first; `true`: it has the port.
    fn has(&mut self, port: u16) -> (bool, String) {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        let leads = format!("http://127.0.0.1:{port} is port 8000 of {}\n", self.of);
        (line == leads, line)
    }

    /// It was refused and has begun to say so: a port that it is told to take in the place of this one.
    #[track_caller]
    fn refused(mut self, port: u16, mut said: String) -> u16 {
        self.said.read_to_string(&mut said).unwrap();
        assert_eq!(finish(self.child).status.code(), Some(1), "{said}");
        let why = format!("error: port {port} of this machine cannot be published: ");
        assert!(said.starts_with(&why) && said.contains("in use"), "{said}");
        let (_, hint) = said.split_once("hint: end what listens there, ").unwrap();
        let mut words = hint.split('`');
        let other = words.find_map(|word| word.strip_suffix(":80"));
        other.unwrap().parse().unwrap()
    }

    #[track_caller]
    fn end(self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        assert_eq!(finish(self.child).status.code(), Some(130));
    }
}

#[test]
fn one_of_two_that_forward_at_once_has_the_port() {
    let lives = Lives::new();
    let place = lives.repository();
    let names = ["one", "two"];
    for name in names {
        lives.create(name, &["--network", "none"]);
        serve(&lives, place.to_str().unwrap(), name, name);
    }
    for round in 0..ROUNDS {
        let port = free();
        let mut order = names;
        order.rotate_left(round % 2);
        let mut both = order.map(|name| Forward::begin(&lives, name, port));
        let said = both.each_mut().map(|one| one.has(port));
        let [first, second] = both;
        let (mut wins, (loses, why)) = match said {
            [(true, _), (false, why)] => (first, (second, why)),
            [(false, why), (true, _)] => (second, (first, why)),
            said => panic!("{said:?}"),
        };
        let of = loses.of;
        let mut other = loses.refused(port, why);
        // What it is told to do works, while the other one has what it has.
        let mut second = None;
        for _ in 0..TRIES {
            let mut again = Forward::begin(&lives, of, other);
            match again.has(other) {
                (true, _) => {
                    second = Some(again);
                    break;
                }
                (false, why) => other = again.refused(other, why),
            }
        }
        let second = second.unwrap();
        assert_ne!(other, port);
        leads_to(port, wins.of);
        leads_to(other, second.of);
        // Who has it has said all.
        let mut rest = String::new();
        wins.said.read_line(&mut rest).unwrap();
        assert_eq!(rest, "until Ctrl-C\n");
        wins.end();
        second.end();
    }
}

/// The configuration names one port for both. Whoever comes second is started all the same, and the command that it is told finds
/// a port for it by itself.
#[test]
fn two_that_start_at_once_lead_into_both() {
    let lives = Lives::new();
    let clone = lives.temporary().join("clone");
    lives.git(&["clone", "-q", ".", clone.to_str().unwrap()]);
    let places = [lives.repository(), clone].map(|place| place.to_str().unwrap().to_owned());
    for _ in 0..STARTS {
        let port = free();
        lives.configure(&format!("ports: [\"{port}:8000\"]\n"));
        let starting = places.each_ref().map(|place| {
            let mut command = lives.command(&["-C", place, "start", "--network", "none"]);
            let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        });
        let started = starting.map(|child| finish(child).expect_code(0));
        let leads = format!("127.0.0.1:{port} is port 8000 inside\n");
        let has = started.each_ref().map(|one| one.stderr.contains(&leads));
        assert_eq!(has.iter().filter(|has| **has).count(), 1, "{started:?}");
        for (place, done) in places.iter().zip(&started) {
            if done.stderr.contains(&leads) {
                continue;
            }
            let why = format!("127.0.0.1:{port} does not lead into dev: ");
            assert!(done.stderr.contains(&why), "{done}");
            let (_, next) = done.stderr.split_once("next: ").unwrap();
            let (commands, _) = next.split_once("   # ").unwrap();
            for command in commands.split(" && ") {
                let words: Vec<&str> = command.split(' ').skip(1).collect();
                // It says where, as this is given elsewhere.
                assert!(words.contains(&place.as_str()), "{done}");
                lives.cofferdam(&words).expect_code(0);
            }
        }
        let led = places.each_ref().map(|place| {
            let words = ["-C", place, "status", "--json", "dev"];
            let told = lives.cofferdam(&words).expect_code(0);
            let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
            assert!(told["ports"][0]["problem"].is_null(), "{told}");
            u16::try_from(told["ports"][0]["host"].as_u64().unwrap()).unwrap()
        });
        assert_ne!(led[0], led[1]);
        assert!(led.contains(&port), "{led:?}");
        for place in &places {
            serve(&lives, place, "dev", place);
        }
        for (place, port) in places.iter().zip(led) {
            leads_to(port, place);
        }
        for place in &places {
            lives
                .cofferdam(&["-C", place, "delete", "--force", "dev"])
                .expect_code(0);
        }
    }
}
