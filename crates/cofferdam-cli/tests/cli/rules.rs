//! What a newcomer writes where a rule or a destination is wanted, and what they are told.

use std::fmt::Write as _;

use cofferdam::fsx;

use crate::environment::{TestEnvironment, check};

fn with_config(text: &str) -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    let home = environment.home().join(".cofferdam");
    fsx::private_dir(&home).unwrap();
    fsx::write_private(&home.join("config.yaml"), text.as_bytes()).unwrap();
    environment
}

fn empty() -> TestEnvironment {
    with_config("firewall:\n  allow: []\n")
}

fn rules(environment: &TestEnvironment) -> Vec<String> {
    let done = environment
        .cofferdam(&["net", "rules", "--json"])
        .expect_code(0);
    let listing: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let rules = listing["rules"].as_array().unwrap().iter();
    rules
        .map(|rule| rule["rule"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn several_rules_are_allowed_and_revoked_together() {
    let environment = empty();
    let some = ["a.test", "b.test:8443", "tls", "10.1.0.0/16:5432"];
    let done = environment.cofferdam(&[&["allow"], &some[..]].concat());
    check!(environment, done, @"
    code: 0
    --- stdout
    --- stderr
    allowed: a.test:80,443 for sandboxes of [PLACE]/repository, kept in [PLACE]/home/.cofferdam/allowed/[HASH8]
    allowed: b.test:8443 tls for sandboxes of [PLACE]/repository, kept in [PLACE]/home/.cofferdam/allowed/[HASH8]
    allowed: 10.1.0.0/16:5432 for sandboxes of [PLACE]/repository, kept in [PLACE]/home/.cofferdam/allowed/[HASH8]
    warning: this opens a private address: what is there was not made for strangers
    no sandbox that it concerns is running: it counts from the next start
    ");
    let all = ["a.test:80,443", "b.test:8443 tls", "10.1.0.0/16:5432"];
    assert_eq!(rules(&environment), all);
    // All or nothing.
    for bad in [
        ["c.test", "d.test:0"],
        ["c.test", "169.254.169.254:80"],
        ["c.test", "127.0.0.1:80"],
        ["c.test:9 tls", "c.test:9 plain"],
    ] {
        environment
            .cofferdam(&[&["allow"], &bad[..]].concat())
            .expect_code(2);
        assert_eq!(rules(&environment), all, "{bad:?}");
    }
    let done = environment.cofferdam(&["revoke", "a.test", "c.test"]);
    check!(environment, done, @"
    code: 1
    --- stdout
    --- stderr
    error: no rule for sandboxes of [PLACE]/repository is `c.test`
    hint: see which there are with `cofferdam net rules`; those of one sandbox with `--sandbox NAME`
    ");
    assert_eq!(rules(&environment), all);
    environment
        .cofferdam(&["revoke", "a.test", "b.test:8443", "tls"])
        .expect_code(0);
    assert_eq!(rules(&environment), all[2..]);
}

/// A mistyped word is no name, and who means several rules sees how they are written.
#[test]
fn a_mistyped_word_opens_nothing() {
    let environment = empty();
    let done = environment.cofferdam(&["allow", "a.test", "htpp"]);
    check!(environment, done, @"
    code: 2
    --- stdout
    --- stderr
    error: `htpp` after the target is not one of udp, http, tls, plain
    hint: each rule is TARGET[:PORT,PORT] [http|tls|plain], several one after the other: `cofferdam allow a.example.com b.example.com:8443 tls`
    ");
    assert_eq!(rules(&environment), [""; 0]);
    let shown = ["allow", "a.example.com", "b.example.com:8443", "tls"];
    environment.cofferdam(&shown).expect_code(0);
    assert_eq!(rules(&environment).len(), 2);
}

#[test]
fn a_metadata_service_is_for_one_run_alone() {
    let environment = empty();
    let done = environment.cofferdam(&["allow", "169.254.169.254"]);
    check!(environment, done, @"
    code: 2
    --- stdout
    --- stderr
    error: `169.254.169.254` is a cloud metadata service: only a flag of the command that starts the sandbox opens it
    hint: what is there gives out this machine's own keys: for one run alone, give `cofferdam run` the option `--allow 169.254.169.254:80`
    ");
    environment
        .run(&["--allow", "169.254.169.254:80"], "true")
        .expect_code(0);
}

/// What is printed is pasted as it is.
#[test]
fn a_rule_of_the_built_in_list_goes_with_what_is_printed() {
    let environment = TestEnvironment::with_repository();
    let before = rules(&environment);
    let done = environment
        .cofferdam(&["revoke", "pypi.org", "sentry.io"])
        .expect_code(1);
    let told = "stands in the built-in list\nhint: paste the commands below: ";
    assert!(done.stderr.contains(told), "{done}");
    assert_eq!(rules(&environment), before);
    environment.shell(&done.stdout).expect_code(0);
    let left = |gone: &[&str]| {
        let mut left = before.clone();
        left.retain(|rule| !gone.iter().any(|name| rule.starts_with(name)));
        left
    };
    assert_eq!(left(&["pypi.org", "sentry.io"]).len(), before.len() - 2);
    assert_eq!(rules(&environment), left(&["pypi.org", "sentry.io"]));
    // Now it is a list of the user's own.
    let done = environment
        .cofferdam(&["revoke", "github.com"])
        .expect_code(1);
    assert_eq!(done.stdout, "");
    assert!(done.stderr.contains("hint: take it out of "), "{done}");

    // A file without a list is put aside, and one rule of another form points to the same.
    let environment = with_config("# nothing yet\n");
    let done = environment
        .cofferdam(&["revoke", "pypi.org:443"])
        .expect_code(1);
    let hint = "hint: `cofferdam revoke pypi.org` prints the commands that make a list of your own without it";
    assert!(
        done.stdout.is_empty() && done.stderr.contains(hint),
        "{done}"
    );
    let done = environment
        .cofferdam(&["revoke", "pypi.org"])
        .expect_code(1);
    environment.shell(&done.stdout).expect_code(0);
    assert_eq!(rules(&environment), left(&["pypi.org"]));
    let old = environment.home().join(".cofferdam/config.yaml.old");
    assert_eq!(std::fs::read_to_string(old).unwrap(), "# nothing yet\n");
}

/// It says what it understood, or what it wants.
#[test]
fn a_destination_is_understood_in_the_ways_people_write_it() {
    let environment = empty();
    for (arguments, understood, asked) in [
        (&["a.test", "443"][..], "", "a.test:443"),
        (&["http://x"], "host x, port 80\n", "x:80"),
        (
            &["https://a.test/b?c"],
            "host a.test, port 443\n",
            "a.test:443",
        ),
        (&["a.test:8443"], "host a.test, port 8443\n", "a.test:8443"),
        (
            &["https://a.test", "8443"],
            "host a.test, port 8443\n",
            "a.test:8443",
        ),
    ] {
        let done = environment
            .cofferdam(&[&["net", "test"], arguments].concat())
            .expect_code(1);
        assert_eq!(done.stderr, understood, "{done}");
        let first = format!("refused: {asked}\n");
        assert!(done.stdout.starts_with(&first), "{done}");
    }
    let done = environment.cofferdam(&["net", "test", "a.test"]);
    check!(environment, done, @"
    code: 2
    --- stdout
    --- stderr
    error: `a.test` names no port
    hint: for example `cofferdam net test a.test 443`
    ");
    let done = environment.cofferdam(&["net", "test", "https://a_b!.test"]);
    check!(environment, done, @"
    code: 2
    --- stdout
    --- stderr
    error: host name `a_b!.test` has the character `!`: write the bare name, without scheme, user, port or path
    hint: name a host and a port, as in `cofferdam net test example.com 443`
    ");
}

/// Nothing is offered to be opened while the whole list is missing for a slip in a file.
#[test]
fn a_malformed_config_comes_before_what_could_be_opened() {
    let environment = with_config("firewall:\n  alow: []\n");
    for arguments in [
        &["net", "rules"][..],
        &["net", "test", "example.test", "443"],
    ] {
        let done = environment.cofferdam(arguments).expect_code(1);
        let mut all = done.stderr.clone();
        let _ = write!(all, "{}", done.stdout);
        assert!(all.starts_with("error: "), "{done}");
        assert!(all.contains("/config.yaml:2:3: firewall.alow: "), "{done}");
        assert!(all.contains("mend what is wrong first"), "{done}");
        assert!(!all.contains("cofferdam allow"), "{done}");
    }
    let sound = empty();
    let done = sound
        .cofferdam(&["net", "test", "example.test", "443"])
        .expect_code(1);
    assert!(
        done.stdout
            .contains("open it with: cofferdam allow example.test:443\n"),
        "{done}"
    );
}

/// The reason comes before the many lines of the way out, and other ports of the same name are no leftover.
#[test]
fn what_revoking_says_is_what_is_asked() {
    let environment = TestEnvironment::with_repository();
    let program = env!("CARGO_BIN_EXE_cofferdam");
    let done = environment.shell(&format!("'{program}' revoke github.com 2>&1"));
    let mut lines = done.stdout.lines();
    let first = lines.next().unwrap_or_default();
    assert!(first.starts_with("error: `github.com"), "{done}");
    let second = lines.next().unwrap_or_default();
    assert!(
        second.starts_with("hint: paste the commands below: "),
        "{done}"
    );
    assert!(lines.count() > 30, "{done}");

    let environment = empty();
    let host = |port: &str| format!("host.cofferdam.internal:{port}");
    for port in ["9911", "9912", "9913,9911"] {
        environment
            .cofferdam(&["allow", &host(port)])
            .expect_code(0);
    }
    environment
        .cofferdam(&["allow", "--global", &host("9912")])
        .expect_code(0);
    let done = environment
        .cofferdam(&["revoke", &host("9912")])
        .expect_code(0);
    // The control: the same port is open for all sandboxes, and that is said.
    assert_eq!(done.stderr.matches("warning:").count(), 1, "{done}");
    let said = format!("warning: {} still counts", host("9912"));
    assert!(done.stderr.contains(&said), "{done}");
    let done = environment
        .cofferdam(&["revoke", &host("9911")])
        .expect_code(0);
    let said = format!("warning: {} still counts", host("9911,9913"));
    assert!(done.stderr.contains(&said), "{done}");
    assert_eq!(done.stderr.matches("warning:").count(), 1, "{done}");
}
