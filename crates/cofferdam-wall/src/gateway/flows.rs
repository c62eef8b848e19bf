//! The books of one sandbox's open connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::gateway::door::{Flow, Place};
use crate::gateway::sandbox::{Sandbox, Told};
use crate::log::{Event, Via};
use crate::{Destination, Kind, Policy, Protocol, Refusal, Request};

/// What a connection was decided on.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) place: Place,
    /// What was dialled.
    pub(super) address: IpAddr,
    pub(super) port: u16,
    pub(super) kind: Kind,
}

impl Subject {
    /// What policy says now; none if it refuses, or wants more looked at than was.
    fn holds(&self, policy: &Policy) -> Result<(), Option<Refusal>> {
        let destination = match &self.place {
            Place::Name(name) => Destination::Resolved {
                name,
                address: self.address,
            },
            Place::Address(address) => Destination::Address(*address),
        };
        let allowed = policy
            .decide(&Request {
                destination,
                port: self.port,
                protocol: Protocol::Tcp,
            })
            .map_err(Some)?;
        if allowed.kind == self.kind {
            Ok(())
        } else {
            Err(None)
        }
    }
}

/// The open connections by number.
#[derive(Debug, Default)]
pub(super) struct Books {
    open: Mutex<HashMap<u64, (Subject, CancellationToken)>>,
}

impl Books {
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Ends every connection that `policy` does not carry; how many. The policy must be in force already.
    pub(super) fn review(&self, policy: &Policy) -> u64 {
        let mut closed = 0;
        for (subject, end) in self.lock().values() {
            if subject.holds(policy).is_err() && !end.is_cancelled() {
                end.cancel();
                closed += 1;
            }
        }
        closed
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, (Subject, CancellationToken)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Enters a connection into the books, under the lock that a change of policy takes after it came into
/// force: either this sees the new policy, or that sees this connection.
pub(super) fn enter(
    sandbox: &Arc<Sandbox>,
    id: u64,
    subject: Subject,
    via: Via,
) -> Result<Flow, Option<Refusal>> {
    let end = sandbox.end.child_token();
    let mut open = sandbox.books.lock();
    subject.holds(&sandbox.policy())?;
    open.insert(id, (subject.clone(), end.clone()));
    drop(open);
    let (sent, received) = (Arc::default(), Arc::default());
    Ok(Flow {
        end,
        sent: Arc::clone(&sent),
        received: Arc::clone(&received),
        entry: Some(Entry {
            sandbox: Arc::clone(sandbox),
            is_proof: sandbox.is_proving(),
            id,
            subject,
            via,
            since: Instant::now(),
            sent,
            received,
        }),
    })
}

/// A line in the books; dropping it strikes it out and logs the end of the connection.
#[derive(Debug)]
pub(crate) struct Entry {
    sandbox: Arc<Sandbox>,
    /// Nobody was told of its beginning.
    is_proof: bool,
    id: u64,
    subject: Subject,
    via: Via,
    since: Instant,
    sent: Arc<std::sync::atomic::AtomicU64>,
    received: Arc<std::sync::atomic::AtomicU64>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.sandbox.books.lock().remove(&self.id);
        if self.is_proof {
            return;
        }
        let millis = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.sandbox.tell(
            Event::Close,
            &Told {
                id: Some(self.id),
                place: Some(&self.subject.place),
                address: Some(self.subject.address),
                port: Some(self.subject.port),
                via: Some(self.via),
                sent: Some(self.sent.load(Ordering::Relaxed)),
                received: Some(self.received.load(Ordering::Relaxed)),
                millis: Some(millis),
                ..Told::default()
            },
        );
    }
}
