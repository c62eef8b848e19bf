//! One agent in a sandbox of its own; what it commits lands on the branch that is checked out.
//!
//! In a clone of Cofferdam: `cargo run --example run -- DIRECTORY`, with a git repository that has a commit. The agent is a line of
//! the shell, so it takes no key and no network.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program reads its environment and prints; the library does neither"
)]

use std::error::Error;
use std::path::Path;

use cofferdam::agent::{self, AgentEvent, AgentOptions};
use cofferdam::home::Home;
use cofferdam::sandbox::native::Native;
use cofferdam::sandbox::{BindMount, BranchStrategy};
use cofferdam::session::{
    Caller, Event, EventSink, NetworkOptions, PromptSource, RunOptions, SessionOptions, Task,
};

/// Any program is an agent: its prompt is on its standard input, and its work is what it commits.
const AGENT: &str = "cat >> NOTES.md; git add NOTES.md; git commit -qm 'note it down'; echo done";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let repository = std::env::args_os().nth(1).ok_or("name a git repository")?;
    let user = std::env::home_dir().ok_or("there is no home directory")?;
    let mut caller = Caller::new(Home::new(user.join(".cofferdam")));
    caller.environment = std::env::vars_os().collect();
    caller.user_home = Some(user);
    run(caller, repository.as_ref()).await
}

pub(crate) async fn run(caller: Caller, repository: &Path) -> Result<(), Box<dyn Error>> {
    let agent = agent::by_name("command", AgentOptions::with_arguments(["sh", "-c", AGENT]))?;
    // No daemon and no image; its files lie over those of the commit, where the machine can do that.
    let sandbox = BindMount::or_layers(Native::default(), BranchStrategy::MergeToHead);
    let mut options = RunOptions {
        caller,
        session: SessionOptions::new(repository, sandbox),
        task: Task::new(agent),
    };
    options.caller.events = EventSink::new(|event| {
        if let Event::Agent { item, .. } = event
            && let AgentEvent::Text { text } = item
        {
            println!("  | {text}");
        }
    });
    options.session.network = NetworkOptions::None;
    options.task.prompt = PromptSource::Inline("Write this down.\n".to_owned());

    match cofferdam::run(options).await {
        Ok(report) => println!("{}\n{}", report.landing, report.diffstat),
        // An error keeps what was made until then: branch, commits, worktree.
        Err(error) => return Err(format!("{error}; kept: {:?}", error.kept).into()),
    }
    Ok(())
}
