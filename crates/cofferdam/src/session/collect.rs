//! Collect: bring a sandbox's commits home through the commit gate. Works from the record alone, so
//! that `gc` can do it for a run whose command was killed.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::emitter::Emitter;
use super::event::Notice;
use super::mounts::jail_mounts;
use super::report::{CommitLine, Landing};
use super::transfer::UNCOMMITTED;
use crate::fsx::{Context, FileError};
use crate::git::gate::{self, Accepted, Gate, GateError};
use crate::git::land::{self, Incoming, LandError, Landed};
use crate::git::private_clone::{self, INSIDE_GIT_DIR, PrivateHead, RefsError};
use crate::git::refs::{self, RefError, Transaction};
use crate::git::worktree::{self, Worktree, WorktreeError};
use crate::git::{GitError, Head, Identity, Oid, Repository, nested};
use crate::home::Home;
use crate::names::BranchName;
use crate::process::{Exit, Input};
use crate::sandbox::native::jail::{self, JailOutput, JailRequest};
use crate::sandbox::registry::{Mode, Outcome, Owned, Phase, RegistryError, Strategy};
use crate::sandbox::{IsolatedSandbox, Limits, SandboxError};

/// More tips than this are not looked at: the rest stays in the state directory.
const MAX_TIPS: usize = 16;

/// Why commits did not come home. They stay in the state directory.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    #[error(transparent)]
    PrivateRefs(#[from] RefsError),
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error(transparent)]
    Land(#[from] LandError),
    #[error(transparent)]
    Refs(#[from] RefError),
    #[error("packing the commits failed: {0}")]
    Jail(#[from] SandboxError),
    #[error("packing the commits ended with {exit}: {stderr}")]
    Pack { exit: Exit, stderr: String },
    /// An isolated sandbox's answer makes no sense.
    #[error("the sandbox's repository cannot be read: {0}")]
    Foreign(String),
    #[error("collecting did not finish within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("collecting was cut short")]
    Cancelled,
}

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
}

/// What collecting needs beside the record.
#[derive(Debug)]
pub(super) struct Collector<'a> {
    pub home: &'a Home,
    pub repo: &'a Repository,
    /// Author of a merge commit.
    pub author: &'a Identity,
    pub events: &'a Emitter,
    pub limit: Duration,
    pub cancel: &'a CancellationToken,
}

/// What came home.
#[derive(Debug, Clone)]
pub(super) struct Collected {
    pub landing: Landing,
    pub commits: Vec<CommitLine>,
    pub tip: Option<Oid>,
    /// The commit that the agent's checkout ended at, if it is in the host repository.
    pub checkout: Option<Oid>,
    /// A private copy has uncommitted work.
    pub copy_is_dirty: bool,
}

impl Collected {
    pub(super) fn into_outcome(self) -> Outcome {
        Outcome {
            landing: self.landing,
            checkout: self.checkout,
            copy_is_dirty: self.copy_is_dirty,
        }
    }
}

impl Collector<'_> {
    pub(super) async fn collect(
        &self,
        owned: &mut Owned,
        source: Source<'_>,
    ) -> Result<Collected, CollectError> {
        tokio::select! {
            () = self.cancel.cancelled() => Err(CollectError::Cancelled),
            done = tokio::time::timeout(self.limit, self.bring_home(owned, &source)) => {
                done.unwrap_or(Err(CollectError::TimedOut(self.limit)))
            }
        }
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
            checkout: None,
            copy_is_dirty: false,
        };
        // What is compared and written from here on is a sandbox's.
        let repo = self.repo.without_drivers(self.cancel).await?;
        let this = Collector {
            repo: &repo,
            ..*self
        };
        this.bring_home_quietly(owned, source, collected).await
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
        if let Some(landed) = land::finish(self.repo, owned.directory(), self.cancel).await?
            && let Landing::Landed { tip, .. } = &landed.landing
        {
            collected.commits =
                commits_between(self.repo, &owned.record.base, tip, self.cancel).await?;
            home.extend(collected.commits.iter().map(|commit| commit.id.clone()));
            collected.tip = Some(tip.clone());
            collected.landing = self.told(landed);
        }
        if owned.record.phase != Phase::Active {
            return Ok(collected);
        }
        if owned.record.mode == Mode::Bind {
            self.move_nested_out(owned)?;
        }
        if let Source::Sandbox { sandbox, workdir } = source {
            let rest = super::transfer::commit_the_rest(*sandbox, workdir, self.cancel).await;
            if let Err(why) = rest {
                let text = format!("uncommitted work in the sandbox could not be kept: {why}");
                self.events.notice(Notice::Other { text });
            }
        }
        let tips = self.tips(owned, source).await?;
        self.take_home(owned, source, tips, home, &mut collected)
            .await?;
        if owned.record.mode == Mode::Copy && matches!(source, Source::State) {
            collected.copy_is_dirty = self.copy_is_dirty(owned).await;
            if collected.copy_is_dirty {
                // It stays, and its user will look at it.
                self.move_nested_out(owned)?;
            }
        }
        Ok(collected)
    }

    /// Lands the commits at the sandbox's own tip and keeps those at others.
    async fn take_home(
        &self,
        owned: &Owned,
        source: &Source<'_>,
        tips: Tips,
        mut home: BTreeSet<Oid>,
        collected: &mut Collected,
    ) -> Result<(), CollectError> {
        let mut landed = !home.is_empty();
        for (number, (name, tip)) in tips.all.into_iter().take(MAX_TIPS).enumerate() {
            let is_head = tips.head.as_ref() == Some(&tip);
            if home.contains(&tip) {
                if is_head {
                    collected.checkout = Some(tip);
                }
                continue;
            }
            let accepted = match self.receive(owned, source, &tip).await {
                Ok(accepted) => accepted,
                Err(CollectError::Gate(GateError::Refused { why, pack })) => {
                    if self.is_old(owned, &tip, pack.as_deref()).await? {
                        if is_head {
                            collected.checkout = Some(tip);
                        }
                        continue;
                    }
                    let landing = Landing::Refused {
                        pack,
                        why: why.to_string(),
                    };
                    if landed || !matches!(collected.landing, Landing::Nothing) {
                        self.events.notice(Notice::Other {
                            text: landing.to_string(),
                        });
                    } else {
                        collected.landing = landing;
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            home.extend(accepted.commits().iter().map(|commit| commit.id.clone()));
            home.insert(tip.clone());
            if is_head {
                collected.checkout = Some(tip.clone());
            }
            // The sandbox's own branch comes first, unless where the agent ended contains it.
            let is_own = !landed
                && name != UNCOMMITTED
                && tips.own.as_ref().is_none_or(|own| home.contains(own));
            if !is_own {
                let reference = self.keep_extra(owned, number, &tip).await?;
                let text = format!("commits beside the branch ({name}) are kept at {reference}");
                self.events.notice(Notice::Other { text });
                continue;
            }
            landed = true;
            self.report(&accepted);
            if owned
                .record
                .branch
                .as_ref()
                .is_none_or(|branch| branch.as_str() != name)
                && !(owned.record.branch.is_none() && name == DETACHED)
            {
                self.events.notice(Notice::BranchSwitched { to: name });
            }
            collected.commits = accepted.commits().to_vec();
            collected.tip = Some(tip);
            collected.landing = self.land(owned, &accepted).await?;
        }
        Ok(())
    }

    /// A tip that the base contains is no work: the agent only looked at, or went back to, an old
    /// commit. The empty pack that was kept for it goes.
    async fn is_old(
        &self,
        owned: &Owned,
        tip: &Oid,
        pack: Option<&Path>,
    ) -> Result<bool, CollectError> {
        let done = self
            .repo
            .command()
            .args([
                "merge-base",
                "--is-ancestor",
                tip.as_str(),
                owned.record.base.as_str(),
            ])
            .answers(&[1, 128])
            .run(self.cancel)
            .await?;
        if !done.exit.success() {
            return Ok(false);
        }
        if let Some(pack) = pack {
            crate::fsx::remove_file_if_exists(pack)?;
        }
        let text = format!(
            "the agent ended at the older commit {}: nothing to land",
            tip.short()
        );
        self.events.notice(Notice::Other { text });
        Ok(true)
    }

    /// A reference of its own for accepted commits that are not on the sandbox's branch.
    async fn keep_extra(
        &self,
        owned: &Owned,
        number: usize,
        tip: &Oid,
    ) -> Result<String, CollectError> {
        let id = owned.record.id;
        let reference = format!("refs/cofferdam/{id}/extra-{number}");
        let old = refs::read(self.repo, &reference, self.cancel).await?;
        if old.as_ref() != Some(tip) {
            Transaction::new(format!("cofferdam {id}"))
                .update(&reference, tip, old.as_ref())
                .commit(self.repo, self.cancel)
                .await?;
        }
        Ok(reference)
    }

    fn report(&self, accepted: &Accepted) {
        if !accepted.executes().is_empty() {
            self.events.notice(Notice::Executes {
                paths: accepted.executes().to_vec(),
            });
        }
    }

    /// Git directories that the agent left in the workspace are moved to the state directory: a
    /// plain `git status` of the user in one of them would run what they say.
    fn move_nested_out(&self, owned: &Owned) -> Result<(), CollectError> {
        let workspace = owned.record.workspace(self.home);
        if !workspace.is_dir() {
            return Ok(());
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
        let mut now = nested::scan(&workspace, nested::Closed::Open)?;
        // The git directory of a copy is elsewhere, so it could be a bare repository itself.
        if owned.record.mode == Mode::Copy && nested::is_bare(&workspace) {
            now.insert("HEAD".into());
        }
        let to = owned.directory().join("nested");
        let done = land::move_out(&workspace, &before, &now, &to)?;
        for error in done.failed {
            self.events.notice(Notice::Other {
                text: error.to_string(),
            });
        }
        if done.moved.is_empty() {
            return Ok(());
        }
        let paths: Vec<String> = done
            .moved
            .iter()
            .map(|(path, _)| path.to_string_lossy().into_owned())
            .collect();
        self.events.notice(Notice::NestedGitMoved { paths, to });
        Ok(())
    }

    /// Where the sandbox's HEAD and branches are, where the agent ended first, without the base.
    async fn tips(&self, owned: &Owned, source: &Source<'_>) -> Result<Tips, CollectError> {
        let found = match source {
            Source::State => {
                let git = owned.directory().join("git");
                for path in private_clone::tidy(&git)? {
                    let path = crate::text::printable_line(&path.to_string_lossy());
                    let text =
                        format!("`{path}` in the sandbox's git directory is no file: removed");
                    self.events.notice(Notice::Other { text });
                }
                private_clone::read_refs(&git, self.repo.format)?
            }
            Source::Sandbox { sandbox, workdir } => {
                super::transfer::refs(*sandbox, workdir, self.repo.format, self.cancel).await?
            }
        };
        let base = &owned.record.base;
        let own_name = owned.record.branch.as_ref().map(BranchName::full);
        let own = match &own_name {
            Some(name) => found
                .refs
                .get(name.as_bytes())
                .filter(|tip| *tip != base)
                .cloned(),
            None => None,
        };
        let mut all: Vec<(String, Oid)> = Vec::new();
        let mut add = |name: &[u8], tip: &Oid| {
            if tip != base && !all.iter().any(|(_, known)| known == tip) {
                let name = name.strip_prefix(b"refs/heads/").unwrap_or(name);
                all.push((crate::text::printable_bytes_line(name), tip.clone()));
            }
        };
        if let Some(tip) = found.head_commit() {
            match &found.head {
                PrivateHead::Symbolic(name) => add(name, tip),
                PrivateHead::Detached(_) => add(DETACHED.as_bytes(), tip),
            }
        }
        if let (Some(name), Some(tip)) = (&own_name, &own) {
            add(name.as_bytes(), tip);
        }
        for (name, tip) in found
            .refs
            .iter()
            .filter(|(name, _)| name.starts_with(b"refs/heads/"))
        {
            add(name, tip);
        }
        Ok(Tips {
            own,
            head: found.head_commit().cloned(),
            all,
        })
    }

    /// A pack of `tip` without the base's history, through the gate.
    async fn receive(
        &self,
        owned: &Owned,
        source: &Source<'_>,
        tip: &Oid,
    ) -> Result<Accepted, CollectError> {
        let gate = Gate {
            repo: self.repo.clone(),
            id: owned.record.id,
            base: owned.record.base.clone(),
            alternate: owned.directory().join("vault"),
            state: owned.directory().to_owned(),
            limits: gate::Limits {
                time: self.limit,
                ..gate::Limits::default()
            },
            rules: gate::Rules::default(),
        };
        let revisions = format!("{tip}\n^{}\n", owned.record.base);
        let pipe = std::io::pipe().map_err(|source| FileError::new("make", "a pipe", source))?;
        let (reader, writer) = (OwnedFd::from(pipe.0), OwnedFd::from(pipe.1));
        let pack = async {
            match source {
                Source::State => self.pack_in_jail(owned, revisions, writer).await,
                Source::Sandbox { sandbox, workdir } => {
                    super::transfer::pack(*sandbox, workdir, revisions, writer, self.cancel).await
                }
            }
        };
        let (packed, received) =
            tokio::join!(pack, gate.receive(Input::Fd(reader), tip, self.cancel));
        match (packed, received) {
            (_, Ok(accepted)) => Ok(accepted),
            // A pack that could not be made explains a refusal better than its remains do; one
            // that its reader let go of says nothing, and the reader knows why.
            (Err(error), Err(_)) if !cut_off(&error) => Err(error),
            (_, Err(error)) => Err(error.into()),
        }
    }

    async fn pack_in_jail(
        &self,
        owned: &Owned,
        revisions: String,
        to: OwnedFd,
    ) -> Result<(), CollectError> {
        let request = JailRequest {
            mounts: jail_mounts(owned.directory()),
            // A hostile repository must not decide how much memory is used.
            arguments: [
                "/bin/sh",
                "-c",
                "ulimit -v 16777216; exec \"$@\"",
                "sh",
                "git",
                "-c",
                "pack.threads=2",
                "-c",
                "pack.windowMemory=256m",
                "-c",
                "core.packedGitLimit=1g",
                "pack-objects",
                "--revs",
                "--thin",
                "--stdout",
                "--delta-base-offset",
                "-q",
            ]
            .map(Into::into)
            .to_vec(),
            environment: [
                ("GIT_DIR", INSIDE_GIT_DIR),
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("GIT_NO_LAZY_FETCH", "1"),
                ("GIT_NO_REPLACE_OBJECTS", "1"),
            ]
            .map(|(key, value)| (key.into(), value.into()))
            .into(),
            directory: "/".into(),
            stdin: revisions.into_bytes(),
            stdout: JailOutput::Fd(to),
            limits: Limits {
                processes: Some(256),
                ..Limits::default()
            },
            timeout: self.limit,
        };
        let done = jail::run(request, self.cancel).await?;
        if done.exit.success() {
            return Ok(());
        }
        let stderr = crate::text::printable(String::from_utf8_lossy(&done.stderr_tail).trim_end());
        Err(CollectError::Pack {
            exit: done.exit,
            stderr,
        })
    }

    /// The branch strategies' last step. The commits are in the repository already.
    async fn land(&self, owned: &Owned, accepted: &Accepted) -> Result<Landing, CollectError> {
        let record = &owned.record;
        match (&record.strategy, &record.branch) {
            (Strategy::Head, _) | (_, None) => {
                let head = match &record.branch {
                    Some(name) => Head::Branch {
                        name: name.clone(),
                        commit: record.base.clone(),
                    },
                    None => Head::Detached {
                        commit: record.base.clone(),
                    },
                };
                let state = owned.directory();
                Ok(self.told(land::head(self.repo, &head, accepted, state, self.cancel).await?))
            }
            (Strategy::Branch, Some(branch)) => self.land_on_branch(owned, branch, accepted).await,
            (Strategy::MergeToHead { target }, Some(branch)) => {
                match self.land_on_branch(owned, branch, accepted).await? {
                    Landing::Landed { .. } => {}
                    other => return Ok(other),
                }
                let start = Head::Branch {
                    name: target.clone(),
                    commit: record.base.clone(),
                };
                let target = land::Target {
                    start: &start,
                    source: Some(branch),
                    identity: self.author,
                    message: &merge_message(branch, target),
                };
                let incoming = Incoming::from(accepted);
                let landed = land::merge_to_head(
                    self.repo,
                    &target,
                    &incoming,
                    owned.directory(),
                    self.cancel,
                );
                Ok(self.told(landed.await?))
            }
        }
    }

    /// Passes on what the user should know about a landing in his checkout.
    fn told(&self, landed: Landed) -> Landing {
        if !landed.changed_outside.is_empty() {
            let files = landed.changed_outside.join(", ");
            let text = format!("changed outside of the sandbox too, and left as they are: {files}");
            self.events.notice(Notice::Other { text });
        }
        landed.landing
    }

    async fn land_on_branch(
        &self,
        owned: &Owned,
        branch: &BranchName,
        accepted: &Accepted,
    ) -> Result<Landing, CollectError> {
        let record = &owned.record;
        let worktree = record.worktree.as_deref().filter(|path| path.is_dir());
        // In copy mode no worktree was made, so a branch of ours was not either.
        let old = (record.worktree.is_some() || !record.branch_is_ours).then_some(&record.base);
        let landing = land::branch(self.repo, branch, old, worktree, accepted, self.cancel).await?;
        if let (Landing::Landed { tip, .. }, Some(path)) = (&landing, worktree) {
            let found = Worktree::find(self.repo, path, branch.clone(), record.base.clone())?;
            worktree::advance_index(self.repo, &found, tip, self.cancel).await?;
        }
        Ok(landing)
    }

    /// Whether a private copy holds uncommitted work, asked of its own git in a jail. A copy that
    /// cannot be asked counts as dirty.
    async fn copy_is_dirty(&self, owned: &Owned) -> bool {
        let mut mounts = jail_mounts(owned.directory());
        mounts.push(crate::sandbox::Mount {
            source: crate::sandbox::MountSource::Path(owned.directory().join("work")),
            target: "/workspace/copy".into(),
            access: crate::sandbox::Access::ReadOnly,
        });
        let request = JailRequest {
            mounts,
            arguments: ["git", "status", "--porcelain", "--ignore-submodules=all"]
                .map(Into::into)
                .to_vec(),
            environment: [
                ("GIT_DIR", INSIDE_GIT_DIR),
                ("GIT_WORK_TREE", "/workspace/copy"),
                ("GIT_OPTIONAL_LOCKS", "0"),
                ("GIT_CONFIG_NOSYSTEM", "1"),
            ]
            .map(|(key, value)| (key.into(), value.into()))
            .into(),
            directory: "/workspace/copy".into(),
            stdin: Vec::new(),
            stdout: JailOutput::Capture(1 << 20),
            limits: Limits {
                processes: Some(256),
                ..Limits::default()
            },
            timeout: Duration::from_secs(60),
        };
        match jail::run(request, self.cancel).await {
            Ok(done) => !done.exit.success() || !done.stdout.is_empty(),
            Err(_) => true,
        }
    }
}

/// Where an agent's work ended.
#[derive(Debug)]
struct Tips {
    /// The sandbox's own branch, if it moved.
    own: Option<Oid>,
    /// What is checked out in the sandbox.
    head: Option<Oid>,
    /// Names (printable, without `refs/heads/`) and commits, HEAD first.
    all: Vec<(String, Oid)>,
}

/// The name of a HEAD that is on no branch.
const DETACHED: &str = "a detached HEAD";

/// The message of a merge commit.
pub(super) fn merge_message(source: &BranchName, target: &BranchName) -> String {
    format!("Merge branch '{source}' into {target}")
}

/// The commits from `base` (exclusive) to `tip`, newest last.
pub(super) async fn commits_between(
    repo: &Repository,
    base: &Oid,
    tip: &Oid,
    cancel: &CancellationToken,
) -> Result<Vec<CommitLine>, GitError> {
    let done = repo
        .command()
        .args([
            "log",
            "-z",
            "--reverse",
            "--no-mailmap",
            "--format=%H %s",
            "--end-of-options",
        ])
        .arg(format!("{base}..{tip}"))
        .run(cancel)
        .await?;
    let lines = done.stdout.split(|&b| b == 0).filter_map(|line| {
        let line = String::from_utf8_lossy(line);
        let (id, subject) = line.split_once(' ')?;
        Some(CommitLine {
            id: id.parse().ok()?,
            subject: subject.to_owned(),
        })
    });
    Ok(lines.collect())
}

fn cut_off(error: &CollectError) -> bool {
    let pipe = Exit::Signal(libc::SIGPIPE);
    matches!(error, CollectError::Pack { exit, .. } if *exit == pipe)
}
