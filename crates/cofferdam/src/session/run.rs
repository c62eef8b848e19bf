//! The run itself: each step once, in order, and whatever happened the later ones still follow.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::announce;
use super::appearing;
use super::asked::Asked;
use super::attendant::Attendant;
use super::begun;
use super::checks::Checks;
use super::collect::{self, Collected, Collector, Reaches, Source};
use super::committed;
use super::conversation::ConversationError;
use super::dispose::{self, Disposal};
use super::emitter::Emitter;
use super::error::{RunError, RunErrorKind};
use super::event::{Event, Notice};
use super::iterate::{self, Iterating, Work};
use super::judge::Judging;
use super::manage::made_branch;
use super::network;
use super::on_host::Interactive;
use super::options::RunOptions;
use super::outside::Outside;
use super::plan::{self, Plan, PlanError, TaskPlan};
use super::prepare::{self, Making, Ready};
use super::program;
use super::recorded;
use super::refusals::Refusals;
use super::report::{Kept, RunReport, usage};
use super::runlog;
use super::variables;
use crate::git::land::{self, Landing};
use crate::git::{DiffStyle, Oid, UserRules, own_files};
use crate::registry::{Outcome, Owned};
use crate::runs::Recorder;
use crate::sandbox::{Ability, Sandbox};
use crate::wall;

/// Runs an agent in a sandbox until it signals completion or the iterations are used up, and brings
/// verified commits home.
///
/// An error keeps everything: see [`RunError::kept`].
///
/// It is [`Session::create`](crate::session::Session::create), [`agent`](crate::session::Session::agent) and
/// [`close`](crate::session::Session::close) in one, with two differences: its sandbox ends with this process however that
/// dies, and with merge-to-head a run that went well moves the target, as [`crate::session::manage::merge()`] does for a
/// session.
///
/// One agent from the making of its sandbox to its end:
///
/// ```no_run
/// # async fn example(options: cofferdam::RunOptions) -> Result<(), cofferdam::RunError> {
/// let report = cofferdam::run(options).await?;
/// println!("{}", report.diffstat);
/// # Ok(())
/// # }
/// ```
///
/// Where more is to be done in one sandbox, the same steps by themselves:
///
/// ```no_run
/// # async fn example(options: cofferdam::RunOptions) -> Result<(), Box<dyn std::error::Error>> {
/// use cofferdam::sandbox::native::Native;
/// use cofferdam::session::{Session, SessionExec};
///
/// let session = Session::create(&options.caller, &options.session).await?;
/// let report = session.agent(&options.task).await?;
/// let mut tests = session.exec(SessionExec::new(["make", "test"])).await?;
/// tests.wait().await?;
/// session.close(&Native::default()).await?;
/// # Ok(())
/// # }
/// ```
pub async fn run(mut options: RunOptions) -> Result<RunReport, RunError> {
    let began = Instant::now();
    // Another command may end this run, and nothing else that its caller does.
    options.caller.cancel = options.caller.cancel.child_token();
    let nothing = |kind| RunError {
        kind,
        kept: Box::default(),
    };
    if options.caller.cancel.is_cancelled() {
        return Err(nothing(RunErrorKind::Cancelled));
    }
    let planned = Box::pin(plan_alone(&options)).await;
    let (plan, task, finished) = match planned {
        Ok(planned) => planned,
        Err(kind) => return Err(nothing(or_cancelled(kind, &options.caller.cancel).await)),
    };
    let given_up = |owned: Owned, kind| {
        // What cannot be removed is no sandbox, and `gc` knows it.
        let _ = owned.forget();
        nothing(kind)
    };
    let log_name = runlog::file_name(&plan.record, options.session.name.as_deref());
    let kept_dir = plan.repository.kept_dir();
    let log = (&options.task.log, options.task.log_limits);
    let owned = begun::begin(&options.caller.home, plan.record.clone(), &plan).map_err(nothing)?;
    let asked = Asked::listen(owned.directory());
    let events = Emitter::open(options.caller.events.clone(), log, &kept_dir, &log_name);
    let events = events.and_then(|events| own_files::ignore(&kept_dir).map(|()| events));
    let events = match events {
        Ok(events) => events,
        Err(error) => return Err(given_up(owned, error.into())),
    };
    if let Err(error) = wall::say_unlogged(&options.caller.home, &plan.record) {
        return Err(given_up(owned, error.into()));
    }
    if !announce::waits(&plan) {
        events.announce(|| announce::events(&options, &plan, &task, events.path(), 0));
    }
    for text in finished {
        events.notice(Notice::Other { text });
    }
    let mut recorder = match recorded::begin(&options, &plan, events.path()) {
        Ok(recorder) => recorder,
        Err(kind) => return Err(given_up(owned, kind)),
    };
    let run = Run {
        options: &options,
        plan: &plan,
        task: &task,
        events: &events,
        began,
    };
    let result = tokio::select! {
        result = Box::pin(live(run, owned, &mut recorder)) => result,
        never = asked.cancels(&options.caller.cancel) => match never {},
    };
    recorded::end(recorder, &options.caller.home, &result, &events);
    if let Err(error) = &result {
        events.write(&format!("error: {error}"));
    }
    result
}

/// The same with a person at the agent's own terminal interface, in place of iterations: see [`Attendant`]. The prompt may be
/// [`PromptSource::None`](super::PromptSource::None). How the program ended is the exit of the report's only iteration, and no error:
/// whatever it says, what was committed lands as after a run.
///
/// ```no_run
/// # async fn example(options: cofferdam::RunOptions) -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use cofferdam::process::Exit;
/// use cofferdam::sandbox::{Execution, SandboxError, TerminalSize};
/// use cofferdam::session::Attendant;
///
/// /// Types nothing, and shows nothing.
/// #[derive(Debug)]
/// struct Absent;
///
/// #[async_trait::async_trait]
/// impl Attendant for Absent {
///     fn size(&self) -> TerminalSize {
///         TerminalSize { rows: 24, columns: 80 }
///     }
///
///     async fn attend(&self, mut execution: Box<dyn Execution>) -> Result<Exit, SandboxError> {
///         let _terminal = execution.take_terminal();
///         execution.wait().await
///     }
/// }
///
/// let report = cofferdam::interactive(options, Arc::new(Absent)).await?;
/// println!("{:?}", report.iterations[0].exit);
/// # Ok(())
/// # }
/// ```
pub async fn interactive(
    options: impl Into<Interactive>,
    attendant: Arc<dyn Attendant>,
) -> Result<RunReport, RunError> {
    let mut options = options.into().into_run();
    options.task.attendant = Some(attendant);
    Box::pin(run(options)).await
}

/// Refuses what [`run`] refuses before it makes anything. For who makes a sandbox for this one agent by
/// [`Session::create`](crate::session::Session::create): a session knows of no agent.
pub async fn check(options: &RunOptions) -> Result<(), RunError> {
    let planned = plan_both(options).await;
    planned.map(drop).map_err(|kind| RunError {
        kind,
        kept: Box::default(),
    })
}

/// Makes nothing.
async fn plan_both(options: &RunOptions) -> Result<(Plan, TaskPlan), RunErrorKind> {
    if let Some(resume) = &options.task.resume
        && !resume.files.as_ref().is_some_and(|files| files.is_dir())
    {
        let id = crate::text::printable_line(&resume.session);
        return Err(ConversationError::NotKept { id }.into());
    }
    let plan = plan::plan(&options.caller, &options.session).await?;
    let task = match plan::plan_task(options, &plan).await {
        Err(error @ RunErrorKind::Plan(PlanError::NoAccess { .. })) => {
            // A key would not help who lacks the program as well.
            let (environment, _) = variables::of_a_run(options, &plan.repository).await?;
            program::check(options, &plan, &environment).await?;
            return Err(error);
        }
        task => task?,
    };
    // A sandbox that is there knows its programs; of one that is to be made this is asked before.
    program::check(options, &plan, &task.environment).await?;
    committed::check_prompt(options, &plan).await?;
    Ok((plan, task))
}

/// Plans both. Also says what a dead command had left.
async fn plan_alone(options: &RunOptions) -> Result<(Plan, TaskPlan, Vec<String>), RunErrorKind> {
    // What could only fail is refused before anything of others is touched.
    let (caller, session) = (&options.caller, &options.session);
    let (plan, task) = plan_both(options).await?;
    let (plan, finished) = plan::settle(caller, session, plan).await?;
    if finished.is_empty() {
        return Ok((plan, task, finished));
    }
    let task = plan::plan_task(options, &plan).await?;
    Ok((plan, task, finished))
}

/// So long a signal takes from the process to whoever cancels for it.
const HEARD: Duration = Duration::from_millis(5);

/// What a run is made of, from its plan to its end.
#[derive(Clone, Copy)]
struct Run<'a> {
    options: &'a RunOptions,
    plan: &'a Plan,
    task: &'a TaskPlan,
    events: &'a Emitter,
    began: Instant,
}

/// What came of the agent's work.
struct Ended {
    work: Work,
    worked: Result<(), RunErrorKind>,
    collected: Result<Collected, collect::CollectError>,
}

/// Prepare, work, collect, dispose.
async fn live(
    run: Run<'_>,
    mut owned: Owned,
    recorder: &mut Recorder,
) -> Result<RunReport, RunError> {
    let Run {
        options,
        plan,
        task,
        events,
        ..
    } = run;
    let mut work = Work::default();
    let mut ready: Option<Ready> = None;
    let mut refusals = Refusals::of(&options.caller.home, plan.record.id);
    let announce = |uncommitted| announce::events(options, plan, task, events.path(), uncommitted);
    let making = Making {
        caller: &options.caller,
        options: &options.session,
        plan,
        events,
        announce: &announce,
        agent: Some(options.task.agent.as_ref()),
        login: task.login.as_ref(),
        environment: &task.environment,
        lives_on: false,
        bare: None,
    };
    let scratch = owned.directory().join("scratch-outside");
    let mut outside = Outside::begin(&options.caller, plan, &options.session.copy, scratch);
    let worked = async {
        let prepared = prepare::or_cancel(&making, &mut owned, &mut ready).await;
        // Where nobody came to look at the user's work.
        events.announce(|| (making.announce)(0));
        let watch = prepared?;
        work.prepared = true;
        let Some(ready) = &ready else { return Ok(()) };
        let sandbox = ready.sandbox();
        let here = Iterating {
            options,
            plan: task,
            sandbox,
            workdir: &plan.workdir,
            events,
        };
        tokio::select! {
            done = iterate::iterate(here, &mut work, &mut *recorder) => done,
            never = network::watch(sandbox, &mut refusals, events) => match never {},
            never = appearing::watch(watch, events) => match never {},
            never = outside.tell(events) => match never {},
        }
    }
    .await;
    let worked = match worked {
        Ok(()) => Ok(()),
        Err(error) => Err(or_cancelled(error, &options.caller.cancel).await),
    };

    if let Some(ready) = &ready {
        take_login_back(options, task, ready.sandbox(), events).await;
    }
    // Of a run that ended soon, or before its agent started.
    refusals.tell(events);
    let refused = match &ready {
        Some(_) => network::refused(&options.caller.home, &plan.record).await,
        None => Vec::new(),
    };
    if work.prepared {
        outside.tell_known(events).await;
    }
    events.emit(&Event::Step { step: "collect" });
    let isolated = match &ready {
        Some(Ready::Isolated(sandbox)) => Some(sandbox.clone()),
        _ => None,
    };
    if let (Some(ready), None) = (&ready, &isolated) {
        // A mounted workspace is read only when nothing can change it any more.
        let _ = tokio::time::timeout(options.session.timeouts.close, ready.sandbox().close()).await;
    }
    let checks = Checks::like(&options.caller, &options.session, &plan.checks);
    let judging = Judging::by(&checks);
    let collector = Collector {
        reaches: match worked {
            Ok(()) => Reaches::Target,
            Err(RunErrorKind::Cancelled) => Reaches::OwnBranch(land::STOPPED),
            Err(_) => Reaches::OwnBranch(land::FAILED),
        },
        home: &options.caller.home,
        repo: &plan.repository,
        author: &plan.author,
        events,
        limit: options.session.timeouts.collect,
        cancel: &options.caller.abandon,
        judge: Some(&judging),
    };
    let has_git = options.session.sandbox.abilities().has(Ability::Git);
    let source = match &isolated {
        Some(sandbox) if has_git => Source::Sandbox {
            sandbox: sandbox.as_ref(),
            workdir: &plan.workdir,
        },
        Some(sandbox) => Source::Files {
            sandbox: sandbox.as_ref(),
            workdir: &plan.workdir,
        },
        None => Source::State,
    };
    let collected = Box::pin(collector.collect(&mut owned, source)).await;
    if let Some(sandbox) = &isolated {
        // What is not home is only there.
        if collected.is_ok() || !options.session.sandbox.abilities().has(Ability::Outlive) {
            let _ = tokio::time::timeout(options.session.timeouts.close, sandbox.close()).await;
            // It would end with this process anyway, and nobody could open it again.
            if collected.is_err() {
                let text = format!(
                    "what is not home is lost: a sandbox of the provider `{}` ends with the program that made it",
                    plan.record.provider
                );
                events.notice(Notice::Other { text });
            }
        }
    }
    // Who committed nothing may have missed just that.
    if work.prepared {
        let committed = (collected.as_ref()).is_ok_and(|done| !done.commits.is_empty());
        outside.end(committed, events).await;
    }
    let kept = Kept {
        run: Some(recorder.record().id),
        id: Some(plan.record.id),
        name: Some(plan.record.name.clone()),
        branch: Some(plan.source_branch.clone()),
        target_branch: Some(plan.target_branch.clone()),
        base: Some(plan.record.base.clone()),
        refused,
        log: events.path().map(std::path::Path::to_owned),
        ..Kept::default()
    };
    let ended = Ended {
        work,
        worked,
        collected,
    };
    run.finish(owned, kept, ended).await
}

impl Run<'_> {
    /// Keeps what came home, takes the rest away, and says how it went.
    async fn finish(
        self,
        owned: Owned,
        mut kept: Kept,
        ended: Ended,
    ) -> Result<RunReport, RunError> {
        let Ended {
            work,
            worked,
            collected,
        } = ended;
        kept.iterations = work.iterations;
        let collected = match collected {
            Ok(collected) => collected,
            Err(error) => {
                // The state directory still holds everything: the next `gc` tries again.
                kept.preserved_worktree.clone_from(&owned.record.worktree);
                let kind = match worked {
                    Ok(()) => RunErrorKind::Collect(error),
                    Err(first) => {
                        let text = format!("its commits are not home yet: {error}");
                        self.events.notice(Notice::Other { text });
                        first
                    }
                };
                return Err(RunError {
                    kind,
                    kept: Box::new(kept),
                });
            }
        };
        self.events.emit(&Event::Landed {
            landing: collected.landing.clone(),
        });
        kept.landing = Some(collected.landing.clone());
        kept.commits.clone_from(&collected.commits);
        kept.beside.clone_from(&collected.beside);
        kept.notes.clone_from(&collected.notes);
        kept.taken.clone_from(&collected.taken.paths);
        kept.made_branch = made_branch(&owned.record);
        let tip = collected.tip.clone();
        let outcome = Outcome {
            no_agent: !work.prepared,
            ..collected.into_outcome()
        };
        kept.preserved_worktree = self.dispose(owned, outcome).await;
        if let Err(kind) = worked {
            return Err(RunError {
                kind,
                kept: Box::new(kept),
            });
        }
        let said = (work.completion, work.output);
        Ok(self.report(kept, said, tip.as_ref()).await)
    }

    /// The worktree, where it stays for what is not committed in it.
    async fn dispose(self, owned: Owned, outcome: Outcome) -> Option<PathBuf> {
        let Self {
            options,
            plan,
            events,
            ..
        } = self;
        events.emit(&Event::Step { step: "dispose" });
        let disposal = Disposal {
            home: &options.caller.home,
            repo: &plan.repository,
            outcome,
            rules: UserRules {
                config: Some(&plan.config),
                caller_home: options.caller.user_home.as_deref(),
            },
            cancel: &options.caller.abandon,
        };
        let mut disposed = match dispose::dispose(owned, &disposal).await {
            Ok(disposed) => disposed,
            Err(error) => {
                let text = error.to_string();
                events.notice(Notice::Other { text });
                return None;
            }
        };
        let took = disposal.outcome.took_work;
        for notice in disposed.of_the_users(plan.record.id, took) {
            events.notice(notice);
        }
        for text in disposed.problems {
            events.notice(Notice::Other { text });
        }
        disposed.preserved
    }

    async fn report(
        self,
        kept: Kept,
        (completion, output): (Option<String>, Option<serde_json::Value>),
        tip: Option<&Oid>,
    ) -> RunReport {
        let Self { options, plan, .. } = self;
        let base = plan.record.base.clone();
        let diffstat = match tip {
            Some(tip) => {
                let (style, cancel) = (DiffStyle::Stat, &options.caller.abandon);
                let text = plan.repository.diff(&base, tip, style, cancel).await;
                text.unwrap_or_default()
            }
            None => String::new(),
        };
        RunReport {
            run: kept.run,
            id: plan.record.id,
            name: plan.record.name.clone(),
            source_branch: plan.source_branch.clone(),
            target_branch: plan.target_branch.clone(),
            made_branch: kept.made_branch,
            base,
            usage: usage(&kept.iterations),
            iterations: kept.iterations,
            completion,
            output,
            landing: kept.landing.unwrap_or(Landing::Nothing),
            beside: kept.beside,
            notes: kept.notes,
            commits: kept.commits,
            taken: kept.taken,
            diffstat,
            duration: self.began.elapsed(),
            log: kept.log,
            preserved_worktree: kept.preserved_worktree,
            refused: kept.refused,
            still: kept.still,
            ended: kept.ended,
        }
    }
}

/// Whatever a cancelled step calls its end. A signal to the whole process group ends a program that was just started too, and its end may
/// be seen before the signal is.
async fn or_cancelled(error: RunErrorKind, cancel: &CancellationToken) -> RunErrorKind {
    let heard = tokio::time::timeout(HEARD, cancel.cancelled()).await;
    if heard.is_ok() {
        RunErrorKind::Cancelled
    } else {
        error
    }
}

/// A login that the agent's program renewed is kept for later runs.
pub(super) async fn take_login_back(
    options: &RunOptions,
    task: &TaskPlan,
    sandbox: &dyn Sandbox,
    events: &Emitter,
) {
    let Some(login) = &task.login else { return };
    let (inside, abandon) = (&task.environment, &options.caller.abandon);
    match login.take_back(sandbox, inside, abandon).await {
        Ok(true) => events.notice(Notice::LoginRenewed),
        Ok(false) => {}
        Err(error) => events.notice(Notice::Other {
            text: error.to_string(),
        }),
    }
}
