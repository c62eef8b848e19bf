//! The host repository: found once, by one git call, and refused early where the work could not
//! come home.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::command::{Git, GitCommand, GitError};
use super::discovery::Start;
pub use super::repository_error::RepositoryError;
use super::{ObjectFormat, Oid, own_files};
use crate::names::{BranchName, NameError, RepoPath};

/// What is checked out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Head {
    /// A branch with a commit.
    Branch {
        /// Its short name.
        name: BranchName,
        /// Where it is.
        commit: Oid,
    },
    /// A commit, and no branch.
    Detached {
        /// The commit.
        commit: Oid,
    },
}

impl Head {
    /// What is checked out, whatever names it.
    pub fn commit(&self) -> &Oid {
        match self {
            Self::Branch { commit, .. } | Self::Detached { commit } => commit,
        }
    }

    /// The branch that is checked out, if one is.
    pub fn branch(&self) -> Option<&BranchName> {
        match self {
            Self::Branch { name, .. } => Some(name),
            Self::Detached { .. } => None,
        }
    }

    /// The branch's name, or `HEAD`.
    pub fn branch_text(&self) -> String {
        self.branch()
            .map_or_else(|| "HEAD".to_owned(), ToString::to_string)
    }
}

/// The author of commits, as the user configured it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `user.name`.
    pub name: String,
    /// `user.email`.
    pub email: String,
}

impl Identity {
    /// For users who told git no name: commits in a sandbox must not fail for that.
    pub fn fallback() -> Self {
        Self {
            name: "Cofferdam agent".to_owned(),
            email: "agent@cofferdam.invalid".to_owned(),
        }
    }
}

/// A host repository with a working tree.
#[derive(Debug, Clone)]
pub struct Repository {
    /// Which git is asked, and how.
    pub git: Git,
    /// The top of the working tree.
    pub top: RepoPath,
    /// This working tree's own git directory.
    pub git_dir: PathBuf,
    /// The directory that all its working trees share.
    pub common_dir: PathBuf,
    /// The hash that its objects are named by.
    pub format: ObjectFormat,
    /// Whether its history was cut off (`git clone --depth`).
    pub shallow: bool,
    /// What was checked out when it was looked at.
    pub head: Head,
    /// A commit and its tree: HEAD's when the repository was found. Neither ever changes.
    pub(super) known_tree: (Oid, Oid),
}

impl Repository {
    /// Finds the repository around `start`. `caller_home` lets git read the user's `safe.directory`
    /// for this one call, which runs no program of the configuration. Whoever finds one has git ignore the
    /// user's keys in it ([`own_files::ignore`]).
    pub async fn discover(
        git: &Git,
        start: &Start,
        caller_home: Option<&Path>,
        cancel: &CancellationToken,
    ) -> Result<Self, RepositoryError> {
        let from = start.path().to_owned();
        let mut call = git.anywhere(&from);
        if let Some(home) = caller_home {
            call = call.env("HOME", home).without_env("GIT_CONFIG_GLOBAL");
        }
        let call = call
            .args(["rev-parse", "--is-bare-repository", "--show-object-format"])
            .args([
                "--is-shallow-repository",
                "--path-format=absolute",
                "--git-dir",
            ])
            .args([
                "--git-common-dir",
                "--show-toplevel",
                "HEAD^{commit}",
                "HEAD^{tree}",
            ])
            .args(["--symbolic-full-name", "HEAD"])
            .answers(&[128]);
        let done = call.run(cancel).await?;
        let stderr = String::from_utf8_lossy(&done.stderr);
        if stderr.contains("dubious ownership") {
            return Err(RepositoryError::ForeignOwner { path: from });
        }
        // The hardened command refuses to open one that it was not pointed at.
        if stderr.contains("cannot use bare repository") {
            return Err(RepositoryError::Bare { path: from });
        }
        if done.stdout.is_empty() {
            if stderr.contains("not a git repository") {
                return Err(RepositoryError::NotARepository { path: from });
            }
            return Err(failed("rev-parse", done.exit, &stderr));
        }
        if done.stdout.starts_with(b"true\n") {
            return Err(RepositoryError::Bare { path: from });
        }
        if !done.exit.success() {
            if stderr.contains("must be run in a work tree") {
                return Err(RepositoryError::NotARepository { path: from });
            }
            if stderr.contains("HEAD") {
                // The keys of a user who has committed nothing yet go with their first commit.
                let mut above = from.ancestors();
                if let Some(top) = above.find(|one| one.join(".git").exists()) {
                    ignore_own_files(top);
                }
                return Err(RepositoryError::Unborn { path: from });
            }
            return Err(failed("rev-parse", done.exit, &stderr));
        }
        let found = Self::parse(git, &from, &done.stdout)?;
        // `core.worktree` can name any directory, and what is there would be given to a sandbox.
        if !from.starts_with(found.top.as_path()) {
            let top = found.top.as_path().to_owned();
            return Err(RepositoryError::Elsewhere { path: from, top });
        }
        ignore_own_files(found.top.as_path());
        Ok(found)
    }

    fn parse(git: &Git, from: &Path, stdout: &[u8]) -> Result<Self, RepositoryError> {
        let odd = |what: &str| {
            RepositoryError::Git(GitError::Output {
                command: "rev-parse".into(),
                what: what.into(),
            })
        };
        let mut lines: Vec<&[u8]> = stdout.split(|&b| b == b'\n').collect();
        lines.pop();
        if lines.len() < 9 {
            return Err(odd("too few lines"));
        }
        let symbolic = lines.pop().unwrap_or_default();
        let mut oid = || {
            text(lines.pop().unwrap_or_default())
                .parse::<Oid>()
                .map_err(|_| odd("HEAD"))
        };
        let tree = oid()?;
        let commit = oid()?;
        let known_tree = (commit.clone(), tree);
        let format = match lines[1] {
            b"sha1" => ObjectFormat::Sha1,
            b"sha256" => ObjectFormat::Sha256,
            _ => return Err(odd("unknown object format")),
        };
        let shallow = lines[2] == b"true";
        let [git_dir, common_dir, top] =
            three_paths(&lines[3..]).ok_or_else(|| odd("no directories"))?;
        let top = RepoPath::resolve(&top).map_err(|source| RepositoryError::Path {
            path: from.to_owned(),
            source,
        })?;
        let head = match symbolic {
            b"HEAD" => Head::Detached { commit },
            name => {
                let name = std::str::from_utf8(name).map_err(|_| NameError::Branch {
                    name: text(name),
                    reason: "it is not UTF-8",
                })?;
                let name = name
                    .strip_prefix("refs/heads/")
                    .ok_or_else(|| odd("HEAD is no branch"))?;
                Head::Branch {
                    name: name.parse()?,
                    commit,
                }
            }
        };
        Ok(Self {
            git: git.clone(),
            top,
            git_dir,
            common_dir,
            format,
            shallow,
            head,
            known_tree,
        })
    }

    /// A hardened call in this repository.
    pub fn command(&self) -> GitCommand {
        self.git.at(&self.git_dir, &self.common_dir)
    }

    /// A hardened call in this repository with its working tree.
    pub fn command_in_tree(&self) -> GitCommand {
        self.command().work_tree(self.top.as_path())
    }

    /// The same repository, in whose calls no filter and no merge driver of its configuration
    /// runs: they may be scripts of the tree (`./tools/clean`), and the tree may be an agent's. Files
    /// with a filter are taken and written as they are; where a driver would merge, there is a
    /// conflict.
    pub async fn without_drivers(&self, cancel: &CancellationToken) -> Result<Self, GitError> {
        let names = "^(filter\\..*\\.(clean|smudge|process|required)|merge\\..*\\.driver)$";
        let done = self
            .command()
            .args(["config", "--null", "--name-only", "--get-regexp", names])
            .answers(&[1])
            .run(cancel)
            .await?;
        let names = done
            .stdout
            .split(|&b| b == 0)
            .filter(|name| !name.is_empty());
        let overrides = names.map(|name| {
            let is_false = name.ends_with(b".required") || name.ends_with(b".driver");
            let value = if is_false { "false" } else { "" };
            (OsStr::from_bytes(name).to_owned(), value)
        });
        let git = self.git.clone().with_overrides(overrides.collect());
        Ok(Self {
            git,
            ..self.clone()
        })
    }

    /// The repository's object directory.
    pub fn objects(&self) -> PathBuf {
        self.common_dir.join("objects")
    }

    /// The directory for worktrees and logs, `.cofferdam` of the main checkout: `git worktree remove` takes all that git
    /// ignores in a linked one along. Where there is no main checkout it is this one's.
    pub fn kept_dir(&self) -> PathBuf {
        let shared = &self.common_dir;
        match shared.parent() {
            Some(main) if self.git_dir != *shared && shared.ends_with(".git") => {
                main.join(own_files::DIRECTORY)
            }
            _ => self.config_dir(),
        }
    }

    /// What a checkout says of itself, `<top>/.cofferdam`.
    pub fn config_dir(&self) -> PathBuf {
        self.top.as_path().join(".cofferdam")
    }

    /// The tree of `commit`, which must exist. That of HEAD costs no process.
    pub async fn tree_of(&self, commit: &Oid, cancel: &CancellationToken) -> Result<Oid, GitError> {
        if self.known_tree.0 == *commit {
            return Ok(self.known_tree.1.clone());
        }
        let tree = format!("{commit}^{{tree}}");
        let text = self
            .command()
            .args(["rev-parse", "--verify", &tree])
            .line(cancel)
            .await?;
        text.parse().map_err(|_| GitError::Output {
            command: "rev-parse".into(),
            what: "it is no object id".into(),
        })
    }

    /// Where `origin` is, without anything that lets somebody in there. `None`: nowhere, or on this machine.
    pub async fn origin(&self, cancel: &CancellationToken) -> Result<Option<String>, GitError> {
        let done = self
            .command()
            .args(["config", "--get", "remote.origin.url"])
            .answers(&[1])
            .run(cancel)
            .await?;
        Ok(without_login(text(&done.stdout).trim_end()))
    }

    /// The commit that `revision` names, or `None` where there is none.
    pub async fn resolve(
        &self,
        revision: &str,
        cancel: &CancellationToken,
    ) -> Result<Option<Oid>, GitError> {
        let done = self
            .command()
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg(format!("{revision}^{{commit}}"))
            .answers(&[1, 128])
            .run(cancel)
            .await?;
        Ok(text(&done.stdout).trim_end().parse().ok())
    }

    /// The commit that HEAD names; nothing before the first one. Unlike [`Self::resolve`], that git cannot say is an error.
    pub async fn checked_out(&self, cancel: &CancellationToken) -> Result<Option<Oid>, GitError> {
        let done = self
            .command()
            .args(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
            .answers(&[1])
            .run(cancel)
            .await?;
        Ok(text(&done.stdout).trim_end().parse().ok())
    }
}

/// The address without user and password, query and fragment; of ssh the user stays, which is no secret. `None` for a path.
fn without_login(address: &str) -> Option<String> {
    let Some((scheme, rest)) = address.split_once("://") else {
        // `git@host:path`; everything else of this kind is a path.
        let (host, _) = address.split_once(':')?;
        let is_host = !host.is_empty() && !host.contains('/') && !address.contains("::");
        return is_host.then(|| address.to_owned());
    };
    if scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (login, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let user = login.split(':').next().unwrap_or_default();
    let is_ssh = scheme.to_ascii_lowercase().contains("ssh");
    let user = if is_ssh && !user.is_empty() {
        format!("{user}@")
    } else {
        String::new()
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    Some(format!("{scheme}://{user}{host}{path}"))
}

/// Three directories from lines, where a path may itself contain line feeds.
fn three_paths(lines: &[&[u8]]) -> Option<[PathBuf; 3]> {
    let join = |part: &[&[u8]]| PathBuf::from(OsStr::from_bytes(&part.join(&b'\n')));
    if let [a, b, c] = lines {
        return Some([join(&[a]), join(&[b]), join(&[c])]);
    }
    for first in 1..lines.len() {
        for second in first + 1..lines.len() {
            let paths = [
                join(&lines[..first]),
                join(&lines[first..second]),
                join(&lines[second..]),
            ];
            if paths.iter().all(|path| path.is_absolute() && path.is_dir()) {
                return Some(paths);
            }
        }
    }
    None
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A repository that can only be read is still found; a run, which writes there, says why it cannot.
fn ignore_own_files(top: &Path) {
    let _ = own_files::ignore(&top.join(own_files::DIRECTORY));
}

fn failed(command: &str, exit: crate::process::Exit, stderr: &str) -> RepositoryError {
    let stderr = crate::text::printable(stderr.trim_end());
    RepositoryError::Git(GitError::Failed {
        command: command.into(),
        exit,
        stderr,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_lets_nobody_in() {
        for (address, shown) in [
            ("https://host/a/b.git", Some("https://host/a/b.git")),
            ("https://user:token@host/a.git", Some("https://host/a.git")),
            (
                "https://token@host:8443/a.git",
                Some("https://host:8443/a.git"),
            ),
            ("https://a@b:c@host/a", Some("https://host/a")),
            ("https://host/a?token=x#y", Some("https://host/a")),
            ("https://user:x@host", Some("https://host")),
            ("ssh://git@host/a.git", Some("ssh://git@host/a.git")),
            ("ssh://git:pass@host:22/a", Some("ssh://git@host:22/a")),
            ("git@host:a/b.git", Some("git@host:a/b.git")),
            ("file:///srv/a.git", None),
            ("/srv/a.git", None),
            ("../a.git", None),
            ("./a:b", None),
            ("ext::sh -c x", None),
            ("", None),
        ] {
            assert_eq!(without_login(address).as_deref(), shown, "{address}");
        }
    }
}
