//! Files are carried by children, so that no tree and no stream is so large that init waits for it.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use cofferdam_guest::protocol::{ProcessLimits, Reply};

use super::last_word::{self, LastWord};
use crate::{files, program, sys};

/// So many at once.
const MOST: usize = 16;
/// So often one that was stopped goes on.
const LENIENT: u32 = 4;

/// What is to be carried.
#[derive(Debug)]
pub(crate) enum Task {
    Browse,
    /// For whom, where that is not who does it.
    Deliver {
        owner: Option<(u32, u32)>,
    },
    Unpack {
        directory: Vec<u8>,
        tracked: bool,
    },
    Snapshot {
        directory: Vec<u8>,
        largest: u64,
    },
}

/// A child that does it.
#[derive(Debug)]
pub(crate) struct Transfer {
    peer: u64,
    request: u64,
    /// None when it was reaped.
    pid: Option<i32>,
    /// How often a program has stopped it, which has the same user.
    stopped: u32,
    /// It ends by itself with its stream, and first removes what has not taken its place.
    ends_with_stream: bool,
    /// The error number that it ends with, 0 where it is done.
    word: LastWord,
}

#[derive(Debug, Default)]
pub(crate) struct Transfers(Vec<Transfer>);

impl Transfers {
    /// The child's process.
    pub(crate) fn begin(
        &mut self,
        (peer, request): (u64, u64),
        task: &Task,
        streams: [OwnedFd; 2],
        limits: ProcessLimits,
        filter: &[libc::sock_filter],
    ) -> io::Result<i32> {
        if self.0.len() >= MOST {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        let (word, tell) = LastWord::new()?;
        let pid = sys::fork_into(0)?;
        if pid == 0 {
            let [from, to] = streams;
            sys::exit(i32::from(
                carry(task, [from, to, tell], limits, filter).is_err(),
            ));
        }
        self.0.push(Transfer {
            peer,
            request,
            pid: Some(pid),
            stopped: 0,
            ends_with_stream: matches!(task, Task::Deliver { .. }),
            word,
        });
        Ok(pid)
    }

    pub(crate) fn pipes(&self) -> impl Iterator<Item = (usize, RawFd)> {
        let pipes = self.0.iter().enumerate();
        pipes.map(|(index, one)| (index, one.word.raw()))
    }

    pub(crate) fn read(&mut self, index: usize) {
        if let Some(one) = self.0.get_mut(index) {
            one.word.hear();
        }
    }

    /// Those that a program has stopped go on. Who is stopped again and again ends, and with it the wait of whoever asked.
    pub(crate) fn go_on(&mut self) {
        for one in &mut self.0 {
            let Some(pid) = one.pid.filter(|&pid| sys::was_stopped(pid)) else {
                continue;
            };
            one.stopped += 1;
            let signal = if one.stopped > LENIENT {
                libc::SIGKILL
            } else {
                libc::SIGCONT
            };
            // It may have been killed meanwhile.
            let _ = sys::kill(pid, signal);
        }
    }

    /// If it was one of them, it is not to be killed any more.
    pub(crate) fn reaped(&mut self, pid: i32) {
        for one in self.0.iter_mut().filter(|one| one.pid == Some(pid)) {
            one.pid = None;
        }
    }

    /// Those that have ended: for whom, and how.
    pub(crate) fn ended(&mut self) -> Vec<(u64, Reply)> {
        let (done, open) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|one| one.word.is_over());
        self.0 = open;
        let done: Vec<Transfer> = done;
        done.into_iter().map(Transfer::reply).collect()
    }

    /// A connection is over.
    pub(crate) fn leave(&mut self, peer: u64) {
        self.0.retain(|one| {
            if let (true, false, Some(pid)) = (one.peer == peer, one.ends_with_stream, one.pid) {
                let _ = sys::kill(pid, libc::SIGKILL);
            }
            one.peer != peer
        });
    }
}

impl Transfer {
    fn reply(self) -> (u64, Reply) {
        let request = self.request;
        // Who says nothing was ended by somebody.
        let reply = match self.word.number().unwrap_or(libc::EOWNERDEAD) {
            0 => Reply::Done { request },
            errno => Reply::Failed { request, errno },
        };
        (self.peer, reply)
    }
}

/// In the child, which keeps nothing of its parent's but its own three descriptors.
fn carry(
    task: &Task,
    fds: [OwnedFd; 3],
    limits: ProcessLimits,
    filter: &[libc::sock_filter],
) -> io::Result<()> {
    let [from, to, tell] = sys::keep_only(fds)?;
    let done = program::confine(limits, filter).and_then(|()| match task {
        Task::Browse => files::browse(from, to),
        Task::Deliver { owner } => files::deliver(from, to, *owner),
        Task::Unpack { directory, tracked } => files::unpack(directory, *tracked, from, to),
        Task::Snapshot { directory, largest } => files::snapshot(directory, *largest, from, to),
    });
    let errno = match &done {
        Ok(()) => 0,
        Err(error) if error.kind() == io::ErrorKind::InvalidData => libc::EPROTO,
        Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
    };
    last_word::say(tell, errno)?;
    done
}
