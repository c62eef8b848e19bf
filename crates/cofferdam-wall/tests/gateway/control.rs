//! What the library asks, what it gets, and when the gateway ends.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Instant;

use cofferdam_wall::control::{Answer, Ask, MAX_FRAME, Seen};
use cofferdam_wall::log::{Event, Verdict};

use rustix::process::{Resource, Rlimit};

use crate::support::{ANSWER, BOUND, Gateway, Sockets, answered, query, registration, rules};

fn lookup(to: &UdpSocket, name: &str) -> (u8, Option<std::net::Ipv4Addr>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(BOUND)).unwrap();
    socket
        .send_to(&query(name, 1), to.local_addr().unwrap())
        .unwrap();
    let mut answer = [0u8; 512];
    let got = socket.recv(&mut answer).unwrap();
    answered(&answer[..got])
}

/// Whether a connection to a listener is reset, or closed where that is all there is to see.
fn is_refused(to: &std::net::TcpListener) -> bool {
    let mut stream = TcpStream::connect(to.local_addr().unwrap()).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    match stream.read(&mut [0u8; 1]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_sandbox_is_there_as_long_as_its_connection() {
    let gateway = Gateway::start();
    let sockets = Sockets::new([0; 3]);
    let mut owner = gateway.connect();
    let mut other = gateway.connect();
    assert_eq!(other.ask(&Ask::Status), Answer::Status(vec![]));
    let register = registration("one", &["a.test", "b.test:22"], false);
    assert_eq!(
        owner.ask_with(&register, &sockets.descriptors()),
        Answer::Done
    );
    let Answer::Status(status) = other.ask(&Ask::Status) else {
        panic!();
    };
    assert_eq!((status[0].sandbox.as_str(), status[0].rules), ("one", 2));
    // On the same connection once only.
    owner.error(&register, &sockets.descriptors());
    drop(owner);
    let gone = std::time::Instant::now();
    while other.ask(&Ask::Status) != Answer::Status(vec![]) {
        assert!(gone.elapsed() < BOUND);
    }
    assert_eq!(
        other.error(
            &Ask::Refused {
                sandbox: "one".to_owned()
            },
            &[]
        ),
        "no sandbox `one` is behind this gateway"
    );
}

#[test]
fn the_newest_registration_of_a_sandbox_counts() {
    let gateway = Gateway::start();
    let (first, second) = (Sockets::new([0; 3]), Sockets::new([0; 3]));
    let mut old = gateway.connect();
    let mut new = gateway.connect();
    old.ask_with(&registration("one", &[], false), &first.descriptors());
    new.ask_with(
        &registration("one", &["a.test"], false),
        &second.descriptors(),
    );
    assert_eq!(old.answer(), None, "the old connection is closed");
    assert_eq!(lookup(&second.lookups, "a.test").0, 0);
    let Answer::Status(status) = new.ask(&Ask::Status) else {
        panic!();
    };
    assert_eq!((status.len(), status[0].rules), (1, 1));
}

#[test]
fn descriptors_that_are_something_else_are_refused_by_number() {
    let gateway = Gateway::start();
    let sockets = Sockets::new([0; 3]);
    let register = registration("one", &[], false);
    for (number, wrong) in [(0, 2), (1, 4), (2, 0), (3, 2), (4, 3)] {
        let mut descriptors = sockets.descriptors();
        descriptors[number] = descriptors[wrong].try_clone().unwrap();
        let error = gateway.connect().error(&register, &descriptors);
        assert!(
            error.starts_with(&format!("descriptor {number} is not")),
            "{error}"
        );
    }
    let mut read_only: Vec<OwnedFd> = sockets.descriptors();
    read_only[4] = std::fs::File::open("/dev/null").unwrap().into();
    assert_eq!(
        gateway.connect().error(&register, &read_only),
        "descriptor 4 is not a file open for appending"
    );
    assert_eq!(
        gateway
            .connect()
            .error(&register, &sockets.descriptors()[..4]),
        "a sandbox comes with 5 descriptors, not with 4"
    );
    // The positive control.
    assert_eq!(
        gateway
            .connect()
            .ask_with(&register, &sockets.descriptors()),
        Answer::Done
    );
}

#[test]
fn a_policy_that_does_not_compile_leaves_the_old_one() {
    let gateway = Gateway::start();
    let sockets = Sockets::new([0; 3]);
    let mut client = gateway.connect();
    client.ask_with(
        &registration("one", &["a.test"], false),
        &sockets.descriptors(),
    );
    for (bad, says) in [
        (vec!["b.test", "https://b.test"], "rule `https://b.test`"),
        (vec!["203.0.113.7:53 udp"], "udp is not carried"),
        (vec!["b.test:9 http", "b.test:9 tls"], "disagree"),
    ] {
        match client.set_rules("one", &bad) {
            Answer::Error(error) => assert!(error.contains(says), "{error}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(lookup(&sockets.lookups, "a.test").0, 0);
        assert_eq!(lookup(&sockets.lookups, "b.test"), (3, None));
    }
    assert_eq!(
        client.set_rules("one", &["b.test"]),
        Answer::RulesSet { closed: 0 }
    );
    assert_eq!(lookup(&sockets.lookups, "a.test"), (3, None));
    assert_eq!(lookup(&sockets.lookups, "b.test").0, 0);
}

#[test]
fn while_proving_everything_but_the_proof_is_refused_counted_and_not_logged() {
    let gateway = Gateway::start();
    let sockets = Sockets::new([0; 3]);
    let mut client = gateway.connect();
    let registered = client.ask_with(
        &registration("one", &["a.test"], true),
        &sockets.descriptors(),
    );
    let Answer::Proving { port } = registered else {
        panic!("{registered:?}");
    };
    // One thing is carried: the gateway's own service on this machine.
    let ask = || {
        let mut answer = Vec::new();
        let stream = std::net::TcpStream::connect(("127.0.0.1", port));
        stream.and_then(|mut stream| stream.read_to_end(&mut answer))?;
        std::io::Result::Ok(answer)
    };
    assert_eq!(ask().unwrap(), ANSWER);
    assert_eq!(lookup(&sockets.lookups, "host.cofferdam.internal").0, 0);
    assert_eq!(lookup(&sockets.lookups, "a.test"), (3, None));
    assert_eq!(lookup(&sockets.lookups, "c.test"), (3, None));
    assert!(is_refused(&sockets.connections));
    assert!(is_refused(&sockets.proxy));
    assert_eq!(
        client.ask(&Ask::Open),
        Answer::Seen(Seen {
            lookups: 3,
            connections: 1,
            proxied: 1,
            packets: 0
        })
    );
    // And no longer. The name is known still: what a program does with it is told when it is refused.
    assert_eq!(lookup(&sockets.lookups, "host.cofferdam.internal").0, 0);
    let start = Instant::now();
    while ask().is_ok() {
        assert!(start.elapsed() < BOUND, "it is still there");
    }
    assert_eq!(lookup(&sockets.lookups, "a.test").0, 0);
    assert_eq!(lookup(&sockets.lookups, "c.test"), (3, None));
    let log = sockets.log_until(|log| log.len() >= 2);
    let told: Vec<_> = log
        .iter()
        .map(|entry| (entry.event, entry.name.as_deref(), entry.verdict))
        .collect();
    assert_eq!(
        told,
        [
            (Event::Lookup, Some("a.test"), Some(Verdict::Allowed)),
            (Event::Lookup, Some("c.test"), Some(Verdict::Refused)),
        ]
    );
    assert_eq!(log[1].opens.as_deref(), Some("c.test"));
}

/// From the first answer on, whoever asks.
#[test]
fn every_thread_of_the_gateway_is_filtered() {
    let gateway = Gateway::start();
    let mut client = gateway.connect();
    assert_eq!(client.ask(&Ask::Status), Answer::Status(Vec::new()));
    let filters = |process: u32| {
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
        let count = |thread: std::io::Result<std::fs::DirEntry>| {
            let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("Seccomp_filters:"));
            line.unwrap().trim().parse::<u32>().unwrap()
        };
        threads.map(count).collect::<Vec<_>>()
    };
    // The control is this program, which may have filters of whoever started it.
    let own = filters(std::process::id())[0];
    let found = filters(gateway.pid());
    assert!(found.len() >= 3, "{found:?}");
    assert!(found.iter().all(|count| *count == own + 2), "{found:?}");
}

#[test]
fn refusals_are_counted_by_destination() {
    let gateway = Gateway::start();
    let sockets = Sockets::new([0; 3]);
    let mut client = gateway.connect();
    client.ask_with(&registration("one", &[], false), &sockets.descriptors());
    // What a resolver repeats within 2 s is one lookup.
    let began = Instant::now();
    for _ in 0..3 {
        lookup(&sockets.lookups, "c.test");
    }
    let most = 1 + began.elapsed().as_secs() / 2;
    lookup(&sockets.lookups, "d.test");
    let sandbox = "one".to_owned();
    let Answer::Refused(refused) = client.ask(&Ask::Refused { sandbox }) else {
        panic!();
    };
    let told: Vec<_> = refused
        .iter()
        .map(|one| (one.what.as_str(), one.reason.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("c.test", "no rule names c.test"),
            ("d.test", "no rule names d.test"),
        ]
    );
    assert!((1..=most).contains(&refused[0].count), "{refused:?}");
    assert_eq!(refused[1].count, 1);
}

#[test]
fn a_decision_is_explained() {
    let gateway = Gateway::start();
    let mut client = gateway.connect();
    let mut explain = |host: &str, port| {
        let ask = Ask::Explain {
            rules: rules(&["host.cofferdam.internal:8080", "203.0.113.0/24:5432"]),
            host: host.to_owned(),
            port,
        };
        match client.ask(&ask) {
            Answer::Explained(explanation) => explanation,
            other => panic!("{other:?}"),
        }
    };
    let host = explain("host.cofferdam.internal", 8080);
    assert!(host.allowed);
    assert_eq!(host.addresses, [("127.0.0.1".parse().unwrap(), None)]);
    let address = explain("203.0.113.7", 5432);
    assert_eq!(
        (address.allowed, address.kind.as_deref()),
        (true, Some("plain"))
    );
    let refused = explain("b.test", 443);
    assert!(!refused.allowed);
    assert_eq!(refused.reason.as_deref(), Some("no rule names b.test"));
    assert_eq!(refused.opens.as_deref(), Some("b.test:443"));
}

#[test]
fn nobody_but_the_owner_is_heard() {
    let stranger = Gateway::owned_by(rustix::process::geteuid().as_raw() + 1);
    let mut client = stranger.connect();
    let frame = cofferdam_wall::control::encode(&Ask::Status).unwrap();
    // The gateway may have closed already.
    _ = client.0.write_all(&frame);
    assert_eq!(client.answer(), None);
}

#[test]
fn it_is_nobody_special() {
    let gateway = Gateway::start();
    // An answer shows that it has begun.
    assert_eq!(gateway.connect().ask(&Ask::Status), Answer::Status(vec![]));
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let field = |name: &str| -> Vec<&str> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().split_ascii_whitespace().collect()
    };
    let own = rustix::process::geteuid();
    let expected = if own.is_root() {
        "65534".to_owned()
    } else {
        own.as_raw().to_string()
    };
    assert_eq!(field("Uid:"), [expected.as_str(); 4]);
    assert_eq!(field("NoNewPrivs:"), ["1"]);
    for set in ["CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(field(set), ["0000000000000000"], "{set}");
    }
    if own.is_root() {
        assert_eq!(field("Gid:"), ["65534"; 4]);
        assert_eq!(field("Groups:"), <[&str; 0]>::default());
    }
}

#[test]
fn it_keeps_nothing_of_its_starters_and_does_not_write_its_lock() {
    let mut gateway = Gateway::start();
    let mut inherited = gateway.inherited();
    // Ends when the gateway has closed its copies: it lives, as the answer shows.
    assert_eq!(inherited.read(&mut [0]).unwrap(), 0);
    assert_eq!(gateway.connect().ask(&Ask::Status), Answer::Status(vec![]));
    let stranger = gateway.connect();
    (&stranger.0).write_all(&[0xff; 8]).unwrap();
    drop(stranger);
    std::fs::remove_file(gateway.socket()).unwrap();
    assert!(gateway.ended().success());
    let lock = gateway.home.path().join("lock");
    assert_eq!(std::fs::metadata(lock).unwrap().len(), 0);
}

#[test]
fn without_a_descriptor_a_connection_is_reset_and_told() {
    let gateway = Gateway::narrow(40);
    let sockets = Sockets::new([0; 3]);
    let mut client = gateway.connect();
    let register = registration("one", &["a.test"], false);
    assert_eq!(
        client.ask_with(&register, &sockets.descriptors()),
        Answer::Done
    );
    // More than there are descriptors, and fewer than a sandbox may have. They say nothing.
    let proxy = sockets.proxy.local_addr().unwrap();
    let silent: Vec<_> = (0..30)
        .map(|_| TcpStream::connect(proxy).unwrap())
        .collect();
    let last = silent.last().unwrap();
    last.set_read_timeout(Some(BOUND)).unwrap();
    let mut last = last;
    let error = last.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    sockets.log_until(|log| {
        log.iter().any(|entry| {
            entry.verdict == Some(Verdict::Refused)
                && entry.reason.as_deref() == Some("the gateway has no descriptor left for it")
        })
    });
    // What needs no descriptor goes on meanwhile, and everything as soon as there are some.
    assert_eq!(lookup(&sockets.lookups, "a.test").0, 0);
    drop(silent);
    let mut again = TcpStream::connect(proxy).unwrap();
    again.set_read_timeout(Some(BOUND)).unwrap();
    let mut answer = [0; 12];
    loop {
        let ask = b"CONNECT b.test:443 HTTP/1.1\r\n\r\n";
        if again.write_all(ask).is_ok() && again.read_exact(&mut answer).is_ok() {
            break;
        }
        again = TcpStream::connect(proxy).unwrap();
        again.set_read_timeout(Some(BOUND)).unwrap();
    }
    assert_eq!(&answer, b"HTTP/1.1 403");
}

// Attack: connections that begin something, to keep the gateway busy with what is never complete.
#[test]
fn connections_that_are_on_their_way_are_bounded_and_the_next_is_told() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    rustix::process::setrlimit(Resource::Nofile, most).unwrap();
    let gateway = Gateway::start();
    let sockets = Sockets::new([0; 3]);
    let mut client = gateway.connect();
    let register = registration("one", &["a.test"], false);
    assert_eq!(
        client.ask_with(&register, &sockets.descriptors()),
        Answer::Done
    );
    let proxy = sockets.proxy.local_addr().unwrap();
    let mut begun = Vec::new();
    for _ in 0..1024 {
        let mut stream = TcpStream::connect(proxy).unwrap();
        stream.write_all(b"CONNECT a.te").unwrap();
        begun.push(stream);
    }
    let mut more = TcpStream::connect(proxy).unwrap();
    more.set_read_timeout(Some(BOUND)).unwrap();
    let error = more.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    sockets.log_until(|log| {
        log.iter()
            .any(|entry| entry.reason.as_deref() == Some("too many connections at once"))
    });
}

#[test]
fn lookups_beyond_the_rate_are_turned_away_and_told() {
    let gateway = Gateway::start();
    let (one, two) = (Sockets::new([0; 3]), Sockets::new([0; 3]));
    let mut clients = [gateway.connect(), gateway.connect()];
    for (client, (id, sockets)) in clients.iter_mut().zip([("one", &one), ("two", &two)]) {
        let register = registration(id, &["a.test"], false);
        assert_eq!(
            client.ask_with(&register, &sockets.descriptors()),
            Answer::Done
        );
    }
    // Until the answer is: not now. An allowed name has no other reason for it.
    let turned_away = (0..1_000_000).any(|_| lookup(&one.lookups, "a.test").0 == 2);
    assert!(turned_away);
    let log = one.log_until(|log| log.iter().any(|entry| entry.event == Event::Gap));
    let gap = log.iter().find(|entry| entry.event == Event::Gap).unwrap();
    assert_eq!(gap.count, Some(1));
    assert_eq!(
        gap.reason.as_deref(),
        Some("lookups were not answered: more than 500 a second")
    );
    assert_eq!(lookup(&two.lookups, "a.test").0, 0);
}

#[test]
fn ever_new_names_below_a_wildcard_are_refused_and_told() {
    let gateway = Gateway::start();
    let sockets = Sockets::new([0; 3]);
    let mut client = gateway.connect();
    client.ask_with(
        &registration("one", &["*.wild.test", "own.wild.test"], false),
        &sockets.descriptors(),
    );
    for number in 0..120 {
        assert_eq!(
            lookup(&sockets.lookups, &format!("n{number}.wild.test")).0,
            0
        );
    }
    assert_eq!(lookup(&sockets.lookups, "more.wild.test"), (2, None));
    // Names that were asked for, and a name with a rule of its own.
    assert_eq!(lookup(&sockets.lookups, "n0.wild.test").0, 0);
    assert_eq!(lookup(&sockets.lookups, "own.wild.test").0, 0);
    let log = sockets.log_until(|log| {
        log.iter()
            .any(|entry| entry.verdict == Some(Verdict::Refused))
    });
    let refused = log
        .iter()
        .find(|entry| entry.verdict == Some(Verdict::Refused))
        .unwrap();
    assert_eq!(refused.name.as_deref(), Some("more.wild.test"));
    assert_eq!(refused.opens.as_deref(), Some("more.wild.test"));
    assert!(
        refused
            .reason
            .as_deref()
            .unwrap()
            .contains("more than 120 names")
    );
    // The same by way of the proxy.
    let mut proxy = TcpStream::connect(sockets.proxy.local_addr().unwrap()).unwrap();
    proxy.set_read_timeout(Some(BOUND)).unwrap();
    let request = "GET http://fresh.wild.test/ HTTP/1.1\r\nHost: fresh.wild.test\r\n\r\n";
    proxy.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    proxy.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("more than 120 names"), "{answer}");
}

#[test]
fn nonsense_ends_the_connection_and_nothing_else() {
    let gateway = Gateway::start();
    let mut witness = gateway.connect();
    let too_long = u32::try_from(MAX_FRAME + 1).unwrap().to_le_bytes();
    for nonsense in [&too_long[..], &[1, 0, 0, 0, 0xff], &[0, 0, 0, 0]] {
        let mut client = gateway.connect();
        client.0.write_all(nonsense).unwrap();
        assert_eq!(client.answer(), None, "{nonsense:?}");
    }
    assert_eq!(witness.ask(&Ask::Status), Answer::Status(vec![]));
}

#[test]
fn it_ends_when_nobody_can_find_it_but_not_before_its_sandboxes() {
    let mut gateway = Gateway::start();
    let sockets = Sockets::new([0; 3]);
    let mut client = gateway.connect();
    client.ask_with(
        &registration("one", &["a.test"], false),
        &sockets.descriptors(),
    );
    std::fs::remove_file(gateway.socket()).unwrap();
    assert_eq!(lookup(&sockets.lookups, "a.test").0, 0);
    assert!(matches!(client.ask(&Ask::Status), Answer::Status(_)));
    drop(client);
    assert!(gateway.ended().success());
}
