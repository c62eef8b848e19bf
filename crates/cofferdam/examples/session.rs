//! A sandbox that stays: programs, an agent, commits that come home in between, and another process that finds it again.
//!
//! In a clone of Cofferdam: `cargo run --example session -- DIRECTORY`, with a git repository that has a commit. The agent is a line
//! of the shell, so it takes no key and no network. The commits are on the branch `example` afterwards; before a
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
use cofferdam::session::living::Named;
use cofferdam::session::{
    Caller, NetworkOptions, PromptSource, Session, SessionExec, SessionOptions, Task,
};

const AGENT: &str = "cat >> NOTES.md; git commit -qam 'note it down'";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let repository = std::env::args_os().nth(1).ok_or("name a git repository")?;
    let user = std::env::home_dir().ok_or("there is no home directory")?;
    let mut caller = Caller::new(Home::new(user.join(".cofferdam")));
    caller.environment = std::env::vars_os().collect();
    caller.user_home = Some(user);
    Box::pin(session(caller, repository.as_ref())).await
}

pub(crate) async fn session(caller: Caller, repository: &Path) -> Result<(), Box<dyn Error>> {
    let strategy = BranchStrategy::Branch {
        branch: "example".parse()?,
        base: None,
    };
    let sandbox = BindMount::or_layers(Native::default(), strategy);
    let mut options = SessionOptions::new(repository, sandbox);
    options.name = Some("example".to_owned());
    options.network = NetworkOptions::None;

    let session = Session::create(&caller, &options).await?;
    let program = "echo Notes > NOTES.md; git add NOTES.md; git commit -qm 'begin notes'";
    let mut program = session
        .exec(SessionExec::new(["sh", "-c", program]))
        .await?;
    println!("the program ended: {:?}", program.wait().await?);
    println!("{}", session.collect().await?.landing);
    // It lives on without this process, until somebody closes it.
    session.detach();

    let named = Named::find(&caller, repository, "example").await?;
    let session = Session::open(&caller, named, &Native::default()).await?;
    let agent = AgentOptions::with_arguments(["sh", "-c", AGENT]);
    let mut task = Task::new(agent::by_name("command", agent)?);
    task.prompt = PromptSource::Inline("Write this down.\n".to_owned());
    println!("{}", session.agent(&task).await?.landing);
    // Refused where work would be lost by it.
    session.close(&Native::default()).await?;
    Ok(())
}
