//! Who asks: few at once, each with one question, none for long.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::RecvFlags;
use rustix::net::sockopt::socket_peercred;

use super::messages::{self, Answer, Ask};
use crate::client::frames::{Incoming, Outgoing};

/// At once. Who comes then takes the place of who has said nothing for longest.
const MOST: usize = 16;
/// To ask, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Until a question has its answer.
const LIMIT: Duration = Duration::from_secs(15);

/// Which question.
pub(super) type Ticket = u64;

#[derive(Debug, Default)]
pub(super) struct Clients {
    all: Vec<Client>,
    tickets: Ticket,
}

#[derive(Debug)]
struct Client {
    ticket: Ticket,
    stream: UnixStream,
    deadline: Instant,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Asking(Incoming),
    Waiting,
    Told(Outgoing),
}

impl Clients {
    /// Takes in whoever has connected.
    pub(super) fn accept(&mut self, listener: &UnixListener) -> io::Result<()> {
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    // The file's mode says the same. Its owner may have changed that.
                    if is_own(&stream) && stream.set_nonblocking(true).is_ok() {
                        let asking = Stage::Asking(Incoming::new(messages::LONGEST));
                        self.add(stream, asking, PATIENCE);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// One whose question is known.
    pub(super) fn add_waiting(&mut self, stream: UnixStream) -> Option<Ticket> {
        self.add(stream, Stage::Waiting, LIMIT)
    }

    fn add(&mut self, stream: UnixStream, stage: Stage, patience: Duration) -> Option<Ticket> {
        if self.all.len() >= MOST {
            let silent = |client: &Client| !matches!(client.stage, Stage::Waiting);
            let oldest = self.all.iter().position(silent)?;
            self.all.remove(oldest);
        }
        self.tickets += 1;
        self.all.push(Client {
            ticket: self.tickets,
            stream,
            deadline: Instant::now() + patience,
            stage,
        });
        Some(self.tickets)
    }

    /// Hears and tells what can be at once; forgets who is gone, told or late. The questions that are whole now;
    /// without one: asked by a version that asks what this one does not know.
    pub(super) fn advance(&mut self) -> Vec<(Ticket, Option<Ask>)> {
        let mut asked = Vec::new();
        let now = Instant::now();
        self.all.retain_mut(|client| {
            if now >= client.deadline {
                if matches!(client.stage, Stage::Waiting) {
                    let late = Answer::Refused(format!("not within {} s", LIMIT.as_secs()));
                    client.tell(&late);
                }
                return false;
            }
            match &mut client.stage {
                Stage::Asking(incoming) => match incoming.advance(&client.stream) {
                    Ok(None) => true,
                    Ok(Some((body, _))) => match messages::read_question(&body) {
                        Ok(ask) => {
                            asked.push((client.ticket, ask));
                            client.stage = Stage::Waiting;
                            client.deadline = now + LIMIT;
                            true
                        }
                        Err(_) => false,
                    },
                    Err(_) => false,
                },
                Stage::Waiting => !is_gone(&client.stream),
                Stage::Told(answer) => matches!(answer.advance(&client.stream, &[]), Ok(false)),
            }
        });
        asked
    }

    /// Tells one that waits; whoever is gone hears nothing.
    pub(super) fn tell(&mut self, ticket: Ticket, answer: &Answer) {
        let Some(place) = self.all.iter().position(|one| one.ticket == ticket) else {
            return;
        };
        if !self.all[place].tell(answer) {
            self.all.remove(place);
        }
    }

    pub(super) fn interest(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.all.iter().map(|client| {
            let wanted = match client.stage {
                Stage::Asking(_) => PollFlags::IN,
                // Its end is told without being asked for.
                Stage::Waiting => PollFlags::empty(),
                Stage::Told(_) => PollFlags::OUT,
            };
            (client.stream.as_fd(), wanted)
        })
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.all.iter().map(|client| client.deadline).min()
    }
}

impl Client {
    /// Whether there is something left to be sent.
    fn tell(&mut self, answer: &Answer) -> bool {
        let Ok(frame) = messages::answer(answer) else {
            return false;
        };
        let mut outgoing = Outgoing::new(frame);
        if !matches!(outgoing.advance(&self.stream, &[]), Ok(false)) {
            return false;
        }
        self.stage = Stage::Told(outgoing);
        self.deadline = Instant::now() + PATIENCE;
        true
    }
}

fn is_own(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

/// Who waits has nothing more to say.
fn is_gone(stream: &UnixStream) -> bool {
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    match rustix::net::recv(stream, &mut [0u8; 1][..], flags) {
        Ok((got, _)) => got == 0,
        Err(errno) => errno != rustix::io::Errno::AGAIN,
    }
}
