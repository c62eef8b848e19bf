//! A layer with what a tree has otherwise than one that is on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode};
use tokio_util::sync::CancellationToken;

use super::about::{self, About};
use super::base::{INDEX, is_ours, make_top, stat, time, write_index};
use super::error::TreeError;
use super::takes::Takes;
use super::write::{self, Places, Tell, Wanted, split};
use crate::fsx::{self, FileError};
use crate::git::hex::{from_hex, hex};
use crate::git::index::cached::{self, Ids};
use crate::git::index::format::{Entry, parse};
use crate::git::index::{self, TreeSide};
use crate::git::{GitError, Oid, Repository};
use crate::process::{ProcessError, Sink};

/// So many layers are compared with a new tree, the newest first.
pub(super) const TRIES: usize = 4;
/// One file in so many may differ; a tree that differs more is cheaper whole.
const PART: u64 = 4;
/// A tree of fewer files is always whole.
pub(super) const FEW: u64 = 64;
/// A directory's mode, as `diff-tree` prints it.
const DIRECTORY: &[u8] = b"040000";
/// Bytes of the list of what differs.
const LISTING: usize = 256 << 20;

/// A layer that another one may stand on.
#[derive(Debug)]
pub(super) struct Candidate {
    pub tree: Oid,
    pub place: PathBuf,
    pub about: About,
}

/// Writes what `tree` has otherwise to the directory `to`. `None`: it stands on none of them, and nothing was written.
pub(super) async fn write(
    repo: &Repository,
    tree: &Oid,
    to: &Path,
    candidates: &[Candidate],
    tell: &Tell,
    cancel: &CancellationToken,
) -> Result<Option<About>, TreeError> {
    for candidate in candidates {
        let Some(changes) = changes(repo, &candidate.tree, tree, LISTING, cancel).await? else {
            continue;
        };
        if changes.files.len() as u64 <= candidate.about.files / PART {
            let made = on(repo, candidate, (tree, changes), to, tell, cancel).await?;
            return Ok(Some(made));
        }
    }
    Ok(None)
}

/// What one tree has otherwise than another.
#[derive(Debug, Default)]
struct Changes {
    files: BTreeMap<Vec<u8>, TreeSide>,
    /// The raw ids of its directories that are others, or new.
    directories: Ids,
}

impl Changes {
    /// Of what `diff-tree -r -t --raw -z` prints.
    fn read(output: &[u8]) -> Option<Self> {
        let mut directories = Ids::new();
        let mut files = Vec::with_capacity(output.len());
        let mut fields = output.split(|&byte| byte == 0);
        while let Some(line) = fields.next().filter(|line| !line.is_empty()) {
            let path = fields.next()?;
            let words: Vec<&[u8]> = line
                .strip_prefix(b":")?
                .split(|&byte| byte == b' ')
                .collect();
            let [mode, other, id, ..] = words[..] else {
                return None;
            };
            if mode == DIRECTORY {
                let id = from_hex(std::str::from_utf8(id).ok()?)?;
                directories.insert(path.to_vec(), id);
            } else if other != DIRECTORY {
                files.extend([line, b"\0", path, b"\0"].concat());
            }
        }
        let files = index::first_sides(&files)?;
        Some(Self { files, directories })
    }
}

/// What is otherwise in `new`; `None` where that cannot be asked, because the old tree may have gone from the repository, or
/// where the list has more bytes than `limit`: then the new one is written whole.
async fn changes(
    repo: &Repository,
    old: &Oid,
    new: &Oid,
    limit: usize,
    cancel: &CancellationToken,
) -> Result<Option<Changes>, TreeError> {
    let asked = repo
        .command()
        .args([
            "diff-tree",
            "-r",
            "-t",
            "--raw",
            "-z",
            "--no-renames",
            "--no-abbrev",
        ])
        .args(["--ignore-submodules=none", new.as_str(), old.as_str(), "--"])
        .output(Sink::Capture(limit))
        .run(cancel)
        .await;
    match asked {
        Ok(done) => Ok(Changes::read(&done.stdout)),
        Err(GitError::Failed { .. } | GitError::Process(ProcessError::TooMuchOutput { .. })) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

async fn on(
    repo: &Repository,
    candidate: &Candidate,
    (tree, changes): (&Oid, Changes),
    to: &Path,
    tell: &Tell,
    cancel: &CancellationToken,
) -> Result<About, TreeError> {
    let files = to.join("files");
    make_top(&files)?;
    let bytes = fsx::read_bounded(&candidate.place.join("index"), INDEX)?;
    let old = parse(&bytes, repo.format).map_err(index::IndexError::from)?;
    let time = time();
    // The directories above what changed have other ids, and those that are gone have no entries.
    let mut ids = old
        .trees
        .and_then(|trees| cached::ids(trees, repo.format))
        .unwrap_or_default();
    ids.extend(changes.directories);
    ids.extend(from_hex(tree.as_str()).map(|id| (Vec::new(), id)));
    let changes = changes.files;
    let there = changes.iter().filter_map(|(path, side)| {
        let (mode, object) = side.as_ref()?;
        let (path, mode, object) = (path.clone(), *mode, hex(object));
        Some(Wanted { path, mode, object })
    });
    let wanted: Vec<Wanted> = there.filter(|one| !is_ours(&one.path)).collect();
    let names: Vec<(Vec<u8>, u32)> = wanted
        .iter()
        .map(|one| (one.path.clone(), one.mode))
        .collect();
    let sizes = write::write(repo, &files, wanted, time, tell, cancel).await?;
    let mut takes = Takes::default();
    for ((path, mode), size) in names.iter().zip(&sizes) {
        takes.path(path, *mode, *size);
    }
    let names = names.iter().map(|(path, _)| path.as_slice());
    let sizes: BTreeMap<&[u8], u64> = names.zip(sizes).collect();
    let gone: Vec<Vec<u8>> = changes
        .iter()
        .filter(|(path, side)| side.is_none() && !is_ours(path))
        .map(|(path, _)| path.clone())
        .collect();
    let mut entries = index::replace(old.entries, changes);
    for entry in &mut entries {
        entry.skip_worktree = is_ours(&entry.path);
        if let Some(size) = sizes.get(&*entry.path) {
            entry.stat = stat(entry.mode, time, *size);
        }
    }
    let covered = whiteouts(&gone, &entries);
    cover(&files, &covered)?;
    for path in &covered {
        takes.whiteout(path);
    }
    let trees = cached::write(&entries, &ids);
    let index = write_index(to, &entries, Some(&trees), repo)?;
    let below = std::iter::once(&candidate.tree).chain(&candidate.about.below);
    Ok(About {
        below: below.cloned().collect(),
        files: entries.len() as u64,
        bytes: takes.bytes() + index,
        time,
        boot: about::boot(),
    })
}

/// Where something of the layers below must not be seen: a name that is gone, or the highest directory above it that is
/// gone with it. Where another thing has the name now, that covers it.
fn whiteouts(gone: &[Vec<u8>], now: &[Entry<'_>]) -> BTreeSet<Vec<u8>> {
    let is_there = |path: &[u8]| {
        now.binary_search_by(|entry| (*entry.path).cmp(path))
            .is_ok()
    };
    let is_directory = |path: &[u8]| {
        let below = [path, b"/"].concat();
        let at = now.partition_point(|entry| *entry.path < *below);
        now.get(at)
            .is_some_and(|entry| entry.path.starts_with(&below))
    };
    let mut covered = BTreeSet::new();
    for path in gone {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let above = ends.map(|(at, _)| &path[..at]);
        let highest = above
            .chain([path.as_slice()])
            .find(|one| !is_directory(one));
        if let Some(highest) = highest.filter(|one| !is_there(one)) {
            covered.insert(highest.to_vec());
        }
    }
    covered
}

fn cover(files: &Path, whiteouts: &BTreeSet<Vec<u8>>) -> Result<(), FileError> {
    let mut places = Places::open(files)?;
    for path in whiteouts {
        let (parent, name) = split(path);
        let made = places.directory(parent).and_then(|parent| {
            rustix::fs::mknodat(parent, name, FileType::CharacterDevice, Mode::empty(), 0)
        });
        made.map_err(|errno| FileError::new("make a whiteout in", files, errno.into()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Git;
    use crate::git::discovery::{Start, Workspaces};

    /// A smaller limit stands for a very large difference.
    #[tokio::test]
    async fn a_list_that_is_too_long_is_no_error() {
        let never = CancellationToken::new();
        let room = tempfile::tempdir().unwrap();
        let top = room.path().canonicalize().unwrap();
        let git = Git::new("git");
        let call = async |arguments: &[&str]| {
            let call = git.anywhere(&top).config("user.name=a");
            let call = call
                .config("user.email=a@b")
                .args(arguments.iter().copied());
            call.run(&never).await.unwrap()
        };
        call(&["init", "-q"]).await;
        call(&["commit", "-q", "--allow-empty", "-m", "first"]).await;
        fsx::write_private(&top.join("file"), b"x").unwrap();
        let start = Start::find(&top, &Workspaces::default()).unwrap();
        let repo = Repository::discover(&git, &start, None, &never)
            .await
            .unwrap();
        let tree = async || {
            let line = repo.command().arg("write-tree").line(&never).await.unwrap();
            line.parse::<Oid>().unwrap()
        };
        let old = tree().await;
        for name in ["one", "two"] {
            let add = repo
                .command()
                .args(["update-index", "--add", "--cacheinfo"]);
            let id = repo.command_in_tree().args(["hash-object", "-w", "file"]);
            let id = id.line(&never).await.unwrap();
            let add = add.arg(format!("100644,{id},{name}"));
            add.run(&never).await.unwrap();
        }
        let new = tree().await;
        let seen = changes(&repo, &old, &new, LISTING, &never).await.unwrap();
        assert_eq!(seen.unwrap().files.len(), 2);
        assert!(
            changes(&repo, &old, &new, 64, &never)
                .await
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn what_is_gone_is_covered_once_and_as_high_as_it_may_be() {
        let entry = |path: &'static str| Entry {
            path: path.as_bytes().into(),
            stat: index::format::Stat::default(),
            mode: 0o100_644,
            oid: vec![0; 20].into(),
            stage: 0,
            assume_valid: false,
            skip_worktree: false,
            intent_to_add: false,
        };
        let now = ["a", "b/c", "d-/x", "file/now/below", "was"].map(entry);
        let gone = [
            "b/gone",
            "d/e/f",
            "d/e/g",
            "d/h",
            "file",
            "was/below/it",
            "z",
        ];
        let gone = gone.map(|path| path.as_bytes().to_vec());
        let covered = whiteouts(&gone, &now);
        let covered: Vec<_> = covered
            .iter()
            .map(|path| std::str::from_utf8(path).unwrap())
            .collect();
        assert_eq!(covered, ["b/gone", "d", "z"]);
    }
}
