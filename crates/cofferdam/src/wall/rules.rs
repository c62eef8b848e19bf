//! Where the rules of a sandbox come from. All of it is host-owned: nothing that a sandbox can write
//! is read here.

use cofferdam_wall::Rule;

use crate::home::Home;
use crate::names::{RepoPath, SandboxId};

/// The places that together make one sandbox's rules. Read anew whenever a policy is made.
#[derive(Debug, Clone)]
pub struct Sources {
    pub home: Home,
    /// Whose `allow --repo` rules count.
    pub repository: Option<RepoPath>,
    /// Whose `allow --sandbox` rules count.
    pub sandbox: Option<SandboxId>,
    /// From the command that started the sandbox.
    pub flags: Vec<Rule>,
}
