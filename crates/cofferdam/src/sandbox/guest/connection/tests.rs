use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::time::Instant;

use cofferdam_guest::protocol::{Agent, Passage, Stopping, Streams, WALL_SOCKETS};
use proptest::prelude::*;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::pipe::PipeFlags;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::sandbox::{End, GuestSandbox};
use super::super::{coming_up, port, terminal, wall};
use super::*;
use crate::sandbox::{Detached, ExecRequest, Network, Sandbox, TerminalSize};

fn replies() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![0..4u64, any::<u64>()];
    let reply = (number, any::<i32>(), 0..14u8, ".{0,20}").prop_map(|(n, value, kind, text)| {
        let reply = match kind {
            0 => Reply::Ready,
            1 => Reply::Unsupported {
                what: text.clone(),
                hint: text,
            },
            2 => Reply::Broken { what: text },
            3 => Reply::Started {
                exec: n,
                program: n,
            },
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
            8 => Reply::Stopped {
                number: n,
                stop: Stop::Pause,
            },
            9 => Reply::Status {
                request: n,
                status: Status {
                    paused: true,
                    frozen: true,
                    programs: 1,
                    stopping: Stopping::Signals,
                },
            },
            10 => Reply::Programs {
                request: n,
                programs: Vec::new(),
            },
            11 => Reply::Sockets { request: n },
            12 => Reply::Connected { request: n },
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
                streams: Streams::Given,
            };
            if let Ok(Ok(mut program)) = connection.exec(exec, Vec::new()).await {
                let _ = tokio::time::timeout(limit, program.wait()).await;
                let _ = program.signal(9).await;
            }
            let _ = port::connect(&connection, 80).await;
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
        let (host, guest) = UnixStream::pair().unwrap();
        let (read, write) = rustix::pipe::pipe_with(PIPE).unwrap();
        push(&guest, &ready, &write, copies);
        drop(write);
        let greeted = coming_up::ready(&host).await;
        if copies <= WALL_SOCKETS {
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
async fn a_sandbox_without_a_wall_hands_nothing_over() {
    for network in [Network::None, Network::Open] {
        let (host, _guest) = UnixStream::pair().unwrap();
        let raised = wall::raise(&host, Vec::new(), &network).await;
        assert!(raised.unwrap().is_none());
        let (read, write) = rustix::pipe::pipe_with(PIPE).unwrap();
        let refused = wall::raise(&host, vec![write], &network).await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("nobody asked for"), "{error}");
        assert!(is_alone(read).await);
    }
}

#[tokio::test]
async fn descriptors_that_come_later_are_closed() {
    let (host, guest) = UnixStream::pair().unwrap();
    let (read, write) = rustix::pipe::pipe_with(PIPE).unwrap();
    let ready = protocol::encode(&Reply::Ready).unwrap();
    push(&guest, &ready[..1], &write, 0);
    // In the middle of the greeting, and with the reply after it.
    push(&guest, &ready[1..], &write, 4);
    assert_eq!(coming_up::ready(&host).await.unwrap().len(), 0);
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
            streams: Streams::Given,
        };
        assert!(connection.exec(big, Vec::new()).await.is_err());
    }
    assert!(connection.shared.state().programs.is_empty());
    drop(guest);
    connection.ended().await;
}

macro_rules! questions {
    ($($question:ident),* $(,)?) => {
        /// What a user of a sandbox can ask.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum Question {
            $($question),*
        }

        const QUESTIONS: &[Question] = &[$(Question::$question),*];
    };
}
questions!(
    Exec, Terminal, Detached, Freeze, Thaw, Pause, Resume, Watch, Status, Programs, Signal,
    Sockets, Prove, Connect, Unpack, Snapshot, Deliver, Browse, Memory,
);

/// Which question it is that is asked by a request. Who adds one to the protocol says here how it is asked, or where else
/// it meets a guest that lies.
fn question_of(request: &Request) -> Result<Question, &'static str> {
    Ok(match request {
        Request::Exec { streams, .. } => match streams {
            Streams::Given => Question::Exec,
            Streams::Terminal => Question::Terminal,
            Streams::Detached => Question::Detached,
        },
        Request::Terminals { .. } => Question::Terminal,
        Request::SignalProgram { .. } => Question::Signal,
        Request::Freeze { .. } => Question::Freeze,
        Request::Thaw { .. } => Question::Thaw,
        Request::Pause { .. } => Question::Pause,
        Request::Resume { .. } => Question::Resume,
        Request::Watch { .. } => Question::Watch,
        Request::Status { .. } => Question::Status,
        Request::Programs { .. } => Question::Programs,
        Request::Sockets { .. } => Question::Sockets,
        Request::Prove { .. } => Question::Prove,
        Request::Connect { .. } => Question::Connect,
        Request::Unpack { .. } => Question::Unpack,
        Request::Snapshot { .. } => Question::Snapshot,
        Request::Deliver { .. } => Question::Deliver,
        Request::Browse { .. } => Question::Browse,
        Request::Memory { .. } => Question::Memory,
        Request::Signal { .. } => return Err("follows an exec"),
        Request::Stay { .. } => return Err("nobody_stays_by_a_lie"),
        Request::Ping { .. } => return Err("nothing_a_guest_says_hangs_the_host"),
        Request::End => return Err("nobody waits for an answer"),
    })
}

/// Each question sends what it stands for: the list above is of what is really asked.
#[tokio::test]
async fn each_question_is_the_one_that_it_is_called() {
    for &question in QUESTIONS {
        let (host, mut guest) = UnixStream::pair().unwrap();
        let sandbox = sandbox(host, Duration::from_millis(60));
        let heard = async {
            let mut head = [0; protocol::HEAD];
            guest.read_exact(&mut head).await.unwrap();
            let mut body = vec![0; protocol::body_length(head).unwrap()];
            guest.read_exact(&mut body).await.unwrap();
            protocol::decode::<Request>(&body).unwrap()
        };
        let (_, request) = tokio::join!(asked(&sandbox, question), heard);
        assert_eq!(question_of(&request), Ok(question), "{request:?}");
    }
}

/// So long whoever has files carried waits for it here: it may take any time.
const CARRIED: Duration = Duration::from_millis(60);

/// There is nothing to end but the connection.
#[derive(Debug)]
struct Nothing;

#[async_trait::async_trait]
impl End for Nothing {
    async fn close(&self, connection: &Connection) -> Result<(), SandboxError> {
        connection.end("closed");
        Ok(())
    }

    async fn stay(&self) -> Result<(), SandboxError> {
        Ok(())
    }

    fn process(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

/// A sandbox whose guest is at the other end.
fn sandbox(host: UnixStream, limit: Duration) -> GuestSandbox {
    GuestSandbox {
        connection: Connection::with_limit(host, limit),
        version: protocol::SPOKEN,
        agent: Agent::Caller,
        end: Box::new(Nothing),
        wall: None,
    }
}

/// Asks, and says whether that was answered as asked.
async fn asked(sandbox: &GuestSandbox, question: Question) -> bool {
    let run = async |request: ExecRequest| match sandbox.exec(request).await {
        Ok(mut program) => {
            let ended = tokio::time::timeout(Duration::from_millis(20), program.wait());
            let _ = ended.await;
            let _ = program.kill(9).await;
            true
        }
        Err(_) => false,
    };
    let mut request = ExecRequest::new(["true"]);
    match question {
        Question::Exec => run(request).await,
        Question::Terminal => {
            request.terminal = Some(TerminalSize {
                rows: 24,
                columns: 80,
            });
            run(request).await
        }
        Question::Detached => {
            let dir = tempfile::tempdir().unwrap();
            let [output, end] = ["output", "end"].map(|name| dir.path().join(name));
            request.detached = Some(Detached { output, end });
            run(request).await
        }
        Question::Freeze => sandbox.freeze().await.is_ok(),
        Question::Thaw => sandbox.thaw().await.is_ok(),
        Question::Pause => sandbox.pause().await.is_ok(),
        Question::Resume => sandbox.resume().await.is_ok(),
        Question::Watch => sandbox.watch().await.is_ok(),
        Question::Status => sandbox.status().await.is_ok(),
        Question::Programs => sandbox.programs().await.is_ok(),
        Question::Signal => sandbox.signal(7, 9).await.is_ok(),
        Question::Sockets => sandbox.sockets().await.is_ok(),
        Question::Memory => sandbox.memory().await.is_ok(),
        Question::Connect => sandbox.connect(80).await.is_ok(),
        Question::Unpack | Question::Snapshot | Question::Deliver | Question::Browse => {
            carried(sandbox, question).await
        }
        Question::Prove => {
            let prove = |request| Request::Prove {
                request,
                passes: Passage {
                    name: "x".into(),
                    port: 1,
                },
            };
            sandbox.connection.question(prove).await.is_ok()
        }
    }
}

/// Whoever gives up waiting lets go of both streams' other ends, and whoever has them inside hears of that.
async fn carried(sandbox: &GuestSandbox, question: Question) -> bool {
    let directory = std::path::Path::new("/work");
    let [(from, gives), (takes, to)] = [(); 2].map(|()| rustix::pipe::pipe_with(PIPE).unwrap());
    let asked = async {
        match question {
            Question::Unpack => sandbox.unpack(directory, true, from, to).await,
            Question::Deliver => sandbox.deliver(from, to).await,
            Question::Browse => sandbox.browse(from, to).await,
            _ => sandbox.snapshot(directory, 1 << 20, from, to).await,
        }
    };
    let done = tokio::time::timeout(CARRIED, asked).await;
    drop((gives, takes));
    matches!(done, Ok(Ok(())))
}

/// What a guest does that was asked something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Liar {
    Silent,
    HangsUp,
    /// Answers questions that were answered long ago, without an end.
    Floods,
    /// Says that it failed, with a number that is no error's.
    Fails,
    /// Answers with everything but what was asked for, and a file with each.
    AnswersElse,
    /// Says that it starts and ends with a length that never comes.
    HalfAFrame,
}

const LIARS: [Liar; 6] = [
    Liar::Silent,
    Liar::HangsUp,
    Liar::Floods,
    Liar::Fails,
    Liar::AnswersElse,
    Liar::HalfAFrame,
];

/// A frame with this descriptor; an end that is closed already is no matter.
fn offer(guest: &UnixStream, reply: &Reply, fd: &OwnedFd) {
    let bytes = protocol::encode(reply).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    let parts = [IoSlice::new(&bytes)];
    let _ = rustix::net::sendmsg(guest, &parts, &mut control, SendFlags::NOSIGNAL);
}

/// What the guest does that was asked this question, or to stay.
async fn lie(mut guest: UnixStream, liar: Liar, question: Option<Question>) {
    // Until it is asked.
    guest.readable().await.unwrap();
    let file: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    match liar {
        Liar::Silent => {}
        Liar::HangsUp => return,
        Liar::Floods => {
            let said = protocol::encode(&Reply::Done { request: 0 }).unwrap();
            // The first is an answer, and what follows answers nobody.
            while guest.write_all(&said).await.is_ok() {
                tokio::task::yield_now().await;
            }
            return;
        }
        Liar::Fails => offer(
            &guest,
            &Reply::Failed {
                request: 0,
                errno: i32::MIN,
            },
            &file,
        ),
        Liar::AnswersElse => {
            let status = Status {
                paused: true,
                frozen: true,
                programs: u32::MAX,
                stopping: Stopping::Freezer,
            };
            let all = [
                (Question::Terminal, Reply::Terminals { request: 0 }),
                (Question::Status, Reply::Status { request: 0, status }),
                (
                    Question::Programs,
                    Reply::Programs {
                        request: 0,
                        programs: Vec::new(),
                    },
                ),
                (Question::Sockets, Reply::Sockets { request: 0 }),
                (Question::Connect, Reply::Connected { request: 0 }),
            ];
            // Only the first answer counts.
            for (fits, reply) in all {
                let with_files = [Question::Terminal, Question::Sockets, Question::Connect];
                if question != Some(fits) || with_files.contains(&fits) {
                    offer(&guest, &reply, &file);
                }
            }
        }
        Liar::HalfAFrame => {
            let _ = guest.write_all(&1000_u32.to_le_bytes()).await;
            let _ = guest.write_all(&[0; 10]).await;
        }
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
}

/// No question hangs, and none leaves anything behind, whatever its guest does.
#[tokio::test]
async fn no_question_hangs_at_a_liar() {
    const LIMIT: Duration = Duration::from_millis(60);
    for (question, liar) in QUESTIONS
        .iter()
        .flat_map(|one| LIARS.map(|liar| (*one, liar)))
    {
        let what = format!("{question:?} of one that is {liar:?}");
        let (host, guest) = UnixStream::pair().unwrap();
        let sandbox = sandbox(host, LIMIT);
        let lying = tokio::spawn(lie(guest, liar, Some(question)));
        let began = Instant::now();
        let answered = asked(&sandbox, question).await;
        assert!(began.elapsed() < Duration::from_secs(5), "{what}");
        // What is done as asked is all that can be said by one word.
        let by_a_word = matches!(
            question,
            Question::Freeze
                | Question::Thaw
                | Question::Pause
                | Question::Resume
                | Question::Watch
                | Question::Signal
                | Question::Prove
                | Question::Unpack
                | Question::Snapshot
                | Question::Deliver
                | Question::Browse
        );
        assert_eq!(answered, liar == Liar::Floods && by_a_word, "{what}");
        let state = sandbox.connection.shared.state();
        let left = (state.programs.len(), state.questions.len());
        drop(state);
        assert_eq!(left, (0, 0), "{what}");
        lying.abort();
    }
}

/// Whether it stays: the one question that is asked while a sandbox is being made, on a connection of its own.
async fn stays(host: &UnixStream, limit: Duration) -> Result<(), SandboxError> {
    coming_up::bounded(coming_up::stay(host), limit, &CancellationToken::new()).await
}

/// No lie and no silence makes a sandbox that is taken to stay, and whoever makes it waits for none.
#[tokio::test]
async fn nobody_stays_by_a_lie() {
    for liar in LIARS {
        let (host, guest) = UnixStream::pair().unwrap();
        let lying = tokio::spawn(lie(guest, liar, None));
        let began = Instant::now();
        let said = stays(&host, Duration::from_millis(60)).await;
        assert!(began.elapsed() < Duration::from_secs(5), "{liar:?}");
        let told = match liar {
            Liar::Silent | Liar::HalfAFrame => matches!(said, Err(SandboxError::TimedOut(_))),
            _ => matches!(said, Err(SandboxError::Start(_))),
        };
        assert!(told, "{liar:?}: {said:?}");
        lying.abort();
    }
    // Whoever does not want to wait for it is not kept.
    let (host, _silent) = UnixStream::pair().unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let step = coming_up::stay(&host);
    let said = coming_up::bounded(step, Duration::from_secs(60), &cancel).await;
    assert!(matches!(said, Err(SandboxError::Cancelled)), "{said:?}");
    // The control: one that says so stays, whatever it hands over with it.
    let (host, guest) = UnixStream::pair().unwrap();
    let file: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    let said = Reply::Done {
        request: coming_up::STAY,
    };
    offer(&guest, &said, &file);
    stays(&host, Duration::from_secs(10)).await.unwrap();
}

/// An honest answer is one, or nothing above would prove anything.
#[tokio::test]
async fn an_honest_guest_is_understood() {
    let status = Status {
        paused: true,
        frozen: false,
        programs: 3,
        stopping: Stopping::Freezer,
    };
    for (question, reply) in [
        (Question::Status, Reply::Status { request: 0, status }),
        (
            Question::Programs,
            Reply::Programs {
                request: 0,
                programs: Vec::new(),
            },
        ),
        (
            Question::Memory,
            Reply::Memory {
                request: 0,
                bytes: 7,
            },
        ),
        (Question::Freeze, Reply::Done { request: 0 }),
        (Question::Unpack, Reply::Done { request: 0 }),
        (Question::Deliver, Reply::Done { request: 0 }),
        (Question::Browse, Reply::Done { request: 0 }),
        (Question::Snapshot, Reply::Done { request: 0 }),
    ] {
        let (host, mut guest) = UnixStream::pair().unwrap();
        let sandbox = sandbox(host, Duration::from_secs(10));
        let said = protocol::encode(&reply).unwrap();
        let talk = async {
            guest.readable().await.unwrap();
            guest.write_all(&said).await.unwrap();
        };
        let (answered, ()) = tokio::join!(asked(&sandbox, question), talk);
        assert!(answered, "{question:?}");
    }
}

/// What a guest hands over as the directory of its terminals is looked at: the host opens files in it.
#[tokio::test]
async fn terminals_are_opened_in_a_file_system_of_terminals_alone() {
    let dir = tempfile::tempdir().unwrap();
    // Another file system's, with a real one below and a link to it.
    std::os::unix::fs::symlink("/dev/ptmx", dir.path().join("ptmx")).unwrap();
    let size = TerminalSize {
        rows: 24,
        columns: 80,
    };
    let open = |path: &std::path::Path| {
        let directory: OwnedFd = std::fs::File::open(path).unwrap().into();
        terminal::open(&directory, size, Agent::Caller).map(drop)
    };
    let refused = open(dir.path()).unwrap_err().to_string();
    assert_eq!(refused, "what it handed over has no terminals");
    // The control, as far as the machine lets a user open its own.
    if let Err(error) = open("/dev/pts".as_ref()) {
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    }
}

/// One of another version says so, and what is no greeting is no sandbox.
#[tokio::test]
async fn a_guest_of_another_version_is_told_from_a_liar() {
    let greeted = async |said: &[u8]| {
        let (host, mut guest) = UnixStream::pair().unwrap();
        guest.write_all(said).await.unwrap();
        coming_up::greet(&host).await
    };
    let other = greeted(&protocol::greeting(77)).await;
    assert!(
        matches!(
            other,
            Err(SandboxError::OtherVersion {
                theirs: 77,
                ours: protocol::PROTOCOL
            })
        ),
        "{other:?}"
    );
    greeted(&protocol::greeting(protocol::PROTOCOL))
        .await
        .unwrap();
    for nonsense in [[b'x'; protocol::GREETING], [0; protocol::GREETING]] {
        let error = greeted(&nonsense).await.unwrap_err().to_string();
        assert!(error.contains("it is no sandbox that answers"), "{error}");
    }
}
