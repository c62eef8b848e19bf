//! The two files, and what they say together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cofferdam_wall::Origin;
use rustix::io::Errno;

use super::approvals;
use super::asked::{Asked, Sifted, sift};
use super::content::OF_REPOSITORY;
use super::merge::{Merged, merge};
use super::named::named_files;
use super::{Config, ConfigError, load, parse};
use crate::fsx::{FileError, beneath};
use crate::home::Home;
use crate::names::RepoPath;

/// The longest one in bytes.
const LIMIT: u64 = 1 << 20;

/// What is in force in a repository, and what is not and why.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Effective {
    pub config: Merged,
    /// What the repository's file asks for and nobody has approved: it is left out.
    pub waiting: Vec<Asked>,
    /// A file that cannot be used contributes nothing.
    pub problems: Vec<Problem>,
}

impl Effective {
    /// What is wrong with a file that cannot be used and may say how a sandbox is bounded: as far as its text tells, where it has one.
    pub fn unread_setting(&self) -> Option<&Problem> {
        self.problems.iter().find(|problem| match problem {
            Problem::Config(ConfigError::Content { has_setting, .. }) => *has_setting,
            // Nobody knows what it says.
            Problem::Config(ConfigError::File(_)) | Problem::Approvals(_) => true,
        })
    }
}

/// Why a file contributes nothing.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Approvals(#[from] approvals::ApprovalError),
}

/// Reads both files anew. `top`: of the checkout whose file counts; `repository`: for which it was approved.
pub fn effective(home: &Home, of: Option<(&Path, &RepoPath)>) -> Effective {
    let mut problems = Vec::new();
    let own = load(home).unwrap_or_else(|error| {
        problems.push(error.into());
        Config::default()
    });
    let sifted = match of {
        None => Sifted::default(),
        Some((top, repository)) => {
            let file = load_repository(top).unwrap_or_else(|error| {
                problems.push(error.into());
                Config::default()
            });
            let approved = approvals::of(home, repository).unwrap_or_else(|error| {
                problems.push(error.into());
                BTreeSet::new()
            });
            sift(file, &own, &approved, &|command| named_files(top, command))
        }
    };
    Effective {
        config: merge(own, sifted.granted),
        waiting: sifted.waiting,
        problems,
    }
}

/// Reads a repository's own file; where there is none, it says nothing. What is behind a link is not read: it may be anybody's.
pub fn load_repository(top: &Path) -> Result<Config, ConfigError> {
    let path = path_in(top);
    let read =
        beneath::root(top).and_then(|root| beneath::read(&root, Path::new(OF_REPOSITORY), LIMIT));
    let refuse = |why: &str| {
        let why = std::io::Error::other(why.to_owned());
        Err(FileError::new("read", &path, why).into())
    };
    match read {
        Ok(Some(bytes)) => parse(&path, &bytes, Origin::Repository),
        Ok(None) => refuse(&format!("it is larger than {LIMIT} bytes")),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(Config::default()),
        Err(Errno::LOOP) => refuse("it is behind a symlink: put the file itself there"),
        Err(Errno::INVAL) => refuse("it is not a regular file"),
        Err(errno) => Err(FileError::new("read", path, errno.into()).into()),
    }
}

/// Of a repository's own file.
pub fn path_in(top: &Path) -> PathBuf {
    top.join(OF_REPOSITORY)
}
