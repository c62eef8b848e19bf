//! The view of a plan that is run: one line for each task, and what each says, from a thread of its own as the view of a run is.

use std::collections::BTreeMap;
use std::io::{self, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use cofferdam::plan::{PlanEvent, PlanSink, Stage, What};
use cofferdam::session::{Event, Kept, RunReport};
use cofferdam::text::printable_line;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::termios::{Winsize, tcgetwinsize};
use serde::Serialize;

use super::live::{Mode, mark};
use super::steps::{Narrator, Verbosity};
use super::style::{self, paint};
use super::table::fit;
use super::{human, json, output};

/// So many tasks have a line of their own from the beginning; of more only those at work have one.
const LINES: usize = 20;
/// So many events of agents may wait to be shown; further ones are left out, and are in the run logs.
const WAITING: usize = 20_000;
/// How often one looks whether the terminal has another size, while nothing happens.
const LOOKS: Duration = Duration::from_millis(200);
/// Columns of a task's name in the table.
const NAME: usize = 24;

/// One line of `--json`: an event with the task that it is of.
#[derive(Serialize)]
struct Line<'a> {
    version: u32,
    task: &'a str,
    stage: Stage,
    #[serde(flatten)]
    said: Said<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Said<'a> {
    Run(&'a Event),
    Task(Told<'a>),
}

/// What is said of a task beside the events of its runs.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Told<'a> {
    TaskStarted {
        branch: &'a str,
    },
    Finished {
        report: &'a RunReport,
    },
    Failed {
        error: String,
        kept: Option<&'a Kept>,
    },
    TaskDoneBefore,
    TaskSkipped {
        after: &'a str,
    },
}

enum Message {
    Event(String, Stage, Box<Event>),
    State(String, State),
    Json(String),
    Say(String),
    Finish,
}

/// How a task is.
enum State {
    AtWork { branch: String, stage: Stage },
    Done(String),
    Failed(String),
}

/// A running view.
#[derive(Debug)]
pub(crate) struct TasksView {
    feed: Feed,
    thread: JoinHandle<()>,
}

/// The end that tasks, or a signal, speak into.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    sender: Sender<Message>,
    waiting: Arc<AtomicUsize>,
    mode: Mode,
}

impl Feed {
    /// A sentence of the command itself.
    pub(crate) fn say(&self, text: &str) {
        self.send(Message::Say(text.to_owned()));
    }

    fn event(&self, PlanEvent { task, stage, what }: PlanEvent<'_>) {
        if self.mode == Mode::Json {
            let line = json_line(task.as_str(), stage, what);
            return self.send(Message::Json(line.unwrap_or_default()));
        }
        let task = task.to_string();
        let state = match what {
            What::Run(event) => {
                let chatter = matches!(event, Event::Agent { .. } | Event::AgentError { .. });
                if !chatter || self.waiting.load(Ordering::Relaxed) < WAITING {
                    self.send(Message::Event(task, stage, Box::new(event.clone())));
                }
                return;
            }
            What::Started { branch } => State::AtWork {
                branch: printable_line(branch.as_str()),
                stage,
            },
            What::Finished(report) => {
                let commits = human::plural(report.commits.len(), "commit");
                let who = match stage {
                    Stage::Work => "done",
                    Stage::Review => "reviewed",
                };
                State::Done(format!("{who}, {commits}"))
            }
            What::Before => State::Done("done before".to_owned()),
            What::Failed(failure) => {
                State::Failed(format!("failed: {}", crate::error::message(failure)))
            }
            What::Skipped { after } => {
                State::Failed(format!("skipped, as {after} did not end well"))
            }
            _ => return,
        };
        self.send(Message::State(task, state));
    }

    fn send(&self, message: Message) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // The view can only be gone after the tasks.
        let _ = self.sender.send(message);
    }
}

fn json_line(task: &str, stage: Stage, what: What<'_>) -> io::Result<String> {
    let said = match what {
        What::Run(event) => Said::Run(event),
        What::Started { branch } => Said::Task(Told::TaskStarted {
            branch: branch.as_str(),
        }),
        What::Finished(report) => Said::Task(Told::Finished { report }),
        What::Before => Said::Task(Told::TaskDoneBefore),
        What::Skipped { after } => Said::Task(Told::TaskSkipped {
            after: after.as_str(),
        }),
        What::Failed(failure) => Said::Task(Told::Failed {
            error: crate::error::message(failure),
            kept: match failure {
                cofferdam::plan::Failure::Run(error) => Some(&error.kept),
                _ => None,
            },
        }),
        _ => return Ok(String::new()),
    };
    json::line(&Line {
        version: json::VERSION,
        task,
        stage,
        said,
    })
}

impl TasksView {
    pub(crate) fn start(
        mode: Mode,
        names: Vec<String>,
        verbosity: Verbosity,
        colour: bool,
    ) -> io::Result<Self> {
        let (sender, receiver) = channel();
        let feed = Feed {
            sender,
            waiting: Arc::default(),
            mode,
        };
        let waiting = Arc::clone(&feed.waiting);
        let thread = std::thread::Builder::new()
            .name("tasks-view".into())
            .spawn(move || {
                let table = (mode == Mode::Terminal && verbosity != Verbosity::Quiet)
                    .then(|| Table::new(&names, colour));
                let view = View {
                    verbosity,
                    colour,
                    table,
                    narrators: BTreeMap::new(),
                    waiting,
                };
                view.show(&receiver);
            })?;
        Ok(Self { feed, thread })
    }

    pub(crate) fn feed(&self) -> Feed {
        self.feed.clone()
    }

    pub(crate) fn sink(&self) -> PlanSink {
        let feed = self.feed();
        PlanSink::new(move |event| feed.event(event))
    }

    /// Shows what still waits and clears the table.
    pub(crate) async fn finish(self) {
        self.feed.send(Message::Finish);
        // Not on the runtime's thread: a stopped terminal would stop signals too.
        let _ = tokio::task::spawn_blocking(|| self.thread.join()).await;
    }
}

struct View {
    verbosity: Verbosity,
    colour: bool,
    /// On a terminal.
    table: Option<Table>,
    narrators: BTreeMap<String, Narrator>,
    waiting: Arc<AtomicUsize>,
}

impl View {
    fn show(mut self, receiver: &Receiver<Message>) {
        let mut size = tcgetwinsize(stderr()).ok();
        loop {
            let message = receiver.recv_timeout(LOOKS);
            self.fit_again(&mut size);
            let message = match message {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            match message {
                Message::Finish => break,
                // A reader that went away does not end the tasks.
                Message::Json(line) => drop(output::data(&line)),
                Message::Say(text) => self.print(&format!("cofferdam: {text}\n")),
                Message::Event(task, stage, event) => self.event(&task, stage, &event),
                Message::State(task, state) => self.state(&task, &state),
            }
        }
        if let Some(table) = &self.table {
            table.clear();
        }
    }

    /// A line that nothing happens on is drawn anew where the terminal has another size.
    fn fit_again(&self, size: &mut Option<Winsize>) {
        let now = tcgetwinsize(stderr()).ok();
        let Some(table) = self.table.as_ref().filter(|_| now != *size) else {
            return;
        };
        *size = now;
        for bar in table.bars.values().chain(&table.rest) {
            bar.tick();
        }
    }

    fn event(&mut self, task: &str, stage: Stage, event: &Event) {
        // Where there is a table, it tells the story.
        let told = match (&self.table, self.verbosity) {
            (Some(_), Verbosity::Normal) => Verbosity::Quiet,
            (_, verbosity) => verbosity,
        };
        let narrator = self.narrators.entry(task.to_owned());
        let narrator = narrator.or_insert_with(|| Narrator::new(told, false));
        let lines = narrator.tell(event);
        let status = narrator.status.clone();
        let mut text = String::new();
        for line in &lines {
            text.push_str(&format!("{task}: {}\n", mark(line, self.colour)));
        }
        if let Some(table) = &mut self.table {
            table.status(task, stage, &status, event);
        }
        if !text.is_empty() {
            self.print(&text);
        }
    }

    fn state(&mut self, task: &str, state: &State) {
        if let Some(table) = &mut self.table {
            return table.state(task, state);
        }
        let text = match state {
            State::AtWork {
                branch,
                stage: Stage::Work,
            } => format!("at work on branch {branch}"),
            State::AtWork { branch, .. } => format!("a review begins of branch {branch}"),
            State::Done(text) | State::Failed(text) => text.clone(),
        };
        if self.verbosity > Verbosity::Quiet || matches!(state, State::Failed(_)) {
            self.print(&format!("{task}: {text}\n"));
        }
    }

    fn print(&self, text: &str) {
        match &self.table {
            Some(table) => table.all.suspend(|| output::note(text)),
            None => output::note(text),
        }
    }
}

/// One line for each task.
struct Table {
    all: MultiProgress,
    bars: BTreeMap<String, ProgressBar>,
    /// Where there are too many for a line each.
    rest: Option<ProgressBar>,
    waiting: usize,
    colour: bool,
}

impl Table {
    fn new(names: &[String], colour: bool) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let mut table = Self {
            all,
            bars: BTreeMap::new(),
            rest: None,
            waiting: names.len(),
            colour,
        };
        if names.len() > LINES {
            table.rest = Some(table.all.add(bar()));
            table.count();
        } else {
            for name in names {
                let bar = table.add(name);
                bar.set_message(paint("waiting", style::FAINT, colour));
            }
        }
        table
    }

    fn add(&mut self, name: &str) -> ProgressBar {
        let bar = match &self.rest {
            Some(rest) => self.all.insert_before(rest, bar()),
            None => self.all.add(bar()),
        };
        bar.set_prefix(format!("{:NAME$}", fit(name, NAME)));
        self.bars.insert(name.to_owned(), bar.clone());
        bar
    }

    fn count(&self) {
        if let Some(rest) = &self.rest {
            rest.set_prefix(format!("{:NAME$}", format!("{} more", self.waiting)));
            rest.set_message(paint("waiting", style::FAINT, self.colour));
        }
    }

    fn status(&self, task: &str, stage: Stage, status: &str, event: &Event) {
        let Some(bar) = self.bars.get(task) else {
            return;
        };
        if let Event::IterationStarted { iteration, of, .. } = event {
            bar.set_position((*iteration).into());
            bar.set_length((*of).into());
        }
        let iteration = match (bar.position(), bar.length()) {
            (at, Some(of)) if of > 1 && at > 0 => format!("{at}/{of}  "),
            _ => String::new(),
        };
        let review = match stage {
            Stage::Work => "",
            Stage::Review => "review  ",
        };
        bar.set_message(format!("{review}{iteration}{}", fit(status, 200)));
    }

    fn state(&mut self, task: &str, state: &State) {
        let bar = self.bars.get(task).cloned();
        let begins = bar.is_none();
        let bar = bar.unwrap_or_else(|| self.add(task));
        match state {
            State::AtWork { branch, stage } => {
                if *stage == Stage::Work {
                    self.waiting = self.waiting.saturating_sub(1);
                }
                bar.reset();
                bar.enable_steady_tick(Duration::from_millis(100));
                bar.set_message(format!("starting on {}", fit(branch, 100)));
            }
            State::Done(text) | State::Failed(text) => {
                let style = match state {
                    State::Failed(_) => style::ERROR,
                    _ => style::GOOD,
                };
                if begins {
                    self.waiting = self.waiting.saturating_sub(1);
                }
                let text = paint(&fit(text, 300), style, self.colour);
                bar.disable_steady_tick();
                if self.rest.is_some() {
                    self.bars.remove(task);
                    self.all.remove(&bar);
                    self.all
                        .suspend(|| output::note(&format!("{task}: {text}\n")));
                } else {
                    bar.set_message(text);
                }
            }
        }
        self.count();
    }

    fn clear(&self) {
        for bar in self.bars.values().chain(&self.rest) {
            bar.finish_and_clear();
        }
        let _ = self.all.clear();
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::no_length();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {wide_msg} {elapsed}") {
        bar.set_style(style.tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
    }
    bar
}
