//! What happens in a run, as typed events. Frontends show them; a callback that fails cannot stop
//! the run.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use serde::Serialize;

use crate::agent::AgentEvent;
use crate::git::land::Landing;
use crate::names::{SandboxId, Slug};
use crate::process::Exit;
use crate::session::hook_point::HookPoint;
use crate::session::mode_reason::ModeReason;

/// One event of a run. Text from the agent is as it was sent: sanitise before showing.
///
/// Not `#[non_exhaustive]`, as [`SessionError`](super::SessionError) is not, and for the same reason.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The plan stands; nothing has been made yet.
    Planned {
        /// By which the sandbox is known.
        id: SandboxId,
        /// By which people call it.
        name: Slug,
        /// The agent's name.
        agent: String,
        /// Who makes the sandbox.
        provider: String,
        /// What it is made from, where the provider has images.
        image: Option<String>,
        /// "head", "merge-to-head" or "branch".
        strategy: &'static str,
        /// "bind", "layer", "copy" or "inside".
        mode: &'static str,
        /// Why its files are where they are.
        why_mode: ModeReason,
        /// The branch that the agent works on.
        source_branch: String,
        /// The host's branch at the start.
        target_branch: String,
        /// Paths of the user's that differ from HEAD where the agent works (`head` alone): its commits
        /// may take them.
        uncommitted: usize,
        /// How often the agent is started at most.
        max_iterations: u32,
        /// Where the run's log will be, if it has one.
        #[serde(serialize_with = "crate::path_json::optional")]
        log: Option<PathBuf>,
    },
    /// A step begins: "worktree", "copies", "sandbox", "hooks", "collect", "land", "dispose" …
    Step {
        /// Its name, of which the list above has examples.
        step: &'static str,
    },
    /// How far a step is that takes long: so many of so many files, in so many milliseconds.
    Progress {
        /// Which one, as in [`Event::Step`].
        step: &'static str,
        /// Files that are done.
        done: u64,
        /// Files that there are.
        of: u64,
        /// Milliseconds since the step began.
        millis: u64,
    },
    /// The sandbox is up.
    SandboxReady {
        /// How long it took to come up, in milliseconds.
        millis: u64,
    },
    /// A command of the user's begins.
    HookStarted {
        /// Where in the life of a sandbox.
        #[serde(rename = "place")]
        point: HookPoint,
        /// As the user wrote it.
        command: String,
    },
    /// The line that a hook which takes a while is at; now and then, as it was printed.
    HookOutput {
        /// Where in the life of a sandbox.
        #[serde(rename = "place")]
        point: HookPoint,
        /// As the user wrote it.
        command: String,
        /// Without its line end.
        line: String,
    },
    /// A command of the user's has ended.
    HookFinished {
        /// Where in the life of a sandbox.
        #[serde(rename = "place")]
        point: HookPoint,
        /// As the user wrote it.
        command: String,
        /// How it ended.
        exit: Exit,
        /// Both streams as they came; of very much its beginning and its end.
        output: String,
    },
    /// The agent is started.
    IterationStarted {
        /// From 1.
        iteration: u32,
        /// How often it is started at most.
        of: u32,
        /// How long its prompt is.
        prompt_bytes: usize,
    },
    /// One parsed item of the agent's stream.
    Agent {
        /// From 1.
        iteration: u32,
        /// When it was read.
        at: Timestamp,
        /// What it said.
        #[serde(flatten)]
        item: AgentEvent,
    },
    /// A piece of the agent's standard error.
    AgentError {
        /// From 1.
        iteration: u32,
        /// Any text, without its line end.
        line: String,
    },
    /// No output for so many whole minutes.
    Idle {
        /// From 1.
        iteration: u32,
        /// Since its last output.
        minutes: u64,
    },
    /// The agent has ended, or was killed.
    IterationFinished {
        /// From 1.
        iteration: u32,
        /// Whether the agent's program ran at all.
        started: bool,
        /// `None`: Cofferdam ended it, or it never started.
        exit: Option<Exit>,
        /// Whether it gave a completion signal.
        completed: bool,
    },
    /// The wall refused a destination for the first time in this run. Bounded in number; texts are as the
    /// sandbox chose them.
    Refused {
        /// As in [`crate::wall::Refused::what`].
        what: String,
        /// Why, as a sentence fragment.
        reason: String,
        /// The text of the rule that would open it, if one should.
        opens: Option<String>,
    },
    /// Something the user should know; the run goes on.
    Notice(Notice),
    /// The commits were brought to where they go, or could not be.
    Landed {
        /// Where the commits are now.
        landing: Landing,
    },
}

/// Something the user should know that is no failure. Not `#[non_exhaustive]`, as [`Event`] is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "notice", rename_all = "snake_case")]
pub enum Notice {
    /// A prompt argument that the template does not use.
    UnusedArgument {
        /// The argument's name.
        name: String,
    },
    /// The sandbox has another name than the user gave, which has characters that no sandbox's name has.
    Renamed {
        /// As the user gave it.
        given: String,
        /// What it is called.
        name: Slug,
    },
    /// Uncommitted work of the user was recorded before the agent started.
    BeforeRecorded {
        /// The reference that has it.
        reference: String,
    },
    /// Uncommitted files of the user's that are not as they were before the agent; `reference` has them.
    UncommittedChanged {
        /// The reference that has them as they were.
        reference: String,
        /// Below the top.
        #[serde(serialize_with = "crate::path_json::lossy_list")]
        paths: Vec<PathBuf>,
    },
    /// The agent committed uncommitted work of the user's, whose files are as they were; `reference` has what was
    /// staged of it, too.
    UncommittedTaken {
        /// The reference that has it as it was.
        reference: String,
    },
    /// These are hidden, but tracked: what commits hold at them is in the history that goes in.
    HiddenInHistory {
        /// Below the top.
        #[serde(serialize_with = "crate::path_json::lossy_list")]
        paths: Vec<PathBuf>,
    },
    /// `hide` of the configuration names these, each with file and line, and nothing is at them.
    NothingHidden {
        /// Each as path, file and line.
        paths: Vec<String>,
    },
    /// Changed files that run on the user's machine when they open or build the project.
    Executes {
        /// Below the top, safe for a terminal.
        paths: Vec<String>,
    },
    /// New `.git` entries that the agent left in the tree were moved out of it.
    NestedGitMoved {
        /// Below the top, safe for a terminal.
        paths: Vec<String>,
        /// Where they are now.
        #[serde(serialize_with = "crate::path_json::lossy")]
        to: PathBuf,
    },
    /// The agent left its branch: its commits were found on another one, or on none.
    BranchSwitched {
        /// Where it was instead, in words.
        to: String,
    },
    /// `.cofferdam/.env` lists these without a value, and it is the repository's own file, not the
    /// user's: values of the caller's environment go only where the user says so.
    EnvironmentWithheld {
        /// Names of variables, never their values.
        names: Vec<String>,
    },
    /// `.cofferdam/.env` is the repository's own file, and it sets these, which could decide what runs or where
    /// the agent's secret goes: only the user does that.
    SteeringWithheld {
        /// Names of variables, never their values.
        names: Vec<String>,
    },
    /// The agent has no key and no login, and perhaps needs none.
    NoKey {
        /// The agent's name.
        agent: String,
        /// Each of them would be one.
        variables: Vec<String>,
        /// Why it may need none, as a fragment.
        why: String,
    },
    /// The agent's program renewed its login, and the new one is kept for later runs.
    LoginRenewed,
    /// `path` was asked for with `copy`, and went away before it could be copied.
    CopyMissing {
        /// Below the top.
        #[serde(serialize_with = "crate::path_json::lossy")]
        path: PathBuf,
    },
    /// Layers of files were wanted, and are not possible here: it has a directory of its own instead.
    NoLayers {
        /// Why, as a sentence fragment.
        why: String,
    },
    /// The run's log lacks something, as where its disk is full. The run goes on; of more that is lost nothing is told.
    LogIncomplete {
        /// What is lacking, as a sentence fragment.
        why: String,
    },
    /// So many paths of the user's checkout are in no commit, so the sandbox does not have them.
    UncommittedOutside {
        /// How many paths.
        paths: usize,
    },
    /// The sandbox has the host's network: no wall.
    NetworkOpen,
    /// There is no sandbox.
    OnHost,
    /// The run has a bound of this, `tokens` or `cost`, and the agent never says how much that is.
    BoundsNothing {
        /// The agent's name.
        agent: String,
        /// `tokens` or `cost`.
        what: &'static str,
    },
    /// The user's `config.yaml` cannot be used: none of its rules is in force, and nothing takes their place.
    ConfigUnread {
        /// What is wrong with it, as a sentence.
        text: String,
    },
    /// Something that the configuration names did not get into the sandbox; the rest did.
    NotSynced {
        /// What and why, as a sentence.
        text: String,
    },
    /// The repository's own `config.yaml` asks for so much that nobody has approved: it is left out.
    NotApproved {
        /// How many things.
        asked: usize,
    },
    /// So many of its `gate.checks` are asked for and nobody has approved them: branches move without them.
    ChecksNotApproved {
        /// How many checks.
        asked: usize,
    },
    /// Something about the network's rules could not be used; all others are in force.
    NetworkConfig {
        /// What and why, as a sentence.
        text: String,
    },
    /// Changed rules of the network are not in force yet, which takes a while.
    RulesSlow,
    /// Where the agent's program looks for its model unless it is told otherwise, and the network refuses that.
    ModelRefused {
        /// Where it looks, as people write it.
        what: String,
        /// Why it is refused, as a sentence fragment.
        reason: String,
        /// The rule that would let it through, where one would.
        opens: Option<String>,
    },
    /// More destinations were refused than are told one by one.
    MoreRefused {
        /// How many were told one by one.
        told: usize,
    },
    /// No gateway could be kept up. From now on the sandbox reaches nothing.
    NetworkLost {
        /// Why, as a sentence fragment.
        why: String,
    },
    /// The kernel has killed so many of the sandbox's processes, because its memory was used up.
    KilledForMemory {
        /// How many processes.
        processes: u64,
    },
    /// Another command writes files of the same repository for sandboxes: this one begins when it is done.
    OtherWrites,
    /// Something that no frontend treats apart.
    Other {
        /// A sentence.
        text: String,
    },
}

/// For events.
pub(super) fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Where events go: a function that is called in order and must be quick.
#[derive(Clone, Default)]
pub struct EventSink(Option<Arc<Sink>>);

type Sink = dyn Fn(&Event) + Send + Sync;

impl EventSink {
    /// `sink` is called from whatever task has the event, and should not take long.
    pub fn new(sink: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(sink)))
    }

    /// A sink that panics is ignored: a broken forwarder cannot stop a run.
    pub(crate) fn emit(&self, event: &Event) {
        if let Some(sink) = &self.0 {
            let _ = catch_unwind(AssertUnwindSafe(|| sink(event)));
        }
    }
}

impl fmt::Debug for EventSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "EventSink(set)"
        } else {
            "EventSink(none)"
        })
    }
}
