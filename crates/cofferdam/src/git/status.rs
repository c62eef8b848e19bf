//! `git status` as values: what differs between HEAD, index and working tree.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::Repository;
use super::command::{GitCommand, GitError};
use crate::process::{Exit, Input};

/// What is different about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Tracked; the flags say where it differs.
    Tracked {
        /// The index differs from HEAD.
        staged: bool,
        /// The file differs from the index.
        unstaged: bool,
    },
    /// In conflict.
    Unmerged,
    /// A submodule.
    Submodule {
        /// The index differs from HEAD.
        staged: bool,
    },
    /// Not tracked and not ignored. A directory's path ends with `/`.
    Untracked,
    /// A pipe in the place of `.gitignore` and the like, at which git would wait for ever: whatever else differs is not known.
    Trap,
}

/// One path that differs, relative to the working tree's top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// As git has it, any bytes.
    pub path: PathBuf,
    /// What is different.
    pub kind: ChangeKind,
}

/// Everything that differs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes(pub Vec<Change>);

impl Changes {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many are staged.
    pub fn staged(&self) -> usize {
        self.count(|kind| {
            matches!(
                kind,
                ChangeKind::Tracked { staged: true, .. } | ChangeKind::Submodule { staged: true }
            )
        })
    }

    /// How many tracked ones differ from the index.
    pub fn unstaged(&self) -> usize {
        self.count(|kind| matches!(kind, ChangeKind::Tracked { unstaged: true, .. }))
    }

    /// How many git does not know.
    pub fn untracked(&self) -> usize {
        self.count(|kind| kind == ChangeKind::Untracked)
    }

    /// How many are in the middle of a merge.
    pub fn unmerged(&self) -> usize {
        self.count(|kind| kind == ChangeKind::Unmerged)
    }

    fn count(&self, which: impl Fn(ChangeKind) -> bool) -> usize {
        self.0.iter().filter(|change| which(change.kind)).count()
    }
}

/// How untracked files are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Untracked {
    /// A directory with nothing tracked in it is one entry.
    Directories,
    Files,
}

/// Runs `git status` on `call`, which must not be able to execute anything of the tree, for these paths, or for all where there
/// are none.
pub(super) async fn status(
    call: GitCommand,
    untracked: Untracked,
    only: &[PathBuf],
    cancel: &CancellationToken,
) -> Result<Changes, GitError> {
    Ok(status_and_gaps(call, untracked, only, cancel).await?.0)
}

/// As [`status`], and whether there are directories that git could not look into: without
/// permissions, or deeper than a path can name.
pub(super) async fn status_and_gaps(
    call: GitCommand,
    untracked: Untracked,
    only: &[PathBuf],
    cancel: &CancellationToken,
) -> Result<(Changes, bool), GitError> {
    let done = call
        .args([
            "status",
            "--porcelain=v2",
            "-z",
            "--no-renames",
            "--ignore-submodules=all",
        ])
        .arg(match untracked {
            Untracked::Directories => "--untracked-files=normal",
            Untracked::Files => "--untracked-files=all",
        })
        .arg("--")
        .args(only)
        .run(cancel)
        .await?;
    let changes = parse(&done.stdout).ok_or_else(odd)?;
    // It is a warning only, in the language that the call sets.
    let gaps = String::from_utf8_lossy(&done.stderr).contains("could not open directory");
    Ok((changes, gaps))
}

/// Which of these paths git leaves alone; it tracks none of them. `None` where it does not say. `call` must not be able to
/// execute anything of the tree.
pub(super) async fn ignored(
    call: GitCommand,
    paths: &BTreeSet<PathBuf>,
    cancel: &CancellationToken,
) -> Result<Option<BTreeSet<PathBuf>>, GitError> {
    if paths.is_empty() {
        return Ok(Some(BTreeSet::new()));
    }
    // This one refuses to take them literally, and does where none begins with a colon.
    let here: &[u8] = b"./";
    let lines = paths
        .iter()
        .flat_map(|path| [here, path.as_os_str().as_bytes(), b"\0"].concat());
    let asked = call
        .without_env("GIT_LITERAL_PATHSPECS")
        .args(["check-ignore", "--no-index", "--stdin", "-z"])
        .input(Input::Bytes(lines.collect()))
        .run(cancel)
        .await;
    match asked {
        Ok(done) => {
            let lines = done.stdout.split(|&byte| byte == 0);
            let paths = lines.filter_map(|line| line.strip_prefix(here));
            Ok(Some(
                paths.map(|path| OsStr::from_bytes(path).into()).collect(),
            ))
        }
        Err(GitError::Failed {
            exit: Exit::Code(1),
            ..
        }) => Ok(Some(BTreeSet::new())),
        Err(GitError::Failed { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether `git add` would take the file: it is there, not tracked yet, and nothing in the repository ignores it. A
/// rule in the user's own settings does not count.
pub async fn is_addable(
    repo: &Repository,
    path: &Path,
    cancel: &CancellationToken,
) -> Result<bool, GitError> {
    let done = repo
        .command_in_tree()
        .args(["ls-files", "--others", "--exclude-standard", "-z", "--"])
        .arg(path)
        .run(cancel)
        .await?;
    Ok(!done.stdout.is_empty())
}

/// What the index has at these paths, and below them.
pub async fn in_index(
    repo: &Repository,
    paths: &[&Path],
    cancel: &CancellationToken,
) -> Result<Vec<PathBuf>, GitError> {
    let done = repo
        .command_in_tree()
        .args(["ls-files", "-z", "--"])
        .args(paths)
        .run(cancel)
        .await?;
    let entries = done.stdout.split(|&byte| byte == 0);
    let entries = entries.filter(|entry| !entry.is_empty());
    Ok(entries
        .map(|entry| PathBuf::from(OsStr::from_bytes(entry)))
        .collect())
}

/// Which of these paths, below the top, differ from HEAD or are untracked and not ignored. `repo`: one whose drivers
/// do not run.
pub async fn uncommitted(
    repo: &Repository,
    paths: &[&Path],
    cancel: &CancellationToken,
) -> Result<Vec<PathBuf>, GitError> {
    let done = repo
        .command_in_tree()
        .args(["status", "--porcelain=v2", "-z", "--no-renames"])
        .args(["--ignore-submodules=all", "--untracked-files=all", "--"])
        .args(paths)
        .run(cancel)
        .await?;
    let changes = parse(&done.stdout).ok_or_else(odd)?;
    Ok(changes.0.into_iter().map(|change| change.path).collect())
}

fn odd() -> GitError {
    GitError::Output {
        command: "status".into(),
        what: "a line in an unknown form".into(),
    }
}

fn parse(output: &[u8]) -> Option<Changes> {
    let mut changes = Vec::new();
    for line in output.split(|&b| b == 0).filter(|line| !line.is_empty()) {
        let (kind, path) = match line[0] {
            b'1' => {
                let mut fields = line.splitn(9, |&b| b == b' ').skip(1);
                let (xy, sub) = (fields.next()?, fields.next()?);
                let [staged, unstaged] = [xy.first()?, xy.get(1)?].map(|&b| b != b'.');
                let kind = match sub.first()? {
                    b'S' => ChangeKind::Submodule { staged },
                    _ => ChangeKind::Tracked { staged, unstaged },
                };
                (kind, fields.nth(5)?)
            }
            b'u' => (
                ChangeKind::Unmerged,
                line.splitn(11, |&b| b == b' ').nth(10)?,
            ),
            b'?' => (ChangeKind::Untracked, line.get(2..)?),
            b'#' | b'!' => continue,
            _ => return None,
        };
        changes.push(Change {
            path: PathBuf::from(OsStr::from_bytes(path)),
            kind,
        });
    }
    Some(Changes(changes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_every_kind() {
        let output = b"1 M. N... 100644 100644 100644 aa bb a b\n\0\
            1 .M S..U 160000 160000 160000 aa bb sub\0\
            u UU N... 100644 100644 100644 100644 a b c both\0? new dir/\0";
        let changes = parse(output).unwrap();
        let want = [
            (
                "a b\n",
                ChangeKind::Tracked {
                    staged: true,
                    unstaged: false,
                },
            ),
            ("sub", ChangeKind::Submodule { staged: false }),
            ("both", ChangeKind::Unmerged),
            ("new dir/", ChangeKind::Untracked),
        ];
        let got: Vec<_> = changes
            .0
            .iter()
            .map(|change| (change.path.to_str().unwrap(), change.kind))
            .collect();
        assert_eq!(got, want);
        assert_eq!(
            (changes.staged(), changes.unmerged(), changes.untracked()),
            (1, 1, 1)
        );
        assert_eq!(parse(b"x what\0"), None);
        assert!(parse(b"").unwrap().is_empty());
    }
}
