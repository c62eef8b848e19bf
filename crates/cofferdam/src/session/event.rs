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
        id: SandboxId,
        name: Slug,
        agent: String,
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
        max_iterations: u32,
        #[serde(serialize_with = "crate::path_json::optional")]
        log: Option<PathBuf>,
    },
    /// A step begins: "worktree", "copies", "sandbox", "hooks", "collect", "land", "dispose" …
    Step {
        step: &'static str,
    },
    /// How far a step is that takes long: so many of so many files, in so many milliseconds.
    Progress {
        step: &'static str,
        done: u64,
        of: u64,
        millis: u64,
    },
    /// The sandbox is up.
    SandboxReady {
        millis: u64,
    },
    HookStarted {
        #[serde(rename = "place")]
        point: HookPoint,
        command: String,
    },
    /// The line that a hook which takes a while is at; now and then, as it was printed.
    HookOutput {
        #[serde(rename = "place")]
        point: HookPoint,
        command: String,
        line: String,
    },
    HookFinished {
        #[serde(rename = "place")]
        point: HookPoint,
        command: String,
        exit: Exit,
        /// Both streams as they came; of very much its beginning and its end.
        output: String,
    },
    IterationStarted {
        iteration: u32,
        of: u32,
        prompt_bytes: usize,
    },
    /// One parsed item of the agent's stream.
    Agent {
        iteration: u32,
        at: Timestamp,
        #[serde(flatten)]
        item: AgentEvent,
    },
    /// A piece of the agent's standard error.
    AgentError {
        iteration: u32,
        line: String,
    },
    /// No output for so many whole minutes.
    Idle {
        iteration: u32,
        minutes: u64,
    },
    IterationFinished {
        iteration: u32,
        /// Whether the agent's program ran at all.
        started: bool,
        /// `None`: Cofferdam ended it, or it never started.
        exit: Option<Exit>,
        completed: bool,
    },
    /// The wall refused a destination for the first time in this run. Bounded in number; texts are as the
    /// sandbox chose them.
    Refused {
        /// As in [`crate::wall::Refused::what`].
        what: String,
        reason: String,
        /// The text of the rule that would open it, if one should.
        opens: Option<String>,
    },
    /// Something the user should know; the run goes on.
    Notice(Notice),
    Landed {
        landing: Landing,
    },
}

/// Something the user should know that is no failure. Not `#[non_exhaustive]`, as [`Event`] is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "notice", rename_all = "snake_case")]
pub enum Notice {
    /// A prompt argument that the template does not use.
    UnusedArgument {
        name: String,
    },
    /// The sandbox has another name than the user gave, which has characters that no sandbox's name has.
    Renamed {
        given: String,
        name: Slug,
    },
    /// Uncommitted work of the user was recorded before the agent started.
    BeforeRecorded {
        reference: String,
    },
    /// Uncommitted files of the user's that are not as they were before the agent; `reference` has them.
    UncommittedChanged {
        reference: String,
        #[serde(serialize_with = "crate::path_json::lossy_list")]
        paths: Vec<PathBuf>,
    },
    /// The agent committed uncommitted work of the user's, whose files are as they were; `reference` has what was
    /// staged of it, too.
    UncommittedTaken {
        reference: String,
    },
    /// These are hidden, but tracked: what commits hold at them is in the history that goes in.
    HiddenInHistory {
        #[serde(serialize_with = "crate::path_json::lossy_list")]
        paths: Vec<PathBuf>,
    },
    /// `hide` of the configuration names these, each with file and line, and nothing is at them.
    NothingHidden {
        paths: Vec<String>,
    },
    /// Changed files that run on the user's machine when they open or build the project.
    Executes {
        paths: Vec<String>,
    },
    /// New `.git` entries that the agent left in the tree were moved out of it.
    NestedGitMoved {
        paths: Vec<String>,
        #[serde(serialize_with = "crate::path_json::lossy")]
        to: PathBuf,
    },
    /// The agent left its branch: its commits were found on another one, or on none.
    BranchSwitched {
        to: String,
    },
    /// `.cofferdam/.env` lists these without a value, and it is the repository's own file, not the
    /// user's: values of the caller's environment go only where the user says so.
    EnvironmentWithheld {
        names: Vec<String>,
    },
    /// `.cofferdam/.env` is the repository's own file, and it sets these, which could decide what runs or where
    /// the agent's secret goes: only the user does that.
    SteeringWithheld {
        names: Vec<String>,
    },
    /// The agent has no key and no login, and perhaps needs none.
    NoKey {
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
        #[serde(serialize_with = "crate::path_json::lossy")]
        path: PathBuf,
    },
    /// Layers of files were wanted, and are not possible here: it has a directory of its own instead.
    NoLayers {
        why: String,
    },
    /// The run's log lacks something, as where its disk is full. The run goes on; of more that is lost nothing is told.
    LogIncomplete {
        why: String,
    },
    /// So many paths of the user's checkout are in no commit, so the sandbox does not have them.
    UncommittedOutside {
        paths: usize,
    },
    /// The sandbox has the host's network: no wall.
    NetworkOpen,
    /// There is no sandbox.
    OnHost,
    /// The run has a bound of this, `tokens` or `cost`, and the agent never says how much that is.
    BoundsNothing {
        agent: String,
        what: &'static str,
    },
    /// The user's `config.yaml` cannot be used: none of its rules is in force, and nothing takes their place.
    ConfigUnread {
        text: String,
    },
    /// Something that the configuration names did not get into the sandbox; the rest did.
    NotSynced {
        text: String,
    },
    /// The repository's own `config.yaml` asks for so much that nobody has approved: it is left out.
    NotApproved {
        asked: usize,
    },
    /// So many of its `gate.checks` are asked for and nobody has approved them: branches move without them.
    ChecksNotApproved {
        asked: usize,
    },
    /// Something about the network's rules could not be used; all others are in force.
    NetworkConfig {
        text: String,
    },
    /// Changed rules of the network are not in force yet, which takes a while.
    RulesSlow,
    /// Where the agent's program looks for its model unless it is told otherwise, and the network refuses that.
    ModelRefused {
        what: String,
        reason: String,
        opens: Option<String>,
    },
    /// More destinations were refused than are told one by one.
    MoreRefused {
        told: usize,
    },
    /// No gateway could be kept up. From now on the sandbox reaches nothing.
    NetworkLost {
        why: String,
    },
    /// The kernel has killed so many of the sandbox's processes, because its memory was used up.
    KilledForMemory {
        processes: u64,
    },
    /// Another command writes files of the same repository for sandboxes: this one begins when it is done.
    OtherWrites,
    Other {
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
