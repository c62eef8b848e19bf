//! What init does for the sandbox's life: it listens to the host's processes, starts programs for them, reaps what
//! dies, and ends with everything in the sandbox when it is to.
//!
//! One thread and one poll: nothing here waits for anybody, and nothing wakes it while nothing happens.

mod answers;
mod last_word;
mod memory;
mod peer;
mod ports;
pub(crate) mod processes;
mod programs;
mod proof;
mod pump;
mod renames;
mod signals;
mod standstill;
mod stopping;
mod transfers;
mod way;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use cofferdam_guest::protocol::{ExecStep, GuestExit, Reply, Setup, Streams};

use self::peer::Peer;
use self::ports::Ports;
use self::programs::Programs;
use self::proof::Proof;
use self::renames::Renames;
use self::standstill::Standstill;
use self::stopping::Stopping;
use self::transfers::Transfers;
pub(crate) use self::way::Resident;
use self::way::WayFile;
use crate::freezer::Freezer;
use crate::program::{self, Bounds, Told};
use crate::sys::Waited;
use crate::{seccomp, sys};

/// So many processes of the host at once. Those inside are not counted: they are none.
const MOST_PEERS: usize = 64;
/// So many requests of one are answered before it is another's turn.
const TURN: usize = 32;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;
/// So many children are heard of before it is the others' turn: who dies, or makes init its tracer, may do so for ever.
const REAPED: usize = 64;
/// How long a program may take to leave its terminal after the hang-up.
const FAREWELL: Duration = Duration::from_secs(1);

/// What is known of one descriptor that is waited for.
#[derive(Debug, Clone, Copy)]
enum Whose {
    Signals,
    Listener,
    /// The listener's file.
    WayFile,
    /// A program of which it is not known yet whether it was executed.
    Starting(u64),
    /// A program's end.
    Ended(u64),
    Pump(u64),
    Proof(usize),
    Transfer(usize),
    Port(usize),
    /// Programs that ask before they rename.
    Asking(u64),
    Rename(usize),
    Peer(u64),
}

#[derive(Debug)]
struct Server<'a> {
    setup: &'a Setup,
    filter: Vec<libc::sock_filter>,
    /// Duplicates of the wall's, where the sandbox outlives its maker. Nothing here reads from them.
    sockets: Vec<OwnedFd>,
    signals: OwnedFd,
    listener: Option<OwnedFd>,
    way_file: Option<WayFile>,
    /// Cannot be accepted from until something is closed: descriptors have run out.
    full: bool,
    /// Until the sandbox stays, where there is a launcher.
    stays: Option<OwnedFd>,
    peers: BTreeMap<u64, Peer>,
    next_peer: u64,
    programs: Programs,
    standstill: Standstill,
    proofs: Vec<Proof>,
    transfers: Transfers,
    files_of: Option<(u32, u32)>,
    ports: Ports,
    renames: Option<Renames>,
    /// Programs that are to be killed then, unless they have ended.
    farewells: Vec<(Instant, u64)>,
    /// There may be more children to hear of, and nothing says so again.
    unreaped: bool,
    over: bool,
}

/// What a server has beside what it was told.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// Where the sandbox outlives its maker.
    pub(crate) resident: Option<Resident>,
    pub(crate) freezer: Option<Freezer>,
    /// The child that is root ([`crate::as_root`]).
    pub(crate) root: Option<i32>,
    /// Whose the files are that are delivered, where they are not this process's.
    pub(crate) files_of: Option<(u32, u32)>,
}

/// Returns when the sandbox is to end.
pub(crate) fn run(
    socket: OwnedFd,
    setup: &Setup,
    sockets: Vec<OwnedFd>,
    own: Own,
) -> io::Result<()> {
    let Own {
        resident,
        freezer,
        root,
        files_of,
    } = own;
    let signals = sys::signal_descriptor(&[libc::SIGCHLD])?;
    sys::ignore_signal(libc::SIGPIPE);
    let mut maker = Peer::maker(socket);
    let (kept, listener, way_file, stays) = match resident {
        Some(Resident {
            listener,
            file,
            stays,
        }) => {
            // From here on the socket says of its other side that it is this process.
            sys::listen(listener.as_fd(), BACKLOG)?;
            sys::do_not_wait(listener.as_fd())?;
            let kept = sockets.iter().map(OwnedFd::try_clone);
            let kept = kept.collect::<io::Result<_>>()?;
            (kept, Some(listener), file, stays)
        }
        // No copy stays here: the wall's sockets are the host's alone, and close when it closes them.
        None => (Vec::new(), None, None, None),
    };
    maker.tell_with(&Reply::Ready, sockets);
    let mut server = Server {
        setup,
        filter: seccomp::program(),
        sockets: kept,
        signals,
        listener,
        way_file,
        full: false,
        stays,
        peers: BTreeMap::from([(0, maker)]),
        next_peer: 1,
        programs: Programs::default(),
        standstill: Standstill::new(Stopping::new(freezer, root)),
        proofs: Vec::new(),
        transfers: Transfers::default(),
        files_of,
        ports: Ports::default(),
        renames: Renames::new(setup)?,
        farewells: Vec::new(),
        unreaped: false,
        over: false,
    };
    while !server.over {
        server.turn()?;
    }
    Ok(())
}

impl Server<'_> {
    /// Waits until something happens, and does what is to be done then.
    fn turn(&mut self) -> io::Result<()> {
        let (whose, waits): (Vec<Whose>, Vec<sys::Wait>) = self.waits().into_iter().unzip();
        let ready = sys::wait_for(&waits, self.patience())?;
        if self.unreaped {
            self.reap()?;
        }
        for (whose, _) in whose.into_iter().zip(ready).filter(|(_, ready)| *ready) {
            match whose {
                Whose::Signals => self.reap()?,
                Whose::Listener => self.accept(),
                Whose::WayFile => self.way_file.as_mut().map_or(Ok(()), WayFile::read)?,
                Whose::Starting(program) => self.decide(program),
                Whose::Ended(program) => self.programs.has_ended(program),
                Whose::Pump(program) => self.programs.carry(program),
                Whose::Proof(index) => self.proofs[index].read(),
                Whose::Transfer(index) => self.transfers.read(index),
                Whose::Port(index) => self.ports.decide(index),
                Whose::Asking(program) => {
                    if let Some(renames) = &mut self.renames {
                        renames.hear(program);
                    }
                }
                Whose::Rename(index) => {
                    if let Some(renames) = &mut self.renames {
                        renames.read(index);
                    }
                }
                Whose::Peer(peer) => self.hear(peer),
            }
        }
        self.catch_up();
        self.tell_proofs();
        self.rename();
        for (peer, reply) in self.transfers.ended() {
            self.tell(peer, &reply);
        }
        self.tell_ports();
        for answer in self.standstill.look() {
            self.tell(
                answer.peer,
                &match answer.done {
                    Ok(()) => Reply::Done {
                        request: answer.request,
                    },
                    Err(errno) => Reply::Failed {
                        request: answer.request,
                        errno,
                    },
                },
            );
        }
        self.bid_farewell();
        self.programs.free();
        self.close_ended();
        self.over |= self.way_file.as_ref().is_some_and(WayFile::is_gone);
        Ok(())
    }

    fn waits(&self) -> Vec<(Whose, sys::Wait)> {
        let mut waits = vec![(Whose::Signals, sys::Wait::read(self.signals.as_raw_fd()))];
        // In this order: what has happened to programs is known before more is asked for.
        waits.extend(
            self.programs
                .starting()
                .into_iter()
                .map(|(n, wait)| (Whose::Starting(n), wait)),
        );
        let ends = self.programs.ends().into_iter();
        waits.extend(ends.map(|(n, wait)| (Whose::Ended(n), wait)));
        waits.extend(
            self.programs
                .pumps()
                .into_iter()
                .map(|(n, wait)| (Whose::Pump(n), wait)),
        );
        let proofs = self.proofs.iter().enumerate();
        waits.extend(proofs.map(|(n, proof)| (Whose::Proof(n), sys::Wait::read(proof.raw()))));
        let transfers = self.transfers.pipes();
        waits.extend(transfers.map(|(n, fd)| (Whose::Transfer(n), sys::Wait::read(fd))));
        waits.extend(self.ports.waits().map(|(n, wait)| (Whose::Port(n), wait)));
        if let Some(renames) = &self.renames {
            let pipes = renames.pipes();
            waits.extend(pipes.map(|(n, fd)| (Whose::Rename(n), sys::Wait::read(fd))));
            // What stands still asks for nothing.
            if self.standstill.reason().is_none() {
                let listeners = renames.listeners();
                waits.extend(listeners.map(|(n, fd)| (Whose::Asking(n), sys::Wait::read(fd))));
            }
        }
        waits.extend(
            self.peers
                .iter()
                .map(|(n, peer)| (Whose::Peer(*n), peer.wait())),
        );
        if let Some(watch) = self.way_file.as_ref().and_then(WayFile::raw) {
            waits.push((Whose::WayFile, sys::Wait::read(watch)));
        }
        if let Some(listener) = self.listener.as_ref().filter(|_| !self.full) {
            waits.push((Whose::Listener, sys::Wait::read(listener.as_raw_fd())));
        }
        waits
    }

    /// None is for ever.
    fn patience(&self) -> Option<Duration> {
        if self.unreaped || self.peers.values().any(|peer| peer.behind) {
            return Some(Duration::ZERO);
        }
        let farewells = self.farewells.iter().map(|(when, _)| *when);
        let next = farewells.chain(self.programs.gone_by()).min();
        let next = next.map(|next| next.saturating_duration_since(Instant::now()));
        let look = self.standstill.next_look();
        let port = self.ports.patience();
        next.into_iter().chain(look).chain(port).min()
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else {
            return;
        };
        match sys::accept(listener.as_fd()) {
            Ok(Some(socket)) => {
                // Every process of the sandbox has a number in its pid namespace, which is this one's. Who has none is
                // outside.
                let outside = matches!(sys::peer(socket.as_fd()), Ok(0));
                if outside && self.peers.len() < MOST_PEERS {
                    self.peers.insert(self.next_peer, Peer::new(socket));
                    self.next_peer += 1;
                }
            }
            Ok(None) => {}
            Err(_) => self.full = true,
        }
    }

    /// What a connection says.
    fn hear(&mut self, number: u64) {
        let Some(peer) = self.peers.get_mut(&number) else {
            return;
        };
        peer.flush();
        if !peer.behind {
            if peer.fill().is_err() {
                peer.end();
            }
            self.take_turn(number);
        }
    }

    /// What was left of the turn before.
    fn catch_up(&mut self) {
        let behind = self.peers.iter().filter(|(_, peer)| peer.behind);
        let behind: Vec<u64> = behind.map(|(number, _)| *number).collect();
        for number in behind {
            self.take_turn(number);
        }
    }

    fn take_turn(&mut self, number: u64) {
        for _ in 0..TURN {
            let Some(peer) = self.peers.get_mut(&number) else {
                return;
            };
            peer.behind = false;
            match peer.next() {
                Ok(Some(request)) => self.answer(number, request),
                Ok(None) => return,
                Err(peer::Ended) => return peer.end(),
            }
        }
        if let Some(peer) = self.peers.get_mut(&number) {
            peer.behind = true;
        }
    }

    fn tell(&mut self, peer: u64, reply: &Reply) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.tell(reply);
        }
    }

    /// Directories that programs are waiting for. Who renames them stands still with the programs.
    fn rename(&mut self) {
        let Some(renames) = &mut self.renames else {
            return;
        };
        renames.tell();
        if self.standstill.reason().is_none() {
            let bounds = Bounds {
                limits: self.setup.limits,
                filter: &self.filter,
                asking: None,
            };
            renames.begin(self.standstill.by().group(), bounds);
        }
    }

    /// The socket of a starting program can be read: it hands something over, it runs, or it could not be executed.
    fn decide(&mut self, number: u64) {
        while let Some(running) = self.programs.get_mut(number)
            && let Some(socket) = &running.starting
        {
            match program::told(socket.as_fd()) {
                Told::Nothing => return,
                Told::Listener(listener) => {
                    if let Some(renames) = &mut self.renames {
                        renames.listen(listener);
                    }
                }
                Told::Runs => self.decided(number, None),
                Told::Failed(step, errno) => self.decided(number, Some((step, errno))),
                Told::Lost => {
                    running.kill();
                    self.decided(number, Some((ExecStep::Filter, libc::EMFILE)));
                }
            }
        }
    }

    fn decided(&mut self, number: u64, failed: Option<(ExecStep, i32)>) {
        let Some(running) = self.programs.get_mut(number) else {
            return;
        };
        running.starting = None;
        let owner = running.owner;
        if failed.is_some() {
            self.programs.remove(number);
        }
        let Some(owner) = owner else {
            return;
        };
        let exec = owner.exec;
        self.tell(
            owner.peer,
            &match failed {
                None => Reply::Started {
                    exec,
                    program: number,
                },
                Some((step, errno)) => Reply::NotStarted { exec, errno, step },
            },
        );
    }

    fn reap(&mut self) -> io::Result<()> {
        // Many deaths may be one signal: only the wake-up matters.
        let mut buffer = [0u8; 1024];
        let _ = File::from(self.signals.try_clone()?).read(&mut buffer);
        self.standstill.disturbed();
        self.full = false;
        self.unreaped = false;
        self.transfers.go_on();
        for _ in 0..REAPED {
            let (pid, status) = match sys::wait_once(-1, false) {
                Ok(Some(Waited::Ended(pid, status))) => (pid, status),
                Ok(Some(Waited::LetGo)) => continue,
                Ok(None) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(()),
                Err(error) => return Err(error),
            };
            self.transfers.reaped(pid);
            self.standstill.no_longer_spare(pid);
            let Some(number) = self.programs.of_process(pid) else {
                continue;
            };
            self.decide(number);
            let exit = if libc::WIFSIGNALED(status) {
                GuestExit::Signal(libc::WTERMSIG(status))
            } else {
                GuestExit::Code(libc::WEXITSTATUS(status))
            };
            // Gone by now where it had never started.
            let Some(running) = self.programs.get_mut(number) else {
                continue;
            };
            running.has_exited(exit);
            if let Some(owner) = running.owner {
                self.tell(
                    owner.peer,
                    &Reply::Exited {
                        exec: owner.exec,
                        exit,
                    },
                );
            }
        }
        self.unreaped = true;
        Ok(())
    }

    fn tell_proofs(&mut self) {
        let (done, open) = std::mem::take(&mut self.proofs)
            .into_iter()
            .partition(Proof::is_done);
        self.proofs = open;
        for proof in done {
            let (peer, reply) = proof.reply();
            self.tell(peer, &reply);
        }
    }

    fn close_ended(&mut self) {
        let ended = self.peers.iter().filter(|(_, peer)| peer.has_ended());
        let ended: Vec<u64> = ended.map(|(number, _)| *number).collect();
        for number in ended {
            let Some(peer) = self.peers.remove(&number) else {
                continue;
            };
            self.full = false;
            // Nothing half-made stays, and nothing stays that was made for its maker alone.
            self.over |= peer.maker;
            self.leave(number);
        }
    }

    /// A connection is over: its programs end, unless they were started to survive it.
    fn leave(&mut self, peer: u64) {
        let paused = self.standstill.reason().is_some();
        let farewell = Instant::now() + FAREWELL;
        let mut farewells = Vec::new();
        for (number, running) in self.programs.of_peer(peer) {
            running.owner = None;
            match running.streams {
                _ if running.exit.is_some() => {}
                Streams::Detached => {}
                // It has heard the hang-up, and shells write their history then.
                Streams::Terminal if !paused => farewells.push((farewell, number)),
                Streams::Given | Streams::Terminal => running.kill(),
            }
        }
        self.farewells.extend(farewells);
        self.transfers.leave(peer);
        self.ports.leave(peer);
        self.standstill.forget(peer);
        self.standstill.disturbed();
    }

    fn bid_farewell(&mut self) {
        let now = Instant::now();
        let programs = &mut self.programs;
        self.farewells.retain(|(when, number)| {
            let running = programs.get_mut(*number);
            let Some(running) = running.filter(|running| running.exit.is_none()) else {
                return false;
            };
            if *when <= now {
                running.kill();
            }
            *when > now
        });
    }
}
