//! Ctrl-C while the agent waits for a model that does not go on.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cofferdam_lab::model::{Fault, Turn};
use rustix::process::{Pid, Signal, kill_process};

use crate::faults::commit;
use crate::program::Program;
use crate::world::{LIMIT, World, finish};

fn cancelled(program: Program) {
    if !program.is_wanted() {
        return;
    }
    let silent = Turn::say("and then nothing").with(Fault::Hang);
    let world = World::new(program, [commit("before"), silent]);
    let mark = format!("COFFERDAM_TEST_MARK={}", world.repository().display());
    let child = world.start(&["--env", &mark], &[]);
    assert!(world.model().wait_until(LIMIT, |seen| seen.hanging == 1));
    assert!(!marked(&mark).is_empty(), "no process has the mark");

    let start = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    finish(child).expect_code(130);
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(marked(&mark), Vec::<PathBuf>::new());
    assert!(world.model().wait_until(LIMIT, |seen| seen.left == 1));
    assert_eq!(world.kept(), "before\nstart");
}

/// Processes of the agent: those with `variable` in their environment.
fn marked(variable: &str) -> Vec<PathBuf> {
    let has = |process: &PathBuf| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        let mut variables = environment.split(|&byte| byte == 0);
        variables.any(|one| one == variable.as_bytes())
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let numbered = entries.filter(|entry| {
        let name = entry.file_name();
        name.as_bytes().iter().all(u8::is_ascii_digit)
    });
    numbered.map(|entry| entry.path()).filter(has).collect()
}

#[test]
fn claude_code_is_ended_and_its_commits_come_home() {
    cancelled(Program::ClaudeCode);
}

#[test]
fn codex_is_ended_and_its_commits_come_home() {
    cancelled(Program::Codex);
}

#[test]
fn opencode_is_ended_and_its_commits_come_home() {
    cancelled(Program::OpenCode);
}

#[test]
fn pi_is_ended_and_its_commits_come_home() {
    cancelled(Program::Pi);
}

#[test]
fn copilot_is_ended_and_its_commits_come_home() {
    cancelled(Program::Copilot);
}

#[test]
fn gemini_is_ended_and_its_commits_come_home() {
    cancelled(Program::Gemini);
}

#[test]
fn qwen_is_ended_and_its_commits_come_home() {
    cancelled(Program::Qwen);
}
