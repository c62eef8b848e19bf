//! An agent's task in a living sandbox, as often as wanted.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Collection, Session, SessionError};
use crate::fsx::{FileError, lock};
use crate::git::{DiffStyle, Identity, UserRules, copied, identity};
use crate::registry::{self, Mode, Reach, Record, Setup, Strategy};
use crate::runs::Recorder;
use crate::sandbox::{
    BindMount, BindMountProvider, BranchStrategy, Contained, CopyStrategy, PrivateCopy,
    SandboxError,
};
use crate::session::announce;
use crate::session::check_plan::CheckPlan;
use crate::session::emitter::Emitter;
use crate::session::error::{RunError, RunErrorKind};
use crate::session::event::{Event, Notice};
use crate::session::form::Form;
use crate::session::iterate::{self, Iterating, Work};
use crate::session::located::discover;
use crate::session::manage::made_branch;
use crate::session::mode_reason::ModeReason;
use crate::session::network;
use crate::session::network_options::NetworkOptions;
use crate::session::options::{RunOptions, SessionOptions, Task};
use crate::session::outside::Outside;
use crate::session::plan::{self, Plan, TaskPlan};
use crate::session::prepare::record_again;
use crate::session::recorded;
use crate::session::refusals::Refusals;
use crate::session::report::{Kept, RunReport, usage};
use crate::session::run::take_login_back;
use crate::session::runlog;
use crate::session::stream::AgentFailure;
use crate::session::sync::SyncMode;
use crate::wall::Refused;

/// The lock of the agent that works, in the state directory.
const AT_WORK: &str = "agent";
/// How long the end of one that was just killed may take to be seen.
const LOOKERS: Duration = Duration::from_secs(1);

/// Nobody's agent is at work in the sandbox of this directory, nor waits for its next start, for as long as this is held; `None`: one is.
pub(super) async fn nobody_at_work(directory: &Path) -> Result<Option<File>, FileError> {
    lock::take_within(&directory.join(AT_WORK), LOOKERS).await
}

/// What is more than before. A gateway that was started anew counts from nought.
fn since(before: &[Refused], mut now: Vec<Refused>) -> Vec<Refused> {
    for one in &mut now {
        let known = before.iter().find(|known| known.what == one.what);
        if let Some(known) = known.filter(|known| known.count <= one.count) {
            one.count -= known.count;
        }
    }
    now.retain(|one| one.count > 0);
    now
}

impl Session {
    /// Runs an agent in it, until it signals completion or the iterations are used up, and collects. The sandbox goes
    /// on, also after an error.
    pub async fn agent(&self, task: &Task) -> Result<RunReport, RunError> {
        Box::pin(self.run(task)).await
    }

    async fn run(&self, task: &Task) -> Result<RunReport, RunError> {
        let began = Instant::now();
        let nothing = |kind| RunError {
            kind,
            kept: Box::default(),
        };
        let session = |error| nothing(RunErrorKind::Session(Box::new(error)));
        if self.record().setup == Setup::Failed {
            let name = self.name().to_string();
            return Err(session(SessionError::FailedSetup { name }));
        }
        self.named.check_files(&self.caller).map_err(session)?;
        let _alone = self.alone_at_work().await.map_err(session)?;
        // Where its user works too, what is committed there and not home would be taken for work of theirs.
        let before = match self.record().strategy {
            Strategy::Head => Some(self.collect().await.map_err(session)?),
            _ => None,
        };
        let followed = self.follow().await;
        let form = Form::read(&self.directory()).map_err(|error| session(error.into()))?;
        let options = RunOptions {
            caller: self.caller.clone(),
            session: self.options(&form).map_err(session)?,
            task: task.clone(),
        };
        let plan = self.plan(&form).await.map_err(session)?;
        let planned = plan::plan_task(&options, &plan).await.map_err(nothing)?;
        // While nobody else's agent is at work.
        self.sync(SyncMode::IfChanged).await.map_err(session)?;
        let name = runlog::file_name(self.record(), Some(self.record().name.as_str()));
        let log = (&options.task.log, options.task.log_limits);
        let kept_dir = plan.repository.kept_dir();
        let events = Emitter::open(options.caller.events.clone(), log, &kept_dir, &name)
            .map_err(|error| nothing(error.into()))?;
        let recorded = self.record_before(&plan, &events).await;
        let uncommitted = *recorded.as_ref().unwrap_or(&0);
        let path = events.path();
        events.announce(|| announce::events(&options, &plan, &planned, path, uncommitted));
        recorded.map_err(nothing)?;
        if let Some(before) = before.filter(|before| !before.commits.is_empty()) {
            let text = format!("what was committed in it before: {}", before.landing);
            events.notice(Notice::Other { text });
        }
        let mut recorder = recorded::begin(&options, &plan, path).map_err(nothing)?;
        if let Err(error) = followed {
            let text = error.to_string();
            events.notice(Notice::Other { text });
        }
        let going = (&options, plan, &planned);
        let result = self.go(going, &events, &mut recorder, began).await;
        recorded::end(recorder, &options.caller.home, &result, &events);
        result
    }

    /// Works, and collects whatever came of it.
    async fn go(
        &self,
        (options, plan, planned): (&RunOptions, Plan, &TaskPlan),
        events: &Emitter,
        recorder: &mut Recorder,
        began: Instant,
    ) -> Result<RunReport, RunError> {
        // The files of one that was there before are as old as it is.
        let mut outside = (self.why_mode != ModeReason::Made).then(|| {
            let scratch = self.directory().join("scratch-outside");
            let copied = copied::paths(&self.directory());
            Outside::begin(&self.caller, &plan, &copied, scratch)
        });
        let mut work = Work::default();
        let mut refusals = Refusals::since_now(&self.caller.home, self.record().id);
        // What programs of one that was there before were refused is none of this agent's.
        let before = match self.why_mode {
            ModeReason::Made => network::refused(&self.caller.home, self.record()).await,
            _ => Vec::new(),
        };
        let worked = self
            .work(
                (options, &plan.workdir),
                planned,
                events,
                (&mut work, &mut *recorder),
                &mut refusals,
                outside.as_mut(),
            )
            .await;
        refusals.tell(events);
        let refused = network::refused(&self.caller.home, self.record()).await;
        let refused = since(&before, refused);
        let mut kept = Kept {
            run: Some(recorder.record().id),
            id: Some(self.record().id),
            name: Some(self.record().name.clone()),
            lives_on: true,
            branch: Some(plan.source_branch.clone()),
            target_branch: Some(plan.target_branch.clone()),
            made_branch: made_branch(self.record()),
            base: Some(plan.record.begins().clone()),
            iterations: work.iterations,
            refused,
            log: events.path().map(std::path::Path::to_owned),
            ..Kept::default()
        };
        if let Some(outside) = &mut outside {
            outside.tell_known(events).await;
        }
        events.emit(&Event::Step { step: "collect" });
        // Cancelling ends the work; what is committed comes home all the same.
        let collected = self.whatever_was_cancelled().collect().await;
        if let Some(outside) = outside {
            let committed = (collected.as_ref()).is_ok_and(|done| !done.commits.is_empty());
            outside.end(committed, events).await;
        }
        if let Ok(Collection {
            landing,
            commits,
            beside,
            taken,
            notes,
            still,
            ended,
            ..
        }) = &collected
        {
            events.emit(&Event::Landed {
                landing: landing.clone(),
            });
            kept.still = *still;
            kept.ended = *ended;
            kept.taken.clone_from(taken);
            kept.landing = Some(landing.clone());
            kept.commits.clone_from(commits);
            kept.beside.clone_from(beside);
            kept.notes.clone_from(notes);
        }
        if let Err(kind) = worked {
            if let Err(error) = &collected {
                let text = match error {
                    SessionError::Collect { source, .. } => {
                        format!("its commits are not home yet: {source}")
                    }
                    error => format!("its commits are not home yet: {error}"),
                };
                events.notice(Notice::Other { text });
            }
            events.write(&format!("error: {kind}"));
            return Err(RunError {
                kind,
                kept: Box::new(kept),
            });
        }
        let collected = match collected {
            Ok(collected) => collected,
            Err(error) => {
                return Err(RunError {
                    kind: RunErrorKind::Session(Box::new(error)),
                    kept: Box::new(kept),
                });
            }
        };
        let base = plan.record.begins().clone();
        let diffstat = match collected.commits.last() {
            Some(last) => {
                let (style, cancel) = (DiffStyle::Stat, &self.caller.abandon);
                let text = plan.repository.diff(&base, &last.id, style, cancel).await;
                text.unwrap_or_default()
            }
            None => String::new(),
        };
        let usage = usage(&kept.iterations);
        Ok(RunReport {
            run: kept.run,
            id: self.record().id,
            name: self.record().name.clone(),
            source_branch: plan.source_branch,
            target_branch: plan.target_branch,
            made_branch: kept.made_branch,
            base,
            iterations: kept.iterations,
            completion: work.completion,
            output: work.output,
            landing: collected.landing,
            beside: kept.beside,
            notes: kept.notes,
            commits: kept.commits,
            taken: kept.taken,
            diffstat,
            usage,
            duration: began.elapsed(),
            log: kept.log,
            preserved_worktree: None,
            refused: kept.refused,
            still: kept.still,
            ended: kept.ended,
        })
    }

    /// Records what its user has in no commit where it works in their checkout, as before a run: they went on since it was made.
    /// Returns how many paths those are.
    async fn record_before(&self, plan: &Plan, events: &Emitter) -> Result<usize, RunErrorKind> {
        if self.record().strategy != Strategy::Head {
            return Ok(0);
        }
        let caller = &self.caller;
        // Commits came home since the session began.
        let here = discover(caller, self.named.located.top().as_path()).await;
        let here = here.map_err(|error| RunErrorKind::Session(Box::new(error.into())))?;
        let rules = UserRules {
            config: Some(&plan.config),
            caller_home: caller.user_home.as_deref(),
        };
        let scratch = self.directory().join("scratch-before");
        let (record, cancel) = (self.record(), &caller.cancel);
        Ok(record_again(&here, record, rules, scratch, events, cancel).await?)
    }

    /// One agent at a time: two would commit over each other's files, and write one log. The kernel lets go of it, however
    /// this process ends.
    async fn alone_at_work(&self) -> Result<File, SessionError> {
        let taken = nobody_at_work(&self.directory()).await?;
        let name = || self.name().to_string();
        taken.ok_or_else(|| SessionError::AtWork { name: name() })
    }

    /// The same one, for steps that only [`Caller::abandon`] cuts short.
    pub(super) fn whatever_was_cancelled(&self) -> Self {
        let mut caller = self.caller.clone();
        caller.cancel = caller.abandon.clone();
        Self {
            caller,
            named: self.named.clone(),
            sandbox: self.sandbox.clone(),
            killed_before: self.killed_before,
            abilities: self.abilities,
            why_mode: self.why_mode.clone(),
            still: self.still.clone(),
        }
    }

    async fn work(
        &self,
        (options, workdir): (&RunOptions, &Path),
        planned: &TaskPlan,
        events: &Emitter,
        (work, recorder): (&mut Work, &mut Recorder),
        refusals: &mut Refusals,
        outside: Option<&mut Outside>,
    ) -> Result<(), RunErrorKind> {
        let sandbox = self.sandbox();
        let here = Iterating {
            options,
            plan: planned,
            sandbox,
            workdir,
            events,
        };
        let (environment, cancel) = (&planned.environment, &options.caller.cancel);
        let told = async {
            match outside {
                Some(outside) => outside.tell(events).await,
                None => std::future::pending().await,
            }
        };
        let worked = async {
            if let Some(login) = &planned.login {
                login.give(sandbox, environment, cancel).await?;
            }
            tokio::select! {
                done = iterate::iterate(here, work, recorder) => done,
                never = network::watch(sandbox, refusals, events) => match never {},
                never = told => match never {},
            }
        };
        let worked = worked.await.map_err(|error| match error {
            // Whatever a cancelled step calls its end.
            _ if cancel.is_cancelled() => RunErrorKind::Cancelled,
            // Somebody paused or stopped it meanwhile.
            RunErrorKind::Agent {
                failure:
                    AgentFailure::Sandbox(
                        source @ (SandboxError::Paused
                        | SandboxError::Frozen
                        | SandboxError::Unwatched
                        | SandboxError::NotRunning
                        | SandboxError::Gone(_)),
                    ),
                ..
            } => RunErrorKind::Session(Box::new(self.failed(source))),
            error => error,
        });
        take_login_back(options, planned, sandbox, events).await;
        worked
    }

    /// What it was made with, as far as a task asks.
    fn options(&self, form: &Form) -> Result<SessionOptions, SessionError> {
        // Nothing is made of it: the sandbox is there.
        let sandbox = kind_of(self.record(), self.named.provider(&self.caller)?);
        let mut options = SessionOptions::new(self.named.located.top().as_path(), sandbox);
        options.name = Some(self.record().name.to_string());
        options.environment = form.environment();
        options.limits = form.limits();
        options.network = match &self.record().network {
            Some(Reach::Open) => NetworkOptions::Open,
            Some(reach @ Reach::Allowlist { .. }) => NetworkOptions::Allowlist {
                rules: reach.rules().unwrap_or_default(),
            },
            Some(Reach::None) | None => NetworkOptions::None,
        };
        Ok(options)
    }

    async fn plan(&self, form: &Form) -> Result<Plan, SessionError> {
        let caller = &self.caller;
        // What came home meanwhile is none of this task's.
        let record = registry::load(&caller.home, self.id())?;
        let user = caller.user_home.as_deref();
        let repository = self.named.repository(caller).await?;
        let config = identity::user_config(repository, user, &caller.cancel).await?;
        let author = config.identity.clone().unwrap_or_else(Identity::fallback);
        let repository = repository.clone();
        let target_branch = match &record.strategy {
            Strategy::MergeToHead { target } => target.to_string(),
            Strategy::Head | Strategy::Branch => repository.head.branch_text(),
        };
        Ok(Plan {
            root: false,
            config,
            author,
            branch_exists: true,
            source_branch: record.branch_text(),
            record,
            why_mode: self.why_mode.clone(),
            target_branch,
            notices: Vec::new(),
            workdir: form.workdir(),
            setup: None,
            checks: CheckPlan::default(),
            repository,
        })
    }
}

/// What its sandbox was made as.
fn kind_of(record: &Record, provider: Arc<dyn BindMountProvider>) -> Contained {
    let branch = match (&record.strategy, &record.branch) {
        (Strategy::Branch, Some(branch)) => Some(branch.clone()),
        _ => None,
    };
    let base = None;
    match (record.mode, branch) {
        (Mode::Bind, _) if record.strategy == Strategy::Head => {
            BindMount::new(provider, BranchStrategy::Head).into()
        }
        (Mode::Bind, Some(branch)) => {
            BindMount::new(provider, BranchStrategy::Branch { branch, base }).into()
        }
        (Mode::Bind, None) => BindMount::new(provider, BranchStrategy::MergeToHead).into(),
        (Mode::Layer, Some(branch)) => {
            PrivateCopy::layered(provider, CopyStrategy::Branch { branch, base }).into()
        }
        (Mode::Layer, None) => PrivateCopy::layered(provider, CopyStrategy::MergeToHead).into(),
        (_, Some(branch)) => {
            PrivateCopy::new(provider, CopyStrategy::Branch { branch, base }).into()
        }
        (_, None) => PrivateCopy::new(provider, CopyStrategy::MergeToHead).into(),
    }
}
