//! What the others get wrong, done right: it compiles.

use std::sync::Arc;

use cofferdam::{RunOptions, interactive};
use cofferdam::agent::{self, AgentOptions};
use cofferdam::home::Home;
use cofferdam::names::{SandboxId, Slug};
use cofferdam::sandbox::native::{Native, NativeOptions};
use cofferdam::sandbox::{
    BindMount, BranchStrategy, Contained, CopyStrategy, ExecRequest, Isolated, IsolatedProvider,
    Listed, PrivateCopy, SandboxSpec, Status, Stopping,
};
use cofferdam::session::living::Condition;
use cofferdam::session::{Attendant, Caller, HostOptions, SessionExec, SessionOptions, Task};

fn with(provider: impl IsolatedProvider + 'static) -> Isolated {
    Isolated::new(provider, CopyStrategy::MergeToHead)
}

/// A person works in any sandbox, and in none.
fn attended(isolated: Isolated, bind: BindMount, task: Task, person: Arc<dyn Attendant>) {
    for sandbox in [Contained::from(isolated), bind.into()] {
        let agent = Arc::clone(&task.agent);
        let options = RunOptions::new(Home::new("/h"), "/r", agent, sandbox);
        drop(interactive(options, Arc::clone(&person)));
    }
    let host = HostOptions::new(Caller::new(Home::new("/h")), "/r", task);
    drop(interactive(host, person));
}

/// What a provider from outside is asked with, and what it answers.
fn asked(id: SandboxId, slug: Slug) -> (SandboxSpec, ExecRequest, Status, Listed) {
    let mut spec = SandboxSpec::new(id, slug, "host", "/work");
    spec.limits.processes = None;
    let mut request = ExecRequest::new(["true"]);
    request.stdin = true;
    let mut status = Status::new(Stopping::Freezer);
    status.paused = true;
    (spec, request, status, Listed::new(1, ["true"]))
}

fn word(condition: Condition) -> &'static str {
    match condition {
        Condition::Stopped => "stopped",
        _ => "alive",
    }
}

fn main() {
    let native = || Native::new(NativeOptions::default());
    PrivateCopy::new(native(), CopyStrategy::MergeToHead);
    let sandbox = BindMount::new(native(), BranchStrategy::Head);
    let _: Contained = sandbox.into();
    let sandbox = BindMount::new(native(), BranchStrategy::MergeToHead);
    let agent = agent::by_name("command", AgentOptions::default()).unwrap();
    Task::new(Arc::clone(&agent));
    Caller::new(Home::new("/h"));
    SessionOptions::new("/r", sandbox.clone());
    SessionExec::new(["true"]);
    RunOptions::new(Home::new("/h"), "/r", agent, sandbox);
}
