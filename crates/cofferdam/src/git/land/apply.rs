//! A sandbox's work in the user's working tree, without a commit: as `git merge --squash` leaves it, and to be taken back as
//! one step. What was brought in is a commit at [`Own::Applied`], whose first parent is what was checked out then; a second
//! one is what an earlier one had brought in, whose place it took.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::index::{Changes, copy_index, remove_temporary};
use super::journal::{Files, Move};
use super::landing::to_be_stopped;
use super::lock::IndexLock;
use super::merge::{Merged, merge_tree};
use super::orphans::await_orphans;
use super::under_way::{at_work, under_way};
use super::{Barred, LandError};
use crate::fsx::{Context, FileError, lock};
use crate::git::lock::vacant;
use crate::git::refs::{self, Own, Transaction, as_identity};
use crate::git::{GitError, Identity, Oid, Repository};
use crate::names::SandboxId;
use crate::process::Input;
use crate::text::printable;

/// Notes that files are about to be written; where it fails, none is.
pub(crate) type Begins<'a> = &'a (dyn Fn() -> Result<(), FileError> + Sync);

/// What became of work that was to be brought into a working tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// What is checked out has it already.
    Nothing,
    /// It is there and staged. `from`: what was there before, with what an earlier one had brought in.
    Done {
        /// Where it was before.
        from: Oid,
        /// Where it is now.
        to: Oid,
    },
    /// Nothing was changed.
    Conflict(Vec<String>),
    /// Nothing was changed.
    InTheWay(String),
    /// Some of it is there and the rest is not: it can be taken back, or brought in again.
    Half(String),
}

impl Applied {
    /// As [`Landing::stop_first`](super::Landing::stop_first).
    pub fn stop_first(&self) -> Option<&str> {
        match self {
            Self::InTheWay(why) => to_be_stopped(why),
            Self::Nothing | Self::Done { .. } | Self::Conflict(_) | Self::Half(_) => None,
        }
    }
}

/// Why work is not there.
enum Obstacle {
    /// Nothing was changed.
    InTheWay(String),
    Half(String),
}

impl From<Obstacle> for Applied {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::InTheWay(why) => Self::InTheWay(why),
            Obstacle::Half(why) => Self::Half(why),
        }
    }
}

/// What became of what had been brought in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakenBack {
    /// There is nothing to take back.
    Nothing,
    /// All of it, but for these files, printable, which somebody changed since.
    Done {
        /// Safe for a terminal.
        left: Vec<String>,
    },
    /// Something was committed or checked out since. Nothing was changed.
    Committed,
    /// Nothing was changed.
    InTheWay(String),
    /// Some of it is still there.
    Half(String),
}

impl TakenBack {
    /// As [`Landing::stop_first`](super::Landing::stop_first).
    pub fn stop_first(&self) -> Option<&str> {
        match self {
            Self::InTheWay(why) => to_be_stopped(why),
            Self::Nothing | Self::Done { .. } | Self::Committed | Self::Half(_) => None,
        }
    }
}

/// Merges `work` into what is checked out in `repo`, and brings index and files there. What the user changed or staged stays;
/// where it would be overwritten nothing is done. What an earlier one brought in and `work` has no longer goes away. Killed in
/// the middle, it is finished by doing it again, or taken back. Calls `begins` before the first file is written.
pub async fn apply(
    repo: &Repository,
    id: SandboxId,
    work: &Oid,
    barred: Barred<'_>,
    begins: Begins<'_>,
    cancel: &CancellationToken,
) -> Result<Applied, LandError> {
    let head = repo.head.commit();
    let tree = match merge_tree(repo, head, work, cancel).await? {
        Merged::Conflict(files) => return Ok(Applied::Conflict(files)),
        Merged::Tree(tree) => tree,
    };
    let earlier = Earlier::read(repo, id, cancel).await?;
    let earlier = earlier.filter(|earlier| earlier.head == *head);
    if earlier.is_none() && tree == repo.tree_of(head, cancel).await? {
        return Ok(Applied::Nothing);
    }
    let (held, index) = match hold(repo, id, barred, cancel).await? {
        Ok(held) => held,
        Err(why) => return Ok(Applied::InTheWay(why)),
    };
    begins()?;
    let done = bring(repo, id, &tree, earlier, &index, cancel).await;
    remove_temporary(&index)?;
    drop(held);
    done
}

async fn bring(
    repo: &Repository,
    id: SandboxId,
    tree: &Oid,
    earlier: Option<Earlier>,
    index: &Path,
    cancel: &CancellationToken,
) -> Result<Applied, LandError> {
    let head = repo.head.commit();
    let (from, here) = match earlier {
        None => (head.clone(), head.clone()),
        Some(earlier) => {
            let from = earlier.stands_at(repo, id, index, cancel).await?;
            if let Some(obstacle) = earlier.finish(repo, id, &from, index, cancel).await? {
                return Ok(obstacle.into());
            }
            (from, earlier.commit)
        }
    };
    let to = if *tree == repo.tree_of(&here, cancel).await? {
        here
    } else {
        let parents = [head, &here];
        let parents = if here == *head {
            &parents[..1]
        } else {
            &parents
        };
        let new = commit(repo, id, tree, parents, cancel).await?;
        let step = step(repo, id, &here, &new);
        if let Some(obstacle) = step.bring_in(repo, index, cancel).await? {
            return Ok(obstacle.into());
        }
        new
    };
    Ok(if from == to {
        Applied::Nothing
    } else {
        Applied::Done { from, to }
    })
}

/// Takes back what [`apply`] brought in, where nothing was committed since. Calls `begins` as it does.
pub async fn take_back(
    repo: &Repository,
    id: SandboxId,
    barred: Barred<'_>,
    begins: Begins<'_>,
    cancel: &CancellationToken,
) -> Result<TakenBack, LandError> {
    let Some(earlier) = Earlier::read(repo, id, cancel).await? else {
        return Ok(TakenBack::Nothing);
    };
    if earlier.head != *repo.head.commit() {
        return Ok(TakenBack::Committed);
    }
    let (held, index) = match hold(repo, id, barred, cancel).await? {
        Ok(held) => held,
        Err(why) => return Ok(TakenBack::InTheWay(why)),
    };
    begins()?;
    let done = bring_back(repo, id, &earlier, &index, cancel).await;
    remove_temporary(&index)?;
    drop(held);
    done
}

async fn bring_back(
    repo: &Repository,
    id: SandboxId,
    earlier: &Earlier,
    index: &Path,
    cancel: &CancellationToken,
) -> Result<TakenBack, LandError> {
    // Killed between two that were brought in: files of both lie there.
    let at = earlier.stands_at(repo, id, index, cancel).await?;
    if earlier.before.as_ref() == Some(&at)
        && let Some(obstacle) = earlier.finish(repo, id, &at, index, cancel).await?
    {
        return Ok(match obstacle {
            Obstacle::InTheWay(why) => TakenBack::InTheWay(why),
            Obstacle::Half(why) => TakenBack::Half(why),
        });
    }
    let step = step(repo, id, &earlier.head, &earlier.commit);
    let left = step.bring_out(repo, index).await?;
    if !left.is_empty() {
        // So it can be given again once they are out of the way.
        return Ok(TakenBack::Done { left });
    }
    let gone = Transaction::new(format!("cofferdam {id}: taken back"));
    gone.delete(&reference(repo, id), &earlier.commit)
        .commit(repo, &CancellationToken::new())
        .await?;
    Ok(TakenBack::Done { left })
}

/// What was brought in last.
#[derive(Debug)]
struct Earlier {
    commit: Oid,
    /// What was checked out then.
    head: Oid,
    /// What had been brought in before, whose place it took.
    before: Option<Oid>,
}

impl Earlier {
    async fn read(
        repo: &Repository,
        id: SandboxId,
        cancel: &CancellationToken,
    ) -> Result<Option<Self>, LandError> {
        let Some(commit) = refs::read(repo, &reference(repo, id), cancel).await? else {
            return Ok(None);
        };
        let Some(head) = repo.resolve(&format!("{commit}^"), cancel).await? else {
            return Ok(None);
        };
        let before = repo.resolve(&format!("{commit}^2"), cancel).await?;
        Ok(Some(Self {
            commit,
            head,
            before,
        }))
    }

    /// Which of its commits the index is most like: it is replaced last, whole, and what the user staged on top is in the
    /// way of all of them alike.
    async fn stands_at(
        &self,
        repo: &Repository,
        id: SandboxId,
        index: &Path,
        cancel: &CancellationToken,
    ) -> Result<Oid, LandError> {
        let since_head = step(repo, id, &self.head, &self.commit);
        copy_index(&since_head.git_dir().join("index"), index)?;
        let index = since_head.entries(repo, index, cancel).await?;
        let mut states = Vec::new();
        for commit in [Some(&self.commit), self.before.as_ref()] {
            let Some(commit) = commit else { continue };
            let changes = step(repo, id, &self.head, commit)
                .changes(repo, cancel)
                .await?;
            states.push((commit, changes));
        }
        states.push((&self.head, Changes::new()));
        let paths: BTreeSet<&Vec<u8>> = states.iter().flat_map(|(_, all)| all.keys()).collect();
        let unlike = |changes: &Changes| {
            let unlike = |path: &&&Vec<u8>| changes.get(**path) != index.get(**path);
            paths.iter().filter(unlike).count()
        };
        let nearest = states.iter().min_by_key(|(_, changes)| unlike(changes));
        Ok(nearest.map_or(&self.head, |(commit, _)| *commit).clone())
    }

    /// Brings it in from `at`, where it was killed before all of it was there. `Some`: what is in the way.
    async fn finish(
        &self,
        repo: &Repository,
        id: SandboxId,
        at: &Oid,
        index: &Path,
        cancel: &CancellationToken,
    ) -> Result<Option<Obstacle>, LandError> {
        if *at == self.commit {
            return Ok(None);
        }
        let mut step = step(repo, id, at, &self.commit);
        // What it has written already gives way. What is the same and was never written by one is the user's: taking it
        // back would take it away.
        step.lying = Some((at.clone(), self.commit.clone()));
        step.bring_in(repo, index, cancel).await
    }
}

fn step(repo: &Repository, id: SandboxId, head: &Oid, new: &Oid) -> Move {
    let reference = repo.head.branch_text();
    let top = repo.top.as_path();
    Move::new(
        id,
        Files::Update,
        reference,
        (head, new),
        &repo.git_dir,
        top,
    )
}

/// One for each working tree: what lies in one cannot be taken back in another.
fn reference(repo: &Repository, id: SandboxId) -> String {
    let applied = refs::own(id, Own::Applied);
    match repo.git_dir.strip_prefix(repo.common_dir.join("worktrees")) {
        // As git itself named it: a name that can be in a reference.
        Ok(name) => format!("{applied}-{}", name.to_string_lossy()),
        Err(_) => applied,
    }
}

/// Nobody else changes the checkout as long as the first two live. The last is a name for a temporary index.
type Held = ((IndexLock, lock::Held), PathBuf);

async fn hold(
    repo: &Repository,
    id: SandboxId,
    barred: Barred<'_>,
    cancel: &CancellationToken,
) -> Result<Result<Held, String>, LandError> {
    let git_dir = &repo.git_dir;
    let at = |path: &Path| printable(&path.to_string_lossy());
    let top = repo.top.as_path();
    let Some(lock) = IndexLock::take(git_dir, id, cancel).await? else {
        let why = format!(
            "another git program holds {}",
            at(&git_dir.join("index.lock"))
        );
        return Ok(Err(why));
    };
    let Some(vacant) = vacant(git_dir)? else {
        return Ok(Err(barred(top).unwrap_or_else(|| at_work(top))));
    };
    if let Some(why) = barred(top) {
        return Ok(Err(why));
    }
    if let Some(why) = await_orphans(git_dir, top).await {
        return Ok(Err(why));
    }
    // Somebody else's commit may have had the lock until now.
    if repo.resolve("HEAD", cancel).await?.as_ref() != Some(repo.head.commit()) {
        let why = "something was committed or checked out meanwhile: give the command again";
        return Ok(Err(why.to_owned()));
    }
    if let Some(why) = under_way(git_dir, top, repo.head.branch().is_none()) {
        return Ok(Err(why));
    }
    let index = git_dir.join(format!("cofferdam-{id}.index"));
    Ok(Ok(((lock, vacant), index)))
}

/// A commit for our own reference alone.
async fn commit(
    repo: &Repository,
    id: SandboxId,
    tree: &Oid,
    parents: &[&Oid],
    cancel: &CancellationToken,
) -> Result<Oid, GitError> {
    let parents = parents.iter().flat_map(|parent| ["-p", parent.as_str()]);
    let line = as_identity(repo.command(), &Identity::fallback())
        .args(["commit-tree", tree.as_str(), "-F", "-"])
        .args(parents)
        .input(Input::Bytes(
            format!("cofferdam {id}: applied").into_bytes(),
        ))
        .line(cancel)
        .await?;
    line.parse().map_err(|_| GitError::Output {
        command: "commit-tree".into(),
        what: "no commit".into(),
    })
}

impl Move {
    async fn bring_in(
        &self,
        repo: &Repository,
        index: &Path,
        cancel: &CancellationToken,
    ) -> Result<Option<Obstacle>, LandError> {
        let there = self.git_dir().join("index");
        copy_index(&there, index)?;
        let changes = self.changes(repo, cancel).await?;
        if let Some(why) = self.same_by_the_user(repo, index, &changes, cancel).await? {
            return Ok(Some(Obstacle::InTheWay(why)));
        }
        let rest = self.take_leftovers(repo, index, &changes, cancel).await?;
        if let Some(why) = self.try_out(repo, index, &changes, cancel).await? {
            return Ok(Some(Obstacle::InTheWay(why)));
        }
        // Before anything is written: whoever is killed now can take it back.
        let reference = reference(repo, self.id);
        let none = CancellationToken::new();
        let before = refs::read(repo, &reference, &none).await?;
        if before.as_ref() != Some(&self.new) {
            Transaction::new(format!("cofferdam {}: applied", self.id))
                .update(&reference, &self.new, before.as_ref())
                .commit(repo, &none)
                .await?;
        }
        if let Err(why) = self.update_files(repo, index).await {
            let nothing = BTreeSet::new();
            let restored = self.restore(repo, index, &changes, &nothing, &nothing);
            let left = match restored.await {
                Ok(left) => left,
                Err(error) => return Ok(Some(Obstacle::Half(format!("{why}; {error}")))),
            };
            if left.is_empty() {
                // Nothing of it is there to be taken back.
                let gone = Transaction::new(format!("cofferdam {}: not applied", self.id));
                let gone = match &before {
                    Some(before) => gone.update(&reference, before, Some(&self.new)),
                    None => gone.delete(&reference, &self.new),
                };
                if before.as_ref() != Some(&self.new) {
                    gone.commit(repo, &none).await?;
                }
                return Ok(Some(Obstacle::InTheWay(why)));
            }
            let left = super::checkout::some(&left);
            return Ok(Some(Obstacle::Half(format!(
                "{why}; not as before: {left}"
            ))));
        }
        self.write_files(repo, index, &rest).await?;
        std::fs::rename(index, &there).context("replace", &there)?;
        Ok(None)
    }

    /// Where the user staged the very same: git would take it for done, and taking it back would take theirs away.
    async fn same_by_the_user(
        &self,
        repo: &Repository,
        index: &Path,
        changes: &Changes,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, LandError> {
        let mut other = self.clone();
        other.old = self.new.clone();
        let unlike = other.staged(repo, index, cancel).await?;
        let earlier = match &self.lying {
            Some((_, earlier)) => {
                other.old = self.old.clone();
                other.new = earlier.clone();
                other.changes(repo, cancel).await?
            }
            None => Changes::new(),
        };
        let same = changes.iter().filter(|(path, state)| {
            !unlike.contains_key(*path) && earlier.get(*path) != Some(state)
        });
        let same: Vec<String> = same
            .map(|(path, _)| printable(&String::from_utf8_lossy(path)))
            .collect();
        if same.is_empty() {
            return Ok(None);
        }
        let same = super::checkout::some(&same);
        Ok(Some(format!("the same is staged already: {same}")))
    }

    /// Returns, printable, what is not as before.
    async fn bring_out(&self, repo: &Repository, index: &Path) -> Result<Vec<String>, LandError> {
        let none = CancellationToken::new();
        let there = self.git_dir().join("index");
        copy_index(&there, index)?;
        let changes = self.changes(repo, &none).await?;
        let mut back = self.clone();
        std::mem::swap(&mut back.old, &mut back.new);
        let before: Changes = back.changes(repo, &none).await?;
        let staged = back.staged(repo, index, &none).await?;
        let since_head = self.entries(repo, index, &none).await?;
        let tracked = self.tracked(repo, index, &none).await?;
        // An entry that neither has is its user's work, and with it what lies there; so is an intent to add, which no
        // comparison shows. Where it is as before, this was cut short, or they took it out of the index.
        let theirs: BTreeSet<Vec<u8>> = (changes.keys())
            .filter(|path| {
                let is_before = !since_head.contains_key(*path)
                    && tracked.contains(*path) == before.get(*path).is_some_and(Option::is_some);
                staged.contains_key(*path) && !is_before
            })
            .cloned()
            .collect();
        let ours = before.iter();
        let ours: Vec<_> = ours
            .filter(|(path, _)| !staged.contains_key(*path))
            .collect();
        self.set_entries(repo, index, &ours, &none).await?;
        // Where the index has what was brought in, the files were whole: who made one shorter is its user.
        let whole = changes.keys().filter(|path| !staged.contains_key(*path));
        let whole = whole.cloned().collect();
        let left = self.restore(repo, index, &changes, &whole, &theirs).await?;
        std::fs::rename(index, &there).context("replace", &there)?;
        Ok(left)
    }
}
