//! Moves the branch of a working tree together with its index, and its files where asked, so that
//! a death at any point is finished by [`finish`].
//!
//! Order: journal, index lock, everything computed in a temporary index and tried out, one swap of
//! the ref, files, index by rename, lock and journal away. After the swap the old index would make
//! the user's next `commit -a` revert the new commits, which is why the lock is held across both.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::index::{Changes, State, copy_index, remove_temporary};
use super::lock::IndexLock;
use super::settle::{index_state, running_in, wait_for};
use super::under_way::under_way;
use super::{Barred, LandError, is_ancestor};
use crate::fsx::{self, Context, FileError};
use crate::git::command::GitCommand;
use crate::git::lock::vacant;
use crate::git::refs::{self, Own, RefError, Transaction};
use crate::git::{GitError, Oid, Repository};
use crate::names::SandboxId;
use crate::session::{FINISH_FIRST, Landing};
use crate::text::printable;

const JOURNAL: &str = "landing.json";

/// What a landing in a checkout came to.
#[derive(Debug, Clone)]
pub struct Landed {
    pub landing: Landing,
    /// Files that the commits changed but whose content in the working tree is another one. Printable.
    pub changed_outside: Vec<String>,
}

impl From<Landing> for Landed {
    fn from(landing: Landing) -> Self {
        Self {
            landing,
            changed_outside: Vec::new(),
        }
    }
}

/// What happens to the working files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Files {
    /// They have the new content already (`head`).
    AreThere,
    /// They are brought from the old commit to the new one (a merge into a checkout).
    Update,
}

/// One move of a checkout. This is also the journal's content.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Move {
    pub version: u32,
    pub id: SandboxId,
    pub files: Files,
    /// `refs/heads/…`, or `HEAD` where it is detached.
    pub reference: String,
    pub old: Oid,
    pub new: Oid,
    /// Base and tip of commits whose files may lie in the working tree already.
    #[serde(default)]
    pub lying: Option<(Oid, Oid)>,
    /// The working tree's own git directory, as bytes: paths need not be UTF-8.
    git_dir: Vec<u8>,
    top: Vec<u8>,
}

/// How a move ended without an error.
#[derive(Debug)]
pub(super) enum Moved {
    Done {
        changed_outside: Vec<String>,
    },
    /// Nothing of the user's was changed.
    InTheWay(String),
}

impl Move {
    pub(super) fn new(
        id: SandboxId,
        files: Files,
        reference: String,
        (old, new): (&Oid, &Oid),
        git_dir: &Path,
        top: &Path,
    ) -> Self {
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let (old, new) = (old.clone(), new.clone());
        Self {
            version: 1,
            id,
            files,
            reference,
            old,
            new,
            lying: None,
            git_dir: bytes(git_dir),
            top: bytes(top),
        }
    }

    pub(super) fn git_dir(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.git_dir.clone()))
    }

    pub(super) fn top(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.top.clone()))
    }

    pub(super) fn command(&self, repo: &Repository) -> GitCommand {
        repo.git
            .at(&self.git_dir(), &repo.common_dir)
            .work_tree(&self.top())
    }

    /// Journals and does it.
    pub(super) async fn run(
        &self,
        repo: &Repository,
        state: &Path,
        barred: Barred<'_>,
        cancel: &CancellationToken,
    ) -> Result<Moved, LandError> {
        fsx::private_dir(state)?;
        let journal = state.join(JOURNAL);
        let text = serde_json::to_vec(self)
            .map_err(|error| FileError::new("write", &journal, error.into()))?;
        fsx::write_private(&journal, &text)?;
        self.resume(repo, &journal, barred, cancel).await
    }

    /// Does what is still to be done, and removes the journal when nothing is.
    async fn resume(
        &self,
        repo: &Repository,
        journal: &Path,
        barred: Barred<'_>,
        cancel: &CancellationToken,
    ) -> Result<Moved, LandError> {
        let git_dir = self.git_dir();
        let Some(lock) = IndexLock::take(&git_dir, self.id, cancel).await? else {
            // The journal stays only where the branch has moved already.
            if !self.has_swapped(repo).await? {
                fsx::remove_file_if_exists(journal)?;
            }
            let at = printable(&git_dir.join("index.lock").to_string_lossy());
            return Ok(Moved::InTheWay(format!("another git program holds {at}")));
        };
        let vacant = match self.files {
            Files::AreThere => None,
            Files::Update => match vacant(&git_dir)? {
                None => {
                    if !self.has_swapped(repo).await? {
                        fsx::remove_file_if_exists(journal)?;
                    }
                    let at = printable(&self.top().to_string_lossy());
                    let why = format!("another sandbox is at work in {at}");
                    return Ok(Moved::InTheWay(why));
                }
                vacant => vacant,
            },
        };
        // Git would open what lies there: a git directory in a submodule's place, a pipe that never ends.
        if self.files == Files::Update
            && let Some(why) = barred(&self.top())
        {
            if !self.has_swapped(repo).await? {
                fsx::remove_file_if_exists(journal)?;
            }
            return Ok(Moved::InTheWay(why));
        }
        let index = git_dir.join(format!("cofferdam-{}.index", self.id));
        let result = self.under_lock(repo, &index, cancel).await;
        remove_temporary(&index)?;
        let installed = index_state(&git_dir);
        let others = match &result {
            Ok(Moved::Done { .. }) => running_in(&self.top()),
            _ => Vec::new(),
        };
        drop((lock, vacant));
        if !others.is_empty() {
            wait_for(&others).await;
            if index_state(&git_dir) != installed {
                self.bring_up_again(repo, &index).await?;
            }
        }
        if result.is_ok() || !self.has_swapped(repo).await? {
            fsx::remove_file_if_exists(journal)?;
        }
        let moved = result?;
        match moved {
            Moved::Done { .. } => {
                let changed_outside = match self.changed_outside(repo, cancel).await {
                    // It has landed all the same.
                    Err(_) if cancel.is_cancelled() => Vec::new(),
                    found => found?,
                };
                Ok(Moved::Done { changed_outside })
            }
            in_the_way @ Moved::InTheWay(_) => Ok(in_the_way),
        }
    }

    /// Undoes that a `git commit` which had read the old index wrote it back (see `settle`). Where
    /// nothing is to be undone, nothing changes.
    async fn bring_up_again(&self, repo: &Repository, index: &Path) -> Result<(), LandError> {
        let none = CancellationToken::new();
        let Some(_lock) = IndexLock::take(&self.git_dir(), self.id, &none).await? else {
            return Ok(());
        };
        // Whoever committed on top of the new commit did so with an index that had it.
        if !self.has_swapped(repo).await? {
            return Ok(());
        }
        let to = self.git_dir().join("index");
        copy_index(&to, index)?;
        self.bring_up_index(repo, index, &self.changes(repo, &none).await?, &none)
            .await?;
        std::fs::rename(index, &to).context("replace", &to)?;
        Ok(remove_temporary(index)?)
    }

    async fn has_swapped(&self, repo: &Repository) -> Result<bool, GitError> {
        let (name, commit) = self.head(repo).await?;
        Ok(name == self.reference && commit.as_ref() == Some(&self.new))
    }

    /// What HEAD of the working tree names, and its commit.
    async fn head(&self, repo: &Repository) -> Result<(String, Option<Oid>), GitError> {
        let done = self
            .command(repo)
            .args(["rev-parse", "HEAD^{commit}", "--symbolic-full-name", "HEAD"])
            .answers(&[128])
            .run(&CancellationToken::new())
            .await?;
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let mut lines = text.lines();
        let commit = lines.next().and_then(|line| line.parse().ok());
        Ok((lines.next().unwrap_or_default().to_owned(), commit))
    }

    async fn under_lock(
        &self,
        repo: &Repository,
        index: &Path,
        cancel: &CancellationToken,
    ) -> Result<Moved, LandError> {
        let (name, commit) = self.head(repo).await?;
        let swapped = name == self.reference && commit.as_ref() == Some(&self.new);
        if !swapped && let Some(what) = under_way(&self.git_dir(), name == "HEAD") {
            let at = printable(&self.top().to_string_lossy());
            return Ok(Moved::InTheWay(format!(
                "{what} is under way in {at}: {FINISH_FIRST}"
            )));
        }
        if name != self.reference {
            return Ok(Moved::InTheWay(
                "another branch was checked out meanwhile".into(),
            ));
        }
        if !swapped && commit.as_ref() != Some(&self.old) {
            return Ok(Moved::InTheWay(self.grown(repo, commit, cancel).await?));
        }
        copy_index(&self.git_dir().join("index"), index)?;
        let changes = self.changes(repo, cancel).await?;
        let mut rest = Vec::new();
        match self.files {
            Files::AreThere => self.bring_up_index(repo, index, &changes, cancel).await?,
            Files::Update => {
                rest = self.take_leftovers(repo, index, &changes, cancel).await?;
                if swapped {
                    self.skip_done_files(repo, index, &changes, cancel).await?;
                } else if let Some(why) = self.try_out(repo, index, &changes, cancel).await? {
                    return Ok(Moved::InTheWay(why));
                }
            }
        }
        if !swapped {
            if cancel.is_cancelled() {
                return Ok(Moved::InTheWay("cancelled".into()));
            }
            let swap = Transaction::new(format!("cofferdam {}", self.id));
            let swap = swap.update(&self.reference, &self.new, Some(&self.old));
            match swap
                .commit(&self.in_worktree(repo), &CancellationToken::new())
                .await
            {
                Ok(()) => {}
                Err(RefError::Moved { detail }) => {
                    return Ok(Moved::InTheWay(format!(
                        "the branch was changed meanwhile: {detail}"
                    )));
                }
                Err(error) => return Err(error.into()),
            }
        }
        // From here on a cancel is too late: half a landing is worse than a whole one.
        if self.files == Files::Update
            && let Err(error) = self
                .update_files(repo, index, false, &CancellationToken::new())
                .await
        {
            let back = Transaction::new(format!("cofferdam {}: taken back", self.id));
            let back = back.update(&self.reference, &self.old, Some(&self.new));
            back.commit(&self.in_worktree(repo), &CancellationToken::new())
                .await?;
            return Ok(Moved::InTheWay(error));
        }
        self.write_files(repo, index, &rest).await?;
        let to = self.git_dir().join("index");
        std::fs::rename(index, &to).context("replace", &to)?;
        Ok(Moved::Done {
            changed_outside: Vec::new(),
        })
    }

    /// What is to be said of a branch that is neither where the move began nor where it was to end.
    async fn grown(
        &self,
        repo: &Repository,
        commit: Option<Oid>,
        cancel: &CancellationToken,
    ) -> Result<String, GitError> {
        if let Some(commit) = commit
            && is_ancestor(repo, &self.new, &commit, cancel).await?
        {
            // Git commits the index as it is, and after a death that may still be the old one.
            let (new, branch) = (
                self.new.short(),
                self.reference.trim_start_matches("refs/heads/"),
            );
            return Ok(format!(
                "it landed as {new}, and what was committed on top before its files were there may undo it: see \
                 `git diff {new} {branch}`"
            ));
        }
        Ok("the branch has new commits of its own".to_owned())
    }

    /// HEAD belongs to the working tree, so its ref calls open that tree's git directory.
    fn in_worktree(&self, repo: &Repository) -> Repository {
        Repository {
            git_dir: self.git_dir(),
            ..repo.clone()
        }
    }

    /// What stands in the way of bringing the files to the new commit, if anything does.
    async fn try_out(
        &self,
        repo: &Repository,
        index: &Path,
        changes: &Changes,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, LandError> {
        self.refresh(repo, index, cancel).await?;
        if let Err(why) = self.update_files(repo, index, true, cancel).await {
            return Ok(Some(why));
        }
        // Git itself gives way to ignored files only; those are somebody's bytes as well.
        let tracked = self.tracked(repo, index, cancel).await?;
        let top = self.top();
        let mut found = Vec::new();
        for path in changes
            .iter()
            .filter(|(_, entry)| entry.is_some())
            .map(|(path, _)| path)
        {
            let file = top.join(OsStr::from_bytes(path));
            let blocked = !tracked.contains(path.as_slice())
                && std::fs::symlink_metadata(&file).is_ok_and(|found| {
                    !found.is_dir() || !only_tracked_below(&file, path, &tracked)
                });
            if blocked {
                found.push(printable(&String::from_utf8_lossy(path)));
            }
        }
        if found.is_empty() {
            return Ok(None);
        }
        Ok(Some(format!(
            "files that git does not track would be overwritten: {}",
            some(&found)
        )))
    }

    /// `read-tree -m -u`, which refuses before it writes anything. The error names the files.
    async fn update_files(
        &self,
        repo: &Repository,
        index: &Path,
        dry: bool,
        cancel: &CancellationToken,
    ) -> Result<(), String> {
        let mut call = self.command(repo).env("GIT_INDEX_FILE", index);
        call = call.args(["read-tree", "-m", "-u"]);
        if dry {
            call = call.arg("-n");
        }
        let done = call
            .args([self.old.as_str(), self.new.as_str()])
            .answers(&[128])
            .run(cancel)
            .await
            .map_err(|error| error.to_string())?;
        if done.exit.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&done.stderr);
        let said: Vec<String> = text
            .lines()
            .map(|line| {
                printable(
                    line.trim_start_matches("error: ")
                        .trim_start_matches("fatal: "),
                )
            })
            .collect();
        Err(format!("local changes are in the way: {}", some(&said)))
    }

    /// After a death in the middle of [`Self::update_files`]: files that are no longer the old
    /// commit's are taken as done. What is in them stays, whoever wrote it.
    async fn skip_done_files(
        &self,
        repo: &Repository,
        index: &Path,
        changes: &Changes,
        cancel: &CancellationToken,
    ) -> Result<(), LandError> {
        self.refresh(repo, index, cancel).await?;
        let modified = self.modified(repo, Some(index), &[], cancel).await?;
        let tracked = self.tracked(repo, index, cancel).await?;
        let staged = self.staged(repo, index, cancel).await?;
        let top = self.top();
        let done: Vec<(&Vec<u8>, &State)> = changes
            .iter()
            .filter(|(path, _)| {
                let there = std::fs::symlink_metadata(top.join(OsStr::from_bytes(path)))
                    .is_ok_and(|found| !found.is_dir());
                let is_new = !tracked.contains(*path);
                !staged.contains_key(*path) && there && (is_new || modified.contains(*path))
            })
            .collect();
        self.set_entries(repo, index, &done, cancel).await?;
        self.refresh(repo, index, cancel).await?;
        Ok(())
    }

    async fn changed_outside(
        &self,
        repo: &Repository,
        cancel: &CancellationToken,
    ) -> Result<Vec<String>, LandError> {
        let changes = self.changes(repo, cancel).await?;
        let paths: Vec<&[u8]> = changes.keys().map(Vec::as_slice).collect();
        let mut found = Vec::new();
        for some in paths.chunks(500) {
            for path in self.modified(repo, None, some, cancel).await? {
                found.push(printable(&String::from_utf8_lossy(&path)));
            }
        }
        Ok(found)
    }
}

/// Whether a killed process left a landing in this state directory. Until [`finish`] was there, nothing
/// may remove it: it alone knows what is still to be done to the user's checkout.
pub fn is_half_done(state: &Path) -> bool {
    state.join(JOURNAL).symlink_metadata().is_ok()
}

/// Finishes the landing that a killed process left in this state directory, if there is one. Call
/// it for every sandbox before anything else is done to the repository.
pub async fn finish(
    repo: &Repository,
    state: &Path,
    barred: Barred<'_>,
    cancel: &CancellationToken,
) -> Result<Option<Landed>, LandError> {
    let journal = state.join(JOURNAL);
    let text = match fsx::read_bounded(&journal, 64 << 10) {
        Ok(text) => text,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let step: Move = serde_json::from_slice(&text).map_err(|error| LandError::Journal {
        path: journal.clone(),
        why: error.to_string(),
    })?;
    if step.version != 1 {
        let why = format!("version {} is newer than this program", step.version);
        return Err(LandError::Journal { path: journal, why });
    }
    match step.resume(repo, &journal, barred, cancel).await? {
        Moved::InTheWay(why) if is_half_done(state) => Err(LandError::HalfDone { why }),
        moved => Ok(Some(step.landed(moved))),
    }
}

impl Move {
    pub(super) fn landed(&self, moved: Moved) -> Landed {
        match moved {
            Moved::Done { changed_outside } => {
                let branch = self
                    .reference
                    .strip_prefix("refs/heads/")
                    .unwrap_or(&self.reference);
                let landing = Landing::Landed {
                    branch: branch.to_owned(),
                    tip: self.new.clone(),
                };
                Landed {
                    landing,
                    changed_outside,
                }
            }
            Moved::InTheWay(why) => {
                let reference = refs::own(self.id, Own::Tip);
                Landing::Kept { reference, why }.into()
            }
        }
    }
}

/// Whether everything in the directory `on_disk` (`path` below the top) is tracked.
fn only_tracked_below(on_disk: &Path, path: &[u8], tracked: &BTreeSet<Vec<u8>>) -> bool {
    let Ok(entries) = std::fs::read_dir(on_disk) else {
        return false;
    };
    entries.flatten().all(|entry| {
        let name = entry.file_name();
        let below = [path, b"/", name.as_bytes()].concat();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => only_tracked_below(&entry.path(), &below, tracked),
            _ => tracked.contains(&below),
        }
    })
}

/// The first few of a list, for a message.
pub(super) fn some(items: &[String]) -> String {
    let shown: Vec<&str> = items.iter().take(5).map(String::as_str).collect();
    match items.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
