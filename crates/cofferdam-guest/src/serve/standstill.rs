//! Stopping everything in the sandbox for a while: for a user until they resume it, for a collector as long as its
//! connection lives, and while nobody watches where somebody has to. Each holds for itself; programs go on when nobody holds
//! any more. How it is done is not known here.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use cofferdam_guest::protocol::Stop;

use super::stopping::Stopping;
use crate::sys;

/// How long it is tried to stop everything.
const PATIENCE: Duration = Duration::from_secs(4);
/// Between two looks at what has stopped, for a collector and for a pause.
const WHILE_FROZEN: Duration = Duration::from_millis(5);
const WHILE_PAUSED: Duration = Duration::from_secs(1);

/// Somebody who waits until everything has stopped.
#[derive(Debug)]
struct Asking {
    peer: u64,
    request: u64,
    stop: Stop,
    until: Instant,
}

/// What somebody who asked is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) peer: u64,
    pub(crate) request: u64,
    /// The error number.
    pub(crate) done: Result<(), i32>,
}

#[derive(Debug)]
pub(crate) struct Standstill {
    paused: bool,
    /// Connections.
    freezers: BTreeSet<u64>,
    /// The same. None: nobody has to.
    watchers: Option<BTreeSet<u64>>,
    /// Then what still runs is ended: the last of them is gone, and nobody is told that it failed.
    end_by: Option<Instant>,
    asking: Vec<Asking>,
    /// Something may run.
    unsettled: bool,
    stopping: Stopping,
}

impl Standstill {
    pub(crate) fn new(stopping: Stopping) -> Self {
        Self {
            paused: false,
            freezers: BTreeSet::new(),
            watchers: None,
            end_by: None,
            asking: Vec::new(),
            unsettled: false,
            stopping,
        }
    }

    pub(crate) fn by(&self) -> &Stopping {
        &self.stopping
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    pub(crate) fn is_frozen(&self) -> bool {
        !self.freezers.is_empty()
    }

    /// Why nothing may be started.
    pub(crate) fn reason(&self) -> Option<Stop> {
        if self.paused {
            Some(Stop::Pause)
        } else if self.is_frozen() {
            Some(Stop::Freeze)
        } else {
            self.is_unwatched().then_some(Stop::Unwatched)
        }
    }

    fn is_unwatched(&self) -> bool {
        self.watchers.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// This connection watches, and from now on somebody has to.
    pub(crate) fn watch(&mut self, peer: u64) -> io::Result<()> {
        let held = self.reason().is_some();
        self.watchers.get_or_insert_default().insert(peer);
        self.end_by = None;
        if held && self.reason().is_none() {
            return self.go_on();
        }
        Ok(())
    }

    /// Nobody is told when everything stands still: whoever watched is gone.
    fn watch_no_longer(&mut self, peer: u64) {
        let held = self.reason().is_some();
        if let Some(watchers) = &mut self.watchers {
            watchers.remove(&peer);
        }
        if self.is_unwatched() {
            if !held {
                self.stopping.begin();
            }
            self.end_by.get_or_insert(Instant::now() + PATIENCE);
            self.unsettled = true;
        }
    }

    /// This child goes on while everything else stands still.
    pub(crate) fn spare(&mut self, pid: i32) {
        self.stopping.spare(pid);
    }

    /// It was reaped: whoever has its number next is anybody.
    pub(crate) fn no_longer_spare(&mut self, pid: i32) {
        self.stopping.no_longer_spare(pid);
    }

    /// Answered by a later [`Self::look`].
    pub(crate) fn begin(&mut self, peer: u64, request: u64, stop: Stop) {
        if self.reason().is_none() {
            self.stopping.begin();
        }
        match stop {
            Stop::Pause => self.paused = true,
            Stop::Freeze => {
                self.freezers.insert(peer);
            }
            // It begins with an end: see [`Self::forget`].
            Stop::Unwatched => {}
        }
        self.asking.push(Asking {
            peer,
            request,
            stop,
            until: Instant::now() + PATIENCE,
        });
        self.unsettled = true;
    }

    /// Twice is as once.
    pub(crate) fn end(&mut self, peer: u64, stop: Stop) -> io::Result<()> {
        let held = self.reason().is_some();
        match stop {
            Stop::Pause => self.paused = false,
            Stop::Freeze => {
                self.freezers.remove(&peer);
            }
            Stop::Unwatched => {}
        }
        if held && self.reason().is_none() {
            return self.go_on();
        }
        Ok(())
    }

    /// A connection is over.
    pub(crate) fn forget(&mut self, peer: u64) {
        self.asking.retain(|asking| asking.peer != peer);
        // In this order: nothing goes on between the two.
        self.watch_no_longer(peer);
        let _ = self.end(peer, Stop::Freeze);
    }

    /// Something happened by which the kernel may have woken what had stopped.
    pub(crate) fn disturbed(&mut self) {
        self.unsettled |= self.reason().is_some() && self.stopping.is_light();
    }

    /// After which time [`Self::look`] is to be called. `None`: nothing stands still.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        self.reason()?;
        if self.unsettled {
            return Some(self.stopping.patience());
        }
        self.stopping.trusted()
    }

    /// Stops what runs; again until it stays so, because a process may wake another.
    pub(crate) fn look(&mut self) -> Vec<Answer> {
        if !self.unsettled && self.reason().is_some() {
            self.unsettled = self.stopping.is_awake(self.interval());
            if self.unsettled && self.is_unwatched() {
                self.end_by.get_or_insert(Instant::now() + PATIENCE);
            }
        }
        if !self.unsettled {
            return Vec::new();
        }
        let settled = self.stopping.stop(self.interval());
        let answer = |asking: &Asking, done| Answer {
            peer: asking.peer,
            request: asking.request,
            done,
        };
        if matches!(settled, Ok(true)) {
            (self.unsettled, self.end_by) = (false, None);
            let asked = self.asking.drain(..);
            return asked.map(|asking| answer(&asking, Ok(()))).collect();
        }
        let (mut given_up, now) = (Vec::new(), Instant::now());
        if self.end_by.is_some_and(|by| by <= now) {
            // Programs that wake each other do not go on unwatched. There may be none left.
            let _ = sys::kill(-1, libc::SIGKILL);
        }
        self.asking.retain(|asking| {
            let error = match &settled {
                Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
                Ok(_) if asking.until <= now => libc::ETIMEDOUT,
                Ok(_) => return true,
            };
            given_up.push((answer(asking, Err(error)), asking.stop));
            false
        });
        // Who was told that it failed holds nothing.
        let tell = |(answer, stop): (Answer, Stop)| {
            let _ = self.end(answer.peer, stop);
            answer
        };
        given_up.into_iter().map(tell).collect()
    }

    fn interval(&self) -> Duration {
        if self.is_frozen() || self.is_unwatched() {
            WHILE_FROZEN
        } else {
            WHILE_PAUSED
        }
    }

    fn go_on(&mut self) -> io::Result<()> {
        self.unsettled = false;
        self.stopping.go_on()
    }
}
