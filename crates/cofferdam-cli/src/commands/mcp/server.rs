//! Whose sandboxes the tools are about, and one call of a tool.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cofferdam::names::{RepoPath, Slug};
use cofferdam::session::living::{Condition, Named};
use cofferdam::session::{Caller, Session, SessionError};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};
use tokio_util::sync::CancellationToken;

use super::failure::{AGAIN, Failure};
use super::turns::{Turn, Turns, cancelled};
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
    turns: Turns,
    /// What it has of a sandbox, until it ends.
    turn: Arc<Mutex<Option<Turn>>>,
}

/// A client that asked for a call, and may follow how far it is.
#[derive(Debug)]
pub(super) struct Follower {
    token: Option<ProgressToken>,
    peer: Peer<RoleServer>,
}

impl Asked {
    pub(super) fn by(
        context: &RequestContext<RoleServer>,
        cancel: CancellationToken,
        turns: Turns,
    ) -> Self {
        Self {
            cancel,
            token: context.meta.get_progress_token(),
            peer: context.peer.clone(),
            turns,
            turn: Arc::default(),
        }
    }

    /// Another call may work in the sandbox while this one waits for its program.
    pub(super) fn stand_aside(&self) {
        if let Some(turn) = &mut *self.turn() {
            turn.stand_aside();
        }
    }

    /// It works in the sandbox again.
    pub(super) async fn work_again(&self) {
        let turn = self.turn().take();
        if let Some(mut turn) = turn {
            turn.work_again().await;
            *self.turn() = Some(turn);
        }
    }

    /// Does what keeps a processor busy on a thread of its own, so that whoever else is served does not wait for it. `search` has to look
    /// now and then whether the call was cancelled.
    pub(super) async fn search<T: Send + 'static>(
        &self,
        search: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let right = self.turns.search(&self.cancel).await?;
        let search = move || {
            let found = search();
            drop(right);
            found
        };
        let found = tokio::task::spawn_blocking(search).await;
        found.map_err(|error| Failure::new(error.to_string(), AGAIN))?
    }

    /// An error where nobody wants the answer any more.
    pub(super) fn is_wanted(&self) -> Result<(), Failure> {
        if self.cancel.is_cancelled() {
            return Err(cancelled());
        }
        Ok(())
    }

    fn turn(&self) -> std::sync::MutexGuard<'_, Option<Turn>> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is told how far the call is.
    pub(super) fn follower(&self) -> Follower {
        Follower {
            token: self.token.clone(),
            peer: self.peer.clone(),
        }
    }
}

impl Follower {
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

    /// The repository.
    pub(super) fn top(&self) -> &Path {
        self.0.top.as_path()
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

    /// The same, running, for a program that is waited for.
    pub(super) async fn to_run(&self, name: &str, asked: &Asked) -> Result<Session, Failure> {
        let mut turn = self.turn(name, asked)?;
        turn.program(&asked.cancel).await?;
        *asked.turn() = Some(turn);
        self.to_change(name, asked).await
    }

    /// One that tools may change, running, when it is this call's turn in it.
    pub(super) async fn to_change(&self, name: &str, asked: &Asked) -> Result<Session, Failure> {
        self.work(name, asked).await?;
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

    /// A sandbox to look into, when it is this call's turn. What a call had begun in it ends with the call.
    pub(super) async fn to_read(&self, name: &str, asked: &Asked) -> Result<Session, Failure> {
        self.work(name, asked).await?;
        let caller = self.caller(asked);
        let named = self.named(name, &caller).await?;
        let provider = named.provider(&caller)?;
        Ok(Session::open(&caller, named, &provider).await?)
    }

    /// Until the call ends.
    async fn work(&self, name: &str, asked: &Asked) -> Result<(), Failure> {
        let taken = asked.turn().take();
        let mut turn = match taken {
            Some(turn) => turn,
            None => self.turn(name, asked)?,
        };
        turn.work(&asked.cancel).await?;
        *asked.turn() = Some(turn);
        Ok(())
    }

    fn turn(&self, name: &str, asked: &Asked) -> Result<Turn, Failure> {
        let top = self.0.top.as_path().to_owned();
        Ok(asked.turns.at(&(top, slug(name)?)))
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
