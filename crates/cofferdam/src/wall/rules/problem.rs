//! What is wrong with a source of rules.

use std::path::PathBuf;

use cofferdam_wall::{PolicyError, Rule, RuleError, defaults};

use crate::config::ConfigError;
use crate::config::approvals::ApprovalError;
use crate::fsx::FileError;
use crate::text::printable_line;

/// Something in a source that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The repository's own file: nothing of it is in force.
    #[error("{0}")]
    OfRepository(ConfigError),
    #[error("{0}")]
    Approvals(#[from] ApprovalError),
    #[error("{0}")]
    File(#[from] FileError),
    #[error("{} is not for {wanted}: its first line must be `{header}`", path.display())]
    Scope {
        path: PathBuf,
        wanted: String,
        header: String,
    },
    #[error("{}:{line}: {source}", path.display())]
    Line {
        path: PathBuf,
        line: u64,
        source: LineError,
    },
    #[error("{}: {count} more lines are no rules", path.display())]
    MoreLines { path: PathBuf, count: usize },
    #[error("rule `{rule}` ({}): udp is not carried yet", rule.origin())]
    Udp { rule: Box<Rule> },
    #[error("{0}; until then neither is in force")]
    Contradiction(#[from] PolicyError),
    #[error("too many rules contradict each other, and none of those is in force")]
    Contradictions,
    #[error("the built-in list: {0}")]
    Defaults(#[from] defaults::ListError),
}

/// Why a line of a file is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("it is not UTF-8 text")]
    NotUtf8,
    #[error(transparent)]
    Rule(#[from] RuleError),
}

impl Problem {
    /// For a person, on one line.
    pub fn message(&self) -> String {
        printable_line(&self.to_string())
    }

    /// Whether a whole source is missing, so that a policy in force knows better than what could be read.
    pub fn is_whole_source(&self) -> bool {
        match self {
            Self::Config(_)
            | Self::OfRepository(_)
            | Self::Approvals(_)
            | Self::File(_)
            | Self::Scope { .. }
            | Self::Contradictions
            | Self::Defaults(_) => true,
            Self::Line { .. }
            | Self::MoreLines { .. }
            | Self::Udp { .. }
            | Self::Contradiction(_) => false,
        }
    }
}
