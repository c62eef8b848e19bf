//! Rules that change while sandboxes are at work.

use std::process::Stdio;
use std::time::Duration;

use super::world::{
    LIMIT, Origin, Running, closed, entries, other_repository, script, state, until, write_config,
};
use crate::environment::{Done, TestEnvironment, finish};

/// What a removed rule had opened is closed by then.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

const TRIES_UNTIL_IT_WORKS: &str =
    "ask $HOST $PORT && exit 10\ntouch ready\nuntil_ok ask $HOST $PORT";

#[test]
fn what_is_allowed_while_a_run_goes_on_is_open_at_once() {
    let environment = closed();
    let origin = Origin::new();
    let mut run = Running::start(
        &environment,
        "one",
        &["--head"],
        &script(&origin, TRIES_UNTIL_IT_WORKS),
    );
    run.wait_for("ready");
    assert_eq!(origin.greeted(), 0);
    let done = environment
        .cofferdam(&["allow", &origin.rule()])
        .expect_code(0);
    assert!(
        done.stderr.contains("in force in sandbox one")
            && done
                .stderr
                .contains("this opens a service on this machine itself"),
        "{done}"
    );
    let done = run.finish().expect_code(0);
    assert!(done.stderr.contains("hello"), "{done}");
    let verdicts: Vec<_> = entries(&environment, "one")
        .iter()
        .filter(|one| one["event"] == "lookup" || one["event"] == "connect")
        .map(|one| one["verdict"].clone())
        .collect();
    assert_eq!(verdicts.first(), Some(&"refused".into()));
    let lookup = |one: &serde_json::Value| one["event"] == "lookup" && one["verdict"] == "refused";
    assert!(!entries(&environment, "one").iter().any(lookup));
    assert_eq!(verdicts.last(), Some(&"allowed".into()));
}

/// The connection is idle when `take_back` takes its rule away.
fn closes(take_back: impl Fn(&TestEnvironment, &Origin) -> Done) {
    let environment = closed();
    let origin = Origin::new();
    let body = r#"
exec 3<>"/dev/tcp/$HOST/$PORT" || exit 10
read -r -t 20 line <&3 || exit 11
echo ping >&3; read -r -t 20 line <&3 || exit 12
touch open
read -r -t 60 line <&3
test $? -le 128 || exit 13
touch closed
ask "$HOST" "$PORT" && exit 14
:"#;
    environment
        .cofferdam(&["allow", "--global", &origin.rule()])
        .expect_code(0);
    let mut run = Running::start(&environment, "one", &["--head"], &script(&origin, body));
    run.wait_for("open");
    let done = take_back(&environment, &origin).expect_code(0);
    assert!(
        done.stderr
            .contains("in force in sandbox one; 1 connection ended by it"),
        "{done}"
    );
    let closed = environment.repository().join("closed");
    until("the connection is closed", CLOSED_WITHIN, || {
        closed.exists()
    });
    run.finish().expect_code(0);
    assert_eq!(origin.greeted(), 1);
}

#[test]
fn what_a_removed_rule_had_opened_is_closed() {
    closes(|environment, origin| {
        let file = state(environment).join("allowed/global");
        let text = std::fs::read_to_string(&file).unwrap();
        let without = text.replace(&format!("{}\n", origin.rule()), "");
        assert_ne!(text, without);
        cofferdam::fsx::write_private(&file, without.as_bytes()).unwrap();
        environment.cofferdam(&["net", "reload"])
    });
}

#[test]
fn what_is_revoked_is_closed() {
    closes(|environment, origin| environment.cofferdam(&["revoke", "--global", &origin.rule()]));
}

/// The user's own file is the source: it is read when a sandbox starts, and again when they say so.
// covers: S1-76 S1-77 S1-89
#[test]
fn what_the_config_names_is_open_on_its_ports_and_an_edit_counts_when_it_is_loaded() {
    let environment = closed();
    let (first, second) = (Origin::new(), Origin::new());
    let configure = |origin: &Origin| {
        let port = origin.port;
        write_config(
            &environment,
            &format!(
                "firewall:\n  allow:\n    - domain: host.cofferdam.internal\n      ports: [{port}]\n"
            ),
        );
    };
    configure(&first);
    let second_port = second.port;
    let body = format!(
        "ask $HOST $PORT || exit 10\nask $HOST {second_port} && exit 11\ntouch ready\n\
         until_file edited || exit 9\nask $HOST $PORT || exit 12\nask $HOST {second_port} && exit 13\n\
         touch tried\nuntil_file loaded || exit 9\nask $HOST {second_port} || exit 14\n\
         ask $HOST $PORT && exit 15\n:"
    );
    let mut run = Running::start(&environment, "one", &["--head"], &script(&first, &body));
    run.wait_for("ready");
    configure(&second);
    run.tell("edited");
    run.wait_for("tried");
    let done = environment.cofferdam(&["net", "reload"]).expect_code(0);
    assert!(done.stderr.contains("in force in sandbox one"), "{done}");
    run.tell("loaded");
    run.finish().expect_code(0);
    assert_eq!((first.greeted(), second.greeted()), (2, 1));
    // The next one begins with it.
    let body = format!("ask $HOST {second_port} || exit 10\nask $HOST $PORT && exit 11\n:");
    Running::start(&environment, "two", &[], &script(&first, &body))
        .finish()
        .expect_code(0);
}

/// Two sandboxes of one repository, and one of another.
#[test]
fn a_rule_counts_for_whom_it_was_made_and_no_longer() {
    let environment = closed();
    let other = other_repository(&environment);
    let (for_one, for_repository, for_all) = (Origin::new(), Origin::new(), Origin::new());
    let body = |reached: &str, refused: &str| {
        format!(
            "touch ready; until_file go || exit 9\n\
             for port in {reached}; do ask $HOST $port || exit 10; done\n\
             for port in {refused}; do ask $HOST $port && exit 11; done\n:"
        )
    };
    let [one, repository, all] = [&for_one, &for_repository, &for_all].map(|origin| origin.port);
    let mut first = Running::start(
        &environment,
        "one",
        &["--head"],
        &script(&for_one, &body(&format!("{one} {repository} {all}"), "")),
    );
    first.wait_for("ready");
    // In a worktree of its own; it waits for what it can see there: the rule for everybody.
    let waits = format!(
        "until_ok ask $HOST {all} || exit 9\n\
         ask $HOST {repository} || exit 10\nask $HOST {one} && exit 11\n:"
    );
    let second = Running::start(
        &environment,
        "two",
        &["--branch", "two"],
        &script(&for_one, &waits),
    );
    let mut third = Running::start_in(
        &environment,
        &other,
        "three",
        &["--head"],
        &script(
            &for_one,
            &body(&all.to_string(), &format!("{one} {repository}")),
        ),
    );
    third.wait_for("ready");
    environment
        .cofferdam(&["allow", "--sandbox", "one", &for_one.rule()])
        .expect_code(0);
    environment
        .cofferdam(&["allow", &for_repository.rule()])
        .expect_code(0);
    environment
        .cofferdam(&["allow", "--global", &for_all.rule()])
        .expect_code(0);
    first.tell("go");
    third.tell("go");
    first.finish().expect_code(0);
    second.finish().expect_code(0);
    third.finish().expect_code(0);
    assert_eq!(
        (
            for_one.greeted(),
            for_repository.greeted(),
            for_all.greeted()
        ),
        (1, 2, 3)
    );

    // A later one of the same name has nothing of it.
    let body = format!("ask $HOST {repository} || exit 10\nask $HOST {one} && exit 11\n:");
    Running::start(&environment, "one", &[], &script(&for_one, &body))
        .finish()
        .expect_code(0);
    for command in [
        &["net", "rules", "--sandbox", "one"][..],
        &["allow", "--sandbox", "one", "a.test"],
    ] {
        let done = environment.cofferdam(command).expect_code(1);
        assert!(done.stderr.contains("cofferdam list"), "{done}");
    }
}

#[test]
fn changes_at_once_are_all_in_force() {
    let environment = closed();
    let origin = Origin::new();
    let body = "touch ready\nfor n in 0 1 2 3; do until_ok look_up h$n.test || exit 10; done";
    let mut run = Running::start(&environment, "one", &["--head"], &script(&origin, body));
    run.wait_for("ready");
    let children: Vec<_> = (0..4)
        .map(|n| {
            environment
                .command(&["allow", &format!("h{n}.test:443")])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let done = finish(child).expect_code(0);
        assert!(done.stderr.contains("in force in sandbox one"), "{done}");
    }
    run.finish().expect_code(0);
}

// covers: S1-92
#[test]
fn a_config_that_breaks_while_a_run_goes_on_changes_nothing() {
    let environment = closed();
    let origin = Origin::new();
    let body = "touch ready; until_file go || exit 9\nask $HOST $PORT || exit 10";
    let mut run = Running::start(
        &environment,
        "one",
        &["--head", "--allow", &origin.rule()],
        &script(&origin, body),
    );
    run.wait_for("ready");
    write_config(&environment, "firewall: {allow: [}\n");
    let done = environment.cofferdam(&["net", "reload"]).expect_code(1);
    assert!(
        done.stderr.contains("config.yaml:1:")
            && done.stderr.contains("keeps the rules that it had"),
        "{done}"
    );
    run.tell("go");
    run.finish().expect_code(0);
}

// covers: S1-90 S1-91
#[test]
fn a_reload_that_changes_nothing_disturbs_nothing() {
    let environment = closed();
    let origin = Origin::new();
    let body = r#"
exec 3<>"/dev/tcp/$HOST/$PORT" || exit 10
read -r -t 20 line <&3 || exit 11
touch open; until_file go || exit 9
echo ping >&3; read -r -t 20 line <&3 && test "$line" = ping"#;
    let mut run = Running::start(
        &environment,
        "one",
        &["--head", "--allow", &origin.rule()],
        &script(&origin, body),
    );
    run.wait_for("open");
    for _ in 0..2 {
        let done = environment.cofferdam(&["net", "reload"]).expect_code(0);
        // What takes long says so first.
        let last = done.stderr.lines().last();
        assert_eq!(last, Some("in force in sandbox one"), "{done}");
    }
    let reloads = || {
        let log = entries(&environment, "one");
        log.iter().filter(|one| one["event"] == "rules").count()
    };
    assert_eq!(reloads(), 0);
    // It would be told where something had changed.
    environment.cofferdam(&["allow", "a.test"]).expect_code(0);
    until("the change is in the log", LIMIT, || reloads() == 1);
    run.tell("go");
    run.finish().expect_code(0);
    assert_eq!(origin.greeted(), 1);
}
