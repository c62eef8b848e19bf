//! A part of the next container waits for it before anybody asks: made by a process of its own, after the command that used the
//! last one has told its user everything.

use std::process::{Command, ExitCode, Stdio};

use cofferdam::detached;
use cofferdam::registry::{Reach, Record};
use cofferdam::sandbox::engine::{Engine, EngineOptions, Kind};

use crate::environment::{Environment, LASTING};

/// The only word of that process: no command of anybody's.
const WORD: &str = "keep-ready";

/// Whether this is that process.
pub(crate) fn is_meant() -> bool {
    std::env::args_os().skip(1).eq([WORD])
}

/// What it does. Nobody reads what it could say: the next command says it.
pub(crate) fn run() -> ExitCode {
    detached::begin();
    let (Ok(environment), Ok(runtime)) = (Environment::read(None), crate::runtime()) else {
        return ExitCode::FAILURE;
    };
    let options = EngineOptions::new(environment.home.engines(), environment.engines());
    let engine = Engine::new(Kind::Docker, options);
    match runtime.block_on(engine.keep_ready()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// [`after`] a sandbox that lives on was made or started.
pub(super) fn after_living(record: &Record) {
    after(
        &record.provider,
        matches!(record.network, Some(Reach::Allowlist { .. })),
    );
}

/// Starts it after `provider` made a sandbox. Where it cannot be started, the next sandbox starts as slowly as the
/// first one.
pub(super) fn after(provider: &str, walled: bool) {
    if provider != Kind::Docker.name() || !walled {
        return;
    }
    let Ok(own) = std::env::current_exe() else {
        return;
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "it outlives this process: decision 0011"
    )]
    let mut command = Command::new(own);
    command.env_clear();
    for name in LASTING {
        #[expect(clippy::disallowed_methods, reason = "the user's own surroundings")]
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    // Nothing of it holds the user's directory or terminal.
    command
        .arg(WORD)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _ = detached::start(command);
}
