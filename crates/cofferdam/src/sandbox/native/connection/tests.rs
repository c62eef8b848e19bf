use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::time::Instant;

use cofferdam_guest::protocol::{Stopping, Streams, WALL_SOCKETS};
use proptest::prelude::*;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::pipe::PipeFlags;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

fn replies() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![0..4u64, any::<u64>()];
    let reply = (number, any::<i32>(), 0..13u8, ".{0,20}").prop_map(|(n, value, kind, text)| {
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
                exec: n,
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
        let greeted = stream::greet(&host).await;
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
async fn descriptors_that_come_later_are_closed() {
    let (host, guest) = UnixStream::pair().unwrap();
    let (read, write) = rustix::pipe::pipe_with(PIPE).unwrap();
    let ready = protocol::encode(&Reply::Ready).unwrap();
    push(&guest, &ready[..1], &write, 0);
    // In the middle of the greeting, and with the reply after it.
    push(&guest, &ready[1..], &write, 4);
    assert_eq!(stream::greet(&host).await.unwrap().len(), 0);
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
