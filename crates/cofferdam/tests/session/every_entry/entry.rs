//! The entry points themselves: each lets an agent work by the same options, and says what came of it in the same words.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cofferdam::agent::AgentEvent;
use cofferdam::git::CommitLine;
use cofferdam::plan::{self, Failure, MAX_PROMPT, Plan, PlanOptions, PlanSink, TaskEnd, What};
use cofferdam::registry::RegistryError;
use cofferdam::sandbox::host::NoSandbox;
use cofferdam::sandbox::{BranchStrategy, Execution, Exit, SandboxError, TerminalSize};
use cofferdam::session::living::Named;
use cofferdam::session::manage::ManageError;
use cofferdam::session::{
    Attendant, Beside, Event, EventSink, HostOptions, Iteration, Landing, PromptSource,
    RunErrorKind, Session, SessionError,
};
use cofferdam::{RunError, RunOptions, RunReport};
use cofferdam_lab::sample::Sample;
use cofferdam_lab::way::Mode;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use crate::bad_input::{branch, processes_in};
use crate::living::{delete, find, open};
use crate::support::{Env, block_on, command, in_containers, in_mode, provider, target};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// `run`.
    Run,
    /// `Session::create`, then `Session::agent` and `Session::close`.
    Session,
    /// The same in a sandbox that another process has made: `Named::find` and `Session::open`.
    Found,
    /// The same in a sandbox that was just made, with somebody at the agent's terminal: `Task::attendant`.
    Attended,
    /// `interactive` with `RunOptions`.
    Interactive,
    /// `interactive` with `HostOptions`.
    OnHost,
    /// `plan::run` with one task.
    Plan,
}

pub(super) const ALL: [Entry; 7] = [
    Entry::Run,
    Entry::Session,
    Entry::Found,
    Entry::Attended,
    Entry::Interactive,
    Entry::OnHost,
    Entry::Plan,
];
pub(super) const IN_SANDBOX: [Entry; 6] = [
    Entry::Run,
    Entry::Session,
    Entry::Found,
    Entry::Attended,
    Entry::Interactive,
    Entry::Plan,
];
/// In which the agent's output is read, and its prompt is its standard input.
pub(super) const READ: [Entry; 4] = [Entry::Run, Entry::Session, Entry::Found, Entry::Plan];
/// Once each, where it is about the making.
pub(super) const MAKING: [Entry; 5] = [
    Entry::Run,
    Entry::Session,
    Entry::Interactive,
    Entry::OnHost,
    Entry::Plan,
];

impl Entry {
    /// Its sandbox goes on when its agent has ended.
    pub(super) fn stays(self) -> bool {
        matches!(self, Self::Session | Self::Found | Self::Attended)
    }

    pub(super) fn at_terminal(self) -> bool {
        matches!(self, Self::Attended | Self::Interactive | Self::OnHost)
    }
}

/// In which a hook of the host finds the files.
pub(super) const WITH_DIRECTORY: [Mode; 2] = [Mode::Bind, Mode::Copy];

/// The branch that all of them work on, but where a test has another strategy.
pub(super) const BRANCH: &str = "work";
/// What the sandbox and the task are called.
const NAME: &str = "box";
/// A line at which the user cancels.
pub(super) const STOP: &str = "stop me";
/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_mins(1);

/// By each of these entries, in a repository of its own. Of the modes one after the other has its turn, and the seed says which is the
/// first; `scripts/test --all` tries all of them. At the end nothing is left of any.
#[expect(
    clippy::print_stderr,
    reason = "shown where it fails: by which entry, and in which mode"
)]
pub(super) fn by_entries(entries: &[Entry], modes: &[Mode], check: impl Fn(&Trial)) {
    let test = std::thread::current();
    let mut sample = Sample::new(test.name().unwrap_or_default());
    let number = modes.len() as u64;
    let first = usize::try_from(sample.below(number)).unwrap();
    for (at, &entry) in entries.iter().enumerate() {
        // The same wherever sandboxes are.
        if entry == Entry::OnHost && in_containers() {
            continue;
        }
        // Without a sandbox there are no modes.
        let all = sample.is_everything() && entry != Entry::OnHost;
        let tried = if all { modes.len() } else { 1 };
        for &mode in modes.iter().cycle().skip(first + at).take(tried) {
            eprintln!("{entry:?} in mode {mode}; {}", sample.again());
            let trial = Trial::new(entry, mode);
            check(&trial);
            trial.env.assert_sound();
            trial.clear();
            until("something goes on", || processes_in(&trial.mark).is_empty());
            trial.env.assert_sound();
            trial.env.assert_no_state();
        }
    }
}

pub(super) fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A number for `sleep` that nothing else sleeps for.
pub(super) fn long_time() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(600);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{number}.{}", std::process::id())
}

/// One entry, and what it works on.
pub(super) struct Trial {
    pub(super) entry: Entry,
    mode: Mode,
    pub(super) env: Env,
    /// A variable with its value that all have which its agent starts.
    mark: String,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) error: Option<RunErrorKind>,
    /// How each start of the agent ended.
    pub(super) exits: Vec<Option<Exit>>,
    pub(super) completion: Option<String>,
    /// Subjects of those that it tells of, newest last.
    pub(super) commits: Vec<String>,
    pub(super) landing: Option<Landing>,
    pub(super) beside: Vec<Beside>,
    /// Files with work that is in no commit stay where they are.
    pub(super) uncommitted: bool,
    /// On which its agent worked.
    pub(super) branch: Option<String>,
}

impl Done {
    fn of(result: Result<RunReport, RunError>) -> Self {
        match result {
            Ok(report) => Self {
                error: None,
                exits: exits(&report.iterations),
                completion: report.completion,
                commits: subjects(&report.commits),
                landing: Some(report.landing),
                beside: report.beside,
                uncommitted: report.preserved_worktree.is_some(),
                branch: Some(report.source_branch),
            },
            Err(RunError { kind, kept }) => Self {
                error: Some(kind),
                exits: exits(&kept.iterations),
                completion: None,
                commits: subjects(&kept.commits),
                landing: kept.landing,
                beside: kept.beside,
                uncommitted: kept.preserved_worktree.is_some(),
                branch: kept.branch,
            },
        }
    }
}

fn exits(iterations: &[Iteration]) -> Vec<Option<Exit>> {
    iterations.iter().map(|one| one.exit).collect()
}

fn subjects(commits: &[CommitLine]) -> Vec<String> {
    commits.iter().map(|one| one.subject.clone()).collect()
}

impl Trial {
    fn new(entry: Entry, mode: Mode) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self {
            entry,
            mode,
            env: Env::new(),
            mark: format!("COFFERDAM_TEST_MARK=_{}_{number}_", std::process::id()),
        }
    }

    /// For a line of the shell as agent, on [`BRANCH`].
    pub(super) fn options(&self, script: &str) -> RunOptions {
        self.options_with(branch(BRANCH), script)
    }

    pub(super) fn options_with(&self, strategy: BranchStrategy, script: &str) -> RunOptions {
        let sandbox = in_mode(provider(), self.mode, strategy);
        let mut options = self.env.with(sandbox, command(&["/bin/sh", "-c", script]));
        options.session.name = Some(NAME.to_owned());
        let (name, value) = self.mark.split_once('=').unwrap();
        let marked = (name.into(), value.into());
        options.session.environment.extend([marked]);
        options.caller.events = EventSink::new(self.hears(&options.caller.cancel));
        options
    }

    /// Notes all that is said, and cancels where that is wanted.
    fn hears(&self, cancel: &CancellationToken) -> impl Fn(&Event) + Send + Sync + use<> {
        let (events, cancel) = (Arc::clone(&self.env.events), cancel.clone());
        move |event| {
            events.lock().unwrap().push(event.clone());
            if let Event::Agent { item, .. } = event
                && matches!(item, AgentEvent::Text { text } if text == STOP)
            {
                cancel.cancel();
            }
        }
    }

    pub(super) fn go(&self, options: RunOptions) -> Done {
        self.go_and_look(options, || ())
    }

    /// `look`: when the agent has ended, and a sandbox that stays has not.
    pub(super) fn go_and_look(&self, options: RunOptions, look: impl Fn()) -> Done {
        let user = Arc::new(User::new(&options.caller.cancel));
        block_on(async {
            let ended = match self.entry {
                Entry::Run => Box::pin(cofferdam::run(options)).await,
                Entry::Interactive => cofferdam::interactive(options, user).await,
                Entry::OnHost => cofferdam::interactive(on_host(options), user).await,
                Entry::Plan => self.planned(options).await,
                Entry::Session | Entry::Found => return self.in_session(options, look).await,
                Entry::Attended => {
                    let mut options = options;
                    options.task.attendant = Some(user);
                    return self.in_session(options, look).await;
                }
            };
            look();
            Done::of(ended)
        })
    }

    async fn in_session(&self, options: RunOptions, look: impl Fn()) -> Done {
        let caller = &options.caller;
        let mut session = match Session::create(caller, &options.session).await {
            Ok(session) => session,
            Err(error) => return Done::of(Err(error)),
        };
        if self.entry == Entry::Found {
            session.detach();
            let named = Named::find(caller, &self.env.repo, NAME).await.unwrap();
            session = Session::open(caller, named, &provider()).await.unwrap();
        }
        let mut done = Done::of(session.agent(&options.task).await);
        look();
        drop(session);
        // As another command: whoever has cancelled ends nothing more.
        let session = open(&self.env, NAME).await.unwrap();
        done.uncommitted = match session.close(&provider()).await {
            Ok(_) => false,
            Err(SessionError::Manage(error))
                if matches!(*error, ManageError::UncommittedWork { .. }) =>
            {
                true
            }
            Err(error) => panic!("{error}"),
        };
        done
    }

    async fn planned(&self, each: RunOptions) -> Result<RunReport, RunError> {
        let mut task = json!({ "name": NAME, "branch": BRANCH });
        if let BranchStrategy::Branch {
            base: Some(base), ..
        } = each.session.sandbox.strategy()
        {
            task["base"] = json!(base);
        }
        match &each.task.prompt {
            PromptSource::None => task["prompt"] = json!("work"),
            PromptSource::Inline(text) => {
                task["prompt"] = json!(&text[..text.len().min(MAX_PROMPT)]);
            }
            PromptSource::TemplateText {
                name,
                text,
                arguments,
            } => {
                std::fs::write(self.env.dir.path().join(name), text).unwrap();
                task["prompt_file"] = json!(name);
                task["args"] = json!(arguments);
            }
            PromptSource::Template { .. } => panic!("no test has one"),
        }
        let text = json!({ "tasks": [task] }).to_string();
        let plan = Plan::from_text(&text, "plan.json".as_ref(), self.env.dir.path()).unwrap();
        let hears = self.hears(&each.caller.cancel);
        let mut options = PlanOptions::new(plan, each);
        options.events = PlanSink::new(move |event| {
            if let What::Run(event) = event.what {
                hears(event);
            }
        });
        let mut report = plan::run(options).await.unwrap();
        let task = report.tasks.remove(0);
        match task.end {
            TaskEnd::Done => Ok(task.work.unwrap()),
            TaskEnd::Failed(Failure::Run(error)) => Err(*error),
            end => panic!("{end:?}"),
        }
    }

    /// What a branch has that is not checked out; one that is not there has nothing.
    pub(super) fn new_on(&self, branch: &str) -> Vec<String> {
        if self.env.git(&["branch", "--list", branch]).is_empty() {
            return Vec::new();
        }
        self.env.subjects(&format!("main..{branch}"))
    }

    /// These commits are what it tells of, and they are on [`BRANCH`].
    pub(super) fn expect_home(&self, done: &Done, subjects: &[&str]) {
        assert_eq!(done.commits, subjects, "{done:?}");
        assert_eq!(self.new_on(BRANCH), subjects, "{done:?}");
        let landed =
            matches!(&done.landing, Some(Landing::Landed { branch, .. }) if branch == BRANCH);
        assert!(landed, "{done:?}");
    }

    /// Another command would find it.
    pub(super) fn lives(&self) -> bool {
        block_on(find(&self.env, NAME)).is_ok()
    }

    /// Its user lets go of whatever there is of it.
    pub(super) fn clear(&self) {
        if self.lives() {
            block_on(delete(&self.env, NAME));
            return;
        }
        match target(&self.env, &NAME).try_delete(true) {
            Ok(_) | Err(ManageError::Registry(RegistryError::Unknown { .. })) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// The same without a sandbox.
fn on_host(options: RunOptions) -> HostOptions {
    let RunOptions {
        caller,
        session,
        task,
    } = options;
    let mut host = HostOptions::new(caller, session.repository, task);
    host.sandbox = NoSandbox::new(session.sandbox.strategy());
    host.name = session.name;
    host.worktree_ready = session.hooks.host_worktree_ready;
    host.environment = session.environment;
    host
}

/// Who sits at the terminal: types nothing, and cancels where that is wanted.
#[derive(Debug)]
struct User {
    seen: Mutex<Vec<u8>>,
    cancel: CancellationToken,
}

impl User {
    fn new(cancel: &CancellationToken) -> Self {
        Self {
            seen: Mutex::default(),
            cancel: cancel.clone(),
        }
    }

    fn sees(&self, shown: &[u8]) {
        let mut seen = self.seen.lock().unwrap();
        seen.extend_from_slice(shown);
        if seen.windows(STOP.len()).any(|part| part == STOP.as_bytes()) {
            self.cancel.cancel();
        }
    }
}

#[async_trait]
impl Attendant for User {
    fn size(&self) -> TerminalSize {
        TerminalSize {
            rows: 24,
            columns: 80,
        }
    }

    async fn attend(&self, mut execution: Box<dyn Execution>) -> Result<Exit, SandboxError> {
        let terminal = execution.take_terminal();
        let mut terminal = terminal.ok_or_else(|| SandboxError::Gone("no terminal".into()))?;
        let looks = async {
            let mut shown = [0; 4096];
            // What it leaves running may have the terminal open for ever, so nobody waits for the end of this.
            while let Ok(got @ 1..) = terminal.output.read(&mut shown).await {
                self.sees(&shown[..got]);
            }
            std::future::pending().await
        };
        tokio::select! {
            exit = execution.wait() => exit,
            never = looks => never,
        }
    }
}
