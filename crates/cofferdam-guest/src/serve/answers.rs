//! What is done about each request.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use cofferdam_guest::protocol::{
    ExecStep, Network, PROXY_PORT, REDIRECT_PORT, Reply, Request, Status, Stop, Streams,
};

use super::Server;
use super::memory;
use super::peer::Peer;
use super::programs::{Order, Owner};
use super::proof::Proof;
use super::renames::Renames;
use super::transfers::Task;
use crate::program::{Bounds, Program};
use crate::sys;

/// What a request is answered with.
enum Answer {
    Done,
    Reply(Reply, Vec<OwnedFd>),
    /// By something that happens later.
    Later,
}

impl Server<'_> {
    pub(super) fn answer(&mut self, peer: u64, request: Request) {
        let Some(asking) = self.peers.get_mut(&peer) else {
            return;
        };
        let Some(fds) = asking.take_fds(request.streams()) else {
            return asking.end();
        };
        let (request, answer) = match request {
            Request::Exec {
                exec,
                arguments,
                environment,
                directory,
                streams,
            } => {
                let directory = directory.as_ref().unwrap_or(&self.setup.workdir);
                let environment = [&self.setup.environment[..], &environment];
                let program = Program::new(&arguments, environment, directory);
                return self.exec(Owner { peer, exec }, program, &arguments, (streams, fds));
            }
            Request::End => {
                self.over = true;
                return;
            }
            Request::Signal {
                request,
                exec,
                signal,
            } => {
                let known = self.peers.get(&peer);
                let program = known.and_then(|peer| peer.execs.get(&exec).copied());
                let done = program.map_or(Ok(()), |program| self.signal(program, signal));
                (request, done.map(|()| Answer::Done))
            }
            Request::SignalProgram {
                request,
                program,
                signal,
            } => {
                let done = self.signal(program, signal);
                (request, done.map(|()| Answer::Done))
            }
            Request::Freeze { request } => {
                self.standstill.begin(peer, request, Stop::Freeze);
                (request, Ok(Answer::Later))
            }
            Request::Pause { request } => {
                self.standstill.begin(peer, request, Stop::Pause);
                (request, Ok(Answer::Later))
            }
            Request::Thaw { request } => {
                let done = self.standstill.end(peer, Stop::Freeze);
                (request, done.map(|()| Answer::Done))
            }
            Request::Resume { request } => {
                let done = self.standstill.end(peer, Stop::Pause);
                (request, done.map(|()| Answer::Done))
            }
            Request::Watch { request } => {
                let done = self.standstill.watch(peer);
                (request, done.map(|()| Answer::Done))
            }
            Request::Ping { request } => (request, Ok(Answer::Done)),
            Request::Prove { request, passes } => {
                let limits = self.setup.limits;
                let begun = Proof::begin((peer, request), &passes, limits, &self.filter);
                let begun = begun.map(|proof| self.proofs.push(proof));
                (request, begun.map(|()| Answer::Later))
            }
            Request::Stay { request } => (request, self.stay(peer).map(|()| Answer::Done)),
            Request::Status { request } => {
                let status = Status {
                    paused: self.standstill.is_paused(),
                    frozen: self.standstill.is_frozen(),
                    programs: self.programs.running(),
                    stopping: self.standstill.by().name(),
                };
                (request, Ok(reply(Reply::Status { request, status })))
            }
            Request::Programs { request } => {
                let programs = self.programs.list();
                (request, Ok(reply(Reply::Programs { request, programs })))
            }
            Request::Memory { request } => {
                let bytes = memory::used();
                (
                    request,
                    bytes.map(|bytes| reply(Reply::Memory { request, bytes })),
                )
            }
            Request::Sockets { request } => {
                let fds = self.duplicates();
                (
                    request,
                    fds.map(|fds| Answer::Reply(Reply::Sockets { request }, fds)),
                )
            }
            Request::Terminals { request } => {
                let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
                let fd = sys::open_at(libc::AT_FDCWD, c"/dev/pts", flags, 0);
                let answer = |fd| Answer::Reply(Reply::Terminals { request }, vec![fd]);
                (request, fd.map(answer))
            }
            Request::Unpack {
                request,
                directory,
                tracked,
            } => return self.transfer((peer, request), &Task::Unpack { directory, tracked }, fds),
            Request::Snapshot {
                request,
                directory,
                largest,
            } => {
                return self.transfer((peer, request), &Task::Snapshot { directory, largest }, fds);
            }
            Request::Browse { request } => {
                return self.transfer((peer, request), &Task::Browse, fds);
            }
            Request::Deliver { request } => {
                return self.transfer(
                    (peer, request),
                    &Task::Deliver {
                        owner: self.files_of,
                    },
                    fds,
                );
            }
            Request::Connect {
                request,
                port,
                patience,
            } => {
                if let Some(stop) = self.standstill.reason() {
                    let number = request;
                    return self.tell(peer, &Reply::Stopped { number, stop });
                }
                let patience = Duration::from_millis(patience.into());
                let begun = self.connect((peer, request), port, patience);
                (request, begun.map(|()| Answer::Later))
            }
        };
        let Some(peer) = self.peers.get_mut(&peer) else {
            return;
        };
        match answer {
            Ok(Answer::Done) => peer.tell(&Reply::Done { request }),
            Ok(Answer::Reply(reply, fds)) => peer.tell_with(&reply, fds),
            Ok(Answer::Later) => {}
            Err(error) => peer.tell(&Reply::Failed {
                request,
                errno: error.raw_os_error().unwrap_or(libc::EIO),
            }),
        }
    }

    fn exec(
        &mut self,
        owner: Owner,
        program: io::Result<Program>,
        arguments: &[Vec<u8>],
        (streams, fds): (Streams, Vec<OwnedFd>),
    ) {
        let bounds = Bounds {
            limits: self.setup.limits,
            filter: &self.filter,
            asking: self.renames.as_ref().map(Renames::asking),
        };
        let Some(peer) = self.peers.get_mut(&owner.peer) else {
            return;
        };
        let exec = owner.exec;
        if let Some(stop) = self.standstill.reason() {
            return peer.tell(&Reply::Stopped { number: exec, stop });
        }
        let started = program.and_then(|program| {
            let order = Order {
                program,
                arguments,
                owner,
                streams,
                fds,
                group: self.standstill.by().group(),
            };
            self.programs.start(order, bounds)
        });
        match started {
            Ok(number) => {
                let programs = &mut self.programs;
                // Those that are forgotten by all are forgotten here too.
                peer.execs.retain(|_, old| programs.get_mut(*old).is_some());
                peer.execs.insert(exec, number);
            }
            Err(error) => peer.tell(&Reply::NotStarted {
                exec,
                errno: error.raw_os_error().unwrap_or(libc::EIO),
                step: ExecStep::Process,
            }),
        }
    }

    /// Files are carried while everything stands still as well: that is when there is something to carry.
    fn transfer(&mut self, (number, request): (u64, u64), task: &Task, streams: Vec<OwnedFd>) {
        let Some(peer) = self.peers.get_mut(&number) else {
            return;
        };
        let Ok(streams) = <[OwnedFd; 2]>::try_from(streams) else {
            return peer.end();
        };
        let (limits, from) = (self.setup.limits, (number, request));
        let begun = self
            .transfers
            .begin(from, task, streams, limits, &self.filter);
        match begun {
            Ok(pid) => self.standstill.spare(pid),
            Err(error) => peer.tell(&Reply::Failed {
                request,
                errno: error.raw_os_error().unwrap_or(libc::EIO),
            }),
        }
    }

    fn connect(&mut self, asked: (u64, u64), port: u16, patience: Duration) -> io::Result<()> {
        let refused = match self.setup.network {
            // Whatever listens there need not be the sandbox's.
            Network::Open => Some(libc::EOPNOTSUPP),
            // Who listens there is the gateway: nobody gets to it in the sandbox's name but its own programs.
            Network::Wall if [REDIRECT_PORT, PROXY_PORT].contains(&port) => Some(libc::EACCES),
            Network::Wall | Network::None => None,
        };
        if let Some(errno) = refused {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let untaken = self.peers.get(&asked.0).map_or(0, Peer::untaken);
        self.ports.begin(asked, port, patience, untaken)
    }

    /// The sockets go with their answers.
    pub(super) fn tell_ports(&mut self) {
        for (peer, request, made) in self.ports.ended() {
            self.full = false;
            let Some(peer) = self.peers.get_mut(&peer) else {
                continue;
            };
            match made {
                Ok(socket) => peer.tell_with(&Reply::Connected { request }, vec![socket]),
                Err(error) => peer.tell(&Reply::Failed {
                    request,
                    errno: error.raw_os_error().unwrap_or(libc::EIO),
                }),
            }
        }
    }

    fn signal(&mut self, program: u64, signal: i32) -> io::Result<()> {
        // It would wake what has to stand still.
        if signal == libc::SIGCONT && self.standstill.reason().is_some() {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        let running = self.programs.get_mut(program);
        let running = running.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        let done = running.signal(signal);
        self.standstill.disturbed();
        done
    }

    /// From now on the sandbox lives without the connection and the launcher that made it.
    fn stay(&mut self, peer: u64) -> io::Result<()> {
        let refused = || io::Error::from_raw_os_error(libc::EINVAL);
        let maker = self.peers.get_mut(&peer).filter(|peer| peer.maker);
        let maker = maker.ok_or_else(refused)?;
        if self.listener.is_none() {
            return Err(refused());
        }
        sys::process_option(libc::PR_SET_PDEATHSIG, 0)?;
        if let Some(stays) = self.stays.take() {
            sys::write_byte(std::os::fd::AsFd::as_fd(&stays))?;
        }
        maker.maker = false;
        Ok(())
    }

    /// Of the wall's sockets, for whoever keeps the sandbox's place behind it from now on.
    fn duplicates(&self) -> io::Result<Vec<OwnedFd>> {
        if self.sockets.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        self.sockets.iter().map(OwnedFd::try_clone).collect()
    }
}

fn reply(reply: Reply) -> Answer {
    Answer::Reply(reply, Vec::new())
}
