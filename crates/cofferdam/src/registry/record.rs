//! What is kept of a sandbox on disk: everything that is needed to collect and dispose of it, by whoever comes next.

use std::path::PathBuf;

use cofferdam_wall::{Origin, Rule};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::git::Oid;
use crate::git::land::Landing;
use crate::home::Home;
use crate::names::{BranchName, SandboxId, Slug, VolumeName};
use crate::network::NetworkKind;
use crate::path_json::{self, PathText};
use crate::published::PublishedPort;

/// The record format that this version writes. Older ones stay readable ([`super::format`]).
pub const VERSION: u32 = 2;

/// How the work of a sandbox relates to branches, with everything needed to bring it home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Strategy {
    /// In the checkout itself: commits are where the user sees them.
    Head,
    /// On a temporary branch, which is merged into `target`.
    MergeToHead {
        /// The branch that was checked out at the start.
        target: BranchName,
    },
    /// On a branch of the user's choice, and nowhere else.
    Branch,
}

impl Strategy {
    /// As in files and on the command line: "head", "merge-to-head", "branch".
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::MergeToHead { .. } => "merge-to-head",
            Self::Branch => "branch",
        }
    }
}

/// Where the files are that the agent works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A host directory is mounted.
    Bind,
    /// A private copy in the state directory.
    Copy,
    /// Over a tree that all sandboxes share: what is changed is in the state directory.
    Layer,
    /// In the provider's own file system: nothing of the agent's work is in the state directory.
    Inside,
}

impl Mode {
    /// As in files: "bind", "layer", "copy", "inside".
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Copy => "copy",
            Self::Layer => "layer",
            Self::Inside => "inside",
        }
    }

    /// The files are the sandbox's own, and on this machine: what is uncommitted there is nowhere else.
    pub fn owns_files(self) -> bool {
        matches!(self, Self::Copy | Self::Layer)
    }
}

/// How long a sandbox lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lifetime {
    /// As long as the command that made it: a free lock says that it died.
    #[default]
    Command,
    /// Until somebody deletes it: a free lock says only that nobody keeps its place now.
    UntilDeleted,
}

/// How far a sandbox's life has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Being made. No agent has run.
    Creating,
    /// An agent may have run: there may be commits to collect.
    Active,
    /// Its commits are home ([`Record::outcome`] says how); what it needed to live is being removed.
    Collected,
    /// What is left is what the user should see.
    Stopped,
}

/// How far the making of a sandbox came that lives until it is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setup {
    /// It is whole. So is whatever lives with its command.
    #[default]
    Done,
    /// Its maker is at work, or died.
    Making,
    /// A hook inside failed; it is kept for a look.
    Failed,
}

impl Outcome {
    /// Of a sandbox in which nothing is anybody's work.
    pub fn nobodys() -> Self {
        Self {
            landing: Landing::Nothing,
            checkout: None,
            copy_is_dirty: false,
            beside: None,
            keeps_repository: false,
            took_work: false,
            no_agent: true,
        }
    }
}

impl Phase {
    /// Without an owner such a sandbox is one whose command died, unless it lives on ([`Record::lives_on`]): `gc`
    /// finishes it.
    pub fn is_unfinished(self) -> bool {
        matches!(self, Self::Creating | Self::Active | Self::Collected)
    }
}

/// What collecting came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, as it stands in the record"
)]
pub struct Outcome {
    /// Where the commits are now.
    #[serde(with = "super::landing")]
    pub landing: Landing,
    /// The commit that the agent's checkout ended at, if it is in the host repository.
    pub checkout: Option<Oid>,
    /// A private copy has uncommitted work.
    pub copy_is_dirty: bool,
    /// What is kept beside the landing, for a person: the sandbox stays until its user deletes it.
    #[serde(default)]
    pub beside: Option<String>,
    /// The sandbox's git directory stays as it is: commits in it could not be brought out.
    #[serde(default)]
    pub keeps_repository: bool,
    /// The agent committed uncommitted work of the user's: what it was before stays.
    #[serde(default)]
    pub took_work: bool,
    /// No agent was to start any more: what lies in the worktree is what hooks made, and nobody's work.
    #[serde(default)]
    pub no_agent: bool,
}

/// Commits that were merged as one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Squashed {
    /// The last of them.
    pub tip: Oid,
    /// The one.
    pub into: Oid,
}

/// Everything that is needed to collect and dispose of a sandbox, by whoever comes next. A field that this build does not know is a
/// later one's: whoever wrote the record again would lose what it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, as it stands in the record"
)]
pub struct Record {
    /// Of the record's own form.
    pub version: u32,
    /// By which it is known; never given twice.
    pub id: SandboxId,
    /// By which people call it, unique in its repository while it lives.
    pub name: Slug,
    /// The top of the checkout that it was made from.
    #[serde(with = "path_json::exact")]
    pub repository: PathBuf,
    /// What all checkouts of the repository share, as `.git` of the one above led there. Absent in records of earlier
    /// builds.
    #[serde(default, with = "path_json::optional_exact")]
    pub common_dir: Option<PathBuf>,
    /// Who made it, and can end it.
    pub provider: String,
    /// What it was made from, where its provider has images. Absent in records of earlier builds.
    #[serde(default)]
    pub image: Option<String>,
    /// Where its files are.
    pub mode: Mode,
    /// Where its commits go.
    pub strategy: Strategy,
    /// The branch that the agent works on; `None` with `head` on a detached HEAD.
    pub branch: Option<BranchName>,
    /// The branch was made for this sandbox, so disposing may remove it.
    pub branch_is_ours: bool,
    /// The commit that the agent started from.
    pub base: Oid,
    /// When its making began.
    pub created: Timestamp,
    /// How far its life is.
    pub phase: Phase,
    /// The linked worktree, where the strategy has one.
    #[serde(with = "path_json::optional_exact")]
    pub worktree: Option<PathBuf>,
    /// Directories made in the workspace for protection, relative to it; removed if still empty.
    #[serde(default)]
    pub made_directories: Vec<String>,
    /// Nested `.git` entries that were there before the agent, relative to the workspace.
    #[serde(default)]
    pub nested_before: Vec<PathText>,
    /// Those of them that came while no sandbox of the checkout ran, and so are its user's. Absent where there are none, and in records
    /// of earlier builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adopted: Vec<AdoptedGit>,
    /// Paths that the sandbox does not see and may not change, relative to the top.
    #[serde(default)]
    pub hidden: Vec<PathText>,
    /// Paths that its commits may not change beside those that no sandbox's may, relative to the top. Absent in records of earlier
    /// builds.
    #[serde(default)]
    pub protected: Vec<PathText>,
    /// No branch but its own moves to its commits unless somebody judges about them.
    #[serde(default)]
    pub checked: bool,
    /// Commits are judged in it, or a prompt is tried: what is in it is nobody's work.
    #[serde(default)]
    pub is_check: bool,
    /// There is no sandbox: its program worked on this machine, with its user's own git.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_host: bool,
    /// A branch or file that was kept for the user, in words.
    #[serde(default)]
    pub kept: Option<String>,
    /// Present from [`Phase::Collected`] on.
    #[serde(default)]
    pub outcome: Option<Outcome>,
    /// What it may reach. Absent in records of versions without a network.
    #[serde(default)]
    pub network: Option<Reach>,
    /// Whether it outlives its maker.
    #[serde(default)]
    pub lifetime: Lifetime,
    /// Whether the user's setup has run in it.
    #[serde(default)]
    pub setup: Setup,
    /// The commit of its branch that came home last. Every collecting moves it.
    #[serde(default)]
    pub landed: Option<Oid>,
    /// When it did. Absent where nothing has, and in records of earlier builds.
    #[serde(default)]
    pub landed_at: Option<Timestamp>,
    /// What of its branch was merged last as one commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub squashed: Option<Box<Squashed>>,
    /// As [`Outcome::took_work`], of whatever came home while it lived.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub took_work: bool,
    /// What it sees of this machine beside its own files. Absent where that is nothing, and in records of earlier builds; those
    /// builds start a sandbox without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<ExtraMount>,
    /// What it has that outlives it. Absent where that is nothing, and in records of earlier builds; those builds start a sandbox
    /// without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeMount>,
    /// Ports of this machine that lead into it. Absent where there are none, and in records of earlier builds; those builds start a
    /// sandbox without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PublishedPort>,
    /// They are what the configuration said when it was started last, and not what its user did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ports_configured: bool,
    /// A person lives in it. Absent in all others, and in records of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev: Option<DevSandbox>,
}

/// A nested git directory of its user's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptedGit {
    /// Relative to the workspace.
    pub path: PathText,
    /// Another one in its place has another time (statx(2), `stx_btime`).
    pub born: Timestamp,
}

/// What a dev sandbox is for: there is one for each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevSandbox {
    /// Its programs start in the working tree of this branch, beside the checkout; in the checkout unless given.
    #[serde(default)]
    pub branch: Option<BranchName>,
}

/// A volume that a sandbox has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeMount {
    /// The volume.
    pub name: VolumeName,
    /// Where it is inside: absolute.
    #[serde(with = "path_json::exact")]
    pub target: PathBuf,
}

/// A directory or file of this machine that a sandbox sees beside its own files (`--mount`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraMount {
    /// Where it is on this machine: absolute, and in a record without symlinks.
    #[serde(with = "path_json::exact")]
    pub source: PathBuf,
    /// Where it is inside: absolute.
    #[serde(with = "path_json::exact")]
    pub target: PathBuf,
    /// Programs inside may change it.
    pub writable: bool,
}

/// What a sandbox may reach, as its record keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Reach {
    /// Nothing at all.
    None,
    /// What the rules of its sources name; here are those of the command that started it, in their
    /// text form.
    Allowlist {
        /// One rule each.
        rules: Vec<String>,
    },
    /// Everything that its host reaches.
    Open,
}

impl Reach {
    /// The choice, without its rules.
    pub fn kind(&self) -> NetworkKind {
        match self {
            Self::None => NetworkKind::None,
            Self::Allowlist { .. } => NetworkKind::Allowlist,
            Self::Open => NetworkKind::Open,
        }
    }

    /// The rules of the command that started it. `None`: there is no wall, or one of them is not to
    /// be understood by this version, and fewer rules than it was given would be no answer.
    pub fn rules(&self) -> Option<Vec<Rule>> {
        let Self::Allowlist { rules } = self else {
            return None;
        };
        let parsed = rules.iter().map(|text| Rule::parse(text, Origin::Flag));
        parsed.collect::<Result<_, _>>().ok()
    }
}

impl Record {
    /// Whether its life goes on without any process of ours.
    pub fn lives_on(&self) -> bool {
        self.lifetime == Lifetime::UntilDeleted && self.phase == Phase::Active
    }

    /// Where its work began that is not home yet: what landed last, else the base.
    pub fn begins(&self) -> &Oid {
        self.landed.as_ref().unwrap_or(&self.base)
    }

    /// Where its branch is worked on, as long as no other sandbox may have it: once it has ended, its branch is free, but for
    /// a worktree that stays.
    pub fn holds_branch_at(&self, home: &Home, in_use: bool) -> Option<PathBuf> {
        let at_work = self.phase.is_unfinished();
        // What it works in may still have to be made.
        let begins = in_use && self.strategy == Strategy::Branch && !self.is_check;
        match &self.worktree {
            Some(at) if at.is_dir() => Some(at.clone()),
            _ if at_work && (begins || self.mode.owns_files()) => Some(self.workspace(home)),
            _ => None,
        }
    }

    /// The directory that is mounted as the workspace; of layers the uppermost, with what was changed.
    pub fn workspace(&self, home: &Home) -> PathBuf {
        match (self.mode, &self.worktree) {
            (Mode::Layer, _) => home.sandbox(self.id).join("layer").join("upper"),
            (Mode::Copy | Mode::Inside, _) => home.sandbox(self.id).join("work"),
            (Mode::Bind, Some(worktree)) => worktree.clone(),
            (Mode::Bind, None) => self.repository.clone(),
        }
    }

    /// Directories and files of this machine beside its workspace that its programs may change.
    pub fn written_beside(&self) -> impl Iterator<Item = &PathBuf> {
        let writable = self.mounts.iter().filter(|mount| mount.writable);
        writable.map(|mount| &mount.source)
    }

    /// Whether its files are where they were. Those inside an isolated sandbox only that can say.
    pub fn has_files(&self, home: &Home) -> bool {
        self.mode == Mode::Inside || self.workspace(home).is_dir()
    }

    /// The branch as messages name it.
    pub fn branch_text(&self) -> String {
        self.branch
            .as_ref()
            .map_or_else(|| "HEAD".to_owned(), ToString::to_string)
    }

    /// The branch of a dev sandbox that works on the shelf, beside its checkout.
    pub fn shelf_branch(&self) -> Option<&BranchName> {
        self.dev.as_ref()?.branch.as_ref()
    }

    /// The branch that whoever works in it stands on: that of a working tree on the shelf, else as [`Self::branch_text`] says.
    pub fn working_branch_text(&self) -> String {
        let on_shelf = self.shelf_branch();
        on_shelf.map_or_else(|| self.branch_text(), ToString::to_string)
    }
}
