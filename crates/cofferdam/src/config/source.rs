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
    /// What is in force, with where each of it comes from.
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
    /// It cannot be understood.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// What is approved of it cannot be known.
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::names::RepoPath;

    const SECRET: &str = "canary-of-this-machine";

    /// Makes what there is in a checkout, beside a directory of another's.
    type Make<'a> = &'a dyn Fn(&Path, &Path);

    /// What a checkout says, and what is said of it.
    fn said(make: Make<'_>) -> (Effective, String) {
        let place = tempfile::tempdir().unwrap();
        let [home, top, elsewhere] = ["home", "top", "elsewhere"].map(|name| {
            let path = place.path().join(name);
            crate::fsx::private_dir(&path).unwrap();
            path
        });
        let text = format!("env: {{APP_A: {SECRET}}}\nhide: [{SECRET}]\n");
        crate::fsx::write_private(&elsewhere.join("config.yaml"), text.as_bytes()).unwrap();
        make(&top, &elsewhere);
        let repository = RepoPath::resolve(&top).unwrap();
        let found = effective(&Home::new(&home), Some((&top, &repository)));
        let said: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
        (found, said.join("\n"))
    }

    /// It may be anybody's, and so may what it leads to.
    #[test]
    fn a_repositorys_file_is_a_file_of_that_repository_or_nothing() {
        let below = |top: &Path| {
            let directory = top.join(".cofferdam");
            crate::fsx::private_dir(&directory).unwrap();
            directory.join("config.yaml")
        };
        let links = |top: &Path, elsewhere: &Path| {
            symlink(elsewhere.join("config.yaml"), below(top)).unwrap();
        };
        let leads = |top: &Path, elsewhere: &Path| {
            symlink(elsewhere, top.join(".cofferdam")).unwrap();
        };
        let waits = |top: &Path, _: &Path| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            let fifo = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, below(top), fifo, mode, 0).unwrap();
        };
        let directory = |top: &Path, _: &Path| crate::fsx::private_dir(&below(top)).unwrap();
        let sized = |bytes: u64, top: &Path| {
            let mut text = format!("env: {{APP_A: {SECRET}}}\n#").into_bytes();
            text.resize(usize::try_from(bytes).unwrap(), b' ');
            crate::fsx::write_private(&below(top), &text).unwrap();
        };
        let large = |top: &Path, _: &Path| sized(LIMIT + 1, top);
        let refused: [(Make<'_>, &str); 5] = [
            (&links, "it is behind a symlink: put the file itself there"),
            (&leads, "it is behind a symlink: put the file itself there"),
            (&waits, "it is not a regular file"),
            (&directory, "it is not a regular file"),
            (&large, "it is larger than 1048576 bytes"),
        ];
        for (make, why) in refused {
            let (found, text) = said(make);
            assert!(text.contains(why), "{why}: {text}");
            assert!(text.contains("top/.cofferdam/config.yaml"), "{text}");
            assert!(!text.contains(SECRET), "{text}");
            assert_eq!(found.problems.len(), 1, "{text}");
            assert!(found.unread_setting().is_some(), "{text}");
            assert!(found.config.env.is_empty(), "{why}");
            assert_eq!((found.config.hide.len(), found.waiting.len()), (0, 0));
        }
        // A file of its own, as long as one may be.
        let (found, text) = said(&|top, _| sized(LIMIT, top));
        assert_eq!(text, "");
        assert_eq!(found.config.env["APP_A"].source.file(), OF_REPOSITORY);
        let (found, text) = said(&|_, _| ());
        assert_eq!((found.config.env.len(), text), (0, String::new()));
    }
}
