//! The refs that Cofferdam owns, and the one way in which a ref is moved: compare-and-swap.
//!
//! `refs/cofferdam/<id>/{base,before,tip}` belong to one sandbox. `refs/cofferdam/trash/<slug>` keep
//! what a deleted sandbox or branch would have made unreachable, for [`TRASH_DAYS`] days. The age of
//! a trash ref is the time of its reflog entry: it needs no file of ours, works with every ref
//! backend, and git keeps such entries for 90 days by default.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::command::GitError;
use super::refs_at::below_own;
use super::{Identity, Oid, Repository, ref_words};
use crate::names::{BranchName, SandboxId, Slug};
use crate::process::{Exit, Input, ProcessError};

/// How long a trash ref lives.
pub const TRASH_DAYS: u32 = 30;
const TRASH: &str = "refs/cofferdam/trash/";
/// Where what is the user's own is named.
const USERS: [&str; 3] = ["refs/heads/", "refs/tags/", "refs/remotes/"];
/// Begins the last part of the names of commits that came home and belong on no branch.
pub const EXTRA: &str = "extra-";
/// Where that is a stash.
pub const EXTRA_STASH: &str = "extra-stash-";

/// What a name in the trash was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Was {
    /// Commits of a sandbox's.
    Commits,
    /// A stash of a sandbox's.
    Stash,
    /// What a sandbox had in no commit when its user last asked for it.
    Uncommitted,
    /// What was brought into the user's working tree, as a commit.
    Applied,
    /// The user's own uncommitted work before an agent.
    Before,
}

impl Was {
    const NAMED: [(Self, &str); 4] = [
        (Self::Stash, "-stash"),
        (Self::Uncommitted, "-uncommitted"),
        (Self::Applied, "-applied"),
        (Self::Before, "-before"),
    ];

    /// What `reference` was, which is in the trash for the sandbox `name`.
    pub fn of(reference: &str, name: &str) -> Self {
        let rest = reference.strip_prefix(TRASH);
        let rest = rest.and_then(|rest| rest.strip_prefix(name));
        let named = |(_, text): &&(Self, &str)| rest.is_some_and(|rest| rest.starts_with(text));
        let found = Self::NAMED.iter().find(named);
        found.map_or(Self::Commits, |(was, _)| *was)
    }

    /// What is at a name of the sandbox's own, as [`own`] makes it.
    fn own(reference: &str) -> Self {
        match reference.rsplit('/').next().unwrap_or_default() {
            name if name.starts_with(EXTRA_STASH) => Self::Stash,
            name if name.starts_with("before") => Self::Before,
            "uncommitted" => Self::Uncommitted,
            // One for each worktree.
            name if name.starts_with("applied") => Self::Applied,
            _ => Self::Commits,
        }
    }

    /// What follows the sandbox's name in the trash.
    fn suffix(self) -> &'static str {
        let found = Self::NAMED.iter().find(|(was, _)| *was == self);
        found.map_or("", |(_, text)| text)
    }
}

/// Why refs did not move. None of a transaction's refs moved.
#[derive(Debug, thiserror::Error)]
pub enum RefError {
    /// A ref is not what it was expected to be, or git holds its lock.
    #[error("no reference was moved: {detail}")]
    Moved {
        /// What is in the way, and what to do about it. Printable.
        detail: String,
    },
    /// The branch is checked out; moving it would change what somebody sees there.
    #[error("branch `{branch}` is checked out at {at}")]
    CheckedOut {
        /// Its short name.
        branch: BranchName,
        /// Its working tree.
        at: String,
    },
    /// Every name below it that could be tried is taken.
    #[error("no free name for `{0}` in the trash")]
    TrashFull(Slug),
    /// Git did not move the refs.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// One of the refs that belong to a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// The commit that was exported.
    Base,
    /// The user's uncommitted work before `head`.
    Before,
    /// The same before another agent in a sandbox that goes on; counted from 2.
    BeforeAgain(u32),
    /// The newest commit of the sandbox that passed the gate.
    Tip,
    /// What a push from inside brings, until its branch has moved.
    Pushed,
    /// What the sandbox had in no commit when its user asked for it, as a commit.
    Uncommitted,
    /// What was last brought into the user's working tree: a commit of that on top of what was checked out.
    Applied,
}

/// `refs/cofferdam/<id>/<name>`.
pub fn own(id: SandboxId, which: Own) -> String {
    let name = match which {
        Own::Base => "base",
        Own::Before => "before",
        Own::BeforeAgain(number) => return format!("{}-{number}", own(id, Own::Before)),
        Own::Tip => "tip",
        Own::Pushed => "pushed",
        Own::Uncommitted => "uncommitted",
        Own::Applied => "applied",
    };
    format!("refs/cofferdam/{id}/{name}")
}

/// Ref changes that happen all or not at all. Symbolic refs are never followed.
#[derive(Debug)]
pub struct Transaction {
    input: Vec<u8>,
    message: String,
}

/// Moving references takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// A file that is read whole also when nobody is there to write to a pipe any more: half of a transaction
/// could be a transaction.
fn in_memory(bytes: &[u8]) -> Result<OwnedFd, GitError> {
    let made = || -> io::Result<OwnedFd> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::memfd_create(c"references", flags)?);
        file.write_all(bytes)?;
        file.rewind()?;
        Ok(OwnedFd::from(file))
    };
    made().map_err(|source| {
        let program = "git update-ref".to_owned();
        ProcessError::Io { program, source }.into()
    })
}

impl Transaction {
    /// `message` goes into the reflogs.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            input: b"start\0".to_vec(),
            message: message.into(),
        }
    }

    fn push(mut self, verb: &str, reference: &str, values: &[&str]) -> Self {
        self.input.extend_from_slice(b"option no-deref\0");
        self.input.extend_from_slice(verb.as_bytes());
        self.input.push(b' ');
        self.input.extend_from_slice(reference.as_bytes());
        self.input.push(0);
        for value in values {
            self.input.extend_from_slice(value.as_bytes());
            self.input.push(0);
        }
        self
    }

    /// Moves `reference` from `old` to `new`; `old = None` means that it must not exist.
    #[must_use]
    pub fn update(self, reference: &str, new: &Oid, old: Option<&Oid>) -> Self {
        match old {
            Some(old) => self.push("update", reference, &[new.as_str(), old.as_str()]),
            None => self.push("create", reference, &[new.as_str()]),
        }
    }

    /// Deletes `reference`, which must be at `old`.
    #[must_use]
    pub fn delete(self, reference: &str, old: &Oid) -> Self {
        self.push("delete", reference, &[old.as_str()])
    }

    /// Runs it. A ref that is not at its expected value is [`RefError::Moved`].
    pub async fn commit(
        mut self,
        repo: &Repository,
        cancel: &CancellationToken,
    ) -> Result<(), RefError> {
        self.input.extend_from_slice(b"prepare\0commit\0");
        // Reflogs need an identity; the user's may be missing, and this is not their deed.
        let done = as_cofferdam(repo.command())
            .args([
                "update-ref",
                "-m",
                &self.message,
                "--create-reflog",
                "-z",
                "--stdin",
            ])
            .input(Input::Fd(in_memory(&self.input)?))
            .answers(&[1, 128])
            // Ended between making a lock file and remembering it, git would leave that in everybody's way.
            .patience(PATIENCE)
            .run(cancel)
            .await?;
        if done.exit.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&done.stderr);
        if ref_words::is_about_one(&text) {
            let detail = ref_words::told(&text);
            return Err(RefError::Moved { detail });
        }
        let said = crate::text::printable(text.trim_end());
        Err(failed("update-ref", done.exit, said))
    }
}

/// The committer of our reflog entries.
fn as_cofferdam(command: super::command::GitCommand) -> super::command::GitCommand {
    command
        .env("GIT_COMMITTER_NAME", "cofferdam")
        .env("GIT_COMMITTER_EMAIL", "cofferdam@localhost")
}

pub(crate) fn as_identity(
    command: super::command::GitCommand,
    who: &Identity,
) -> super::command::GitCommand {
    command
        .env("GIT_AUTHOR_NAME", &who.name)
        .env("GIT_AUTHOR_EMAIL", &who.email)
        .env("GIT_COMMITTER_NAME", &who.name)
        .env("GIT_COMMITTER_EMAIL", &who.email)
}

pub(crate) fn failed(command: &str, exit: Exit, stderr: String) -> RefError {
    RefError::Git(GitError::Failed {
        command: command.into(),
        exit,
        stderr,
    })
}

/// The commit that the full ref name `reference` holds, not following symbolic refs' meaning.
pub async fn read(
    repo: &Repository,
    reference: &str,
    cancel: &CancellationToken,
) -> Result<Option<Oid>, GitError> {
    let done = repo
        .command()
        .args([
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            reference,
        ])
        .answers(&[1, 128])
        .run(cancel)
        .await?;
    Ok(String::from_utf8_lossy(&done.stdout)
        .trim_end()
        .parse()
        .ok())
}

/// A ref below `refs/cofferdam/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its full name.
    pub reference: String,
    /// Where it is.
    pub id: Oid,
}

/// Every ref below `prefix`, which must start with `refs/cofferdam/`.
pub async fn list(
    repo: &Repository,
    prefix: &str,
    cancel: &CancellationToken,
) -> Result<Vec<Listed>, GitError> {
    let text = repo
        .command()
        .args(["for-each-ref", "--format=%(objectname) %(refname)", prefix])
        .line(cancel)
        .await?;
    Ok(text
        .lines()
        .filter_map(|line| {
            let (id, reference) = line.split_once(' ')?;
            Some(Listed {
                reference: reference.to_owned(),
                id: id.parse().ok()?,
            })
        })
        .collect())
}

/// A trash ref with the time it was put there.
#[derive(Debug, Clone)]
pub struct Trash {
    /// Its full name.
    pub reference: String,
    /// Where it is.
    pub id: Oid,
    /// `None`: its reflog is gone, so its age is unknown and it is kept.
    pub since: Option<Timestamp>,
}

/// What is in the trash.
pub async fn trash(repo: &Repository, cancel: &CancellationToken) -> Result<Vec<Trash>, GitError> {
    aged(repo, list(repo, TRASH, cancel).await?, cancel).await
}

async fn aged(
    repo: &Repository,
    listed: Vec<Listed>,
    cancel: &CancellationToken,
) -> Result<Vec<Trash>, GitError> {
    let mut found = Vec::new();
    for Listed { reference, id } in listed {
        let done = repo
            .command()
            .args(["log", "-g", "-1", "--date=unix", "--format=%gd"])
            .args([reference.as_str(), "--"])
            .answers(&[128])
            .run(cancel)
            .await?;
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let since = text
            .rsplit_once("@{")
            .and_then(|(_, rest)| rest.trim_end().strip_suffix('}')?.parse().ok())
            .and_then(|seconds| Timestamp::from_second(seconds).ok());
        found.push(Trash {
            reference,
            id,
            since,
        });
    }
    Ok(found)
}

/// A ref that had its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expired {
    /// Its full name, as it was.
    pub reference: String,
    /// Where its commit is from now on, if it was nowhere else.
    pub trash: Option<String>,
}

/// Deletes those of `listed` that belong to sandboxes not among `alive`, and whose commits a branch, tag or remote branch has: nothing is lost
/// by that. Returns their names. Who is alive is asked after they are listed, for a sandbox has its record before its refs.
pub async fn forget_home(
    repo: &Repository,
    listed: Vec<Listed>,
    alive: &BTreeSet<SandboxId>,
    cancel: &CancellationToken,
) -> Result<Vec<String>, RefError> {
    let mut gone = Vec::new();
    for Listed { reference, id } in listed {
        let is_dead = |sandbox| !alive.contains(&sandbox) && !is_before(&reference, sandbox);
        if !owner(&reference).is_some_and(is_dead) || !is_held(repo, &id, &USERS, cancel).await? {
            continue;
        }
        let delete = Transaction::new("cofferdam: home").delete(&reference, &id);
        match delete.commit(repo, cancel).await {
            Ok(()) => gone.push(reference),
            Err(RefError::Moved { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(gone)
}

/// Whether a reference below one of `places` has the commit.
async fn is_held(
    repo: &Repository,
    commit: &Oid,
    places: &[&str],
    cancel: &CancellationToken,
) -> Result<bool, GitError> {
    let holder = repo
        .command()
        .args([
            "for-each-ref",
            "--count=1",
            "--format=%(refname)",
            "--contains",
            commit.as_str(),
        ])
        .args(places)
        .line(cancel)
        .await?;
    Ok(!holder.is_empty())
}

/// Deletes trash refs, and refs of sandboxes that are not among `alive`, which were made
/// [`TRASH_DAYS`] or more days before `now`. Returns them. How long a sandbox has been no more nobody knows: what
/// it alone had has [`TRASH_DAYS`] more in the trash.
pub async fn expire(
    repo: &Repository,
    alive: &BTreeSet<SandboxId>,
    now: Timestamp,
    cancel: &CancellationToken,
) -> Result<Vec<Expired>, RefError> {
    let keep = Duration::from_secs(u64::from(TRASH_DAYS) * 24 * 60 * 60);
    let keep = jiff::SignedDuration::try_from(keep).unwrap_or_default();
    let mut listed = list(repo, "refs/cofferdam/", cancel).await?;
    listed.retain(|one| {
        owner(&one.reference).map_or_else(
            || one.reference.starts_with(TRASH),
            |id| !alive.contains(&id),
        )
    });
    // What goes from the trash now keeps nothing else.
    listed.sort_by_key(|one| {
        let owned = owner(&one.reference).is_some();
        (owned, Was::own(&one.reference) != Was::Commits)
    });
    let mut gone = Vec::new();
    for item in aged(repo, listed, cancel).await? {
        if item
            .since
            .is_none_or(|since| now.duration_since(since) < keep)
        {
            continue;
        }
        let Trash { reference, id, .. } = item;
        let slug = owner(&reference).and_then(|id| Slug::from_text(&id.to_string()).ok());
        let done = if let Some(slug) = &slug {
            let_go(repo, &reference, &id, slug, cancel).await
        } else {
            let delete = Transaction::new("cofferdam: expired").delete(&reference, &id);
            delete.commit(repo, cancel).await.map(|()| None)
        };
        match done {
            Ok(trash) => gone.push(Expired { reference, trash }),
            // Someone took it out or replaced it: then it is not ours to delete.
            Err(RefError::Moved { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(gone)
}

/// The sandbox that a ref below `refs/cofferdam/` belongs to.
fn owner(reference: &str) -> Option<SandboxId> {
    let name = reference.strip_prefix("refs/cofferdam/")?;
    name.split_once('/')?.0.parse().ok()
}

/// Keeps `tip` as `refs/cofferdam/trash/<slug>`, with what it was behind that (and `-2` … when taken), and deletes in the same
/// transaction the refs in `deletes`, each of which must be at the given commit. Returns the name.
pub async fn to_trash(
    repo: &Repository,
    slug: &Slug,
    (was, tip): (Was, &Oid),
    deletes: &[(String, Oid)],
    cancel: &CancellationToken,
) -> Result<String, RefError> {
    let first = format!("{TRASH}{slug}{}", was.suffix());
    let taken = list(repo, TRASH, cancel).await?;
    let mut last = None;
    for number in 1..=1000u32 {
        let reference = match number {
            1 => first.clone(),
            n => format!("{first}-{n}"),
        };
        if taken.iter().any(|listed| listed.reference == reference) {
            continue;
        }
        let mut change = Transaction::new(format!("cofferdam: {slug} deleted"));
        change = change.update(&reference, tip, None);
        for (name, old) in deletes {
            change = change.delete(name, old);
        }
        match change.commit(repo, cancel).await {
            Ok(()) => return Ok(reference),
            Err(RefError::Moved { detail }) if detail.contains(&reference) => {
                last = Some(RefError::Moved { detail });
            }
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| RefError::TrashFull(slug.clone())))
}

/// Whether a trash ref is at `tip`.
pub async fn is_in_trash(
    repo: &Repository,
    tip: &Oid,
    cancel: &CancellationToken,
) -> Result<bool, GitError> {
    let all = list(repo, TRASH, cancel).await?;
    Ok(all.iter().any(|one| one.id == *tip))
}

/// Deletes `branch`, which must be at `tip` and checked out nowhere, and keeps `tip` in the trash.
pub async fn delete_branch_to_trash(
    repo: &Repository,
    branch: &BranchName,
    tip: &Oid,
    slug: &Slug,
    cancel: &CancellationToken,
) -> Result<String, RefError> {
    let full = branch.full();
    for worktree in super::land::worktrees(repo, cancel).await? {
        // One whose directory is gone has nothing checked out; where the disk cannot be asked, it may be there.
        let gone = worktree.path.symlink_metadata();
        let gone = gone.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if worktree.branch.as_deref() == Some(full.as_str()) && !gone {
            let at = crate::text::printable(&worktree.path.to_string_lossy());
            return Err(RefError::CheckedOut {
                branch: branch.clone(),
                at,
            });
        }
    }
    let deletes = [(full, tip.clone())];
    to_trash(repo, slug, (Was::Commits, tip), &deletes, cancel).await
}

/// Deletes `refs/cofferdam/<id>/*`. What no branch, tag or remote branch contains goes to the trash;
/// returns those trash refs.
pub async fn delete_own(
    repo: &Repository,
    id: SandboxId,
    slug: &Slug,
    cancel: &CancellationToken,
) -> Result<Vec<String>, RefError> {
    let mut kept = Vec::new();
    for Listed { reference, id: tip } in to_let_go(repo, id, cancel).await? {
        kept.extend(let_go(repo, &reference, &tip, slug, cancel).await?);
    }
    Ok(kept)
}

/// As [`delete_own`], but for what the user was told as the way back to their own work: that has its time.
pub async fn delete_work(
    repo: &Repository,
    id: SandboxId,
    slug: &Slug,
    cancel: &CancellationToken,
) -> Result<Vec<String>, RefError> {
    let mut kept = Vec::new();
    for Listed { reference, id: tip } in to_let_go(repo, id, cancel).await? {
        if !is_before(&reference, id) {
            kept.extend(let_go(repo, &reference, &tip, slug, cancel).await?);
        }
    }
    Ok(kept)
}

/// What there is of a sandbox, commits first: a stash or a record stands on them, and does not bring them back.
async fn to_let_go(
    repo: &Repository,
    id: SandboxId,
    cancel: &CancellationToken,
) -> Result<Vec<Listed>, RefError> {
    let mut all = list(repo, &below_own(id), cancel).await?;
    all.sort_by_key(|listed| Was::own(&listed.reference) != Was::Commits);
    Ok(all)
}

/// Whether it is the record of the user's work before an agent; those of later agents have their number behind that.
fn is_before(reference: &str, id: SandboxId) -> bool {
    reference.starts_with(&own(id, Own::Before))
}

/// Deletes `refs/cofferdam/<id>/*`, and keeps nothing of what they name.
pub async fn purge_own(
    repo: &Repository,
    id: SandboxId,
    cancel: &CancellationToken,
) -> Result<(), RefError> {
    for Listed { reference, id: tip } in list(repo, &below_own(id), cancel).await? {
        let delete = Transaction::new("cofferdam: purged").delete(&reference, &tip);
        delete.commit(repo, cancel).await?;
    }
    Ok(())
}

/// Deletes `reference`, which must be at `tip`. What no branch, tag or remote branch contains goes to the trash;
/// returns that trash ref.
async fn let_go(
    repo: &Repository,
    reference: &str,
    tip: &Oid,
    slug: &Slug,
    cancel: &CancellationToken,
) -> Result<Option<String>, RefError> {
    let [heads, tags, remotes] = USERS;
    if !is_held(repo, tip, &[heads, tags, remotes, TRASH], cancel).await? {
        let deletes = [(reference.to_owned(), tip.clone())];
        let was = match Was::own(reference) {
            // Whatever an agent calls so: git takes only a commit with its index beside it for a stash.
            Was::Stash if repo.resolve(&format!("{tip}^2"), cancel).await?.is_none() => {
                Was::Commits
            }
            was => was,
        };
        return to_trash(repo, slug, (was, tip), &deletes, cancel)
            .await
            .map(Some);
    }
    let delete = Transaction::new("cofferdam: deleted").delete(reference, tip);
    delete.commit(repo, cancel).await?;
    Ok(None)
}
