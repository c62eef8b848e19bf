//! The live view of a run. A thread of its own writes it, so that a slow or stopped terminal holds
//! up neither the run nor Ctrl-C.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use cofferdam::session::{Event, EventSink};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::from_here::from_here;
use super::steps::{Kind, Line, Narrator};
use super::{json, output, style};

/// How the run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Events as lines of JSON on standard output.
    Json,
    /// Lines.
    Plain,
    /// Lines above a status line that moves, which is on standard error.
    Terminal,
}

/// Where the lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// The story is what was asked for.
    Output,
    Error,
}

/// So many events of the agent may wait to be shown; further ones are counted, not kept. The run
/// log has them all.
const WAITING: usize = 20_000;

enum Message {
    Event(Box<Event>),
    Say(String),
    Finish,
}

/// A running view.
#[derive(Debug)]
pub(crate) struct Live {
    feed: Feed,
    thread: JoinHandle<()>,
}

/// The end of the view that a run, or a signal, speaks into.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    sender: Sender<Message>,
    waiting: Arc<AtomicUsize>,
    skipped: Arc<AtomicUsize>,
    mode: Mode,
}

impl Feed {
    pub(crate) fn event(&self, event: &Event) {
        let chatter = matches!(event, Event::Agent { .. } | Event::AgentError { .. });
        let full = self.waiting.load(Ordering::Relaxed) >= WAITING;
        if chatter && full && self.mode != Mode::Json {
            self.skipped.fetch_add(1, Ordering::Relaxed);
        } else {
            self.send(Message::Event(Box::new(event.clone())));
        }
    }

    /// A sentence of the command itself.
    pub(crate) fn say(&self, text: &str) {
        self.send(Message::Say(text.to_owned()));
    }

    fn send(&self, message: Message) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // The view can only be gone after the run.
        let _ = self.sender.send(message);
    }
}

impl Live {
    pub(crate) fn start(
        mode: Mode,
        stream: Stream,
        narrator: Narrator,
        colour: bool,
    ) -> io::Result<Self> {
        let (sender, receiver) = channel();
        let feed = Feed {
            sender,
            waiting: Arc::default(),
            skipped: Arc::default(),
            mode,
        };
        let view = View {
            mode,
            stream,
            narrator,
            colour,
            bar: bar(mode),
            waiting: Arc::clone(&feed.waiting),
            skipped: Arc::clone(&feed.skipped),
        };
        let thread = std::thread::Builder::new()
            .name("live-view".into())
            .spawn(move || view.show(&receiver))?;
        Ok(Self { feed, thread })
    }

    pub(crate) fn feed(&self) -> Feed {
        self.feed.clone()
    }

    /// A sink that shows every event.
    pub(crate) fn sink(&self) -> EventSink {
        let feed = self.feed();
        EventSink::new(move |event| feed.event(event))
    }

    /// Shows what still waits and clears the status line.
    pub(crate) async fn finish(self) {
        self.feed.send(Message::Finish);
        // Not on the runtime's thread: a stopped terminal would stop signals too.
        let _ = tokio::task::spawn_blocking(|| self.thread.join()).await;
    }
}

struct View {
    mode: Mode,
    stream: Stream,
    narrator: Narrator,
    colour: bool,
    bar: ProgressBar,
    waiting: Arc<AtomicUsize>,
    skipped: Arc<AtomicUsize>,
}

impl View {
    fn show(mut self, receiver: &Receiver<Message>) {
        while let Ok(message) = receiver.recv() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            match message {
                Message::Finish => break,
                Message::Say(text) if self.mode != Mode::Json => {
                    self.print(&[Line {
                        kind: Kind::Warning,
                        text,
                    }]);
                }
                Message::Event(event) if self.mode == Mode::Json => {
                    // A reader that went away does not end the run.
                    let _ = json::event(&event).and_then(|line| output::data(&line));
                }
                Message::Say(text) => output::note(&format!("cofferdam: {text}\n")),
                Message::Event(event) => {
                    let lines = self.narrator.tell(&event);
                    self.print(&lines);
                    self.bar.set_message(self.narrator.status.clone());
                }
            }
        }
        self.bar.finish_and_clear();
        let skipped = self.skipped.load(Ordering::Relaxed);
        if skipped > 0 {
            output::note(&format!(
                "({skipped} lines of the agent are only in the run log)\n"
            ));
        }
    }

    fn print(&self, lines: &[Line]) {
        let mut text = String::new();
        for line in lines {
            text.push_str(&mark(line, self.colour));
            text.push('\n');
        }
        if !text.is_empty() {
            self.bar.suspend(|| match self.stream {
                // A reader that went away does not end the run.
                Stream::Output => drop(output::data(&text)),
                Stream::Error => output::note(&text),
            });
        }
    }
}

/// Every line of an agent carries a mark, so that it cannot pass as one of ours.
pub(super) fn mark(Line { kind, text }: &Line, colour: bool) -> String {
    let paint = |text: &str, style| style::paint(text, style, colour);
    match kind {
        Kind::Head => paint(text, style::STRONG),
        Kind::Step => paint(text, style::FAINT),
        Kind::Milestone => text.clone(),
        Kind::AgentText => format!("{} {text}", paint("  |", style::FAINT)),
        Kind::ToolCall => format!("{} {text}", paint("  >", style::HINT)),
        Kind::AgentError => format!("{} {text}", paint("  !", style::WARNING)),
        Kind::Detail => format!(
            "{} {}",
            paint("  .", style::FAINT),
            paint(text, style::FAINT)
        ),
        Kind::Warning => {
            let text = from_here(text);
            format!("{} {text}", paint("note:", style::WARNING))
        }
    }
}

fn bar(mode: Mode) -> ProgressBar {
    if mode != Mode::Terminal {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
        bar.set_style(style.tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
    }
    bar.set_message("starting");
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
