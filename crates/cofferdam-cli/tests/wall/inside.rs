//! Attacks 10, 24, 32, 33: on what is inside the sandbox itself.

use std::path::Path;
use std::process::Command;

use cofferdam_lab::probe::{Outcome, Task};

use crate::bench::DENIED;
use crate::house::LOOPBACK;
use crate::place::{PROXY, Place};
use crate::trial::{Trial, http, request, tcp, word};

pub(crate) fn privilege(trial: &mut Trial<'_>) {
    let mut found = trial.bench.house.ask(&Task::Escape).found;
    found.extend(with_a_process_one_of_its_own(trial));
    let (fire, others): (Vec<_>, Vec<_>) = cofferdam_lab::probe::ways()
        .into_iter()
        .partition(|way| found.contains(way));
    for way in &fire {
        trial.fires(way, true, &found);
    }
    for way in &others {
        let needs_more = NEED_MORE.iter().any(|start| way.starts_with(start));
        trial.fires(way, needs_more, &found);
    }
    if !others.is_empty() {
        cofferdam_lab::skip!("a control of: {}", others.join("; "));
    }
    let found = trial.bench.wall.ask(&Task::Escape).found;
    trial.refuses("every way to more privilege", found.is_empty(), &found);
    trial.exfil("a denied address afterwards", |place, nonce| {
        place.ask(&word("203.0.113.11:80", nonce))
    });
    let names = trial.bench.wall.ask(&Task::Interfaces).found;
    trial.refuses("other interfaces", names == ["lo"], &names);
    flushed(trial);
    trial.allowed_works();
}

/// How those begin that not everybody can try: programs that a machine may not have, or that want a password; ids
/// that are not there; a user namespace other than one's own that may be entered.
const NEED_MORE: [&str; 7] = [
    "newuidmap",
    "su ",
    "sudo",
    "iptables",
    "sysctl",
    "nsenter --user",
    "write /proc/sys/net/ipv4/ping_group_range",
];

/// The same ways where the first process is one that they may get into: of the same user, in namespaces of its own.
fn with_a_process_one_of_its_own(trial: &Trial<'_>) -> Vec<String> {
    let (own, file) = (
        std::env::current_exe().unwrap(),
        trial.bench.directory.join("escape"),
    );
    let own_namespaces = [
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--mount-proc",
    ];
    let script = "ip link set lo up && \"$0\" --probe do \"$1\" '\"Escape\"'; exit $?";
    let status = Command::new("unshare")
        .args(own_namespaces)
        .args(["--mount", "--net", "sh", "-c", script])
        .args([own, file.clone()])
        .status();
    assert!(status.unwrap().success());
    let outcome = std::fs::read_to_string(file).unwrap();
    serde_json::from_str::<Outcome>(&outcome).unwrap().found
}

/// What the owner of a sandbox can do to it from outside: its rules, gone while it lives. The network is lost then,
/// and the policy never.
fn flushed(trial: &mut Trial<'_>) {
    let place = Place::start(
        trial.bench.beside("flushed"),
        "flushed",
        &["--allow", "allowed.test"],
    );
    let place = place.ready();
    let visit = http("allowed.test:80", "allowed.test", "/");
    let outcome = place.ask(&visit);
    let there = outcome.heard.contains("203.0.113.10:80");
    trial.works("http before the flush", there, &outcome);
    let (_, init) = place.processes();
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    let inside = init.to_string();
    let enter = ["nsenter", "--net", "--target", &inside];
    // Fails where the rules stay.
    host(&[&enter[..], &[own, "--probe", "flush"]].concat());
    for to in ["203.0.113.11:80", "203.0.113.10:80", "192.0.2.2:4000"] {
        trial.stays_in(to, &place, |place, nonce| place.ask(&word(to, nonce)));
        trial.stays_in(to, &place, |place, nonce| {
            place.ask(&Task::Udp {
                to: to.to_owned(),
                payload: nonce.into(),
            })
        });
    }
    trial.stays_in("a name", &place, |place, nonce| {
        place.ask(&http("denied.test:80", "denied.test", &format!("/{nonce}")))
    });
    // What the rules led to the gateway does not get there any more: lost, not open.
    let outcome = place.ask(&visit);
    let lost = !outcome.heard.contains("203.0.113.10:80");
    trial.refuses("http after the flush", lost, &outcome);
    place.end();
}
/// What tells programs to use a proxy, by the habits of various programs.
const VARIABLES: [&str; 6] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
];

pub(crate) fn environment(trial: &mut Trial<'_>) {
    // Told to use the proxy, and a program of the same sandbox that has unset all of it.
    let given = VARIABLES.map(|name| format!("{name}=http://{PROXY}"));
    let mut options = vec!["--allow", "allowed.test"];
    for given in &given {
        options.extend(["--env", given.as_str()]);
    }
    let mut unset = vec!["env", "NO_PROXY=*", "no_proxy=*"];
    for name in VARIABLES {
        unset.splice(1..1, ["-u", name]);
    }
    let told = Place::start(trial.bench.beside("told"), "told", &options);
    let untold = Place::start_by(trial.bench.beside("untold"), "untold", &options, &unset);
    let (told, untold) = (told.ready(), untold.ready());
    let set = |place: &Place| {
        let all = place.ask(&Task::Environment).found;
        given.iter().filter(|given| all.contains(given)).count()
    };
    assert_eq!((set(&told), set(&untold)), (VARIABLES.len(), 0));
    // The program never looks at them: what it reaches, it reaches by its own socket.
    for place in [&told, &untold] {
        trial.exfil_from(place, "a denied address", |place, nonce| {
            place.ask(&word("203.0.113.11:80", nonce))
        });
        trial.exfil_from(place, "a denied name", |place, nonce| {
            place.ask(&http("denied.test:80", "denied.test", &format!("/{nonce}")))
        });
        trial.exfil_from(place, "a denied name by the proxy", |place, nonce| {
            place.connect(
                "denied.test",
                80,
                request("denied.test", &format!("/{nonce}")),
            )
        });
        let outcome = place.ask(&http("allowed.test:80", "allowed.test", "/"));
        let there = outcome.heard.contains("\"at\":\"203.0.113.10:80\"");
        trial.works("http without a proxy", there, &outcome);
    }
    told.end();
    untold.end();
    let wall = &trial.bench.wall;
    let tls = Task::Https {
        to: "allowed.test:443".to_owned(),
        name: "allowed.test".to_owned(),
    };
    let outcome = wall.ask(&tls);
    let there = outcome.heard.contains("\"at\":\"203.0.113.10:443\"");
    trial.works("https without a proxy", there, &outcome);
    let outcome = wall.connect("allowed.test", 80, request("allowed.test", "/").as_bytes());
    let there = outcome.heard.contains("\"at\":\"203.0.113.10:80\"");
    trial.works("http by CONNECT", there, &outcome);
    let outcome = wall.socks("allowed.test", 80, request("allowed.test", "/").as_bytes());
    let there = outcome.heard.contains("\"at\":\"203.0.113.10:80\"");
    trial.works("http by SOCKS5", there, &outcome);
    let outcome = wall.absolute("allowed.test", 80, "/");
    let there = outcome.heard.contains("\"at\":\"203.0.113.10:80\"");
    trial.works("http in absolute form", there, &outcome);
}

pub(crate) fn surfaces(trial: &mut Trial<'_>) {
    let scan = |first, last| Task::Scan {
        address: "127.0.0.1".to_owned(),
        first,
        last,
    };
    let found = trial
        .bench
        .house
        .ask(&scan(LOOPBACK - 10, LOOPBACK + 10))
        .found;
    let fires = found.contains(&LOOPBACK.to_string());
    trial.fires("ports of the house", fires, &found);
    let wall = &trial.bench.wall;
    let open = wall.ask(&scan(1, u16::MAX)).found;
    // The listener for redirected connections, and the proxy.
    let data_plane = |port: &String| ["15001", "3128"].contains(&port.as_str());
    trial.refuses("ports", open.iter().all(data_plane), &open);
    let rules = |place: &Place| {
        place
            .user
            .cofferdam(&["net", "rules", "--sandbox", &place.name])
            .stdout
    };
    let before = rules(wall);
    for port in &open {
        let to = format!("127.0.0.1:{port}");
        for say in [
            &b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"[..],
            b"POST /rules HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\r\ndenied.test",
            b"GET http://127.0.0.1:3128/rules HTTP/1.1\r\nHost: 127.0.0.1:3128\r\n\r\n",
            // What the library says to the gateway: a frame that asks for its state.
            b"\x01\0\0\0\x05",
            b"\x05\0\0\0\x02\x00\x00\x00\x00",
        ] {
            let outcome = wall.ask(&tcp(&to, say));
            let heard = &outcome.heard;
            let talks = ["allowed.test", "sibling", "203.0.113", "generation"]
                .iter()
                .any(|secret| heard.contains(secret));
            trial.refuses(&to, !talks, &outcome);
        }
    }
    trial.refuses(
        "rules stay",
        rules(wall) == before && !before.is_empty(),
        &before,
    );
    let sockets = |below: &Path| Task::UnixSockets {
        below: below.display().to_string(),
    };
    let found = trial
        .bench
        .house
        .ask(&sockets(&trial.bench.directory))
        .found;
    let fires = found.iter().any(|path| path.ends_with("/control"));
    trial.fires("unix sockets", fires, &found);
    let found = wall.ask(&sockets(Path::new("/"))).found;
    let own = |path: &String| path.ends_with("/wall.sock");
    trial.refuses("unix sockets", found.iter().all(own), &found);
    trial.allowed_works();
}

pub(crate) fn moved_interface(trial: &mut Trial<'_>) {
    let place = Place::start(
        trial.bench.beside("moved"),
        "moved",
        &["--allow", "allowed.test"],
    );
    let place = place.ready();
    let (_, init) = place.processes();
    let inside = init.to_string();
    // The host's owner puts a wire into the sandbox's namespace, brings it up and makes it the way out.
    host(&[
        "ip", "link", "add", "moved0", "type", "veth", "peer", "name", "moved1",
    ]);
    host(&["ip", "addr", "add", "198.51.100.1/24", "dev", "moved0"]);
    host(&["ip", "link", "set", "moved0", "up"]);
    host(&["ip", "link", "set", "moved1", "netns", &inside]);
    let enter = ["nsenter", "--net", "--target", &inside];
    let within = |words: &[&str]| host(&[&enter[..], &["ip"], words].concat());
    within(&["addr", "add", "198.51.100.2/24", "dev", "moved1"]);
    within(&["link", "set", "moved1", "up"]);
    within(&["route", "add", "default", "via", "198.51.100.1"]);
    let names = place.ask(&Task::Interfaces).found;
    trial.fires(
        "a second interface",
        names.contains(&"moved1".to_owned()),
        &names,
    );
    for to in ["203.0.113.11:80", "198.51.100.1:4000", "192.0.2.2:4000"] {
        trial.stays_in(to, &place, |place, nonce| place.ask(&word(to, nonce)));
        trial.stays_in(to, &place, |place, nonce| {
            place.ask(&Task::Udp {
                to: to.to_owned(),
                payload: nonce.into(),
            })
        });
        trial.exfil(to, |place, nonce| place.ask(&word(to, nonce)));
    }
    let outcome = place.ask(&tcp(PROXY, "GET / HTTP/1.1\r\n\r\n"));
    trial.refuses("the proxy", !outcome.heard.contains(DENIED), &outcome);
    let outcome = place.ask(&http("allowed.test:80", "allowed.test", "/"));
    let there = outcome.heard.contains("203.0.113.10:80");
    trial.works("http to allowed.test", there, &outcome);
    place.end();
    host(&["ip", "link", "del", "moved0"]);
}

/// What the host's owner does by hand, with the house's privileges.
fn host(words: &[&str]) {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let gone = words.contains(&"del");
    assert!(output.status.success() || gone, "{words:?}: {output:?}");
}
