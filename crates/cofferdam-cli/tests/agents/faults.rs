//! The model has bad moments.

use std::time::Instant;

use cofferdam_lab::model::{Fault, Turn};

use crate::program::Program;
use crate::world::{World, finish_within};

/// A commit whose subject is `subject`.
pub(crate) fn commit(subject: &str) -> Turn {
    Turn::shell(format!(
        "git commit -q --allow-empty -m {subject} && echo made"
    ))
}

fn complete() -> Turn {
    Turn::say("Done.\n<promise>COMPLETE</promise>")
}

/// It goes on after the fault: commits before and after it are there.
fn recovers(program: Program, fault: Fault) {
    if !program.is_wanted() {
        return;
    }
    let turns = [
        commit("before"),
        Turn::say("never heard in full").with(fault),
        commit("after"),
        complete().after("made"),
    ];
    let world = World::new(program, turns);
    let done = world.run(&[]).expect_code(0);
    let completion = &done.report()["report"]["completion"];
    assert_eq!(completion, "<promise>COMPLETE</promise>");
    assert_eq!(world.subjects(), "after\nbefore\nstart");
    assert_eq!(world.seen().work().count(), 4);
}

const TOO_MANY: Fault = Fault::Status {
    code: 429,
    retry_after: Some(1),
};

#[test]
fn claude_code_waits_after_too_many_requests() {
    recovers(Program::ClaudeCode, TOO_MANY);
}

#[test]
fn codex_waits_after_too_many_requests() {
    recovers(Program::Codex, TOO_MANY);
}

const OVERLOADED: Fault = Fault::Status {
    code: 529,
    retry_after: None,
};

#[test]
fn claude_code_tries_an_overloaded_model_again() {
    recovers(Program::ClaudeCode, OVERLOADED);
}

#[test]
fn codex_tries_an_overloaded_model_again() {
    recovers(Program::Codex, OVERLOADED);
}

#[test]
fn claude_code_asks_again_after_a_cut_stream() {
    recovers(Program::ClaudeCode, Fault::Cut);
}

#[test]
fn codex_asks_again_after_a_cut_stream() {
    recovers(Program::Codex, Fault::Cut);
}

/// The run fails with the agent's own words, and what was committed before is there.
fn gives_up(program: Program, last: Fault, words: &str) {
    ends_with(1, program, last, words);
}

/// The same with this exit code.
fn ends_with(code: i32, program: Program, last: Fault, words: &str) {
    if !program.is_wanted() {
        return;
    }
    let world = World::new(program, [commit("before"), complete().with(last)]);
    let (options, arguments) = program.impatient(world.model().port());
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let start = Instant::now();
    let limit = program.gives_up_within();
    let done = finish_within(world.start(&options, &arguments), 2 * limit).expect_code(code);
    assert!(start.elapsed() < limit, "{:?}", start.elapsed());
    let last = done.report();
    assert_eq!(last["event"], "failed", "{last}");
    let error = last["error"].as_str().unwrap();
    assert!(error.contains(words), "{error}");
    assert_eq!(last["kept"]["commits"][0]["subject"], "before", "{last}");
    assert_eq!(world.kept(), "before\nstart");
    world.seen();
}

const BROKEN: Fault = Fault::Status {
    code: 500,
    retry_after: None,
};

/// It says when to ask again, or some programs wait for minutes.
const BROKEN_SHORTLY: Fault = Fault::Status {
    code: 500,
    retry_after: Some(1),
};

#[test]
fn claude_code_gives_up_on_a_broken_model() {
    gives_up(Program::ClaudeCode, BROKEN, "500");
}

#[test]
fn codex_gives_up_on_a_broken_model() {
    // It has words of its own for this.
    gives_up(Program::Codex, BROKEN, "high demand");
}

#[test]
fn claude_code_gives_up_on_streams_that_are_cut_for_ever() {
    gives_up(
        Program::ClaudeCode,
        Fault::Cut,
        "Connection to the API was lost",
    );
}

#[test]
fn codex_gives_up_on_streams_that_are_cut_for_ever() {
    gives_up(Program::Codex, Fault::Cut, "stream disconnected");
}

const LIMITED: Fault = Fault::Status {
    code: 429,
    retry_after: None,
};

#[test]
fn a_limit_of_claude_codes_model_is_one() {
    ends_with(75, Program::ClaudeCode, LIMITED, "429");
}

#[test]
fn a_limit_of_codexs_model_is_one() {
    ends_with(75, Program::Codex, LIMITED, "429");
}

const STRANGER: Fault = Fault::Status {
    code: 401,
    retry_after: None,
};

#[test]
fn claude_code_is_not_let_in_by_its_model() {
    gives_up(Program::ClaudeCode, STRANGER, "401");
}

#[test]
fn codex_is_not_let_in_by_its_model() {
    gives_up(Program::Codex, STRANGER, "401");
}

#[test]
fn opencode_waits_after_too_many_requests() {
    recovers(Program::OpenCode, TOO_MANY);
}

#[test]
fn opencode_gives_up_on_a_broken_model() {
    gives_up(Program::OpenCode, BROKEN_SHORTLY, "500");
}

#[test]
fn a_limit_of_opencodes_model_is_one() {
    ends_with(75, Program::OpenCode, TOO_MANY, "429");
}

#[test]
fn opencode_is_not_let_in_by_its_model() {
    gives_up(Program::OpenCode, STRANGER, "401");
}

#[test]
fn pi_waits_after_too_many_requests() {
    recovers(Program::Pi, TOO_MANY);
}

#[test]
fn pi_gives_up_on_a_broken_model() {
    gives_up(Program::Pi, BROKEN, "500");
}

#[test]
fn a_limit_of_pis_model_is_one() {
    ends_with(75, Program::Pi, LIMITED, "429");
}

#[test]
fn pi_is_not_let_in_by_its_model() {
    gives_up(Program::Pi, STRANGER, "401");
}

#[test]
fn copilot_waits_after_too_many_requests() {
    recovers(Program::Copilot, TOO_MANY);
}

#[test]
fn copilot_gives_up_on_a_broken_model() {
    gives_up(Program::Copilot, BROKEN, "500");
}

#[test]
fn a_limit_of_copilots_model_is_one() {
    ends_with(75, Program::Copilot, TOO_MANY, "429");
}

#[test]
fn copilot_is_not_let_in_by_its_model() {
    gives_up(Program::Copilot, STRANGER, "401");
}

#[test]
fn gemini_waits_after_too_many_requests() {
    recovers(Program::Gemini, TOO_MANY);
}

#[test]
fn gemini_gives_up_on_a_broken_model() {
    gives_up(Program::Gemini, BROKEN, "500");
}

#[test]
fn a_limit_of_geminis_model_is_one() {
    ends_with(75, Program::Gemini, LIMITED, "429");
}

#[test]
fn gemini_is_not_let_in_by_its_model() {
    gives_up(Program::Gemini, STRANGER, "401");
}

#[test]
fn qwen_waits_after_too_many_requests() {
    recovers(Program::Qwen, TOO_MANY);
}

#[test]
fn qwen_gives_up_on_a_broken_model() {
    gives_up(Program::Qwen, BROKEN, "500");
}

#[test]
fn a_limit_of_qwens_model_is_one() {
    ends_with(75, Program::Qwen, TOO_MANY, "429");
}

#[test]
fn qwen_is_not_let_in_by_its_model() {
    gives_up(Program::Qwen, STRANGER, "401");
}
