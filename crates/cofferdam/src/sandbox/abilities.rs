//! What a provider's sandboxes can do, as data: who asks for something else is refused before anything is done.

use super::{Ability, NetworkKind, SandboxError};

/// Who says nothing promises nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// The networks that its sandboxes can have: it fails none of them silently. Who says nothing has sandboxes that
    /// reach whatever they reach, and only [`NetworkKind::Open`] may be asked for.
    pub networks: &'static [NetworkKind],
    /// What its sandboxes can do beside networks.
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

impl Abilities {
    /// Whether that was promised.
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
