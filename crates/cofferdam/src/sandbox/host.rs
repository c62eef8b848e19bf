//! No sandbox: the agent runs on the host with its own permission prompts on. Only for a person who
//! sits in front of it; [`crate::run`] does not take it.

use super::BranchStrategy;

/// The no-sandbox provider.
#[derive(Debug, Clone)]
pub struct NoSandbox {
    pub strategy: BranchStrategy,
}
