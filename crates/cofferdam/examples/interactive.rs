//! An agent at its own terminal interface. Who has the terminal is an `Attendant`: this one types a line and prints what it sees. A
//! person's passes on keys, output and size, as `crates/cofferdam-cli/src/commands/attach.rs` does.
//!
//! In a clone of Cofferdam: `cargo run --example interactive -- DIRECTORY`, with a git repository that has a commit. With
//! `--no-sandbox` behind it the agent works on this machine itself. It is a line of the shell, so it takes no key and no network.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program reads its environment and prints; the library does neither"
)]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use cofferdam::agent::{self, AgentOptions};
use cofferdam::home::Home;
use cofferdam::process::Exit;
use cofferdam::sandbox::native::Native;
use cofferdam::sandbox::{BindMount, BranchStrategy, Execution, SandboxError, TerminalSize};
use cofferdam::session::{
    Attendant, Caller, HostOptions, Interactive, NetworkOptions, RunOptions, SessionOptions, Task,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const AGENT: &str = "read line; echo $line >> NOTES.md; git add NOTES.md; git commit -qm noted";

#[derive(Debug)]
struct Typist;

#[async_trait::async_trait]
impl Attendant for Typist {
    fn size(&self) -> TerminalSize {
        TerminalSize {
            rows: 24,
            columns: 80,
        }
    }

    async fn attend(&self, mut execution: Box<dyn Execution>) -> Result<Exit, SandboxError> {
        let gone = |error: std::io::Error| SandboxError::Gone(error.to_string());
        let terminal = execution.take_terminal();
        let mut terminal = terminal.ok_or_else(|| SandboxError::Gone("no terminal".into()))?;
        terminal
            .input
            .write_all(b"Write this down.\r")
            .await
            .map_err(gone)?;
        let mut shown = Vec::new();
        let (exit, _) = tokio::join!(execution.wait(), terminal.output.read_to_end(&mut shown));
        println!("{}", String::from_utf8_lossy(&shown));
        exit
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    let repository = words.next().ok_or("name a git repository")?;
    let user = std::env::home_dir().ok_or("there is no home directory")?;
    let mut caller = Caller::new(Home::new(user.join(".cofferdam")));
    caller.environment = std::env::vars_os().collect();
    caller.user_home = Some(user);
    let on_host = words.next().is_some_and(|word| word == "--no-sandbox");
    interactive(caller, repository.as_ref(), on_host).await
}

pub(crate) async fn interactive(
    caller: Caller,
    repository: &Path,
    on_host: bool,
) -> Result<(), Box<dyn Error>> {
    let agent = agent::by_name("command", AgentOptions::with_arguments(["sh", "-c", AGENT]))?;
    let task = Task::new(agent);
    let options: Interactive = if on_host {
        // In the checkout itself, with all that its user has.
        HostOptions::new(caller, repository, task).into()
    } else {
        let sandbox = BindMount::or_layers(Native::default(), BranchStrategy::MergeToHead);
        let mut session = SessionOptions::new(repository, sandbox);
        session.network = NetworkOptions::None;
        RunOptions {
            caller,
            session,
            task,
        }
        .into()
    };
    let report = cofferdam::interactive(options, Arc::new(Typist)).await?;
    println!("{:?}, {}", report.iterations[0].exit, report.landing);
    Ok(())
}
