//! What the file can say, and what can be wrong at one place of it.

use std::fmt;

use cofferdam_wall::{Rule, RuleError};

/// The most entries of one file.
pub const MAX_RULES: usize = 200_000;

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// `firewall.allow`; none where the file does not have it.
    pub allow: Option<Vec<LocatedRule>>,
}

/// A rule and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedRule {
    pub rule: Rule,
    /// From 1.
    pub line: u64,
}

/// A place in a text file, both from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub line: u64,
    pub column: u64,
}

/// What is wrong at one place of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    #[error("the file is not UTF-8 text")]
    NotUtf8,
    /// No YAML, or another shape than the schema's.
    #[error("{0}")]
    Yaml(String),
    #[error("this version of cofferdam reads `firewall` only: take `{0}` out")]
    NotYet(&'static str),
    #[error("it has no value: leave it out, or write `{0}`")]
    NoValue(&'static str),
    #[error("`domain` and `cidr` in one entry: make two entries of it")]
    Both,
    #[error("the entry names neither a `domain` nor a `cidr`")]
    Neither,
    #[error("more than {MAX_RULES} entries")]
    TooMany,
    #[error(transparent)]
    Rule(#[from] RuleError),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A problem before it is known which file it is in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misplaced {
    pub(super) at: Position,
    pub(super) field: String,
    pub(super) problem: ContentError,
}
