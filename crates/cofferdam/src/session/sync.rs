//! A sandbox has what the user's configuration says: files and variables, and the commands that come after them. What was brought is
//! remembered in the state directory, which nobody inside can write.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::as_root::{self, AsRoot};
use super::configured::{effective, plain};
use super::emitter::Emitter;
use super::event::{Event, Notice, millis};
use super::hook_point::HookPoint;
use super::hooks;
use super::inside::AGENT_HOME;
use super::looking::Looking;
use super::options::Caller;
use super::unsynced::SyncError;
use crate::config::{Effective, Merged, Problem, Source, SyncHook, Valued};
use crate::fsx;
use crate::git::Repository;
use crate::registry::{ExtraMount, Record};
use crate::sandbox::{Sandbox, SandboxError};
use crate::sync::manifest::{self, Manifest};
use crate::sync::{Places, Wanted, deliver, gather, variables};

/// In the state directory: what was brought, and the digest of it.
const MANIFEST: &str = "sync.manifest";
const DONE: &str = "sync.json";
const LONGEST: u64 = 1 << 30;

/// Milliseconds between two words on how far the files are.
const NEWS: u64 = 250;

/// What a look at the sources finds.
#[derive(Debug, Default)]
struct Found {
    wanted: Wanted,
    is: Manifest,
    others: Vec<Others>,
}

/// Files of somebody else than the agent.
#[derive(Debug)]
struct Others {
    owner: (u32, u32),
    wanted: Wanted,
    is: Manifest,
}

/// How a sync is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// Only where something is otherwise than the last time.
    IfChanged,
    /// In any case; files that are inside as they should be do not travel again.
    Force,
    /// In any case and with all files.
    All,
}

/// What a sync did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Synced {
    /// Nothing had changed, and nothing was done.
    pub skipped: bool,
    /// How many files were brought.
    pub files: usize,
    /// How many commands ran after it.
    pub hooks: usize,
    /// What became of the network's rules.
    pub rules: RulesNow,
}

/// Which rules of the network a sandbox has after a sync.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RulesNow {
    /// Those that it began with, or none: there were none to change.
    #[default]
    Unchanged,
    /// Those that the files say; so many open connections were ended by that.
    InForce {
        /// How many connections.
        closed: u64,
    },
    /// Those that it had before, which was said.
    Kept,
}

/// As it is remembered.
#[derive(Debug, Serialize, Deserialize)]
struct Done {
    digest: String,
    /// Counts the starts of the sandbox: what was made anew has nothing of it.
    life: u32,
}

/// A sandbox and on whose behalf it is synced.
pub(super) struct Syncing<'a> {
    pub caller: &'a Caller,
    pub repository: &'a Repository,
    pub state: &'a Path,
    pub workdir: &'a Path,
    /// What it sees of this machine beside its files.
    pub mounts: &'a [ExtraMount],
    pub sandbox: &'a dyn Sandbox,
    pub record: &'a Record,
    /// Of the commands after it.
    pub environment: &'a BTreeMap<OsString, OsString>,
    pub events: &'a Emitter,
    pub life: u32,
    /// What is wrong with the user's own file was said before.
    pub told: bool,
}

impl Syncing<'_> {
    pub(super) async fn run(&self, mode: SyncMode) -> Result<Synced, SyncError> {
        let Effective {
            config,
            problems,
            waiting,
            ..
        } = effective(self.caller, &self.repository.top).await;
        let own = self.caller.home.config();
        let is_told = |problem: &Problem| matches!(problem, Problem::Config(error) if self.told && error.path() == own);
        for problem in problems.iter().filter(|problem| !is_told(problem)) {
            let text = format!("{problem}; nothing of that file counts, a `setup` neither");
            self.events.notice(Notice::NotSynced { text });
        }
        if !waiting.is_empty() {
            let asked = waiting.len();
            self.events.notice(Notice::NotApproved { asked });
        }
        let cancel = &self.caller.cancel;
        let known = self.known();
        let root = if as_root::is_wanted(&config) {
            AsRoot::of(self.record, &self.caller.home).await?
        } else {
            Err(String::new())
        };
        if root.is_ok() {
            // It knows nothing of what stands still.
            let status = self.sandbox.status().await?;
            if status.paused {
                return Err(SandboxError::Paused.into());
            } else if status.frozen {
                return Err(SandboxError::Frozen.into());
            }
        }
        let Found {
            mut wanted,
            mut is,
            others,
        } = self.look(&config, &known, root.is_ok()).await?;
        for complaint in std::mem::take(&mut wanted.complaints) {
            self.events.notice(Notice::NotSynced {
                text: complaint.to_string(),
            });
        }
        if wanted.items.is_empty()
            && others.is_empty()
            && config.on_sync.is_empty()
            && known.entries.is_empty()
        {
            return Ok(Synced {
                skipped: true,
                ..Synced::default()
            });
        }
        let rules = config
            .allow
            .iter()
            .flatten()
            .chain(&config.allow_of_repository);
        let rules: Vec<String> = rules.map(|one| one.value.to_string()).collect();
        let commands: Vec<&SyncHook> = config.on_sync.iter().map(|one| &one.value).collect();
        let variables = variables(&config, &self.caller.environment);
        let of_others: Vec<_> = others.iter().map(|one| (one.owner, &one.is)).collect();
        let digest = manifest::digest(&is, &of_others, &commands, &variables, &rules);
        if mode == SyncMode::IfChanged && self.is_done(&digest) {
            // Or what was young at the last sync would be read whole at each look.
            if let Some(bytes) = known.refreshed(&is).and_then(|known| known.write().ok()) {
                fsx::write_private(&self.state.join(MANIFEST), &bytes)?;
            }
            return Ok(Synced {
                skipped: true,
                ..Synced::default()
            });
        }
        self.events.emit(&Event::Step { step: "sync" });
        // From here on it is not as it was remembered.
        fsx::remove_file_if_exists(&self.state.join(DONE))?;
        let tell = self.telling();
        let all = mode == SyncMode::All;
        let deliver = deliver::deliver(self.sandbox, &wanted, &mut is, &known, all, &tell);
        let delivered = tokio::select! {
            () = cancel.cancelled() => return Err(SyncError::Cancelled),
            delivered = deliver => delivered?,
        };
        if let Ok(bytes) = is.write() {
            fsx::write_private(&self.state.join(MANIFEST), &bytes)?;
        }
        for complaint in &delivered.complaints {
            self.events.notice(Notice::NotSynced {
                text: complaint.to_string(),
            });
        }
        let (sent, is_unfinished) = self
            .bring_others(others, root.as_ref().ok(), cancel)
            .await?;
        let hooks = self.hooks(&config, &root, cancel).await?;
        if !delivered.is_unfinished && !is_unfinished {
            let life = self.life;
            let done = serde_json::json!(Done { digest, life }).to_string();
            fsx::write_private(&self.state.join(DONE), done.as_bytes())?;
        }
        Ok(Synced {
            files: delivered.sent + sent,
            hooks,
            ..Synced::default()
        })
    }

    /// Tells now and then how far the files are.
    fn telling(&self) -> impl Fn(usize, usize) + Send + Sync {
        let (began, next) = (Instant::now(), AtomicU64::new(NEWS));
        move |done, of| {
            let millis = millis(began);
            if millis < next.load(Ordering::Relaxed) {
                return;
            }
            next.store(millis + NEWS, Ordering::Relaxed);
            self.events.emit(&Event::Progress {
                step: "sync",
                done: done as u64,
                of: of as u64,
                millis,
            });
        }
    }

    /// Looks at the sources.
    async fn look(
        &self,
        config: &Merged,
        known: &Manifest,
        root: bool,
    ) -> Result<Found, SyncError> {
        let looking = Looking {
            caller: self.caller,
            top: self.repository.top.as_path(),
            workdir: self.workdir,
            given: self.environment,
            mounts: self.mounts,
            root,
        };
        let known = known.clone();
        let look = move |config: &Merged, places: Places<'_>| {
            let mut wanted = gather(config, places, |path| known.entries.contains_key(path));
            let mut others = Vec::new();
            for (owner, mut of_them) in wanted.take_others() {
                let is = manifest::of(&mut of_them, &Manifest::default());
                wanted.complaints.append(&mut of_them.complaints);
                others.push(Others {
                    owner,
                    wanted: of_them,
                    is,
                });
            }
            let is = manifest::of(&mut wanted, &known);
            Found { wanted, is, others }
        };
        tokio::select! {
            () = self.caller.cancel.cancelled() => Err(SyncError::Cancelled),
            looked = looking.look(config, look) => Ok(looked?),
        }
    }

    /// Files that are not the agent's: all of them, whenever something has changed. How many there are now, and whether another try
    /// may bring more.
    async fn bring_others(
        &self,
        others: Vec<Others>,
        root: Option<&AsRoot>,
        cancel: &CancellationToken,
    ) -> Result<(usize, bool), SyncError> {
        let Some(root) = root else {
            return Ok((0, false));
        };
        let (mut sent, mut is_unfinished) = (0, false);
        for Others {
            owner,
            wanted,
            mut is,
        } in others
        {
            let root = root.for_files_of(owner).await?;
            let nothing = Manifest::default();
            let tell = |_, _| {};
            let deliver = deliver::deliver(root.as_ref(), &wanted, &mut is, &nothing, true, &tell);
            let delivered = tokio::select! {
                () = cancel.cancelled() => return Err(SyncError::Cancelled),
                delivered = deliver => delivered?,
            };
            for complaint in &delivered.complaints {
                let text = complaint.to_string();
                self.events.notice(Notice::NotSynced { text });
            }
            sent += delivered.sent;
            is_unfinished |= delivered.is_unfinished;
        }
        Ok((sent, is_unfinished))
    }

    /// One after the other; the first that fails is the last (S1-106 to S1-111). How many were run.
    async fn hooks(
        &self,
        config: &Merged,
        root: &Result<AsRoot, String>,
        cancel: &CancellationToken,
    ) -> Result<usize, SyncError> {
        let mut run = 0;
        let (plain, nothing) = (plain(config), BTreeMap::new());
        let environment_of = |source| match source {
            Source::Global => self.environment,
            Source::Repository => &plain,
        };
        for one in &config.on_sync {
            let as_root = match (one.value.root, root) {
                (false, _) => None,
                (true, Ok(root)) => Some(root),
                (true, Err(why)) => {
                    self.left_out(one, why);
                    continue;
                }
            };
            if as_root.is_some() && one.source == Source::Repository {
                let named = as_root::names_written(&one.value.command);
                if let Some(place) = named {
                    let why = format!(
                        "it names {place}, where agents write, and would run what nobody has approved"
                    );
                    self.left_out(one, &why);
                    continue;
                }
            }
            let (sandbox, directory, environment) = match as_root {
                // It has variables of its own, and none that the agent's lead by.
                Some(root) => (root.sandbox.as_ref(), as_root::DIRECTORY, &nothing),
                None => (self.sandbox, AGENT_HOME, environment_of(one.source)),
            };
            let inside = hooks::InSandbox {
                point: HookPoint::OnSync,
                sandbox,
                directory: Some(directory.as_ref()),
                environment,
                events: self.events,
            };
            let command = &one.value.command;
            let label = one.value.label();
            inside
                .configured(command, label, hooks::LIMIT, cancel)
                .await?;
            run += 1;
        }
        Ok(run)
    }

    fn left_out(&self, one: &Valued<SyncHook>, why: &str) {
        let (file, line) = (one.source.file(), one.line);
        let text =
            format!("`on_sync` of {file} at line {line}: {why}, and the command is left out");
        self.events.notice(Notice::NotSynced { text });
    }

    fn known(&self) -> Manifest {
        let bytes = fsx::read_bounded(&self.state.join(MANIFEST), LONGEST);
        let known = bytes.ok().and_then(|bytes| Manifest::read(&bytes));
        known.unwrap_or_default()
    }

    fn is_done(&self, digest: &str) -> bool {
        let bytes = fsx::read_bounded(&self.state.join(DONE), LONGEST);
        let done = bytes
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Done>(&bytes).ok());
        done.is_some_and(|done| done.digest == digest && done.life == self.life)
    }
}
