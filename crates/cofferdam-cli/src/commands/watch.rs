//! The process that watches a checkout in which a sandbox lives: it is there as long as the sandbox, and nobody starts it but the
//! library.

use std::process::ExitCode;

use cofferdam::names::SandboxId;
use cofferdam::session;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::environment::{Environment, WATCH};
use crate::input;

/// Whose checkout this process is to watch, where it is that process.
pub(crate) fn meant() -> Option<SandboxId> {
    let mut words = std::env::args().skip(1);
    let is_meant = words.next().is_some_and(|word| word == WATCH);
    let id = words.next().filter(|_| is_meant)?;
    id.parse().ok()
}

/// What it does. It says how it goes to whoever started it, and what it sees to the next command.
pub(crate) fn run(id: SandboxId) -> ExitCode {
    // Every connection that a port of the host's carries takes some, and without any left nothing of the checkout would be seen.
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Where that cannot be it is as it was.
    let _ = setrlimit(Resource::Nofile, most);
    let (Ok(environment), Ok(runtime)) = (Environment::read(None), crate::runtime()) else {
        return ExitCode::FAILURE;
    };
    let Ok(starter) = input::socket() else {
        return ExitCode::FAILURE;
    };
    match runtime.block_on(session::watch(&environment.caller(), id, starter)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
