//! Where the agent's program finds its model is checked before anything starts.

use std::process::Stdio;

use super::world::{closed, state};
use crate::environment::{Done, TestEnvironment, check, finish};

const URL: &str = "ANTHROPIC_BASE_URL";

/// `run --agent claude-code` with a variable of the caller's environment. Its program does nothing: what passes the
/// check ends there.
fn run(environment: &TestEnvironment, url: Option<&str>, options: &[&str]) -> Done {
    let agent = [
        "run",
        "--agent",
        "claude-code",
        "--prompt",
        "x",
        "--name",
        "one",
    ];
    let mut command = environment.command(&[&agent[..], options].concat());
    command.env("ANTHROPIC_API_KEY", "k");
    let programs = environment.home().join("programs");
    std::fs::create_dir_all(&programs).unwrap();
    let program = programs.join("claude");
    cofferdam::fsx::write_with_mode(&program, b"#!/bin/sh\nexit 9\n", 0o755).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display());
    command.env("PATH", path);
    if let Some(url) = url {
        command.env(URL, url);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().unwrap())
}

#[track_caller]
fn passes(done: &Done) {
    let said = &done.stderr;
    assert!(
        said.contains("sandbox ready") && !said.contains("model is at"),
        "{done}"
    );
}

#[track_caller]
fn refused(environment: &TestEnvironment, done: &Done) {
    assert_eq!(done.status.code(), Some(1), "{done}");
    // Nothing was made for it.
    assert!(!state(environment).join("state").exists(), "{done}");
    let references = environment.references();
    assert!(!references.contains("cofferdam"), "{references}");
}

#[test]
fn a_model_that_no_rule_names_stops_the_run_with_the_command_that_opens_it() {
    let environment = closed();
    let done = run(
        &environment,
        Some("https://user:secret@models.test:8443/v1"),
        &[],
    );
    refused(&environment, &done);
    check!(environment, done, @"
    code: 1
    --- stdout
    --- stderr
    error: `ANTHROPIC_BASE_URL` says that the agent's model is at models.test:8443, which is refused: no rule names models.test
    hint: open it with `cofferdam allow models.test:8443`, or for this run alone with `--allow models.test:8443`
    ");
    passes(&run(
        &environment,
        Some("https://models.test:8443/v1"),
        &["--allow", "models.test:8443"],
    ));
    environment
        .cofferdam(&["allow", "models.test:8443"])
        .expect_code(0);
    passes(&run(&environment, Some("https://models.test:8443/v1"), &[]));
    // By the same rules as the wall: another port, an address of an inner network, no network at all.
    for (url, options, said) in [
        ("https://models.test", &[][..], "not on 443"),
        ("http://10.0.0.5:4000", &[], "no rule names it"),
        (
            "https://models.test:8443",
            &["--network", "none"],
            "--network none",
        ),
        ("not an address", &[], "is no http or https address"),
    ] {
        let done = run(&environment, Some(url), options).expect_code(1);
        assert!(done.stderr.contains(said), "{url}: {done}");
    }
    passes(&run(
        &environment,
        Some("http://anywhere.test"),
        &["--network", "open"],
    ));
}

/// Whatever else is in the address may be a key.
#[test]
fn of_a_refused_address_only_host_and_port_are_told() {
    let environment = closed();
    for place in ["localhost:11434", "models.test:8443", "10.0.0.5:80"] {
        let url = format!("http://SECRET:SECRET@{place}/SECRET/v1?key=SECRET#SECRET");
        let done = run(&environment, Some(&url), &[]);
        refused(&environment, &done);
        assert!(done.stderr.contains(&format!("at {place}, ")), "{done}");
        let given = format!("{URL}={url}");
        let json = run(&environment, None, &["--json", "--env", &given]);
        for done in [done, json] {
            let said = format!("{}{}", done.stdout, done.stderr);
            assert!(said.contains(place) && !said.contains("SECRET"), "{said}");
        }
    }
    for url in [
        "ftp://SECRET@h/SECRET",
        "http://SECRET:SECRET@/SECRET",
        "SECRET",
    ] {
        let done = run(&environment, Some(url), &[]).expect_code(1);
        assert!(!done.stderr.contains("SECRET"), "{done}");
    }
    // Where a rule was meant.
    let url = "https://SECRET:SECRET@models.test/SECRET?key=SECRET";
    for arguments in [
        vec!["allow", url],
        vec!["run", "--allow", url, "--", "true"],
    ] {
        let done = environment.cofferdam(&arguments);
        assert!(!done.status.success(), "{done}");
        let said = format!("{}{}", done.stdout, done.stderr);
        assert!(said.contains("https://...@models.test/..."), "{done}");
        assert!(!said.contains("SECRET"), "{done}");
    }
    let done = environment.cofferdam(&["net", "test", url]).expect_code(1);
    let said = format!("{}{}", done.stdout, done.stderr);
    assert!(said.contains("models.test:443"), "{done}");
    assert!(!said.contains("SECRET"), "{done}");
}

/// Wherever the variable comes from.
#[test]
fn a_model_on_localhost_points_to_this_machine() {
    let environment = closed();
    let done = run(&environment, Some("http://localhost:11434/v1"), &[]);
    refused(&environment, &done);
    check!(environment, done, @"
    code: 1
    --- stdout
    --- stderr
    error: `ANTHROPIC_BASE_URL` says that the agent's model is at localhost:11434, and that is the sandbox itself there
    hint: if it is on this machine, say so: `--env ANTHROPIC_BASE_URL=http://host.cofferdam.internal:11434/… --allow host.cofferdam.internal:11434`, with the rest of your address in place of `/…`
    ");
    let hinted = [
        "--env",
        "ANTHROPIC_BASE_URL=http://host.cofferdam.internal:11434/v1",
        "--allow",
        "host.cofferdam.internal:11434",
    ];
    passes(&run(
        &environment,
        Some("http://localhost:11434/v1"),
        &hinted,
    ));
    let done = run(
        &environment,
        None,
        &["--env", "ANTHROPIC_BASE_URL=http://127.0.0.1:8080"],
    );
    let done = done.expect_code(1);
    assert!(
        done.stderr.contains("at 127.0.0.1:8080, and that"),
        "{done}"
    );
    environment.write(".cofferdam/.env", "ANTHROPIC_BASE_URL=http://[::1]:8080\n");
    let done = run(&environment, None, &[]).expect_code(1);
    assert!(done.stderr.contains("at [::1]:8080, and that"), "{done}");
    let hint = "`--env ANTHROPIC_BASE_URL=http://host.cofferdam.internal:8080 --allow host.cofferdam.internal:8080`\n";
    assert!(done.stderr.ends_with(hint), "{done}");
    // What a hook starts inside may be it.
    passes(&run(&environment, None, &["--on-sandbox-ready", "true"]));
}

/// A program may be told in other ways where its model is: only a word is said.
#[test]
fn the_usual_model_is_said_where_it_is_refused() {
    let environment = closed();
    let done = run(&environment, None, &[]);
    let note = "note: the agent's model is at api.anthropic.com:443, which is refused: no rule names \
                api.anthropic.com; open with: cofferdam allow api.anthropic.com:443\n";
    let (said, ready) = (done.stderr.find(note), done.stderr.find("sandbox ready"));
    assert!(said.is_some() && said < ready, "{done}");
    // With the built-in list there is nothing to say.
    passes(&run(&TestEnvironment::with_repository(), None, &[]));
}
