//! The sandbox that a person lives in: the programs work there too, with the login that an earlier run was given.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use cofferdam_lab::model::Turn;
use cofferdam_lab::{skip, turn};

use crate::login::{FIRST, login};
use crate::program::Program;
use crate::work::{FILE, task_as, with_image};
use crate::world::World;

/// An earlier run was given the login. The dev sandbox is made, removed and made again, and then the program does a task in it.
fn works_after_it_was_made_anew(program: Program, options: &[&str]) {
    let earlier = Turn::say("Done.\n<promise>COMPLETE</promise>");
    let [first, second, third, last] = task_as("");
    let turns = [earlier, first, second, third, last];
    let mut world = World::new(program, turns).with_engines();
    world.has_key = false;
    world.allow_model();
    let file = world.repository().with_file_name("login.json");
    fs::write(&file, login(program)).unwrap();
    world
        .run(&["--login", file.to_str().unwrap()])
        .expect_code(0);

    let start = [&["start"], options].concat();
    world.cofferdam(&start).expect_code(0);
    world
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
    world.cofferdam(&start).expect_code(0);
    let done = world.run_in("dev").expect_code(0);
    let report = &done.report()["report"];
    assert_eq!(
        report["completion"], "<promise>COMPLETE</promise>",
        "{report}"
    );
    let seen = world.seen();
    assert_eq!(seen.work().count(), 5, "{done:?}");
    program.expect_key(&seen, FIRST);

    // It is the user's own checkout.
    assert_eq!(world.subjects(), "one is ONE\nstart");
    let file = world.repository().join(FILE);
    assert_eq!(fs::read_to_string(file).unwrap(), "ONE\ntwo\n");
    assert_eq!(
        world.git(&["status", "--porcelain", "--untracked-files=no"]),
        ""
    );
    world
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
}

// covers: S3-45
#[test]
fn claude_code_works_in_a_dev_sandbox_that_was_made_anew() {
    works_after_it_was_made_anew(Program::ClaudeCode, &[]);
}

// covers: S3-46
#[test]
fn codex_works_in_a_dev_sandbox_that_was_made_anew() {
    works_after_it_was_made_anew(Program::Codex, &[]);
}

#[test]
fn both_work_in_dev_containers_that_were_made_anew() {
    for engine in with_image() {
        for program in [Program::ClaudeCode, Program::Codex] {
            let image = ["--sandbox", engine, "--image", "cofferdam-base:small"];
            works_after_it_was_made_anew(program, &image);
        }
    }
}

/// The port that Codex has its browser come back to.
const PORT: u16 = 1455;

/// The program takes what the browser brings for its own, because its state is in it, and asks for the tokens. Nobody here gives
/// any: the wall says where it asked.
// covers: S3-76
#[test]
fn codex_itself_hears_what_the_browser_brings() {
    let _turn = turn::Turn::at(PORT).unwrap();
    if TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)).is_err() {
        skip!("port {PORT} of this machine is taken");
        return;
    }
    hears("codex", &World::new(Program::Codex, []));
    for engine in with_image() {
        let world = World::new(Program::Codex, []).with_engines();
        let start = [
            "start",
            "--sandbox",
            engine,
            "--image",
            "cofferdam-base:small",
        ];
        world.cofferdam(&start).expect_code(0);
        hears("dev", &world);
    }
}

#[track_caller]
fn hears(name: &str, world: &World) {
    let mut login = world.on_a_terminal("codex -- login");
    let mut said = BufReader::new(login.stdout.take().unwrap());
    let mut state = String::new();
    while !state.contains("/oauth/authorize?") {
        state.clear();
        assert_ne!(said.read_line(&mut state).unwrap(), 0);
    }
    let mut parts = state.trim_end().split(['?', '&']);
    let state = parts.find(|part| part.starts_with("state=")).unwrap();
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).unwrap();
    let request =
        format!("GET /auth/callback?code=one&{state} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");

    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(
        rest.contains("https://auth.openai.com/oauth/token"),
        "{rest}"
    );
    assert_eq!(login.wait().unwrap().code(), Some(1), "{rest}");
    let log = world.cofferdam(&["net", "log", name, "--json"]);
    let log = log.expect_code(0).lines();
    let refused = log
        .iter()
        .any(|entry| entry["name"] == "auth.openai.com" && entry["verdict"] == "refused");
    assert!(refused, "{log:?}");
    world.cofferdam(&["delete", "--force", name]).expect_code(0);
}
