//! Work: up to N invocations of the agent in one sandbox, until it signals completion.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attendant::Attendant;
use super::attended::Attended;
use super::budget::Spent;
use super::conversation::{ConversationError, Conversing};
use super::emitter::Emitter;
use super::error::RunErrorKind;
use super::event::{Event, Notice};
use super::expand::Expanding;
use super::options::{Resume, RunOptions};
use super::plan::{Prompt, TaskPlan};
use super::report::{Iteration, usage};
use super::stream::{AgentFailure, Bounds, Invocation};
use super::wanted::Said;
use crate::agent::AgentRequest;
use crate::runs::{Recorder, RunIteration, conversation};
use crate::sandbox::{Sandbox, killed};

/// What the iterations did so far; valid after an error too.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Everything was ready for the agent.
    pub prepared: bool,
    pub iterations: Vec<Iteration>,
    pub completion: Option<String>,
    /// What the agent said itself.
    pub said: Said,
    /// What it gave back.
    pub output: Option<serde_json::Value>,
}

/// Between two tries where the model says "not now" and not until when: longer each time.
const WAITS: [Duration; 4] = [
    Duration::from_mins(1),
    Duration::from_mins(2),
    Duration::from_mins(5),
    Duration::from_mins(10),
];
/// So much more where it says until when: clocks differ.
const CLOCKS: Duration = Duration::from_secs(5);
/// What an agent is told that goes on with its own conversation after a wait.
const GO_ON: &str = "Go on where you were.";

/// Where an agent works, and what for.
#[derive(Clone, Copy)]
pub(super) struct Iterating<'a> {
    pub options: &'a RunOptions,
    pub plan: &'a TaskPlan,
    pub sandbox: &'a dyn Sandbox,
    /// Where the repository is inside.
    pub workdir: &'a Path,
    pub events: &'a Emitter,
}

/// The conversation that is gone on with.
#[derive(Debug, Default)]
struct Talk {
    /// The one that there is.
    session: Option<String>,
    /// What it has cost, where its program counts that from its beginning.
    cost: u64,
    /// The next start continues it, and that in a copy.
    resumes: bool,
    forks: bool,
}

/// How far a run is.
struct Going<'a> {
    work: &'a mut Work,
    recorder: &'a mut Recorder,
    talk: Talk,
    /// When the budget of time is used up.
    until: Option<Instant>,
    waited: Duration,
}

/// Runs the iterations. `work` grows as they end.
pub(super) async fn iterate(
    here: Iterating<'_>,
    work: &mut Work,
    recorder: &mut Recorder,
) -> Result<(), RunErrorKind> {
    let task = &here.options.task;
    let mut going = Going {
        work,
        recorder,
        talk: Talk::default(),
        until: task.budget.time.map(|time| Instant::now() + time),
        waited: Duration::ZERO,
    };
    if let Some(resume) = &task.resume {
        here.give(resume).await?;
        going.talk = Talk {
            session: Some(resume.session.clone()),
            cost: resume.cost_micro_usd,
            resumes: true,
            forks: resume.fork,
        };
    }
    if let Some(attendant) = &task.attendant {
        return here.attended(attendant.as_ref(), &mut going).await;
    }
    for _ in 0..task.max_iterations.get() {
        let text = here.expand(&going).await?;
        here.once(text, &mut going).await?;
        going.talk.resumes = task.resume.is_some();
        if going.work.completion.is_some() {
            break;
        }
    }
    here.output(&mut going).await
}

impl Iterating<'_> {
    fn place<'b>(&'b self, cancel: &'b CancellationToken) -> Conversing<'b> {
        Conversing {
            sandbox: self.sandbox,
            agent: self.options.task.agent.as_ref(),
            environment: &self.plan.environment,
            workdir: self.workdir,
            cancel,
        }
    }

    /// Puts an earlier conversation where the agent's program looks for it.
    async fn give(&self, resume: &Resume) -> Result<(), RunErrorKind> {
        let place = self.place(&self.options.caller.cancel);
        let Some(directory) = &resume.files else {
            if resume.kept && !place.has(&resume.session).await? {
                return Err(ConversationError::MadeRoom.into());
            }
            return Ok(());
        };
        let files = conversation::read(directory).map_err(ConversationError::from)?;
        if files.is_empty() {
            let id = crate::text::printable_line(&resume.session);
            return Err(ConversationError::NotKept { id }.into());
        }
        Ok(place.give(&resume.session, files).await?)
    }

    /// Starts the agent with a prompt, and again where it has to wait for its model.
    async fn once(&self, prompt: String, going: &mut Going<'_>) -> Result<(), RunErrorKind> {
        let mut prompt = prompt;
        let mut tries = 0;
        loop {
            let Err(error) = self.start(&prompt, going).await else {
                return Ok(());
            };
            let RunErrorKind::Agent {
                failure: AgentFailure::Quota { detail, until },
                ..
            } = &error
            else {
                return Err(error);
            };
            let Some(wait) = self.waits(tries, *until, going.waited) else {
                return Err(error);
            };
            let text = format!(
                "a limit of the model's was reached ({}); it goes on in {} min",
                crate::text::printable_line(detail),
                wait.as_secs().div_ceil(60)
            );
            self.events.notice(Notice::Other { text });
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.options.caller.cancel.cancelled() => return Err(RunErrorKind::Cancelled),
            }
            tries += 1;
            going.waited += wait;
            going.until = going.until.map(|until| until + wait);
            if going.talk.session.is_some() && self.can_resume(&going.talk) {
                going.talk.resumes = true;
                GO_ON.clone_into(&mut prompt);
            }
        }
    }

    /// How long to wait; `None`: not any longer.
    fn waits(&self, tries: usize, until: Option<Timestamp>, waited: Duration) -> Option<Duration> {
        let most = self.options.task.wait_for_quota?;
        let usual = WAITS[tries.min(WAITS.len() - 1)];
        let said = until.map(|until| {
            let left = until.duration_since(Timestamp::now());
            Duration::try_from(left).unwrap_or_default() + CLOCKS
        });
        let wait = said.unwrap_or(usual);
        (waited + wait <= most).then_some(wait)
    }

    fn can_resume(&self, talk: &Talk) -> bool {
        let mut request = AgentRequest::new(GO_ON);
        request.resume.clone_from(&talk.session);
        self.options.task.agent.command(&request).is_ok()
    }

    /// One start of the agent, written down whatever came of it.
    async fn start(&self, prompt: &str, going: &mut Going<'_>) -> Result<(), RunErrorKind> {
        let Self {
            options,
            plan,
            events,
            ..
        } = *self;
        if options.caller.cancel.is_cancelled() {
            return Err(RunErrorKind::Cancelled);
        }
        let iteration = u32::try_from(going.work.iterations.len() + 1).unwrap_or(u32::MAX);
        let used = usage(&going.work.iterations);
        if let Some(spent) = options.task.budget.passed(&used) {
            // Told at the end of the one before, where nothing was left to be ended.
            return Err(RunErrorKind::Agent {
                agent: options.task.agent.name().to_owned(),
                iteration: iteration - 1,
                failure: AgentFailure::Budget(spent),
            });
        }
        events.emit(&Event::IterationStarted {
            iteration,
            of: options.task.max_iterations.get(),
            prompt_bytes: prompt.len(),
        });
        let talk = &going.talk;
        let request = self.request(prompt, talk);
        let counts_all = options.task.agent.tells_cost_of_conversation();
        let cost_before = if counts_all && request.resume.is_some() {
            talk.cost
        } else {
            0
        };
        let invocation = Invocation {
            sandbox: self.sandbox,
            agent: options.task.agent.as_ref(),
            request,
            environment: &plan.environment,
            signals: &options.task.completion_signals,
            idle_timeout: options.task.idle_timeout,
            grace: options.task.completion_grace,
            iteration,
            bounds: Bounds {
                budget: options.task.budget,
                used,
                until: going.until,
                cost_before,
            },
            events,
            cancel: &options.caller.cancel,
            abandon: &options.caller.abandon,
        };
        let killed = killed(self.sandbox.group_memory());
        let (seen, result) = invocation.run().await;
        self.tell_killed(killed);
        events.emit(&Event::IterationFinished {
            iteration,
            started: seen.started,
            exit: seen.exit,
            completed: seen.completed.is_some(),
        });
        let mut known = RunIteration::new(iteration, seen.exit, seen.session.clone(), seen.usage);
        if let Some(session) = &seen.session {
            self.keep(session, &mut known, going.recorder).await;
            going.talk.session = Some(session.clone());
            let own = seen.usage.and_then(|usage| usage.cost_micro_usd);
            going.talk.cost = cost_before + own.unwrap_or(0);
            going.talk.forks = false;
        }
        going.work.iterations.push(Iteration {
            number: iteration,
            exit: seen.exit,
            session: seen.session,
            usage: seen.usage,
            result: seen.result,
            kept: known.kept,
        });
        going.work.said.add(seen.said.text());
        going.recorder.iteration(known)?;
        going.work.completion = seen.completed;
        match result {
            Ok(()) => Ok(()),
            Err(AgentFailure::Cancelled) => Err(RunErrorKind::Cancelled),
            Err(failure) => Err(RunErrorKind::Agent {
                agent: options.task.agent.name().to_owned(),
                iteration,
                failure,
            }),
        }
    }

    /// Says how many more processes the kernel has killed for want of memory than those.
    fn tell_killed(&self, before: u64) {
        let all = killed(self.sandbox.group_memory());
        let processes = all.saturating_sub(before);
        if processes > 0 {
            self.events.notice(Notice::KilledForMemory { processes });
        }
    }

    /// What the agent's program is started with.
    fn request(&self, prompt: &str, talk: &Talk) -> AgentRequest {
        let mut request = AgentRequest::new(prompt);
        // Without a sandbox its user is the one who lets it.
        request.skip_permissions = !self.options.session.on_host;
        request.logged_in = self.plan.login.is_some();
        request.environment.clone_from(&self.plan.environment);
        request.directory = Some(self.workdir.to_owned());
        request.resume = talk.session.clone().filter(|_| talk.resumes);
        request.fork = talk.forks && talk.resumes;
        request
    }

    /// One start, in which a person works with the agent.
    async fn attended(
        &self,
        attendant: &dyn Attendant,
        going: &mut Going<'_>,
    ) -> Result<(), RunErrorKind> {
        let (options, plan) = (self.options, self.plan);
        let agent = options.task.agent.as_ref();
        let prompt = self.expand(going).await?;
        self.events.emit(&Event::IterationStarted {
            iteration: 1,
            of: 1,
            prompt_bytes: prompt.len(),
        });
        let request = self.request(&prompt, &going.talk);
        let began = Timestamp::now().as_second();
        let attended = Attended {
            sandbox: self.sandbox,
            agent,
            request,
            environment: &plan.environment,
            attendant,
            cancel: &options.caller.cancel,
        };
        let killed = killed(self.sandbox.group_memory());
        let ended = attended.run().await;
        self.tell_killed(killed);
        let exit = ended.as_ref().ok().copied();
        self.events.emit(&Event::IterationFinished {
            iteration: 1,
            started: !matches!(
                ended,
                Err(AgentFailure::Request(_) | AgentFailure::Sandbox(_))
            ),
            exit,
            completed: false,
        });
        let session = match self.place(&options.caller.abandon).newest(began).await {
            Ok(session) => session,
            Err(ConversationError::Cancelled) => None,
            Err(error) => {
                self.not_kept(&error);
                None
            }
        };
        let mut known = RunIteration::new(1, exit, session.clone(), None);
        if let Some(session) = &session {
            self.keep(session, &mut known, going.recorder).await;
        }
        going.work.iterations.push(Iteration {
            number: 1,
            exit,
            session,
            usage: None,
            result: None,
            kept: known.kept,
        });
        going.recorder.iteration(known)?;
        match ended {
            Ok(_) => Ok(()),
            Err(AgentFailure::Cancelled) => Err(RunErrorKind::Cancelled),
            Err(failure) => Err(RunErrorKind::Agent {
                agent: agent.name().to_owned(),
                iteration: 1,
                failure,
            }),
        }
    }

    /// Keeps the agent's conversation. Without it the run is the same.
    async fn keep(&self, session: &str, known: &mut RunIteration, recorder: &Recorder) {
        // One that was cancelled is gone on with too.
        let taken = self.place(&self.options.caller.abandon).take(session).await;
        let kept = taken.and_then(|files| {
            let bytes = recorder.keep(known.number, &files)?;
            Ok((files.len(), bytes))
        });
        let why = match kept {
            Ok((0, _)) if self.options.task.agent.sessions().is_some() => {
                "it is in no file of its own".to_owned()
            }
            Ok((files, bytes)) => {
                (known.kept, known.kept_bytes) = (files, bytes);
                return;
            }
            Err(error) => error.to_string(),
        };
        self.not_kept(&why);
    }

    fn not_kept(&self, why: &impl std::fmt::Display) {
        let text = format!("the agent's conversation was not kept: {why}");
        self.events.notice(Notice::Other { text });
    }

    /// Looks for what the agent was to give back, and asks it again where it is not as it should be.
    async fn output(&self, going: &mut Going<'_>) -> Result<(), RunErrorKind> {
        let Some(output) = &self.options.task.output else {
            return Ok(());
        };
        let mut left = output.retries;
        loop {
            let mut error = match output.find(going.work.said.text()) {
                Ok(value) => {
                    going.work.output = Some(value);
                    return Ok(());
                }
                Err(error) => error,
            };
            let can_ask = going.talk.session.is_some() && self.can_resume(&going.talk);
            if left == 0 || !can_ask {
                error.unasked = left > 0;
                return Err(error.into());
            }
            left -= 1;
            let text = format!(
                "{}; it is asked again",
                crate::text::printable_line(&error.to_string())
            );
            self.events.notice(Notice::Other { text });
            let completion = going.work.completion.take();
            going.talk.resumes = true;
            going.work.said = Said::default();
            self.once(output.again(&error), going).await?;
            going.work.completion = completion.or(going.work.completion.take());
        }
    }

    /// The prompt of one iteration: shell expressions are expanded in the sandbox every time (S2-26), within the run's time.
    async fn expand(&self, going: &Going<'_>) -> Result<String, RunErrorKind> {
        let (options, sandbox) = (self.options, self.sandbox);
        let environment = &self.plan.environment;
        let template = match &self.plan.prompt {
            Prompt::Plain(text) => return Ok(text.clone()),
            Prompt::Template(template) => template,
        };
        let cancel = options.caller.cancel.child_token();
        let expanding = Expanding {
            sandbox,
            environment,
            limit: options.session.timeouts.expression,
            cancel: &cancel,
        };
        let outputs = expanding.outputs(template);
        tokio::pin!(outputs);
        let (Some(until), Some(time)) = (going.until, options.task.budget.time) else {
            return Ok(template.render(&outputs.await?));
        };
        tokio::select! {
            outputs = &mut outputs => Ok(template.render(&outputs?)),
            () = tokio::time::sleep_until(until) => {
                cancel.cancel();
                // They are ended when it returns.
                let _ = outputs.await;
                Err(RunErrorKind::Agent {
                    agent: options.task.agent.name().to_owned(),
                    iteration: u32::try_from(going.work.iterations.len() + 1).unwrap_or(u32::MAX),
                    failure: AgentFailure::Budget(Spent::Time(time)),
                })
            }
        }
    }
}
