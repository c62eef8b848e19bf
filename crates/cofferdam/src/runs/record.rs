//! One run, as it is written down.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::agent::{AgentOptions, Usage};
use crate::names::{SandboxId, Slug};
use crate::path_json::{PathText, exact};
use crate::process::Exit;
use crate::registry::{Mode, Strategy};
use crate::run_id::RunId;

/// Of what is written now.
pub(crate) const VERSION: u32 = 1;

/// What was asked of an agent, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunRecord {
    pub(crate) version: u32,
    /// By which it is known; never given twice.
    pub id: RunId,
    /// The checkout that it was started for.
    #[serde(with = "exact")]
    pub repository: PathBuf,
    /// The sandbox that it ran in.
    pub sandbox: SandboxId,
    /// Its sandbox's name.
    pub name: Slug,
    /// The provider that made that sandbox.
    pub provider: String,
    /// The image that it was made from, where its provider has images. Absent in records of earlier builds.
    #[serde(default)]
    pub image: Option<String>,
    /// Where its files were.
    pub mode: Mode,
    /// Where its commits were to go.
    pub strategy: Strategy,
    /// The branch that the agent worked on.
    pub branch: String,
    /// The branch that was checked out.
    pub target: String,
    /// Where its sandbox had the repository.
    #[serde(with = "exact")]
    pub workdir: PathBuf,
    /// The agent's name; one that is none of ours is only shown.
    pub agent: String,
    /// As the agent names it; nothing where the agent chose.
    pub model: Option<String>,
    /// As the agent names it; nothing where the agent chose.
    pub effort: Option<String>,
    /// More arguments of the agent's program, for `command` the program and its own.
    pub arguments: Vec<PathText>,
    /// How the prompt begins, on one line.
    pub task: String,
    /// The run whose conversation it went on with.
    pub continues: Option<RunId>,
    /// Whether it went on in a copy, and not in place.
    pub fork: bool,
    /// What that conversation had cost before, in millionths of a US dollar.
    #[serde(default)]
    pub cost_before_micro_usd: u64,
    /// When it was planned.
    pub began: Timestamp,
    /// Where its log is, if it has one.
    pub log: Option<PathText>,
    /// In their order.
    pub iterations: Vec<RunIteration>,
    /// `None`: it goes on, or was interrupted.
    pub ended: Option<Ended>,
}

/// One start of the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunIteration {
    /// From 1.
    pub number: u32,
    /// How its program ended; nothing where it was killed for a bound, or never ran.
    pub exit: Option<Exit>,
    /// The agent's own conversation.
    pub session: Option<String>,
    /// What the agent used, as far as it said so.
    pub usage: Option<Usage>,
    /// How many files of its conversation were kept.
    pub kept: usize,
    /// How many bytes those files have together.
    pub kept_bytes: u64,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ended {
    /// When it ended.
    pub at: Timestamp,
    /// Why it is no success.
    pub error: Option<String>,
    /// The completion signal that ended it.
    pub completion: Option<String>,
    /// What became of the commits, in words; `None`: they are not home.
    pub landing: Option<String>,
    /// How many commits came home.
    pub commits: usize,
}

impl RunRecord {
    pub(super) fn is_readable(&self) -> bool {
        self.version <= VERSION
    }

    /// What the agent was started with.
    pub fn options(&self) -> AgentOptions {
        let arguments = self.arguments.iter().map(|PathText(path)| path.clone());
        let mut options = AgentOptions::with_arguments(arguments);
        options.model.clone_from(&self.model);
        options.effort.clone_from(&self.effort);
        options
    }

    /// All that it used.
    pub fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        for usage in self.iterations.iter().filter_map(|one| one.usage) {
            sum += usage;
        }
        sum
    }

    /// The conversation to go on with: of the last iteration that had one.
    pub fn conversation(&self) -> Option<(&str, &RunIteration)> {
        let mut known = self.iterations.iter().rev();
        known.find_map(|one| Some((one.session.as_deref()?, one)))
    }

    /// Whether files of that one were kept.
    pub fn has_kept(&self) -> bool {
        self.conversation().is_some_and(|(_, one)| one.kept > 0)
    }
}

impl RunIteration {
    pub(crate) fn new(
        number: u32,
        exit: Option<Exit>,
        session: Option<String>,
        usage: Option<Usage>,
    ) -> Self {
        Self {
            number,
            exit,
            session,
            usage,
            kept: 0,
            kept_bytes: 0,
        }
    }
}

impl Ended {
    pub(crate) fn now() -> Self {
        Self {
            at: Timestamp::now(),
            error: None,
            completion: None,
            landing: None,
            commits: 0,
        }
    }
}

/// Characters of a task.
const LONGEST: usize = 200;

/// How a text begins.
pub(crate) fn first_line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
    first.chars().take(LONGEST).collect()
}
