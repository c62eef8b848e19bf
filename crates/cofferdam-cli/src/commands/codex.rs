//! `cofferdam codex`.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::Args;
use cofferdam::agent::{self, AgentOptions};
use cofferdam::session::kept_login;

use super::agent_program::{self, Opened, Program};
use super::callback::{Callback, PORT};
use crate::environment::Environment;
use crate::error::CliError;
use crate::ui::output;

const PROGRAM: Program = Program {
    name: "codex",
    shown: "Codex",
    agent: "codex",
};
/// Ways to log in to which no browser comes back.
const ELSEWHERE: [&str; 3] = ["--device-auth", "--with-api-key", "status"];

/// Open Codex in a sandbox that stays
///
/// On this terminal, as often as wanted. Without a name in the dev sandbox of the checkout, where there is one and no option says what another is like; else in a sandbox called
/// `codex`, which is made as `cofferdam create` makes one. One that was stopped is started. What your configuration says is in it; `cofferdam collect`, `diff` and `merge` bring home what is committed.
///
/// Unlike `cofferdam run` it gives Codex neither your keys nor a login that is kept. `cofferdam codex -- login` logs in there: as long as
/// that command runs, the browser of this machine reaches it at http://localhost:1455/auth/callback, once, and nothing else comes in.
/// Such a login lasts as long as the sandbox; in a dev sandbox (`--branch`, or `cofferdam shell` and `codex` there) it stays for all
/// others, as one does that `cofferdam codex-init-config --auth` has brought from this machine.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    opened: Opened,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let callback = if comes_back(&arguments.opened.words) {
        let listening = Callback::listen().await.map_err(|error| CliError::Failed {
            message: format!("a login comes back at port {PORT} of this machine, and that cannot be listened at: {error}"),
            hint: format!(
                "end what listens there (`ss -ltnp sport = :{PORT}`), or log in by `cofferdam codex -- login --device-auth`"
            ),
        });
        Some(listening?)
    } else if arguments.opened.words.is_empty() && !has_login(environment)? {
        // It offers a login on its first screen. Where somebody else listens there, one without a browser is left.
        let listening = Callback::listen().await.inspect_err(|error| {
            output::note(&format!(
                "note: no login by a browser comes back, because port {PORT} of this machine cannot be listened at: {error}; without one: `cofferdam codex -- login --device-auth`\n"
            ));
        });
        listening.ok()
    } else {
        None
    };
    agent_program::open(&PROGRAM, arguments.opened, callback, environment).await
}

/// Whether one is kept, which it gets in a dev sandbox.
fn has_login(environment: &Environment) -> Result<bool, CliError> {
    let codex = agent::by_name(PROGRAM.agent, AgentOptions::default())?;
    Ok(kept_login(&environment.home, codex.as_ref()).is_file())
}

/// Whether it ends with a browser that comes back.
fn comes_back(words: &[OsString]) -> bool {
    let is_login = words.first().is_some_and(|word| word == "login");
    is_login
        && !words
            .iter()
            .any(|word| ELSEWHERE.iter().any(|one| word == OsStr::new(one)))
}
