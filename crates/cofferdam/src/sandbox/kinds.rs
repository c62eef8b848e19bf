//! The kinds of sandboxes with their branch strategies. What does not go together does not compile.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{
    Abilities, Ability, BindMountProvider, IsolatedProvider, Limits, NetworkKind, SandboxError,
};
use crate::names::{BranchName, RepoPath};

/// How the agent's changes relate to branches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchStrategy {
    /// Work in the host's working directory itself; commits land on the checked-out branch.
    Head,
    /// Work on a temporary branch in a worktree; merge it into the checked-out branch at the end.
    MergeToHead,
    /// Commits land on this branch. A branch that does not exist yet starts at `base`, or at HEAD.
    Branch {
        /// Its short name.
        branch: BranchName,
        /// As `git rev-parse` takes it.
        base: Option<String>,
    },
}

/// The strategies of a sandbox that cannot work in the host's directory itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyStrategy {
    /// On a temporary branch, which is merged into the one that is checked out.
    MergeToHead,
    /// On this branch. One that does not exist yet starts at `base`, or at HEAD.
    Branch {
        /// Its short name.
        branch: BranchName,
        /// As `git rev-parse` takes it.
        base: Option<String>,
    },
}

impl From<CopyStrategy> for BranchStrategy {
    fn from(strategy: CopyStrategy) -> Self {
        match strategy {
            CopyStrategy::MergeToHead => Self::MergeToHead,
            CopyStrategy::Branch { branch, base } => Self::Branch { branch, base },
        }
    }
}

/// A bind-mount sandbox provider with its branch strategy.
#[derive(Debug, Clone)]
pub struct BindMount {
    pub(crate) provider: Arc<dyn BindMountProvider>,
    pub(crate) strategy: BranchStrategy,
    /// Over layers where that is possible.
    pub(crate) layers: bool,
}

impl BindMount {
    /// Sandboxes of this provider, whose commits go where `strategy` says.
    pub fn new(provider: impl BindMountProvider + 'static, strategy: BranchStrategy) -> Self {
        Self {
            provider: Arc::new(provider),
            strategy,
            layers: false,
        }
    }

    /// As [`PrivateCopy::layered`] where the machine, the provider and the options allow it, else a directory of the host's:
    /// [`crate::session::Event::Planned`] says which and why. The strategy `head` always takes the directory.
    pub fn or_layers(provider: impl BindMountProvider + 'static, strategy: BranchStrategy) -> Self {
        Self {
            layers: true,
            ..Self::new(provider, strategy)
        }
    }
}

/// A provider that could mount, used so that the sandbox works on files of its own.
#[derive(Debug, Clone)]
pub struct PrivateCopy {
    pub(crate) provider: Arc<dyn BindMountProvider>,
    pub(crate) strategy: CopyStrategy,
    pub(crate) layers: Layers,
}

/// Whether a sandbox's own files lie over a tree that all sandboxes share; else they are written out for it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layers {
    No,
    Yes,
    WherePossible,
}

impl PrivateCopy {
    /// Sandboxes of this provider, whose commits go where `strategy` says.
    pub fn new(provider: impl BindMountProvider + 'static, strategy: CopyStrategy) -> Self {
        Self {
            provider: Arc::new(provider),
            strategy,
            layers: Layers::No,
        }
    }

    /// The same over a tree that is on disk once for all sandboxes: what is changed is the sandbox's own, and starting takes
    /// as long for many files as for few. For providers with [`Ability::Layers`].
    pub fn layered(provider: impl BindMountProvider + 'static, strategy: CopyStrategy) -> Self {
        Self {
            layers: Layers::Yes,
            ..Self::new(provider, strategy)
        }
    }

    /// As [`Self::layered`] where the machine, the provider and the options allow it, else as [`Self::new`].
    pub fn or_layers(provider: impl BindMountProvider + 'static, strategy: CopyStrategy) -> Self {
        Self {
            layers: Layers::WherePossible,
            ..Self::new(provider, strategy)
        }
    }
}

/// An isolated sandbox provider with its branch strategy. `head` is not among them: such a sandbox
/// cannot write to the host's directory.
#[derive(Debug, Clone)]
pub struct Isolated {
    pub(crate) provider: Arc<dyn IsolatedProvider>,
    pub(crate) strategy: CopyStrategy,
}

impl Isolated {
    /// Sandboxes of this provider, whose commits go where `strategy` says.
    pub fn new(provider: impl IsolatedProvider + 'static, strategy: CopyStrategy) -> Self {
        Self {
            provider: Arc::new(provider),
            strategy,
        }
    }
}

/// A sandbox that contains the agent: the kinds that [`crate::run`] takes. There is no conversion
/// from [`NoSandbox`](super::host::NoSandbox), so an unattended run without a sandbox does not compile.
#[derive(Debug, Clone)]
pub enum Contained {
    /// It can have the host's directory itself.
    BindMount(BindMount),
    /// It has a copy of its own, in a directory of the host's.
    PrivateCopy(PrivateCopy),
    /// It has a file system of its own.
    Isolated(Isolated),
}

impl Contained {
    /// What its provider calls itself.
    pub fn provider_name(&self) -> &str {
        match self {
            Self::BindMount(kind) => kind.provider.name(),
            Self::PrivateCopy(kind) => kind.provider.name(),
            Self::Isolated(kind) => kind.provider.name(),
        }
    }

    /// What its sandboxes can do.
    pub fn abilities(&self) -> Abilities {
        match self {
            Self::BindMount(kind) => kind.provider.abilities(),
            Self::PrivateCopy(kind) => kind.provider.abilities(),
            Self::Isolated(kind) => kind.provider.abilities(),
        }
    }

    /// Refuses what the provider cannot do, before anything is done.
    pub fn require(&self, ability: Ability) -> Result<(), SandboxError> {
        self.abilities().require(self.provider_name(), ability)
    }

    /// As [`BindMountProvider::try_layers`].
    pub(crate) async fn try_layers(
        &self,
        place: &Path,
        cancel: &CancellationToken,
    ) -> Result<(), SandboxError> {
        self.require(Ability::Layers)?;
        match self {
            Self::BindMount(kind) => kind.provider.try_layers(place, cancel).await,
            Self::PrivateCopy(kind) => kind.provider.try_layers(place, cancel).await,
            Self::Isolated(_) => Ok(()),
        }
    }

    pub(crate) fn networks(&self) -> &'static [NetworkKind] {
        self.abilities().networks
    }

    pub(crate) fn check_limits(&self, limits: &Limits) -> Result<(), SandboxError> {
        match self {
            Self::BindMount(kind) => kind.provider.check_limits(limits),
            Self::PrivateCopy(kind) => kind.provider.check_limits(limits),
            Self::Isolated(_) => Ok(()),
        }
    }

    pub(crate) async fn check(
        &self,
        repository: &RepoPath,
    ) -> Result<Option<String>, SandboxError> {
        match self {
            Self::BindMount(kind) => kind.provider.check(repository).await,
            Self::PrivateCopy(kind) => kind.provider.check(repository).await,
            Self::Isolated(_) => Ok(None),
        }
    }

    pub(crate) fn lacks(&self, program: &OsStr, search_path: Option<&OsStr>) -> bool {
        match self {
            Self::BindMount(kind) => kind.provider.lacks(program, search_path),
            Self::PrivateCopy(kind) => kind.provider.lacks(program, search_path),
            Self::Isolated(_) => false,
        }
    }

    /// The same sandbox with its commits on another branch, whatever its strategy was.
    #[must_use]
    pub fn on_branch(&self, branch: BranchName, base: Option<String>) -> Self {
        let mut this = self.clone();
        let strategy = CopyStrategy::Branch { branch, base };
        match &mut this {
            Self::BindMount(kind) => kind.strategy = strategy.into(),
            Self::PrivateCopy(kind) => kind.strategy = strategy,
            Self::Isolated(kind) => kind.strategy = strategy,
        }
        this
    }

    /// Where its commits go.
    pub fn strategy(&self) -> BranchStrategy {
        match self {
            Self::BindMount(kind) => kind.strategy.clone(),
            Self::PrivateCopy(kind) => kind.strategy.clone().into(),
            Self::Isolated(kind) => kind.strategy.clone().into(),
        }
    }
}

impl From<BindMount> for Contained {
    fn from(kind: BindMount) -> Self {
        Self::BindMount(kind)
    }
}

impl From<PrivateCopy> for Contained {
    fn from(kind: PrivateCopy) -> Self {
        Self::PrivateCopy(kind)
    }
}

impl From<Isolated> for Contained {
    fn from(kind: Isolated) -> Self {
        Self::Isolated(kind)
    }
}
