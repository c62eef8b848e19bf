//! What a run is asked to do. Plain values: nothing here is read from the process environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::attendant::Attendant;
use super::budget::Budget;
use super::event::EventSink;
use super::network_options::NetworkOptions;
use super::wanted::Output;
use crate::agent::AgentProvider;
use crate::git::{Git, Identity};
use crate::home::Home;
use crate::published::PublishedPort;
use crate::registry::{DevSandbox, ExtraMount};
use crate::run_id::RunId;
use crate::runs::{RunIteration, RunRecord};
use crate::sandbox::{Contained, Limits};

/// Where the prompt comes from.
#[derive(Debug, Clone, Default)]
pub enum PromptSource {
    /// The agent gets an empty prompt.
    #[default]
    None,
    /// Passed as it is: nothing is substituted or expanded (S2-25).
    Inline(String),
    /// A template file with its arguments (S2-26).
    Template {
        /// The template's file.
        path: PathBuf,
        /// What is given for each name.
        arguments: BTreeMap<String, String>,
    },
    /// As a template file, of which the caller has the text already.
    TemplateText {
        /// What messages call it.
        name: PathBuf,
        /// The template.
        text: String,
        /// What is given for each name.
        arguments: BTreeMap<String, String>,
    },
}

/// One hook: a line for `sh -c`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Hook {
    /// As `sh -c` takes it.
    pub command: String,
    /// Default 60 s. Passing it fails the step.
    pub timeout: Duration,
}

impl Hook {
    /// It may take 60 s.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            timeout: Duration::from_secs(60),
        }
    }
}

/// Hooks by place and moment, in the order of S2-20. A hook that fails or times out fails the step.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Hooks {
    /// On the host, one after the other, in the worktree, before any sandbox exists.
    pub host_worktree_ready: Vec<Hook>,
    /// On the host, beside the sandbox's own, before the first agent starts.
    pub host_sandbox_ready: Vec<Hook>,
    /// In the sandbox, as its agent user.
    pub sandbox_ready: Vec<Hook>,
}

/// More than any work takes that a person waits for.
const COLLECT_LIMIT: Duration = Duration::from_secs(600);
const CHECK_LIMIT: Duration = Duration::from_hours(1);

/// Bounds of the steps that are not the agent's. Passing one fails the run and loses nothing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Timeouts {
    /// Copying `copy` into the worktree. Default 60 s.
    pub copy: Duration,
    /// The provider's `create`. Default 120 s.
    pub sandbox_start: Duration,
    /// One shell expression of a prompt template. Default 30 s.
    pub expression: Duration,
    /// Bringing commits home, all of it. Default 600 s.
    pub collect: Duration,
    /// The provider's `close`, which is bounded by itself: this is for one that is not. Default 12 s.
    pub close: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            copy: Duration::from_secs(60),
            sandbox_start: Duration::from_secs(120),
            expression: Duration::from_secs(30),
            collect: COLLECT_LIMIT,
            close: Duration::from_secs(12),
        }
    }
}

/// Where the run log goes.
#[derive(Debug, Clone, Default)]
pub enum RunLog {
    /// `<repository>/.cofferdam/logs/<branch>[-<name>].log`, appended.
    #[default]
    Default,
    /// Into this file, which is made.
    File(PathBuf),
    /// Nowhere.
    None,
}

/// How much a run log keeps, in bytes; of one run head and tail. Beyond twice the tail after the head the middle is left
/// out, and a line says how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// Default 8 MiB.
    pub head: u64,
    /// Default 8 MiB.
    pub tail: u64,
    /// Many runs write to one log of [`RunLog::Default`]: one that is larger when a run starts is set aside, in the
    /// place of the one before. Default 64 MiB.
    pub file: u64,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self {
            head: 8 << 20,
            tail: 8 << 20,
            file: 64 << 20,
        }
    }
}

impl LogLimits {
    /// The most that one run takes, but for its last line.
    pub fn largest(self) -> u64 {
        self.head.saturating_add(self.tail.saturating_mul(2))
    }
}

/// On whose behalf something is done: their directory, their environment, and where their events and orders come from
/// and go to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Caller {
    /// Cofferdam's own directory.
    pub home: Home,
    /// Which git is asked, and how.
    pub git: Git,
    /// Only names that the agent declares or `.cofferdam/.env` lists are taken from it.
    pub environment: BTreeMap<OsString, OsString>,
    /// The user's home, if they have one.
    pub user_home: Option<PathBuf>,
    /// Who hears of what happens.
    pub events: EventSink,
    /// First stage: the agent's tree is ended, commits are collected, everything is disposed.
    pub cancel: CancellationToken,
    /// Second stage: collecting is cut short too; what it would have taken stays in the state
    /// directory for `gc`.
    pub abandon: CancellationToken,
    /// Bringing home the commits of a sandbox that lives on, all of it; its programs stand still meanwhile. Default 600 s.
    /// A run has [`Timeouts::collect`].
    pub collect_limit: Duration,
    /// The longest that one command of `gate.checks` takes. Default 1 h.
    pub check_limit: Duration,
    /// What watches the checkout of a sandbox that lives on in it. Without one such a sandbox is refused.
    pub watcher: Option<Watcher>,
}

/// A program that is started, with the id of a sandbox as its last argument, to call [`super::watch`] with it. It has a
/// socket as its standard input, and outlives its starter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Watcher {
    /// The program's file.
    pub program: PathBuf,
    /// What stands before the sandbox's id.
    pub arguments: Vec<OsString>,
    /// All that it gets of variables.
    pub environment: BTreeMap<OsString, OsString>,
}

impl Watcher {
    /// Without further arguments and without variables.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            ..Self::default()
        }
    }
}

impl Caller {
    /// With an empty environment, the `git` of the caller's `PATH`, and nobody who listens.
    pub fn new(home: Home) -> Self {
        Self {
            home,
            git: Git::new("git"),
            environment: BTreeMap::new(),
            user_home: None,
            events: EventSink::default(),
            cancel: CancellationToken::new(),
            abandon: CancellationToken::new(),
            collect_limit: COLLECT_LIMIT,
            check_limit: CHECK_LIMIT,
            watcher: None,
        }
    }
}

/// A sandbox and what is in it, whatever is done there later.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionOptions {
    /// A directory in the repository to work on.
    pub repository: PathBuf,
    /// What it is, and where its commits go.
    pub sandbox: Contained,
    /// Names the sandbox, its temporary branch and its log.
    pub name: Option<String>,
    /// How long each step may take.
    pub timeouts: Timeouts,
    /// Commands of the user's, at points of its life.
    pub hooks: Hooks,
    /// Paths below the repository's top to copy into a worktree (not with `head`). One that is not
    /// there is an error.
    pub copy: Vec<PathBuf>,
    /// Paths below the repository's top that the sandbox does not see, whatever the strategy.
    pub hide: Vec<PathBuf>,
    /// Directories and files of this machine that it sees beside its workspace. [`super::parse_mount`] reads one. Their owner
    /// answers for what is in them: no commit takes anything from there.
    pub mounts: Vec<ExtraMount>,
    /// A person is to live in it: it is called by what it is for ([`super::dev`]), its programs work in the checkout
    /// ([`crate::sandbox::BranchStrategy::Head`]), and it has the volumes of its repository.
    pub dev: Option<DevSandbox>,
    /// Ports of this machine's loopback that lead into it while it runs, of one that a person lives in.
    pub ports: Vec<PublishedPort>,
    /// Nothing is made: somebody asks what would be.
    pub(super) only_asked: bool,
    /// There is no sandbox at all ([`super::HostOptions`]).
    pub(super) on_host: bool,
    /// A configuration names them: one that cannot be published is told ([`super::Session::unpublished`]), and refuses nothing.
    pub ports_configured: bool,
    /// A command of the shell that runs inside once, before anybody works there, where the configuration has no `setup`.
    pub setup: Option<String>,
    /// Given to the programs inside as they are.
    pub environment: BTreeMap<OsString, OsString>,
    /// Author of the agent's commits. `None`: looked up in the user's git configuration.
    pub identity: Option<Identity>,
    /// How much it may use.
    pub limits: Limits,
    /// What it may reach.
    pub network: NetworkOptions,
}

impl SessionOptions {
    /// A sandbox for this repository, with everything else as the defaults say.
    pub fn new(repository: impl Into<PathBuf>, sandbox: impl Into<Contained>) -> Self {
        Self {
            repository: repository.into(),
            sandbox: sandbox.into(),
            name: None,
            timeouts: Timeouts::default(),
            hooks: Hooks::default(),
            copy: Vec::new(),
            hide: Vec::new(),
            mounts: Vec::new(),
            dev: None,
            ports: Vec::new(),
            only_asked: false,
            on_host: false,
            ports_configured: false,
            setup: None,
            environment: BTreeMap::new(),
            identity: None,
            limits: Limits::default(),
            network: NetworkOptions::default(),
        }
    }
}

/// What an agent is asked to do.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Task {
    /// Which agent is asked.
    pub agent: Arc<dyn AgentProvider>,
    /// What it is asked.
    pub prompt: PromptSource,
    /// Stands below the prompt, as it is: nothing in it is a placeholder or a command.
    pub attached: Option<String>,
    /// How often it is started at most.
    pub max_iterations: NonZeroU32,
    /// Any of them in a final message of the agent ends the run.
    pub completion_signals: Vec<String>,
    /// No output for so long ends the agent with an error. Any byte resets it.
    pub idle_timeout: Duration,
    /// How long an agent may go on after it signalled completion.
    pub completion_grace: Duration,
    /// A login file of the agent, kept for this and later runs. `None`: the one that is kept, if any.
    pub login: Option<PathBuf>,
    /// Where its log goes.
    pub log: RunLog,
    /// How long its log may be.
    pub log_limits: LogLimits,
    /// An earlier conversation of the same agent that this one goes on with: in its first iteration and in those after it.
    pub resume: Option<Resume>,
    /// What the agent is to give back at the end.
    pub output: Option<Output>,
    /// What it may use.
    pub budget: Budget,
    /// A person works with the agent's own terminal interface: it is started once, no output of its is read, and the prompt may be empty.
    /// What is about iterations, output and bounds does not count.
    pub attendant: Option<Arc<dyn Attendant>>,
    /// How long altogether a run waits where the model says "not now" ([`crate::agent::Quota`]), to go on after that. `None`: that is an error.
    pub wait_for_quota: Option<Duration>,
}

/// An agent's conversation, and what is kept of it.
///
/// ```no_run
/// # async fn example(mut options: cofferdam::RunOptions) -> Result<(), Box<dyn std::error::Error>> {
/// use cofferdam::session::Resume;
///
/// let (home, repository) = (&options.caller.home, &options.session.repository);
/// let (run, _) = cofferdam::runs::find(home, repository, "fix")?;
/// options.task.resume = Resume::of(home, &run);
/// let report = cofferdam::run(options).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Resume {
    /// By which the agent's program knows it.
    pub session: String,
    /// A directory with what was kept of it. `None`: it is in the sandbox already.
    pub files: Option<PathBuf>,
    /// Files of it were kept once: a sandbox without them is none in which it could go on.
    pub kept: bool,
    /// Goes on with a copy, and leaves the conversation as it is.
    pub fork: bool,
    /// The run that had it.
    pub run: Option<RunId>,
    /// What it had cost until then, in millionths of a US dollar.
    pub cost_micro_usd: u64,
}

impl Resume {
    /// The last conversation of a run. `None`: it had none.
    pub fn of(home: &Home, run: &RunRecord) -> Option<Self> {
        let (session, iteration) = run.conversation()?;
        let same = |one: &&RunIteration| one.session.as_deref() == Some(session);
        let costs = run.iterations.iter().filter(same);
        let own: u64 = costs.filter_map(|one| one.usage?.cost_micro_usd).sum();
        Some(Self {
            session: session.to_owned(),
            files: run.conversation_at(home, iteration.number),
            kept: iteration.kept > 0,
            fork: false,
            run: Some(run.id),
            cost_micro_usd: run.cost_before_micro_usd.saturating_add(own),
        })
    }
}

impl Task {
    /// With the defaults of the documents.
    pub fn new(agent: Arc<dyn AgentProvider>) -> Self {
        Self {
            agent,
            prompt: PromptSource::None,
            attached: None,
            max_iterations: NonZeroU32::MIN,
            completion_signals: vec![COMPLETION_SIGNAL.to_owned()],
            idle_timeout: Duration::from_secs(600),
            completion_grace: Duration::from_secs(60),
            login: None,
            log: RunLog::Default,
            log_limits: LogLimits::default(),
            resume: None,
            output: None,
            attendant: None,
            budget: Budget::default(),
            wait_for_quota: None,
        }
    }
}

/// One run: a task in a sandbox of its own.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// On whose behalf.
    pub caller: Caller,
    /// The sandbox.
    pub session: SessionOptions,
    /// What is to be done there.
    pub task: Task,
}

/// The signal that agents are told to print when nothing is left to do (S2-17).
pub const COMPLETION_SIGNAL: &str = "<promise>COMPLETE</promise>";

impl RunOptions {
    /// A run with the defaults of the documents.
    pub fn new(
        home: Home,
        repository: impl Into<PathBuf>,
        agent: Arc<dyn AgentProvider>,
        sandbox: impl Into<Contained>,
    ) -> Self {
        Self {
            caller: Caller::new(home),
            session: SessionOptions::new(repository, sandbox),
            task: Task::new(agent),
        }
    }
}
