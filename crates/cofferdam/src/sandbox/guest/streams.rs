//! What a program has as standard descriptors: pipes, a terminal, or files that survive whoever started it.

use std::io;
use std::os::fd::OwnedFd;

use cofferdam_guest::protocol::{Agent, Streams};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::pipe::PipeFlags;
use tokio::net::unix::pipe;

use super::execution::Outside;
use super::terminal;
use crate::sandbox::{Detached, TerminalSize};

/// Bytes of the file that tells a program's end: more than its text ever takes.
const END_ROOM: u64 = 256;

/// Where a program's standard output goes.
#[derive(Debug)]
pub(in crate::sandbox) enum Output {
    Pipe,
    Fd(OwnedFd),
    Nothing,
}

/// Both ends of what a program gets.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) kind: Streams,
    /// Go to the guest.
    pub(super) inside: Vec<OwnedFd>,
    pub(super) outside: Outside,
}

impl Ends {
    pub(super) fn pipes(with_stdin: bool, output: Output, agent: Agent) -> io::Result<Self> {
        let make = || -> io::Result<(OwnedFd, OwnedFd)> {
            let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            if let Agent::Separate { uid, gid } = agent {
                // Programs open /dev/stdout anew: the pipe must be the agent's.
                let (uid, gid) = (
                    rustix::fs::Uid::from_raw(uid),
                    rustix::fs::Gid::from_raw(gid),
                );
                // Where root may not, they write to the descriptor and all is well.
                let _ = rustix::fs::fchown(&read, Some(uid), Some(gid));
            }
            Ok((read, write))
        };
        // Without a writer a pipe is at its end.
        let (stdin_inside, stdin) = make()?;
        let stdin = if with_stdin {
            Some(pipe::Sender::from_owned_fd(stdin)?)
        } else {
            None
        };
        let (stdout_inside, stdout) = match output {
            Output::Pipe => {
                let (read, write) = make()?;
                (write, Some(pipe::Receiver::from_owned_fd(read)?))
            }
            Output::Fd(fd) => (fd, None),
            Output::Nothing => {
                let null = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
                (
                    rustix::fs::open("/dev/null", null, rustix::fs::Mode::empty())?,
                    None,
                )
            }
        };
        let (read, stderr_inside) = make()?;
        let stderr = Some(pipe::Receiver::from_owned_fd(read)?);
        Ok(Self {
            kind: Streams::Given,
            inside: vec![stdin_inside, stdout_inside, stderr_inside],
            outside: Outside {
                stdin,
                stdout,
                stderr,
                terminal: None,
            },
        })
    }

    /// `directory`: of the sandbox's terminals.
    pub(super) fn terminal(
        directory: &OwnedFd,
        size: TerminalSize,
        agent: Agent,
    ) -> io::Result<Self> {
        let (terminal, inside) = terminal::open(directory, size, agent)?;
        Ok(Self {
            kind: Streams::Terminal,
            inside: vec![inside.try_clone()?, inside.try_clone()?, inside],
            outside: Outside {
                terminal: Some(terminal),
                ..Outside::default()
            },
        })
    }

    pub(super) fn detached(files: &Detached) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::RUSR | Mode::WUSR;
        let make = |path| rustix::fs::openat(CWD, path, flags | OFlags::CLOEXEC, mode);
        let output = make(&files.output)?;
        let end = make(&files.end).inspect_err(|_| {
            let _ = rustix::fs::unlink(&files.output);
        })?;
        // So that its end can be told on a disk that is full by then. Where that cannot be, it can mostly be written.
        let kept = rustix::fs::FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(&end, kept, 0, END_ROOM);
        Ok(Self {
            kind: Streams::Detached,
            inside: vec![output, end],
            outside: Outside::default(),
        })
    }
}

/// Nothing was started.
pub(super) fn forget(files: &Detached) {
    for path in [&files.output, &files.end] {
        let _ = rustix::fs::unlink(path);
    }
}
