//! A worktree that outlives its run and its sandbox: a run fails in it, the sandbox ends, and another one goes on with what is there.
//!
//! In a clone of Cofferdam: `cargo run --example worktree -- DIRECTORY`, with a git repository that has a commit. The agents are lines
//! of the shell, so they take no key and no network. The commits are on the branch `example` afterwards; before a
//! second time, `cofferdam delete example`.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program reads its environment and prints; the library does neither"
)]

use std::error::Error;
use std::path::Path;

use cofferdam::agent::{self, AgentOptions};
use cofferdam::home::Home;
use cofferdam::sandbox::native::Native;
use cofferdam::sandbox::{BindMount, BranchStrategy};
use cofferdam::session::living::{self, Named};
use cofferdam::session::{
    AgentFailure, Caller, NetworkOptions, PromptSource, RunErrorKind, Session, SessionOptions, Task,
};

/// It gives up before it has committed anything.
const FIRST: &str = "cat > NOTES.md; exit 3";
const SECOND: &str = "git add NOTES.md; git commit -qm 'note it down'";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let repository = std::env::args_os().nth(1).ok_or("name a git repository")?;
    let user = std::env::home_dir().ok_or("there is no home directory")?;
    let mut caller = Caller::new(Home::new(user.join(".cofferdam")));
    caller.environment = std::env::vars_os().collect();
    caller.user_home = Some(user);
    Box::pin(worktree(caller, repository.as_ref())).await
}

pub(crate) async fn worktree(caller: Caller, repository: &Path) -> Result<(), Box<dyn Error>> {
    let strategy = BranchStrategy::Branch {
        branch: "example".parse()?,
        base: None,
    };
    // Never over layers, so that its files are a directory of this machine.
    let sandbox = BindMount::new(Native::default(), strategy);
    let mut options = SessionOptions::new(repository, sandbox);
    options.name = Some("example".to_owned());
    options.network = NetworkOptions::None;

    let session = Session::create(&caller, &options).await?;
    let worktree = session.record().worktree.clone();
    let worktree = worktree.ok_or("it has no worktree")?;
    match session.agent(&task(FIRST)?).await {
        Ok(report) => return Err(format!("it was to fail: {}", report.landing).into()),
        Err(error) => match error.kind {
            RunErrorKind::Agent {
                failure: AgentFailure::Exit { exit, .. },
                ..
            } => println!("the agent ended with {exit}"),
            // Not the agent's: the sandbox was lost, the prompt could not be read …
            other => return Err(other.into()),
        },
    }
    session.detach();

    // Every program ends, and the files stay.
    let named = Named::find(&caller, repository, "example").await?;
    living::stop(&caller, &named, &Native::default()).await?;
    let notes = std::fs::read_to_string(worktree.join("NOTES.md"))?;
    println!("{} has: {notes}", worktree.display());

    let session = living::start(&caller, named, &Native::default()).await?;
    println!("{}", session.agent(&task(SECOND)?).await?.landing);
    // With all of it committed the worktree goes, and the branch stays.
    session.close(&Native::default()).await?;
    Ok(())
}

fn task(script: &str) -> Result<Task, Box<dyn Error>> {
    let agent = AgentOptions::with_arguments(["sh", "-c", script]);
    let mut task = Task::new(agent::by_name("command", agent)?);
    task.prompt = PromptSource::Inline("Write this down.\n".to_owned());
    Ok(task)
}
