//! Conversations that go on: the program finds its own in the home of another sandbox, and its model hears all of it.

use cofferdam_lab::model::Turn;

use crate::program::Program;
use crate::world::World;

fn goes_on(program: Program, options: &[&str]) {
    if !program.is_wanted() {
        return;
    }
    let world = World::new(
        program,
        [
            Turn::shell("echo ONE > src/lib.txt && git commit -qam one".to_owned()),
            Turn::say("The word is walnut.\n<promise>COMPLETE</promise>"),
            Turn::say("It was walnut.\n<promise>COMPLETE</promise>"),
            Turn::say("Walnut, says the copy.\n<promise>COMPLETE</promise>"),
        ],
    );
    let done = world.run(options).expect_code(0);
    let run = done.report()["report"]["run"].as_str().unwrap().to_owned();
    let done = world
        .go_on(&run, &["--prompt", "What was the word?"])
        .expect_code(0);
    let report = &done.report()["report"];
    let second = report["run"].as_str().unwrap();
    assert!(
        report["iterations"][0]["result"]
            .as_str()
            .unwrap()
            .starts_with("It was walnut."),
        "{report}"
    );
    let heard = world.seen().work().last().unwrap().body.to_string();
    assert!(
        heard.contains("The word is walnut.") && heard.contains("What was the word?"),
        "{heard}"
    );
    let copied = goes_on_in_a_copy(&world, &run);

    let listed = world.cofferdam(&["runs"]).expect_code(0).stdout;
    assert_eq!(listed.lines().count(), 3 + usize::from(copied), "{listed}");
    let shown = world.cofferdam(&["runs", "show", second]).expect_code(0);
    assert!(
        shown.stdout.contains(&format!("after:   {run}\n")),
        "{}",
        shown.stdout
    );
    // What was kept is handed out where that is asked for, and nothing else is in the user's home.
    let place = world.repository().join("../exported");
    world
        .cofferdam(&["runs", "export", second, place.to_str().unwrap()])
        .expect_code(0);
    // Not through a link of the checkout, wherever it leads.
    std::os::unix::fs::symlink("..", world.repository().join("away")).unwrap();
    let refused = world.cofferdam(&["runs", "export", second, "away/exported-too"]);
    let refused = refused.expect_code(1);
    assert!(
        refused.stderr.contains("away is a symlink to"),
        "{}",
        refused.stderr
    );
    assert!(!world.repository().join("../exported-too").exists());
    std::fs::remove_file(world.repository().join("away")).unwrap();
    let kept = std::process::Command::new("grep")
        .args(["-rl", "walnut"])
        .arg(&place)
        .output()
        .unwrap();
    assert!(!kept.stdout.is_empty());
}

/// A copy of the first knows nothing of the second. Whether there was one: two programs make none, and say so.
fn goes_on_in_a_copy(world: &World, run: &str) -> bool {
    let before = world.seen().work().count();
    let done = world.go_on(run, &["--fork", "--prompt", "And in a copy?"]);
    if matches!(world.program, Program::Copilot | Program::Gemini) {
        let error = done.expect_code(1).stderr;
        let name = world.program.name();
        assert!(
            error.contains(&format!("{name} cannot continue a copy")),
            "{error}"
        );
        assert_eq!(world.seen().work().count(), before);
        return false;
    }
    done.expect_code(0);
    let heard = world.seen().work().last().unwrap().body.to_string();
    assert!(
        heard.contains("The word is walnut.") && heard.contains("And in a copy?"),
        "{heard}"
    );
    assert!(!heard.contains("What was the word?"), "{heard}");
    true
}

#[test]
fn claude_code_goes_on() {
    goes_on(Program::ClaudeCode, &["--mode", "copy"]);
}

#[test]
fn codex_goes_on() {
    goes_on(Program::Codex, &["--mode", "copy"]);
}

#[test]
fn opencode_goes_on() {
    goes_on(Program::OpenCode, &["--mode", "copy"]);
}

#[test]
fn pi_goes_on() {
    goes_on(Program::Pi, &["--mode", "copy"]);
}

#[test]
fn copilot_goes_on() {
    goes_on(Program::Copilot, &["--mode", "copy"]);
}

#[test]
fn gemini_goes_on() {
    goes_on(Program::Gemini, &["--mode", "copy"]);
}

#[test]
fn qwen_goes_on() {
    goes_on(Program::Qwen, &["--mode", "copy"]);
}
