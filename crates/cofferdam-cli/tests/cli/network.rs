//! `cofferdam allow` and `cofferdam net`, as far as no sandbox has to be at work for them.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use cofferdam::fsx;

use crate::environment::{TestEnvironment, check};

const EMPTY: &str = "firewall:\n  allow: []\n";

fn with_config(text: &str) -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    let home = state(&environment);
    fsx::private_dir(&home).unwrap();
    fsx::write_private(&home.join("config.yaml"), text.as_bytes()).unwrap();
    environment
}

fn state(environment: &TestEnvironment) -> PathBuf {
    environment.home().join(".cofferdam")
}

/// A log of a sandbox `one` of this repository, with these lines after its first.
fn with_log(lines: &str) -> TestEnvironment {
    let environment = with_config(EMPTY);
    let logs = state(&environment).join("net");
    fsx::private_dir(&logs).unwrap();
    let repository = environment.repository().canonicalize().unwrap();
    let first = serde_json::json!({
        "at": "2026-03-01T10:00:00Z",
        "event": "sandbox",
        "name": "one",
        "repository": repository.to_str().unwrap(),
    });
    let text = format!("{first}\n{lines}");
    fsx::write_private(
        &logs.join(format!("{}.jsonl", "1".repeat(32))),
        text.as_bytes(),
    )
    .unwrap();
    environment
}

const TRAFFIC: &str = r#"{"at":"2026-03-01T10:00:01Z","event":"lookup","verdict":"allowed","name":"api.test","rule":"api.test:443","origin":"global"}
{"at":"2026-03-01T10:00:02Z","event":"connect","verdict":"allowed","id":7,"name":"api.test","address":"203.0.113.5","port":443,"protocol":"tcp","via":"transparent","rule":"api.test:443","origin":"global"}
{"at":"2026-03-01T10:00:03Z","event":"connect","verdict":"refused","name":"files.test","port":443,"reason":"no rule names files.test","opens":"files.test:443"}
{"at":"2026-03-01T10:00:04Z","event":"packet","verdict":"refused","address":"203.0.113.9","port":123,"protocol":"udp","reason":"udp is refused","count":4}
{"at":"2026-03-01T10:00:05Z","event":"connect","verdict":"refused","name":"evil\u001b[2J\u202e.test","port":80,"reason":"no \u009brule"}
{"at":"2026-03-01T10:00:06Z","event":"connect","verdict":"refused","name":"files.test","port":443,"reason":"no rule names files.test","opens":"files.test:443"}
{"at":"2026-03-01T10:00:09Z","event":"close","id":7,"name":"api.test","port":443,"sent":1234,"received":5678901,"millis":7000}
{"at":"2026-03-01T10:00:10Z","event":"conn"#;

#[test]
fn the_log_of_a_sandbox_that_is_gone() {
    let environment = with_log(TRAFFIC);
    let done = environment.cofferdam(&["net", "log", "one"]);
    check!(environment, done, @r"
    code: 0
    --- stdout
    TIME (UTC)           VERDICT  WHAT                           SENT   RECEIVED   COUNT  WHY
    2026-03-01 10:00:01  allowed  api.test (lookup)              -      -          1      api.test:443 (global config)
    2026-03-01 10:00:02  allowed  api.test:443                   1,234  5,678,901  1      api.test:443 (global config)
    2026-03-01 10:00:03  refused  files.test:443                 -      -          1      no rule names files.test; open with: cofferdam allow files.test:443
    2026-03-01 10:00:04  refused  203.0.113.9:123 udp            -      -          4      udp is refused
    2026-03-01 10:00:05  refused  evil\u{1b}[2J\u{202e}.test:80  -      -          1      no \u{9b}rule
    2026-03-01 10:00:06  refused  files.test:443                 -      -          1      no rule names files.test; open with: cofferdam allow files.test:443
    --- stderr
    ");
    let done = environment.cofferdam(&["net", "log", "--refused"]);
    check!(environment, done, @r"
    code: 0
    --- stdout
    TIME (UTC)           VERDICT  WHAT                           SENT  RECEIVED  COUNT  WHY
    2026-03-01 10:00:04  refused  203.0.113.9:123 udp            -     -         4      udp is refused
    2026-03-01 10:00:05  refused  evil\u{1b}[2J\u{202e}.test:80  -     -         1      no \u{9b}rule
    2026-03-01 10:00:06  refused  files.test:443                 -     -         2      no rule names files.test; open with: cofferdam allow files.test:443
    --- stderr
    the network log of sandbox one
    ");
    let done = environment.cofferdam(&["net", "log", "one", "--follow"]);
    check!(environment, done, @r"
    code: 0
    --- stdout
    2026-03-01 10:00:01  allowed   api.test (lookup)  api.test:443 (global config)
    2026-03-01 10:00:02  allowed   api.test:443  api.test:443 (global config)
    2026-03-01 10:00:03  refused   files.test:443  no rule names files.test; open with: cofferdam allow files.test:443
    2026-03-01 10:00:04  refused   203.0.113.9:123 udp  4 times  udp is refused
    2026-03-01 10:00:05  refused   evil\u{1b}[2J\u{202e}.test:80  no \u{9b}rule
    2026-03-01 10:00:06  refused   files.test:443  no rule names files.test; open with: cofferdam allow files.test:443
    2026-03-01 10:00:09  closed    api.test:443  1,234 sent, 5,678,901 received
    --- stderr
    ");
}

#[test]
fn a_log_for_scripts_is_whole_and_inert() {
    let environment = with_log(TRAFFIC);
    let done = environment
        .cofferdam(&["net", "log", "one", "--json"])
        .expect_code(0);
    let entries: Vec<serde_json::Value> = done
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(entries.len(), 8, "{done}");
    assert_eq!(entries[5]["name"], "evil\u{1b}[2J\u{202e}.test");
    assert!(
        !done.stdout.contains(['\u{1b}', '\u{9b}', '\u{202e}']),
        "{done}"
    );
    let done = environment
        .cofferdam(&["net", "log", "one", "--json", "--refused"])
        .expect_code(0);
    assert_eq!(done.stdout.lines().count(), 4, "{done}");
}

#[test]
fn no_log() {
    let environment = with_log("");
    let done = environment.cofferdam(&["net", "log", "nobody"]);
    check!(environment, done, @"
    code: 1
    --- stdout
    --- stderr
    error: there is no network log of a sandbox `nobody` in [PLACE]/repository
    hint: see which sandboxes there are with `cofferdam list`; a log is kept for 30 days after its sandbox
    ");
    let done = TestEnvironment::empty()
        .cofferdam(&["net", "log"])
        .expect_code(1);
    assert!(done.stderr.contains("is not in a git repository"), "{done}");
}

#[test]
fn rules_with_their_origins() {
    let environment = with_config("firewall:\n  allow:\n    - domain: a.test\n");
    environment
        .cofferdam(&["allow", "b.test:8443", "tls"])
        .expect_code(0);
    environment
        .cofferdam(&["allow", "--global", "10.1.0.0/16:5432"])
        .expect_code(0);
    let done = environment.cofferdam(&["net", "rules"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    RULE              FROM           FILE
    a.test:80,443     global config  [PLACE]/home/.cofferdam/config.yaml:3
    10.1.0.0/16:5432  allowed live   [PLACE]/home/.cofferdam/allowed/global:3
    b.test:8443 tls   allowed live   [PLACE]/home/.cofferdam/allowed/[HASH8]:3
    --- stderr
    ");
    let done = environment
        .cofferdam(&["net", "rules", "--json"])
        .expect_code(0);
    let listing: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(listing["rules"][2]["rule"], "b.test:8443 tls");
    assert_eq!(listing["rules"][2]["origin"], "live");
    assert_eq!(listing["problems"], serde_json::json!([]));
}

// covers: S1-35
#[test]
fn a_malformed_config_is_said_and_opens_nothing() {
    let environment = with_config("firewall:\n  allow:\n    - domain: http://a.test\n");
    environment.cofferdam(&["allow", "b.test"]).expect_code(0);
    let done = environment.cofferdam(&["net", "rules"]);
    check!(environment, done, @"
    code: 1
    --- stdout
    RULE           FROM          FILE
    b.test:80,443  allowed live  [PLACE]/home/.cofferdam/allowed/[HASH8]:3
    --- stderr
    error: [PLACE]/home/.cofferdam/config.yaml:3:15: firewall.allow[0].domain: host name `http://a.test` has the character `:`: write the bare name, without scheme, user, port or path
    mend what is wrong first (see above): until then none of its rules is in force
    ");
    let path = state(&environment).join("config.yaml");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let done = environment.cofferdam(&["net", "rules"]).expect_code(1);
    assert!(
        done.stderr.contains("others than its owner can write it"),
        "{done}"
    );
}

#[test]
fn without_any_rule() {
    let environment = with_config(EMPTY);
    let done = environment.cofferdam(&["net", "rules"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    --- stderr
    no rules: nothing is allowed; open something with `cofferdam allow NAME`
    ");
}

#[test]
fn allowing_says_for_whom_and_where_it_is_kept() {
    let environment = with_config(EMPTY);
    let done = environment.cofferdam(&["allow", "--global", "files.example.com:443"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    --- stderr
    allowed: files.example.com:443 for all your sandboxes, kept in [PLACE]/home/.cofferdam/allowed/global
    no sandbox that it concerns is running: it counts from the next start
    ");
    let done = environment.cofferdam(&["allow", "--global", "files.example.com:443"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    --- stderr
    allowed before: files.example.com:443 for all your sandboxes, kept in [PLACE]/home/.cofferdam/allowed/global
    no sandbox that it concerns is running: it counts from the next start
    ");
    let done = environment.cofferdam(&["allow", "--global", "10.1.2.3:5432"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    --- stderr
    allowed: 10.1.2.3:5432 for all your sandboxes, kept in [PLACE]/home/.cofferdam/allowed/global
    warning: this opens a private address: what is there was not made for strangers
    no sandbox that it concerns is running: it counts from the next start
    ");
    let file = state(&environment).join("allowed/global");
    assert_eq!(
        std::fs::read_to_string(file).unwrap(),
        "# for: all sandboxes\n\
         # One rule a line, kept by `cofferdam allow`. After an edit: `cofferdam net reload`.\n\
         files.example.com:443\n10.1.2.3:5432\n"
    );
    let done = environment.cofferdam(&["net", "reload"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    --- stderr
    no sandbox that it concerns is running: it counts from the next start
    ");
}

#[test]
fn allowing_needs_a_scope_and_a_rule() {
    let environment = TestEnvironment::empty();
    let done = environment.cofferdam(&["allow", "a.test"]);
    check!(environment, done, @"
    code: 2
    --- stdout
    --- stderr
    error: [PLACE]/repository is not in a git repository, and the rule is for the sandboxes of a repository
    hint: name one with `-C DIR`, or allow it for all your sandboxes with `--global`
    ");
    environment
        .cofferdam(&["allow", "--global", "a.test"])
        .expect_code(0);
    for (rule, said) in [
        (&["http://a.test/x"][..], "write the bare name"),
        (&["a.test:0"], "ports are 1 to 65535"),
        (&["a.test", "quic"], "is not one of udp, http, tls, plain"),
        (&["0.0.0.0/0"], "too wide"),
        (&["169.254.169.254:80"], "cloud metadata service"),
        (&["10.0.0.53:53", "udp"], "udp is not carried yet"),
        (&["a\u{202e}.test"], "is not ASCII"),
    ] {
        let done = environment
            .cofferdam(&[&["allow", "--global"], rule].concat())
            .expect_code(2);
        assert!(
            done.stderr.contains(said) && done.stderr.is_ascii(),
            "{done}"
        );
    }
    environment
        .cofferdam(&["allow", "--global", "a.test:9", "tls"])
        .expect_code(0);
    let done = environment.cofferdam(&["allow", "--global", "a.test:9", "plain"]);
    check!(environment, done, @"
    code: 2
    --- stdout
    --- stderr
    error: rules `a.test:9 tls` (allowed live) and `a.test:9 plain` (allowed live) disagree about port 9: remove one
    hint: see where each rule stands with `cofferdam net rules`
    ");
    environment
        .cofferdam(&["allow", "--global", "--repo", "a.test"])
        .expect_code(2);
}

/// A program inside that asks for it reaches the sandbox itself.
#[test]
fn localhost_points_to_this_machine() {
    let environment = with_config(EMPTY);
    for (rule, meant) in [
        ("localhost:8080", "host.cofferdam.internal:8080"),
        ("127.0.0.1:8080", "host.cofferdam.internal:8080"),
        ("[::1]:8080", "host.cofferdam.internal:8080"),
        ("localhost", "host.cofferdam.internal:PORT"),
    ] {
        let done = environment.cofferdam(&["allow", rule]).expect_code(2);
        let hint = format!("hint: if this machine is meant: `cofferdam allow {meant}`\n");
        assert!(done.stderr.ends_with(&hint), "{done}");
        let done = environment.run(&["--allow", rule], "true").expect_code(2);
        let hint = format!("hint: if this machine is meant: `--allow {meant}`\n");
        assert!(done.stderr.ends_with(&hint), "{done}");
    }
    let done = environment.cofferdam(&["allow", "localhost:8080"]);
    check!(environment, done, @"
    code: 2
    --- stdout
    --- stderr
    error: `localhost` is the sandbox itself there: a service of this machine is `host.cofferdam.internal:8080`
    hint: if this machine is meant: `cofferdam allow host.cofferdam.internal:8080`
    ");
    // In a file it is an error with its place, as any other line that means nothing.
    let environment = with_config("firewall:\n  allow:\n    - domain: localhost\n");
    let done = environment.cofferdam(&["net", "rules"]).expect_code(1);
    assert!(
        done.stderr.contains("config.yaml:3:15") && done.stderr.contains("is the sandbox itself"),
        "{done}"
    );
}

#[test]
fn what_was_allowed_is_revoked() {
    let environment = with_config(EMPTY);
    for rule in ["a.test", "a.test:8443", "b.test:443"] {
        environment.cofferdam(&["allow", rule]).expect_code(0);
    }
    environment
        .cofferdam(&["allow", "--global", "b.test"])
        .expect_code(0);
    let done = environment.cofferdam(&["revoke", "a.test:8443"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    --- stderr
    revoked: a.test:8443 for sandboxes of [PLACE]/repository, no longer in [PLACE]/home/.cofferdam/allowed/[HASH8]
    no sandbox that it concerns is running: it counts from the next start
    ");
    environment.cofferdam(&["allow", "a.test:9"]).expect_code(0);
    let done = environment.cofferdam(&["revoke", "a.test"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    --- stderr
    revoked: a.test:80,443 for sandboxes of [PLACE]/repository, no longer in [PLACE]/home/.cofferdam/allowed/[HASH8]
    revoked: a.test:9 for sandboxes of [PLACE]/repository, no longer in [PLACE]/home/.cofferdam/allowed/[HASH8]
    no sandbox that it concerns is running: it counts from the next start
    ");
    let done = environment.cofferdam(&["revoke", "b.test"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    --- stderr
    revoked: b.test:443 for sandboxes of [PLACE]/repository, no longer in [PLACE]/home/.cofferdam/allowed/[HASH8]
    warning: b.test:80,443 still counts: it stands in [PLACE]/home/.cofferdam/allowed/global:3
    no sandbox that it concerns is running: it counts from the next start
    ");
    let rules = environment.cofferdam(&["net", "rules"]).expect_code(0);
    assert!(!rules.stdout.contains("a.test"), "{rules}");
    environment
        .cofferdam(&["revoke", "--global", "b.test"])
        .expect_code(0);
    let rules = environment.cofferdam(&["net", "rules"]).expect_code(0);
    assert!(rules.stderr.contains("no rules"), "{rules}");
}

/// The error names the place, and the hint works there.
#[test]
fn what_stands_elsewhere_is_not_revoked_in_silence() {
    let environment = with_config("firewall:\n  allow:\n    - domain: a.test\n");
    environment
        .cofferdam(&["allow", "--global", "b.test"])
        .expect_code(0);
    let done = environment.cofferdam(&["revoke", "a.test"]);
    check!(environment, done, @"
    code: 1
    --- stdout
    --- stderr
    error: `a.test:80,443` is not among the rules for sandboxes of [PLACE]/repository: it stands in [PLACE]/home/.cofferdam/config.yaml:3
    hint: take it out of [PLACE]/home/.cofferdam/config.yaml, then `cofferdam net reload`
    ");
    let done = environment.cofferdam(&["revoke", "b.test"]);
    check!(environment, done, @"
    code: 1
    --- stdout
    --- stderr
    error: `b.test:80,443` is not among the rules for sandboxes of [PLACE]/repository: it stands in [PLACE]/home/.cofferdam/allowed/global:3
    hint: `cofferdam revoke --global b.test:80,443`
    ");
    environment
        .cofferdam(&["revoke", "--global", "b.test:80,443"])
        .expect_code(0);
    let done = environment.cofferdam(&["revoke", "a.test:9"]);
    check!(environment, done, @"
    code: 1
    --- stdout
    --- stderr
    error: no rule is `a.test:9`; `a.test:80,443` stands in [PLACE]/home/.cofferdam/config.yaml:3
    hint: take it out of [PLACE]/home/.cofferdam/config.yaml, then `cofferdam net reload`
    ");
    let done = environment.cofferdam(&["revoke", "c.test"]);
    check!(environment, done, @"
    code: 1
    --- stdout
    --- stderr
    error: no rule for sandboxes of [PLACE]/repository is `c.test`
    hint: see which there are with `cofferdam net rules`; those of one sandbox with `--sandbox NAME`
    ");
    let done = environment
        .cofferdam(&["revoke", "http://a.test"])
        .expect_code(2);
    assert!(done.stderr.contains("cofferdam revoke --help"), "{done}");
}

#[test]
fn changes_at_the_same_time_are_all_kept() {
    let environment = with_config(EMPTY);
    let children: Vec<_> = (0..8)
        .map(|n| {
            environment
                .command(&["allow", "--global", &format!("h{n}.test:443")])
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        crate::environment::finish(child).expect_code(0);
    }
    let done = environment.cofferdam(&["net", "rules"]).expect_code(0);
    for n in 0..8 {
        assert!(done.stdout.contains(&format!("h{n}.test:443")), "{done}");
    }
}

#[test]
fn run_refuses_rules_that_mean_nothing() {
    let environment = with_config(EMPTY);
    for (options, said) in [
        (&["--allow", "http://a.test"][..], "write the bare name"),
        (&["--allow", "10.0.0.53:53 udp"], "udp is not carried yet"),
        (
            &["--allow", "a.test:9 tls", "--allow", "a.test:9 plain"],
            "disagree about port 9",
        ),
        (
            &["--network", "none", "--allow", "a.test"],
            "is for `--network allowlist` only",
        ),
        (
            &["--network", "all"],
            "possible values: none, allowlist, open",
        ),
    ] {
        let done = environment.run(options, "true").expect_code(2);
        assert!(done.stderr.contains(said), "{done}");
    }
    environment
        .run(&["--network", "none"], "true")
        .expect_code(0);
}

#[test]
fn the_log_of_a_run_that_asked_for_nothing_says_so() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(&["--network", "allowlist", "--name", "one"], "true")
        .expect_code(0);
    let done = environment.cofferdam(&["net", "log"]).expect_code(0);
    assert_eq!(done.stdout, "", "{done}");
    let said = "the network log of sandbox one\nit has asked for nothing\n";
    assert_eq!(done.stderr, said, "{done}");
    let done = environment
        .cofferdam(&["net", "log", "one", "--refused"])
        .expect_code(0);
    assert_eq!(done.stderr, "nothing was refused\n", "{done}");
    let done = environment
        .cofferdam(&["net", "log", "--json"])
        .expect_code(0);
    assert_eq!(done.stderr, "", "{done}");
}
