//! `gate.checks` of the configuration: a branch moves once these commands succeed in a new sandbox that has the commits' files and nothing
//! else: no network, no variables, no files of the user's (docs/decisions/0015-checks.md).

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::configured::effective;
use super::dispose::{self, Disposal};
use super::emitter::Emitter;
use super::error::RunErrorKind;
use super::event::{Event, EventSink, Notice};
use super::hook_point::HookPoint;
use super::hooks::{HookError, InSandbox};
use super::judge::Judge;
use super::network_options::NetworkOptions;
use super::options::{Caller, SessionOptions};
use super::passed::Passed;
use super::plan::{self, Plan, PlanError};
use super::prepare::{self, Making, Ready};
use crate::config::{Effective, Merged, named_files};
use crate::fsx::Context;
use crate::git::land::{Landing, UNCHECKED};
use crate::git::{InTree, Oid, Repository, UserRules};
use crate::names::SandboxId;
use crate::registry::{Mode, Outcome, Owned, Record};
use crate::sandbox::{
    self, Ability, BindMount, BindMountProvider, BranchStrategy, Contained, Limits, SandboxError,
};

/// The longest that one command takes.
const LIMIT: Duration = Duration::from_hours(1);
/// The most commands that there is time for.
const MOST: u32 = 16;

/// Tries commits as the configuration says: see [`Judge`].
#[derive(Debug, Clone)]
pub struct Checks {
    caller: Caller,
    like: Option<Like>,
}

/// How their sandboxes are made.
#[derive(Debug, Clone)]
struct Like {
    provider: Arc<dyn BindMountProvider>,
    limits: Limits,
}

impl Checks {
    /// In sandboxes of the provider that made the one whose commits they are, where it is one of this crate's, with the usual limits.
    pub fn new(caller: Caller) -> Self {
        Self { caller, like: None }
    }

    /// In sandboxes like the one that a session has.
    pub(super) fn like(caller: &Caller, options: &SessionOptions) -> Self {
        let provider = match &options.sandbox {
            Contained::BindMount(kind) => Some(Arc::clone(&kind.provider)),
            Contained::PrivateCopy(kind) => Some(Arc::clone(&kind.provider)),
            Contained::Isolated(_) => None,
        };
        Self {
            caller: caller.clone(),
            like: provider.map(|provider| Like {
                provider,
                limits: options.limits.clone(),
            }),
        }
    }

    fn as_of(&self, record: &Record) -> Result<Like, SandboxError> {
        if let Some(like) = &self.like {
            return Ok(like.clone());
        }
        // Whoever has files of its own inside mounts none.
        if record.mode == Mode::Inside {
            return Err(SandboxError::Unable {
                who: format!("the provider `{}`", record.provider),
                ability: Ability::Mount,
            });
        }
        let place = self.caller.home.sandbox(record.id);
        Ok(Like {
            provider: sandbox::provider_of(&record.provider, &place)?,
            limits: Limits::default(),
        })
    }

    async fn attempt(
        &self,
        repo: &Repository,
        config: &Merged,
        (record, tip): (&Record, &Oid),
    ) -> Result<(), Failed> {
        let Like { provider, limits } = self.as_of(record)?;
        for check in &config.checks {
            let label = check.value.label();
            let command = &check.value.command;
            if let Some(path) = self.replaced(repo, command, tip).await? {
                let label = label.to_owned();
                return Err(Failed::Replaced { label, path });
            }
        }
        let id = SandboxId::random().context("get random numbers", Path::new("/dev/urandom"))?;
        let name = format!("check-{:.8}", id.to_string());
        let strategy = BranchStrategy::Branch {
            branch: format!("cofferdam/{name}")
                .parse()
                .map_err(PlanError::from)?,
            base: Some(tip.to_string()),
        };
        let sandbox = BindMount::or_layers(provider, strategy);
        let mut options = SessionOptions::new(repo.top.as_path(), sandbox);
        options.name = Some(name);
        options.network = NetworkOptions::None;
        options.limits = limits;
        let plan = plan::plan(&self.caller, &options).await?;
        let passed = self.passed(repo, config, &plan.record, tip).await?;
        let known = self.caller.home.passed();
        if passed
            .as_ref()
            .is_some_and(|passed| passed.is_known(&known))
        {
            return Ok(());
        }
        let owned = Owned::create(&self.caller.home, plan.record.clone())?;
        Box::pin(self.within(&options, &plan, owned, config)).await?;
        if let Some(passed) = passed {
            passed.remember(&known);
        }
        Ok(())
    }

    /// None: another image may be behind the same name tomorrow.
    async fn passed(
        &self,
        repo: &Repository,
        config: &Merged,
        record: &Record,
        tip: &Oid,
    ) -> Result<Option<Passed>, RunErrorKind> {
        let image = record.image.as_deref().unwrap_or_default();
        if !image.is_empty() && !image.contains("@sha256:") {
            return Ok(None);
        }
        let tree = repo.tree_of(tip, &self.caller.cancel).await?;
        let commands = config.checks.iter().map(|one| one.value.command.as_str());
        Ok(Some(Passed::new(
            &tree,
            &[&record.provider, image],
            commands,
        )))
    }

    /// Makes the sandbox, runs the commands, and leaves nothing of it.
    async fn within(
        &self,
        options: &SessionOptions,
        plan: &Plan,
        mut owned: Owned,
        config: &Merged,
    ) -> Result<(), Failed> {
        let caller = &self.caller;
        let events = Emitter::sink(commands_alone(&caller.events));
        let making = Making {
            caller,
            options,
            plan,
            events: &events,
            announce: &|_| Vec::new(),
            agent: None,
            login: None,
            environment: &BTreeMap::new(),
            lives_on: false,
            bare: true,
        };
        let mut ready = None;
        let made = prepare::or_cancel(&making, &mut owned, &mut ready).await;
        let done = match (made, &ready) {
            (Ok(_), Some(ready)) => self.commands(ready, config, &events).await,
            (Ok(_), None) => Err(SandboxError::Start("no sandbox".into()).into()),
            (Err(error), _) => Err(error.into()),
        };
        if let Some(ready) = &ready {
            let closed = ready.sandbox().close();
            let _ = tokio::time::timeout(options.timeouts.close, closed).await;
        }
        let disposal = Disposal {
            home: &caller.home,
            repo: &plan.repository,
            // What the commands have left is nobody's work.
            outcome: Outcome {
                landing: Landing::Nothing,
                checkout: None,
                copy_is_dirty: false,
                beside: None,
                keeps_repository: false,
                took_work: false,
                no_agent: true,
            },
            rules: UserRules {
                config: Some(&plan.config),
                caller_home: caller.user_home.as_deref(),
            },
            cancel: &caller.abandon,
        };
        // What stays of it is cleared by `gc`.
        let _ = dispose::dispose(owned, &disposal).await;
        done
    }

    /// One after the other; the first that fails is the last.
    async fn commands(
        &self,
        ready: &Ready,
        config: &Merged,
        events: &Emitter,
    ) -> Result<(), Failed> {
        let none = BTreeMap::new();
        for check in &config.checks {
            let inside = InSandbox {
                point: HookPoint::Check,
                sandbox: ready.sandbox(),
                directory: None,
                environment: &none,
                events,
            };
            let (command, label) = (&check.value.command, check.value.label());
            let cancel = &self.caller.cancel;
            inside.configured(command, label, LIMIT, cancel).await?;
        }
        Ok(())
    }

    /// A file that the command names, and that is not in the commits as it is in the checkout: what decides about commits is not theirs.
    async fn replaced(
        &self,
        repo: &Repository,
        command: &str,
        tip: &Oid,
    ) -> Result<Option<String>, RunErrorKind> {
        let top = repo.top.as_path();
        for path in named_files(top, command).into_keys() {
            let found = repo.look_up(tip, Path::new(&path), &self.caller.cancel);
            let InTree::Blob(theirs) = found.await? else {
                return Ok(Some(path));
            };
            let ours = File::open(top.join(&path)).and_then(|mut file| {
                let length = file.metadata()?.len();
                Oid::of_blob(repo.format, length, &mut file)
            });
            if !ours.is_ok_and(|ours| ours == theirs) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }
}

#[async_trait]
impl Judge for Checks {
    async fn judge(&self, repo: &Repository, record: &Record, tip: &Oid) -> Result<(), String> {
        let Effective {
            config, waiting, ..
        } = effective(&self.caller, repo).await;
        let asked = waiting.iter().filter(|one| one.is_check()).count();
        if asked > 0 {
            let notice = Notice::ChecksNotApproved { asked };
            self.caller.events.emit(&Event::Notice(notice));
        }
        if config.checks.is_empty() {
            return Ok(());
        }
        self.caller.events.emit(&Event::Step { step: "checks" });
        let done = Box::pin(self.attempt(repo, &config, (record, tip))).await;
        done.map_err(|error| format!("{error}; {UNCHECKED}"))
    }

    fn limit(&self) -> Duration {
        LIMIT * MOST
    }
}

/// Why commits are not merged.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("the check `{}` failed: {}", .0.command, .0.reason.lines().next().unwrap_or_default())]
    Command(HookError),
    #[error(
        "`{path}`, which the check `{label}` runs, is not in the commits as it is in your checkout"
    )]
    Replaced { label: String, path: String },
    #[error("they were not checked: {0}")]
    Made(RunErrorKind),
}

impl<T: Into<RunErrorKind>> From<T> for Failed {
    fn from(error: T) -> Self {
        match error.into() {
            RunErrorKind::Hook(error) if error.point == HookPoint::Check => Self::Command(error),
            error => Self::Made(error),
        }
    }
}

/// The steps of a second sandbox would look like those of the first one.
fn commands_alone(events: &EventSink) -> EventSink {
    let events = events.clone();
    EventSink::new(move |event| {
        let told = matches!(
            event,
            Event::HookStarted { .. } | Event::HookOutput { .. } | Event::HookFinished { .. }
        );
        if told {
            events.emit(event);
        }
    })
}
