//! Moves the branch of a working tree together with its index, and its files where asked, so that
//! a death at any point is finished by [`finish`].
//!
//! Order: journal, index lock, everything computed in a temporary index and tried out, one swap of
//! the ref, files, index by rename, lock and journal away. After the swap the old index would make
//! the user's next `commit -a` revert the new commits, which is why the lock is held across both.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::index::{Changes, ancestors, collides, copy_index, remove_temporary};
use super::journal::{Files, JOURNAL, Move, is_half_done, read};
use super::landing::{LOCAL_CHANGES, Landing, NOT_MOVED, UNTRACKED};
use super::lock::IndexLock;
use super::orphans::await_orphans;
use super::settle::{index_state, running_in, wait_for};
use super::under_way::{at_work, under_way};
use super::{Barred, LandError};
use crate::fsx::{self, Context, FileError};
use crate::git::lock::vacant;
use crate::git::nested;
use crate::git::refs::{self, Own, RefError, Transaction};
use crate::git::{GitError, Oid, Repository};
use crate::text::printable;

/// What a landing in a checkout came to.
#[derive(Debug, Clone)]
pub struct Landed {
    /// Where the commits are now.
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

/// How a move ended without an error.
#[derive(Debug)]
pub(super) enum Moved {
    Done {
        changed_outside: Vec<String>,
    },
    /// Nothing of the user's was changed.
    InTheWay(String),
    /// It landed, and what the user committed on top may have undone it.
    GrownOver(String),
}

impl Move {
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
            self.forget_unless_landed(repo, journal).await?;
            // The lock may be what another landing left here when it died.
            let why = (self.files == Files::Update).then(|| barred(&self.top()));
            return Ok(Moved::InTheWay(why.flatten().unwrap_or_else(|| {
                let at = printable(&git_dir.join("index.lock").to_string_lossy());
                format!("another git program holds {at}")
            })));
        };
        let vacant = match self.files {
            Files::AreThere => None,
            Files::Update => match vacant(&git_dir)? {
                None => {
                    self.forget_unless_landed(repo, journal).await?;
                    let why = barred(&self.top()).unwrap_or_else(|| at_work(&self.top()));
                    return Ok(Moved::InTheWay(why));
                }
                vacant => vacant,
            },
        };
        // Git would open what lies there: a git directory in a submodule's place, a pipe that never ends.
        if self.files == Files::Update
            && let Some(why) = barred(&self.top())
        {
            self.forget_unless_landed(repo, journal).await?;
            return Ok(Moved::InTheWay(why));
        }
        if self.files == Files::Update
            && let Some(why) = await_orphans(&git_dir, &self.top()).await
        {
            self.forget_unless_landed(repo, journal).await?;
            return Ok(Moved::InTheWay(why));
        }
        // Whoever works there may have made a pipe at which git would wait for ever.
        if self.files == Files::AreThere
            && let Some(trap) = nested::trap_in(&self.top()).await?
        {
            self.forget_unless_landed(repo, journal).await?;
            return Ok(Moved::InTheWay(nested::waits_at(&self.top().join(trap))));
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
        if result.is_ok() {
            fsx::remove_file_if_exists(journal)?;
        } else {
            self.forget_unless_landed(repo, journal).await?;
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
            other => Ok(other),
        }
    }

    /// The journal stays where the branch has the commits already: index and files may not.
    async fn forget_unless_landed(
        &self,
        repo: &Repository,
        journal: &Path,
    ) -> Result<(), LandError> {
        if !self.has_landed(repo).await? {
            fsx::remove_file_if_exists(journal)?;
        }
        Ok(())
    }

    /// Undoes that a `git commit` which had read the old index wrote it back (see `settle`). Where
    /// nothing is to be undone, nothing changes.
    async fn bring_up_again(&self, repo: &Repository, index: &Path) -> Result<(), LandError> {
        let none = CancellationToken::new();
        let Some(_lock) = IndexLock::take(&self.git_dir(), self.id, &none).await? else {
            return Ok(());
        };
        // Whoever committed on top of the new commit did so with an index that had it.
        let (name, commit) = self.head(repo).await?;
        if name != self.reference || commit.as_ref() != Some(&self.new) {
            return Ok(());
        }
        let to = self.git_dir().join("index");
        copy_index(&to, index)?;
        self.bring_up_index(repo, index, &self.changes(repo, &none).await?, &none)
            .await?;
        std::fs::rename(index, &to).context("replace", &to)?;
        Ok(remove_temporary(index)?)
    }

    /// What HEAD of the working tree names, and its commit.
    pub(super) async fn head(&self, repo: &Repository) -> Result<(String, Option<Oid>), GitError> {
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
        if self.has_landed(repo).await? {
            return self.catch_up(repo, index, cancel).await;
        }
        let (name, commit) = self.head(repo).await?;
        if let Some(why) = under_way(&self.git_dir(), &self.top(), name == "HEAD") {
            return Ok(Moved::InTheWay(why));
        }
        if name != self.reference {
            return Ok(Moved::InTheWay(
                "another branch was checked out meanwhile".into(),
            ));
        }
        if commit.as_ref() != Some(&self.old) {
            return Ok(Moved::InTheWay(
                "the branch has new commits of its own".into(),
            ));
        }
        copy_index(&self.git_dir().join("index"), index)?;
        let changes = self.changes(repo, cancel).await?;
        let mut rest = Vec::new();
        match self.files {
            Files::AreThere => self.bring_up_index(repo, index, &changes, cancel).await?,
            Files::Update => {
                rest = self.take_leftovers(repo, index, &changes, cancel).await?;
                let mut tracked = self.tracked(repo, index, cancel).await?;
                self.take_same(repo, index, &changes, &mut tracked, cancel)
                    .await?;
                let tried = self.try_out_beside(repo, index, &changes, &tracked, cancel);
                if let Some(why) = tried.await? {
                    return Ok(Moved::InTheWay(why));
                }
            }
        }
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
                return Ok(Moved::InTheWay(format!("the branch{NOT_MOVED}{detail}")));
            }
            Err(error) => return Err(error.into()),
        }
        // From here on a cancel is too late: half a landing is worse than a whole one.
        if self.files == Files::Update
            && let Err(why) = self.update_files(repo, index).await
        {
            let none = BTreeSet::new();
            let left = self.restore(repo, index, &changes, &none, &none).await;
            let left = left.unwrap_or_else(|error| vec![error.to_string()]);
            if !left.is_empty() {
                let why = format!("{why}; not as before: {}", some(&left));
                return Err(LandError::HalfDone { why });
            }
            let back = Transaction::new(format!("cofferdam {}: taken back", self.id));
            let back = back.update(&self.reference, &self.old, Some(&self.new));
            back.commit(&self.in_worktree(repo), &CancellationToken::new())
                .await?;
            return Ok(Moved::InTheWay(why));
        }
        self.write_files(repo, index, &rest).await?;
        let to = self.git_dir().join("index");
        std::fs::rename(index, &to).context("replace", &to)?;
        Ok(Moved::Done {
            changed_outside: Vec::new(),
        })
    }

    /// HEAD belongs to the working tree, so its ref calls open that tree's git directory.
    pub(super) fn in_worktree(&self, repo: &Repository) -> Repository {
        Repository {
            git_dir: self.git_dir(),
            ..repo.clone()
        }
    }

    /// What stands in the way of bringing the files to the new commit, if anything does.
    pub(super) async fn try_out(
        &self,
        repo: &Repository,
        index: &Path,
        changes: &Changes,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, LandError> {
        let tracked = self.tracked(repo, index, cancel).await?;
        self.try_out_beside(repo, index, changes, &tracked, cancel)
            .await
    }

    /// The same where it is known what `index` has.
    async fn try_out_beside(
        &self,
        repo: &Repository,
        index: &Path,
        changes: &Changes,
        tracked: &BTreeSet<Vec<u8>>,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, LandError> {
        self.refresh(repo, index, cancel).await?;
        if let Err(why) = self
            .two_way(
                repo,
                index,
                (self.old.as_str(), self.new.as_str()),
                true,
                cancel,
            )
            .await
        {
            return Ok(Some(format!("{LOCAL_CHANGES}: {why}")));
        }
        // Git itself gives way to ignored files only; those are somebody's bytes as well.
        let staged = self.staged(repo, index, cancel).await?;
        let theirs = staged.iter().filter(|(_, present)| **present);
        let theirs: BTreeSet<&[u8]> = theirs.map(|(path, _)| path.as_slice()).collect();
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
                    !found.is_dir() || !only_tracked_below(&file, path, tracked)
                });
            // What lies in the place of a directory on the way has no room beside it.
            let above = ancestors(path).find(|above| {
                !tracked.contains(*above)
                    && std::fs::symlink_metadata(top.join(OsStr::from_bytes(above)))
                        .is_ok_and(|found| !found.is_dir())
            });
            let path = above.unwrap_or(path);
            let staged_there = !staged.contains_key(path) && collides(path, &theirs);
            if blocked || above.is_some() || staged_there {
                found.push(printable(&String::from_utf8_lossy(path)));
            }
        }
        if found.is_empty() {
            return Ok(None);
        }
        Ok(Some(format!("{UNTRACKED}: {}", some(&found))))
    }

    /// What it cannot write now was tried out, so it is not the user's change that is in the way.
    pub(super) async fn update_files(&self, repo: &Repository, index: &Path) -> Result<(), String> {
        let trees = (self.old.as_str(), self.new.as_str());
        self.two_way(repo, index, trees, false, &CancellationToken::new())
            .await
            .map_err(|said| format!("the files could not be written: {said}"))
    }

    /// `read-tree -m -u`, which refuses local changes before it writes anything. The error names the files.
    pub(super) async fn two_way(
        &self,
        repo: &Repository,
        index: &Path,
        (from, to): (&str, &str),
        dry: bool,
        cancel: &CancellationToken,
    ) -> Result<(), String> {
        let mut call = self.command(repo).env("GIT_INDEX_FILE", index);
        call = call.args(["read-tree", "-m", "-u"]);
        if dry {
            call = call.arg("-n");
        }
        let done = call
            .args([from, to])
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
        Err(some(&said))
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
        if self.files == Files::Update {
            // Of a file that the commits removed git says nothing.
            let top = self.top();
            let stays = |path: &&Vec<u8>| {
                std::fs::symlink_metadata(top.join(OsStr::from_bytes(path)))
                    .is_ok_and(|found| !found.is_dir())
            };
            let removed = changes.iter().filter(|(_, entry)| entry.is_none());
            let stay = removed.map(|(path, _)| path).filter(stays);
            found.extend(stay.map(|path| printable(&String::from_utf8_lossy(path))));
        }
        Ok(found)
    }
}

/// Finishes the landing that a killed process left in this state directory, if there is one. Call
/// it for every sandbox before anything else is done to the repository.
pub async fn finish(
    repo: &Repository,
    state: &Path,
    barred: Barred<'_>,
    cancel: &CancellationToken,
) -> Result<Option<Landed>, LandError> {
    let Some((journal, step)) = read(state)? else {
        return Ok(None);
    };
    match step.resume(repo, &journal, barred, cancel).await? {
        Moved::InTheWay(why) if is_half_done(state) => Err(LandError::HalfDone { why }),
        Moved::InTheWay(why) => {
            let reference = step.holder(repo, cancel).await?;
            Ok(Some(Landing::Kept { reference, why }.into()))
        }
        moved => Ok(Some(step.landed(moved))),
    }
}

impl Move {
    /// The branch, as a person calls it.
    pub(super) fn branch(&self) -> &str {
        let name = self.reference.strip_prefix("refs/heads/");
        name.unwrap_or(&self.reference)
    }

    pub(super) fn landed(&self, moved: Moved) -> Landed {
        let branch = self.branch();
        match moved {
            Moved::Done { changed_outside } => {
                let landing = Landing::Landed {
                    branch: branch.to_owned(),
                    tip: self.new.clone(),
                };
                Landed {
                    landing,
                    changed_outside,
                }
            }
            Moved::GrownOver(why) => {
                let reference = branch.to_owned();
                Landing::Kept { reference, why }.into()
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
