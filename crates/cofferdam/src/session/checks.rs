//! `gate.checks` of the configuration: a branch moves once these commands succeed in a new sandbox that has the commits' files and nothing
//! else: no network, no variables, no files of the user's (docs/decisions/0015-checks.md).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::check_plan::CheckPlan;
use super::configured::{effective, limits_of};
use super::discard::discard;
use super::emitter::Emitter;
use super::error::RunErrorKind;
use super::event::{Event, EventSink, Notice};
use super::hook_point::HookPoint;
use super::hooks::{HookError, InSandbox};
use super::inside::{Inside, InsideError, Output};
use super::judge::Judge;
use super::network_options::NetworkOptions;
use super::options::{Caller, SessionOptions};
use super::passed::Passed;
use super::plan::{self, Plan, PlanError};
use super::prepare::{self, Making};
use crate::config::{Check, words};
use crate::fsx::Context;
use crate::git::land::{CHECKS_CANCELLED, UNCHECKED};
use crate::git::{Oid, Repository};
use crate::names::SandboxId;
use crate::registry::{Mode, Owned, Record};
use crate::sandbox::native::Native;
use crate::sandbox::{
    self, BindMount, BindMountProvider, BranchStrategy, Contained, Limits, Sandbox, SandboxError,
};
use crate::text::printable_line;

/// For the commit of the files alone: git reads nothing but the old one.
const ALONE: Duration = Duration::from_secs(60);
/// What it may print.
const SAID: usize = 64 << 10;
/// Part of what a check is known by: what it finds, beside the files.
const FINDS: &str = "one commit";

/// Tries commits as the configuration says: see [`Judge`].
#[derive(Debug, Clone)]
pub struct Checks {
    caller: Caller,
    like: Option<Like>,
}

/// What a run knows before its agent works.
#[derive(Debug, Clone)]
struct Like {
    provider: Option<Arc<dyn BindMountProvider>>,
    limits: Limits,
    plan: CheckPlan,
}

impl Checks {
    /// As the configuration says when they are asked, in sandboxes of the provider that made the one whose commits they are, where it is
    /// one of this crate's.
    pub fn new(caller: Caller) -> Self {
        Self { caller, like: None }
    }

    /// As the configuration said when a run was planned, in sandboxes like its own.
    pub(super) fn like(caller: &Caller, options: &SessionOptions, plan: &CheckPlan) -> Self {
        Self {
            caller: caller.clone(),
            like: Some(Like {
                provider: match &options.sandbox {
                    // Commands of a configuration are not for this machine itself.
                    _ if options.on_host => Some(Arc::new(Native::default())),
                    Contained::BindMount(kind) => Some(Arc::clone(&kind.provider)),
                    Contained::PrivateCopy(kind) => Some(Arc::clone(&kind.provider)),
                    Contained::Isolated(_) => None,
                },
                limits: options.limits.clone(),
                plan: plan.clone(),
            }),
        }
    }

    async fn as_of(&self, repo: &Repository, record: &Record) -> Result<Like, SandboxError> {
        if let Some(like) = &self.like {
            return Ok(like.clone());
        }
        let found = effective(&self.caller, &repo.top).await;
        let place = self.caller.home.sandbox(record.id);
        Ok(Like {
            // Whoever has files of its own inside mounts none.
            provider: match record.mode {
                Mode::Inside => None,
                _ => Some(sandbox::provider_of(&record.provider, &place)?),
            },
            limits: limits_of(&found.config),
            plan: CheckPlan::of(&found),
        })
    }

    /// See [`Judge::judge`].
    pub(super) async fn attempt(
        &self,
        repo: &Repository,
        record: &Record,
        (trusted, tip): (&Oid, &Oid),
    ) -> Result<(), Failed> {
        let Like {
            provider,
            limits,
            plan,
        } = self.as_of(repo, record).await?;
        if plan.unapproved > 0 {
            let asked = plan.unapproved;
            let notice = Notice::ChecksNotApproved { asked };
            self.caller.events.emit(&Event::Notice(notice));
        }
        if let Some(barrier) = plan.barrier {
            return Err(Failed::Barrier(barrier));
        }
        if plan.commands.is_empty() {
            return Ok(());
        }
        let Some(provider) = provider else {
            return Err(Failed::NoFiles(record.provider.clone()));
        };
        self.caller.events.emit(&Event::Step { step: "checks" });
        for check in &plan.commands {
            if let Some(path) = self.replaced(repo, &check.command, trusted, tip).await? {
                let label = check.label().to_owned();
                return Err(Failed::Replaced { label, path });
            }
        }
        for check in &plan.commands {
            let provider = Arc::clone(&provider);
            self.one(repo, check, (provider, limits.clone()), tip)
                .await?;
        }
        Ok(())
    }

    /// One command in a sandbox of its own: what another one has left there would be no part of the commits.
    async fn one(
        &self,
        repo: &Repository,
        check: &Check,
        (provider, limits): (Arc<dyn BindMountProvider>, Limits),
        tip: &Oid,
    ) -> Result<(), Failed> {
        let id = SandboxId::random().context("get random numbers", Path::new("/dev/urandom"))?;
        let name = format!("check-{:.8}", id.to_string());
        let strategy = BranchStrategy::Branch {
            branch: format!("cofferdam/{name}")
                .parse()
                .map_err(PlanError::from)?,
            base: Some(tip.to_string()),
        };
        let sandbox = BindMount::or_layers(Arc::clone(&provider), strategy);
        let mut options = SessionOptions::new(repo.top.as_path(), sandbox);
        options.name = Some(name);
        options.network = NetworkOptions::None;
        options.limits = limits;
        let mut plan = plan::plan(&self.caller, &options).await?;
        plan.record.is_check = true;
        let mut can_be_known = true;
        if let Some(image) = &plan.record.image {
            // The name may lead to another one by the time that the sandbox is made, and tomorrow.
            match provider.pinned(image).await? {
                Some(pinned) => plan.record.image = Some(pinned),
                None => can_be_known = false,
            }
        }
        let passed = if can_be_known {
            Some(self.passed(repo, check, &plan.record, tip).await?)
        } else {
            None
        };
        let known = self.caller.home.passed();
        if passed
            .as_ref()
            .is_some_and(|passed| passed.is_known(&known))
        {
            return Ok(());
        }
        let owned = Owned::create(&self.caller.home, plan.record.clone())?;
        Box::pin(self.within(&options, &plan, owned, check)).await?;
        if let Some(passed) = passed {
            passed.remember(&known);
        }
        Ok(())
    }

    async fn passed(
        &self,
        repo: &Repository,
        check: &Check,
        record: &Record,
        tip: &Oid,
    ) -> Result<Passed, RunErrorKind> {
        let image = record.image.as_deref().unwrap_or_default();
        let tree = repo.tree_of(tip, &self.caller.cancel).await?;
        let hidden = record.hidden.iter().map(|path| path.0.to_string_lossy());
        let hidden: Vec<_> = hidden.collect();
        let rest = [FINDS, &record.provider, image, &check.command];
        let rest = rest.into_iter().chain(hidden.iter().map(AsRef::as_ref));
        Ok(Passed::new(&tree, rest))
    }

    /// Makes the sandbox, runs the command, and leaves nothing of it.
    async fn within(
        &self,
        options: &SessionOptions,
        plan: &Plan,
        mut owned: Owned,
        check: &Check,
    ) -> Result<(), Failed> {
        let caller = &self.caller;
        let events = Emitter::sink(commands_alone(&caller.events));
        let none = BTreeMap::new();
        let named: Vec<PathBuf> = words(&check.command)
            .into_iter()
            .map(PathBuf::from)
            .collect();
        let making = Making {
            caller,
            options,
            plan,
            events: &events,
            announce: &|_| Vec::new(),
            agent: None,
            login: None,
            environment: &none,
            lives_on: false,
            bare: Some(&named),
        };
        let mut ready = None;
        let made = prepare::or_cancel(&making, &mut owned, &mut ready).await;
        let done = match (made, &ready) {
            (Ok(_), Some(ready)) => self.judged(ready.sandbox(), check, &events).await,
            (Ok(_), None) => Err(SandboxError::Start("no sandbox".into()).into()),
            (Err(error), _) => Err(error.into()),
        };
        discard(&making, owned, ready).await;
        if caller.cancel.is_cancelled() {
            return Err(Failed::Cancelled);
        }
        done
    }

    async fn judged(
        &self,
        sandbox: &dyn Sandbox,
        check: &Check,
        events: &Emitter,
    ) -> Result<(), Failed> {
        let caller = &self.caller;
        files_alone(sandbox, &caller.cancel).await?;
        let inside = InSandbox {
            point: HookPoint::Check,
            sandbox,
            directory: None,
            environment: &BTreeMap::new(),
            events,
        };
        let (command, label) = (&check.command, check.label());
        let done = inside
            .configured(command, label, caller.check_limit, &caller.cancel)
            .await;
        done.map_err(Failed::from)
    }

    /// A file that the command names, and that the commits have otherwise than the user does: what decides about commits is not theirs.
    async fn replaced(
        &self,
        repo: &Repository,
        command: &str,
        trusted: &Oid,
        tip: &Oid,
    ) -> Result<Option<String>, RunErrorKind> {
        let words: Vec<String> = words(command).into_iter().collect();
        let places: Vec<_> = (words.iter())
            .flat_map(|path| [(tip, Path::new(path)), (trusted, Path::new(path))])
            .collect();
        let found = repo.look_up_all(&places, &self.caller.cancel).await?;
        let mut pairs = words.into_iter().zip(found.chunks(2));
        Ok(pairs
            .find(|(_, pair)| pair.first() != pair.last())
            .map(|(path, _)| path))
    }
}

#[async_trait]
impl Judge for Checks {
    async fn judge(
        &self,
        repo: &Repository,
        record: &Record,
        trusted: &Oid,
        tip: &Oid,
    ) -> Result<(), String> {
        let done = Box::pin(self.attempt(repo, record, (trusted, tip))).await;
        done.map_err(|error| match error {
            Failed::Cancelled => CHECKS_CANCELLED.to_owned(),
            error => format!("{error}; {UNCHECKED}"),
        })
    }
}

/// What the check that failed last has printed, for whoever does not listen while it runs.
#[derive(Debug, Default)]
pub(super) struct FailedCheck(Arc<Mutex<Option<String>>>);

impl FailedCheck {
    /// A sink that hears it too.
    pub(super) fn beside(&self, sink: &EventSink) -> EventSink {
        let (heard, sink) = (Arc::clone(&self.0), sink.clone());
        EventSink::new(move |event| {
            if let Event::HookFinished {
                point: HookPoint::Check,
                exit,
                output,
                ..
            } = event
                && !exit.success()
            {
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                *heard = Some(output.clone());
            }
            sink.emit(event);
        })
    }

    pub(super) fn output(&self) -> Option<String> {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.clone()
    }
}

/// Why commits are not merged.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error("the check `{}` failed: {}", .0.command, .0.reason.lines().next().unwrap_or_default())]
    Command(HookError),
    #[error("`{path}`, which the check `{label}` names, is another file in the commits")]
    Replaced { label: String, path: String },
    #[error("{0}")]
    Barrier(String),
    #[error("they were not checked: the provider `{0}` mounts no files")]
    NoFiles(String),
    #[error("cancelled")]
    Cancelled,
    #[error("they were not checked: {0}")]
    Made(RunErrorKind),
    /// In the words of git, safe for a terminal.
    #[error("they were not checked: no commit of the files alone could be made: {0}")]
    Unmade(String),
}

impl Failed {
    /// The first lines and the last ones of what the command has printed.
    pub(super) fn printed(&self) -> impl Iterator<Item = &str> {
        let reason = match self {
            Self::Command(error) => error.reason.as_str(),
            _ => "",
        };
        // How it ended is the first one.
        reason.lines().skip(1)
    }
}

impl<T: Into<RunErrorKind>> From<T> for Failed {
    fn from(error: T) -> Self {
        match error.into() {
            RunErrorKind::Hook(error) if error.point == HookPoint::Check => Self::Command(error),
            error => Self::Made(error),
        }
    }
}

/// What passed is known by its files, so a command finds nothing else: their commit has no parent, and always the same message, author and
/// time, and no log names another. An image without git has no command that looks at one. Who looks through all objects finds others.
async fn files_alone(sandbox: &dyn Sandbox, cancel: &CancellationToken) -> Result<(), Failed> {
    let script = "command -v git >/dev/null || exit 0\n\
        alone=$(git commit-tree -m 'The files that are checked' 'HEAD^{tree}') && git -c core.logAllRefUpdates=false update-ref HEAD \"$alone\"";
    let [name, email, date] = ["NAME", "EMAIL", "DATE"];
    let values = [(name, "cofferdam"), (email, ""), (date, "@0 +0000")];
    let environment = values.into_iter().flat_map(|(of, value)| {
        ["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_{of}").into(), value.into()))
    });
    let inside = Inside {
        sandbox,
        arguments: ["/bin/sh", "-c", script].map(Into::into).to_vec(),
        directory: None,
        environment: &environment.collect(),
        limit: ALONE,
        output: Output::Captured(SAID),
    };
    let done = match inside.run(cancel).await {
        Ok(done) => done,
        Err(InsideError::Cancelled) => return Err(Failed::Cancelled),
        Err(error) => return Err(Failed::Unmade(error.to_string())),
    };
    if done.exit.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(Failed::Unmade(printable_line(said.trim_end())))
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
