//! Two tasks, side by side, each in a sandbox of its own and with a branch of its own. What is checked out does not move.
//!
//! In a clone of Cofferdam: `cargo run --example plan -- DIRECTORY`, with a git repository that has a commit. The agent is a line of
//! the shell, so it takes no key and no network. The commits are on `cofferdam/first` and `cofferdam/second` afterwards.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program reads its environment and prints; the library does neither"
)]

use std::error::Error;
use std::path::Path;

use cofferdam::agent::{self, AgentOptions};
use cofferdam::home::Home;
use cofferdam::plan::{self, Plan, PlanOptions, PlanSink, What};
use cofferdam::sandbox::native::Native;
use cofferdam::sandbox::{BindMount, BranchStrategy};
use cofferdam::session::{Caller, NetworkOptions, RunOptions, SessionOptions, Task};

/// In a file it would be `plan.yaml`, for `Plan::read`.
const PLAN: &str = "
tasks:
  - name: first
    prompt: Write this down.
  - name: second
    prompt: Write that down.
";
const AGENT: &str = "cat > NOTES.md; git add NOTES.md; git commit -qm 'note it down'";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let repository = std::env::args_os().nth(1).ok_or("name a git repository")?;
    let user = std::env::home_dir().ok_or("there is no home directory")?;
    let mut caller = Caller::new(Home::new(user.join(".cofferdam")));
    caller.environment = std::env::vars_os().collect();
    caller.user_home = Some(user);
    plan(caller, repository.as_ref()).await
}

pub(crate) async fn plan(caller: Caller, repository: &Path) -> Result<(), Box<dyn Error>> {
    let agent = agent::by_name("command", AgentOptions::with_arguments(["sh", "-c", AGENT]))?;
    // Each task's own branch takes the place of this strategy.
    let sandbox = BindMount::or_layers(Native::default(), BranchStrategy::MergeToHead);
    let mut each = RunOptions {
        caller,
        session: SessionOptions::new(repository, sandbox),
        task: Task::new(agent),
    };
    each.session.network = NetworkOptions::None;

    let plan = Plan::from_text(PLAN, "plan.yaml".as_ref(), repository)?;
    let mut options = PlanOptions::new(plan, each);
    options.events = PlanSink::new(|event| {
        if let What::Started { branch } = event.what {
            println!("{} begins, on {branch}", event.task);
        }
    });
    // What ended well is remembered: the same plan goes on where it was.
    let report = plan::run(options).await?;
    for task in report.tasks {
        println!("{}: {:?}, {} commits", task.name, task.end, task.commits);
    }
    Ok(())
}
