//! Prepare: what an agent needs, made in the order of the design: before-ref, worktree, copies,
//! host hooks, private clone, sandbox, ready hooks. The record is written before each thing that
//! outlives a `kill -9`, so that whoever comes next can dispose of it.

mod before;
mod on_host;
mod start;
mod worktree;

pub(super) use before::record_again;
pub(super) use start::programs;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cofferdam_guest::protocol::UNFINISHED_RENAME;
use tokio::sync::oneshot::{self, Sender};

use super::emitter::Emitter;
use super::error::{RunErrorKind, step};
use super::event::{Event, Notice};
use super::hook_point::HookPoint;
use super::hooks::HookError;
use super::login::Login;
use super::mounts::{GitPlace, Workspace};
use super::options::{Caller, SessionOptions};
use super::plan::{Plan, PlanError};
use super::protect::Protection;
use super::set_up::set_up;
use super::sync::{SyncMode, Syncing};
use super::{
    appearing, elsewhere, hide, hooks, layers, protect, shared, shelf, shells, submodules, watched,
};
use crate::agent::AgentProvider;
use crate::fsx::{self, Context};
use crate::git::appearing::Watch;
use crate::git::index::{self, Owner};
use crate::git::nested::{self, Found};
use crate::git::own_files;
use crate::git::private_clone::{IndexFile, PrivateClone, PrivateCloneSpec};
use crate::git::vault::Vault;
use crate::git::walked::{IndexAt, Walked};
use crate::git::worktree::Worktree;
use crate::git::{InTree, Repository, UserRules};
use crate::registry::{Mode, Owned, Phase, Record, Strategy, written};
use crate::sandbox::{IsolatedSandbox, Sandbox, SandboxError};

/// How long a cancelled step may take to clean up after itself.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// A sandbox that is up, its workspace in place.
#[derive(Debug, Clone)]
pub(super) enum Ready {
    Mounted(Arc<dyn Sandbox>),
    Isolated(Arc<dyn IsolatedSandbox>),
}

impl Ready {
    pub(super) fn sandbox(&self) -> &dyn Sandbox {
        match self {
            Self::Mounted(sandbox) => sandbox.as_ref(),
            Self::Isolated(sandbox) => sandbox.as_ref(),
        }
    }
}

/// What a sandbox is made from.
pub(super) struct Making<'a> {
    pub caller: &'a Caller,
    pub options: &'a SessionOptions,
    pub plan: &'a Plan,
    pub events: &'a Emitter,
    /// The first events, which tell how many uncommitted paths of the user's the agent will share.
    pub announce: &'a (dyn Fn(usize) -> Vec<Event> + Sync),
    /// Whose program is made visible, where it is known.
    pub agent: Option<&'a dyn AgentProvider>,
    pub login: Option<&'a Login>,
    /// Of the programs that are started inside.
    pub environment: &'a BTreeMap<OsString, OsString>,
    /// Whether the sandbox outlives this process.
    pub lives_on: bool,
    /// Nothing of the configuration's goes in, no files and no commands, and these paths of the workspace are read-only.
    pub bare: Option<&'a [PathBuf]>,
}

impl Making<'_> {
    /// Brings the sandbox up, and returns what is to be watched while an agent works. On an error, what was made is
    /// described by `owned`'s record.
    pub(super) async fn prepare(
        &self,
        owned: &mut Owned,
        slot: &mut Option<Ready>,
    ) -> Result<Option<Watch>, RunErrorKind> {
        let cancel = &self.caller.cancel;
        if self.options.on_host {
            self.prepare_on_host(owned, slot).await?;
            return Ok(None);
        }
        let scratch = owned.directory().join("scratch-before");
        let watch = if self.options.hooks.host_worktree_ready.is_empty() {
            // Nothing changes the user's files before the agent starts: looking for uncommitted work
            // and starting the sandbox can overlap.
            let (tell, walk) = oneshot::channel();
            let made = tokio::try_join!(
                self.record_before(scratch, Some(walk)),
                self.make(owned, slot, Some(tell))
            );
            made?.1
        } else {
            self.record_before(scratch, None).await?;
            self.make(owned, slot, None).await?
        };
        let Some(ready) = slot else {
            return Err(SandboxError::Start("no sandbox".into()).into());
        };
        if let Some(login) = self.login {
            login
                .give(ready.sandbox(), self.environment, cancel)
                .await?;
        }
        if self.bare.is_some() {
            return Ok(watch);
        }
        if !self.lives_on {
            let given = shells::give(ready.sandbox()).await?;
            for complaint in &given.complaints {
                let text = complaint.to_string();
                self.events.notice(Notice::NotSynced { text });
            }
        }
        let syncing = Syncing {
            caller: self.caller,
            repository: &self.plan.repository,
            state: owned.directory(),
            workdir: &self.plan.workdir,
            mounts: &self.plan.record.mounts,
            sandbox: ready.sandbox(),
            record: &owned.record,
            environment: self.environment,
            events: self.events,
            life: 1,
            told: true,
        };
        syncing.run(SyncMode::IfChanged).await?;
        self.set_up(ready.sandbox()).await?;
        let workspace = owned.record.workspace(&self.caller.home);
        let (host, inside) = tokio::join!(
            hooks::on_host(
                HookPoint::HostSandboxReady,
                &self.options.hooks.host_sandbox_ready,
                &workspace,
                &self.caller.environment,
                self.events,
                cancel,
            ),
            hooks::in_sandbox(
                &self.options.hooks.sandbox_ready,
                ready.sandbox(),
                self.environment,
                self.events,
                cancel
            )
        );
        host?;
        inside?;
        Ok(watch)
    }

    /// The files of the commit that tell of others which are elsewhere.
    async fn told_by_the_commit(&self) -> Result<BTreeMap<PathBuf, Vec<u8>>, RunErrorKind> {
        let (repo, base) = (&self.plan.repository, &self.plan.record.base);
        let cancel = &self.caller.cancel;
        let mut found = BTreeMap::new();
        for name in elsewhere::FILES.map(PathBuf::from) {
            if let InTree::Blob(id) = repo.look_up(base, &name, cancel).await? {
                let content = repo.content(&id, cancel).await?;
                if content.len() as u64 <= elsewhere::LONGEST {
                    found.insert(name, content);
                }
            }
        }
        Ok(found)
    }

    /// Runs `setup` of the configuration.
    async fn set_up(&self, sandbox: &dyn Sandbox) -> Result<(), HookError> {
        let Some(setup) = &self.plan.setup else {
            return Ok(());
        };
        let cancel = &self.caller.cancel;
        set_up(setup, sandbox, self.environment, self.events, cancel).await
    }

    /// Everything from the vault to a running sandbox. Returns what is to be watched while an agent works. `tell`: what is
    /// found of the files of a checkout that the agent shares.
    async fn make(
        &self,
        owned: &mut Owned,
        slot: &mut Option<Ready>,
        tell: Option<Sender<Option<Walked>>>,
    ) -> Result<Option<Watch>, RunErrorKind> {
        let cancel = &self.caller.cancel;
        let state = owned.directory().to_owned();
        let vault = Vault::open(&self.caller.home, &self.plan.repository)?;
        let (exported, stack) = tokio::try_join!(
            async {
                Ok(vault
                    .export(&self.plan.repository, &self.plan.record.base, cancel)
                    .await?)
            },
            self.make_worktree(owned)
        )?;
        let workspace = owned.record.workspace(&self.caller.home);
        let git = git_place(owned.record.mode, &workspace)?;
        hooks::on_host(
            HookPoint::WorktreeReady,
            &self.options.hooks.host_worktree_ready,
            &workspace,
            &self.caller.environment,
            self.events,
            cancel,
        )
        .await?;

        self.events.emit(&Event::Step {
            step: "private clone",
        });
        let scratch = state.join("scratch");
        let hidden = hidden_paths(&owned.record);
        let seen = seen_from(owned, &self.plan.repository)?;
        if owned.record.mode == Mode::Bind {
            owned.held = crate::git::occupy(&seen.git_dir, cancel).await?;
        }
        let branch = owned.record.branch.as_ref();
        let clone = async {
            let base = &self.plan.record.base;
            let made = match &stack {
                // It fits all that is there.
                Some(_) if hidden.is_empty() => None,
                Some(stack) => Some(layers::index(&state, &seen, stack, &hidden)?),
                None => {
                    let made = index::build(&seen, base, Owner::AGENT, &hidden, &scratch, cancel);
                    Some(made.await.map_err(step("index"))?)
                }
            };
            let index = match (&made, &stack) {
                (Some(made), _) => Some(IndexFile::Bytes(&made.bytes)),
                (None, Some(stack)) => Some(IndexFile::Copy(&stack.index)),
                (None, None) => None,
            };
            let clone = PrivateClone::create(&PrivateCloneSpec {
                directory: &state,
                repo: &self.plan.repository,
                export: &exported,
                branch,
                identity: Some(&self.plan.author),
                config: &self.plan.config,
                pushes: owned.record.dev.is_some(),
                index,
            })?;
            clone.exclude(&hidden)?;
            if stack.is_some() {
                clone.exclude_names(UNFINISHED_RENAME)?;
            }
            if owned.record.mode.owns_files() {
                layers::keep_rules(&state, owned.record.mode, &clone)?;
            }
            let made = made.map(|made| (made.gitlinks, made.hidden));
            Ok::<_, RunErrorKind>(made.unwrap_or_default())
        };
        // Both grow with the number of files; they share nothing.
        // A worktree that was just made has only new files; a hook of the user's may have linked others to it.
        let shared = owned.record.mode == Mode::Bind
            && (owned.record.worktree.is_none()
                || !self.options.hooks.host_worktree_ready.is_empty());
        let index = tell.as_ref().map(|_| IndexAt {
            path: seen.git_dir.join("index"),
            format: seen.format,
        });
        let nested = async {
            let index = index.filter(|_| owned.record.strategy == Strategy::Head);
            let mut found = nested_git(owned.record.mode, &workspace, shared, index).await?;
            if let Some(tell) = tell {
                let _ = tell.send(found.walked.take());
            }
            Ok(found)
        };
        let ((gitlinks, mut tracked), found) = tokio::try_join!(clone, nested)?;
        let (submodules, covered) = if owned.record.mode == Mode::Bind {
            let place = submodules::Where {
                home: &self.caller.home,
                state: &state,
                comparing: &self.plan.config.comparing,
                hidden: &hidden,
            };
            let submodules = place.prepare(&seen, &self.plan.record.base, &gitlinks, cancel);
            let covered = hide::cover::<RunErrorKind>(&state, &workspace, &hidden)?;
            let submodules = submodules.await?;
            tracked.extend(submodules.tracked);
            (submodules.shown, covered)
        } else {
            (Vec::new(), Vec::new())
        };
        for notice in hide::limits(&workspace, &covered, tracked)
            .into_iter()
            .chain(submodules::notice(&submodules))
        {
            self.events.notice(notice);
        }
        if owned.record.mode.owns_files() {
            // A copy has no files yet.
            let copied = match &stack {
                Some(_) => BTreeMap::new(),
                None => self.told_by_the_commit().await?,
            };
            let read = |name: &Path| match &stack {
                Some(stack) => layers::content_at_top(stack, name, elsewhere::LONGEST),
                None => copied.get(name).cloned(),
            };
            for notice in elsewhere::notices(read) {
                self.events.notice(notice);
            }
        }
        let home = self.caller.user_home.as_deref();
        let steering = self
            .plan
            .config
            .steering
            .in_tree(&self.plan.repository, home, &workspace);
        let protection = Protection {
            known: gitlinks,
            before: found.git,
            named: owned.record.protected.clone(),
            steering,
        };
        let home = &self.caller.home;
        let mut read_only = protect::protect::<RunErrorKind>(owned, home, protection, self.events)?;
        // Nobody inside puts anything there, and what is above it may be written.
        let is_ours = |path: &PathBuf| {
            path == Path::new(own_files::DIRECTORY)
                || read_only.iter().any(|above| path.starts_with(above))
        };
        let made = owned.record.made_directories.iter().map(PathBuf::from);
        PrivateClone::at(&state).exclude(&made.filter(is_ours).collect::<Vec<_>>())?;
        let named = self.bare.unwrap_or_default().iter();
        let there = |path: &&PathBuf| match &stack {
            Some(stack) => layers::has_file(stack, path),
            None => hide::is_there(&workspace, path),
        };
        read_only.extend(named.filter(there).cloned());
        let frozen = shared::freeze(&workspace, &found.inodes, self.events)?;
        shared::cover_doors::<RunErrorKind>(&state, &workspace, &found.doors)?;
        if shared {
            shared::remember(&state, &found.inodes)?;
        }

        let on_branch = owned.record.dev.as_ref().and_then(|of| of.branch.as_ref());
        if let Some(branch) = on_branch.filter(|_| !self.options.only_asked) {
            let shelved =
                Box::pin(shelf::provision(self.caller, &self.plan.repository, branch)).await;
            let shelved = shelved.map_err(step("shelf"))?;
            if let Some(text) = shelved.newness(branch) {
                self.events.notice(Notice::Other { text });
            }
        }

        // From here on an agent or a hook may have made commits and files.
        written::remember(&self.caller.home, &owned.record)?;
        owned.set_phase(Phase::Active)?;
        let layered = match stack {
            Some(_) => Some(layers::source(&state)?),
            None => None,
        };
        let place = Workspace {
            source: &workspace,
            layers: layered.as_ref(),
            target: &self.plan.workdir,
            state: owned.directory(),
            git,
            mask_config: owned.record.mode == Mode::Bind,
            read_only: &read_only,
            frozen: &frozen,
            doors: &found.doors,
            submodules: &submodules,
            hidden: &covered,
            shared,
        };
        self.start(owned, &place, slot).await?;
        // In other worktrees nobody but their agent is.
        if owned.record.strategy != Strategy::Head {
            return Ok(None);
        }
        if self.lives_on {
            // By a process that lives as long, before anything of it is started.
            Box::pin(watched::see_to_it(self.caller, &owned.record)).await?;
            return Ok(None);
        }
        Ok(appearing::start(owned, workspace, found.directories, self.events).await)
    }

    fn rules(&self) -> UserRules<'_> {
        UserRules {
            config: Some(&self.plan.config),
            caller_home: self.caller.user_home.as_deref(),
        }
    }
}

fn hidden_paths(record: &Record) -> Vec<PathBuf> {
    record.hidden.iter().map(|path| path.0.clone()).collect()
}

/// The repository as seen from the workspace: its index has the files' stat data.
fn seen_from(owned: &Owned, repo: &Repository) -> Result<Repository, RunErrorKind> {
    match (&owned.record.worktree, &owned.record.branch) {
        (Some(path), Some(branch)) => {
            let base = owned.record.base.clone();
            Ok(Worktree::find(repo, path, branch.clone(), base)?.repository(repo)?)
        }
        _ => Ok(repo.clone()),
    }
}

/// How the workspace's `.git` is covered.
fn git_place(mode: Mode, workspace: &Path) -> Result<GitPlace, RunErrorKind> {
    let dot_git = workspace.join(".git");
    if mode != Mode::Bind {
        fsx::private_dir(&dot_git)?;
        return Ok(GitPlace::Directory);
    }
    let found = std::fs::symlink_metadata(&dot_git).context("look at", &dot_git)?;
    if found.is_symlink() {
        return Err(PlanError::GitSymlink(dot_git).into());
    }
    Ok(if found.is_dir() {
        GitPlace::Directory
    } else {
        GitPlace::Pointer
    })
}

/// What [`nested::scan_before`] finds below a workspace that is the host's.
async fn nested_git(
    mode: Mode,
    workspace: &Path,
    inodes: bool,
    index: Option<IndexAt>,
) -> Result<Found, RunErrorKind> {
    if mode != Mode::Bind {
        return Ok(Found::default());
    }
    let top = workspace.to_owned();
    let failed = step("scan for nested git directories");
    let scan = move || match index {
        Some(index) => nested::scan_compared(&top, &index),
        None => nested::scan_before(&top, inodes),
    };
    let scan = tokio::task::spawn_blocking(scan).await;
    scan.map_err(step("scan for nested git directories"))?
        .map_err(failed)
}

/// Prepares. The steps see a cancel themselves and take back what they half made; one that does not
/// within [`CANCEL_GRACE`] is dropped where it is.
pub(super) async fn or_cancel(
    making: &Making<'_>,
    owned: &mut Owned,
    ready: &mut Option<Ready>,
) -> Result<Option<Watch>, RunErrorKind> {
    // Large, and part of all that its callers await.
    let mut prepared = Box::pin(making.prepare(owned, ready));
    tokio::select! {
        done = &mut prepared => done,
        () = making.caller.cancel.cancelled() => {
            let done = tokio::time::timeout(CANCEL_GRACE, &mut prepared).await;
            done.unwrap_or(Err(RunErrorKind::Cancelled))
        }
    }
}
