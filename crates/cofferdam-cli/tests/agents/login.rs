//! Users whose agent has a login in a file, and no key in their environment.

use std::fs;

use cofferdam_lab::model::Turn;

use crate::program::Program;
use crate::world::World;

pub(crate) const FIRST: &str = "sk-ant-oat01-first";
const SECOND: &str = "sk-ant-oat01-second";

/// A login file as the program writes it, with `FIRST` as its secret.
pub(crate) fn login(program: Program) -> String {
    match program {
        // It is good until the year 2100.
        Program::ClaudeCode => format!(
            r#"{{"claudeAiOauth":{{"accessToken":"{FIRST}","refreshToken":"sk-ant-ort01-x","expiresAt":4102444800000,"scopes":["user:inference","user:profile"],"subscriptionType":"max"}}}}"#
        ),
        _ => format!(r#"{{"OPENAI_API_KEY":"{FIRST}"}}"#),
    }
}

/// Where the program has it in the sandbox.
fn place(program: Program) -> &'static str {
    match program {
        Program::ClaudeCode => "~/.claude/.credentials.json",
        _ => "~/.codex/auth.json",
    }
}

fn complete() -> Turn {
    Turn::say("Done.\n<promise>COMPLETE</promise>")
}

fn without_key(program: Program, turns: [Turn; 3]) -> World {
    let mut world = World::new(program, turns);
    world.has_key = false;
    world
}

#[track_caller]
fn last_key(world: &World) -> String {
    let seen = world.seen();
    let key = seen.work().last().unwrap().key();
    key.unwrap_or("none").to_owned()
}

/// Run 1 gets the user's login, and `changes` it; run 2 has `expected` without being told.
fn kept(program: Program, changes: &str, expected: &str) {
    let change = Turn::shell(format!("{changes} {} && echo changed", place(program)));
    let world = without_key(program, [change, complete().after("changed"), complete()]);
    let file = world.repository().with_file_name("login.json");
    fs::write(&file, login(program)).unwrap();
    let done = world.run(&["--login", file.to_str().unwrap()]);
    let done = done.expect_code(0);
    let seen = world.seen();
    assert_eq!(seen.work().next().unwrap().key(), Some(FIRST));
    let renewed = done.stdout.contains("login_renewed");
    assert_eq!(renewed, expected != FIRST, "{}", done.stdout);

    world.run(&[]).expect_code(0);
    assert_eq!(last_key(&world), expected);
    // The user's own file is theirs.
    assert_eq!(fs::read_to_string(file).unwrap(), login(program));
}

#[test]
fn claude_code_has_the_login_of_an_earlier_run() {
    kept(Program::ClaudeCode, "sed -i s/first/second/", SECOND);
}

#[test]
fn codex_has_the_key_that_the_user_gave_whatever_a_run_makes_of_it() {
    kept(Program::Codex, "sed -i s/first/second/", FIRST);
}

/// A sandbox that breaks its own login breaks no other one.
#[test]
fn what_is_no_login_is_not_kept() {
    kept(Program::Codex, "echo '{}' >", FIRST);
}

/// Whoever logs in inside has that login for the whole run, and for that run only.
fn inside(program: Program) {
    let turns = [Turn::say("One more."), complete(), complete()];
    let world = without_key(program, turns);
    let place = place(program);
    let logs_in = format!(
        "mkdir -p ${{HOME:?}}/.claude ~/.codex && echo '{}' > {place}",
        login(program)
    );
    let options = ["--max-iterations", "2", "--on-sandbox-ready", &logs_in];
    world.run(&options).expect_code(0);
    program.expect_key(&world.seen(), FIRST);
    assert_eq!(world.seen().work().count(), 2);
    assert!(
        !world
            .repository()
            .with_file_name("cofferdam/volumes")
            .exists()
    );
}

#[test]
fn claude_code_keeps_its_login_for_all_iterations() {
    inside(Program::ClaudeCode);
}

#[test]
fn codex_keeps_its_login_for_all_iterations() {
    inside(Program::Codex);
}

/// It says so itself, and nothing is asked of the model.
#[test]
fn claude_code_without_any_login_says_that_one_is_needed() {
    let world = without_key(Program::ClaudeCode, [complete(), complete(), complete()]);
    let done = world.run(&[]).expect_code(1);
    assert!(done.stderr.contains("/login"), "{}", done.stderr);
    assert_eq!(world.seen().work().count(), 0);
}
