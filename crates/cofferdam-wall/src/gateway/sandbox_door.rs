//! The door of one sandbox: its policy decides, its log is told.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedSemaphorePermit;

use crate::gateway::books::Subject;
use crate::gateway::budget::Budget;
use crate::gateway::dial::{self, Unreached, offer, told};
use crate::gateway::door::{Closed, Door, Objection, Way};
use crate::gateway::failure::Failure;
use crate::gateway::flows;
use crate::gateway::rate::Below;
use crate::gateway::sandbox::{Sandbox, Told};
use crate::gateway::wanted::Wanted;
use crate::log::{Event, Verdict, Via};
use crate::{Allowed, Destination, Kind, Policy, Protocol, Refusal, Request};

/// See [`Door`].
#[derive(Debug, Clone)]
pub(super) struct SandboxDoor {
    sandbox: Arc<Sandbox>,
    /// The connection counts as one that is on its way until something is dialled for it.
    opening: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

impl SandboxDoor {
    /// Without `opening` for what only decides.
    pub(super) fn new(sandbox: &Arc<Sandbox>, opening: Option<OwnedSemaphorePermit>) -> Self {
        Self {
            sandbox: Arc::clone(sandbox),
            opening: Arc::new(Mutex::new(opening)),
        }
    }
}

impl Door for SandboxDoor {
    fn decide(&self, wanted: &Wanted, port: u16, via: Via) -> Result<Kind, Closed> {
        match decide(&self.sandbox.policy(), wanted, port) {
            Ok(allowed) => Ok(allowed.kind),
            Err(refusal) => Err(self.refuse(wanted, port, via, refusal)),
        }
    }

    async fn dial(&self, wanted: &Wanted, port: u16, via: Via) -> Result<Way, Closed> {
        let policy = self.sandbox.policy();
        let allowed = decide(&policy, wanted, port)
            .map_err(|refusal| self.refuse(wanted, port, via, refusal))?;
        let told = Told {
            wanted: Some(wanted),
            port: Some(port),
            via: Some(via),
            rule: Some(allowed.rule),
            ..Told::default()
        };
        let fail = |failure: Failure| {
            let failed = Told {
                verdict: Some(Verdict::Failed),
                reason: Some(bounded(&failure.reason)),
                ..told.clone()
            };
            self.sandbox.tell(Event::Connect, &failed);
            Closed::Failed(failure)
        };
        if let Wanted::Name(name) = wanted
            && !self.sandbox.admits(allowed.rule, name)
        {
            let reason = Below::reason(name);
            let opens = Some(format!("{name}:{port}"));
            let refused = Told {
                verdict: Some(Verdict::Refused),
                reason: Some(reason.clone()),
                opens: opens.clone(),
                rule: None,
                ..told
            };
            self.sandbox.tell(Event::Connect, &refused);
            return Err(Closed::Refused { reason, opens });
        }
        // Boxed: the future of a lookup is large, and every connection would carry its size for life.
        let dialled = Box::pin(dial::dial(&policy, &self.sandbox.resolver, wanted, port)).await;
        let (stream, address) = dialled.map_err(|unreached| match unreached {
            Unreached::Refused(refusal) => self.refuse(wanted, port, via, refusal),
            Unreached::Failed(failure) => fail(failure),
        })?;
        let id = self.sandbox.number();
        let subject = Subject {
            wanted: wanted.clone(),
            address,
            port,
            kind: allowed.kind,
        };
        let flow =
            flows::enter(&self.sandbox, id, subject, via).map_err(|refusal| match refusal {
                Some(refusal) => self.refuse(wanted, port, via, refusal),
                None => fail(Failure::new("the rule changed meanwhile".to_owned())),
            })?;
        self.sandbox.tell(
            Event::Connect,
            &Told {
                verdict: Some(Verdict::Allowed),
                id: Some(id),
                address: Some(address),
                ..told
            },
        );
        drop(
            self.opening
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        Ok(Way {
            stream,
            kind: allowed.kind,
            flow,
        })
    }

    fn budget(&self) -> &Budget {
        &self.sandbox.budget
    }

    fn opening_rule(&self, wanted: &Wanted, port: u16) -> Option<String> {
        offer(&told(decide(&self.sandbox.policy(), wanted, port).err()?))
    }

    fn refused(&self, objection: &Objection<'_>) {
        let event = if objection.is_request {
            Event::Request
        } else {
            Event::Connect
        };
        self.sandbox.tell(
            event,
            &Told {
                verdict: Some(Verdict::Refused),
                wanted: objection.to.map(|(wanted, _)| wanted),
                port: objection.to.map(|(_, port)| port),
                via: Some(objection.via),
                reason: Some(bounded(objection.reason)),
                opens: objection.opens.map(str::to_owned),
                ..Told::default()
            },
        );
    }
}

/// A reason as it may stand in a log, whoever wrote a part of it: printable and not long.
fn bounded(reason: &str) -> String {
    const LONGEST: usize = 300;
    let shown = reason.chars().flat_map(|c| {
        let plain = c == ' ' || c.is_ascii_graphic();
        let escaped = (!plain).then(|| c.escape_default());
        plain
            .then_some(c)
            .into_iter()
            .chain(escaped.into_iter().flatten())
    });
    shown.take(LONGEST).collect()
}

impl SandboxDoor {
    fn refuse(&self, wanted: &Wanted, port: u16, via: Via, refusal: Refusal) -> Closed {
        let refusal = told(refusal);
        let reason = refusal.to_string();
        let opens = offer(&refusal);
        self.sandbox.tell(
            Event::Connect,
            &Told {
                verdict: Some(Verdict::Refused),
                wanted: Some(wanted),
                port: Some(port),
                via: Some(via),
                reason: Some(reason.clone()),
                opens: opens.clone(),
                ..Told::default()
            },
        );
        Closed::Refused { reason, opens }
    }
}

/// Decides about a name or an address, before resolution.
pub(super) fn decide<'a>(
    policy: &'a Policy,
    wanted: &Wanted,
    port: u16,
) -> Result<Allowed<'a>, Refusal> {
    let destination = match wanted {
        Wanted::Name(name) => Destination::Name(name),
        Wanted::Address(address) => Destination::Address(*address),
    };
    policy.decide(&Request {
        destination,
        port,
        protocol: Protocol::Tcp,
    })
}
