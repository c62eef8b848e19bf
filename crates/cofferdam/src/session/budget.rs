//! What a run may use at most.

use std::fmt;
use std::time::Duration;

use crate::agent::{Usage, UsageTold};

/// Bounds of one run, over all starts of its agent. What is not said has none. Passing one ends the agent as a cancel does, with
/// [`super::AgentFailure::Budget`]; its commits come home.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Budget {
    /// Since the agent's first start; what is waited for a quota does not count.
    pub time: Option<Duration>,
    /// All tokens that the agent reports, those from a cache too.
    pub tokens: Option<u64>,
    /// Millionths of a US dollar, where the agent says what it costs.
    pub cost_micro_usd: Option<u64>,
}

/// Which bound was passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Spent {
    /// It took this long.
    Time(Duration),
    /// It used so many of them.
    Tokens(u64),
    /// In millionths of a US dollar.
    Cost(u64),
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => write!(f, "{} s", time.as_secs()),
            Self::Tokens(tokens) => write!(f, "{tokens} tokens"),
            #[expect(clippy::cast_precision_loss, reason = "it is shown to cents")]
            Self::Cost(micro) => write!(f, "{:.2} USD", *micro as f64 / 1e6),
        }
    }
}

impl Budget {
    /// What it bounds and an agent that tells no more than this never says.
    pub(super) fn unseen(&self, told: UsageTold) -> Vec<&'static str> {
        let tokens = self.tokens.filter(|_| told == UsageTold::Nothing);
        let cost = self.cost_micro_usd.filter(|_| told != UsageTold::Cost);
        let unseen = [tokens.map(|_| "tokens"), cost.map(|_| "cost")];
        unseen.into_iter().flatten().collect()
    }

    /// The bound that this is over.
    pub(super) fn passed(&self, used: &Usage) -> Option<Spent> {
        let tokens = self.tokens.filter(|&most| used.tokens() > most);
        let cost = self.cost_micro_usd.zip(used.cost_micro_usd);
        let cost = cost.filter(|(most, used)| used > most);
        tokens
            .map(Spent::Tokens)
            .or(cost.map(|(most, _)| Spent::Cost(most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_said_bounds_nothing() {
        let budget = |tokens, cost| Budget {
            time: None,
            tokens,
            cost_micro_usd: cost,
        };
        let both = budget(Some(1), Some(1));
        assert_eq!(both.unseen(UsageTold::Nothing), ["tokens", "cost"]);
        assert_eq!(both.unseen(UsageTold::Tokens), ["cost"]);
        assert_eq!(both.unseen(UsageTold::Cost), [""; 0]);
        assert_eq!(budget(Some(1), None).unseen(UsageTold::Tokens), [""; 0]);
    }

    #[test]
    fn what_is_passed_is_named() {
        let used = Usage {
            input_tokens: 90,
            output_tokens: 11,
            cost_micro_usd: Some(20_000),
            ..Usage::default()
        };
        let budget = |tokens, cost| Budget {
            time: None,
            tokens,
            cost_micro_usd: cost,
        };
        assert_eq!(budget(None, None).passed(&used), None);
        assert_eq!(budget(Some(101), Some(20_000)).passed(&used), None);
        assert_eq!(
            budget(Some(100), None).passed(&used),
            Some(Spent::Tokens(100))
        );
        let passed = budget(None, Some(19_999)).passed(&used).unwrap();
        assert_eq!(passed.to_string(), "0.02 USD");
    }
}
