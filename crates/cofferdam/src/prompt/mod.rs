//! Prompt templates: placeholders are filled in on the host, shell expressions run in the sandbox.
//!
//! An inline prompt never comes here: it is passed as it is (S2-25). A template (S2-26) goes
//! [`read_template`] → [`Template::parse`] → [`Template::substitute`] once, and for each iteration
//! its expressions are run in the sandbox and [`Substituted::render`] puts their output in place.
//! Each step has nothing to do where the template has nothing for it (S2-31).
//!
//! What is a placeholder and what is a shell expression is decided once, when the template's own
//! text is parsed. Values and outputs are put into place and never looked at again, so a value can
//! neither add an expression nor name another placeholder; inside an expression it is data for the
//! shell (docs/decisions/0004-prompt-arguments.md).

mod quote;
mod template;

use std::io;
use std::path::Path;

pub use template::{Builtins, Expression, Position, Substituted, Template};

use crate::fsx::{self, Context, FileError};

/// The largest template file: 10 MiB.
pub const TEMPLATE_LIMIT: u64 = 10 << 20;

/// A shell expression, its values included, is one argument of `sh -c`; the kernel takes no longer
/// ones (MAX_ARG_STRLEN, execve(2)).
pub const EXPRESSION_LIMIT: usize = (128 << 10) - 1;

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

/// Reads a template file: UTF-8, at most [`TEMPLATE_LIMIT`] bytes, a byte order mark is dropped.
/// Every error names `path`.
pub fn read_template(path: &Path) -> Result<String, PromptError> {
    // The user's own hand named this file: links are followed.
    let real = path.canonicalize().context("open", path)?;
    let bytes = fsx::read_bounded(&real, TEMPLATE_LIMIT)
        .map_err(|error| FileError::new(error.action, path, error.source))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let why = io::Error::other(format!("it is not UTF-8 (at byte {at})"));
        FileError::new("read", path, why)
    })?;
    Ok(text
        .strip_prefix('\u{feff}')
        .map(str::to_owned)
        .unwrap_or(text))
}
