//! A model server that says what a script says: Anthropic's Messages API and OpenAI's Responses API,
//! with streaming, tools and faults, so that the real agent programs can work without the internet.
//!
//! Only requests that offer a shell take a turn of the script; the small questions that programs ask
//! beside their work get an empty answer. Every request is recorded.

mod answer;
mod anthropic;
mod openai;
mod request;
mod script;
mod serve;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use answer::{Answer, Language};
pub use request::Request;
pub use script::{Fault, Script, Tool, Turn};

/// A running server, on a loopback port of its own. It ends when this is dropped.
#[derive(Debug)]
pub struct Model {
    address: SocketAddr,
    stage: Arc<Stage>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the server saw and did so far.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub requests: Vec<Request>,
    /// Requests that did not fit the script, and why.
    pub complaints: Vec<String>,
    /// Answers that stopped in their middle, their program still there.
    pub hanging: usize,
    /// Programs that left such an answer.
    pub left: usize,
}

impl Seen {
    /// The requests of the agent itself, without its small questions.
    pub fn work(&self) -> impl Iterator<Item = &Request> {
        let asks = |request: &&Request| {
            Language::of(request).is_some_and(|language| language.asks_for_work(request))
        };
        self.requests.iter().filter(asks)
    }
}

/// Script and record, shared by all connections.
#[derive(Debug)]
struct Stage {
    script: Mutex<Script>,
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Model {
    /// Starts a server on a free port.
    pub fn start(script: impl Into<Script>) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stage = Arc::new(Stage {
            script: Mutex::new(script.into()),
            seen: Mutex::default(),
            changed: Condvar::new(),
        });
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let shared = stage.clone();
        let thread = std::thread::Builder::new()
            .name("model".into())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = serve::serve(listener, shared) => {}
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(Self {
            address,
            stage,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// What was seen so far.
    pub fn seen(&self) -> Seen {
        self.stage.seen().clone()
    }

    /// Waits until what was seen is as wanted; `false` after `limit`.
    pub fn wait_until(&self, limit: Duration, wanted: impl Fn(&Seen) -> bool) -> bool {
        let seen = self.stage.seen();
        let waited = self
            .stage
            .changed
            .wait_timeout_while(seen, limit, |seen| !wanted(seen));
        let (seen, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(seen);
        !timeout.timed_out()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Stage {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen());
        self.changed.notify_all();
    }

    /// Records a request and says what it gets.
    fn answer(&self, request: &Request) -> Answer {
        let mut seen = self.seen();
        seen.requests.push(request.clone());
        let number = seen.requests.len();
        drop(seen);
        let answer = match Language::of(request) {
            None => answer::other(request),
            Some(language) if !language.asks_for_work(request) => {
                answer::answer(language, request, &Turn::default(), number)
            }
            Some(language) => self.next(language, request, number),
        };
        self.changed.notify_all();
        answer
    }

    fn next(&self, language: Language, request: &Request, number: usize) -> Answer {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = script.current();
        if let Some(wanted) = &turn.after {
            let last = request.tool_results().pop().unwrap_or_default();
            if !last.contains(wanted) {
                let complaint = format!("wanted a tool's result with `{wanted}`, got `{last}`");
                let answer = answer::refusal(language, &complaint);
                self.note(|seen| seen.complaints.push(complaint));
                return answer;
            }
        }
        script.advance();
        answer::answer(language, request, &turn, number)
    }
}
