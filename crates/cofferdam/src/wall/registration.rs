//! One sandbox behind the gateway, for as long as it lives.
//!
//! A task holds the connection and duplicates of the sandbox's sockets. A gateway that ends is
//! replaced, and gets the sockets again with the rules as they are then. In between, and after too
//! many ends, nothing is carried: no gateway, no network.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cofferdam_wall::client::Series;
use cofferdam_wall::control::{self, Answer, Ask, Refused, Seen};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::change::right::Change;
use super::gateway::{self, ANSWER_LIMIT, GatewayLink, Start};
use super::rules::Problem;
use super::{Sockets, WallError, WallSpec, journal};
use crate::home::Home;
use crate::names::SandboxId;

/// How a registered sandbox is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// A gateway carries its connections.
    Carried,
    /// The gateway ended; another one is being started. Nothing is carried meanwhile.
    Recovering,
    /// Given up, with the reason. Every connection is refused until the sandbox ends.
    Lost(String),
}

/// One sandbox's registration. Dropping it ends the sandbox's network.
#[derive(Debug)]
pub struct Registration {
    /// To the task that keeps the connection.
    orders: mpsc::Sender<Order>,
    health: watch::Receiver<Health>,
    problems: Vec<Problem>,
    proof: Proof,
    _end: DropGuard,
}

/// What is carried during the self-test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// Of `host.cofferdam.internal`.
    pub port: u16,
    /// What it says, which nobody inside knows yet.
    pub answer: [u8; control::ANSWER],
}

#[derive(Debug)]
enum Order {
    /// The self-test is over.
    Open(oneshot::Sender<Result<Seen, WallError>>),
    /// Another process keeps it from now on.
    HandOver(oneshot::Sender<HandedOver>),
}

/// A sandbox's place behind the wall on its way to who keeps it from now on. Dropping it ends the sandbox's
/// network.
#[derive(Debug)]
pub struct HandedOver {
    /// It holds the registration; `None`: who keeps the place registers.
    pub(super) connection: Option<OwnedFd>,
    pub(super) sockets: Sockets,
    pub(super) log: File,
    /// As in [`control::Registrant::epoch`], of what is registered.
    pub(super) epoch: u32,
}

impl HandedOver {
    /// For a sandbox whose keeper is gone: its sockets, which the sandbox itself still has.
    pub fn of_sockets(spec: &WallSpec, sockets: Sockets) -> Result<Self, WallError> {
        Ok(Self {
            connection: None,
            sockets,
            log: journal::open(spec)?,
            epoch: 0,
        })
    }
}

impl Registration {
    /// Puts a sandbox behind the gateway of its home, which is started where none runs. Until
    /// [`Registration::open`] everything but the [`Proof`] is refused and counted. Bounded: 8 s.
    pub async fn register(spec: &WallSpec, sockets: Sockets) -> Result<Self, WallError> {
        let log = journal::open(spec)?;
        let mut keeper = Keeper {
            spec: spec.clone(),
            sockets,
            log,
            epoch: 0,
            proving: Some(random()?),
        };
        let (connection, problems, proof) = keeper.register().await?;
        let proof = proof.ok_or_else(unexpected)?;
        let (orders, queue) = mpsc::channel(4);
        let (says, health) = watch::channel(Health::Carried);
        let end = CancellationToken::new();
        tokio::spawn({
            let end = end.clone();
            async move {
                tokio::select! {
                    () = end.cancelled() => {}
                    () = keeper.keep(connection, queue, says) => {}
                }
            }
        });
        Ok(Self {
            orders,
            health,
            problems,
            proof,
            _end: end.drop_guard(),
        })
    }

    /// The self-test is over: the policy counts from now on. What had arrived until then tells
    /// whether the wall stands. Bounded: 5 s.
    pub async fn open(&self) -> Result<Seen, WallError> {
        self.order(Order::Open).await?
    }

    /// Lets go of it without ending it: for a process that keeps the sandbox's place from now on. Waits for a
    /// gateway that is being replaced. Bounded: 5 s.
    pub async fn hand_over(&self) -> Result<HandedOver, WallError> {
        self.order(Order::HandOver).await
    }

    async fn order<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<T>) -> Order,
    ) -> Result<T, WallError> {
        let (answer, answered) = oneshot::channel();
        let asked = async {
            self.orders.send(order(answer)).await.ok()?;
            answered.await.ok()
        };
        match tokio::time::timeout(ANSWER_LIMIT, asked).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.lost()),
            Err(_) => Err(WallError::Silent {
                process: None,
                seconds: ANSWER_LIMIT.as_secs(),
            }),
        }
    }

    /// What must be reached from inside until [`Registration::open`].
    pub fn proof(&self) -> Proof {
        self.proof
    }

    /// What is wrong with the places that rules come from; what is right is in force.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Changes when the gateway ends and when it is back.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    fn lost(&self) -> WallError {
        match &*self.health.borrow() {
            Health::Lost(why) => WallError::Lost(why.clone()),
            Health::Carried | Health::Recovering => {
                WallError::Lost("nobody keeps it any more".to_owned())
            }
        }
    }
}

/// What the supervising task owns.
#[derive(Debug)]
struct Keeper {
    spec: WallSpec,
    sockets: Sockets,
    log: File,
    epoch: u32,
    /// Until the self-test is over.
    proving: Option<[u8; control::ANSWER]>,
}

impl Keeper {
    /// Registers with the gateway that runs, or with a new one; the rules are read anew. Also what
    /// is wrong with their sources.
    async fn register(&mut self) -> Result<(GatewayLink, Vec<Problem>, Option<Proof>), WallError> {
        // A change of rules between reading them and being there would be lost.
        let _change = Change::begin(&self.spec.home).await?;
        let sources = self.spec.sources.clone();
        // A list may be long.
        let loaded = tokio::task::spawn_blocking(move || {
            let loaded = sources.load();
            (loaded.lines(), loaded.problems)
        });
        let (rules, problems) = loaded.await.map_err(std::io::Error::from)?;
        let frame = control::encode(&Ask::Register(control::Registrant {
            sandbox: self.spec.sandbox.to_string(),
            rules,
            epoch: self.epoch,
            proving: self.proving,
        }))?;
        let Sockets {
            connections,
            proxy,
            lookups,
            packets,
        } = &self.sockets;
        let fds: [BorrowedFd<'_>; control::DESCRIPTORS] = [
            connections.as_fd(),
            proxy.as_fd(),
            lookups.as_fd(),
            packets.as_fd(),
            self.log.as_fd(),
        ];
        let home = &self.spec.home;
        let begun = gateway::begin(home, &frame, &fds, Start::IfNeeded, ANSWER_LIMIT);
        let (connection, answer) = begun.await?;
        match (answer, self.proving) {
            (Answer::Done, None) => Ok((connection, problems, None)),
            (Answer::Proving { port }, Some(answer)) => {
                Ok((connection, problems, Some(Proof { port, answer })))
            }
            _ => Err(unexpected()),
        }
    }

    /// Serves orders and replaces gateways that end, until the sandbox's network is lost.
    async fn keep(
        mut self,
        mut connection: GatewayLink,
        mut orders: mpsc::Receiver<Order>,
        health: watch::Sender<Health>,
    ) {
        let mut series = Series::default();
        loop {
            let began = Instant::now();
            if let Some(taker) = self.serve(&mut connection, &mut orders).await {
                return self.hand_over(connection, taker);
            }
            drop(connection);
            if self.proving.is_some() {
                // What arrived while it was proving is unknown now: the proof is void.
                health.send_replace(Health::Lost(
                    "the gateway ended during the self-test".into(),
                ));
                return;
            }
            health.send_replace(Health::Recovering);
            series.ended_after(began.elapsed());
            match self.recover(&mut series).await {
                Ok(again) => connection = again,
                Err(error) => {
                    health.send_replace(Health::Lost(error.to_string()));
                    return;
                }
            }
            health.send_replace(Health::Carried);
        }
    }

    /// Returns when the connection has ended, or is of no more use; and with who takes it over.
    async fn serve(
        &mut self,
        connection: &mut GatewayLink,
        orders: &mut mpsc::Receiver<Order>,
    ) -> Option<oneshot::Sender<HandedOver>> {
        loop {
            let order = tokio::select! {
                () = connection.ended() => return None,
                () = connection.strayed(), if self.proving.is_none() => return None,
                Some(order) = orders.recv() => order,
            };
            let answer = match order {
                Order::Open(answer) => answer,
                // Before the self-test is over there is nothing to hand over: the answer is dropped.
                Order::HandOver(_) if self.proving.is_some() => continue,
                Order::HandOver(taker) => return Some(taker),
            };
            let seen = open(connection).await;
            if seen.is_ok() {
                self.proving = None;
            }
            let failed = seen.is_err();
            // Who asked may have given up.
            let _ = answer.send(seen);
            if failed {
                return None;
            }
        }
    }

    fn hand_over(self, connection: GatewayLink, taker: oneshot::Sender<HandedOver>) {
        let Ok(connection) = connection.into_descriptor() else {
            return;
        };
        // Who asked may have given up: then the sandbox's network ends here.
        let _ = taker.send(HandedOver {
            connection: Some(connection),
            sockets: self.sockets,
            log: self.log,
            epoch: self.epoch,
        });
    }

    /// Registers again, at once and then more and more slowly.
    async fn recover(&mut self, series: &mut Series) -> Result<GatewayLink, WallError> {
        loop {
            let Some(wait) = series.attempt() else {
                return Err(WallError::Ended(String::new()));
            };
            tokio::time::sleep(wait).await;
            // Synthetic addresses that programs remember are another gateway's.
            self.epoch = self.epoch.saturating_add(1);
            match self.register().await {
                Ok((connection, ..)) => return Ok(connection),
                Err(error) if series.is_over() || is_final(&error) => return Err(error),
                Err(_) => {}
            }
        }
    }
}

async fn open(connection: &mut GatewayLink) -> Result<Seen, WallError> {
    let frame = control::encode(&Ask::Open)?;
    match connection.ask(&frame, &[], ANSWER_LIMIT).await? {
        Answer::Seen(seen) => Ok(seen),
        _ => Err(unexpected()),
    }
}

/// No later attempt goes better.
fn is_final(error: &WallError) -> bool {
    matches!(
        error,
        WallError::Directory { .. } | WallError::Refused(_) | WallError::Protocol(_)
    )
}

fn random() -> Result<[u8; control::ANSWER], WallError> {
    let mut bytes = [0; control::ANSWER];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(std::io::Error::from)?;
    Ok(bytes)
}

fn unexpected() -> WallError {
    WallError::Protocol("an answer to another question".to_owned())
}

/// What was refused to a sandbox since its gateway took it over, most often refused first; bounded. A gateway that
/// ended took its count with it: the log has everything. Bounded: 8 s.
pub async fn refused(home: &Home, sandbox: SandboxId) -> Result<Vec<Refused>, WallError> {
    let sandbox = sandbox.to_string();
    match gateway::ask(home, &Ask::Refused { sandbox }, Start::Never).await? {
        Answer::Refused(refused) => Ok(refused),
        _ => Err(unexpected()),
    }
}
