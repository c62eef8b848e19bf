//! The library's questions, and how long this process lives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use rustix::process::{Resource, getrlimit};
use rustix::thread::Uid;
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::Policy;
use crate::control::{Answer, Ask, Registrant, RuleLine};
use crate::gateway::accept::{self, Entrance};
use crate::gateway::channel::{Channel, Question};
use crate::gateway::complaint::complain;
use crate::gateway::descriptors::Descriptors;
use crate::gateway::error::GatewayError;
use crate::gateway::journal::Journals;
use crate::gateway::packets::Packets;
use crate::gateway::proof::Proof;
use crate::gateway::resolve::Resolver;
use crate::gateway::room::Places;
use crate::gateway::sandbox::{Beginning, Sandbox, compile};
use crate::gateway::start::Started;
use crate::gateway::workers::Workers;
use crate::gateway::{explain, lookups};

/// How long the process stays when nobody needs it.
const LINGER: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(500);
/// Connections of the library at once.
const CONNECTIONS: usize = 1024;
/// For the resolver, in an explanation.
const EXPLAIN: Duration = Duration::from_secs(15);
const LONGEST_ID: usize = 128;

#[derive(Debug)]
struct Gateway {
    owner: Uid,
    workers: Arc<Workers>,
    journals: Journals,
    resolver: Arc<Resolver>,
    places: Places,
    sandboxes: Mutex<HashMap<String, Arc<Sandbox>>>,
    /// Questions under way.
    asked: AtomicUsize,
    /// When the last one was done, in milliseconds after `start`.
    last: AtomicU64,
    start: Instant,
}

/// Answers until nobody needs this process.
pub(super) fn serve(
    started: Started,
    workers: Workers,
    journals: Journals,
) -> Result<(), GatewayError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(GatewayError::Thread)?;
    let gateway = Arc::new(Gateway {
        owner: started.owner,
        workers: Arc::new(workers),
        journals,
        resolver: Arc::new(Resolver::default()),
        places: Places::new(getrlimit(Resource::Nofile).current),
        sandboxes: Mutex::default(),
        asked: AtomicUsize::new(0),
        last: AtomicU64::new(0),
        start: Instant::now(),
    });
    runtime.block_on(async {
        started
            .control
            .set_nonblocking(true)
            .map_err(GatewayError::Control)?;
        let listener = UnixListener::from_std(started.control).map_err(GatewayError::Control)?;
        // A handler that nobody asks: the starter's terminal may go.
        let _hangup = signal(SignalKind::hangup()).map_err(GatewayError::Control)?;
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            tokio::select! {
                // Whoever has connected is heard before the process may end.
                biased;
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        if let Ok(room) = Arc::clone(&room).try_acquire_owned() {
                            let gateway = Arc::clone(&gateway);
                            gateway.note();
                            tokio::spawn(async move {
                                converse(&gateway, stream).await;
                                drop(room);
                            });
                        }
                    }
                    Err(error) => {
                        complain(&format!("a connection was not accepted: {error}"));
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
                () = gateway.workers.broken() => return Err(GatewayError::Worker),
                _ = look.tick() => {
                    if gateway.is_idle() && (started.home.is_gone() || gateway.quiet() >= LINGER) {
                        return Ok(());
                    }
                }
            }
        }
    })
}

impl Gateway {
    fn is_idle(&self) -> bool {
        self.asked.load(Ordering::Relaxed) == 0 && self.sandboxes().is_empty()
    }

    fn note(&self) {
        let millis = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(millis, Ordering::Relaxed);
    }

    fn quiet(&self) -> Duration {
        self.start
            .elapsed()
            .saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }

    fn sandboxes(&self) -> MutexGuard<'_, HashMap<String, Arc<Sandbox>>> {
        self.sandboxes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn sandbox(&self, id: &str) -> Result<Arc<Sandbox>, String> {
        self.sandboxes().get(id).map(Arc::clone).ok_or_else(|| {
            format!(
                "no sandbox `{}` is behind this gateway",
                id.escape_default()
            )
        })
    }
}

/// A question under way.
struct Asking<'a>(&'a Gateway);

impl<'a> Asking<'a> {
    fn new(gateway: &'a Gateway) -> Self {
        gateway.asked.fetch_add(1, Ordering::Relaxed);
        Self(gateway)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.asked.fetch_sub(1, Ordering::Relaxed);
        self.0.note();
    }
}

/// A sandbox's place among the others; it ends with the connection that holds this.
#[derive(Debug)]
struct Registered {
    gateway: Arc<Gateway>,
    sandbox: Arc<Sandbox>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.sandbox.end.cancel();
        let mut sandboxes = self.gateway.sandboxes();
        if sandboxes
            .get(&self.sandbox.id)
            .is_some_and(|one| Arc::ptr_eq(one, &self.sandbox))
        {
            sandboxes.remove(&self.sandbox.id);
        }
        drop(sandboxes);
        self.gateway.note();
    }
}

async fn converse(gateway: &Arc<Gateway>, stream: UnixStream) {
    match socket_peercred(&stream) {
        Ok(peer) if peer.uid == gateway.owner => {}
        Ok(peer) => {
            let uid = peer.uid.as_raw();
            return complain(&format!("user {uid} has no business here"));
        }
        Err(error) => return complain(&format!("a connection of nobody: {error}")),
    }
    let mut channel = Channel::new(stream);
    let mut registered: Option<Registered> = None;
    loop {
        let end = registered.as_ref().map(|one| one.sandbox.end.clone());
        let question = tokio::select! {
            question = channel.next() => question,
            // Another connection has taken the sandbox over.
            () = async { match end {
                Some(end) => end.cancelled_owned().await,
                None => std::future::pending().await,
            } } => return,
        };
        let question = match question {
            Ok(Some(question)) => question,
            Ok(None) => return,
            Err(error) => return complain(&format!("a question cannot be read: {error}")),
        };
        let asking = Asking::new(gateway);
        let answer = answer(gateway, &mut registered, question).await;
        let sent = channel.answer(&answer.unwrap_or_else(Answer::Error)).await;
        drop(asking);
        if sent.is_err() {
            return;
        }
    }
}

async fn answer(
    gateway: &Arc<Gateway>,
    registered: &mut Option<Registered>,
    question: Question,
) -> Result<Answer, String> {
    match question.ask {
        Ask::Register(registration) => {
            if registered.is_some() {
                return Err("this connection has registered a sandbox already".to_owned());
            }
            let descriptors =
                Descriptors::check(question.descriptors).map_err(|error| error.to_string())?;
            let proof = registration.proving.map(Proof::new).transpose();
            let proof =
                proof.map_err(|error| format!("nothing can be carried for a proof: {error}"))?;
            let port = proof.as_ref().map(|proof| proof.port);
            *registered = Some(register(gateway, registration, descriptors, proof).await?);
            Ok(port.map_or(Answer::Done, |port| Answer::Proving { port }))
        }
        Ask::Open => registered
            .as_ref()
            .map(|one| Answer::Seen(one.sandbox.open()))
            .ok_or_else(|| "this connection has not registered a sandbox".to_owned()),
        Ask::SetRules { sandbox, rules } => {
            let sandbox = gateway.sandbox(&sandbox)?;
            let policy = compiled(rules).await?;
            let closed = sandbox.set_policy(policy);
            // Who asked may let programs go on once this is answered.
            sandbox.books.settle().await;
            Ok(Answer::RulesSet { closed })
        }
        Ask::Refused { sandbox } => Ok(Answer::Refused(gateway.sandbox(&sandbox)?.refused())),
        Ask::Explain { rules, host, port } => {
            let policy = compiled(rules).await?;
            let explained = explain::explain(&policy, &gateway.resolver, &host, port);
            match timeout(EXPLAIN, Box::pin(explained)).await {
                Ok(Ok(explanation)) => Ok(Answer::Explained(explanation)),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!(
                    "the lookup took more than {} s: try again",
                    EXPLAIN.as_secs()
                )),
            }
        }
        Ask::Status => {
            let sandboxes = gateway.sandboxes();
            let mut all: Vec<_> = sandboxes.values().map(|one| one.status()).collect();
            all.sort_unstable_by(|a, b| a.sandbox.cmp(&b.sandbox));
            Ok(Answer::Status(all))
        }
    }
}

/// Compiles off this thread: 100,000 rules take a while, and others ask meanwhile.
async fn compiled(rules: Vec<RuleLine>) -> Result<Policy, String> {
    tokio::task::spawn_blocking(move || compile(&rules))
        .await
        .map_err(|_| "compiling the rules failed".to_owned())?
        .map_err(|error| error.to_string())
}

async fn register(
    gateway: &Arc<Gateway>,
    registration: Registrant,
    descriptors: Descriptors,
    proof: Option<Proof>,
) -> Result<Registered, String> {
    if registration.sandbox.is_empty() || registration.sandbox.len() > LONGEST_ID {
        return Err("the id of a sandbox has 1 to 128 bytes".to_owned());
    }
    let policy = compiled(registration.rules).await?;
    let journal = gateway
        .journals
        .open(descriptors.log)
        .map_err(|error| format!("the sandbox's log cannot be used: {error}"))?;
    let seat = gateway.places.seat().ok_or(
        "the gateway keeps connections for as many sandboxes as its limit of open files allows: \
         end one, or raise the limit (ulimit -Hn)",
    )?;
    let sandbox = Arc::new(Sandbox::new(Beginning {
        id: registration.sandbox.clone(),
        policy,
        epoch: registration.epoch,
        proving: proof.as_ref().map(|proof| proof.policy.clone()),
        journal,
        packets: Packets::new(descriptors.packets),
        resolver: Arc::clone(&gateway.resolver),
        seat,
    }));
    let before = gateway
        .sandboxes()
        .insert(registration.sandbox, Arc::clone(&sandbox));
    if let Some(before) = before {
        before.end.cancel();
    }
    let home = gateway.workers.next();
    home.spawn(lookups::over_udp(Arc::clone(&sandbox), descriptors.lookups));
    let watched = Arc::clone(&sandbox);
    home.spawn(async move {
        let refuse = |known: &mut _, packet| watched.refuse_packet(known, packet);
        watched.packets.watch(&watched.end, refuse).await;
    });
    if let Some(proof) = proof {
        home.spawn(proof.serve(Arc::clone(&sandbox)));
    }
    for (listener, entrance) in [
        (
            descriptors.connections,
            Entrance::Redirected(descriptors.own),
        ),
        (descriptors.proxy, Entrance::Proxy),
    ] {
        home.spawn(accept::accept(
            Arc::clone(&sandbox),
            listener,
            entrance,
            Arc::clone(&gateway.workers),
        ));
    }
    Ok(Registered {
        gateway: Arc::clone(gateway),
        sandbox,
    })
}
