//! Whose sandboxes the tools are about, and one call of a tool.

use std::sync::Arc;
use std::time::Duration;

use cofferdam::names::{RepoPath, Slug};
use cofferdam::session::living::{Condition, Named};
use cofferdam::session::{Caller, Session, SessionError};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use crate::commands::living;
use crate::environment::Environment;
use crate::interrupt::Interrupt;

/// Between two words about how long something takes.
const PROGRESS: Duration = Duration::from_secs(5);

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Server(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    environment: Environment,
    interrupt: Interrupt,
    /// Whose sandboxes.
    top: RepoPath,
}

/// One call, as the client may follow it.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// The client wants no answer any more.
    pub(super) cancel: CancellationToken,
    token: Option<ProgressToken>,
    peer: Peer<RoleServer>,
}

impl Asked {
    pub(super) fn by(context: &RequestContext<RoleServer>, cancel: CancellationToken) -> Self {
        Self {
            cancel,
            token: context.meta.get_progress_token(),
            peer: context.peer.clone(),
        }
    }

    /// Waits for something, and tells the client now and then that it goes on.
    pub(super) async fn patiently<T>(&self, what: &str, step: impl Future<Output = T>) -> T {
        let Some(token) = &self.token else {
            return step.await;
        };
        let mut step = std::pin::pin!(step);
        let mut times = 0.0;
        loop {
            tokio::select! {
                done = &mut step => return done,
                () = tokio::time::sleep(PROGRESS) => {}
            }
            times += PROGRESS.as_secs_f64();
            let told = ProgressNotificationParam::new(token.clone(), times)
                .with_message(format!("{what}: {times} s"));
            // Whoever does not listen misses nothing that the answer does not tell.
            let _ = self.peer.notify_progress(told).await;
        }
    }
}

impl Server {
    pub(super) fn new(environment: &Environment, interrupt: &Interrupt, top: RepoPath) -> Self {
        Self(Arc::new(Shared {
            environment: environment.clone(),
            interrupt: interrupt.clone(),
            top,
        }))
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.0.environment
    }

    pub(super) fn interrupt(&self) -> &Interrupt {
        &self.0.interrupt
    }

    /// What one call does ends with the call where its client wants no answer any more.
    pub(super) fn caller(&self, asked: &Asked) -> Caller {
        let mut caller = living::caller(&self.0.environment, &self.0.interrupt);
        caller.cancel = asked.cancel.clone();
        caller
    }

    /// A sandbox that tools may change, and for whom.
    pub(super) async fn own(&self, name: &str, asked: &Asked) -> Result<(Caller, Named), Failure> {
        let caller = self.caller(asked);
        let named = self.named(name, &caller).await?;
        if !named.record().mode.owns_files() {
            let name = named.name();
            return Err(Failure::new(
                format!(
                    "sandbox '{name}' works in a checkout of its user's, and no tool changes that"
                ),
                "Make one of your own with `sandbox-create`.",
            ));
        }
        Ok((caller, named))
    }

    /// The same, running.
    pub(super) async fn to_change(&self, name: &str, asked: &Asked) -> Result<Session, Failure> {
        let (caller, named) = self.own(name, asked).await?;
        let provider = named.provider(&caller)?;
        let session = Session::open(&caller, named, &provider).await?;
        match session.condition().await? {
            Condition::Paused => {
                let name = session.name().to_string();
                Err(SessionError::Paused { name }.into())
            }
            _ => Ok(session),
        }
    }

    /// A sandbox to look into. What a call had begun in it ends with the call.
    pub(super) async fn to_read(&self, name: &str, asked: &Asked) -> Result<Session, Failure> {
        let caller = self.caller(asked);
        let named = self.named(name, &caller).await?;
        let provider = named.provider(&caller)?;
        Ok(Session::open(&caller, named, &provider).await?)
    }

    async fn named(&self, name: &str, caller: &Caller) -> Result<Named, Failure> {
        let found = Named::find(caller, self.0.top.as_path(), &slug(name)?).await;
        Ok(found?)
    }
}

/// As it was made from what somebody called it.
fn slug(name: &str) -> Result<String, Failure> {
    match Slug::sandbox_name(name) {
        Ok(slug) => Ok(slug.to_string()),
        Err(error) => Err(Failure::new(
            error.to_string(),
            "`sandbox-list` names those that there are.",
        )),
    }
}
