//! Which checks the configuration wants before a branch moves, as it was when somebody asked.

use crate::config::{Check, Effective};

/// Asked before an agent works: what it does to the files of a shared checkout is no answer.
#[derive(Debug, Clone, Default)]
pub(super) struct CheckPlan {
    pub commands: Vec<Check>,
    /// So many are asked for that nobody has ever approved.
    pub unapproved: usize,
    /// Why no branch may move.
    pub barrier: Option<String>,
}

impl CheckPlan {
    pub(super) fn of(found: &Effective) -> Self {
        let commands = found.config.checks.iter().map(|one| one.value.clone());
        let checks = || found.waiting.iter().filter(|one| one.is_check());
        let changed = checks().find(|one| one.was_another);
        let barrier = match (found.problems.first(), changed) {
            (Some(problem), _) => Some(format!("what is to be checked cannot be read: {problem}")),
            (None, Some(changed)) => Some(format!(
                "what was approved is another one now, and waits for `cofferdam approve`: {}",
                changed.text
            )),
            (None, None) => None,
        };
        Self {
            commands: commands.collect(),
            unapproved: checks().filter(|one| !one.was_another).count(),
            barrier,
        }
    }

    /// Whether a branch may move without anybody who looks.
    pub(super) fn is_nothing(&self) -> bool {
        self.commands.is_empty() && self.barrier.is_none()
    }
}
