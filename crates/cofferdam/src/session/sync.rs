//! A sandbox has what the user's configuration says: files and variables, and the commands that come after them. What was brought is
//! remembered in the state directory, which nobody inside can write.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::configured::{effective, plain};
use super::emitter::Emitter;
use super::event::{Event, Notice, millis};
use super::hook_point::HookPoint;
use super::hooks;
use super::inside::AGENT_HOME;
use super::looking::Looking;
use super::options::Caller;
use super::unsynced::SyncError;
use crate::config::{Effective, Merged, Problem, Source, SyncHook};
use crate::fsx;
use crate::git::Repository;
use crate::registry::ExtraMount;
use crate::sandbox::Sandbox;
use crate::sync::manifest::{self, Manifest};
use crate::sync::{Places, Wanted, deliver, gather, variables};

/// In the state directory: what was brought, and the digest of it.
const MANIFEST: &str = "sync.manifest";
const DONE: &str = "sync.json";
const LONGEST: u64 = 1 << 30;

/// Milliseconds between two words on how far the files are.
const NEWS: u64 = 250;

/// Of a command that wants to be root.
pub(super) const NO_ROOT: &str = "nobody in this sandbox is root, and the command is left out";

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
    pub hooks: usize,
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
    InForce { closed: u64 },
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
        } = effective(self.caller, self.repository).await;
        let own = self.caller.home.config();
        let is_told = |problem: &Problem| matches!(problem, Problem::Config(error) if self.told && error.path() == own);
        for problem in problems.iter().filter(|problem| !is_told(problem)) {
            let text = problem.to_string();
            self.events.notice(Notice::NotSynced { text });
        }
        if !waiting.is_empty() {
            let asked = waiting.len();
            self.events.notice(Notice::NotApproved { asked });
        }
        let cancel = &self.caller.cancel;
        let known = self.known();
        let (mut wanted, mut is) = self.look(&config, &known).await?;
        for complaint in std::mem::take(&mut wanted.complaints) {
            self.events.notice(Notice::NotSynced {
                text: complaint.to_string(),
            });
        }
        if wanted.items.is_empty() && config.on_sync.is_empty() && known.entries.is_empty() {
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
        let digest = manifest::digest(&is, &commands, &variables, &rules);
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
        let hooks = self.hooks(&config, cancel).await?;
        if !delivered.is_unfinished {
            let life = self.life;
            let done = serde_json::json!(Done { digest, life }).to_string();
            fsx::write_private(&self.state.join(DONE), done.as_bytes())?;
        }
        Ok(Synced {
            files: delivered.sent,
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
    ) -> Result<(Wanted, Manifest), SyncError> {
        let looking = Looking {
            caller: self.caller,
            top: self.repository.top.as_path(),
            workdir: self.workdir,
            given: self.environment,
            mounts: self.mounts,
        };
        let known = known.clone();
        let look = move |config: &Merged, places: Places<'_>| {
            let mut wanted = gather(config, places, |path| known.entries.contains_key(path));
            let is = manifest::of(&mut wanted, &known);
            (wanted, is)
        };
        tokio::select! {
            () = self.caller.cancel.cancelled() => Err(SyncError::Cancelled),
            looked = looking.look(config, look) => Ok(looked?),
        }
    }

    /// One after the other; the first that fails is the last (S1-106 to S1-111). How many were run.
    async fn hooks(&self, config: &Merged, cancel: &CancellationToken) -> Result<usize, SyncError> {
        let mut run = 0;
        let plain = plain(config);
        for one in &config.on_sync {
            if one.value.root {
                let file = one.source.file();
                let text = format!("`on_sync` of {file} at line {}: {NO_ROOT}", one.line);
                self.events.notice(Notice::NotSynced { text });
                continue;
            }
            let inside = hooks::InSandbox {
                point: HookPoint::OnSync,
                sandbox: self.sandbox,
                directory: Some(AGENT_HOME.as_ref()),
                environment: match one.source {
                    Source::Global => self.environment,
                    Source::Repository => &plain,
                },
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
