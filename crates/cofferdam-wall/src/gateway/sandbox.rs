//! What the gateway knows of one sandbox.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::control::{Refused, RuleLine, Seen, Status};
use crate::gateway::asked::Asked;
use crate::gateway::books::Books;
use crate::gateway::budget::Budget;
use crate::gateway::journal::Journal;
use crate::gateway::nflog::Packet;
use crate::gateway::packets::{Due, Known, Packets};
use crate::gateway::rate::{Below, Lookups};
use crate::gateway::refused::Summary;
use crate::gateway::resolve::Resolver;
use crate::gateway::room::Seat;
use crate::gateway::wanted::Wanted;
use crate::log::{Entry, Event, Verdict, Via};
use crate::{HostName, Policy, PolicyError, Protocol, Rule, RuleError, Synthetic, Target, dns};

/// Why rules are not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum RulesError {
    #[error("rule `{text}`: {error}")]
    Rule { text: String, error: RuleError },
    #[error("rule `{0}`: udp is not carried, only tcp leaves a sandbox: remove the rule")]
    Udp(String),
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// A whole policy out of rules on their way; all of them or none.
pub(super) fn compile(lines: &[RuleLine]) -> Result<Policy, RulesError> {
    let mut rules = Vec::with_capacity(lines.len());
    for line in lines {
        let shown = || line.text.escape_default().take(300).collect();
        let rule = Rule::parse(&line.text, line.origin).map_err(|error| RulesError::Rule {
            text: shown(),
            error,
        })?;
        if rule.protocol() == Protocol::Udp {
            return Err(RulesError::Udp(shown()));
        }
        rules.push(rule);
    }
    Ok(Policy::compile(rules)?)
}

/// One sandbox behind this gateway. It ends with the connection that registered it.
#[derive(Debug)]
pub(super) struct Sandbox {
    pub(super) id: String,
    /// Cancelled when the sandbox goes: ends whatever runs for it.
    pub(super) end: CancellationToken,
    /// Cancelled when it proves no more.
    pub(super) proven: CancellationToken,
    pub(super) books: Books,
    pub(super) resolver: Arc<Resolver>,
    pub(super) packets: Packets,
    /// Its room for connections.
    pub(super) seat: Seat,
    pub(super) budget: Budget,
    policy: RwLock<Arc<Policy>>,
    /// The policy that [`Sandbox::open`] puts in force. Until then the one in force allows the proof alone.
    waiting: Mutex<Option<Arc<Policy>>>,
    generation: AtomicU64,
    /// Nothing is logged and everything is counted.
    proving: AtomicBool,
    names: Mutex<Names>,
    below: Mutex<Below>,
    lookups: Mutex<Lookups>,
    journal: Journal,
    summary: Mutex<Summary>,
    numbers: AtomicU64,
    pub(super) seen: Counters,
}

#[derive(Debug)]
struct Names {
    table: Synthetic,
    /// By number: whether the log has the name.
    logged: HashSet<Ipv4Addr>,
    asked: Asked,
}

/// What a proving sandbox is shown: see [`Seen`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) lookups: AtomicU32,
    pub(super) connections: AtomicU32,
    pub(super) proxied: AtomicU32,
    pub(super) packets: AtomicU32,
}

/// What an entry of the log says beside its event.
#[derive(Debug, Default, Clone)]
pub(super) struct Told<'a> {
    pub(super) verdict: Option<Verdict>,
    pub(super) id: Option<u64>,
    pub(super) wanted: Option<&'a Wanted>,
    pub(super) address: Option<IpAddr>,
    pub(super) port: Option<u16>,
    pub(super) protocol: Option<String>,
    pub(super) via: Option<Via>,
    pub(super) rule: Option<&'a Rule>,
    pub(super) reason: Option<String>,
    pub(super) opens: Option<String>,
    pub(super) sent: Option<u64>,
    pub(super) received: Option<u64>,
    pub(super) millis: Option<u64>,
    pub(super) count: Option<u64>,
}

/// What a sandbox begins with.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) id: String,
    pub(super) policy: Policy,
    pub(super) epoch: u32,
    /// What is in force while it proves, if it does.
    pub(super) proving: Option<Policy>,
    pub(super) journal: Journal,
    pub(super) packets: Packets,
    pub(super) resolver: Arc<Resolver>,
    pub(super) seat: Seat,
}

impl Sandbox {
    pub(super) fn new(beginning: Beginning) -> Self {
        let policy = Arc::new(beginning.policy);
        let (now, waiting) = match beginning.proving {
            Some(proof) => (Arc::new(proof), Some(policy)),
            None => (policy, None),
        };
        let end = CancellationToken::new();
        Self {
            id: beginning.id,
            proven: end.child_token(),
            end,
            books: Books::default(),
            resolver: beginning.resolver,
            packets: beginning.packets,
            seat: beginning.seat,
            budget: Budget::default(),
            policy: RwLock::new(now),
            proving: AtomicBool::new(waiting.is_some()),
            waiting: Mutex::new(waiting),
            generation: AtomicU64::new(1),
            below: Mutex::default(),
            lookups: Mutex::new(Lookups::new(Instant::now())),
            names: Mutex::new(Names {
                table: Synthetic::new(beginning.epoch),
                logged: HashSet::new(),
                asked: Asked::default(),
            }),
            journal: beginning.journal,
            summary: Mutex::default(),
            numbers: AtomicU64::new(1),
            seen: Counters::default(),
        }
    }

    /// The policy in force.
    pub(super) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another policy in force and ends the connections that it refuses; how many. The same one
    /// again changes nothing.
    pub(super) fn set_policy(&self, policy: Policy) -> u64 {
        let policy = Arc::new(policy);
        let mut waiting = lock(&self.waiting);
        if let Some(waiting) = waiting.as_mut() {
            *waiting = policy;
            return 0;
        }
        // The lock is kept: of two changes at once the later one is the one in force.
        if self.policy() == policy {
            return 0;
        }
        let rules = policy.rules().len() as u64;
        self.put_in_force(Arc::clone(&policy));
        self.generation.fetch_add(1, Ordering::Relaxed);
        let closed = self.books.review(&policy);
        self.tell(
            Event::Rules,
            &Told {
                count: Some(rules),
                ..Told::default()
            },
        );
        closed
    }

    /// Ends the proving: what arrived during it.
    pub(super) fn open(&self) -> Seen {
        // The kernel has queued what it refused, which need not have been read yet.
        self.packets
            .drain(|known, packet| self.refuse_packet(known, packet));
        let seen = Seen {
            lookups: self.seen.lookups.load(Ordering::SeqCst),
            connections: self.seen.connections.load(Ordering::SeqCst),
            proxied: self.seen.proxied.load(Ordering::SeqCst),
            packets: self.seen.packets.load(Ordering::SeqCst),
        };
        let mut waiting = lock(&self.waiting);
        if let Some(policy) = waiting.take() {
            self.put_in_force(Arc::clone(&policy));
            self.books.review(&policy);
        }
        self.proving.store(false, Ordering::SeqCst);
        self.proven.cancel();
        seen
    }

    pub(super) fn is_proving(&self) -> bool {
        self.proving.load(Ordering::SeqCst)
    }

    fn put_in_force(&self, policy: Arc<Policy>) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
    }

    /// A number for a connection.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// The name that an address stands for.
    pub(super) fn name_of(&self, address: Ipv4Addr) -> Option<HostName> {
        lock(&self.names).table.name_of(address).cloned()
    }

    /// Answers one lookup. With the outcome: whether the log should have it.
    pub(super) fn answer(&self, message: &[u8]) -> (dns::Answer, bool) {
        let policy = self.policy();
        let mut names = lock(&self.names);
        let answer = dns::answer_if(message, &policy, &mut names.table, |name, rule| {
            self.admits(rule, name)
        });
        let news = match &answer.outcome {
            // Known without a rule: what the program does with it is told when it is refused.
            dns::Resolution::Address(name, _) if policy.any_rule_of_name(name).is_none() => false,
            // Nothing is logged while it proves: not now, and so later.
            dns::Resolution::Address(_, address) => {
                !self.is_proving() && names.logged.insert(*address)
            }
            dns::Resolution::NoRecord(..) => false,
            outcome => names.asked.is_new(outcome, Instant::now()),
        };
        (answer, news)
    }

    /// Whether one more lookup is answered now. Tells of those that were not.
    pub(super) fn may_look_up(&self) -> bool {
        let (answered, left_out) = lock(&self.lookups).take(Instant::now());
        if left_out.is_some() {
            let told = Told {
                count: left_out,
                reason: Some(format!(
                    "lookups were not answered: more than {} a second",
                    Lookups::EACH_SECOND
                )),
                ..Told::default()
            };
            self.tell(Event::Gap, &told);
        }
        answered
    }

    /// Whether a name that `rule` allows is not one of too many below a wildcard.
    pub(super) fn admits(&self, rule: &Rule, name: &HostName) -> bool {
        match rule.target() {
            Target::Below(apex) => lock(&self.below).admit(apex, name, Instant::now()),
            Target::Name(_) | Target::Range(_) => true,
        }
    }

    /// Writes an entry and counts a refusal; nothing while proving.
    pub(super) fn tell(&self, event: Event, told: &Told<'_>) {
        if self.is_proving() {
            return;
        }
        if told.verdict == Some(Verdict::Refused) {
            self.count_refusal(told);
        }
        let mut entry = Entry::new(Timestamp::now(), event);
        entry.verdict = told.verdict;
        entry.id = told.id;
        entry.name = match told.wanted {
            Some(Wanted::Name(name)) => Some(name.to_string()),
            _ => None,
        };
        entry.address = match told.wanted {
            Some(Wanted::Address(address)) => Some(*address),
            _ => told.address,
        };
        entry.port = told.port;
        entry.protocol.clone_from(&told.protocol);
        entry.via = told.via;
        entry.rule = told.rule.map(ToString::to_string);
        entry.origin = told.rule.map(Rule::origin);
        entry.reason.clone_from(&told.reason);
        entry.opens.clone_from(&told.opens);
        entry.sent = told.sent;
        entry.received = told.received;
        entry.millis = told.millis;
        entry.count = told.count;
        self.journal.write(entry);
    }

    /// Counts a refusal for [`Sandbox::refused`].
    pub(super) fn count_refusal(&self, told: &Told<'_>) {
        let address = match told.wanted {
            Some(Wanted::Address(address)) => Some(*address),
            _ => told.address,
        };
        let port = told.port.map(|port| format!(":{port}")).unwrap_or_default();
        let host = match (told.wanted, address, told.port) {
            (Some(Wanted::Name(name)), ..) => format!("{name}{port}"),
            (_, Some(address), Some(port)) => SocketAddr::new(address, port).to_string(),
            (_, Some(address), None) => address.to_string(),
            (_, None, _) => "no host name".to_owned(),
        };
        let protocol = told
            .protocol
            .as_deref()
            .filter(|protocol| *protocol != "tcp")
            .map(|protocol| format!(" {protocol}"))
            .unwrap_or_default();
        lock(&self.summary).add(
            format!("{host}{protocol}"),
            told.reason.as_deref().unwrap_or_default(),
            told.opens.as_deref(),
        );
    }

    /// Counts and logs a packet that the kernel refused.
    pub(super) fn refuse_packet(&self, known: &mut Known, packet: Packet) {
        if self.is_proving() {
            self.seen.packets.fetch_add(1, Ordering::SeqCst);
            return;
        }
        let protocol = packet.protocol_name();
        let to = match (packet.to, packet.port) {
            (to, None) => to.to_string(),
            (to, Some(port)) => SocketAddr::new(to, port).to_string(),
        };
        let mut told = Told {
            verdict: Some(Verdict::Refused),
            address: Some(packet.to),
            port: packet.port,
            reason: Some(format!("{protocol} to {to}: only TCP leaves a sandbox")),
            protocol: Some(protocol),
            ..Told::default()
        };
        match known.due(packet) {
            Due::Later => self.count_refusal(&told),
            Due::Now(count) => {
                told.count = count;
                self.tell(Event::Packet, &told);
            }
        }
    }

    pub(super) fn refused(&self) -> Vec<Refused> {
        lock(&self.summary).list()
    }

    pub(super) fn status(&self) -> Status {
        Status {
            sandbox: self.id.clone(),
            rules: self.policy().rules().len() as u64,
            open_connections: self.books.count() as u64,
            generation: self.generation.load(Ordering::Relaxed),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
