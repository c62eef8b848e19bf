//! The books of one sandbox's open connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::gateway::wanted::Wanted;
use crate::{Destination, Kind, Policy, Protocol, Refusal, Request};

/// What a connection was decided on.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) wanted: Wanted,
    /// What was dialled.
    pub(super) address: IpAddr,
    pub(super) port: u16,
    pub(super) kind: Kind,
}

impl Subject {
    /// What policy says now; none if it refuses, or wants more looked at than was.
    pub(super) fn holds(&self, policy: &Policy) -> Result<(), Option<Refusal>> {
        let destination = match &self.wanted {
            Wanted::Name(name) => Destination::Resolved {
                name,
                address: self.address,
            },
            Wanted::Address(address) => Destination::Address(*address),
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

    /// Waits until nothing of those that were ended is carried any more: somebody may be at work for one right now. Bounded: after a
    /// second whoever is left is not waited for.
    pub(super) async fn settle(&self) {
        for _ in 0..1000 {
            if !self.lock().values().any(|(_, end)| end.is_cancelled()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(super) fn lock(
        &self,
    ) -> std::sync::MutexGuard<'_, HashMap<u64, (Subject, CancellationToken)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn what_was_ended_is_waited_for() {
        let books = Arc::new(Books::default());
        let subject = Subject {
            wanted: Wanted::Address(IpAddr::from([203, 0, 113, 9])),
            address: IpAddr::from([203, 0, 113, 9]),
            port: 443,
            kind: Kind::Plain,
        };
        let (ended, open) = (CancellationToken::new(), CancellationToken::new());
        books.lock().insert(1, (subject.clone(), ended.clone()));
        books.lock().insert(2, (subject, open));
        // Nothing has ended: nobody is waited for.
        books.settle().await;
        ended.cancel();
        let carries = Arc::clone(&books);
        let carried = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            carries.lock().remove(&1);
        });
        books.settle().await;
        assert_eq!(books.count(), 1);
        carried.await.unwrap();
    }
}
