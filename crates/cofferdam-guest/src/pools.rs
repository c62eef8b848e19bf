//! What the kernel counts for the user or for the machine, and not for a sandbox: a program inside gets a share of
//! it, and the host's programs keep theirs. What has no limit of its own the filter refuses (`seccomp`).

use std::{fs, io};

use crate::sys;

/// Of what the caller may have in all: queued signals and timers, and bytes in POSIX message queues.
const SHARE: u64 = 4;
/// Signals and timers, where the caller has no limit.
const MOST_SIGNALS: u64 = 16_384;
/// Bytes of message queues, where the caller has no limit.
const MOST_QUEUED: u64 = 256 << 10;
/// Bytes that one process may keep from being swapped: the kernel's own default.
const MOST_LOCKED: u64 = 8 << 20;

/// For the process that becomes a program.
pub(crate) fn bound() -> io::Result<()> {
    let bounded = |resource, most: fn(u64) -> u64| {
        let most = most(sys::hard_limit(resource)?);
        sys::set_limit(resource, most, most)
    };
    bounded(libc::RLIMIT_SIGPENDING, |hard| {
        (hard / SHARE).min(MOST_SIGNALS)
    })?;
    bounded(libc::RLIMIT_MSGQUEUE, |hard| {
        (hard / SHARE).min(MOST_QUEUED)
    })?;
    bounded(libc::RLIMIT_MEMLOCK, |hard| hard.min(MOST_LOCKED))
}

/// Half of the watches on files that the caller may have goes to the sandbox's user namespace, whose processes
/// count as the caller's. To be called with its capabilities, and while the host's `/proc` is there; where that
/// is read-only (in containers) there is no bound: see docs/threat-model.md.
pub(crate) fn bound_watches() {
    for (all, own) in [
        (
            "/proc/sys/fs/inotify/max_user_instances",
            "/proc/sys/user/max_inotify_instances",
        ),
        (
            "/proc/sys/fs/inotify/max_user_watches",
            "/proc/sys/user/max_inotify_watches",
        ),
    ] {
        let most = fs::read_to_string(all).ok();
        if let Some(most) = most.and_then(|most| most.trim().parse::<u64>().ok()) {
            let _ = fs::OpenOptions::new()
                .write(true)
                .open(own)
                .and_then(|mut file| {
                    io::Write::write_all(&mut file, (most / 2).to_string().as_bytes())
                });
        }
    }
}
