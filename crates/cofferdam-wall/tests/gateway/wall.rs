//! In the sandbox's place: connections from a network namespace whose rules redirect them, to servers in
//! another one in which the gateway runs.
//!
//! Each test runs itself again in namespaces of its own, as root and as an ordinary user alike. Its own
//! namespaces hold the world: `203.0.113.9` and the names of a hosts file. Its thread then moves to the sandbox's.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use cofferdam_wall::control::{Answer, Ask, Seen};
use cofferdam_wall::log::{Entry, Event, Verdict};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::thread::UnshareFlags;

use crate::support::{BOUND, Client, Gateway, Sockets, answered, query, registration};

const INSIDE: &str = "COFFERDAM_WALL_LAB";
const WORLD: &str = "203.0.113.9";
/// Where a server moves to.
const ELSEWHERE: &str = "203.0.113.10";
const HOSTS: &str = "203.0.113.9 allowed.test plain.test\n10.0.0.5 rebind.test\n\
    10.0.0.5 mixed.test\n203.0.113.9 mixed.test\n";
const RULES: &str = "
table ip wall {
  chain nat { type nat hook output priority -100;
    ip daddr 127.0.0.0/8 accept
    ip protocol tcp redirect to :15001
    udp dport 53 redirect to :15053
  }
  chain filter { type filter hook output priority 0;
    ip daddr 127.0.0.0/8 accept
    ct state established,related accept
    ip protocol tcp accept
    udp dport { 53, 15053 } accept
    log group 7
    reject
  }
}
";

struct Lab {
    gateway: Gateway,
    client: Client,
    sockets: Sockets,
}

/// Runs `body` in namespaces of its own. `test` is the path of the test itself.
fn lab(test: &str, body: fn(Lab)) {
    #[expect(clippy::disallowed_methods, reason = "a test that runs itself again")]
    if std::env::var_os(INSIDE).is_none() {
        return outside(test);
    }
    // In the world's namespace: this thread leaves it.
    let gateway = Gateway::start();
    let client = gateway.connect();
    world();
    name_server();
    #[expect(deprecated, reason = "only this thread's network changes")]
    rustix::thread::unshare(UnshareFlags::NEWNET).unwrap();
    run("ip", &["link", "set", "lo", "up"], "");
    let route = "route add local default dev lo src 127.0.0.1";
    run("ip", &route.split(' ').collect::<Vec<_>>(), "");
    run("nft", &["-f", "-"], RULES);
    let sockets = Sockets::new([15001, 3128, 15053]);
    bind_group(&sockets.packets);
    body(Lab {
        gateway,
        client,
        sockets,
    });
}

#[expect(clippy::disallowed_methods, reason = "a test that runs itself again")]
fn outside(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, HOSTS).unwrap();
    let servers = folder.path().join("resolv.conf");
    std::fs::write(&servers, "nameserver 127.0.0.1\n").unwrap();
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    // Reached from another address: what the machine reaches from itself is its own, and not dialled.
    let script = "ip link set lo up && ip addr add 192.0.2.1/32 dev lo && \
        ip route add local 203.0.113.8/29 dev lo src 192.0.2.1 && \
        mount --bind \"$1\" /etc/hosts && mount --bind \"$3\" /etc/resolv.conf && \
        exec \"$0\" --exact \"$2\" --nocapture";
    let output = unshare
        .args(["--net", "--mount", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(&hosts)
        .arg(test)
        .arg(&servers)
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    // A name that fits no test would pass without having run.
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{complained}"
    );
}

/// The servers: on port 7000 one that speaks first and sends back what it hears, on 7002 one that resets
/// whoever speaks, on 443 one that sends back what it hears.
fn world() {
    let listener = TcpListener::bind((WORLD, 7000)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                stream.write_all(b"hello\n").unwrap();
                let mut heard = vec![0u8; 65536];
                while let Ok(got @ 1..) = stream.read(&mut heard) {
                    if stream.write_all(&heard[..got]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let listener = TcpListener::bind((WORLD, 7002)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.read_exact(&mut [0]).unwrap();
            let at_once = Some(std::time::Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(&stream, at_once).unwrap();
        }
    });
    let listener = TcpListener::bind((ELSEWHERE, 7000)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            stream.unwrap().write_all(b"moved\n").unwrap();
        }
    });
    let listener = TcpListener::bind((WORLD, 443)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut heard = [0u8; 4096];
            let got = stream.read(&mut heard).unwrap();
            stream.write_all(&heard[..got]).unwrap();
        }
    });
}

/// What the world's name server says of every name; it may be remembered for no time.
static TURN: Mutex<Ipv4Addr> = Mutex::new(Ipv4Addr::UNSPECIFIED);

fn turn(address: &str) {
    *TURN.lock().unwrap() = address.parse().unwrap();
}

fn name_server() {
    let socket = UdpSocket::bind("127.0.0.1:53").unwrap();
    std::thread::spawn(move || {
        let mut query = [0u8; 1500];
        while let Ok((_, from)) = socket.recv_from(&mut query) {
            // The question: a name, a type, a class.
            let end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
            let is_a = query[end - 4..end - 2] == [0, 1];
            let mut answer = query[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
            answer.extend(&query[12..end]);
            if is_a {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
                answer.extend(TURN.lock().unwrap().octets());
            }
            socket.send_to(&answer, from).unwrap();
        }
    });
}

#[expect(clippy::disallowed_methods, reason = "sets the namespace up")]
fn run(program: &str, arguments: &[&str], input: &str) {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    assert!(child.wait().unwrap().success(), "{program} {arguments:?}");
}

/// Asks for the packets that group 7 logs, each at once.
fn bind_group(socket: &OwnedFd) {
    for attribute in [
        &[5u8, 0, 1, 0, 1, 0, 0, 0][..],              // bind
        &[10, 0, 2, 0, 0, 0, 0, 128, 2, 0, 0, 0][..], // copy 128 bytes
        &[8, 0, 5, 0, 0, 0, 0, 1][..],                // tell of each
    ] {
        let length = u32::try_from(20 + attribute.len()).unwrap();
        let message = [
            &length.to_ne_bytes()[..],
            &[1, 4, 1, 0], // config of the log; a request
            &[0; 8],
            &[0, 0, 0, 7],
            attribute,
        ]
        .concat();
        let kernel = SocketAddrNetlink::new(0, 0);
        let flags = rustix::net::SendFlags::empty();
        rustix::net::sendto(socket.as_fd(), &message, flags, &kernel).unwrap();
    }
}

impl Lab {
    fn register(&mut self, rules: &[&str]) {
        let ask = registration("one", rules, false);
        let descriptors = self.sockets.descriptors();
        assert_eq!(self.client.ask_with(&ask, &descriptors), Answer::Done);
    }

    fn entry(&self, is: impl Fn(&Entry) -> bool) -> Entry {
        let log = self.sockets.log_until(|log| log.iter().any(&is));
        log.into_iter().find(is).unwrap()
    }
}

fn resolve(name: &str) -> Ipv4Addr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(BOUND)).unwrap();
    socket.connect("8.8.8.8:53").unwrap();
    socket.send(&query(name, 1)).unwrap();
    let mut answer = [0u8; 512];
    let got = socket.recv(&mut answer).unwrap();
    answered(&answer[..got]).1.expect("an address")
}

fn connect(to: impl Into<SocketAddr>) -> TcpStream {
    let stream = TcpStream::connect_timeout(&to.into(), BOUND).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    stream
}

/// Whether a connection is reset at once: so early that already connecting fails, or a moment later.
fn is_refused(to: impl Into<SocketAddr>) -> bool {
    match TcpStream::connect_timeout(&to.into(), BOUND) {
        Ok(stream) => {
            stream.set_read_timeout(Some(BOUND)).unwrap();
            is_reset(&stream)
        }
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

fn is_reset(mut stream: &TcpStream) -> bool {
    matches!(stream.read(&mut [0u8; 1]), Err(error) if error.kind() == ErrorKind::ConnectionReset)
}

fn hear(mut stream: &TcpStream, length: usize) -> Vec<u8> {
    let mut heard = vec![0; length];
    stream.read_exact(&mut heard).unwrap();
    heard
}

#[test]
fn an_allowed_name_is_reached_and_the_server_may_speak_first() {
    lab(
        "wall::an_allowed_name_is_reached_and_the_server_may_speak_first",
        |mut lab| {
            lab.register(&["plain.test:7000", "203.0.113.0/24:7000"]);
            for address in [resolve("plain.test"), WORLD.parse().unwrap()] {
                let mut stream = connect((address, 7000));
                assert_eq!(hear(&stream, 6), b"hello\n");
                let much: Vec<u8> = (0..5_000_000u32).map(|n| n.to_le_bytes()[1]).collect();
                let mut writer = stream.try_clone().unwrap();
                let sent = much.clone();
                let writing = std::thread::spawn(move || {
                    writer.write_all(&sent).unwrap();
                    writer.shutdown(std::net::Shutdown::Write).unwrap();
                });
                let mut back = Vec::new();
                stream.read_to_end(&mut back).unwrap();
                writing.join().unwrap();
                assert!(back == much, "{} bytes came back", back.len());
            }
            let connect = lab.entry(|entry| entry.event == Event::Connect);
            assert_eq!(connect.name.as_deref(), Some("plain.test"));
            assert_eq!(connect.address, Some(WORLD.parse().unwrap()));
            assert_eq!(connect.rule.as_deref(), Some("plain.test:7000"));
            let close = lab.entry(|entry| entry.event == Event::Close && entry.id == connect.id);
            assert_eq!(
                (close.sent, close.received),
                (Some(5_000_000), Some(5_000_006))
            );
        },
    );
}

/// The rule is about the name: no address was noted down when it was made.
// covers: S3-54
#[test]
#[expect(clippy::disallowed_methods, reason = "its own hosts file")]
fn an_allowed_name_is_reached_where_it_moves_to() {
    lab(
        "wall::an_allowed_name_is_reached_where_it_moves_to",
        |mut lab| {
            // Both are this machine: such addresses are named too.
            lab.register(&["plain.test:7000", "203.0.113.0/24:7000"]);
            let address = resolve("plain.test");
            assert_eq!(hear(&connect((address, 7000)), 6), b"hello\n");
            std::fs::write("/etc/hosts", HOSTS.replace(WORLD, ELSEWHERE)).unwrap();
            let began = std::time::Instant::now();
            while hear(&connect((address, 7000)), 6) != b"moved\n" {
                assert!(began.elapsed() < BOUND);
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        },
    );
}

#[test]
fn what_no_rule_names_is_reset_at_once() {
    lab("wall::what_no_rule_names_is_reset_at_once", |mut lab| {
        lab.register(&["plain.test:7000"]);
        assert!(is_refused(([203, 0, 113, 9], 7000)));
        assert!(is_refused(([169, 254, 169, 254], 80)));
        // A name's address on another port, and an address that stands for nothing.
        assert!(is_refused((resolve("plain.test"), 7001)));
        assert!(is_refused(([198, 18, 0, 77], 7000)));
        // The positive control.
        assert_eq!(hear(&connect((resolve("plain.test"), 7000)), 6), b"hello\n");
        let refused = lab.entry(|entry| entry.verdict == Some(Verdict::Refused));
        assert_eq!(
            refused.reason.as_deref(),
            Some("no rule names the address 203.0.113.9 with port 7000")
        );
        assert_eq!(refused.opens.as_deref(), Some("203.0.113.9:7000"));
    });
}

#[test]
fn a_name_that_leads_to_a_private_address_is_not_dialled() {
    lab(
        "wall::a_name_that_leads_to_a_private_address_is_not_dialled",
        |mut lab| {
            lab.register(&["rebind.test:7000", "mixed.test:7000"]);
            assert!(is_refused((resolve("rebind.test"), 7000)));
            let refused = lab.entry(|entry| entry.verdict == Some(Verdict::Refused));
            assert_eq!(refused.name.as_deref(), Some("rebind.test"));
            assert!(refused.reason.unwrap().contains("10.0.0.5"));
            // Of a mixed answer the address that may be dialled is dialled.
            assert_eq!(hear(&connect((resolve("mixed.test"), 7000)), 6), b"hello\n");
        },
    );
}

#[test]
fn each_connection_goes_where_its_name_leads_then_and_never_inside() {
    lab(
        "wall::each_connection_goes_where_its_name_leads_then_and_never_inside",
        |mut lab| {
            lab.register(&["turn.test:7000"]);
            let inside = resolve("turn.test");
            turn(WORLD);
            assert_eq!(hear(&connect((inside, 7000)), 6), b"hello\n");
            for lie in ["10.0.0.5", "127.0.0.1", "169.254.169.254"] {
                turn(lie);
                assert!(is_refused((inside, 7000)), "{lie}");
                lab.entry(|entry| {
                    entry.verdict == Some(Verdict::Refused)
                        && entry
                            .reason
                            .as_ref()
                            .is_some_and(|reason| reason.contains(lie))
                });
            }
            // What was said before binds nobody.
            turn(WORLD);
            assert_eq!(hear(&connect((inside, 7000)), 6), b"hello\n");
        },
    );
}

/// A client hello that names `name`, in the fewest bytes.
fn hello(name: &str) -> Vec<u8> {
    let sized = |content: &[u8]| {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&length, content].concat()
    };
    let names = [&[0u8][..], &sized(name.as_bytes())].concat();
    let extensions = [&[0u8, 0][..], &sized(&sized(&names))].concat();
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend_from_slice(&sized(&extensions));
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1, length[1], length[2], length[3]], &body[..]].concat();
    [&[22, 3, 1][..], &sized(&message)].concat()
}

#[test]
fn a_tls_connection_must_name_the_name() {
    lab("wall::a_tls_connection_must_name_the_name", |mut lab| {
        lab.register(&["allowed.test"]);
        let address = resolve("allowed.test");
        let good = hello("allowed.test");
        let mut stream = connect((address, 443));
        // In pieces, as networks deliver.
        stream.write_all(&good[..7]).unwrap();
        stream.write_all(&good[7..]).unwrap();
        assert_eq!(hear(&stream, good.len()), good);
        for (bad, says) in [
            (hello("denied.test"), "denied.test"),
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "client hello"),
        ] {
            let mut stream = connect((address, 443));
            stream.write_all(&bad).unwrap();
            assert!(is_reset(&stream));
            lab.entry(|entry| {
                entry.verdict == Some(Verdict::Refused)
                    && entry
                        .reason
                        .as_deref()
                        .is_some_and(|reason| reason.contains(says))
            });
        }
        let log = lab.sockets.log_until(|_| true);
        let dialled = log.iter().filter(|entry| {
            entry.event == Event::Connect && entry.verdict == Some(Verdict::Allowed)
        });
        assert_eq!(dialled.count(), 1);
    });
}

#[test]
fn a_connection_ends_with_its_rule() {
    lab("wall::a_connection_ends_with_its_rule", |mut lab| {
        lab.register(&["plain.test:7000", "allowed.test:7000"]);
        let going = connect((resolve("plain.test"), 7000));
        let staying = connect((resolve("allowed.test"), 7000));
        assert_eq!(hear(&going, 6), b"hello\n");
        assert_eq!(hear(&staying, 6), b"hello\n");
        let answer = lab.client.set_rules("one", &["allowed.test:7000"]);
        assert_eq!(answer, Answer::RulesSet { closed: 1 });
        assert!(is_reset(&going));
        (&staying).write_all(b"still").unwrap();
        assert_eq!(hear(&staying, 5), b"still");
        lab.entry(|entry| entry.event == Event::Rules);
    });
}

#[test]
fn a_connection_ends_with_its_sandbox_and_with_the_gateway() {
    lab(
        "wall::a_connection_ends_with_its_sandbox_and_with_the_gateway",
        |mut lab| {
            let mut second = lab.gateway.connect();
            lab.register(&["plain.test:7000"]);
            let stream = connect((resolve("plain.test"), 7000));
            assert_eq!(hear(&stream, 6), b"hello\n");
            drop(lab.client);
            assert!(is_reset(&stream));
            let ask = registration("one", &["plain.test:7000"], false);
            assert_eq!(
                second.ask_with(&ask, &lab.sockets.descriptors()),
                Answer::Done
            );
            let stream = connect((resolve("plain.test"), 7000));
            assert_eq!(hear(&stream, 6), b"hello\n");
            drop(lab.gateway);
            let mut rest = [0u8; 1];
            assert!(matches!((&stream).read(&mut rest), Ok(0) | Err(_)));
        },
    );
}

#[test]
fn a_reset_of_the_server_is_a_reset_inside() {
    lab(
        "wall::a_reset_of_the_server_is_a_reset_inside",
        |mut lab| {
            lab.register(&["plain.test:7002"]);
            let mut stream = connect((resolve("plain.test"), 7002));
            stream.write_all(b"x").unwrap();
            assert!(is_reset(&stream));
        },
    );
}

#[test]
fn packets_that_are_no_tcp_are_refused_and_told() {
    lab(
        "wall::packets_that_are_no_tcp_are_refused_and_told",
        |mut lab| {
            let ask = registration("one", &["203.0.113.0/24"], true);
            let descriptors = lab.sockets.descriptors();
            lab.client.ask_with(&ask, &descriptors);
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            let send = || {
                let error = socket.send_to(b"quic", (WORLD, 443)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            };
            send();
            send();
            assert!(is_refused(([203, 0, 113, 9], 7000)));
            let seen = Seen {
                lookups: 0,
                connections: 1,
                proxied: 0,
                packets: 2,
            };
            assert_eq!(lab.client.ask(&Ask::Open), Answer::Seen(seen));
            send();
            let told = lab.entry(|entry| entry.event == Event::Packet);
            assert_eq!(
                told.reason.as_deref(),
                Some("udp to 203.0.113.9:443: only TCP leaves a sandbox")
            );
            let stream = connect(([203, 0, 113, 9], 7000));
            assert_eq!(hear(&stream, 6), b"hello\n");
        },
    );
}

#[test]
fn lookups_over_tcp_are_answered_too() {
    lab("wall::lookups_over_tcp_are_answered_too", |mut lab| {
        lab.register(&["plain.test:7000"]);
        let mut stream = connect(([8, 8, 8, 8], 53));
        let asked = cofferdam_wall::dns::frame(&query("plain.test", 1)).unwrap();
        stream.write_all(&asked).unwrap();
        let length = hear(&stream, 2);
        let answer = hear(
            &stream,
            usize::from(u16::from_be_bytes([length[0], length[1]])),
        );
        assert_eq!(answered(&answer).1, Some(resolve("plain.test")));
    });
}
