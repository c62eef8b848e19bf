//! The commit gate, the one door out of a sandbox: a pack and the commit it claims to end in go in,
//! [`Accepted`] comes out, or nothing at all has happened to the repository.
//!
//! The pack is checked in a quarantine that sees only the history which was exported. Only this
//! module makes an [`Accepted`], and only [`crate::git::land`] moves branches, by one.

mod beside;
mod intake;
mod known;
mod names;
mod objects;
mod policy;
mod quarantine;
mod verdict;
mod walk;
mod whose;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

pub(crate) use names::forbidden;
pub use quarantine::remove_stale;
pub(crate) use whose::broke;

/// Whether a change of the file can make something run on the machine of whoever opens or builds the tree.
pub fn runs_by_itself(path: &Path) -> bool {
    names::executes(&names::fold_path(path.as_os_str().as_bytes()))
}

/// A path as a message and [`Accepted::executes`] have it.
pub fn shown_path(path: &Path) -> String {
    verdict::shown(path.as_os_str().as_bytes())
}

use super::refs::{self, Own, RefError, Transaction};
use super::{GitError, Oid, Repository};
use crate::fsx::{self, Context, FileError};
use crate::git::CommitLine;
use crate::names::SandboxId;
use crate::process::Input;
use quarantine::Quarantine;

/// So many refused packs of one sandbox are kept.
const PACKS: u32 = 20;

/// Bounds of what one sandbox may bring home at a time.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of the pack.
    pub pack_bytes: u64,
    /// New commits.
    pub commits: u64,
    /// Distinct changed paths.
    pub paths: u64,
    /// Changes of one path in one commit, all together.
    pub changes: u64,
    /// Bytes of one new file.
    pub blob_bytes: u64,
    /// Bytes that a git process which reads the pack may allocate.
    pub memory: u64,
    /// For each step.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pack_bytes: 4 << 30,
            commits: 100_000,
            paths: 1_000_000,
            changes: 4_000_000,
            blob_bytes: 1 << 30,
            memory: 4 << 30,
            time: Duration::from_mins(10),
        }
    }
}

/// What a commit may not change.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Paths from the top directory; each with everything below it. Compared as a
    /// case-insensitive, Unicode-normalising file system would.
    pub protected: Vec<String>,
    /// Paths, as above, that the sandbox could not see: a change to one is no work on it.
    pub hidden: Vec<String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            protected: vec![".husky".into(), ".cofferdam".into()],
            hidden: Vec::new(),
        }
    }
}

/// The gate of one sandbox.
#[derive(Debug, Clone)]
pub struct Gate {
    /// Where what passes goes.
    pub repo: Repository,
    /// The sandbox that the commits are from.
    pub id: SandboxId,
    /// The commit that was exported.
    pub base: Oid,
    /// Other commits of the host's that the sandbox has, none of them in the history of the base or of another one: what they
    /// contain is not new, and what they have is the user's as much as what the base has.
    pub known: Vec<Oid>,
    /// A host-owned directory whose `pack/` holds the history of all these, what passed the gate since, and
    /// nothing else.
    pub alternate: PathBuf,
    /// The sandbox's state directory: where a refused pack is kept.
    pub state: PathBuf,
    /// Which of the sandbox's refs holds what passes.
    pub holder: Own,
    /// How much may come home.
    pub limits: Limits,
    /// What commits may hold.
    pub rules: Rules,
}

/// Commits that passed the gate. They are in the repository, reachable from one of the sandbox's refs.
#[derive(Debug, Clone)]
pub struct Accepted {
    id: SandboxId,
    base: Oid,
    tip: Oid,
    holder: Own,
    commits: Vec<CommitLine>,
    changed: Vec<PathBuf>,
    executes: Vec<String>,
    notes: Vec<String>,
    pack: PathBuf,
}

impl Accepted {
    /// The sandbox that they are from.
    pub fn id(&self) -> SandboxId {
        self.id
    }

    /// The commit the sandbox started from; the tip descends from it.
    pub fn base(&self) -> &Oid {
        &self.base
    }

    /// The newest of them.
    pub fn tip(&self) -> &Oid {
        &self.tip
    }

    /// Oldest first. Subjects as they are: sanitise before showing.
    pub fn commits(&self) -> &[CommitLine] {
        &self.commits
    }

    /// Every path that some commit changed, sorted. As it is: sanitise before showing.
    pub fn changed(&self) -> &[PathBuf] {
        &self.changed
    }

    /// Changed files that run on the user's machine when they open or build the project. Printable.
    pub fn executes(&self) -> &[String] {
        &self.executes
    }

    /// What a reviewer should know: names that mislead or collide. Printable; where there are very many, the last one says
    /// how many more.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The pack in the repository that they came in with.
    pub fn pack(&self) -> &std::path::Path {
        &self.pack
    }

    /// The ref of the sandbox's that holds the commits.
    pub fn tip_ref(&self) -> String {
        refs::own(self.id, self.holder)
    }
}

/// One thing in a commit that may not come home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// As it is: sanitise before showing ([`shown_path`]).
    pub path: PathBuf,
    /// Printable.
    pub what: String,
}

/// Why the commits do not come home.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// `git index-pack --strict` refuses it.
    #[error("the pack is refused: {reason}")]
    Pack {
        /// Printable.
        reason: String,
    },
    /// More than the limits of a sandbox allow.
    #[error("there are more than {limit} {what}")]
    TooMuch {
        /// Of what: commits, bytes and the like.
        what: &'static str,
        /// The most that comes home.
        limit: u64,
    },
    /// The pack lacks the commit that the sandbox says it ended in.
    #[error("the pack does not contain the commit {tip} that the sandbox claims to end in")]
    TipMissing {
        /// What it said.
        tip: Oid,
    },
    /// The history that the sandbox began with was rewritten.
    #[error(
        "commit {tip} does not descend from {base}, where the sandbox started: its history was rewritten"
    )]
    NotDescendant {
        /// Where the sandbox ended.
        tip: Oid,
        /// Where it began.
        base: Oid,
    },
    /// What commits hold that no checkout may have.
    #[error("{}", list_violations(.0))]
    Tree(Vec<Violation>),
    /// An object that `index-pack` let pass, and that could not be looked at.
    #[error("git cannot read what is in the pack: {reason}")]
    Unreadable {
        /// Printable, one line.
        reason: String,
    },
    /// Looking through the commits was given up after this long.
    #[error("looking through the commits takes longer than {} s", .0.as_secs_f32())]
    TooSlow(Duration),
}

impl Refusal {
    /// What of the trees may not come home. As it is: sanitise before showing.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let violations = match self {
            Self::Tree(violations) => violations.as_slice(),
            _ => &[],
        };
        violations.iter().map(|one| one.path.as_path())
    }
}

fn list_violations(violations: &[Violation]) -> String {
    let shown: Vec<String> = violations
        .iter()
        .take(5)
        .map(|one| format!("`{}`: {}", shown_path(&one.path), one.what))
        .collect();
    let more = violations.len().saturating_sub(shown.len());
    let tail = if more > 0 {
        format!("; and {more} more")
    } else {
        String::new()
    };
    format!("{}{tail}", shown.join("; "))
}

/// Why nothing came home.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The commits themselves are at fault; `why` says how.
    #[error("{why}")]
    Refused {
        /// What is wrong with them.
        why: Refusal,
        /// The pack as it was sent; `None` where it was too large to keep.
        pack: Option<PathBuf>,
    },
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
    /// The sandbox did not send everything within this time.
    #[error("the commits were not sent completely within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// Git failed on the host, and not because of the commits.
    #[error(transparent)]
    Git(#[from] GitError),
    /// They passed, and the sandbox's ref could not be moved.
    #[error(transparent)]
    Ref(#[from] RefError),
    /// Something could not be read or written on the host.
    #[error(transparent)]
    File(#[from] FileError),
}

impl GateError {
    fn refused(why: Refusal) -> Self {
        Self::Refused { why, pack: None }
    }
}

impl Gate {
    /// What the sandbox had from the host.
    fn given(&self) -> impl Iterator<Item = &Oid> {
        std::iter::once(&self.base).chain(&self.known)
    }

    /// Takes a pack and the id of the commit it ends in, both from a sandbox, and lets in what
    /// passes. Afterwards the commits are in the repository and [`holder`](Self::holder) is at `tip`; no other ref has moved. On any error the repository is as it was. A refused pack is kept
    /// in the state directory; an error that is not a refusal is this machine's, and may go away.
    pub async fn receive(
        &self,
        pack: Input,
        tip: &Oid,
        cancel: &CancellationToken,
    ) -> Result<Accepted, GateError> {
        fsx::private_dir(&self.state)?;
        let spool = self.state.join("incoming.pack");
        fsx::remove_file_if_exists(&spool)?;
        // On the heap: whoever calls has it in a future of its own.
        let received = Box::pin(self.check_and_let_in(pack, tip, &spool, cancel)).await;
        match received {
            Err(GateError::Refused { why, .. }) => {
                let oversized = matches!(
                    why,
                    Refusal::TooMuch {
                        what: intake::PACK_BYTES,
                        ..
                    }
                );
                let pack = if oversized {
                    fsx::remove_file_if_exists(&spool)?;
                    None
                } else {
                    Some(self.keep(&spool)?)
                };
                Err(GateError::Refused { why, pack })
            }
            Err(error) => {
                // Our own failure: the sandbox still has its commits, the caller may try again.
                let _ = fsx::remove_file_if_exists(&spool);
                Err(error)
            }
            Ok(accepted) => {
                fsx::remove_file_if_exists(&spool)?;
                Ok(accepted)
            }
        }
    }

    /// Moves a pack to a name that no other has. One that was refused before is there already: whoever goes on living is asked again
    /// and again. The newest ones are kept: their names are taken again from the oldest on.
    fn keep(&self, spool: &Path) -> Result<PathBuf, FileError> {
        let mut oldest = (SystemTime::now(), self.state.join("refused.pack"));
        for number in 1..=PACKS {
            let kept = self.state.join(match number {
                1 => "refused.pack".to_owned(),
                _ => format!("refused-{number}.pack"),
            });
            let Ok(found) = kept.symlink_metadata() else {
                std::fs::rename(spool, &kept).context("keep", &kept)?;
                return Ok(kept);
            };
            // Whoever holds uncommitted work has it in files, and removes the pack again.
            if matches!(self.holder, Own::Tip) && fsx::is_same(spool, &kept)? {
                fsx::remove_file_if_exists(spool)?;
                return Ok(kept);
            }
            let since = found.modified().context("look at", &kept)?;
            if since < oldest.0 {
                oldest = (since, kept);
            }
        }
        let (_, kept) = oldest;
        std::fs::rename(spool, &kept).context("keep", &kept)?;
        Ok(kept)
    }

    async fn check_and_let_in(
        &self,
        pack: Input,
        tip: &Oid,
        spool: &std::path::Path,
        cancel: &CancellationToken,
    ) -> Result<Accepted, GateError> {
        let quarantine = Quarantine::create(&self.repo, self.id, &self.alternate)?;
        let name = intake::index(self, &quarantine, pack, spool, cancel).await?;
        let reference = refs::own(self.id, self.holder);
        let (accepted, old) = tokio::join!(
            self.check(&quarantine, tip, cancel),
            refs::read(&self.repo, &reference, cancel)
        );
        let (mut accepted, old) = (accepted.map_err(whose::refuse_if_theirs)?, old?);
        accepted.pack = self.repo.objects().join(format!("pack/pack-{name}.pack"));
        let keep = quarantine.migrate(&self.repo, &name)?;
        drop(quarantine);
        let moved = if old.as_ref() == Some(tip) {
            Ok(())
        } else {
            Transaction::new(format!("cofferdam {}", self.id))
                .update(&reference, tip, old.as_ref())
                .commit(&self.repo, cancel)
                .await
        };
        if let Some(keep) = keep {
            fsx::remove_file_if_exists(&keep)?;
        }
        moved?;
        Ok(accepted)
    }

    /// Everything that is checked once git has found the pack sound and closed: each object that it
    /// refers to is in it or in the exported history (`index-pack --strict` checks every link, and
    /// the exported history is closed itself).
    async fn check(
        &self,
        quarantine: &Quarantine,
        tip: &Oid,
        cancel: &CancellationToken,
    ) -> Result<Accepted, GateError> {
        let (is_commit, history) = tokio::join!(
            policy::check_tip(self, quarantine, tip, cancel),
            walk::walk(self, quarantine, tip, cancel)
        );
        // What the tip is explains a walk that failed.
        is_commit?;
        let history = history?;
        if !history.descends && *tip != self.base {
            let (tip, base) = (tip.clone(), self.base.clone());
            return Err(GateError::refused(Refusal::NotDescendant { tip, base }));
        }
        let verdict = policy::judge(self, quarantine, &history.changes, tip, cancel).await?;
        let changed = history
            .changes
            .into_keys()
            .map(|path| OsString::from_vec(path).into())
            .collect();
        Ok(Accepted {
            id: self.id,
            base: self.base.clone(),
            tip: tip.clone(),
            holder: self.holder,
            commits: history.commits,
            changed,
            executes: verdict.executes,
            notes: verdict.notes.into_texts(),
            pack: PathBuf::new(),
        })
    }
}
