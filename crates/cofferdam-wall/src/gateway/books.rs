//! The books of one sandbox's open connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

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

    pub(super) fn lock(
        &self,
    ) -> std::sync::MutexGuard<'_, HashMap<u64, (Subject, CancellationToken)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
