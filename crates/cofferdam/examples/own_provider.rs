//! A sandbox provider of your own: this one has the embedded one make its sandboxes, and writes a line to a log for each call.
//!
//! In a clone of Cofferdam: `cargo run --example own_provider -- DIRECTORY LOG`, with a git repository that has a commit, and a file that
//! may be new. The agent is a line of the shell, so it takes no key and no network. `sandbox::conformance` tries a provider.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program reads its environment and prints; the library does neither"
)]

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cofferdam::agent::{self, AgentOptions};
use cofferdam::home::Home;
use cofferdam::sandbox::native::Native;
use cofferdam::sandbox::{
    Abilities, Ability, BindMount, BindMountProvider, BranchStrategy, ExecRequest, Execution,
    Sandbox, SandboxError, SandboxSpec,
};
use cofferdam::session::{Caller, NetworkOptions, PromptSource, RunOptions, SessionOptions, Task};
use tokio_util::sync::CancellationToken;

const AGENT: &str = "cat >> NOTES.md; git add NOTES.md; git commit -qm 'note it down'";

#[derive(Debug, Clone)]
struct Log(PathBuf);

impl Log {
    fn line(&self, text: &str) -> Result<(), SandboxError> {
        let file = OpenOptions::new().create(true).append(true).open(&self.0);
        let written = file.and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()));
        written.map_err(|error| SandboxError::Start(format!("there is no log: {error}")))
    }
}

#[derive(Debug)]
struct Logged {
    inner: Native,
    log: Log,
}

#[async_trait]
impl BindMountProvider for Logged {
    fn name(&self) -> &'static str {
        "logged"
    }

    /// What is not here is refused before anything is made. With `Ability::Outlive` there would be `open` and `remove` too, with
    /// `Ability::Pause` what stops and goes on: that is all for `Session::create`, and nothing for a run.
    fn abilities(&self) -> Abilities {
        Abilities {
            networks: self.inner.abilities().networks,
            others: &[Ability::Mount],
        }
    }

    async fn create(
        &self,
        spec: &SandboxSpec,
        cancel: &CancellationToken,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        self.log
            .line(&format!("create in {}", spec.workdir.display()))?;
        let inner = self.inner.create(spec, cancel).await?;
        let log = self.log.clone();
        Ok(Arc::new(LoggedSandbox { inner, log }))
    }
}

#[derive(Debug)]
struct LoggedSandbox {
    inner: Arc<dyn Sandbox>,
    log: Log,
}

#[async_trait]
impl Sandbox for LoggedSandbox {
    async fn exec(&self, request: ExecRequest) -> Result<Box<dyn Execution>, SandboxError> {
        let program = request.arguments.first().map(|word| word.to_string_lossy());
        self.log
            .line(&format!("exec {}", program.unwrap_or_default()))?;
        self.inner.exec(request).await
    }

    /// It ends whatever becomes of the log.
    async fn close(&self) -> Result<(), SandboxError> {
        let logged = self.log.line("close");
        self.inner.close().await?;
        logged
    }

    fn process(&self) -> Option<BorrowedFd<'_>> {
        self.inner.process()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    let repository = words.next().ok_or("name a git repository")?;
    let log = words.next().ok_or("name a file for the log")?;
    let user = std::env::home_dir().ok_or("there is no home directory")?;
    let mut caller = Caller::new(Home::new(user.join(".cofferdam")));
    caller.environment = std::env::vars_os().collect();
    caller.user_home = Some(user);
    own_provider(caller, repository.as_ref(), log.as_ref()).await
}

pub(crate) async fn own_provider(
    caller: Caller,
    repository: &Path,
    log: &Path,
) -> Result<(), Box<dyn Error>> {
    let provider = Logged {
        inner: Native::default(),
        log: Log(log.to_owned()),
    };
    let agent = agent::by_name("command", AgentOptions::with_arguments(["sh", "-c", AGENT]))?;
    let sandbox = BindMount::new(provider, BranchStrategy::MergeToHead);
    let mut options = RunOptions {
        caller,
        session: SessionOptions::new(repository, sandbox),
        task: Task::new(agent),
    };
    options.session.network = NetworkOptions::None;
    options.task.prompt = PromptSource::Inline("Write this down.\n".to_owned());

    let report = cofferdam::run(options).await?;
    println!("{}; see {}", report.landing, log.display());
    Ok(())
}
