//! Rules that mean nothing, at the command line and in `config.yaml`.

use std::fmt::Write as _;

use cofferdam_lab::sample::Sample;

use super::world::{Origin, Running, closed, script, state, write_config};
use crate::environment::TestEnvironment;

/// A target as someone may write it, and what is said of it.
const BAD: &[(&str, &str)] = &[
    ("https://a.test/x", "bare name"),
    ("a..test", "empty label"),
    (".a.test", "empty label"),
    ("a.test; rm -rf ~", ""),
    ("$(id).test", ""),
    ("a.test`id`", ""),
    ("a\u{202e}.test", "ASCII"),
    ("аpple.test", "ASCII"),
    ("a b.test", ""),
    ("*", ""),
    ("*.*.test", ""),
    ("a.*.test", ""),
    ("10.0.0.0/33", ""),
    ("10.0.0.300", ""),
    ("10.0.0.1/8", ""),
    ("::/0", "too wide"),
    ("", ""),
];

fn long() -> String {
    format!("{}.test", "a".repeat(300))
}

// covers: S1-26
#[test]
fn a_bad_rule_of_the_command_line_is_named_and_nothing_starts() {
    let environment = closed();
    let long = long();
    let ports = [
        ("a.test:0", "ports are 1 to 65535"),
        ("a.test:70000", "ports are 1 to 65535"),
        ("a.test:-1", ""),
        ("a.test:", ""),
        (long.as_str(), ""),
    ];
    for (rule, said) in BAD.iter().chain(&ports) {
        for arguments in [
            &["run", "--head", "--allow", rule, "--", "touch", "started"][..],
            &["allow", "--", rule],
        ] {
            let done = environment.cofferdam(arguments).expect_code(2);
            assert!(
                done.stderr.contains(said)
                    && !done.stderr.contains('\u{202e}')
                    && done.stdout.is_empty(),
                "{rule}: {done}"
            );
            assert!(done.stderr.len() < 2000, "{done}");
        }
    }
    assert!(!environment.repository().join("started").exists());
    assert_eq!(environment.cofferdam(&["net", "rules"]).stdout, "");
}

/// The file, the line, the field; no rule of the file counts, and those of others do.
#[test]
fn a_bad_rule_of_the_config_is_named_with_its_place() {
    let environment = TestEnvironment::with_repository();
    environment
        .cofferdam(&["allow", "kept.test"])
        .expect_code(0);
    let long = long();
    let entries = BAD
        .iter()
        .map(|(target, said)| {
            let key = if target.starts_with(|c: char| c.is_ascii_digit() || c == ':') {
                "cidr"
            } else {
                "domain"
            };
            (
                format!("{{{key}: {}}}", serde_json::Value::from(*target)),
                *said,
                key,
            )
        })
        .chain([
            (format!("{{domain: {long}}}"), "", "domain"),
            (r#"{domain: "a\0.test"}"#.to_owned(), "", "domain"),
            ("{domain: a.test, ports: [0]}".to_owned(), "", "ports"),
            ("{domain: a.test, ports: [70000]}".to_owned(), "", "ports"),
            ("{domain: a.test, ports: [x]}".to_owned(), "", "ports"),
            ("{domain: a.test, ports: 443}".to_owned(), "", "ports"),
            ("{domain: a.test, port: 443}".to_owned(), "", "port"),
            ("{domain: a.test, cidr: 10.0.0.1}".to_owned(), "", ""),
            ("{ports: [443]}".to_owned(), "", ""),
            ("7".to_owned(), "", ""),
        ]);
    for (entry, said, field) in entries {
        write_config(
            &environment,
            &format!("firewall:\n  allow:\n    - domain: fine.test\n    - {entry}\n"),
        );
        let done = environment.cofferdam(&["net", "rules"]).expect_code(1);
        assert!(
            done.stderr.contains("/config.yaml:4:")
                && done.stderr.contains("firewall.allow[1]")
                && done.stderr.contains(field)
                && done.stderr.contains(said),
            "{entry}: {done}"
        );
        assert!(!done.stderr.contains('\u{202e}'), "{done}");
        assert!(
            done.stdout.contains("kept.test") && !done.stdout.contains("fine.test"),
            "{entry}: {done}"
        );
    }
}

#[test]
fn a_rule_twice_counts_once_and_contradicting_ones_not_at_all() {
    let environment = TestEnvironment::with_repository();
    let origin = Origin::new();
    let port = origin.port;
    write_config(
        &environment,
        &format!(
            "firewall:\n  allow:\n\
             \x20   - {{domain: host.cofferdam.internal, ports: [{port}]}}\n\
             \x20   - {{domain: host.cofferdam.internal, ports: [{port}]}}\n"
        ),
    );
    let done = Running::start(
        &environment,
        "one",
        &["--allow", "a.test:9 tls"],
        &script(
            &origin,
            "ask $HOST $PORT || exit 10\nlook_up a.test || exit 11",
        ),
    );
    done.finish().expect_code(0);
    environment
        .cofferdam(&["allow", "a.test:9", "plain"])
        .expect_code(0);
    let done = Running::start(
        &environment,
        "two",
        &["--allow", "a.test:9 tls"],
        &script(
            &origin,
            "ask $HOST $PORT || exit 10\nlook_up a.test && exit 11\n:",
        ),
    );
    let done = done.finish().expect_code(0);
    assert!(done.stderr.contains("disagree about port 9"), "{done}");
}

/// Many rules are as good as few.
#[test]
fn very_many_rules() {
    let is_whole = Sample::new("very many rules").is_everything();
    let rules = if is_whole { 100_000 } else { 20_000 };
    let environment = closed();
    let origin = Origin::new();
    environment
        .cofferdam(&["allow", "--global", &origin.rule()])
        .expect_code(0);
    let file = state(&environment).join("allowed/global");
    let mut text = std::fs::read_to_string(&file).unwrap();
    for n in 1..rules {
        writeln!(text, "h{n}.test").unwrap();
    }
    cofferdam::fsx::write_private(&file, text.as_bytes()).unwrap();
    let body = format!(
        "ask $HOST $PORT || exit 10\nlook_up h{}.test || exit 11\nlook_up h{rules}.test && exit 12\n:",
        rules - 1
    );
    Running::start(&environment, "one", &[], &script(&origin, &body))
        .finish()
        .expect_code(0);

    std::fs::remove_file(&file).unwrap();
    let mut config = "firewall:\n  allow:\n".to_owned();
    for n in 0..rules {
        writeln!(config, "  - domain: h{n}.test").unwrap();
    }
    write_config(&environment, &config);
    let listed = environment.cofferdam(&["net", "rules"]).expect_code(0);
    assert_eq!(listed.stdout.lines().count(), rules + 1);
    // One of them is bad.
    config.push_str("  - domain: a..test\n");
    write_config(&environment, &config);
    let listed = environment.cofferdam(&["net", "rules"]).expect_code(1);
    assert!(
        listed
            .stderr
            .contains(&format!("/config.yaml:{}:", rules + 3))
            && listed.stdout.is_empty(),
        "{listed}"
    );
}
