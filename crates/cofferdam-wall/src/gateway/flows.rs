//! One open connection, from its entry into the books to the end that is logged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::Refusal;
use crate::gateway::books::Subject;
use crate::gateway::sandbox::{Sandbox, Told};
use crate::log::{Event, Via};

/// One open connection in the gateway's books. Cancelled when its rule goes. Dropping it logs the end.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) end: CancellationToken,
    /// Bytes out of and into the sandbox.
    pub(crate) sent: Arc<AtomicU64>,
    pub(crate) received: Arc<AtomicU64>,
    /// Its line in the books; none where a protocol is tried without a sandbox.
    #[expect(dead_code, reason = "it is there to be dropped")]
    pub(crate) entry: Option<Entry>,
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
    sent: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
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
                wanted: Some(&self.subject.wanted),
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
