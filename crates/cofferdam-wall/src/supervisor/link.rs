//! A sandbox's place behind the wall: registered with a gateway, and again with the next one when that ends.
//!
//! The rules are those of the sandbox's list, read anew each time. Where the list says nothing, nothing is
//! registered and nothing carried. No step waits: each says until when there is nothing to do.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::libc;
use rustix::event::PollFlags;

use super::carried::Carried;
use super::clients::Ticket;
use super::exchange::Exchange;
use super::messages::Wall;
use super::state_directory::StateDirectory;
use crate::client::lock;
use crate::client::{
    DirectoryError, GatewayDirectory, PAUSE, Program, Search, SearchError, Series, Starter,
};
use crate::control::{self, Answer, Ask, DESCRIPTORS, Registrant, RuleLine};
use crate::keys;

/// A change of rules holds its lock for moments; one that is held so long is held by a stopped process.
const LOCK_LIMIT: Duration = Duration::from_secs(20);
/// Between two tries to take that lock.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// What a registration is made of, and where.
#[derive(Debug)]
pub(super) struct Gateways {
    pub(super) sandbox: String,
    pub(super) directory: PathBuf,
    /// Whose holder changes rules.
    pub(super) changes: PathBuf,
    pub(super) run_as: u32,
    /// As they come with [`Ask::Register`].
    pub(super) sockets: [OwnedFd; DESCRIPTORS],
}

/// `None` inside: the sandbox is not behind the wall.
#[derive(Debug)]
pub(super) struct Link(Option<Keeper>);

/// What a question for the list came to: how many connections the list ended, or why it is not in force.
pub(super) type Settled = (Ticket, Result<u64, String>);

#[derive(Debug)]
struct Keeper {
    gateways: Gateways,
    /// Of the last registration.
    epoch: Option<u32>,
    series: Series,
    state: State,
    /// Who wants the list in force and is not yet heard.
    wanted: Vec<Ticket>,
    outcomes: Vec<Settled>,
}

#[derive(Debug)]
enum State {
    Carried(Carried),
    Trying(Step),
    Lost(String),
}

#[derive(Debug)]
enum Step {
    /// After an attempt that failed.
    Pause {
        until: Instant,
    },
    /// Rules may be changing: what is read must be in force when the next change begins.
    Lock {
        next: Instant,
        deadline: Instant,
    },
    Search(Sought),
    Register(Asked),
}

/// A gateway that is looked for.
#[derive(Debug)]
struct Sought {
    search: Search,
    next: Instant,
    /// The rules are read.
    frame: Vec<u8>,
    /// They are for these, too.
    tickets: Vec<Ticket>,
    /// Held until they are in force.
    lock: Option<File>,
}

/// A gateway that was found and asked.
#[derive(Debug)]
struct Asked {
    stream: UnixStream,
    at: GatewayDirectory,
    exchange: Exchange,
    tickets: Vec<Ticket>,
    lock: Option<File>,
}

/// What follows from a step: the next state, and whether there is something to do in it at once.
type Next = (State, bool);

impl Link {
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// One that somebody else has registered on this connection.
    pub(super) fn registered(gateways: Gateways, connection: UnixStream, epoch: u32) -> Self {
        let at = GatewayDirectory::find(&gateways.directory).ok().flatten();
        let state = State::Carried(Carried::new(connection, at));
        Self(Some(Keeper::new(gateways, Some(epoch), state)))
    }

    /// One that is to be registered. `epoch`: the last one that this sandbox had.
    pub(super) fn unregistered(gateways: Gateways, epoch: Option<u32>) -> Self {
        let mut keeper = Keeper::new(gateways, epoch, State::Lost(String::new()));
        keeper.state = keeper.again("nothing was tried");
        Self(Some(keeper))
    }

    pub(super) fn wall(&self) -> Wall {
        match self.0.as_ref().map(|keeper| &keeper.state) {
            None => Wall::None,
            Some(State::Carried(_)) => Wall::Carried,
            Some(State::Trying(_)) => Wall::Recovering,
            Some(State::Lost(why)) => Wall::Lost(why.clone()),
        }
    }

    pub(super) fn epoch(&self) -> u32 {
        self.0.as_ref().and_then(|keeper| keeper.epoch).unwrap_or(0)
    }

    /// Somebody wants the list in force as it is from now on, and holds the lock of changes.
    pub(super) fn reload(&mut self, ticket: Ticket) -> Result<(), &'static str> {
        let keeper = self.0.as_mut().ok_or("it is not behind the wall")?;
        keeper.wanted.push(ticket);
        Ok(())
    }

    /// Does what can be done at once.
    pub(super) fn advance(&mut self, directory: &StateDirectory) -> Vec<Settled> {
        let Some(keeper) = &mut self.0 else {
            return Vec::new();
        };
        loop {
            let state = std::mem::replace(&mut keeper.state, State::Lost(String::new()));
            let (state, more) = match state {
                State::Carried(carried) => keeper.carry(carried, directory),
                State::Trying(step) => keeper.attempt(step, directory),
                State::Lost(why) if keeper.wanted.is_empty() => (State::Lost(why), false),
                // The list is another one now.
                State::Lost(why) => {
                    keeper.series = Series::default();
                    (keeper.again(&why), true)
                }
            };
            keeper.state = state;
            if !more {
                return std::mem::take(&mut keeper.outcomes);
            }
        }
    }

    pub(super) fn interest(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let (stream, wanted, watch) = match self.0.as_ref().map(|keeper| &keeper.state) {
            Some(State::Carried(carried)) => {
                let setting = carried.setting.as_ref();
                let wanted = setting.map_or(PollFlags::IN, |(exchange, _)| exchange.interest());
                (Some(&carried.stream), wanted, carried.watch.as_ref())
            }
            Some(State::Trying(Step::Register(asked))) => {
                (Some(&asked.stream), asked.exchange.interest(), None)
            }
            _ => (None, PollFlags::empty(), None),
        };
        let stream = stream.map(|stream| (stream.as_fd(), wanted));
        let watch = watch.map(|watch| (watch.as_fd(), PollFlags::IN));
        stream.into_iter().chain(watch)
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        match &self.0.as_ref()?.state {
            State::Carried(carried) => Some(carried.setting.as_ref()?.0.deadline),
            State::Trying(Step::Pause { until }) => Some(*until),
            State::Trying(Step::Lock { next, .. }) => Some(*next),
            State::Trying(Step::Search(sought)) => Some(sought.next),
            State::Trying(Step::Register(asked)) => Some(asked.exchange.deadline),
            State::Lost(_) => None,
        }
    }
}

impl Keeper {
    fn new(gateways: Gateways, epoch: Option<u32>, state: State) -> Self {
        Self {
            gateways,
            epoch,
            series: Series::default(),
            state,
            wanted: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    fn carry(&mut self, mut carried: Carried, directory: &StateDirectory) -> Next {
        if carried.has_strayed() {
            return self.ended(carried);
        }
        let Some((mut exchange, tickets)) = carried.setting.take() else {
            if self.wanted.is_empty() {
                return if carried.has_ended() {
                    self.ended(carried)
                } else {
                    (State::Carried(carried), false)
                };
            }
            let sandbox = self.gateways.sandbox.clone();
            let ask = |rules| Ask::SetRules { sandbox, rules };
            return match question(directory, ask) {
                Ok(frame) => {
                    let tickets = std::mem::take(&mut self.wanted);
                    carried.setting = Some((Exchange::new(frame), tickets));
                    (State::Carried(carried), true)
                }
                Err(why) => self.lose(Vec::new(), why),
            };
        };
        match exchange.advance(&carried.stream, &[]) {
            Ok(None) => {
                carried.setting = Some((exchange, tickets));
                (State::Carried(carried), false)
            }
            Ok(Some(Answer::RulesSet { closed })) => {
                self.told(tickets, &Ok(closed));
                (State::Carried(carried), true)
            }
            // What is in force is not the list.
            Ok(Some(answer)) => self.lose(tickets, refusal(answer)),
            Err(_) => {
                // The next gateway reads it first.
                self.wanted.splice(0..0, tickets);
                self.ended(carried)
            }
        }
    }

    fn attempt(&mut self, step: Step, directory: &StateDirectory) -> Next {
        let now = Instant::now();
        // Whoever wants the list in force holds the lock, until that is done.
        let asked = !self.wanted.is_empty();
        match step {
            Step::Pause { until } if now < until && !asked => {
                (State::Trying(Step::Pause { until }), false)
            }
            Step::Pause { .. } => {
                let deadline = now + LOCK_LIMIT;
                let next = now;
                (State::Trying(Step::Lock { next, deadline }), true)
            }
            Step::Lock { .. } if asked => self.read(directory, None),
            Step::Lock { next, deadline } if now < next => {
                (State::Trying(Step::Lock { next, deadline }), false)
            }
            Step::Lock { deadline, .. } => match self.lock() {
                Ok(Some(lock)) => self.read(directory, Some(lock)),
                Ok(None) if now < deadline => {
                    let next = now + LOCK_PAUSE;
                    (State::Trying(Step::Lock { next, deadline }), false)
                }
                Ok(None) => self.failed(
                    Vec::new(),
                    &format!("rules have been changing for {} s", LOCK_LIMIT.as_secs()),
                ),
                Err(error) => {
                    let path = self.gateways.changes.display();
                    let why = format!("cannot lock {path}: {error}");
                    self.failed(Vec::new(), &why)
                }
            },
            Step::Search(sought) => self.seek(sought),
            Step::Register(asked) => self.register(asked),
        }
    }

    fn seek(&mut self, mut sought: Sought) -> Next {
        let now = Instant::now();
        if now < sought.next {
            return (State::Trying(Step::Search(sought)), false);
        }
        let looked = sought
            .search
            .look(&self.gateways.directory, Some(&self.gateways));
        match looked {
            Ok(Some((stream, at))) => {
                let asked = Asked {
                    stream,
                    at,
                    exchange: Exchange::new(sought.frame),
                    tickets: sought.tickets,
                    lock: sought.lock,
                };
                (State::Trying(Step::Register(asked)), true)
            }
            Ok(None) => {
                sought.next = now + PAUSE;
                (State::Trying(Step::Search(sought)), false)
            }
            // No later attempt goes better.
            Err(error @ SearchError::Directory(DirectoryError::Directory { .. })) => {
                self.lose(sought.tickets, error.to_string())
            }
            Err(error) => self.failed(sought.tickets, &error.to_string()),
        }
    }

    fn register(&mut self, mut asked: Asked) -> Next {
        let sockets = self.gateways.sockets.each_ref().map(AsFd::as_fd);
        match asked.exchange.advance(&asked.stream, &sockets) {
            Ok(None) => (State::Trying(Step::Register(asked)), false),
            Ok(Some(Answer::Done)) => {
                drop(asked.lock);
                self.told(asked.tickets, &Ok(0));
                let carried = Carried::new(asked.stream, Some(asked.at));
                (State::Carried(carried), true)
            }
            Ok(Some(answer)) => self.lose(asked.tickets, refusal(answer)),
            Err(error) => {
                let said = asked.at.last_words();
                let why = format!("the gateway did not take it in: {error} {said}");
                self.failed(asked.tickets, why.trim_end())
            }
        }
    }

    /// Reads the list, and looks for a gateway to tell it.
    fn read(&mut self, directory: &StateDirectory, lock: Option<File>) -> Next {
        // Synthetic addresses that programs remember are another gateway's.
        let epoch = self.epoch.map_or(0, |epoch| epoch.saturating_add(1));
        let sandbox = self.gateways.sandbox.clone();
        let ask = |rules| {
            Ask::Register(Registrant {
                sandbox,
                rules,
                epoch,
                proving: None,
            })
        };
        match question(directory, ask) {
            Ok(frame) => {
                self.epoch = Some(epoch);
                directory.set_epoch(epoch);
                let sought = Sought {
                    search: Search::default(),
                    next: Instant::now(),
                    frame,
                    tickets: std::mem::take(&mut self.wanted),
                    lock,
                };
                (State::Trying(Step::Search(sought)), true)
            }
            Err(why) => self.lose(Vec::new(), why),
        }
    }

    /// `None`: somebody changes rules.
    fn lock(&self) -> io::Result<Option<File>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&self.gateways.changes)?;
        lock::try_hold(file)
    }

    fn ended(&mut self, carried: Carried) -> Next {
        self.series.ended_after(carried.since.elapsed());
        drop(carried);
        (self.again("the gateway ends again and again"), true)
    }

    /// An attempt failed; who waits for it waits for the next one.
    fn failed(&mut self, tickets: Vec<Ticket>, why: &str) -> Next {
        self.wanted.splice(0..0, tickets);
        if self.series.is_over() {
            return self.lose(Vec::new(), why.to_owned());
        }
        (self.again(why), true)
    }

    /// The next attempt; given up, because of `why`, where there were enough.
    fn again(&mut self, why: &str) -> State {
        let Some(wait) = self.series.attempt() else {
            let tickets = std::mem::take(&mut self.wanted);
            self.told(tickets, &Err(why.to_owned()));
            return State::Lost(why.to_owned());
        };
        let until = Instant::now() + wait;
        State::Trying(Step::Pause { until })
    }

    /// Nothing is carried from here on.
    fn lose(&mut self, tickets: Vec<Ticket>, why: String) -> Next {
        let more = std::mem::take(&mut self.wanted);
        let refused = Err(why.clone());
        self.told(tickets, &refused);
        self.told(more, &refused);
        (State::Lost(why), false)
    }

    fn told(&mut self, tickets: Vec<Ticket>, outcome: &Result<u64, String>) {
        let outcomes = tickets.into_iter().map(|ticket| (ticket, outcome.clone()));
        self.outcomes.extend(outcomes);
    }
}

/// A question that tells the list as it is now.
fn question(
    directory: &StateDirectory,
    ask: impl FnOnce(Vec<RuleLine>) -> Ask,
) -> Result<Vec<u8>, String> {
    let rules = directory.rules().map_err(|error| error.to_string())?;
    control::encode(&ask(rules)).map_err(|error| error.to_string())
}

fn refusal(answer: Answer) -> String {
    match answer {
        Answer::Error(text) => format!("the gateway does not take its rules: {text}"),
        _ => "the gateway broke the protocol: an answer to another question".to_owned(),
    }
}

impl Starter for Gateways {
    fn program(&self) -> Result<Program, String> {
        Ok(Program {
            executable: "/proc/self/exe".into(),
            file: None,
            run_as: self.run_as,
        })
    }

    fn spawn(&self, mut command: Command) -> io::Result<Option<u32>> {
        // Reaped by the loop, if it ends first.
        Ok(Some(keys::withheld(|| command.spawn())?.id()))
    }
}
