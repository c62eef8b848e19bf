//! The user's own configuration, `config.yaml` in Cofferdam's home: read strictly, whole or not at all.
//!
//! Whatever is not known is an error, so that no setting is believed to be in force that is not.

#[cfg(test)]
mod agreement;
pub mod approvals;
mod asked;
mod content;
#[cfg(test)]
mod described;
mod fields;
mod firewall;
mod harmless;
mod hooks;
mod items;
mod mcp;
mod merge;
mod named;
mod schema;
mod setting;
mod settings;
mod source;
mod variables;
mod written;
mod yaml;

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cofferdam_wall::defaults::ListError;
use cofferdam_wall::{Origin, Rule};

use crate::fsx::{self, FileError};
use crate::home::Home;
use crate::text::{fit, printable_line};
use content::Misplaced;

pub use asked::{Asked, Sifted, sift};
pub use content::{
    Check, Config, ContentError, Destination, Located, LocatedRule, MAX_RULES, OF_REPOSITORY,
    Owner, Position, SyncHook, SyncRule, Variable,
};

pub(crate) use harmless::may_be_the_repositorys;
pub use merge::{Merged, Source, Valued, merge};
pub use named::named_files;
pub(crate) use named::words;
pub use setting::{Cpus, ProviderKind, Setting, Strategy, is_image_name};
pub use source::{Effective, Problem, effective, load_repository, path_in};
pub(crate) use yaml::{position, read as read_yaml};

/// The longest file in bytes: room for [`MAX_RULES`] written in any usual way.
pub const MAX_FILE: u64 = 16 << 20;

const INITIAL: &str = "\
# What every sandbox of yours gets. `cofferdam config` shows what counts, docs/configuration.md explains it.
# A repository's own .cofferdam/config.yaml adds to this; what it widens waits for `cofferdam approve`.
#
# Files in the directory `home` beside this file go to the agent's home. Others by rules:
# sync:
#   - src: ~/.config/tool/settings.toml
#     dest: ~/.config/tool/
#
# Variables of programs inside, as they are or from your environment:
# env:
#   EDITOR: vim
#   GITHUB_TOKEN: $GITHUB_TOKEN
#
# Commands inside after each sync:
# on_sync:
#   - cmd: chmod 600 ~/.config/tool/settings.toml
#     name: tighten settings
#
# A command in each new sandbox's files of the repository:
# setup: npm ci

# What sandboxes may reach. This list counts instead of the built-in one.
";

/// The file is there and cannot be used. Nothing of it is in force.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It could be read, and something in it is wrong.
    #[error("{}:{at}{}: {problem}", path.display(), Field(field))]
    Content {
        /// The file.
        path: PathBuf,
        /// Where in it.
        at: Position,
        /// Such as `firewall.allow[2].ports`; empty where the whole file is meant.
        field: String,
        /// What is wrong there.
        problem: Box<ContentError>,
        /// As far as its text tells, it says something that bounds a sandbox: a [`Setting`], `hide`, `protect` or `gate`.
        has_setting: bool,
    },
}

impl ConfigError {
    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Self::File(error) => &error.path,
            Self::Content { path, .. } => path,
        }
    }
}

/// Reads the file; where there is none, nothing is configured.
pub fn load(home: &Home) -> Result<Config, ConfigError> {
    let path = home.config();
    match fsx::read_guarded(&path, MAX_FILE) {
        Ok(bytes) => parse(&path, &bytes, Origin::Global),
        Err(error) if error.is_not_found() => Ok(Config::default()),
        Err(error) => Err(error.into()),
    }
}

/// The text of a file that has just these rules. `None`: one of them says more than an entry of the file can.
pub fn text_of(rules: &[Rule]) -> Option<String> {
    written::text(rules)
}

/// What sandboxes may reach where the user's own file has no list.
pub fn built_in() -> Result<Vec<Rule>, ListError> {
    cofferdam_wall::defaults::rules()
}

/// What `cofferdam init PATH` writes for a repository: examples, none of which counts.
pub const INITIAL_OF_REPOSITORY: &str = include_str!("of_repository.yaml");

/// What `cofferdam init` writes: the built-in list, and what else can be said.
pub fn initial() -> Result<String, ListError> {
    Ok(format!("{INITIAL}{}", written::built_in()?))
}

/// Reads what the file at `path` holds. One command asks several times, of two files at most, and a hundred thousand rules take a while:
/// what was read last is known.
fn parse(path: &Path, bytes: &[u8], origin: Origin) -> Result<Config, ConfigError> {
    static LAST: Mutex<VecDeque<(Origin, Vec<u8>, Config)>> = Mutex::new(VecDeque::new());
    let last = || LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let known = (last().iter())
        .find(|(of, text, _)| *of == origin && text == bytes)
        .map(|(_, _, config)| config.clone());
    if let Some(known) = known {
        return Ok(known);
    }
    let config = parse_anew(path, bytes, origin)?;
    let mut last = last();
    last.truncate(1);
    last.push_front((origin, bytes.to_vec(), config.clone()));
    Ok(config)
}

fn parse_anew(path: &Path, bytes: &[u8], origin: Origin) -> Result<Config, ConfigError> {
    let parsed = text(bytes).and_then(|text| schema::parse(text, origin));
    parsed.map_err(|Misplaced { at, field, problem }| ConfigError::Content {
        path: path.to_owned(),
        at,
        field,
        problem: Box::new(problem),
        has_setting: seems_to_have_setting(bytes),
    })
}

/// The keys of what bounds a sandbox.
const BOUNDING: [&str; 7] = [
    "sandbox", "image", "limits", "run", "hide", "protect", "gate",
];

/// Of a text that cannot be read: one of the keys stands where a key may, or one at the beginning of a line is almost such a key.
fn seems_to_have_setting(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut keys = text.lines().filter_map(|line| line.split_once(':'));
    if keys.any(|(key, _)| {
        let key = key.trim_end().trim_matches(['"', '\'']).to_lowercase();
        let mut all = BOUNDING.iter();
        // A letter too many, too few or another one, or two that changed places.
        all.any(|bounding| strsim::osa_distance(&key, bounding) <= 1)
    }) {
        return true;
    }
    BOUNDING.iter().any(|key| {
        text.match_indices(key).any(|(at, key)| {
            let before = text[..at].chars().next_back();
            let begins = before.is_none_or(|c| !c.is_alphanumeric() && !"_-".contains(c));
            let after = text[at + key.len()..].trim_start_matches(['"', '\'']);
            begins && after.trim_start_matches([' ', '\t']).starts_with(':')
        })
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
