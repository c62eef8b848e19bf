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

mod error;
mod quote;
mod template;

use std::io;
use std::path::Path;

pub use error::{EXPRESSION_LIMIT, MOST_EXPRESSIONS, PROMPT_LIMIT, Position, PromptError};
pub use template::{Builtins, Expression, Substituted, Template};

use crate::fsx::{FileError, Named};

/// The largest template file: 10 MiB.
pub const TEMPLATE_LIMIT: u64 = 10 << 20;

/// Reads a template file: UTF-8, at most [`TEMPLATE_LIMIT`] bytes, a byte order mark is dropped.
/// Every error names `path`. What may keep its reader waiting, [`Named::is_stream`], is waited for.
pub fn read_template(path: &Path) -> Result<String, PromptError> {
    let bytes = Named::find(path)?.read(TEMPLATE_LIMIT)?;
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
