//! What is refused is said while the run goes on: once, safe to show, and not without end.

use serde_json::Value;

use super::world::{LIMIT, Origin, Running, closed, entries, run_arguments, script, until};

const TRIES: &str = r#"
ask nowhere.test 443 && exit 10
ask nowhere.test 443 && exit 11
ask "$HOST" "$PORT" && exit 12
touch ready
until_ok ask "$HOST" "$PORT"
"#;

#[test]
fn each_refused_destination_is_said_once_and_at_once_with_its_command() {
    let environment = closed();
    let origin = Origin::new();
    let mut run = Running::start(
        &environment,
        "one",
        &["--head", "--log", "run.log"],
        &script(&origin, TRIES),
    );
    run.wait_for("ready");
    let log = environment.repository().join("run.log");
    let host = format!("refused: {}: no rule names", origin.rule());
    until("the log says what was refused", LIMIT, || {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        said.contains("refused: nowhere.test: no rule names nowhere.test\n") && said.contains(&host)
    });
    // The command as it is printed opens it, for this very run.
    let command = format!("cofferdam allow {}", origin.rule());
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    environment.cofferdam(&arguments).expect_code(0);
    let done = run.finish().expect_code(0);
    let said = |what: &str| {
        let lines = done.stderr.lines();
        lines.filter(|line| *line == what).count()
    };
    let nowhere = "note: refused: nowhere.test: no rule names nowhere.test; open with: cofferdam allow nowhere.test";
    assert_eq!(said(nowhere), 1, "{done}");
    let host = format!(
        "note: refused: {}: no rule names host.cofferdam.internal; open with: {command}",
        origin.rule()
    );
    assert_eq!(said(&host), 1, "{done}");
    assert_eq!(done.stderr.matches("note: refused:").count(), 2, "{done}");
}

#[test]
fn refusals_are_events_of_their_own() {
    let environment = closed();
    let origin = Origin::new();
    let body = "ask nowhere.test 443\nask 203.0.113.9 22\nask 203.0.113.9 22\n:";
    let arguments = run_arguments("one", &["--json"], &script(&origin, body));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = environment.cofferdam(&arguments).expect_code(0);
    let lines = done.stdout.lines();
    let events: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let refused: Vec<_> = events
        .iter()
        .filter(|one| one["event"] == "refused")
        .collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert_eq!(refused[0]["what"], "nowhere.test");
    assert_eq!(refused[0]["opens"], "nowhere.test");
    assert_eq!(refused[1]["what"], "203.0.113.9:22");
    let reason = refused[1]["reason"].as_str().unwrap();
    assert!(reason.contains("no rule names the address"), "{reason}");
}

/// A program that asks for ever new names does not drown what its user should see.
#[test]
fn there_is_an_end_to_what_is_said() {
    let environment = closed();
    let origin = Origin::new();
    let body = "for n in $(seq 60); do look_up n$n.test; done\n:";
    let done = Running::start(&environment, "one", &[], &script(&origin, body))
        .finish()
        .expect_code(0);
    assert_eq!(
        done.stderr.matches("note: refused: n").count(),
        20,
        "{done}"
    );
    assert_eq!(
        done.stderr.matches("more than 20 destinations").count(),
        1,
        "{done}"
    );
    let refused = environment
        .cofferdam(&["net", "log", "one", "--refused"])
        .expect_code(0);
    assert_eq!(
        refused.stdout.matches(".test (lookup)").count(),
        60,
        "{refused}"
    );
}

/// Programs ask for both families of addresses, and some ask again over TCP.
#[test]
fn a_lookup_is_in_the_log_once() {
    let environment = closed();
    let origin = Origin::new();
    let body = "getent ahosts both.test\n\
                perl -MSocket=:all -e '\
                  my $q = pack(\"n6\", 7, 0x100, 1, 0, 0, 0) . \"\\x04both\\x04test\\0\" . pack(\"nn\", 1, 1);\
                  for my $kind (SOCK_DGRAM, SOCK_STREAM) {\
                    socket(my $s, PF_INET, $kind, 0) or die; \
                    connect($s, sockaddr_in(53, inet_aton(\"203.0.113.53\"))) or die \"connect: $!\";\
                    syswrite($s, $kind == SOCK_STREAM ? pack(\"n\", length $q) . $q : $q);\
                    sysread($s, my $answer, 512) or die \"no answer\"; \
                  }' || exit 10\n:";
    let done = Running::start(&environment, "one", &[], &script(&origin, body))
        .finish()
        .expect_code(0);
    let log = entries(&environment, "one");
    let lookups: Vec<_> = log.iter().filter(|one| one["event"] == "lookup").collect();
    // Once within 2 s: on a busy machine one of them may come later.
    let at = |one: &Value| -> jiff::Timestamp { one["at"].as_str().unwrap().parse().unwrap() };
    let apart = |two: &[&Value]| at(two[1]).duration_since(at(two[0])).as_millis() > 1900;
    assert!(lookups.windows(2).all(apart), "{lookups:?}\n{done}");
    assert_eq!(lookups[0]["name"], "both.test");
    assert_eq!(lookups[0]["verdict"], "refused");
}
