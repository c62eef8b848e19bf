//! The loop: it sleeps until there is something to do.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signalfd::SignalFd;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::WaitOptions;

use super::begin::{self, Begun};
use super::clients::{Clients, Ticket};
use super::confine;
use super::error::SupervisorError;
use super::link::Link;
use super::messages::{self, Answer, Ask, Status, Wall};
use super::state_directory::StateDirectory;
use crate::client::frames::Outgoing;

/// Until a place that is still being sought is told to the starter as it is.
const SETTLE: Duration = Duration::from_secs(9);
/// Without descriptors nobody can be heard for so long.
const REST: Duration = Duration::from_millis(100);

/// The whole life of the process.
pub fn run() -> Result<(), SupervisorError> {
    let starter = begin::starter()?;
    match begin(&starter) {
        Ok(supervisor) => supervisor.serve(starter),
        Err(error) => {
            let refused = messages::answer(&Answer::Refused(error.to_string()));
            if let Ok(frame) = refused {
                _ = Outgoing::new(frame).advance(&starter, &[]);
            }
            Err(error)
        }
    }
}

#[derive(Debug)]
struct Supervisor {
    /// Held for as long as this process lives.
    lock: OwnedFd,
    init: OwnedFd,
    directory: StateDirectory,
    listener: UnixListener,
    /// Until then nobody is taken in.
    rests: Option<Instant>,
    signals: SignalFd,
    clients: Clients,
    link: Link,
    /// To be told when the place is kept, or when this is over.
    starter: Option<(Ticket, Instant)>,
}

/// Why it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    InitIsDead,
    Asked(Option<Ticket>),
}

fn begin(starter: &UnixStream) -> Result<Supervisor, SupervisorError> {
    let signals = confine::signals().map_err(|errno| SupervisorError::Wait(errno.into()))?;
    let Begun {
        lock,
        init,
        directory,
        link,
    } = begin::read(starter)?;
    if is_dead(&init).map_err(SupervisorError::Wait)? {
        return Err(SupervisorError::Dead);
    }
    begin::sign(&lock).map_err(SupervisorError::Sign)?;
    let listener = directory.listen().map_err(SupervisorError::Socket)?;
    confine::confine().map_err(SupervisorError::GiveUp)?;
    Ok(Supervisor {
        lock,
        init,
        directory,
        listener,
        rests: None,
        signals,
        clients: Clients::default(),
        link,
        starter: None,
    })
}

fn is_dead(init: &OwnedFd) -> io::Result<bool> {
    let mut init = [PollFd::new(init, PollFlags::IN)];
    Ok(rustix::event::poll(&mut init, Some(&Timespec::default()))? > 0)
}

impl Supervisor {
    fn serve(mut self, starter: UnixStream) -> Result<(), SupervisorError> {
        let ticket = self.clients.add_waiting(starter);
        self.starter = ticket.map(|ticket| (ticket, Instant::now() + SETTLE));
        loop {
            if let Some(end) = self.advance() {
                return self.end(end);
            }
            if self.wait()? {
                return self.end(End::InitIsDead);
            }
        }
    }

    /// Does everything that can be done at once.
    fn advance(&mut self) -> Option<End> {
        if let Some(end) = self.heed_signals() {
            return Some(end);
        }
        if self.rests.is_none_or(|until| Instant::now() >= until) {
            let accepted = self.clients.accept(&self.listener);
            self.rests = accepted.is_err().then(|| Instant::now() + REST);
        }
        for (ticket, ask) in self.clients.advance() {
            match ask {
                Some(Ask::Status) => self.tell_status(ticket),
                Some(Ask::Stop) => return Some(End::Asked(Some(ticket))),
                Some(Ask::Reload) => {
                    if let Err(why) = self.link.reload(ticket) {
                        let refused = Answer::Refused(why.to_owned());
                        self.clients.tell(ticket, &refused);
                    }
                }
                None => {
                    let refused = Answer::Refused("it is of another version".to_owned());
                    self.clients.tell(ticket, &refused);
                }
            }
        }
        for (ticket, outcome) in self.link.advance(&self.directory) {
            let answer = match outcome {
                Ok(closed) => Answer::Reloaded { closed },
                Err(why) => Answer::Refused(why),
            };
            self.clients.tell(ticket, &answer);
        }
        if let Some((ticket, deadline)) = self.starter
            && (self.link.wall() != Wall::Recovering || Instant::now() >= deadline)
        {
            self.starter = None;
            self.tell_status(ticket);
        }
        None
    }

    fn tell_status(&mut self, ticket: Ticket) {
        let status = Answer::Status(Status {
            process: std::process::id(),
            wall: self.link.wall(),
            epoch: self.link.epoch(),
        });
        self.clients.tell(ticket, &status);
    }

    fn heed_signals(&mut self) -> Option<End> {
        let mut end = None;
        while let Ok(Some(signal)) = self.signals.read_signal() {
            if i32::try_from(signal.ssi_signo) == Ok(libc::SIGTERM) {
                end = Some(End::Asked(None));
            }
        }
        // Gateways that were started here.
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        end
    }

    /// Sleeps. Whether the sandbox's init is dead.
    fn wait(&self) -> Result<bool, SupervisorError> {
        let mut wanted: Vec<(BorrowedFd<'_>, PollFlags)> = vec![
            (self.init.as_fd(), PollFlags::IN),
            (self.signals.as_fd(), PollFlags::IN),
        ];
        if self.rests.is_none() {
            wanted.push((self.listener.as_fd(), PollFlags::IN));
        }
        wanted.extend(self.clients.interest());
        wanted.extend(self.link.interest());
        let mut polled: Vec<_> = wanted
            .iter()
            .map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags))
            .collect();
        let wakes = [
            self.clients.wake(),
            self.link.wake(),
            self.rests,
            self.starter.map(|(_, deadline)| deadline),
        ];
        let left = wakes.into_iter().flatten().min().map(|wake| {
            let left = wake.saturating_duration_since(Instant::now());
            Timespec::try_from(left).unwrap_or_default()
        });
        match rustix::event::poll(&mut polled, left.as_ref()) {
            Ok(_) => Ok(!polled[0].revents().is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(SupervisorError::Wait(errno.into())),
        }
    }

    /// Lets go of everything, and says so when that is done.
    fn end(self, end: End) -> Result<(), SupervisorError> {
        let Self {
            lock,
            directory,
            listener,
            mut clients,
            link,
            ..
        } = self;
        drop(link);
        if end == End::InitIsDead {
            // Whoever asked for it takes that away when this process has gone.
            directory.set_ended();
        }
        // While the lock is held: from then on the socket is another supervisor's.
        let removed = directory.remove_socket();
        drop((listener, lock));
        if let End::Asked(Some(ticket)) = end {
            clients.tell(ticket, &Answer::Stopped);
        }
        removed.map_err(SupervisorError::Socket)
    }
}
