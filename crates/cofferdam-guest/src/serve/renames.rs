//! Programs that ask before they rename, where an overlay of an ordinary user's is: see [`crate::renames`].
//!
//! Nobody waits here: a file goes on at once, and a directory is a child's. That stands still with the programs. Meanwhile
//! the kernel takes a program out of its wait, so that it can stand still too, and the program asks again afterwards: as it
//! does after any signal. It is known again by what it asks for.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use cofferdam_guest::protocol::{Agent, Setup, Source};

use super::last_word::{self, LastWord};
use super::processes;
use crate::renames::{self, Arguments, Asked, Carried, Kind, OpenPath, Path};
use crate::sys::{self, Notification, Pending};
use crate::{program, seccomp};

/// So many directories at once; more wait.
const MOST: usize = 4;
/// So many calls of one program and its descendants are answered before it is another's turn.
const TURN: usize = 8;
/// So many that are done are remembered, in case that who asked for them was interrupted and asks again.
const REMEMBERED: usize = 64;
/// So often, so long, whoever has a signal is waited for: it may be stopped, or another thread's.
const LOOKS: u32 = 10;
const LOOK: Duration = Duration::from_micros(100);
/// Of renameat2(2): there must be nothing of the new name.
const NO_REPLACE: u32 = 1;

/// Where an answer goes.
#[derive(Debug, Clone, Copy)]
struct Call {
    listener: u64,
    notification: Notification,
}

/// A thread's rename. Who asks again after a signal asks from the same instruction.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    thread: i32,
    instruction: u64,
    flags: u32,
    paths: [Path; 2],
}

impl Known {
    fn of(asking: &Notification, asked: &Asked) -> Self {
        Self {
            thread: asking.thread,
            instruction: asking.instruction,
            flags: asked.flags,
            paths: asked.paths(),
        }
    }

    /// As far as it is known without a look at who asks.
    fn is_asked_by(&self, asking: &Notification) -> bool {
        (self.thread, self.instruction) == (asking.thread, asking.instruction)
    }
}

/// A child that renames a directory.
#[derive(Debug)]
struct Carrier {
    call: Call,
    known: Known,
    /// The code of an [`Carried`].
    word: LastWord,
}

#[derive(Debug)]
pub(crate) struct Renames {
    /// Of the overlays. Elsewhere the kernel renames.
    devices: Vec<u64>,
    asking: Vec<libc::sock_filter>,
    listeners: BTreeMap<u64, OwnedFd>,
    next: u64,
    /// One of a thread at most.
    waiting: VecDeque<Call>,
    carriers: Vec<Carrier>,
    /// Done, one of a thread at most, and perhaps nobody was there who heard it.
    done: VecDeque<Known>,
}

impl Renames {
    /// None where there is no file system that needs it.
    pub(crate) fn new(setup: &Setup) -> io::Result<Option<Self>> {
        let overlays = setup.mounts.iter().filter(|mount| {
            // Those of root's rename their directories themselves.
            setup.agent == Agent::Caller
                && mount.writable
                && matches!(mount.source, Source::Layers { upper: Some(_), .. })
        });
        let overlays = overlays.map(|mount| &mount.target);
        let given = setup.seen.iter().filter(|seen| seen.asks);
        let device = |target: &[u8]| {
            let path = sys::c_string(target)?;
            let found = sys::open_at(libc::AT_FDCWD, &path, libc::O_PATH, 0)?;
            Ok(sys::look_at(found.as_fd())?.device)
        };
        let devices: Vec<u64> = overlays
            .chain(given.map(|seen| &seen.target))
            .map(|target| device(target))
            .collect::<io::Result<_>>()?;
        Ok((!devices.is_empty()).then(|| Self {
            devices,
            asking: seccomp::asks_for_renames(),
            listeners: BTreeMap::new(),
            next: 0,
            waiting: VecDeque::new(),
            carriers: Vec::new(),
            done: VecDeque::new(),
        }))
    }

    /// The filter of a program.
    pub(crate) fn asking(&self) -> &[libc::sock_filter] {
        &self.asking
    }

    /// A program asks here, and all that it starts.
    pub(crate) fn listen(&mut self, listener: OwnedFd) {
        sys::wake_up_here(listener.as_fd());
        self.listeners.insert(self.next, listener);
        self.next += 1;
    }

    pub(crate) fn listeners(&self) -> impl Iterator<Item = (u64, RawFd)> {
        self.listeners.iter().map(|(n, fd)| (*n, fd.as_raw_fd()))
    }

    pub(crate) fn pipes(&self) -> impl Iterator<Item = (usize, RawFd)> {
        let carriers = self.carriers.iter().enumerate();
        carriers.map(|(index, one)| (index, one.word.raw()))
    }

    /// Answers what can be answered at once.
    pub(crate) fn hear(&mut self, number: u64) {
        for _ in 0..TURN {
            let Some(listener) = self.listeners.get(&number) else {
                return;
            };
            match sys::pending(listener.as_fd()) {
                Ok(Pending::Some) => {}
                Ok(Pending::None) => return,
                Ok(Pending::Over) | Err(_) => {
                    self.listeners.remove(&number);
                    return;
                }
            }
            if let Ok(Some(notification)) = sys::next_call(listener.as_fd()) {
                self.judge(Call {
                    listener: number,
                    notification,
                });
            }
        }
    }

    fn judge(&mut self, call: Call) {
        let asked = Arguments::of(&call.notification);
        let kind = if asked.flags & !NO_REPLACE == 0 {
            self.kind(call.notification.thread, &asked)
        } else {
            // An exchange: the kernel does it or not.
            Ok(Kind::Other)
        };
        match kind {
            Ok(Kind::Directory | Kind::Unknown) => {
                let thread = call.notification.thread;
                self.waiting.retain(|old| old.notification.thread != thread);
                self.waiting.push_back(call);
            }
            Ok(Kind::Absent) => self.absent(call),
            Ok(Kind::Other) | Err(_) => self.go_on(call),
        }
    }

    fn kind(&self, thread: i32, asked: &Arguments) -> io::Result<Kind> {
        let memory = renames::memory(thread)?;
        OpenPath::read(thread, &memory, asked.old)?.kind(&self.devices)
    }

    /// Children for those that wait, in a program's bounds.
    pub(crate) fn begin(&mut self, group: Option<BorrowedFd<'_>>, bounds: program::Bounds<'_>) {
        while let Some(call) = self.next() {
            let thread = call.notification.thread;
            let Ok(asked) = Asked::read(thread, &Arguments::of(&call.notification)) else {
                self.go_on(call);
                continue;
            };
            // Only now it is certain that all that was read is of who asks.
            if !self.waits(call) {
                continue;
            }
            let known = Known::of(&call.notification, &asked);
            if let Some(carrier) = self.carriers.iter_mut().find(|one| one.known == known) {
                carrier.call = call;
                continue;
            }
            if self.carriers.len() >= MOST {
                self.waiting.push_back(call);
                return;
            }
            match start(asked, &self.devices, group, bounds) {
                Ok(word) => self.carriers.push(Carrier { call, known, word }),
                Err(_) => self.go_on(call),
            }
        }
    }

    /// Where there is no room for another child, who asks again for what a child does already.
    fn next(&mut self) -> Option<Call> {
        let room = self.carriers.len() < MOST;
        let again = |call: &Call| {
            let thread = call.notification.thread;
            self.carriers.iter().any(|one| one.known.thread == thread)
        };
        let next = self.waiting.iter().position(|call| room || again(call))?;
        self.waiting.remove(next)
    }

    pub(crate) fn read(&mut self, index: usize) {
        if let Some(one) = self.carriers.get_mut(index) {
            one.word.hear();
        }
    }

    /// Tells those whose child has ended.
    pub(crate) fn tell(&mut self) {
        let (done, open) = std::mem::take(&mut self.carriers)
            .into_iter()
            .partition(|one| one.word.is_over());
        self.carriers = open;
        let done: Vec<Carrier> = done;
        for Carrier { call, known, word } in done {
            let killed = Carried::Failed(libc::EIO);
            match word.number().map_or(killed, Carried::of_code) {
                Carried::GoOn => self.go_on(call),
                Carried::Absent => self.absent(call),
                Carried::Failed(errno) => {
                    let _ = self.answer(call, errno);
                }
                Carried::Done => self.tell_done(call, known),
            }
        }
    }

    /// Remembers it where nobody was there who heard it. A signal that came before an answer was sent may take who asked out of
    /// the wait without it, so that is let happen first.
    fn tell_done(&mut self, call: Call, known: Known) {
        let mut looks = LOOKS;
        while looks > 0 && self.waits(call) && processes::has_signal(known.thread) {
            std::thread::sleep(LOOK);
            looks -= 1;
        }
        let told = self.answer(call, 0).is_ok();
        self.done.retain(|old| old.thread != known.thread);
        if !told {
            self.done.push_back(known);
            if self.done.len() > REMEMBERED {
                self.done.pop_front();
            }
        }
    }

    /// There is nothing of the old name: perhaps because it has been renamed, and who asked was interrupted.
    fn absent(&mut self, call: Call) {
        let asking = call.notification;
        let mut known = self.carriers.iter().map(|one| &one.known);
        if !known.any(|known| known.is_asked_by(&asking))
            && !self.done.iter().any(|known| known.is_asked_by(&asking))
        {
            return self.go_on(call);
        }
        let Ok(asked) = Asked::read(asking.thread, &Arguments::of(&asking)) else {
            return self.go_on(call);
        };
        let known = Known::of(&asking, &asked);
        if let Some(carrier) = self.carriers.iter_mut().find(|one| one.known == known) {
            carrier.call = call;
        } else if self.done.contains(&known) {
            self.tell_done(call, known);
        } else {
            self.go_on(call);
        }
    }

    fn waits(&self, call: Call) -> bool {
        let listener = self.listeners.get(&call.listener);
        listener.is_some_and(|fd| sys::is_valid(fd.as_fd(), call.notification.id))
    }

    /// Who asked may be gone: then nobody is told.
    fn go_on(&self, call: Call) {
        if let Some(listener) = self.listeners.get(&call.listener) {
            let _ = sys::go_on(listener.as_fd(), call.notification.id);
        }
    }

    fn answer(&self, call: Call, errno: i32) -> io::Result<()> {
        let gone = || io::Error::from_raw_os_error(libc::ENOENT);
        let listener = self.listeners.get(&call.listener).ok_or_else(gone)?;
        sys::answer(listener.as_fd(), call.notification.id, errno)
    }
}

/// A child that does it.
fn start(
    asked: Asked,
    devices: &[u64],
    group: Option<BorrowedFd<'_>>,
    bounds: program::Bounds<'_>,
) -> io::Result<LastWord> {
    let (word, tell) = LastWord::new()?;
    let pid = match group {
        Some(group) => sys::fork_within(group, 0)?,
        None => sys::fork_into(0)?,
    };
    if pid == 0 {
        // It keeps nothing of its parent's but its own three descriptors.
        let told = asked.alone_with(tell).and_then(|(asked, tell)| {
            let confine = || program::confine(bounds.limits, bounds.filter);
            let outcome = renames::carry(&asked, devices, confine);
            last_word::say(tell, outcome.code())
        });
        sys::exit(i32::from(told.is_err()));
    }
    Ok(word)
}
