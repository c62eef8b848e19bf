//! Sandboxes that outlive their makers: the socket by which other processes find one, and its end.
//!
//! The socket lies in a directory of the host's that no sandbox sees; the guest listens on it and serves whoever is
//! outside of its pid namespace. What the kernel says of its other side is the sandbox's init, so that it can be ended
//! whatever it answers.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use cofferdam_guest::protocol::{self, GREETING, PROTOCOL, Request};
use rustix::fs::{AtFlags, Mode, OFlags, inotify};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, Signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;

use super::cgroup;
use crate::sandbox::guest::{self, ANSWER_LIMIT};
use crate::sandbox::{Handle, SandboxError};

const SOCKET: &str = "guest.sock";
/// How long a sandbox may take to end when it is asked, and when it is killed.
const END_LIMIT: Duration = Duration::from_secs(4);
/// How long one that closed a connection may take to be dead, where it is dying.
const DYING: Duration = Duration::from_secs(1);
/// Between two attempts to connect where many others do.
const PAUSE: Duration = Duration::from_millis(2);

/// The directory in which a sandbox's socket lies. Its path may be longer than the address of a socket.
#[derive(Debug)]
pub(super) struct Door(OwnedFd);

impl Door {
    /// The directory is the caller's, and nobody else can enter it.
    pub(super) fn at(state: &Path) -> Result<Self, SandboxError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let failed = |error: io::Error| failed(state, &error);
        let directory = match rustix::fs::open(state, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Err(SandboxError::NotRunning),
            other => other.map_err(|errno| failed(errno.into()))?,
        };
        let found = rustix::fs::fstat(&directory).map_err(|errno| failed(errno.into()))?;
        let ours = found.st_uid == rustix::process::geteuid().as_raw();
        if !ours || found.st_mode & 0o077 != 0 {
            return Err(failed(io::Error::other("others can enter it")));
        }
        Ok(Self(directory))
    }

    fn address(&self) -> io::Result<SocketAddrUnix> {
        let path = format!("/proc/self/fd/{}/{SOCKET}", self.0.as_raw_fd());
        Ok(SocketAddrUnix::new(path)?)
    }

    /// For a sandbox that is to listen at it. It is nobody's until init makes it its own. After the listener comes its
    /// file, by which init sees that nobody will find it any more, and what wakes it up then, unless the user's instances
    /// of inotify are used up.
    pub(super) fn bind(&self) -> io::Result<Vec<OwnedFd>> {
        self.remove();
        let socket = socket()?;
        rustix::net::bind(&socket, &self.address()?)?;
        rustix::fs::chmodat(&self.0, SOCKET, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, SOCKET, flags, Mode::empty())?;
        let watch = watch(&file).ok();
        Ok([Some(socket), Some(file), watch]
            .into_iter()
            .flatten()
            .collect())
    }

    pub(super) fn remove(&self) {
        let _ = rustix::fs::unlinkat(&self.0, SOCKET, AtFlags::empty());
    }

    pub(super) async fn connect(&self) -> Result<UnixStream, SandboxError> {
        let broken = |error: io::Error| SandboxError::Gone(error.to_string());
        let address = self.address().map_err(broken)?;
        let until = Instant::now() + ANSWER_LIMIT;
        loop {
            let socket = socket().map_err(broken)?;
            match rustix::net::connect(&socket, &address) {
                Ok(()) => {
                    let stream = std::os::unix::net::UnixStream::from(socket);
                    return UnixStream::from_std(stream).map_err(broken);
                }
                Err(Errno::NOENT | Errno::CONNREFUSED) => return Err(SandboxError::NotRunning),
                // Too many wait there.
                Err(Errno::AGAIN) if Instant::now() < until => tokio::time::sleep(PAUSE).await,
                Err(Errno::AGAIN) => return Err(SandboxError::TimedOut(ANSWER_LIMIT.as_secs())),
                Err(errno) => return Err(broken(errno.into())),
            }
        }
    }
}

/// Tells when a file's names have changed: its links are among its attributes. Its end is not told as long as a socket is
/// bound to it.
fn watch(file: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let changes = inotify::WatchFlags::ATTRIB | inotify::WatchFlags::DELETE_SELF;
    inotify::add_watch(&watch, path, changes)?;
    Ok(watch)
}

fn failed(state: &Path, error: &io::Error) -> SandboxError {
    let shown = state.display();
    SandboxError::Start(format!("the way to it cannot lie in {shown}: {error}"))
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::STREAM;
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        kind,
        flags,
        None,
    )?)
}

/// The init of a living sandbox, whose end is its end.
#[derive(Debug)]
pub(super) struct Process(OwnedFd);

impl Process {
    /// Who listens at the other side: the kernel says so, whatever is said over it.
    pub(super) fn of(stream: &UnixStream) -> Result<Self, SandboxError> {
        let unknown = |what: String| SandboxError::Gone(format!("its init cannot be told: {what}"));
        let pid = stream
            .peer_cred()
            .map_err(|error| unknown(error.to_string()))?;
        let pid = pid.pid().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| unknown("it is not of this pid namespace".to_owned()))?;
        let process = rustix::process::pidfd_open(pid, PidfdFlags::empty());
        let process = match process {
            Err(Errno::SRCH) => return Err(SandboxError::NotRunning),
            other => Self(other.map_err(|errno| unknown(errno.to_string()))?),
        };
        // The number may be another process's by now: none of the host's own is the first of a pid namespace.
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
        if !is_first(&status.unwrap_or_default()) || process.has_ended() {
            return Err(SandboxError::NotRunning);
        }
        Ok(process)
    }

    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    fn has_ended(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    pub(super) fn kill(&self) {
        // It may have ended.
        let _ = rustix::process::pidfd_send_signal(&self.0, Signal::KILL);
    }

    /// Returns when everything in the sandbox is dead: the kernel ends a pid namespace before its first process.
    #[expect(
        deprecated,
        reason = "an OwnedFd stays what it is; the successor is an unsafe function"
    )]
    pub(super) async fn ended(&self) -> io::Result<()> {
        let process = AsyncFd::with_interest(self.0.try_clone()?, Interest::READABLE)?;
        process.readable().await.map(drop)
    }

    /// Whether its end comes at once.
    pub(super) async fn is_dying(&self) -> bool {
        tokio::time::timeout(DYING, self.ended()).await.is_ok()
    }

    /// It was asked to end. Kills it where it does not.
    async fn end(&self) -> Result<(), SandboxError> {
        for last in [false, true] {
            match tokio::time::timeout(END_LIMIT, self.ended()).await {
                Ok(done) => return done.map_err(|error| SandboxError::Gone(error.to_string())),
                Err(_) if last => break,
                Err(_) => self.kill(),
            }
        }
        Err(SandboxError::TimedOut(2 * END_LIMIT.as_secs()))
    }
}

/// Whether `/proc/PID/status` is that of the first process in a pid namespace below the reader's.
fn is_first(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let numbers: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    matches!(numbers[..], [_, .., "1"])
}

/// Ends a sandbox and clears away what is left of it.
pub(super) async fn remove(handle: &Handle) -> Result<(), SandboxError> {
    let ended = match Door::at(&handle.state) {
        Ok(door) => end(&door).await,
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) | Err(SandboxError::NotRunning) => clear(handle).await,
        Err(error) => return Err(error),
    }
    Ok(())
}

async fn end(door: &Door) -> Result<(), SandboxError> {
    let stream = door.connect().await?;
    let process = Process::of(&stream)?;
    // One that speaks another version closes the connection, and one that has stopped reads nothing.
    let request = protocol::encode(&Request::End).unwrap_or_default();
    let said = [&protocol::greeting(PROTOCOL)[..], &request].concat();
    let told = guest::send(&stream, &said, &[]).await;
    let answered = greeted(&stream);
    if told.is_err() || tokio::time::timeout(END_LIMIT, answered).await != Ok(true) {
        process.kill();
    }
    process.end().await
}

/// Whether it understands what it was told.
async fn greeted(stream: &UnixStream) -> bool {
    let mut theirs = [0; GREETING];
    let read = guest::read_exact(stream, &mut theirs).await;
    read.is_ok() && protocol::greeted(theirs) == Some(PROTOCOL)
}

/// After a request to end.
pub(super) async fn close(process: &Process, handle: &Handle) -> Result<(), SandboxError> {
    process.end().await?;
    clear(handle).await;
    Ok(())
}

/// What a sandbox leaves whose processes are dead.
async fn clear(handle: &Handle) {
    if let Ok(door) = Door::at(&handle.state) {
        door.remove();
    }
    cgroup::remove_leftovers(handle.id, Some(&handle.state)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_namespace_is_told() {
        let status = |numbers: &str| format!("Name:\tx\nNSpid:\t{numbers}\nNSsid:\t1\n");
        assert!(is_first(&status("4711\t1")) && is_first(&status("4711\t90\t1")));
        for other in ["1", "4711", "4711\t2", "4711\t1\t7", ""] {
            assert!(!is_first(&status(other)), "{other}");
        }
        assert!(!is_first(""));
    }
}
