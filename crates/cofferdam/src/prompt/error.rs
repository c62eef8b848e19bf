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
    /// From 1.
    pub line: usize,
    /// From 1.
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
    /// The template could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is blank, with all arguments in it.
    #[error("the prompt is empty")]
    Empty,
    /// A placeholder has no argument.
    #[error("{at}: `{{{{{key}}}}}` has no argument{}", others(.also))]
    MissingArgument {
        /// The argument's name.
        key: String,
        /// The first place that wants it.
        at: Position,
        /// The other placeholders without an argument.
        also: Vec<String>,
    },
    /// An argument of this name is built in, and Cofferdam alone says what it is.
    #[error("prompt argument `{key}` is built in and cannot be given")]
    ReservedArgument {
        /// The argument's name.
        key: &'static str,
    },
    /// It holds a NUL, where every shell ends a text.
    #[error("{at}: prompt argument `{key}` contains a NUL, which no shell expression can take")]
    NulInArgument {
        /// The argument's name.
        key: String,
        /// Where it stands.
        at: Position,
    },
    /// It stands where its value would be code, however it is quoted.
    #[error(
        "{at}: prompt argument `{key}` stands in shell arithmetic or `${{…}}`, where the shell could evaluate it"
    )]
    Evaluated {
        /// The argument's name.
        key: String,
        /// Where it stands.
        at: Position,
    },
    /// The template has more shell expressions than one may have.
    #[error("{at}: more than {MOST_EXPRESSIONS} shell expressions")]
    TooManyExpressions {
        /// The first one too many.
        at: Position,
    },
    /// The prompt is longer than any agent takes.
    #[error("the prompt is {bytes} bytes long with its arguments; the limit is {} MiB", PROMPT_LIMIT >> 20)]
    TooLong {
        /// Its length, with its arguments.
        bytes: usize,
    },
    /// It holds a NUL, where every shell ends a text.
    #[error("{at}: the shell expression contains a NUL")]
    NulInExpression {
        /// Where it begins.
        at: Position,
    },
    /// Longer than an argument of `sh -c` may be.
    #[error(
        "{at}: the shell expression is {bytes} bytes long with its arguments; the limit is {EXPRESSION_LIMIT}"
    )]
    LongExpression {
        /// Where it begins.
        at: Position,
        /// Its length, with its arguments.
        bytes: usize,
    },
}

fn others(also: &[String]) -> String {
    if also.is_empty() {
        String::new()
    } else {
        format!(" (nor have: {})", also.join(", "))
    }
}
