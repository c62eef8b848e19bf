//! The host's end of the control socket: requests with a bound each, replies told apart. Nothing
//! that arrives is trusted: what is no reply ends the connection, and a reply to a question that
//! nobody waits for any more costs nothing.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cofferdam_guest::protocol::{
    self, ExecStep, FrameError, GuestExit, MAX_FRAME, ProgramEntry, Reply, Request, Status, Stop,
};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::stream::{self, Received};
use crate::sandbox::{Exit, ProgramFault, SandboxError};

/// How long a healthy guest may take, on a machine that is busy, to execute a program.
pub(in crate::sandbox) const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Why a program was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotStarted {
    Failed { step: ExecStep, errno: i32 },
    Stopped(Stop),
}

/// What a question was answered with.
#[derive(Debug)]
pub(super) enum Answer {
    Done,
    /// The error number.
    Failed(i32),
    Status(Status),
    Programs(Vec<ProgramEntry>),
    /// Bytes.
    Memory(u64),
    Descriptors(Vec<OwnedFd>),
    Stopped(Stop),
}

#[derive(Debug)]
struct Outgoing {
    frame: Vec<u8>,
    fds: Vec<OwnedFd>,
}

#[derive(Debug)]
struct Slot {
    started: Option<oneshot::Sender<Result<u64, NotStarted>>>,
    exit: watch::Sender<Option<Exit>>,
}

#[derive(Debug, Default)]
struct State {
    /// Numbers below were given out.
    next: u64,
    programs: HashMap<u64, Slot>,
    questions: HashMap<u64, oneshot::Sender<Answer>>,
    gone: Option<String>,
}

impl State {
    fn know(&self, number: u64) -> Result<(), &'static str> {
        if number < self.next {
            Ok(())
        } else {
            Err("an unknown number")
        }
    }

    fn not_started(&mut self, exec: u64, why: NotStarted) -> Result<(), &'static str> {
        self.know(exec)?;
        if let Some(slot) = self.programs.remove(&exec)
            && let Some(started) = slot.started
        {
            let _ = started.send(Err(why));
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    end: CancellationToken,
    /// Bounds every question but the one for a program's end.
    limit: Duration,
    /// A second descriptor of the socket: the end is heard even if no task runs any more.
    socket: Option<OwnedFd>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first reason stays. Everyone who waits hears of it.
    fn end(&self, reason: impl Into<String>) {
        let mut state = self.state();
        state.gone.get_or_insert_with(|| reason.into());
        state.programs.clear();
        state.questions.clear();
        drop(state);
        if let Some(socket) = &self.socket {
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        }
        self.end.cancel();
    }

    fn gone(&self) -> SandboxError {
        let reason = self.state().gone.clone();
        SandboxError::Gone(reason.unwrap_or_else(|| "it does not answer".to_owned()))
    }
}

/// Talks to one guest. Cheap to clone; [`Connection::end`] ends it for all.
#[derive(Debug, Clone)]
pub(in crate::sandbox) struct Connection {
    outgoing: mpsc::Sender<Outgoing>,
    shared: Arc<Shared>,
}

impl Connection {
    /// Takes over a stream whose guest is ready.
    pub(in crate::sandbox) fn new(stream: UnixStream) -> Self {
        Self::with_limit(stream, ANSWER_LIMIT)
    }

    fn with_limit(stream: UnixStream, limit: Duration) -> Self {
        let end = CancellationToken::new();
        let socket = stream.as_fd().try_clone_to_owned().ok();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            end,
            limit,
            socket,
        });
        let (outgoing, queue) = mpsc::channel(16);
        let (read, write) = stream.into_split();
        tokio::spawn(write_requests(write, queue, Arc::clone(&shared)));
        tokio::spawn(read_replies(read, Arc::clone(&shared)));
        Self { outgoing, shared }
    }

    /// Closes the socket, which ends a sandbox that lives as long as this connection.
    pub(in crate::sandbox) fn end(&self, reason: &str) {
        self.shared.end(reason);
    }

    /// Returns when the connection has ended, for whatever reason.
    pub(in crate::sandbox) async fn ended(&self) {
        self.shared.end.cancelled().await;
    }

    /// Starts a program with these three standard descriptors.
    pub(super) async fn exec(
        &self,
        make: impl FnOnce(u64) -> Request,
        fds: Vec<OwnedFd>,
    ) -> Result<Result<Program, NotStarted>, SandboxError> {
        let (started, wait) = oneshot::channel();
        let (exit, ended) = watch::channel(None);
        let number = self.number(|state, number| {
            state.programs.insert(
                number,
                Slot {
                    started: Some(started),
                    exit,
                },
            );
        })?;
        let answer = self.ask(&make(number), fds, wait).await;
        if !matches!(answer, Ok(Ok(_))) {
            self.shared.state().programs.remove(&number);
        }
        if matches!(answer, Err(SandboxError::TimedOut(_))) {
            // It may still start, and then nobody would own it.
            self.forget(number);
        }
        Ok(answer?.map(|program| Program {
            exec: number,
            number: program,
            ended,
            connection: self.clone(),
        }))
    }

    /// Asks for something.
    pub(super) async fn answer(
        &self,
        make: impl FnOnce(u64) -> Request,
    ) -> Result<Answer, SandboxError> {
        let (asked, wait) = self.asked()?;
        self.ask(&make(asked.number), Vec::new(), wait).await
    }

    /// Asks for something with streams, and waits for the answer as long as it takes. Whoever waits no longer lets go of
    /// the streams' other ends, and that ends it inside.
    pub(super) async fn answer_whenever(
        &self,
        make: impl FnOnce(u64) -> Request,
        streams: Vec<OwnedFd>,
    ) -> Result<Answer, SandboxError> {
        let (asked, wait) = self.asked()?;
        self.send(&make(asked.number), streams).await?;
        wait.await.map_err(|_| self.shared.gone())
    }

    fn asked(&self) -> Result<(Asked<'_>, oneshot::Receiver<Answer>), SandboxError> {
        let (sender, wait) = oneshot::channel();
        let number = self.number(|state, number| {
            state.questions.insert(number, sender);
        })?;
        let shared = &self.shared;
        Ok((Asked { shared, number }, wait))
    }

    /// Asks for something that is either done or refused with an error number.
    pub(super) async fn question(
        &self,
        make: impl FnOnce(u64) -> Request,
    ) -> Result<(), SandboxError> {
        match self.answer(make).await? {
            Answer::Done => Ok(()),
            other => Err(refused(&other)),
        }
    }

    /// Says something that the end of the connection answers.
    pub(in crate::sandbox) async fn say(&self, request: &Request) {
        if let Ok(frame) = protocol::encode(request) {
            let fds = Vec::new();
            let _ = self.outgoing.send(Outgoing { frame, fds }).await;
        }
    }

    /// Kills a program without waiting for an answer.
    fn forget(&self, exec: u64) {
        let Ok(request) = self.number(|_, _| {}) else {
            return;
        };
        let request = Request::Signal {
            request,
            exec,
            signal: libc::SIGKILL,
        };
        if let Ok(frame) = protocol::encode(&request) {
            let _ = self.outgoing.try_send(Outgoing {
                frame,
                fds: Vec::new(),
            });
        }
    }

    fn number(&self, register: impl FnOnce(&mut State, u64)) -> Result<u64, SandboxError> {
        let mut state = self.shared.state();
        if state.gone.is_some() {
            drop(state);
            return Err(self.shared.gone());
        }
        let number = state.next;
        state.next += 1;
        register(&mut state, number);
        Ok(number)
    }

    async fn send(&self, request: &Request, fds: Vec<OwnedFd>) -> Result<(), SandboxError> {
        let frame = protocol::encode(request).map_err(|error| SandboxError::Program {
            program: String::new(),
            fault: ProgramFault::Other,
            reason: match (error, request) {
                (FrameError::TooLong(bytes), Request::Exec { .. }) => format!(
                    "its arguments and variables are too long: {bytes} bytes, and {MAX_FRAME} are the most; a file or its input can be longer"
                ),
                _ => error.to_string(),
            },
        })?;
        let sent = self.outgoing.send(Outgoing { frame, fds }).await;
        sent.map_err(|_| self.shared.gone())
    }

    async fn ask<T>(
        &self,
        request: &Request,
        fds: Vec<OwnedFd>,
        wait: oneshot::Receiver<T>,
    ) -> Result<T, SandboxError> {
        let answered = async {
            self.send(request, fds).await?;
            wait.await.map_err(|_| self.shared.gone())
        };
        let limit = self.shared.limit;
        tokio::time::timeout(limit, answered)
            .await
            .unwrap_or(Err(SandboxError::TimedOut(limit.as_secs())))
    }
}

/// A question for as long as somebody waits: whoever stops waiting takes it back, in whichever way.
#[derive(Debug)]
struct Asked<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.shared.state().questions.remove(&self.number);
    }
}

/// An answer that is none to what was asked.
pub(super) fn refused(answer: &Answer) -> SandboxError {
    SandboxError::Gone(match answer {
        Answer::Stopped(stop) => return standing(*stop),
        Answer::Failed(errno) => {
            format!("it refused: {}", io::Error::from_raw_os_error(*errno))
        }
        _ => "it answered something else".to_owned(),
    })
}

/// Nothing is begun in a sandbox that stands still.
pub(super) fn standing(stop: Stop) -> SandboxError {
    match stop {
        Stop::Pause => SandboxError::Paused,
        Stop::Freeze => SandboxError::Frozen,
        Stop::Unwatched => SandboxError::Unwatched,
    }
}

/// A started program.
#[derive(Debug)]
pub(super) struct Program {
    /// Its number on this connection.
    exec: u64,
    /// The sandbox's own number for it.
    pub(super) number: u64,
    ended: watch::Receiver<Option<Exit>>,
    connection: Connection,
}

impl Program {
    /// Cancel safe.
    pub(super) async fn wait(&mut self) -> Result<Exit, SandboxError> {
        match self.ended.wait_for(Option::is_some).await.map(|exit| *exit) {
            Ok(Some(exit)) => Ok(exit),
            _ => Err(self.connection.shared.gone()),
        }
    }

    pub(super) async fn signal(&self, signal: i32) -> Result<(), SandboxError> {
        let exec = self.exec;
        self.connection
            .question(|request| Request::Signal {
                request,
                exec,
                signal,
            })
            .await
    }
}

async fn write_requests(
    write: OwnedWriteHalf,
    mut queue: mpsc::Receiver<Outgoing>,
    shared: Arc<Shared>,
) {
    let work = async {
        while let Some(message) = queue.recv().await {
            if let Err(error) = stream::send(write.as_ref(), &message.frame, &message.fds).await {
                shared.end(format!("cannot write to its init: {error}"));
                return;
            }
        }
        shared.end("closed");
    };
    tokio::select! {
        () = shared.end.cancelled() => {}
        () = work => {}
    }
    // Also a guest that only listens must hear the end, while the other half is still held.
    let _ = rustix::net::shutdown(write.as_ref(), rustix::net::Shutdown::Both);
}

async fn read_replies(read: OwnedReadHalf, shared: Arc<Shared>) {
    let work = async {
        loop {
            match stream::receive(read.as_ref()).await {
                Ok(Some(received)) => {
                    if let Err(what) = deliver(&shared, received) {
                        return format!("its init broke the protocol: {what}");
                    }
                }
                Ok(None) => return "its init has ended".to_owned(),
                Err(error) => return format!("its init cannot be understood: {error}"),
            }
        }
    };
    tokio::select! {
        () = shared.end.cancelled() => {}
        reason = work => shared.end(reason),
    }
}

/// Descriptors that came with a reply which brings none are closed here.
fn deliver(shared: &Shared, Received { reply, fds }: Received) -> Result<(), &'static str> {
    let mut state = shared.state();
    let (request, answer) = match reply {
        Reply::Started { exec, program } => {
            state.know(exec)?;
            if let Some(slot) = state.programs.get_mut(&exec)
                && let Some(started) = slot.started.take()
            {
                let _ = started.send(Ok(program));
            }
            return Ok(());
        }
        Reply::NotStarted { exec, errno, step } => {
            return state.not_started(exec, NotStarted::Failed { step, errno });
        }
        Reply::Stopped { number, stop } if state.questions.contains_key(&number) => {
            (number, Answer::Stopped(stop))
        }
        Reply::Stopped { number, stop } => {
            return state.not_started(number, NotStarted::Stopped(stop));
        }
        Reply::Exited { exec, exit } => {
            state.know(exec)?;
            if let Some(slot) = state.programs.remove(&exec) {
                if slot.started.is_some() {
                    return Err("an end before the start");
                }
                slot.exit.send_replace(Some(match exit {
                    GuestExit::Code(code) => Exit::Code(code),
                    GuestExit::Signal(signal) => Exit::Signal(signal),
                }));
            }
            return Ok(());
        }
        Reply::Done { request } => (request, Answer::Done),
        Reply::Failed { request, errno } => (request, Answer::Failed(errno)),
        Reply::Status { request, status } => (request, Answer::Status(status)),
        Reply::Programs { request, programs } => (request, Answer::Programs(programs)),
        Reply::Memory { request, bytes } => (request, Answer::Memory(bytes)),
        Reply::Sockets { request }
        | Reply::Terminals { request }
        | Reply::Connected { request } => (request, Answer::Descriptors(fds)),
        Reply::Ready | Reply::Unsupported { .. } | Reply::Broken { .. } | Reply::Proved { .. } => {
            return Err("a second greeting");
        }
    };
    state.know(request)?;
    if let Some(question) = state.questions.remove(&request) {
        let _ = question.send(answer);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
