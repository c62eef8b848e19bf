//! The programs that the host started: whose they are, how they are, and what is left of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use cofferdam_guest::protocol::{GuestExit, LISTED, ProgramEntry, SHOWN_ARGUMENTS, Streams};

use super::processes;
use super::pump::Pump;
use crate::program::{Bounds, Program};
use crate::sys;

/// With more programs than this, those of which no process is left are forgotten.
const REMEMBERED: usize = LISTED;
/// Each one takes three descriptors for as long as it runs.
const MOST_DETACHED: usize = 64;
/// Who traces a process is told of its end before its parent is. So long they may take to hear of it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Who started a program: a connection, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) peer: u64,
    pub(crate) exec: u64,
}

#[derive(Debug)]
pub(crate) struct Running {
    /// None where another program has the number by now.
    pid: Option<i32>,
    /// Until it is known whether the program was executed.
    pub(crate) starting: Option<OwnedFd>,
    pub(crate) owner: Option<Owner>,
    pub(crate) exit: Option<GuestExit>,
    pub(crate) streams: Streams,
    pub(crate) pump: Option<Pump>,
    /// See [`Pump::lost`], of one that is done.
    lost: u64,
    /// Tells its end also where somebody traces it, of which no SIGCHLD tells; nothing does while only a thread of it is
    /// kept that is not its first. One like that has not ended for anybody until it is killed.
    ended: Option<OwnedFd>,
    /// It is to be gone by then: it was killed, or it has ended by itself.
    gone_by: Option<Instant>,
    killed: BTreeSet<processes::Id>,
    arguments: Vec<Vec<u8>>,
}

impl Running {
    /// Killed, with all that it started and that can be told to be its.
    pub(crate) fn kill(&mut self) {
        let Some(pid) = self.pid else {
            return;
        };
        let family = processes::family(pid);
        for process in &family {
            let _ = sys::kill(process.pid, libc::SIGKILL);
        }
        let _ = sys::kill(-pid, libc::SIGKILL);
        self.killed.extend(family);
        self.is_to_be_gone();
    }

    fn is_to_be_gone(&mut self) {
        let soon = Instant::now() + PATIENCE;
        self.gone_by.get_or_insert(soon);
    }

    /// Where nothing more is carried.
    fn drop_pump(&mut self) {
        if let Some(pump) = self.pump.take_if(|pump| pump.is_done()) {
            self.lost = pump.lost();
        }
    }

    pub(crate) fn has_exited(&mut self, exit: GuestExit) {
        self.exit = Some(exit);
        if let Some(pump) = &mut self.pump {
            pump.tell_end(exit);
            self.drop_pump();
        }
        self.ended = None;
        // Unless what it started was killed with it.
        if self.killed.is_empty() {
            self.gone_by = None;
        }
    }

    /// Who traces a process and does not care for its end keeps it from everybody else, also one that was killed, by a
    /// stop on its way out. It goes on when they end, and they may be kept by others in the same way: those are next.
    fn free(&mut self) {
        let mut held: BTreeSet<i32> = std::mem::take(&mut self.killed)
            .into_iter()
            .filter(|process| process.is_there())
            .map(|process| process.pid)
            .collect();
        // Not reaped: the number is still its own.
        let kept = self.pid.filter(|_| self.exit.is_none());
        held.extend(kept);
        for tracer in held.into_iter().flat_map(processes::tracers) {
            let _ = sys::kill(tracer.pid, libc::SIGKILL);
            self.killed.insert(tracer);
        }
        let again = kept.is_some() || !self.killed.is_empty();
        self.gone_by = again.then(|| Instant::now() + PATIENCE);
    }

    pub(crate) fn signal(&mut self, signal: i32) -> io::Result<()> {
        if signal == libc::SIGKILL {
            self.kill();
            return Ok(());
        }
        match self.pid.map(|pid| sys::kill(-pid, signal)) {
            Some(Err(error)) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
            _ => Ok(()),
        }
    }

    /// Its last process is gone, and nothing of it is carried any more.
    fn is_over(&self) -> bool {
        let alive = |pid: i32| sys::kill(-pid, 0).is_ok();
        self.exit.is_some() && self.pump.is_none() && !self.pid.is_some_and(alive)
    }
}

/// By numbers of the sandbox's own, which are used once.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    all: BTreeMap<u64, Running>,
    next: u64,
}

/// One program that is to be started.
#[derive(Debug)]
pub(crate) struct Order<'a> {
    pub(crate) program: Program,
    pub(crate) arguments: &'a [Vec<u8>],
    pub(crate) owner: Owner,
    pub(crate) streams: Streams,
    pub(crate) fds: Vec<OwnedFd>,
    /// The control group that it is to be in, if not init's.
    pub(crate) group: Option<BorrowedFd<'a>>,
}

impl Programs {
    /// Its number. Whether it was executed is told by its `starting`.
    pub(crate) fn start(&mut self, order: Order<'_>, bounds: Bounds<'_>) -> io::Result<u64> {
        let (pump, fds) = match order.streams {
            Streams::Given | Streams::Terminal => (None, order.fds),
            Streams::Detached => {
                self.check_room()?;
                let [output, end] = <[OwnedFd; 2]>::try_from(order.fds)
                    .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
                let (pump, fds) = Pump::new(output, end)?;
                (Some(pump), fds)
            }
        };
        let terminal = order.streams == Streams::Terminal;
        let program = &order.program;
        let (pid, pipe) = program.start(&fds, terminal, bounds, order.group)?;
        // A number that is free again belongs to no old program any more.
        for old in self.all.values_mut().filter(|old| old.pid == Some(pid)) {
            old.pid = None;
        }
        if self.all.len() > REMEMBERED {
            self.all.retain(|_, old| !old.is_over());
        }
        let number = self.next;
        self.next += 1;
        let running = Running {
            pid: Some(pid),
            starting: Some(pipe),
            owner: Some(order.owner),
            exit: None,
            streams: order.streams,
            pump,
            lost: 0,
            // Without one it is as it is where nobody traces it.
            ended: sys::process_descriptor(pid).ok(),
            gone_by: None,
            killed: BTreeSet::new(),
            arguments: shown(order.arguments),
        };
        self.all.insert(number, running);
        Ok(number)
    }

    fn check_room(&self) -> io::Result<()> {
        let detached = self.all.values().filter(|one| one.pump.is_some()).count();
        if detached < MOST_DETACHED {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::EAGAIN))
        }
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Running> {
        self.all.get_mut(&number)
    }

    pub(crate) fn remove(&mut self, number: u64) {
        self.all.remove(&number);
    }

    /// The one that has this process and has not ended.
    pub(crate) fn of_process(&self, pid: i32) -> Option<u64> {
        let found = |(_, one): &(&u64, &Running)| one.pid == Some(pid) && one.exit.is_none();
        self.all.iter().find(found).map(|(number, _)| *number)
    }

    pub(crate) fn running(&self) -> u32 {
        let running = self.all.values().filter(|one| one.exit.is_none());
        u32::try_from(running.count()).unwrap_or(u32::MAX)
    }

    /// What its connection leaves behind.
    pub(crate) fn of_peer(&mut self, peer: u64) -> impl Iterator<Item = (u64, &mut Running)> {
        self.all
            .iter_mut()
            .filter(move |(_, one)| one.owner.is_some_and(|owner| owner.peer == peer))
            .map(|(number, one)| (*number, one))
    }

    pub(crate) fn starting(&self) -> Vec<(u64, sys::Wait)> {
        let pipe = |one: &Running| {
            one.starting
                .as_ref()
                .map(|p| sys::Wait::read(p.as_raw_fd()))
        };
        let all = self.all.iter();
        all.filter_map(|(number, one)| Some((*number, pipe(one)?)))
            .collect()
    }

    /// By which the end of those is told that have not ended.
    pub(crate) fn ends(&self) -> Vec<(u64, sys::Wait)> {
        let running = self.all.iter().filter(|(_, one)| one.exit.is_none());
        running
            .filter_map(|(number, one)| {
                let ended = one.ended.as_ref()?;
                Some((*number, sys::Wait::read(ended.as_raw_fd())))
            })
            .collect()
    }

    /// Its end was told. Where it can be reaped that is done by now, or as soon as whoever traces it was told too.
    pub(crate) fn has_ended(&mut self, number: u64) {
        if let Some(running) = self.all.get_mut(&number) {
            running.ended = None;
            if running.exit.is_none() {
                running.is_to_be_gone();
            }
        }
    }

    /// When [`Self::free`] is to be called.
    pub(crate) fn gone_by(&self) -> Option<Instant> {
        self.all.values().filter_map(|one| one.gone_by).min()
    }

    /// Frees those that are to be gone from whoever keeps them.
    pub(crate) fn free(&mut self) {
        let now = Instant::now();
        let late = |one: &Running| one.gone_by.is_some_and(|by| by <= now);
        for one in self.all.values_mut().filter(|one| late(one)) {
            one.free();
        }
    }

    pub(crate) fn pumps(&self) -> Vec<(u64, sys::Wait)> {
        let pipe = |one: &Running| one.pump.as_ref()?.raw().map(sys::Wait::read);
        let all = self.all.iter();
        all.filter_map(|(number, one)| Some((*number, pipe(one)?)))
            .collect()
    }

    pub(crate) fn carry(&mut self, number: u64) {
        if let Some(running) = self.all.get_mut(&number)
            && let Some(pump) = &mut running.pump
        {
            pump.carry();
            running.drop_pump();
        }
    }

    /// The last ones, in the order in which they were started.
    pub(crate) fn list(&self) -> Vec<ProgramEntry> {
        let known = self.all.iter().filter(|(_, one)| one.starting.is_none());
        let mut last: Vec<ProgramEntry> = known
            .rev()
            .take(LISTED)
            .map(|(number, one)| ProgramEntry {
                program: *number,
                arguments: one.arguments.clone(),
                detached: one.streams == Streams::Detached,
                awaited: one.owner.is_some() && one.streams != Streams::Detached,
                terminal: one.streams == Streams::Terminal,
                lost: one.pump.as_ref().map_or(one.lost, Pump::lost),
                exit: one.exit,
            })
            .collect();
        last.reverse();
        last
    }
}

fn shown(arguments: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut room = SHOWN_ARGUMENTS;
    let mut shown = Vec::new();
    for argument in arguments {
        let kept = argument.len().min(room);
        shown.push(argument[..kept].to_vec());
        // Each one counts, an empty one too.
        room = room.saturating_sub(kept + 1);
        if room == 0 {
            break;
        }
    }
    shown
}
