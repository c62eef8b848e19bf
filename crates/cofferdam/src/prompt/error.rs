//! Why a template gives no prompt, and where.

use std::fmt;

use crate::fsx::FileError;

/// A shell expression, its values included, is one argument of `sh -c`; the kernel takes no longer
/// ones (MAX_ARG_STRLEN, execve(2)).
pub const EXPRESSION_LIMIT: usize = (128 << 10) - 1;

/// The most shell expressions of a template.
pub const MOST_EXPRESSIONS: usize = 1000;

/// The largest prompt: 16 MiB, with all that stands in the place of placeholders and expressions.
pub const PROMPT_LIMIT: usize = 16 << 20;

/// A place in the template: line and column from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why a template gives no prompt.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the prompt is empty")]
    Empty,
    #[error("{at}: `{{{{{key}}}}}` has no argument{}", others(.also))]
    MissingArgument {
        key: String,
        at: Position,
        /// The other placeholders without an argument.
        also: Vec<String>,
    },
    #[error("prompt argument `{key}` is built in and cannot be given")]
    ReservedArgument { key: &'static str },
    #[error("{at}: prompt argument `{key}` contains a NUL, which no shell expression can take")]
    NulInArgument { key: String, at: Position },
    #[error(
        "{at}: prompt argument `{key}` stands in shell arithmetic or `${{…}}`, where the shell could evaluate it"
    )]
    Evaluated { key: String, at: Position },
    #[error("{at}: more than {MOST_EXPRESSIONS} shell expressions")]
    TooManyExpressions { at: Position },
    #[error("the prompt is {bytes} bytes long with its arguments; the limit is {} MiB", PROMPT_LIMIT >> 20)]
    TooLong { bytes: usize },
    #[error("{at}: the shell expression contains a NUL")]
    NulInExpression { at: Position },
    #[error(
        "{at}: the shell expression is {bytes} bytes long with its arguments; the limit is {EXPRESSION_LIMIT}"
    )]
    LongExpression { at: Position, bytes: usize },
}

fn others(also: &[String]) -> String {
    if also.is_empty() {
        String::new()
    } else {
        format!(" (nor have: {})", also.join(", "))
    }
}
