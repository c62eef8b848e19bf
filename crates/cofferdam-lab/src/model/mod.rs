//! A model server that says what a script says: Anthropic's Messages API, OpenAI's Responses API and Chat
//! Completions, and Google's Gemini API, with streaming, tools and faults, so that the real agent programs can work
//! without the internet.
//!
//! Only requests that offer a shell or the tools of a server take a turn of the script; the small questions that
//! programs ask beside their work get an empty answer. Every request is recorded.

mod answer;
mod anthropic;
mod chat;
mod google;
mod openai;
mod pieces;
mod request;
mod script;
mod serve;
mod stage;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

pub use request::Request;
pub use script::{Fault, Script, Tool, Turn};
pub use stage::Seen;
use stage::Stage;

/// A running server, on a loopback port of its own. It ends when this is dropped.
#[derive(Debug)]
pub struct Model {
    address: SocketAddr,
    stage: Arc<Stage>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Model {
    /// Starts a server on a free port.
    pub fn start(script: impl Into<Script>) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stage = Arc::new(Stage::new(script.into()));
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
