//! The real programs at their own terminal interfaces, with their user there.

use std::io::{Read, Write};
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cofferdam_lab::model::Turn;

use crate::program::{KEY, Program};
use crate::work::with_image;
use crate::world::{LIMIT, World};

/// The user at the terminal.
struct Person {
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Person {
    fn at(mut child: Child) -> Self {
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut from, to) = (child.stdout.take().unwrap(), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut chunk) {
                to.lock().unwrap().extend_from_slice(&chunk[..read]);
            }
        });
        Self { child, shown }
    }

    /// Without what moves the cursor and sets colours, and without spaces: some programs put words where they are by that.
    fn text(&self) -> String {
        let shown = self.shown.lock().unwrap();
        let controls =
            regex::Regex::new("\\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\\x07\\x1b]*(\\x07|\\x1b\\\\)|.)");
        let text = String::from_utf8_lossy(&shown);
        let text = controls.unwrap().replace_all(&text, "");
        text.split_whitespace().collect()
    }

    #[track_caller]
    fn sees(&self, what: &str) {
        let until = Instant::now() + LIMIT;
        let what = what.replace(' ', "");
        while !self.text().contains(&what) {
            assert!(Instant::now() < until, "{what}: {}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn types(&mut self, keys: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(keys.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    #[track_caller]
    fn is_back(&mut self) -> i32 {
        let until = Instant::now() + LIMIT;
        while self.child.try_wait().unwrap().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let status = self.child.try_wait().unwrap();
        if status.is_none() {
            self.child.kill().unwrap();
        }
        assert!(status.is_some(), "it goes on: {}", self.text());
        status.unwrap().code().unwrap()
    }
}

fn check(program: Program, leave: &str, options: &[&str]) {
    if !program.is_wanted() {
        return;
    }
    let model = program.model().map(|model| ["--model", model]);
    let script = [
        Turn::shell("git commit -q --allow-empty -m 'made at the terminal' && echo made"),
        // Also of whatever more it asks.
        Turn::say("It is done.\n<promise>COMPLETE</promise>"),
    ];
    let world = World::new(program, script).with_engines();
    let prompt = ["--prompt", "Commit something."];
    let model = model.as_ref().map_or(&[][..], |words| &words[..]);
    let mut person = Person::at(world.interactive(&[&prompt, model, options].concat()));
    // One of them writes over what it wrote, a piece at a time.
    if program == Program::Copilot {
        let heard = (world.model()).wait_until(LIMIT, |seen| seen.work().count() > 1);
        assert!(heard, "{}", person.text());
    } else {
        person.sees("It is done.");
    }
    person.types(leave);
    // Its menu of words has to be there before the key that chooses.
    std::thread::sleep(Duration::from_millis(500));
    person.types("\r");
    let code = person.is_back();
    assert_eq!(code, 0, "{}", person.text());
    program.expect_key(&world.seen(), KEY);
    assert_eq!(
        world.subjects(),
        "made at the terminal\nstart",
        "{}",
        person.text()
    );
    let runs = world
        .cofferdam(&["runs", "show", "one", "--json"])
        .expect_code(0);
    let kept: serde_json::Value = serde_json::from_str(&runs.stdout).unwrap();
    let first = &kept["iterations"][0];
    assert!(first["session"].is_string(), "{kept}");
    assert!(first["kept"].as_u64().unwrap() > 0, "{kept}");
    goes_on(&world, kept["id"].as_str().unwrap());
}

/// What was said at the terminal is heard in another sandbox, where nobody is.
fn goes_on(world: &World, run: &str) {
    world
        .go_on(run, &["--prompt", "What was the word?"])
        .expect_code(0);
    let heard = world.seen().work().last().unwrap().body.to_string();
    for said in ["Commit something.", "What was the word?"] {
        assert!(heard.contains(said), "{said}: {heard}");
    }
}

#[test]
fn claude_code() {
    check(Program::ClaudeCode, "/exit", &[]);
}

#[test]
fn codex() {
    check(Program::Codex, "/quit", &[]);
}

#[test]
fn opencode() {
    check(Program::OpenCode, "/exit", &[]);
}

#[test]
fn pi() {
    check(Program::Pi, "/quit", &[]);
}

#[test]
fn copilot() {
    check(Program::Copilot, "/exit", &[]);
}

#[test]
fn gemini() {
    check(Program::Gemini, "/quit", &[]);
}

#[test]
fn qwen() {
    check(Program::Qwen, "/quit", &[]);
}

/// In the image that `scripts/test --all` can build.
#[test]
fn they_have_their_terminals_in_containers() {
    for engine in with_image() {
        let options = ["--sandbox", engine, "--image", "cofferdam-base:small"];
        check(Program::ClaudeCode, "/exit", &options);
        check(Program::Codex, "/quit", &options);
    }
}
