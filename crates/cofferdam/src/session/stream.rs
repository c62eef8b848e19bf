//! One invocation of the agent: its streams, its time limits and its end.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::time::Duration;

use jiff::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::budget::{Budget, Spent};
use super::emitter::Emitter;
use super::event::Event;
use super::starting::start;
use super::wanted::Said;
use crate::agent::{
    AgentError, AgentEvent, AgentProvider, AgentRequest, StreamParser, Usage, completion,
};
use crate::process::Exit;
use crate::sandbox::{BoxRead, ExecRequest, Execution, Sandbox, SandboxError};
use crate::text::LineFramer;

/// How long a stopped agent may take to save its state before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(3);
/// After the agent's exit, its pipes may be held open by what it left running: output is read until
/// it has been quiet for this long.
const DRAIN_QUIET: Duration = Duration::from_millis(100);
const DRAIN_LIMIT: Duration = Duration::from_secs(2);
/// Lines kept to explain a failure.
const TAIL_LINES: usize = 20;
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// What one invocation needs.
#[derive(Debug)]
pub(super) struct Invocation<'a> {
    pub sandbox: &'a dyn Sandbox,
    pub agent: &'a dyn AgentProvider,
    pub request: AgentRequest,
    pub environment: &'a BTreeMap<OsString, OsString>,
    pub signals: &'a [String],
    pub idle_timeout: Duration,
    pub grace: Duration,
    pub iteration: u32,
    pub bounds: Bounds,
    pub events: &'a Emitter,
    pub cancel: &'a CancellationToken,
    /// Stopping does not wait for the agent any more.
    pub abandon: &'a CancellationToken,
}

/// What is left of a run's budget.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub budget: Budget,
    /// Used by the starts before this one.
    pub used: Usage,
    /// When the time is over.
    pub until: Option<Instant>,
    /// What the conversation had cost before, where its program counts that too.
    pub cost_before: u64,
}

impl Bounds {
    /// What one start used, without what its program counts of earlier ones.
    fn own(&self, mut usage: Usage) -> Usage {
        let own = |cost: u64| cost.saturating_sub(self.cost_before);
        usage.cost_micro_usd = usage.cost_micro_usd.map(own);
        usage
    }

    fn passed(&self, usage: &Usage) -> Option<Spent> {
        let mut all = self.used;
        all += *usage;
        self.budget.passed(&all)
    }
}

/// What is known of an invocation, whether it failed or not.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// Its program ran.
    pub started: bool,
    /// `None`: ended by us, or never started.
    pub exit: Option<Exit>,
    pub completed: Option<String>,
    pub session: Option<String>,
    pub usage: Option<Usage>,
    pub result: Option<String>,
    /// What the agent said itself.
    pub said: Said,
    /// A bound that it passed.
    spent: Option<Spent>,
    /// The last final message says that it is an error.
    is_error: bool,
    tail: VecDeque<String>,
    error_tail: VecDeque<String>,
}

/// Why an invocation is no success.
#[derive(Debug, thiserror::Error)]
pub enum AgentFailure {
    /// The agent cannot serve the request.
    #[error(transparent)]
    Request(#[from] AgentError),
    /// The sandbox was lost, or did not start the program.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// Its program failed.
    #[error("the agent ended with {exit}: {detail}")]
    Exit {
        /// How it ended.
        exit: Exit,
        /// What it printed last, safe for a terminal.
        detail: String,
    },
    /// Its own final message says so, whatever its exit code.
    #[error("the agent reported an error: {0}")]
    Reported(String),
    /// It ended without the final message that its program always gives.
    #[error(
        "the agent ended without its final message, so nobody knows whether it was done{colon}{0}",
        colon = if .0.is_empty() { "" } else { ": " }
    )]
    Silent(String),
    /// It was killed after this long without output.
    #[error("the agent printed nothing for {} s", .0.as_secs())]
    Idle(Duration),
    /// The run's budget is used up: see [`super::Budget`].
    #[error("the run has used up its budget of {0}")]
    Budget(Spent),
    /// A limit of the model's, and how its program reported it.
    #[error("a limit of the model's was reached: {detail}")]
    Quota {
        /// In its own words, safe for a terminal.
        detail: String,
        /// When it ends, where that was said.
        until: Option<Timestamp>,
    },
    /// The caller cancelled it; it was killed.
    #[error("cancelled")]
    Cancelled,
}

impl Invocation<'_> {
    /// Runs the agent to its end. The observations are valid whatever the result is.
    pub(super) async fn run(&self) -> (Observed, Result<(), AgentFailure>) {
        let mut seen = Observed::default();
        let result = self.drive(&mut seen).await;
        (seen, result)
    }

    async fn drive(&self, seen: &mut Observed) -> Result<(), AgentFailure> {
        let command = self.agent.command(&self.request)?;
        let mut environment = self.environment.clone();
        environment.extend(command.environment);
        let mut request = ExecRequest::new(command.arguments);
        request.environment = environment;
        request.stdin = command.stdin.is_some();
        let mut execution = tokio::select! {
            () = self.cancel.cancelled() => return Err(AgentFailure::Cancelled),
            started = tokio::time::timeout(self.idle_timeout, start(self.sandbox, request)) => {
                started.map_err(|_| AgentFailure::Idle(self.idle_timeout))??
            }
        };
        seen.started = true;
        if let (Some(mut stdin), Some(bytes)) = (execution.take_stdin(), command.stdin) {
            // An agent may end without reading its prompt; its exit tells the story, not the pipe.
            tokio::spawn(async move {
                let _ = stdin.write_all(&bytes).await;
                let _ = stdin.shutdown().await;
            });
        }
        let parser = self.agent.parser(&self.request, self.signals);
        let mut streams = Streams::new(execution.as_mut(), parser);
        let ended = self.follow(execution.as_mut(), &mut streams, seen).await;
        if let Err(error) = ended {
            stop(execution.as_mut(), self.abandon).await;
            streams.finish(self, seen);
            return Err(error);
        }
        let is_silent = seen.result.is_none() && self.agent.tells_its_end();
        let exit = match seen.exit {
            Some(Exit::Code(0)) if seen.completed.is_none() && (seen.is_error || is_silent) => None,
            None | Some(Exit::Code(0)) => return Ok(()),
            exit => exit,
        };
        let detail = seen.explain();
        // What it printed beside its final message may be about anything.
        for detail in [detail.clone(), shown(&joined(&seen.error_tail))] {
            if let Some(quota) = self.agent.quota(&detail) {
                let until = quota.until;
                return Err(AgentFailure::Quota { detail, until });
            }
        }
        Err(match exit {
            Some(exit) => AgentFailure::Exit { exit, detail },
            None if seen.is_error => AgentFailure::Reported(detail),
            // Its own lines are no words for a person.
            None => AgentFailure::Silent(shown(&joined(&seen.error_tail))),
        })
    }

    async fn follow(
        &self,
        execution: &mut dyn Execution,
        streams: &mut Streams,
        seen: &mut Observed,
    ) -> Result<(), AgentFailure> {
        let mut last_output = Instant::now();
        let mut idle_minutes = 0;
        let mut completed_at: Option<Instant> = None;
        let mut exited_at: Option<Instant> = None;
        loop {
            let deadline = match (exited_at, completed_at) {
                (Some(at), _) => (last_output.max(at) + DRAIN_QUIET).min(at + DRAIN_LIMIT),
                (None, Some(at)) => at + self.grace,
                (None, None) => {
                    let minute = Duration::from_secs(60 * (idle_minutes + 1));
                    last_output + self.idle_timeout.min(minute)
                }
            };
            let deadline = self
                .bounds
                .until
                .map_or(deadline, |until| until.min(deadline));
            if let (Some(spent), None) = (seen.spent, exited_at) {
                return Err(AgentFailure::Budget(spent));
            }
            if exited_at.is_some() && streams.ended() {
                streams.finish(self, seen);
                return Ok(());
            }
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(AgentFailure::Cancelled),
                got = read(&mut streams.out, &mut streams.out_chunk) => {
                    last_output = Instant::now();
                    idle_minutes = 0;
                    streams.take_output(got, self, seen);
                    if seen.completed.is_some() && completed_at.is_none() {
                        completed_at = Some(last_output);
                    }
                }
                got = read(&mut streams.err, &mut streams.err_chunk) => {
                    last_output = Instant::now();
                    idle_minutes = 0;
                    streams.take_error(got, self, seen);
                }
                exit = execution.wait(), if exited_at.is_none() => {
                    seen.exit = Some(exit?);
                    exited_at = Some(Instant::now());
                }
                () = tokio::time::sleep_until(deadline) => {
                    if exited_at.is_some() {
                        streams.finish(self, seen);
                        return Ok(());
                    }
                    if completed_at.is_some() {
                        stop(execution, self.abandon).await;
                        streams.finish(self, seen);
                        return Ok(());
                    }
                    if self.bounds.until.is_some_and(|until| Instant::now() >= until) {
                        let time = self.bounds.budget.time.unwrap_or_default();
                        return Err(AgentFailure::Budget(Spent::Time(time)));
                    }
                    let idle = last_output.elapsed();
                    if idle >= self.idle_timeout {
                        return Err(AgentFailure::Idle(self.idle_timeout));
                    }
                    idle_minutes = idle.as_secs() / 60;
                    self.events.emit(&Event::Idle { iteration: self.iteration, minutes: idle_minutes });
                }
            }
        }
    }

    fn observe(&self, items: Vec<AgentEvent>, seen: &mut Observed) {
        for item in items {
            if seen.completed.is_none() {
                let said = completion(&item, &self.request.prompt, self.signals);
                seen.completed = said.map(str::to_owned);
            }
            match &item {
                AgentEvent::Session { id } => seen.session = Some(id.clone()),
                AgentEvent::Usage { usage } => {
                    let usage = self.bounds.own(*usage);
                    seen.usage = Some(usage);
                    seen.spent = self.bounds.passed(&usage);
                }
                AgentEvent::Result { text, is_error } => {
                    seen.said.add(text);
                    seen.result = Some(text.clone());
                    seen.is_error = *is_error;
                }
                AgentEvent::Text { text } => seen.said.add(text),
                AgentEvent::ToolCall { .. } | AgentEvent::Raw { .. } => {}
            }
            self.events.emit(&Event::Agent {
                iteration: self.iteration,
                at: Timestamp::now(),
                item,
            });
        }
    }
}

impl Observed {
    /// The best words for a failure: the error that it reported, else standard error, where some programs warn of this and that, else
    /// the final message, else the last output.
    fn explain(&self) -> String {
        let (err, out) = (joined(&self.error_tail), joined(&self.tail));
        let result = self.result.as_deref().unwrap_or_default();
        let reported = if self.is_error { result } else { "" };
        let best_first = [reported, &err, result, &out];
        let is_said = |text: &&str| !text.trim().is_empty();
        let text = best_first.into_iter().find(is_said).unwrap_or_default();
        if text.trim().is_empty() {
            "it printed nothing".to_owned()
        } else {
            shown(text)
        }
    }
}

fn joined(lines: &VecDeque<String>) -> String {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    lines.join("\n")
}

fn shown(text: &str) -> String {
    crate::text::printable(&crate::text::without_colours(text.trim()))
}

/// The agent's two streams, cut into lines.
#[derive(Debug)]
struct Streams {
    out: Option<BoxReadDebug>,
    err: Option<BoxReadDebug>,
    out_chunk: Vec<u8>,
    err_chunk: Vec<u8>,
    out_lines: LineFramer,
    err_lines: LineFramer,
    parser: Box<dyn StreamParser>,
    finished: bool,
}

struct BoxReadDebug(BoxRead);

impl std::fmt::Debug for BoxReadDebug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BoxRead")
    }
}

impl Streams {
    fn new(execution: &mut dyn Execution, parser: Box<dyn StreamParser>) -> Self {
        Self {
            out: execution.take_stdout().map(BoxReadDebug),
            err: execution.take_stderr().map(BoxReadDebug),
            out_chunk: vec![0; 64 << 10],
            err_chunk: vec![0; 16 << 10],
            out_lines: LineFramer::default(),
            err_lines: LineFramer::default(),
            parser,
            finished: false,
        }
    }

    fn ended(&self) -> bool {
        self.out.is_none() && self.err.is_none()
    }

    fn take_output(&mut self, got: usize, run: &Invocation<'_>, seen: &mut Observed) {
        if got == 0 {
            self.out = None;
            return;
        }
        let Self {
            out_lines,
            out_chunk,
            parser,
            ..
        } = self;
        let mut items = Vec::new();
        out_lines.push(&out_chunk[..got], |line| {
            keep(&mut seen.tail, line.bytes);
            items.extend(parser.line(line.bytes, line.truncated));
        });
        run.observe(items, seen);
    }

    fn take_error(&mut self, got: usize, run: &Invocation<'_>, seen: &mut Observed) {
        if got == 0 {
            self.err = None;
            return;
        }
        let Self {
            err_lines,
            err_chunk,
            ..
        } = self;
        err_lines.push(&err_chunk[..got], |line| error_line(line.bytes, run, seen));
    }

    /// Flushes what has no line feed at its end and tells the parser.
    fn finish(&mut self, run: &Invocation<'_>, seen: &mut Observed) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let mut items = Vec::new();
        let parser = &mut self.parser;
        self.out_lines.finish(|line| {
            keep(&mut seen.tail, line.bytes);
            items.extend(parser.line(line.bytes, line.truncated));
        });
        items.extend(parser.end());
        run.observe(items, seen);
        self.err_lines
            .finish(|line| error_line(line.bytes, run, seen));
    }
}

fn error_line(line: &[u8], run: &Invocation<'_>, seen: &mut Observed) {
    keep(&mut seen.error_tail, line);
    let line = String::from_utf8_lossy(line).into_owned();
    run.events.emit(&Event::AgentError {
        iteration: run.iteration,
        line,
    });
}

fn keep(tail: &mut VecDeque<String>, line: &[u8]) {
    if line.iter().all(u8::is_ascii_whitespace) {
        return;
    }
    if tail.len() == TAIL_LINES {
        tail.pop_front();
    }
    tail.push_back(String::from_utf8_lossy(&line[..line.len().min(2000)]).into_owned());
}

/// Reads a chunk; an ended stream is never ready, an error is the end.
async fn read(stream: &mut Option<BoxReadDebug>, chunk: &mut [u8]) -> usize {
    match stream {
        Some(open) => open.0.read(chunk).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// Asks the agent to end, then ends it; at once where nobody wants to wait.
async fn stop(execution: &mut dyn Execution, abandon: &CancellationToken) {
    for signal in [SIGTERM, SIGKILL] {
        let ended = async {
            let _ = execution.kill(signal).await;
            let _ = execution.wait().await;
        };
        tokio::select! {
            () = abandon.cancelled(), if signal == SIGTERM => {}
            ended = tokio::time::timeout(STOP_GRACE, ended) => {
                if ended.is_ok() {
                    return;
                }
            }
        }
    }
}
