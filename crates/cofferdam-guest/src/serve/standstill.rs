//! Stopping everything in the sandbox for a while: for a user until they resume it, for a collector as long as its
//! connection lives. Each holds for itself; programs go on when nobody holds any more.
//!
//! By SIGSTOP, for every caller alike. A control group's freezer would be surer, but an ordinary user has none, root's
//! sandboxes have a group only where they have limits, and with version 1 the freezer is another hierarchy. What a
//! signal cannot do is done by looking: a stop counts when every thread has stopped, and is looked at again when the
//! kernel may have woken something. A process can also have itself woken, by a timer whose signal is SIGCONT; nobody
//! tells, so it is looked at from time to time, and who does it again and again is ended.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use cofferdam_guest::protocol::Stop;

use super::processes::{self, Process};
use crate::sys;

/// How long it is tried to stop everything.
const PATIENCE: Duration = Duration::from_secs(4);
/// Between two looks at what does not stop.
const AT_ONCE: Duration = Duration::from_millis(1);
/// Between two looks at what has stopped, for a collector and for a pause.
const WHILE_FROZEN: Duration = Duration::from_millis(5);
const WHILE_PAUSED: Duration = Duration::from_secs(1);
/// A look may cost one part in so many of the time.
const SHARE: u32 = 20;
/// So often what was woken is only stopped again.
const LENIENT: u32 = 4;

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

#[derive(Debug, Default)]
pub(crate) struct Standstill {
    paused: bool,
    /// Connections.
    freezers: BTreeSet<u64>,
    asking: Vec<Asking>,
    /// What had been stopped before, by a shell's job control as a rule, and is to stay so.
    asleep: BTreeSet<i32>,
    /// Something may run.
    unsettled: bool,
    /// Until then what has stopped is taken to stand still.
    trusted: Option<Instant>,
    /// How often something ran that had stopped.
    woken: u32,
    /// Init's own children, which carry files meanwhile. They are no program of anybody's.
    spared: BTreeSet<i32>,
}

impl Standstill {
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
        } else {
            self.is_frozen().then_some(Stop::Freeze)
        }
    }

    /// This child goes on while everything else stands still.
    pub(crate) fn spare(&mut self, pid: i32) {
        self.spared.insert(pid);
    }

    /// It was reaped: whoever has its number next is anybody.
    pub(crate) fn no_longer_spare(&mut self, pid: i32) {
        self.spared.remove(&pid);
    }

    /// Answered by a later [`Self::look`].
    pub(crate) fn begin(&mut self, peer: u64, request: u64, stop: Stop) {
        if self.reason().is_none() {
            let all = processes::all().unwrap_or_default();
            let asleep = all.iter().filter(|process| process.is_asleep());
            self.asleep = asleep.map(|process| process.pid).collect();
        }
        match stop {
            Stop::Pause => self.paused = true,
            Stop::Freeze => {
                self.freezers.insert(peer);
            }
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
        }
        if held && self.reason().is_none() {
            return self.go_on();
        }
        Ok(())
    }

    /// A connection is over.
    pub(crate) fn forget(&mut self, peer: u64) {
        self.asking.retain(|asking| asking.peer != peer);
        let _ = self.end(peer, Stop::Freeze);
    }

    /// The kernel may have woken something: it continues whom a hang-up reaches, or whose parent dies.
    pub(crate) fn disturbed(&mut self) {
        self.unsettled = self.reason().is_some();
    }

    /// After which time [`Self::look`] is to be called. `None`: nothing stands still.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        self.reason()?;
        if self.unsettled {
            return Some(AT_ONCE);
        }
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        Some(self.trusted.map_or(Duration::ZERO, left))
    }

    /// Stops what runs; again until it stays so, because a process may wake another.
    pub(crate) fn look(&mut self) -> Vec<Answer> {
        if !self.unsettled {
            self.watch();
        }
        if !self.unsettled {
            return Vec::new();
        }
        let settled = stop_all(&self.spared);
        let answer = |asking: &Asking, done| Answer {
            peer: asking.peer,
            request: asking.request,
            done,
        };
        if matches!(settled, Ok(true)) {
            self.unsettled = false;
            self.trusted = Some(Instant::now() + self.interval());
            let asked = self.asking.drain(..);
            return asked.map(|asking| answer(&asking, Ok(()))).collect();
        }
        let (mut given_up, now) = (Vec::new(), Instant::now());
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

    /// Whether what had stopped runs again, which nobody inside can have done but itself.
    fn watch(&mut self) {
        let now = Instant::now();
        if self.reason().is_none() || self.trusted.is_some_and(|until| now < until) {
            return;
        }
        let all = processes::all().unwrap_or_default();
        let awake = others(&all, &self.spared).filter(|process| !process.has_stopped(&all));
        let awake: Vec<i32> = awake.map(|process| process.pid).collect();
        self.trusted = Some(Instant::now() + self.interval().max(now.elapsed() * SHARE));
        if awake.is_empty() {
            return;
        }
        self.woken = self.woken.saturating_add(1);
        self.unsettled = true;
        if self.woken > LENIENT {
            for process in awake {
                // It may have ended.
                let _ = sys::kill(process, libc::SIGKILL);
            }
        }
    }

    fn interval(&self) -> Duration {
        if self.is_frozen() {
            WHILE_FROZEN
        } else {
            WHILE_PAUSED
        }
    }

    fn go_on(&mut self) -> io::Result<()> {
        self.unsettled = false;
        self.woken = 0;
        let asleep = std::mem::take(&mut self.asleep);
        for process in processes::all()? {
            if !asleep.contains(&process.pid) {
                // It may have ended meanwhile.
                let _ = sys::kill(process.pid, libc::SIGCONT);
            }
        }
        Ok(())
    }
}

/// Whether everything had stopped already.
fn stop_all(spared: &BTreeSet<i32>) -> io::Result<bool> {
    // One call stops all at once, those too that are being made. Where some are to go on there is none such, and
    // it takes as many looks as it takes.
    if spared.is_empty() {
        match sys::kill(-1, libc::SIGSTOP) {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(error),
            _ => {}
        }
    } else {
        for process in others(&processes::all()?, spared) {
            // It may have ended.
            let _ = sys::kill(process.pid, libc::SIGSTOP);
        }
    }
    let all = processes::all()?;
    Ok(others(&all, spared).all(|process| process.has_stopped(&all)))
}

fn others<'a>(all: &'a [Process], spared: &BTreeSet<i32>) -> impl Iterator<Item = &'a Process> {
    all.iter().filter(|process| !spared.contains(&process.pid))
}
