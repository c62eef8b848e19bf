//! Settings of the user's own git that make it run or obey files of the tree: `core.hooksPath`, included
//! configuration, and commands that name a script. Whoever writes those files runs programs on the host,
//! committed or not.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::Repository;
use crate::fsx;

/// A list of object directories, in bytes.
const ALTERNATES: u64 = 1 << 20;
/// More paths than that are nobody's.
const MOST: usize = 10_000;

/// Keys whose values are commands, as a regular expression of `git config`.
pub(super) const COMMANDS: &str = "core\\.(fsmonitor|sshcommand|editor|pager|askpass|gitproxy|alternaterefscommand)\
     |alias\\..*|filter\\..*\\.(clean|smudge|process)|diff\\.external|diff\\..*\\.(command|textconv)\
     |merge\\..*\\.driver|(diff|merge)tool\\..*\\.(cmd|path)|pager\\..*|sequence\\.editor\
     |gpg\\.(.*\\.)?program|credential\\.(.*\\.)?helper|interactive\\.difffilter";
/// Keys whose values are files with more settings.
pub(super) const INCLUDES: &str = "include\\.path|includeif\\..*\\.path";

/// Keys whose values are files and directories that git reads, copies or works in, as a regular expression of `git config`.
pub(super) const READ: &str = "core\\.(attributesfile|worktree)|init\\.templatedir";

/// What the user's configuration says, in its order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Steering {
    /// `core.hooksPath`, whoever set it.
    pub(super) hooks: Vec<PathBuf>,
    pub(super) includes: Vec<PathBuf>,
    /// `core.excludesFile` and those of [`READ`].
    pub(super) read: Vec<PathBuf>,
    pub(super) commands: Vec<Vec<u8>>,
}

/// Paths below a workspace that the user's git runs or obeys.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct InTree {
    /// Hooks: what is in them runs, also what is not there yet.
    pub directories: BTreeSet<PathBuf>,
    /// Relative to the workspace.
    pub files: BTreeSet<PathBuf>,
    /// Files that are not there, or lie behind a symlink.
    pub open: BTreeSet<PathBuf>,
}

impl Steering {
    /// Every path of it, wherever that is, and the object directories that the repository borrows from (`info/alternates`,
    /// gitrepository-layout(5)). `home`: the user's.
    pub fn paths(&self, repo: &Repository, home: Option<&Path>) -> Vec<PathBuf> {
        let mut bases = vec![
            repo.top.as_path().to_owned(),
            repo.common_dir.clone(),
            repo.git_dir.clone(),
        ];
        bases.extend(home.map(Path::to_owned));
        let words = self.commands.iter().flat_map(|command| words(command));
        let named = (self.hooks.iter().chain(&self.includes).chain(&self.read))
            .map(PathBuf::as_path)
            .chain(words);
        let mut found: Vec<PathBuf> = named
            .flat_map(|path| match (path.strip_prefix("~"), home) {
                (Ok(rest), Some(home)) => vec![home.join(rest)],
                _ => bases.iter().map(|base| base.join(path)).collect(),
            })
            .collect();
        let mut objects = vec![repo.common_dir.join("objects")];
        while let Some(directory) = objects.pop() {
            if objects.len() + found.len() > MOST {
                break;
            }
            let list = fsx::read_bounded(&directory.join("info/alternates"), ALTERNATES);
            for line in list.unwrap_or_default().split(|&byte| byte == b'\n') {
                let other = directory.join(OsStr::from_bytes(line));
                if !line.is_empty() && !line.starts_with(b"#") && !found.contains(&other) {
                    found.push(other.clone());
                    objects.push(other);
                }
            }
        }
        found
    }

    /// Those below `workspace`, one of the repository's checkouts. `home`: the user's.
    pub fn in_tree(&self, repo: &Repository, home: Option<&Path>, workspace: &Path) -> InTree {
        let mut found = InTree::default();
        for path in self
            .hooks
            .iter()
            .filter_map(|path| below(workspace, workspace, path))
        {
            if is_plain(workspace, &path) || !workspace.join(&path).exists() {
                found.directories.insert(path);
            } else {
                found.open.insert(path);
            }
        }
        // Relative to the file that includes; which that is, is tried.
        let mut bases = vec![repo.common_dir.clone(), repo.git_dir.clone()];
        bases.extend(home.map(Path::to_owned));
        for path in &self.includes {
            let inside: BTreeSet<_> = bases
                .iter()
                .filter_map(|base| below(workspace, base, path))
                .collect();
            for path in inside {
                bases.extend(workspace.join(&path).parent().map(Path::to_owned));
                if is_plain(workspace, &path) {
                    found.files.insert(path);
                } else {
                    found.open.insert(path);
                }
            }
        }
        let words = self.commands.iter().flat_map(|command| words(command));
        for path in words.filter_map(|word| below(workspace, workspace, word)) {
            if is_plain(workspace, &path) && workspace.join(&path).is_file() {
                found.files.insert(path);
            }
        }
        found
    }
}

/// What in a shell command may be the path of a script: with a slash in it, or a shell would look for it in
/// `PATH`.
fn words(command: &[u8]) -> impl Iterator<Item = &Path> {
    command
        .split(|byte| byte.is_ascii_whitespace() || b"\"'`!=;&|()<>{}$,".contains(byte))
        .filter(|word| word.contains(&b'/'))
        .map(|word| Path::new(OsStr::from_bytes(word)))
}

/// `path`, relative to `base`, below `workspace`; `None` where it is elsewhere, or in git's own directory.
fn below(workspace: &Path, base: &Path, path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in base.join(path).components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            part => clean.push(part),
        }
    }
    let inside = clean.strip_prefix(workspace).ok()?;
    let first = inside.components().next()?;
    let own = [".git", ".cofferdam"].map(|name| Component::Normal(name.as_ref()));
    (!own.contains(&first)).then(|| inside.to_owned())
}

/// Whether it can be mounted over: it is there, and no symlink leads to it.
fn is_plain(workspace: &Path, path: &Path) -> bool {
    let place = workspace.join(path);
    let real = workspace.canonicalize().map(|top| top.join(path)).ok();
    real.is_some() && place.canonicalize().ok() == real
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_in_commands() {
        let check = |command: &str, want: &[&str]| {
            let found: Vec<_> = words(command.as_bytes())
                .map(|word| word.to_str().unwrap())
                .collect();
            assert_eq!(found, want, "{command}");
        };
        check("tools/clean %f", &["tools/clean"]);
        check("!./run \"$@\"", &["./run"]);
        check("sh -c 'a/b; c'", &["a/b"]);
        check("!git log --oneline", &[]);
        check("X=tools/x python tools/y.py", &["tools/x", "tools/y.py"]);
    }

    #[test]
    fn paths_below_a_workspace() {
        let check = |base: &str, path: &str, want: Option<&str>| {
            let found = below(Path::new("/w"), Path::new(base), Path::new(path));
            assert_eq!(found, want.map(PathBuf::from), "{base} {path}");
        };
        check("/w", ".githooks", Some(".githooks"));
        check("/w/.git", "../.gitconfig", Some(".gitconfig"));
        check("/w", "/w/a/./b", Some("a/b"));
        check("/w", ".git/hooks", None);
        check("/w", "../x", None);
        check("/w", "/etc/x", None);
        check("/w", ".", None);
    }
}
