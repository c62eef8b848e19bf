//! How everything but init is stopped: by the freezer of the group that it is in, else by signals.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use cofferdam_guest::protocol;

use super::signals::{self, Signals};
use crate::freezer::Freezer;
use crate::sys;

/// What only sleeps follows the freezer in less than this: so long it is waited for, and nobody else is served.
const AT_ONCE: Duration = Duration::from_micros(300);
/// Until the next look at what has not followed by then; then twice as long each time, [`DOUBLED`] times.
const SOON: Duration = Duration::from_micros(50);
const DOUBLED: u32 = 5;

#[derive(Debug)]
pub(crate) enum Stopping {
    /// What is frozen stays so by itself, and nothing has to be looked at.
    Freezer {
        freezer: Freezer,
        asked: bool,
        looks: u32,
    },
    Signals(Signals),
}

impl Stopping {
    /// `root`: of a child that goes on with all that it starts, because nobody here may stop it.
    pub(crate) fn new(freezer: Option<Freezer>, root: Option<i32>) -> Self {
        match freezer {
            Some(freezer) => Self::Freezer {
                freezer,
                asked: false,
                looks: 0,
            },
            None => Self::Signals(Signals::new(root)),
        }
    }

    pub(super) fn name(&self) -> protocol::Stopping {
        match self {
            Self::Freezer { .. } => protocol::Stopping::Freezer,
            Self::Signals(_) => protocol::Stopping::Signals,
        }
    }

    /// Where programs are to be started.
    pub(super) fn group(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Freezer { freezer, .. } => Some(freezer.programs()),
            Self::Signals(_) => None,
        }
    }

    /// This child of init's is no program and goes on. The freezer has programs alone.
    pub(super) fn spare(&mut self, pid: i32) {
        if let Self::Signals(signals) = self {
            signals.spare(pid);
        }
    }

    pub(super) fn no_longer_spare(&mut self, pid: i32) {
        if let Self::Signals(signals) = self {
            signals.no_longer_spare(pid);
        }
    }

    /// Before anything is stopped.
    pub(super) fn begin(&mut self) {
        if let Self::Signals(signals) = self {
            signals.begin();
        }
    }

    /// Stops what runs; whether nothing does any more. Where that has to be looked at again it is trusted for
    /// `interval`.
    pub(super) fn stop(&mut self, interval: Duration) -> io::Result<bool> {
        match self {
            Self::Freezer {
                freezer,
                asked,
                looks,
            } => {
                let mut until = Instant::now();
                if !*asked {
                    freezer.set(true)?;
                    (*asked, *looks) = (true, 0);
                    until = Instant::now() + AT_ONCE;
                }
                *looks = looks.saturating_add(1);
                loop {
                    match freezer.is_frozen() {
                        Ok(false) if Instant::now() < until => sys::give_way(),
                        other => return other,
                    }
                }
            }
            Self::Signals(signals) => signals.stop(interval),
        }
    }

    /// Between two attempts to stop everything.
    pub(super) fn patience(&self) -> Duration {
        match self {
            Self::Freezer { looks, .. } => SOON * (1 << looks.saturating_sub(1).min(DOUBLED)),
            Self::Signals(_) => signals::AT_ONCE,
        }
    }

    /// Until what has stopped is to be looked at again, if ever.
    pub(super) fn trusted(&self) -> Option<Duration> {
        match self {
            Self::Freezer { .. } => None,
            Self::Signals(signals) => Some(signals.trusted()),
        }
    }

    /// Whether the kernel may wake what has stopped: it continues whom a hang-up reaches, or whose parent dies.
    pub(super) fn is_light(&self) -> bool {
        matches!(self, Self::Signals(_))
    }

    /// Whether what had stopped runs again. Looks no more often than every `interval`.
    pub(super) fn is_awake(&mut self, interval: Duration) -> bool {
        match self {
            Self::Freezer { .. } => false,
            Self::Signals(signals) => signals.is_awake(interval),
        }
    }

    pub(super) fn go_on(&mut self) -> io::Result<()> {
        match self {
            Self::Freezer { freezer, asked, .. } => {
                *asked = false;
                freezer.set(false)
            }
            Self::Signals(signals) => signals.go_on(),
        }
    }
}
