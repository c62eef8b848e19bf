//! Collect: bring a sandbox's commits home through the commit gate. Works from the record alone, so
//! that `gc` can do it for a run whose command was killed.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::barred::at_work;
use super::emitter::Emitter;
use super::event::Notice;
use super::judge::Judging;
use super::report::Beside;
use super::shared;
use crate::fsx::Context;
use crate::git::CommitLine;
use crate::git::files::Workshop;
use crate::git::gate::Accepted;
use crate::git::land;
use crate::git::land::Landing;
use crate::git::{Identity, Oid, Repository, nested, recorded};
use crate::home::Home;
use crate::names::{BranchName, SandboxId};
use crate::registry::{Mode, Outcome, Owned, Phase, Strategy};
use crate::sandbox::IsolatedSandbox;
use changed::Taken;

mod by_paths;
mod changed;
pub(super) mod error;
mod home;
mod landing;
pub(super) use landing::left_at;
mod left;
mod on_host;
mod packing;
mod recording;
mod rest;
mod spared;
mod tips;
mod unchanged;

pub use error::CollectError;
pub(super) use home::{keeps_work, set_aside, sets_aside};
pub(super) use packing::rules;
pub use recording::Recorded;
pub(super) use recording::{NextCommit, Recording};
pub use rest::Rest;
pub(super) use rest::{ANSWER, COMMIT_THE_REST};
pub(super) use unchanged::{Seen, remember_clean};

/// Where the sandbox's repository can be read.
#[derive(Debug)]
pub(super) enum Source<'a> {
    /// In the state directory; nothing runs in the sandbox any more.
    State,
    /// In the file system of a running isolated sandbox.
    Sandbox {
        sandbox: &'a dyn IsolatedSandbox,
        workdir: &'a Path,
    },
    /// Nowhere: the files of a running isolated sandbox without git are all that there is.
    Files {
        sandbox: &'a dyn IsolatedSandbox,
        workdir: &'a Path,
    },
    /// The commit that was made of them.
    Made { tip: Oid, workshop: Workshop<'a> },
}

/// So many notes tell enough; the report has them all.
const TOLD: usize = 20;
/// Between two looks at the clock, at least.
const AGAIN: Duration = Duration::from_millis(10);

/// How far commits go that passed the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaches {
    /// The strategy's last step is done as well.
    Target,
    /// The sandbox's own branch: with merge-to-head nothing else moves, for this reason.
    OwnBranch(&'static str),
    /// The same, and what is the sandbox's own is left where it is: it goes on.
    WhileItLives,
    /// The same for somebody who only looks: what is checked out is left as well.
    ToBeSeen,
}

impl Reaches {
    /// Why the target of merge-to-head is left where it is; `None`: it is not.
    fn held_back(self) -> Option<&'static str> {
        match self {
            Self::Target => None,
            Self::OwnBranch(why) => Some(why),
            Self::WhileItLives | Self::ToBeSeen => Some(land::LIVES),
        }
    }
}

/// What collecting needs beside the record.
#[derive(Debug)]
pub(super) struct Collector<'a> {
    pub reaches: Reaches,
    pub home: &'a Home,
    pub repo: &'a Repository,
    /// Author of a merge commit.
    pub author: &'a Identity,
    pub events: &'a Emitter,
    pub limit: Duration,
    pub cancel: &'a CancellationToken,
    /// Asked before a merge.
    pub judge: Option<&'a Judging<'a>>,
}

/// What came home.
#[derive(Debug, Clone)]
pub(super) struct Collected {
    pub landing: Landing,
    pub commits: Vec<CommitLine>,
    pub tip: Option<Oid>,
    /// Files that were the user's uncommitted work, and that the agent committed.
    pub taken: recorded::Taken,
    /// The commit that the agent's checkout ended at, if it is in the host repository.
    pub checkout: Option<Oid>,
    /// A private copy has uncommitted work.
    pub copy_is_dirty: bool,
    pub beside: Vec<Beside>,
    /// What the gate noticed and let pass, in words.
    pub notes: Vec<String>,
    /// Where inside what landed came from, if that is not the sandbox's own branch. Printable.
    pub switched: Option<String>,
    /// What of the trees the gate did not let in. As it is: sanitise before showing.
    pub refused_paths: Vec<PathBuf>,
    /// Of a landing that a death had cut short: see [`land::Landed`].
    pub changed_outside: Vec<String>,
    /// See [`Outcome::keeps_repository`].
    pub keeps_repository: bool,
    /// What the gate said runs by itself.
    pub executes: BTreeSet<String>,
    /// What the commits that landed change.
    pub changed: BTreeSet<PathBuf>,
}

impl Collected {
    /// What is kept beside the landing, a line each; the last one says how many more there are.
    pub(super) fn beside_in_words(&self, id: SandboxId) -> Vec<String> {
        let mut lines: Vec<_> = (self.beside.iter().take(TOLD))
            .map(ToString::to_string)
            .collect();
        let more = self.beside.len() - lines.len();
        if more > 0 {
            lines.push(format!(
                "{more} more are kept: `git for-each-ref refs/cofferdam/{id}/`"
            ));
        }
        lines
    }

    pub(super) fn into_outcome(self) -> Outcome {
        let beside = match &self.beside[..] {
            [] => None,
            [one] => Some(one.to_string()),
            [one, rest @ ..] => Some(format!("{one}; and {} more", rest.len())),
        };
        Outcome {
            landing: self.landing,
            checkout: self.checkout,
            copy_is_dirty: self.copy_is_dirty,
            beside,
            keeps_repository: self.keeps_repository,
            took_work: !self.taken.paths.is_empty(),
            no_agent: false,
        }
    }
}

impl Collector<'_> {
    /// Whether the sandbox goes on afterwards.
    fn lives(&self) -> bool {
        matches!(self.reaches, Reaches::WhileItLives | Reaches::ToBeSeen)
    }

    pub(super) async fn collect(
        &self,
        owned: &mut Owned,
        source: Source<'_>,
    ) -> Result<Collected, CollectError> {
        let began = Instant::now();
        let mut work = Box::pin(self.bring_home(owned, &source));
        loop {
            let left = self.limit.saturating_sub(self.took(began));
            if left.is_zero() {
                return Err(CollectError::TimedOut(self.limit));
            }
            tokio::select! {
                () = self.cancel.cancelled() => return Err(CollectError::Cancelled),
                done = &mut work => return done,
                () = tokio::time::sleep(left.max(AGAIN)) => {}
            }
        }
    }

    /// Without the time in which commits were judged.
    fn took(&self, began: Instant) -> Duration {
        let judged = self.judge.map_or(Duration::ZERO, Judging::took);
        began.elapsed().saturating_sub(judged)
    }

    async fn bring_home(
        &self,
        owned: &mut Owned,
        source: &Source<'_>,
    ) -> Result<Collected, CollectError> {
        let collected = Collected {
            landing: Landing::Nothing,
            commits: Vec::new(),
            tip: None,
            taken: recorded::Taken::default(),
            checkout: None,
            copy_is_dirty: false,
            beside: Vec::new(),
            notes: Vec::new(),
            switched: None,
            refused_paths: Vec::new(),
            changed_outside: Vec::new(),
            keeps_repository: false,
            executes: BTreeSet::new(),
            changed: BTreeSet::new(),
        };
        // What is compared and written from here on is a sandbox's.
        let repo = self.repo.without_drivers(self.cancel).await?;
        let this = Collector {
            repo: &repo,
            ..*self
        };
        Box::pin(this.bring_home_quietly(owned, source, collected)).await
    }

    /// As [`Self::bring_home`], in a repository whose drivers do not run.
    async fn bring_home_quietly(
        &self,
        owned: &mut Owned,
        source: &Source<'_>,
        mut collected: Collected,
    ) -> Result<Collected, CollectError> {
        // A landing that a death interrupted is finished first.
        let mut home: BTreeSet<Oid> = BTreeSet::new();
        if let Some(landed) = land::finish(
            self.repo,
            owned.directory(),
            &|top| at_work(self.home, top),
            self.cancel,
        )
        .await?
        {
            match &landed.landing {
                Landing::Landed { tip, .. } => {
                    collected.commits = self
                        .repo
                        .commits_since(&owned.record.base, std::slice::from_ref(tip), self.cancel)
                        .await?;
                    home.extend(collected.commits.iter().map(|commit| commit.id.clone()));
                    collected.tip = Some(tip.clone());
                }
                // What comes home now says nothing of it.
                Landing::Kept { why, .. } => {
                    let text = format!("a landing that was cut short: {why}");
                    self.events.notice(Notice::Other { text });
                }
                Landing::Nothing | Landing::Refused { .. } => {}
            }
            collected
                .changed_outside
                .clone_from(&landed.changed_outside);
            let landing = self.told(landed);
            if matches!(landing, Landing::Landed { .. }) {
                collected.landing = landing;
            }
        }
        if owned.record.on_host {
            return self.stands_on_host(owned, collected).await;
        }
        if owned.record.phase != Phase::Active {
            return Ok(collected);
        }
        if owned.record.mode == Mode::Inside && matches!(source, Source::State) {
            return Err(CollectError::Inside(owned.record.provider.clone()));
        }
        let left = match owned.record.mode {
            Mode::Bind if !self.lives() => self.tidy_up(owned)?,
            Mode::Bind | Mode::Copy | Mode::Layer | Mode::Inside => Vec::new(),
        };
        if let Source::Sandbox { sandbox, workdir } = source {
            let rest = super::transfer::commit_the_rest(*sandbox, workdir, self.cancel).await;
            if let Err(why) = rest {
                let text = format!("uncommitted work in the sandbox could not be kept: {why}");
                self.events.notice(Notice::Other { text });
            }
        }
        let made;
        let source = match source {
            Source::Files { sandbox, workdir } => {
                match self.take_changes(owned, *sandbox, workdir).await? {
                    Taken::Nothing => return Ok(collected),
                    Taken::Refused { why, kept } => {
                        collected.landing = Landing::Refused { pack: kept, why };
                        return Ok(collected);
                    }
                    Taken::Commit(tip, workshop) => made = Source::Made { tip, workshop },
                }
                &made
            }
            other => other,
        };
        let tips = self.tips(owned, source).await?;
        self.take_home(owned, source, &tips, home, &mut collected)
            .await?;
        shared::tell_executable(&left, &collected.executes, self.events);
        if owned.record.strategy == Strategy::Head && owned.record.mode == Mode::Bind {
            let committed = &collected.changed;
            shared::tell_uncommitted(&left, committed, self.repo, self.cancel, self.events).await;
        }
        let own_files = owned.record.mode.owns_files();
        if own_files && !self.lives() && matches!(source, Source::State) {
            // What cannot be read cannot be asked either.
            collected.copy_is_dirty = !tips.odd.is_empty() || self.copy_is_dirty(owned).await;
            if collected.copy_is_dirty {
                // It stays, and its user will look at it.
                self.tidy_up(owned)?;
            }
        }
        Ok(collected)
    }

    fn report(&self, accepted: &Accepted, executes: &[String]) {
        if !executes.is_empty() {
            self.events.notice(Notice::Executes {
                paths: executes.to_vec(),
            });
        }
        for text in accepted.notes() {
            let text = text.clone();
            self.events.notice(Notice::Other { text });
        }
    }

    /// Rights of other users are taken back, and git directories that the agent left in the workspace are
    /// moved to the state directory: a plain `git status` of the user in one of them would run what they
    /// say. Returns what changed.
    fn tidy_up(&self, owned: &Owned) -> Result<Vec<PathBuf>, CollectError> {
        let workspace = owned.record.workspace(self.home);
        if !workspace.is_dir() {
            return Ok(Vec::new());
        }
        // An agent may have locked its own workspace, which in `head` is the user's.
        let mode = workspace
            .metadata()
            .context("look at", &workspace)?
            .permissions()
            .mode();
        if mode & 0o700 != 0o700 {
            let open = Permissions::from_mode(mode | 0o700);
            std::fs::set_permissions(&workspace, open).context("open up", &workspace)?;
        }
        let before: BTreeSet<PathBuf> = owned
            .record
            .nested_before
            .iter()
            .map(|path| path.0.clone())
            .collect();
        let left = shared::after(owned.directory(), &workspace, self.events)?;
        let mut now = left.git;
        // One that was there before is its user's, and this one is covered inside.
        let began = owned.record.created.as_second();
        let is_new = |path: &PathBuf| {
            let found = workspace.join(path).symlink_metadata();
            found.is_ok_and(|found| found.ctime() >= began)
        };
        let is_trap = |path: &PathBuf| path.file_name().is_some_and(nested::is_trap_name);
        now.retain(|path| !is_trap(path) || is_new(path));
        // The git directory of a copy is elsewhere, so it could be a bare repository itself.
        if owned.record.mode != Mode::Bind && nested::is_bare(&workspace) {
            now.insert("HEAD".into());
        }
        let to = owned.directory().join("nested");
        let done = land::move_out(&workspace, &before, &now, &to)?;
        for error in done.failed {
            self.events.notice(Notice::Other {
                text: error.to_string(),
            });
        }
        if !done.removed.is_empty() {
            let text = format!(
                "pipes that came since, at which git would wait for ever, are removed: {}",
                shared::named(&done.removed)
            );
            self.events.notice(Notice::Other { text });
        }
        if done.moved.is_empty() {
            return Ok(left.changed);
        }
        let paths: Vec<String> = done
            .moved
            .iter()
            .map(|(path, _)| crate::text::printable_bytes_line(path.as_os_str().as_bytes()))
            .collect();
        self.events.notice(Notice::NestedGitMoved { paths, to });
        Ok(left.changed)
    }
}

/// The message of a merge commit.
pub(super) fn merge_message(source: &BranchName, target: &BranchName) -> String {
    format!("Merge branch '{source}' into {target}")
}
