//! Submodules of a mounted checkout: each gets a git directory of ours, for reading alone, with the
//! history of the commit that its parent names. The user's own is not shown: it holds the settings, the
//! hooks and every branch of the submodule, and lies where the private git directory is mounted.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::error::{RunErrorKind, step};
use super::event::Notice;
use crate::git::discovery::Start;
use crate::git::index::{self, Owner};
use crate::git::private_clone::PrivateClone;
use crate::git::private_clone::reading::{self, Reading};
use crate::git::vault::Vault;
use crate::git::{Git, GitError, Oid, Repository};
use crate::home::Home;
use crate::registry;

/// In the state directory.
pub(super) const MODULES: &str = "modules";
/// Where that is mounted.
pub(super) const INSIDE: &str = "/.cofferdam/modules";

/// A populated submodule, its path relative to the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Submodule {
    pub path: PathBuf,
    pub shown: Shown,
}

/// What a sandbox finds at a submodule's place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Its files, and over its `.git` file this one, which points to a git directory of ours.
    Pointer(PathBuf),
    /// Its files, and over its `.git` directory this one.
    Directory(PathBuf),
    /// An empty directory, as if it had never been populated.
    Nothing,
}

/// What [`Where::prepare`] found.
#[derive(Debug, Default)]
pub(super) struct Submodules {
    pub shown: Vec<Submodule>,
    /// Those of the hidden paths that are tracked in one whose history goes in.
    pub tracked: Vec<PathBuf>,
}

/// What is said where a submodule could not be shown.
pub(super) fn notice(submodules: &[Submodule]) -> Option<Notice> {
    let empty = submodules.iter().filter(|one| one.shown == Shown::Nothing);
    let names: Vec<_> = empty.map(|one| one.path.display().to_string()).collect();
    (!names.is_empty()).then(|| Notice::Other {
        text: format!(
            "these submodules are empty inside, because their repositories could not be read: {}",
            names.join(", ")
        ),
    })
}

/// Where the git directories are made.
#[derive(Debug)]
pub(super) struct Where<'a> {
    pub home: &'a Home,
    pub state: &'a Path,
    /// As in [`crate::git::identity::UserConfig`].
    pub comparing: &'a [(String, String)],
    /// Paths relative to the workspace that show nothing.
    pub hidden: &'a [PathBuf],
}

/// A repository whose submodules are looked at.
struct Parent {
    repository: Repository,
    /// Relative to the workspace.
    prefix: PathBuf,
    commit: Oid,
    gitlinks: Vec<PathBuf>,
}

/// One populated submodule.
struct At<'a> {
    /// Relative to the workspace.
    path: &'a Path,
    start: &'a Start,
    commit: &'a Oid,
    /// The name of its git directory.
    number: usize,
}

impl Where<'_> {
    /// Makes git directories for the populated submodules of `repository` at `commit`, and for those in
    /// them. `gitlinks`: where the commit has submodules. One that is hidden as a whole gets none: its history would
    /// be there to read.
    pub(super) async fn prepare(
        &self,
        repository: &Repository,
        commit: &Oid,
        gitlinks: &[PathBuf],
        cancel: &CancellationToken,
    ) -> Result<Submodules, RunErrorKind> {
        let top = repository.top.as_path();
        let mut found = Submodules::default();
        let mut workspaces = None;
        let mut parents = vec![Parent {
            repository: repository.clone(),
            prefix: PathBuf::new(),
            commit: commit.clone(),
            gitlinks: gitlinks.to_vec(),
        }];
        while let Some(mut parent) = parents.pop() {
            let here = top.join(&parent.prefix);
            let is_populated = |path: &PathBuf| {
                let dot_git = here.join(path).join(".git");
                dot_git.symlink_metadata().is_ok()
            };
            let is_hidden = |path: &PathBuf| {
                let at = parent.prefix.join(path);
                self.hidden.iter().any(|hidden| at.starts_with(hidden))
            };
            (parent.gitlinks).retain(|path| !is_hidden(path) && is_populated(path));
            if parent.gitlinks.is_empty() {
                continue;
            }
            let known = match workspaces.take() {
                Some(known) => known,
                None => registry::workspaces(self.home)?,
            };
            let workspaces = &*workspaces.insert(known);
            for (path, oid) in parent.commits(cancel).await? {
                let at = parent.prefix.join(&path);
                // Another sandbox may have made it, and git would obey what it wrote there.
                let shown = match Start::find(&top.join(&at), workspaces) {
                    Ok(start) if start.path() == top.join(&at) => {
                        let git = &parent.repository.git;
                        let at = At {
                            path: &at,
                            start: &start,
                            commit: &oid,
                            number: found.shown.len(),
                        };
                        self.show(git, &at, cancel).await?
                    }
                    _ => None,
                };
                let shown = match shown {
                    Some((shown, child, tracked)) => {
                        parents.push(child);
                        found.tracked.extend(tracked);
                        shown
                    }
                    None => Shown::Nothing,
                };
                found.shown.push(Submodule { path: at, shown });
            }
        }
        Ok(found)
    }

    /// How it is shown, its own submodules, and what is hidden and tracked in it. `None` where the submodule's
    /// repository cannot give the commit.
    async fn show(
        &self,
        git: &Git,
        at: &At<'_>,
        cancel: &CancellationToken,
    ) -> Result<Option<(Shown, Parent, Vec<PathBuf>)>, RunErrorKind> {
        let At {
            path,
            start,
            commit,
            number,
        } = *at;
        let top = start.path();
        let dot_git = top.join(".git").symlink_metadata();
        let is_directory = match dot_git {
            Ok(found) if found.is_dir() => true,
            Ok(found) if found.is_file() => false,
            _ => return Ok(None),
        };
        let Ok(repository) = Repository::discover(git, start, None, cancel).await else {
            return Ok(None);
        };
        if repository.top.as_path() != top {
            return Ok(None);
        }
        let Ok(vault) = Vault::open(self.home, &repository) else {
            return Ok(None);
        };
        let Ok(export) = vault.export(&repository, commit, cancel).await else {
            return Ok(None);
        };
        let scratch = self.state.join("scratch-module");
        let hidden = self.hidden.iter();
        let hidden: Vec<PathBuf> = hidden
            .filter_map(|hidden| hidden.strip_prefix(path).ok())
            .map(Path::to_owned)
            .collect();
        let index =
            index::build(&repository, commit, Owner::AGENT, &hidden, &scratch, cancel).await;
        let index = index.map_err(step("index of a submodule"))?;
        let name = number.to_string();
        let directory = self.state.join(MODULES).join(&name);
        reading::create(&Reading {
            directory: &directory,
            inside: &Path::new(INSIDE).join(&name),
            format: repository.format,
            export: &export,
            comparing: self.comparing,
            index: &index.bytes,
            hidden: &hidden,
        })?;
        let clone = PrivateClone::at(&directory);
        let shown = if is_directory {
            Shown::Directory(clone.git_dir)
        } else {
            Shown::Pointer(clone.pointer)
        };
        let child = Parent {
            repository,
            prefix: path.to_owned(),
            commit: commit.clone(),
            gitlinks: index.gitlinks,
        };
        let tracked = index.hidden.into_iter();
        let tracked = tracked.map(|hidden| path.join(hidden)).collect();
        Ok(Some((shown, child, tracked)))
    }
}

impl Parent {
    /// The commit that is named at each of the gitlinks.
    async fn commits(&self, cancel: &CancellationToken) -> Result<Vec<(PathBuf, Oid)>, GitError> {
        self.repository
            .gitlinks(&self.commit, &self.gitlinks, cancel)
            .await
    }
}
