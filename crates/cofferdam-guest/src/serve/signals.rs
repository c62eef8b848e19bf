//! Stopping by SIGSTOP, which needs nothing of the machine. What a signal cannot do is done by looking: a stop counts
//! when every thread has stopped in one look and none has run meanwhile, and is looked at again when the kernel may have
//! woken something. A process can also have itself woken, by a timer whose signal is SIGCONT; nobody tells, so it
//! is looked at from time to time, and who does it again and again is ended. One that stops itself before each look has run
//! as well: the kernel counts how often.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use super::processes::{self, Id, Process, Turns};
use crate::sys;

/// Between two looks at what does not stop.
pub(super) const AT_ONCE: Duration = Duration::from_millis(1);
/// A look may cost one part in so many of the time.
const SHARE: u32 = 20;
/// So often what was woken is only stopped again.
const LENIENT: u32 = 4;

#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// What had been stopped before, by a shell's job control as a rule, and is to stay so.
    asleep: BTreeSet<i32>,
    /// How often each had run when all had stopped.
    standing: BTreeMap<Id, Turns>,
    /// Until then what has stopped is taken to stand still.
    trusted: Option<Instant>,
    /// How often something ran that had stopped.
    woken: u32,
    /// Init's own children, which carry files meanwhile. They are no program of anybody's.
    spared: BTreeSet<i32>,
    /// The child that is root, which is spared with all that it starts.
    root: Option<i32>,
}

impl Signals {
    pub(super) fn new(root: Option<i32>) -> Self {
        Self {
            root,
            ..Self::default()
        }
    }

    pub(super) fn spare(&mut self, pid: i32) {
        self.spared.insert(pid);
    }

    /// It was reaped: whoever has its number next is anybody.
    pub(super) fn no_longer_spare(&mut self, pid: i32) {
        self.spared.remove(&pid);
    }

    /// Before anything is stopped.
    pub(super) fn begin(&mut self) {
        let all = processes::all().unwrap_or_default();
        let asleep = all.iter().filter(|process| process.is_asleep());
        self.asleep = asleep.map(|process| process.pid).collect();
    }

    /// Stops what runs; whether everything had stopped already. It is trusted for `interval` then.
    pub(super) fn stop(&mut self, interval: Duration) -> io::Result<bool> {
        // One call stops all at once, those too that are being made. Where some are to go on there is none such, and
        // it takes as many looks as it takes.
        if self.spared.is_empty() {
            match sys::kill(-1, libc::SIGSTOP) {
                Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(error),
                _ => {}
            }
        } else {
            for process in self.others(&processes::all()?) {
                // It may have ended.
                let _ = sys::kill(process.pid, libc::SIGSTOP);
            }
        }
        // Who is looked at first may be let go on by who is looked at later, and stop again before anybody looks. Where
        // nothing has run from before the look until after it, there was a moment at which all stood still.
        let before = self.turns(&processes::all()?);
        let all = processes::all()?;
        let stopped = self.others(&all).all(|process| process.has_stopped(&all));
        if !stopped || self.turns(&all) != before {
            return Ok(false);
        }
        let has_run = |(id, turns): (&Id, &Turns)| {
            let stood = self.standing.get(id)?;
            (stood != turns).then_some(id.pid)
        };
        // Of a child of its own init hears when it stops again, and comes here without having looked who runs.
        let awake: Vec<i32> = before.iter().filter_map(has_run).collect();
        self.standing = before;
        self.trusted = Some(Instant::now() + interval);
        Ok(awake.is_empty() || !self.ends(&awake))
    }

    /// These had stopped, and have run since. Whether they are ended for it.
    fn ends(&mut self, awake: &[i32]) -> bool {
        self.woken = self.woken.saturating_add(1);
        let ends = self.woken > LENIENT;
        if ends {
            for &process in awake {
                // It may have ended.
                let _ = sys::kill(process, libc::SIGKILL);
            }
        }
        ends
    }

    fn turns(&self, all: &[Process]) -> BTreeMap<Id, Turns> {
        let there = self.others(all).filter(|process| !process.has_ended());
        there
            .map(|process| (process.id(), process.turns()))
            .collect()
    }

    /// Until what has stopped is to be looked at again.
    pub(super) fn trusted(&self) -> Duration {
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        self.trusted.map_or(Duration::ZERO, left)
    }

    /// Whether what had stopped runs again or has run meanwhile, which nobody inside can have done but itself. Looks no more
    /// often than every `interval`.
    pub(super) fn is_awake(&mut self, interval: Duration) -> bool {
        let now = Instant::now();
        if self.trusted.is_some_and(|until| now < until) {
            return false;
        }
        let all = processes::all().unwrap_or_default();
        let has_run =
            |process: &Process| self.standing.get(&process.id()) != Some(&process.turns());
        let awake = self.others(&all).filter(|process| {
            !process.has_ended() && (!process.has_stopped(&all) || has_run(process))
        });
        let awake: Vec<i32> = awake.map(|process| process.pid).collect();
        self.trusted = Some(Instant::now() + interval.max(now.elapsed() * SHARE));
        if awake.is_empty() {
            return false;
        }
        self.ends(&awake);
        // It is counted once.
        self.standing.clear();
        true
    }

    fn others<'a>(&'a self, all: &'a [Process]) -> impl Iterator<Item = &'a Process> {
        let of_root = self.root.map(|root| processes::family_in(all, root));
        let mut of_root = of_root.unwrap_or_default();
        // What root has made somebody else's may be this process's to stop.
        let (own, _) = sys::own_ids();
        of_root.retain(|&pid| processes::user(pid) != Some(own));
        all.iter().filter(move |process| {
            !self.spared.contains(&process.pid) && !of_root.contains(&process.pid)
        })
    }

    pub(super) fn go_on(&mut self) -> io::Result<()> {
        self.woken = 0;
        self.standing.clear();
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
