//! What a run reaches and what it does not, and how its user hears of it.

use serde_json::Value;

use super::world::{
    Origin, Running, closed, entries, gateway, other_repository, run_arguments, script,
    write_config,
};
use crate::environment::TestEnvironment;

const REFUSED: &str = r#"
look_up nowhere.test && exit 10
ask nowhere.test 443 && exit 11
ask 203.0.113.9 22 && exit 12
ask 169.254.169.254 80 && exit 13
ask "$HOST" "$PORT" && exit 14
ask 127.0.0.1 "$PORT" && exit 15
ask api.anthropic.com 25 && exit 16
echo all-refused
"#;

/// Without any configuration: the built-in list is in force.
// covers: S1-71 S1-74 S3-49
#[test]
fn what_is_refused_is_named_in_the_summary_the_log_and_json() {
    let environment = TestEnvironment::with_repository();
    let origin = Origin::new();
    let run = |options: &[&str], name: &str| {
        let arguments = run_arguments(name, options, &script(&origin, REFUSED));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        environment.cofferdam(&arguments).expect_code(0)
    };
    let done = run(&[], "one");
    assert!(done.stderr.contains("all-refused"), "{done}");
    assert_eq!(origin.greeted(), 0);
    let hint = done
        .stdout
        .lines()
        .find(|line| line.starts_with("refused: "));
    let hint = hint.unwrap_or_else(|| panic!("no hint: {done}"));
    assert!(
        hint.ends_with("(the whole list: cofferdam net log one --refused)"),
        "{hint}"
    );
    // Each that is worth it has its command; what is around the machine is no bait.
    let own = format!("host.cofferdam.internal:{}", origin.port);
    let commands: Vec<&str> = done
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("  open with: cofferdam allow "))
        .collect();
    for rule in [
        "nowhere.test",
        "203.0.113.9:22",
        "api.anthropic.com:25",
        &own,
    ] {
        assert!(commands.contains(&rule), "{rule}: {commands:?}");
    }
    assert_eq!(commands.len(), 4, "{commands:?}");

    let table = environment
        .cofferdam(&["net", "log", "one", "--refused"])
        .expect_code(0)
        .stdout;
    for (what, why) in [
        ("nowhere.test (lookup)", "no rule names nowhere.test"),
        ("203.0.113.9:22", "cofferdam allow 203.0.113.9:22"),
        ("169.254.169.254:80", "metadata"),
        (own.as_str(), "cofferdam allow host.cofferdam.internal:"),
        (
            "api.anthropic.com:25",
            "cofferdam allow api.anthropic.com:25",
        ),
    ] {
        let found = |line: &&str| line.contains(what) && line.contains(why);
        assert!(
            table.lines().any(|line| found(&line)),
            "{what}: {why}\n{table}"
        );
    }
    let refused = |name: &str| {
        let all = entries(&environment, name);
        let refused = all.into_iter().filter(|one| one["verdict"] == "refused");
        refused.collect::<Vec<Value>>()
    };
    assert!(refused("one").len() >= 5);

    let done = run(&["--json"], "two");
    let last: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
    let said = last["report"]["refused"].as_array().unwrap();
    let named = |what: &str| {
        said.iter()
            .any(|one| one["what"].as_str().unwrap().contains(what))
    };
    assert!(named("nowhere.test") && named("203.0.113.9:22"), "{last}");
}

/// Every opened connection is in the log with its rule and its bytes.
// covers: S1-25 S1-72 S3-55
#[test]
fn what_a_flag_names_is_reached_and_logged() {
    let environment = closed();
    let (origin, other) = (Origin::new(), Origin::new());
    let body = format!(
        "ask $HOST $PORT || exit 10\nask $HOST {} && exit 11\nask 127.0.0.1 $PORT && exit 12\n:",
        other.port
    );
    let done = Running::start(
        &environment,
        "one",
        &["--allow", &origin.rule()],
        &script(&origin, &body),
    )
    .finish()
    .expect_code(0);
    assert!(done.stderr.contains("hello"), "{done}");
    assert_eq!((origin.greeted(), other.greeted()), (1, 0));
    let log = entries(&environment, "one");
    let opened = log
        .iter()
        .find(|one| one["event"] == "connect" && one["verdict"] == "allowed")
        .unwrap();
    assert_eq!(opened["rule"], origin.rule());
    assert_eq!(opened["port"], origin.port);
    let closed = log.iter().find(|one| one["event"] == "close").unwrap();
    assert_eq!(
        (&closed["sent"], &closed["received"]),
        (&0.into(), &6.into())
    );
}

/// Programs that ask for one family of addresses, and for both, and with the flag that leaves out families without a
/// configured address.
#[test]
fn names_are_found_whatever_family_is_asked_for() {
    let environment = closed();
    let origin = Origin::new();
    let body = r#"
getent ahostsv4 $HOST >/dev/null || exit 10
getent ahosts $HOST >/dev/null || exit 11
getent ahostsv4 nowhere.test && exit 12
for way in -4 ''; do
    curl --http0.9 -sS -m 4 $way http://$HOST:$PORT/ | head -1 | grep hello || exit 13
done
/usr/bin/python3 - $HOST $PORT <<'END' || exit 14
import socket, sys
host, port = sys.argv[1], int(sys.argv[2])
for family in (socket.AF_INET, socket.AF_UNSPEC):
    for flags in (0, socket.AI_ADDRCONFIG):
        assert socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, flags), (family, flags)
for listen, family in (("::1", socket.AF_INET6), ("127.0.0.1", socket.AF_INET)):
    server = socket.create_server((listen, 0), family=family)
    to = socket.getaddrinfo(listen, server.getsockname()[1], 0, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
    socket.create_connection(to[0][4][:2]).close()
assert socket.create_connection((host, port)).recv(6) == b"hello\n"
END
curl -sS -m 10 "http://[::1]:9/"
# It could not connect; what takes too long ends with 28.
test $? = 7 || exit 15
"#;
    let options = ["--allow", &origin.rule()];
    Running::start(&environment, "one", &options, &script(&origin, body))
        .finish()
        .expect_code(0);
    assert_eq!(origin.greeted(), 3);
}

/// Not even the names of the built-in list, once the user has a list of their own.
// covers: S1-75
#[test]
fn an_empty_list_opens_nothing() {
    let environment = TestEnvironment::with_repository();
    let built_in = environment
        .cofferdam(&["net", "rules", "--json"])
        .expect_code(0);
    let listing: Value = serde_json::from_str(&built_in.stdout).unwrap();
    let names: Vec<&str> = listing["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["rule"].as_str().unwrap().split(':').next().unwrap())
        .collect();
    assert!(names.len() > 36, "{names:?}");
    write_config(&environment, "firewall: {allow: []}\n");
    let origin = Origin::new();
    let body = format!(
        "for name in {}; do look_up $name && exit 10; done\n:",
        names.join(" ")
    );
    Running::start(&environment, "one", &[], &script(&origin, &body))
        .finish()
        .expect_code(0);
    write_config(&environment, "{}\n");
    let body = format!(
        "for name in {}; do look_up $name || exit 10; done\n:",
        names.join(" ")
    );
    Running::start(&environment, "two", &[], &script(&origin, &body))
        .finish()
        .expect_code(0);
}

/// A server of the agent on all its addresses: it reaches that itself, and nobody else does.
// covers: S3-57 S3-96
#[test]
fn nothing_comes_in() {
    let environment = closed();
    let origin = Origin::new();
    // Free on this machine a moment ago.
    let port = Origin::unused_port();
    let body = format!(
        r#"
perl -MIO::Socket::INET -e '
    my $server = IO::Socket::INET->new(LocalAddr => "0.0.0.0:{port}", Listen => 5) or die "$!";
    while (my $client = $server->accept) {{ print $client "inside\n" }}' &
until_ok ask 127.0.0.1 {port} || exit 10
touch ready; until_file go"#
    );
    let mut run = Running::start(&environment, "one", &["--head"], &script(&origin, &body));
    run.wait_for("ready");
    let found = std::net::TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, port));
    assert!(found.is_err(), "{found:?}");
    run.tell("go");
    let done = run.finish().expect_code(0);
    assert!(done.stderr.contains("inside"), "{done}");
}

#[test]
fn without_a_network_and_without_a_wall() {
    let environment = closed();
    let origin = Origin::new();
    let body = "ask $HOST $PORT && exit 10\nask 127.0.0.1 $PORT && exit 11\nask 203.0.113.9 22 && exit 12\n:";
    let none = Running::start(
        &environment,
        "none",
        &["--network", "none"],
        &script(&origin, body),
    );
    let done = none.finish().expect_code(0);
    assert!(!done.stdout.contains("refused:"), "{done}");
    assert_eq!(origin.greeted(), 0);
    let body = "ask 127.0.0.1 $PORT || exit 10";
    let open = Running::start(
        &environment,
        "open",
        &["--network", "open"],
        &script(&origin, body),
    );
    let done = open.finish().expect_code(0);
    assert_eq!(origin.greeted(), 1);
    assert!(
        done.stderr.contains("this machine's own network")
            && done.stderr.contains("nothing is logged"),
        "{done}"
    );
    for (name, said) in [
        ("none", "it reaches nothing"),
        ("open", "it reaches everything"),
    ] {
        let done = environment.cofferdam(&["net", "log", name]).expect_code(0);
        let flag = format!("sandbox {name} was started with `--network {name}`: {said}");
        assert!(
            done.stdout.is_empty() && done.stderr.starts_with(&flag),
            "{done}"
        );
        let log = entries(&environment, name);
        assert_eq!(
            (log.len(), &log[0]["network"]),
            (1, &name.into()),
            "{log:?}"
        );
    }
}

/// Not what an older sandbox with a wall did.
#[test]
fn the_newest_sandbox_without_a_wall_has_no_other_ones_log() {
    let environment = closed();
    let origin = Origin::new();
    for (name, options) in [("walled", &[][..]), ("open", &["--network", "open"])] {
        Running::start(
            &environment,
            name,
            options,
            &script(&origin, "look_up a.test; :"),
        )
        .finish()
        .expect_code(0);
    }
    for follow in [&[][..], &["--follow"], &["--refused"]] {
        let done = environment.cofferdam(&[&["net", "log"], follow].concat());
        let done = done.expect_code(0);
        assert!(
            done.stdout.is_empty() && done.stderr.starts_with("sandbox open was started with"),
            "{done}"
        );
    }
    let done = environment
        .cofferdam(&["net", "log", "walled"])
        .expect_code(0);
    assert!(done.stdout.contains("a.test (lookup)"), "{done}");
}

/// One gateway carries both, each by its own rules.
#[test]
fn two_runs_at_once_have_a_gateway_in_common_and_rules_of_their_own() {
    let environment = closed();
    let other = other_repository(&environment);
    let (first, second) = (Origin::new(), Origin::new());
    let script = |own: &Origin, others: &Origin| {
        let body = format!(
            "touch ready; until_file go || exit 9\n\
             ask $HOST $PORT || exit 10\nask $HOST {} && exit 11\n:",
            others.port
        );
        script(own, &body)
    };
    let mut one = Running::start(
        &environment,
        "one",
        &["--head", "--allow", &first.rule()],
        &script(&first, &second),
    );
    one.wait_for("ready");
    let carried_by = gateway(&environment);
    let mut two = Running::start_in(
        &environment,
        &other,
        "two",
        &["--head", "--allow", &second.rule()],
        &script(&second, &first),
    );
    two.wait_for("ready");
    assert_eq!(gateway(&environment), carried_by);
    let doctor = environment.cofferdam(&["doctor"]).stdout;
    let said = format!("process {}, 2 sandboxes", carried_by.as_raw_nonzero());
    assert!(doctor.contains(&said), "{doctor}");
    one.tell("go");
    two.tell("go");
    one.finish().expect_code(0);
    two.finish().expect_code(0);
    assert_eq!((first.greeted(), second.greeted()), (1, 1));
}
