//! Runs a plan: each task when those that it waits for have ended well, so many at once, and what one does ends no other.

use std::num::NonZeroU32;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::error::PlanRunError;
use super::event::{Stage, What};
use super::options::{Agents, PlanOptions, source};
use super::report::{Failure, PlanReport, TaskEnd, TaskReport};
use super::state::{Begun, Known, State};
use super::tasks::{PlannedTask, Prompt};
use crate::agent::AgentProvider;
use crate::git::discovery::Start;
use crate::git::{GitError, Oid, Repository, refs};
use crate::names::{BranchName, Slug};
use crate::registry::{self, Entry, RegistryError};
use crate::session::manage::{self, DeleteOptions, ManageError, SandboxRef};
use crate::session::{Event, EventSink, Landing, RunError, RunErrorKind, RunReport};

/// Runs the tasks of a plan that have not ended well yet, and remembers each that does. The checked-out branch never moves.
///
/// An error is one of the plan as a whole, and nothing was begun; what goes wrong with a task is in the report.
pub async fn run(options: PlanOptions) -> Result<PlanReport, PlanRunError> {
    let caller = &options.each.caller;
    let repository = repository(&options).await?;
    if caller.cancel.is_cancelled() {
        return Err(PlanRunError::Cancelled);
    }
    if let Some(here) = repository.head.branch() {
        let folded = here.as_str().to_lowercase();
        let mut tasks = options.plan.tasks.iter();
        if let Some(task) = tasks.find(|task| task.branch.as_str().to_lowercase() == folded) {
            return Err(PlanRunError::CheckedOut {
                task: task.name.clone(),
                branch: task.branch.clone(),
            });
        }
    }
    let agents = options
        .plan
        .tasks
        .iter()
        .map(|task| Agents::of(task, &options.each));
    let agents: Vec<Agents> = agents.collect::<Result<_, _>>()?;
    let state = State::open(&caller.home, &repository.top, &options.plan)?;
    let running = Running {
        options: &options,
        repository: &repository,
        state: tokio::sync::Mutex::new(state),
    };
    Ok(running.all(&agents).await)
}

async fn repository(options: &PlanOptions) -> Result<Repository, PlanRunError> {
    let caller = &options.each.caller;
    let workspaces = registry::workspaces(&caller.home)?;
    let start = Start::find(&options.each.session.repository, &workspaces)?;
    let home = caller.user_home.as_deref();
    Ok(Repository::discover(&caller.git, &start, home, &caller.cancel).await?)
}

struct Running<'a> {
    options: &'a PlanOptions,
    repository: &'a Repository,
    /// Tasks write it one after the other.
    state: tokio::sync::Mutex<State>,
}

impl Running<'_> {
    async fn all(&self, agents: &[Agents]) -> PlanReport {
        let plan = &self.options.plan;
        let mut ends: Vec<Option<TaskReport>> = plan.tasks.iter().map(|_| None).collect();
        let mut begun = vec![false; ends.len()];
        let mut at_work = FuturesUnordered::new();
        loop {
            self.skip(&mut ends, &mut begun);
            let is_free = |number: usize| {
                let good =
                    |&first: &usize| ends[first].as_ref().is_some_and(|one| one.end.is_good());
                !begun[number] && plan.after[number].iter().all(good)
            };
            let next = (0..ends.len()).find(|&number| is_free(number));
            let has_room = at_work.len() < self.options.jobs.get();
            match next.filter(|_| has_room && !self.options.each.caller.cancel.is_cancelled()) {
                Some(number) => {
                    begun[number] = true;
                    let (task, agents) = (&plan.tasks[number], &agents[number]);
                    at_work.push(async move { (number, Box::pin(self.one(task, agents)).await) });
                }
                None => match at_work.next().await {
                    Some((number, end)) => ends[number] = Some(end),
                    None => break,
                },
            }
        }
        drop(at_work);
        let tasks = plan.tasks.iter().zip(ends);
        let tasks = tasks
            .map(|(task, end)| end.unwrap_or_else(|| TaskReport::of(task, TaskEnd::NotStarted)));
        PlanReport {
            tasks: tasks.collect(),
        }
    }

    /// Ends those that wait for one that did not end well, and those that wait for them.
    fn skip(&self, ends: &mut [Option<TaskReport>], begun: &mut [bool]) {
        let plan = &self.options.plan;
        loop {
            let bad = |&&first: &&usize| ends[first].as_ref().is_some_and(|one| !one.end.is_good());
            let found = (0..begun.len())
                .filter(|&number| !begun[number])
                .find_map(|number| {
                    let first = plan.after[number].iter().find(bad)?;
                    Some((number, plan.tasks[*first].name.clone()))
                });
            let Some((number, after)) = found else {
                return;
            };
            let task = &plan.tasks[number];
            self.tell(task, Stage::Work, What::Skipped { after: &after });
            begun[number] = true;
            ends[number] = Some(TaskReport::of(task, TaskEnd::Skipped { after }));
        }
    }

    /// One task to its end.
    async fn one(&self, task: &PlannedTask, agents: &Agents) -> TaskReport {
        let mut done = TaskReport::of(task, TaskEnd::Done);
        let (stage, result) = self.stages(task, agents, &mut done).await;
        match result {
            Ok(end) => done.end = end,
            Err(failure) => {
                self.tell(task, stage, What::Failed(&failure));
                done.end = TaskEnd::Failed(failure);
            }
        }
        let gone = done
            .sandbox
            .take_if(|sandbox| !self.is_there(task, sandbox));
        if gone.is_some() {
            done.merged_by_git = self.is_ahead(task).await;
        }
        done
    }

    /// Whether `merge` finds the task's commits by this sandbox: somebody may have deleted it, or given its name to another one.
    fn is_there(&self, task: &PlannedTask, sandbox: &Slug) -> bool {
        let home = &self.options.each.caller.home;
        let found = registry::find(home, &self.repository.top, sandbox.as_str());
        found.is_ok_and(|found| found.record.branch.as_ref() == Some(&task.branch))
    }

    /// Whether its branch has what is checked out has not. Where git does not say so there is nothing to name.
    async fn is_ahead(&self, task: &PlannedTask) -> bool {
        let Ok(Some(tip)) = self.tip(&task.branch).await else {
            return false;
        };
        let (head, cancel) = (
            self.repository.head.commit(),
            &self.options.each.caller.cancel,
        );
        let ahead = self.repository.count_ahead(head, &[tip], cancel).await;
        matches!(ahead, Ok(Some(1..)))
    }

    /// In which stage it ended, and how.
    async fn stages(
        &self,
        task: &PlannedTask,
        agents: &Agents,
        done: &mut TaskReport,
    ) -> (Stage, Result<TaskEnd, Failure>) {
        let content = task.content();
        let known = {
            let mut state = self.state.lock().await;
            if self.options.again
                && let Err(error) = state.forget(&task.name)
            {
                return (Stage::Work, Err(error.into()));
            }
            state.known(&task.name, &content).cloned()
        };
        if let Some(known) = &known {
            done.commits = known.commits;
            done.sandbox = Some(known.sandbox.clone());
            if known.done {
                self.tell(task, Stage::Work, What::Before);
                return (Stage::Work, Ok(TaskEnd::Before));
            }
        }
        let mut known = match known {
            Some(known) => known,
            None => match self.work(task, agents, &content, done).await {
                Ok(known) => known,
                Err(failure) => return (Stage::Work, Err(failure)),
            },
        };
        if let (Some(review), Some(agent), false) = (&task.review, &agents.review, known.done) {
            let reviewed = self.begin(task, agent, (&review.prompt, &content), Stage::Review);
            match reviewed.await {
                Ok((report, commits, sandbox)) => {
                    // A state of before says nothing of how it began.
                    known.commits = known.commits.max(commits);
                    known.sandbox = sandbox.unwrap_or(known.sandbox);
                    known.done = true;
                    done.review = Some(report);
                    (done.commits, done.sandbox) = (known.commits, Some(known.sandbox.clone()));
                }
                Err(failure) => return (Stage::Review, Err(failure)),
            }
            let written = self.state.lock().await.put(&task.name, known.clone());
            if let Err(error) = written {
                return (Stage::Review, Err(error.into()));
            }
        }
        done.commits = known.commits;
        done.sandbox = Some(known.sandbox);
        (Stage::Work, Ok(TaskEnd::Done))
    }

    /// The first agent of a task; what came of it is on disk.
    async fn work(
        &self,
        task: &PlannedTask,
        agents: &Agents,
        content: &str,
        done: &mut TaskReport,
    ) -> Result<Known, Failure> {
        let (report, commits, sandbox) = self
            .begin(task, &agents.work, (&task.prompt, content), Stage::Work)
            .await?;
        let known = Known {
            content: content.to_owned(),
            branch: task.branch.clone(),
            run: report.run,
            sandbox: sandbox.unwrap_or_else(|| report.name.clone()),
            commits,
            done: task.review.is_none() || commits == 0,
        };
        done.work = Some(report);
        // They are there, whatever can be written down.
        done.commits = commits;
        done.sandbox = Some(known.sandbox.clone());
        self.state.lock().await.put(&task.name, known.clone())?;
        Ok(known)
    }

    /// How the task began; what of it is new is on disk.
    async fn begun(&self, task: &PlannedTask, content: &str) -> Result<Begun, Failure> {
        if let Some(begun) = self.state.lock().await.begun(&task.name, content) {
            return Ok(begun.clone());
        }
        let mut tip = self.tip(&task.branch).await?;
        if tip.is_none() {
            let base = task.base.as_deref().unwrap_or("HEAD");
            let cancel = &self.options.each.caller.cancel;
            tip = self.repository.resolve(base, cancel).await?;
        }
        let begun = Begun {
            content: content.to_owned(),
            // Whoever starts it says what is wrong with its base.
            tip: tip.unwrap_or_else(|| self.repository.head.commit().clone()),
            sandbox: None,
        };
        let mut state = self.state.lock().await;
        state.put_begun(&task.name, begun.clone())?;
        Ok(begun)
    }

    async fn tip(&self, branch: &BranchName) -> Result<Option<Oid>, GitError> {
        let cancel = &self.options.each.caller.cancel;
        refs::read(self.repository, &format!("refs/heads/{branch}"), cancel).await
    }

    /// How many commits its branch has by now that neither had it before the first try nor has what is checked out.
    async fn commits(&self, task: &PlannedTask, begun: &Begun) -> Result<usize, Failure> {
        let Some(tip) = self.tip(&task.branch).await? else {
            return Ok(0);
        };
        let cancel = &self.options.each.caller.cancel;
        let tips = [tip];
        let count = self.repository.count_ahead(&begun.tip, &tips, cancel);
        // Where that is no commit of the repository any more, what is there is new.
        Ok(count
            .await?
            .map_or(1, |count| count.try_into().unwrap_or(usize::MAX)))
    }

    /// That one left commits of the task on its branch.
    async fn left(&self, task: &PlannedTask, begun: &mut Begun, by: Slug) -> Result<(), Failure> {
        begun.sandbox = Some(by);
        let mut state = self.state.lock().await;
        let written = state.put_begun(&task.name, begun.clone());
        written.map_err(|source| Failure::Unwritten {
            branch: task.branch.clone(),
            source,
        })
    }

    /// Who left commits on this branch, where a disk was full when that was to be written down.
    fn left_by(&self, branch: &BranchName) -> Result<Option<Slug>, Failure> {
        let home = &self.options.each.caller.home;
        let entries = registry::list(home, Some(&self.repository.top))?.entries;
        let mut of_it = entries.into_iter().map(|Entry { record, .. }| record);
        let found = of_it.find(|record| record.branch.as_ref() == Some(branch));
        Ok(found.map(|record| record.name))
    }

    /// One run on the task's branch. Also says how many commits of the task are on it then, whoever made them, and by which sandbox
    /// `merge` knows them.
    async fn begin(
        &self,
        task: &PlannedTask,
        agent: &std::sync::Arc<dyn AgentProvider>,
        (prompt, content): (&Prompt, &str),
        stage: Stage,
    ) -> Result<(RunReport, usize, Option<Slug>), Failure> {
        let mut begun = self.begun(task, content).await?;
        if let Some(dead) = self.bring_home(&task.branch).await? {
            self.left(task, &mut begun, dead).await?;
        }
        let mut options = self.options.each.clone();
        let named = match stage {
            Stage::Work => task.name.to_string(),
            Stage::Review => format!("{}-review", task.name),
        };
        options.session.name = Some(self.free(&named)?);
        let sandbox = &options.session.sandbox;
        options.session.sandbox = sandbox.on_branch(task.branch.clone(), task.base.clone());
        options.task.agent = std::sync::Arc::clone(agent);
        options.task.prompt = source(prompt);
        options.task.attached = None;
        options.task.resume = None;
        options.task.max_iterations = match stage {
            Stage::Work => {
                let asked = task.max_iterations.unwrap_or(options.task.max_iterations);
                let most = self.options.most_iterations;
                most.map_or(asked, |most| asked.min(most))
            }
            Stage::Review => NonZeroU32::MIN,
        };
        let branch = &task.branch;
        self.tell(task, stage, What::Started { branch });
        let (events, name) = (self.options.events.clone(), task.name.clone());
        options.caller.events =
            EventSink::new(move |event: &Event| events.emit(&name, stage, What::Run(event)));
        let report = match Box::pin(crate::session::run(options)).await {
            Ok(report) => report,
            Err(error) => {
                if let (Some(name), Some(Landing::Landed { .. })) =
                    (&error.kept.name, &error.kept.landing)
                {
                    // Its own end says more than a full disk, and where they are.
                    let _ = self.left(task, &mut begun, name.clone()).await;
                }
                return Err(Failure::Run(Box::new(error)));
            }
        };
        if matches!(report.landing, Landing::Landed { .. }) {
            self.left(task, &mut begun, report.name.clone()).await?;
        }
        match &report.landing {
            Landing::Landed { .. } | Landing::Nothing => {
                self.tell(task, stage, What::Finished(&report));
                let commits = self.commits(task, &begun).await?;
                let by = match begun.sandbox {
                    // It is done, whoever has the branch.
                    None if commits > 0 => self.left_by(&task.branch).ok().flatten(),
                    by => by,
                };
                Ok((report, commits, by))
            }
            Landing::Kept { .. } | Landing::Refused { .. } => {
                Err(Failure::Landing(Box::new(report)))
            }
        }
    }

    /// A name that no sandbox of the repository has: an earlier run of the task may still have its own.
    fn free(&self, name: &str) -> Result<String, Failure> {
        let home = &self.options.each.caller.home;
        let mut free = name.to_owned();
        for number in 2_u32.. {
            match registry::find(home, &self.repository.top, &free) {
                Err(RegistryError::Unknown { .. }) => break,
                Err(error) => return Err(error.into()),
                Ok(_) => free = format!("{name}-{number}"),
            }
        }
        Ok(free)
    }

    /// Of a command that died on this branch. The sandbox that had commits for it.
    async fn bring_home(&self, branch: &BranchName) -> Result<Option<Slug>, Failure> {
        let caller = &self.options.each.caller;
        let entries = registry::list(&caller.home, Some(&self.repository.top))?.entries;
        let is_dead = |Entry { record, in_use }: &Entry| {
            !in_use && record.phase.is_unfinished() && record.branch.as_ref() == Some(branch)
        };
        let mut last = None;
        for Entry { record, .. } in entries.into_iter().filter(is_dead) {
            let target = SandboxRef {
                home: caller.home.clone(),
                git: caller.git.clone(),
                repository: self.repository.top.as_path().to_owned(),
                caller_home: caller.user_home.clone(),
                name: record.id.to_string(),
                cancel: caller.cancel.clone(),
            };
            match manage::bring_home(&target, DeleteOptions::default()).await {
                Ok(Some(done)) if done.commits > 0 => last = Some(record.name),
                Ok(_) | Err(ManageError::Registry(RegistryError::Gone(_))) => {}
                Err(_) if caller.cancel.is_cancelled() => {
                    return Err(Failure::Run(Box::new(RunError {
                        kind: RunErrorKind::Cancelled,
                        kept: Box::default(),
                    })));
                }
                Err(error) => return Err(Failure::Left(Box::new(error))),
            }
        }
        Ok(last)
    }

    fn tell(&self, task: &PlannedTask, stage: Stage, what: What<'_>) {
        self.options.events.emit(&task.name, stage, what);
    }
}
