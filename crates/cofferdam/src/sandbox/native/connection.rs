//! The host's end of the control socket: requests with a bound each, replies told apart. Nothing
//! that arrives is trusted: what is no reply ends the connection, and a reply to a question that
//! nobody waits for any more costs nothing.

use std::collections::HashMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cofferdam_guest::protocol::{
    self, ExecStep, GuestExit, HEAD, Reply, Request, WALL_SOCKETS as MAX_SOCKETS,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::sandbox::{Exit, SandboxError};

/// How long a healthy guest may take, on a machine that is busy, to execute a program.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Why a program was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotStarted {
    pub(super) step: ExecStep,
    pub(super) errno: i32,
}

#[derive(Debug)]
struct Outgoing {
    frame: Vec<u8>,
    fds: Vec<OwnedFd>,
}

#[derive(Debug)]
struct Slot {
    started: Option<oneshot::Sender<Result<(), NotStarted>>>,
    exit: watch::Sender<Option<Exit>>,
}

#[derive(Debug, Default)]
struct State {
    /// Numbers below were given out.
    next: u64,
    programs: HashMap<u64, Slot>,
    questions: HashMap<u64, oneshot::Sender<Result<(), i32>>>,
    gone: Option<String>,
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
pub(super) struct Connection {
    outgoing: mpsc::Sender<Outgoing>,
    shared: Arc<Shared>,
}

/// The first reply of a guest: it is ready, or says why not. The descriptors that came with it, at most
/// [`MAX_SOCKETS`], or it is no greeting; with no later byte any is taken.
pub(super) async fn greet(stream: &mut UnixStream) -> Result<Vec<OwnedFd>, SandboxError> {
    let mut fds = Vec::new();
    // They travel with the first byte.
    let first = match receive_first(stream, &mut fds).await {
        Ok(first) => first,
        Err(error) => return Err(SandboxError::Start(error.to_string())),
    };
    let reply = match first {
        Some(byte) => read_reply(&mut (&[byte][..]).chain(stream)).await,
        None => Ok(None),
    };
    match reply {
        Ok(Some(Reply::Ready)) => Ok(fds),
        Ok(Some(Reply::Unsupported { what, hint })) => Err(SandboxError::Unsupported {
            what: crate::text::printable(&what),
            hint: crate::text::printable(&hint),
        }),
        Ok(Some(Reply::Broken { what })) => Err(SandboxError::Start(crate::text::printable(&what))),
        Ok(Some(_)) => Err(SandboxError::Start(
            "its init did not say that it is ready".to_owned(),
        )),
        Ok(None) => Err(SandboxError::Start(
            "its init ended before it was ready".to_owned(),
        )),
        Err(error) => Err(SandboxError::Start(error.to_string())),
    }
}

/// Reads one byte with the descriptors that travel with it; `None` at the end.
async fn receive_first(stream: &UnixStream, fds: &mut Vec<OwnedFd>) -> io::Result<Option<u8>> {
    let mut byte = [0u8; 1];
    let got = stream
        .async_io(Interest::READABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SOCKETS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(&mut byte)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let received = rustix::net::recvmsg(stream, &mut parts, &mut control, flags)?;
            let cut = received.flags.contains(ReturnFlags::CTRUNC);
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    fds.extend(received);
                }
            }
            if cut || fds.len() > MAX_SOCKETS {
                fds.clear();
                let what = "its init sent more descriptors than it was asked for";
                return Err(io::Error::other(what));
            }
            Ok(received.bytes)
        })
        .await?;
    Ok((got == 1).then_some(byte[0]))
}

/// Sends a frame without descriptors, before the connection is made.
pub(super) async fn send(stream: &UnixStream, frame: &[u8]) -> io::Result<()> {
    send_all(stream, frame, &[]).await
}

impl Connection {
    /// Takes over a stream whose guest is ready.
    pub(super) fn new(stream: UnixStream) -> Self {
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

    /// Closes the socket, which ends the sandbox.
    pub(super) fn end(&self, reason: &str) {
        self.shared.end(reason);
    }

    /// Returns when the connection has ended, for whatever reason.
    pub(super) async fn ended(&self) {
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
        if !matches!(answer, Ok(Ok(()))) {
            self.shared.state().programs.remove(&number);
        }
        if matches!(answer, Err(SandboxError::TimedOut(_))) {
            // It may still start, and then nobody would own it.
            self.forget(number);
        }
        Ok(answer?.map(|()| Program {
            number,
            ended,
            connection: self.clone(),
        }))
    }

    /// Asks for something that is either done or refused with an error number.
    pub(super) async fn question(
        &self,
        make: impl FnOnce(u64) -> Request,
    ) -> Result<(), SandboxError> {
        let (sender, wait) = oneshot::channel();
        let number = self.number(|state, number| {
            state.questions.insert(number, sender);
        })?;
        let answer = self.ask(&make(number), Vec::new(), wait).await;
        self.shared.state().questions.remove(&number);
        answer?.map_err(|errno| {
            SandboxError::Gone(format!(
                "it refused: {}",
                io::Error::from_raw_os_error(errno)
            ))
        })
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

    async fn ask<T>(
        &self,
        request: &Request,
        fds: Vec<OwnedFd>,
        wait: oneshot::Receiver<T>,
    ) -> Result<T, SandboxError> {
        let frame = protocol::encode(request).map_err(|error| SandboxError::Program {
            program: String::new(),
            reason: error.to_string(),
        })?;
        let answered = async {
            let sent = self.outgoing.send(Outgoing { frame, fds }).await;
            if sent.is_err() {
                return Err(self.shared.gone());
            }
            wait.await.map_err(|_| self.shared.gone())
        };
        let limit = self.shared.limit;
        tokio::time::timeout(limit, answered)
            .await
            .unwrap_or(Err(SandboxError::TimedOut(limit.as_secs())))
    }
}

/// A started program.
#[derive(Debug)]
pub(super) struct Program {
    number: u64,
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
        let exec = self.number;
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
            if let Err(error) = send_all(write.as_ref(), &message.frame, &message.fds).await {
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

async fn send_all(stream: &UnixStream, frame: &[u8], fds: &[OwnedFd]) -> io::Result<()> {
    let mut rest = frame;
    let mut first = true;
    while !rest.is_empty() {
        let sent = stream
            .async_io(Interest::WRITABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
                if first && !borrowed.is_empty() {
                    control.push(SendAncillaryMessage::ScmRights(&borrowed));
                }
                let parts = [IoSlice::new(rest)];
                Ok(rustix::net::sendmsg(
                    stream,
                    &parts,
                    &mut control,
                    SendFlags::NOSIGNAL,
                )?)
            })
            .await?;
        first = false;
        rest = &rest[sent..];
    }
    Ok(())
}

pub(super) async fn read_reply(
    stream: &mut (impl tokio::io::AsyncRead + Unpin),
) -> io::Result<Option<Reply>> {
    let mut head = [0u8; HEAD];
    if stream.read(&mut head[..1]).await? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut head[1..]).await?;
    let length = protocol::body_length(head).map_err(io::Error::other)?;
    let mut body = Vec::with_capacity(length.min(4096));
    // The buffer grows with what really arrives, not with what was announced.
    if stream.take(length as u64).read_to_end(&mut body).await? != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    protocol::decode(&body).map(Some).map_err(io::Error::other)
}

async fn read_replies(mut read: OwnedReadHalf, shared: Arc<Shared>) {
    let work = async {
        loop {
            match read_reply(&mut read).await {
                Ok(Some(reply)) => {
                    if let Err(what) = deliver(&shared, &reply) {
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

fn deliver(shared: &Shared, reply: &Reply) -> Result<(), &'static str> {
    let mut state = shared.state();
    let known = |number: u64| {
        if number < state.next {
            Ok(())
        } else {
            Err("an unknown number")
        }
    };
    match *reply {
        Reply::Started { exec } => {
            known(exec)?;
            if let Some(slot) = state.programs.get_mut(&exec)
                && let Some(started) = slot.started.take()
            {
                let _ = started.send(Ok(()));
            }
        }
        Reply::NotStarted { exec, errno, step } => {
            known(exec)?;
            if let Some(slot) = state.programs.remove(&exec)
                && let Some(started) = slot.started
            {
                let _ = started.send(Err(NotStarted { step, errno }));
            }
        }
        Reply::Exited { exec, exit } => {
            known(exec)?;
            if let Some(slot) = state.programs.remove(&exec) {
                if slot.started.is_some() {
                    return Err("an end before the start");
                }
                slot.exit.send_replace(Some(match exit {
                    GuestExit::Code(code) => Exit::Code(code),
                    GuestExit::Signal(signal) => Exit::Signal(signal),
                }));
            }
        }
        Reply::Done { request } => {
            known(request)?;
            if let Some(question) = state.questions.remove(&request) {
                let _ = question.send(Ok(()));
            }
        }
        Reply::Failed { request, errno } => {
            known(request)?;
            if let Some(question) = state.questions.remove(&request) {
                let _ = question.send(Err(errno));
            }
        }
        Reply::Ready | Reply::Unsupported { .. } | Reply::Broken { .. } | Reply::Proved { .. } => {
            return Err("a second greeting");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustix::pipe::PipeFlags;
    use std::time::Instant;
    use tokio::io::AsyncWriteExt;

    fn replies() -> impl Strategy<Value = Vec<u8>> {
        let number = prop_oneof![0..4u64, any::<u64>()];
        let reply = (number, any::<i32>(), 0..9u8, ".{0,20}").prop_map(|(n, value, kind, text)| {
            let reply = match kind {
                0 => Reply::Ready,
                1 => Reply::Unsupported {
                    what: text.clone(),
                    hint: text,
                },
                2 => Reply::Broken { what: text },
                3 => Reply::Started { exec: n },
                4 => Reply::NotStarted {
                    exec: n,
                    errno: value,
                    step: ExecStep::Program,
                },
                5 => Reply::Exited {
                    exec: n,
                    exit: GuestExit::Code(value),
                },
                6 => Reply::Exited {
                    exec: n,
                    exit: GuestExit::Signal(value),
                },
                7 => Reply::Done { request: n },
                _ => Reply::Failed {
                    request: n,
                    errno: value,
                },
            };
            protocol::encode(&reply).unwrap()
        });
        let noise = proptest::collection::vec(any::<u8>(), 0..40);
        prop_oneof![8 => reply, 1 => noise]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// A hostile stand-in for the guest: whatever it says, every call ends within its bound.
        #[test]
        fn nothing_a_guest_says_hangs_the_host(
            said in proptest::collection::vec(replies(), 0..12),
            stays in any::<bool>(),
        ) {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (host, mut guest) = UnixStream::pair().unwrap();
                let limit = Duration::from_millis(30);
                let connection = Connection::with_limit(host, limit);
                let talk = tokio::spawn(async move {
                    for bytes in said {
                        let _ = guest.write_all(&bytes).await;
                        tokio::task::yield_now().await;
                    }
                    if stays {
                        tokio::time::sleep(Duration::from_secs(5)).await;
                    }
                });
                let began = Instant::now();
                let exec = |exec| Request::Exec {
                    exec,
                    arguments: vec![b"true".to_vec()],
                    environment: Vec::new(),
                    directory: None,
                };
                if let Ok(Ok(mut program)) = connection.exec(exec, Vec::new()).await {
                    let _ = tokio::time::timeout(limit, program.wait()).await;
                    let _ = program.signal(9).await;
                }
                let _ = connection.question(|request| Request::Ping { request }).await;
                connection.end("closed");
                connection.ended().await;
                assert!(began.elapsed() < Duration::from_secs(2));
                assert!(connection.question(|request| Request::Ping { request }).await.is_err());
                assert!(connection.shared.state().programs.is_empty());
                talk.abort();
            });
        }
    }

    const PIPE: PipeFlags = PipeFlags::CLOEXEC.union(PipeFlags::NONBLOCK);

    /// Writes `bytes`, with so many copies of `fd` at the first of them.
    fn push(guest: &UnixStream, bytes: &[u8], fd: &OwnedFd, copies: usize) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = vec![fd.as_fd(); copies];
        if copies > 0 {
            assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        }
        let parts = [IoSlice::new(bytes)];
        let sent = rustix::net::sendmsg(guest, &parts, &mut control, SendFlags::empty()).unwrap();
        assert_eq!(sent, bytes.len());
    }

    /// Whether nobody holds the other end of this pipe.
    async fn is_alone(pipe: OwnedFd) -> bool {
        let mut pipe = tokio::net::unix::pipe::Receiver::from_owned_fd(pipe).unwrap();
        let mut byte = [0];
        let read = tokio::time::timeout(Duration::from_secs(10), pipe.read(&mut byte));
        matches!(read.await, Ok(Ok(0)))
    }

    #[tokio::test]
    async fn a_greeting_brings_four_descriptors_and_no_more() {
        let ready = protocol::encode(&Reply::Ready).unwrap();
        for copies in [0, 4, 5, 16] {
            let (mut host, guest) = UnixStream::pair().unwrap();
            let (read, write) = rustix::pipe::pipe_with(PIPE).unwrap();
            push(&guest, &ready, &write, copies);
            drop(write);
            let greeted = greet(&mut host).await;
            if copies <= MAX_SOCKETS {
                assert_eq!(greeted.unwrap().len(), copies);
            } else {
                let error = greeted.unwrap_err().to_string();
                assert!(error.contains("more descriptors"), "{error}");
                // None of them is kept.
                assert!(is_alone(read).await, "{copies}");
            }
        }
    }

    #[tokio::test]
    async fn descriptors_that_come_later_are_closed() {
        let (mut host, guest) = UnixStream::pair().unwrap();
        let (read, write) = rustix::pipe::pipe_with(PIPE).unwrap();
        let ready = protocol::encode(&Reply::Ready).unwrap();
        push(&guest, &ready[..1], &write, 0);
        // In the middle of the greeting, and with the reply after it.
        push(&guest, &ready[1..], &write, 4);
        assert_eq!(greet(&mut host).await.unwrap().len(), 0);
        let connection = Connection::new(host);
        let asked = tokio::spawn({
            let connection = connection.clone();
            async move {
                connection
                    .question(|request| Request::Ping { request })
                    .await
            }
        });
        let done = protocol::encode(&Reply::Done { request: 0 }).unwrap();
        guest.readable().await.unwrap();
        push(&guest, &done, &write, 4);
        drop(write);
        asked.await.unwrap().unwrap();
        assert!(is_alone(read).await);
        connection.end("closed");
    }

    #[tokio::test]
    async fn an_announced_length_costs_nothing() {
        let (host, mut guest) = UnixStream::pair().unwrap();
        let connection = Connection::new(host);
        guest.write_all(&u32::MAX.to_le_bytes()).await.unwrap();
        connection.ended().await;
        let error = connection
            .question(|request| Request::Ping { request })
            .await
            .unwrap_err();
        assert!(error.to_string().contains("too long"), "{error}");
    }

    #[tokio::test]
    async fn a_guest_that_never_reads_does_not_block() {
        let (host, guest) = UnixStream::pair().unwrap();
        let connection = Connection::with_limit(host, Duration::from_millis(50));
        for _ in 0..40 {
            let big = |exec| Request::Exec {
                exec,
                arguments: vec![vec![b'x'; 500_000]],
                environment: Vec::new(),
                directory: None,
            };
            assert!(connection.exec(big, Vec::new()).await.is_err());
        }
        assert!(connection.shared.state().programs.is_empty());
        drop(guest);
        connection.ended().await;
    }
}
