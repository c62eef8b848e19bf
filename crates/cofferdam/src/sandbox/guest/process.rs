//! The init of a sandbox as a process of the host: what the kernel says of the other side of a connection, so that a sandbox can
//! be ended whatever it answers.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;

use crate::sandbox::{GroupMemory, SandboxError, group_memory};

/// How long a sandbox may take to end when it is asked, and when it is killed.
pub(in crate::sandbox) const END_LIMIT: Duration = Duration::from_secs(4);
/// How long one that closed a connection may take to be dead, where it is dying.
const DYING: Duration = Duration::from_secs(1);

/// The init of a living sandbox, whose end is its end.
#[derive(Debug)]
pub(in crate::sandbox) struct Process(OwnedFd);

impl Process {
    /// Who listens at the other side: the kernel says so, whatever is said over it.
    pub(in crate::sandbox) fn of(stream: &UnixStream) -> Result<Self, SandboxError> {
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

    pub(in crate::sandbox) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    /// As [`group_memory::of_process`].
    pub(in crate::sandbox) fn group_memory(&self, name: &str) -> Option<GroupMemory> {
        let number = number(self.0.as_fd())?;
        let groups = fs::read_to_string(format!("/proc/{number}/cgroup")).ok()?;
        if self.has_ended() {
            // The number may be another process's.
            return None;
        }
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        group_memory::of_process(&groups, &mounts, name)
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

    pub(in crate::sandbox) fn kill(&self) {
        // It may have ended.
        let _ = rustix::process::pidfd_send_signal(&self.0, Signal::KILL);
    }

    /// Returns when everything in the sandbox is dead: the kernel ends a pid namespace before its first process.
    #[expect(
        deprecated,
        reason = "an OwnedFd stays what it is; the successor is an unsafe function"
    )]
    pub(in crate::sandbox) async fn ended(&self) -> io::Result<()> {
        let process = AsyncFd::with_interest(self.0.try_clone()?, Interest::READABLE)?;
        process.readable().await.map(drop)
    }

    /// Whether its end comes at once.
    pub(in crate::sandbox) async fn is_dying(&self) -> bool {
        tokio::time::timeout(DYING, self.ended()).await.is_ok()
    }

    /// It was asked to end. Kills it where it does not.
    pub(in crate::sandbox) async fn end(&self) -> Result<(), SandboxError> {
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

/// The process of a pidfd as this machine numbers it, which may have ended.
pub(crate) fn number(process: BorrowedFd<'_>) -> Option<u32> {
    let path = format!("/proc/self/fdinfo/{}", process.as_raw_fd());
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    line.trim().parse().ok()
}

/// Whether `/proc/PID/status` is that of the first process in a pid namespace below the reader's.
fn is_first(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let numbers: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    matches!(numbers[..], [_, .., "1"])
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
