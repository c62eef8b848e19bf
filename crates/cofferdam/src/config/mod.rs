//! The user's own configuration, `config.yaml` in Cofferdam's home: read strictly, whole or not at all.
//!
//! This version reads `firewall.allow`. Everything else in the file is an error, so that no
//! setting is believed to be in force that is not.

mod content;
mod firewall;
mod yaml;

use std::fmt;
use std::path::{Path, PathBuf};

use cofferdam_wall::Rule;

use crate::fsx::{self, FileError};
use crate::home::Home;
use crate::text::{fit, printable_line};
use content::Misplaced;

pub use content::{Config, ContentError, LocatedRule, MAX_RULES, Position};

/// The longest file in bytes: room for [`MAX_RULES`] written in any usual way.
pub const MAX_FILE: u64 = 16 << 20;

/// The file is there and cannot be used. Nothing of it is in force.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}:{at}{}: {problem}", path.display(), Field(field))]
    Content {
        path: PathBuf,
        at: Position,
        /// Such as `firewall.allow[2].ports`; empty where the whole file is meant.
        field: String,
        problem: Box<ContentError>,
    },
}

/// Reads the file; where there is none, nothing is configured.
pub fn load(home: &Home) -> Result<Config, ConfigError> {
    let path = home.config();
    match fsx::read_guarded(&path, MAX_FILE) {
        Ok(bytes) => parse(&path, &bytes),
        Err(error) if error.is_not_found() => Ok(Config::default()),
        Err(error) => Err(error.into()),
    }
}

/// The text of a file that has just these rules. `None`: one of them says more than an entry of the file can.
pub fn text_of(rules: &[Rule]) -> Option<String> {
    firewall::text(rules)
}

/// Reads what the file at `path` holds.
fn parse(path: &Path, bytes: &[u8]) -> Result<Config, ConfigError> {
    let parsed = text(bytes).and_then(firewall::parse);
    parsed.map_err(|Misplaced { at, field, problem }| ConfigError::Content {
        path: path.to_owned(),
        at,
        field,
        problem: Box::new(problem),
    })
}

fn text(bytes: &[u8]) -> Result<&str, Misplaced> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let last = valid.rsplit('\n').next().unwrap_or_default();
        Misplaced {
            at: Position {
                line: valid.matches('\n').count() as u64 + 1,
                column: last.chars().count() as u64 + 1,
            },
            field: String::new(),
            problem: ContentError::NotUtf8,
        }
    })
}

/// `: field` on one line and of bounded length, or nothing.
struct Field<'a>(&'a str);

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", fit(&printable_line(self.0), 120))
    }
}

#[cfg(test)]
mod tests;
