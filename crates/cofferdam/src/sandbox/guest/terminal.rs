//! The host's side of a program's terminal.
//!
//! The sandbox hands over the directory of its terminals and nothing else: the host opens the master there itself. So
//! no process inside ever had that open file, and none can make the host wait at it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use cofferdam_guest::protocol::Agent;
use rustix::fs::{Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::polled::{poll_read, poll_write, polled};
use crate::sandbox::{Resize, Terminal, TerminalSize};

/// What statfs(2) says of a file system of terminals.
const DEVPTS: i64 = 0x1cd1;

/// Both sides of a new terminal: the user's, and the one that a program gets.
pub(super) fn open(
    directory: &OwnedFd,
    size: TerminalSize,
    agent: Agent,
) -> io::Result<(Terminal, OwnedFd)> {
    if rustix::fs::fstatfs(directory)?.f_type != DEVPTS {
        return Err(io::Error::other("what it handed over has no terminals"));
    }
    // Of that file system itself, whose files only the kernel makes.
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let master = rustix::fs::openat2(directory, "ptmx", flags, Mode::empty(), resolve)?;
    rustix::pty::unlockpt(&master)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let inside = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    if let Agent::Separate { uid, gid } = agent {
        // Programs open it by its name.
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::fchown(&inside, Some(uid), Some(gid))?;
    }
    Ok((terminal_of(master, size)?, inside))
}

/// The user's side of a terminal, which does not block.
pub(in crate::sandbox) fn terminal_of(master: OwnedFd, size: TerminalSize) -> io::Result<Terminal> {
    let master = Master(Arc::new(polled(master)?));
    master.resize(size)?;
    Ok(Terminal {
        output: Box::new(master.clone()),
        input: Box::new(master.clone()),
        size: Arc::new(master),
    })
}

/// Open for as long as one of its copies is there.
#[derive(Debug, Clone)]
struct Master(Arc<AsyncFd<OwnedFd>>);

impl Resize for Master {
    fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let size = Winsize {
            ws_row: size.rows,
            ws_col: size.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(rustix::termios::tcsetwinsize(self.0.as_fd(), size)?)
    }
}

impl AsyncRead for Master {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        poll_read(&self.0, context, buffer, |master, into| {
            match rustix::io::read(master, into) {
                // Nobody inside has it open any more.
                Err(Errno::IO) => Ok(0),
                other => other,
            }
        })
    }
}

impl AsyncWrite for Master {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll_write(&self.0, context, |master| rustix::io::write(master, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// A terminal has no half: its end is typed.
    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
