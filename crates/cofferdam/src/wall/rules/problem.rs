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
    /// A `config.yaml` cannot be used.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The repository's own file: nothing of it is in force.
    #[error("{0}")]
    OfRepository(ConfigError),
    /// What is approved of a `config.yaml` cannot be known.
    #[error("{0}")]
    Approvals(#[from] ApprovalError),
    /// A file could not be read.
    #[error("{0}")]
    File(#[from] FileError),
    /// A file of rules says whom it is for, so that none counts for another by its place.
    #[error("{} is not for {wanted}: its first line must be `{header}`", path.display())]
    Scope {
        /// The file.
        path: PathBuf,
        /// Whom it should be for.
        wanted: String,
        /// Its first line as it should be.
        header: String,
    },
    /// One line of a file is no rule; the others are in force.
    #[error("{}:{line}: {source}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What is wrong there.
        source: LineError,
    },
    /// Only the first lines of a file are told one by one.
    #[error("{}: {count} more lines are no rules", path.display())]
    MoreLines {
        /// The file.
        path: PathBuf,
        /// How many lines.
        count: usize,
    },
    /// The rule is for UDP, and the gateway carries TCP alone.
    #[error("rule `{rule}` ({}): udp is not carried yet", rule.origin())]
    Udp {
        /// As it was written.
        rule: Box<Rule>,
    },
    /// Two rules say the opposite of one another.
    #[error("{0}; until then neither is in force")]
    Contradiction(#[from] PolicyError),
    /// There are more contradictions than are told one by one.
    #[error("too many rules contradict each other, and none of those is in force")]
    Contradictions,
    /// Cofferdam's own list is damaged.
    #[error("the built-in list: {0}")]
    Defaults(#[from] defaults::ListError),
}

/// Why a line of a file is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line is not UTF-8 text.
    #[error("it is not UTF-8 text")]
    NotUtf8,
    /// Its words say no rule.
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
