//! A task from prompt to landed commit, and what else the programs tried to reach.

use cofferdam_lab::model::{Fault, Tool, Turn};
use cofferdam_lab::skip;
use serde_json::Value;

use crate::faults::commit;
use crate::program::{HOST, KEY, Program};
use crate::world::World;

pub(crate) const FILE: &str = "src/lib.txt";

/// Looks, edits by the program's own tool, commits, and says that it is done. Each turn needs what the
/// tool before it gave.
fn task(program: Program) -> [Turn; 4] {
    task_at(&program.path_of(FILE), "1000")
}

/// `user`: how its id begins inside.
pub(crate) fn task_as(user: &str) -> [Turn; 4] {
    task_at(FILE, user)
}

fn task_at(path: &str, user: &str) -> [Turn; 4] {
    let path = || path.to_owned();
    [
        Turn {
            say: "I look at it first.".into(),
            ..Turn::tool(Tool::Read { path: path() })
        },
        Turn::tool(Tool::Edit {
            path: path(),
            old: "one".into(),
            new: "ONE".into(),
        })
        .after("one"),
        Turn::shell(format!(
            "git commit -qam 'one is ONE' && cat {FILE} && id -u"
        )),
        Turn::say("It is done.\n<promise>COMPLETE</promise>").after(format!("ONE\ntwo\n{user}")),
    ]
}

fn check(program: Program, options: &[&str]) {
    if program.is_wanted() {
        whole(&World::new(program, task(program)), program, options);
    }
}

fn whole(world: &World, program: Program, options: &[&str]) {
    let done = world.run(options).expect_code(0);
    let seen = world.seen();
    program.expect_key(&seen, KEY);
    assert_eq!(seen.work().count(), 4);

    let report = &done.report()["report"];
    assert_eq!(
        report["completion"], "<promise>COMPLETE</promise>",
        "{report}"
    );
    let commit = world.git(&["log", "-1", "--format=%an <%ae>, %cn: %s", "main"]);
    assert_eq!(commit, "Test <test@example.com>, Test: one is ONE");
    let file = world.repository().join(FILE);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "ONE\ntwo\n");
    assert_eq!(
        world.git(&["status", "--porcelain", "--untracked-files=no"]),
        ""
    );

    only_the_model(program, &world.network_log());
}

/// Nothing was reached but the model. The programs tried: to send reports, to look for updates.
#[track_caller]
fn only_the_model(program: Program, log: &[Value]) {
    let entries = |verdict: &str| -> Vec<&str> {
        let entries = log.iter().filter(|entry| entry["verdict"] == verdict);
        let names = entries.map(|entry| entry["name"].as_str());
        names.map(Option::unwrap_or_default).collect()
    };
    let allowed = entries("allowed");
    assert!(!allowed.is_empty(), "{log:?}");
    assert!(allowed.iter().all(|&name| name == HOST), "{allowed:?}");
    let refused = entries("refused");
    if let Some(place) = program.reports_to() {
        assert!(refused.contains(&place), "{refused:?}");
    }
    assert!(!refused.contains(&HOST), "{refused:?}");
}

#[test]
fn claude_code_works_in_this_checkout() {
    check(Program::ClaudeCode, &["--head"]);
}

#[test]
fn codex_works_in_this_checkout() {
    check(Program::Codex, &["--head"]);
}

#[test]
fn claude_code_works_in_a_copy() {
    check(Program::ClaudeCode, &["--mode", "copy"]);
}

/// An older model gets other tools of the program: functions, and patches as text.
#[test]
fn codex_works_in_a_copy() {
    check(Program::Codex, &["--mode", "copy", "--model", "gpt-5.5"]);
}

#[test]
fn opencode_works_in_a_copy() {
    check(Program::OpenCode, &["--mode", "copy"]);
}

#[test]
fn pi_works_in_a_copy() {
    check(Program::Pi, &["--mode", "copy"]);
}

#[test]
fn copilot_works_in_a_copy() {
    check(Program::Copilot, &["--mode", "copy"]);
}

#[test]
fn gemini_works_in_a_copy() {
    check(Program::Gemini, &["--mode", "copy"]);
}

#[test]
fn qwen_works_in_a_copy() {
    check(Program::Qwen, &["--mode", "copy"]);
}

/// A model with nothing to say at its end is a good end too: the program tells that it is one.
fn ends_without_words(program: Program) {
    if !program.is_wanted() {
        return;
    }
    let world = World::new(program, [commit("made"), Turn::default()]);
    world.run(&[]).expect_code(0);
    assert_eq!(world.subjects(), "made\nstart");
}

#[test]
fn claude_code_ends_without_words() {
    ends_without_words(Program::ClaudeCode);
}

#[test]
fn codex_ends_without_words() {
    ends_without_words(Program::Codex);
}

#[test]
fn opencode_ends_without_words() {
    ends_without_words(Program::OpenCode);
}

#[test]
fn pi_ends_without_words() {
    ends_without_words(Program::Pi);
}

#[test]
fn copilot_ends_without_words() {
    ends_without_words(Program::Copilot);
}

#[test]
fn gemini_ends_without_words() {
    ends_without_words(Program::Gemini);
}

#[test]
fn qwen_ends_without_words() {
    ends_without_words(Program::Qwen);
}

/// A slow model is no silent one.
fn slow(program: Program) {
    let words = Turn::say("Slowly.\n<promise>COMPLETE</promise>");
    let world = World::new(program, [words.with(Fault::Slow { millis: 300 })]);
    world.run(&["--idle-timeout", "20s"]).expect_code(0);
}

#[test]
fn claude_code_waits_for_a_slow_model() {
    slow(Program::ClaudeCode);
}

#[test]
fn codex_waits_for_a_slow_model() {
    slow(Program::Codex);
}

/// As npm puts them below `~/.local`, or below any other prefix that `PATH` names: a symlink to a package elsewhere.
#[test]
fn programs_that_are_links_to_packages_elsewhere_work() {
    for (program, directory) in [
        (Program::ClaudeCode, ".local/bin"),
        (Program::ClaudeCode, "apps/bin"),
        (Program::Codex, ".local/bin"),
        (Program::Codex, "apps/bin"),
    ] {
        let mut world = World::new(program, task(program));
        world.link_programs_in(directory);
        whole(&world, program, &[]);
    }
}

/// Whether this run's engine has what the base is built on, as its own command says.
fn image_of_debian(engine: &str) -> Result<(), String> {
    if engine == "docker" && asked(engine, &["info", "--format", "{{.Driver}}"])?.trim() == "vfs" {
        return Err(
            "on vfs each step of a build copies the whole image, and the build takes longer than its test waits"
                .to_owned(),
        );
    }
    asked(engine, &["image", "inspect", "debian:bookworm-slim"]).map(drop)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the engine is where this machine's user has it"
)]
fn asked(engine: &str, words: &[&str]) -> Result<String, String> {
    let mut command = std::process::Command::new(engine);
    if engine == "podman" {
        command.arg("--remote");
    }
    let done = command.args(words).output();
    let done = done.map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(said.lines().next().unwrap_or_default().to_owned())
}

/// The base image that `scripts/test --all` can build, and both programs from it.
#[test]
fn they_work_in_containers() {
    for engine in with_image() {
        for program in [Program::ClaudeCode, Program::Codex] {
            let world = World::new(program, task_as("")).with_engines();
            let options = ["--sandbox", engine, "--image", "cofferdam-base:small"];
            whole(&world, program, &options);
        }
    }
}

/// The engines that have an image with both programs now.
pub(crate) fn with_image() -> Vec<&'static str> {
    if !cofferdam_lab::sample::all() {
        skip!("builds an image: only with `scripts/test --all`");
        return Vec::new();
    }
    let mut all = vec!["docker", "podman"];
    all.retain(|engine| {
        // What it is built on comes from where packages come from; where those cannot be reached nobody has made it. Whatever else
        // goes wrong is wrong.
        if let Err(why) = image_of_debian(engine) {
            skip!("{engine}: {why}");
            return false;
        }
        let base = ["--base-image", "debian:bookworm-slim", "--sandbox", engine];
        let world = World::new(Program::ClaudeCode, task_as("")).with_engines();
        let built = world.long(&[&["build-base", "--small"][..], &base].concat());
        built.expect_code(0);
        true
    });
    all
}
