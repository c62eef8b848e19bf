//! Where Cofferdam keeps its own files on the host. The frontend chooses the directory
//! (`~/.cofferdam`, or `COFFERDAM_HOME`); this module only knows the layout below it.

use std::path::{Path, PathBuf};

use crate::names::{RepoPath, SandboxId};
use crate::run_id::RunId;

/// Begins the names of what lies beside the trees for a moment, where layers are tried.
pub(crate) const TRIED_LAYERS: &str = "doctor-";

/// The agent's home in the state directory of a sandbox.
pub(crate) fn agent_home_in(state: &Path) -> PathBuf {
    state.join("home")
}

/// The host-owned state of one user. Everything below it is 0700/0600.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home(PathBuf);

impl Home {
    /// `path` must be absolute; it is created on first use.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The directory itself, absolute.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The user's own configuration.
    pub fn config(&self) -> PathBuf {
        self.0.join("config.yaml")
    }

    /// Files that go to the agent's home in every sandbox.
    pub fn files(&self) -> PathBuf {
        self.0.join("home")
    }

    /// What of repositories' configurations was approved.
    pub fn approvals(&self) -> PathBuf {
        self.0.join("approvals.json")
    }

    /// Which builds of images somebody has agreed to.
    pub fn agreed_builds(&self) -> PathBuf {
        self.0.join("builds")
    }

    /// Which trees have passed which checks.
    pub fn passed(&self) -> PathBuf {
        self.0.join("passed")
    }

    /// Rules that `cofferdam allow` keeps: `global`, and one file for each repository.
    pub fn allowed(&self) -> PathBuf {
        self.0.join("allowed")
    }

    /// What `cofferdam allow` keeps for one sandbox, as long as that exists.
    pub fn allowed_for(&self, id: SandboxId) -> PathBuf {
        self.sandbox(id).join("allowed")
    }

    /// The network logs: one file for each sandbox, `ID.jsonl`.
    pub fn net(&self) -> PathBuf {
        self.0.join("net")
    }

    /// One directory for each run, named by its id.
    pub fn runs(&self) -> PathBuf {
        self.0.join("runs")
    }

    /// Where the record of one run is.
    pub fn run(&self, id: RunId) -> PathBuf {
        self.runs().join(id.to_string())
    }

    /// What of plans has ended well, and whose turn it is: two files for each.
    pub fn plans(&self) -> PathBuf {
        self.0.join("plans")
    }

    /// One directory for each sandbox, named by its id.
    pub fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    /// The state directory of one sandbox.
    pub fn sandbox(&self, id: SandboxId) -> PathBuf {
        self.state().join(id.to_string())
    }

    /// The agent's home of a sandbox that lives on.
    pub fn agent_home(&self, id: SandboxId) -> PathBuf {
        agent_home_in(&self.sandbox(id))
    }

    /// Executables of ours that several processes run from.
    pub fn programs(&self) -> PathBuf {
        self.0.join("programs")
    }

    /// What containers are given.
    pub fn engines(&self) -> PathBuf {
        self.0.join("engines")
    }

    /// The list of directories in which agents have written.
    pub fn written(&self) -> PathBuf {
        self.0.join("written.json")
    }

    /// The login of the agent of that name.
    pub fn login(&self, agent: &str) -> PathBuf {
        self.0.join("logins").join(format!("{agent}.json"))
    }

    /// What outlives sandboxes and several of them share, a directory each.
    pub fn volumes(&self) -> PathBuf {
        self.0.join("volumes")
    }

    /// Locks that say whose turn it is with what several commands could make at once.
    pub fn turns(&self) -> PathBuf {
        self.0.join("turns")
    }

    /// The packs that were exported from `repo`.
    pub fn vault(&self, repo: &RepoPath) -> PathBuf {
        self.0.join("vault").join(repo.hash8())
    }

    /// The files of commits that were written for sandboxes, of all repositories.
    pub fn all_trees(&self) -> PathBuf {
        self.0.join("trees")
    }

    /// The files of commits of `repo` that were written for sandboxes.
    pub fn trees(&self, repo: &RepoPath) -> PathBuf {
        self.all_trees().join(repo.hash8())
    }

    /// The socket and the lock of the gateway that speaks this version of its protocol.
    pub fn gateway(&self, protocol: u32) -> PathBuf {
        self.0.join(format!("gateway-{protocol}"))
    }

    /// What sandboxes asked of the network, a file each; kept after them.
    pub fn network_logs(&self) -> PathBuf {
        self.0.join("net")
    }

    /// What the wall writes down of one sandbox.
    pub fn network_log(&self, id: SandboxId) -> PathBuf {
        self.network_logs().join(format!("{id}.jsonl"))
    }
}
