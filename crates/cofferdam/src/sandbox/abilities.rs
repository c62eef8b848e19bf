//! What a provider's sandboxes can do, as data: who asks for something else is refused before anything is done.

use std::fmt;

use super::{NetworkKind, SandboxError};

/// Who says nothing promises nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// The networks that its sandboxes can have: it fails none of them silently. Who says nothing has sandboxes that
    /// reach whatever they reach, and only [`NetworkKind::Open`] may be asked for.
    pub networks: &'static [NetworkKind],
    pub others: &'static [Ability],
}

impl Default for Abilities {
    fn default() -> Self {
        Self {
            networks: &[NetworkKind::Open],
            others: &[],
        }
    }
}

/// What some sandboxes can do and others cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ability {
    /// Host directories are mounted into it.
    Mount,
    /// [`super::Sandbox::freeze`] and [`super::Sandbox::pause`].
    Pause,
    /// [`super::ExecRequest::terminal`].
    Terminal,
    /// [`super::Lifetime::UntilRemoved`], and all that goes with it: other processes open it, programs survive those
    /// that started them.
    Outlive,
    /// [`super::Sandbox::unpack`] and [`super::Sandbox::snapshot`].
    Files,
    /// There is a git inside, by which an isolated sandbox packs its agent's commits. Without it what the agent changed
    /// becomes one commit, made outside. Of providers that mount nobody asks it.
    Git,
}

impl fmt::Display for Ability {
    /// As it follows "cannot".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mount => "mount directories of the host",
            Self::Pause => "stop its programs for a while",
            Self::Terminal => "give a program a terminal",
            Self::Files => "take files in and tell which of them changed",
            Self::Git => "run git inside",
            Self::Outlive => "keep a sandbox longer than the program that made it",
        })
    }
}

impl Abilities {
    pub fn has(&self, ability: Ability) -> bool {
        self.others.contains(&ability)
    }

    /// `provider`: its name.
    pub fn require(&self, provider: &str, ability: Ability) -> Result<(), SandboxError> {
        if self.has(ability) {
            return Ok(());
        }
        Err(SandboxError::Unable {
            who: format!("the provider `{provider}`"),
            ability,
        })
    }
}
