//! The command's own standard streams as bytes. Threads of their own read and write them: whatever they lead to may be
//! slow, or a file, and neither holds up signals.

use std::os::fd::BorrowedFd;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::{mpsc, oneshot};

const CHUNK: usize = 64 << 10;
/// So many chunks may be on their way.
const WAITING: usize = 4;

/// What comes on standard input, until its end.
pub(crate) fn input() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(WAITING);
    thread::spawn(move || {
        let stdin = rustix::stdio::stdin();
        let mut buffer = vec![0; CHUNK];
        loop {
            match rustix::io::read(stdin, &mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    if sender.blocking_send(buffer[..length].to_vec()).is_err() {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait(stdin, PollFlags::IN),
                Err(_) => break,
            }
        }
    });
    receiver
}

/// One of the command's outputs.
#[derive(Debug)]
pub(crate) struct Sink {
    sender: mpsc::Sender<Vec<u8>>,
    done: oneshot::Receiver<()>,
}

impl Sink {
    pub(crate) fn stdout() -> Self {
        Self::new(rustix::stdio::stdout())
    }

    pub(crate) fn stderr() -> Self {
        Self::new(rustix::stdio::stderr())
    }

    fn new(file: BorrowedFd<'static>) -> Self {
        let (sender, mut receiver) = mpsc::channel::<Vec<u8>>(WAITING);
        let (ended, done) = oneshot::channel();
        thread::spawn(move || {
            while let Some(bytes) = receiver.blocking_recv() {
                if write(file, &bytes).is_err() {
                    break;
                }
            }
            let _ = ended.send(());
        });
        Self { sender, done }
    }

    /// `false`: nobody reads there any more.
    pub(crate) async fn send(&self, bytes: Vec<u8>) -> bool {
        self.sender.send(bytes).await.is_ok()
    }

    /// Returns when everything is written, or cannot be.
    pub(crate) async fn finish(self) {
        drop(self.sender);
        let _ = self.done.await;
    }
}

fn write(file: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            // Somebody else who has it open made it non-blocking.
            Err(Errno::AGAIN) => wait(file, PollFlags::OUT),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn wait(file: BorrowedFd<'_>, what: PollFlags) {
    let _ = poll(&mut [PollFd::from_borrowed_fd(file, what)], None);
}
