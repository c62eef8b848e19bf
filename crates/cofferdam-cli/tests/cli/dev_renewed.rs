//! A login of Codex that its program renews in a dev sandbox is the one that all have from then on, and nothing else takes its place.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::containers::{making, worlds};
use crate::environment::{TestEnvironment, finish};
use crate::lives::Lives;

/// Tokens that name whom they are for, unsigned: `me` with the account `mine`, twice, and `you` with `yours`.
const MINE: &str = "e30.eyJzdWIiOiJtZSIsImh0dHBzOi8vYXBpLm9wZW5haS5jb20vYXV0aCI6eyJjaGF0Z3B0X2FjY291bnRfaWQiOiJtaW5lIn0sIm4iOjF9.sig";
const MINE_LATER: &str = "e30.eyJzdWIiOiJtZSIsImh0dHBzOi8vYXBpLm9wZW5haS5jb20vYXV0aCI6eyJjaGF0Z3B0X2FjY291bnRfaWQiOiJtaW5lIn0sIm4iOjJ9.sig";
const YOURS: &str = "e30.eyJzdWIiOiJ5b3UiLCJodHRwczovL2FwaS5vcGVuYWkuY29tL2F1dGgiOnsiY2hhdGdwdF9hY2NvdW50X2lkIjoieW91cnMifSwibiI6M30.sig";
const READ: &str = "cat ~/.codex/auth.json";

/// As Codex writes it, in this month.
fn login(token: &str, account: &str, month: u8) -> String {
    let tokens = format!(
        r#"{{"id_token":"{token}","access_token":"a{month}","refresh_token":"r{month}","account_id":"{account}"}}"#
    );
    format!(
        r#"{{"OPENAI_API_KEY":null,"tokens":{tokens},"last_refresh":"2026-0{month}-01T00:00:00Z"}}"#
    )
}

fn write(text: &str) -> String {
    format!("printf %s '{text}' > ~/.codex/auth.json")
}

/// What is kept for all.
fn kept(environment: &TestEnvironment) -> String {
    let place = ".cofferdam/volumes/cofferdam-codex-config/files/auth.json";
    std::fs::read_to_string(environment.home().join(place)).unwrap()
}

// covers: S3-46
#[test]
fn a_renewed_login_of_codex_is_everybodys() {
    for world in worlds() {
        let (engine, environment) = (world.engine, &world.environment);
        let first = login(MINE, "mine", 1);
        let renewed = login(MINE_LATER, "mine", 2);
        environment.puts(".codex/auth.json", &first);
        world
            .cofferdam(&["codex-init-config", "--auth"])
            .expect_code(0);
        let start = |options: &[&str]| {
            let options = [&["--network", "none"], options].concat();
            let words = making("start", engine, &options);
            world.cofferdam(&words).expect_code(0);
        };
        let has = |name: &str, login: &str| {
            let seen = world.exec_in(name, READ).expect_code(0);
            assert_eq!(seen.stdout, login, "{engine}: {name}");
        };
        start(&[]);
        has("dev", &first);
        world.exec_in("dev", &write(&renewed)).expect_code(0);
        assert_eq!(kept(environment), renewed, "{engine}");
        start(&["--branch", "two"]);
        has("dev-two", &renewed);

        // Another one is no renewal, whatever its time, and what is none is none.
        let (of_another, elsewhere) = (login(YOURS, "mine", 3), login(MINE_LATER, "yours", 3));
        for other in [of_another.as_str(), &elsewhere, "{}"] {
            let left = world.exec_in("dev-two", &write(other)).expect_code(0);
            assert!(!left.stderr.contains("is kept"), "{left}");
            assert_eq!(kept(environment), renewed, "{engine}: {other}");
        }
        start(&["--branch", "three"]);
        has("dev-three", &renewed);
        has("dev", &renewed);
        world
            .cofferdam(&["delete", "--force", "dev", "dev-two", "dev-three"])
            .expect_code(0);
        world.expect_clean();
    }
}

/// Who was inside meanwhile leaves an older one there, and takes nothing from the others by leaving.
// covers: S3-46
#[test]
fn an_older_login_takes_no_newer_ones_place() {
    let lives = Lives::new();
    let first = login(MINE, "mine", 1);
    let renewed = login(MINE_LATER, "mine", 2);
    lives.puts(".codex/auth.json", &first);
    lives
        .cofferdam(&["codex-init-config", "--auth"])
        .expect_code(0);
    lives.cofferdam(&["start"]).expect_code(0);
    lives
        .cofferdam(&["start", "--branch", "two"])
        .expect_code(0);
    let stays = "echo at work; read -r _; cat ~/.codex/auth.json";
    let mut inside = lives.command(&["exec", "-i", "dev", "--", "sh", "-c", stays]);
    inside
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut inside = inside.spawn().unwrap();
    let mut said = BufReader::new(inside.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "at work");

    lives.exec("dev-two", &write(&renewed)).expect_code(0);
    assert_eq!(kept(&lives), renewed);
    drop(inside.stdin.take());
    assert_eq!(said.next().unwrap().unwrap(), first);
    finish(inside).expect_code(0);
    assert_eq!(kept(&lives), renewed);
    // Who comes in has the newer one.
    let seen = lives.exec("dev", READ).expect_code(0);
    assert_eq!(seen.stdout, renewed);
    lives
        .cofferdam(&["delete", "--force", "dev", "dev-two"])
        .expect_code(0);
}
