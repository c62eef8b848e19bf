//! How long a native sandbox lives, and how its end is seen.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cofferdam_guest::protocol::Request;
use tokio::net::UnixStream;
use tokio::sync::watch;

use super::launch::Starting;
use super::resident;
use crate::sandbox::guest::{self, Connection, Door, End, GuestSandbox, Process};
use crate::sandbox::{Ability, Handle, SandboxError, identity, unable};

/// The bound of [`close`](crate::sandbox::Sandbox::close) in seconds.
const CLOSE_LIMIT: u64 = 10;

/// True when everything of the sandbox is gone.
#[derive(Debug)]
pub(super) struct WithMaker(pub(super) watch::Receiver<bool>);

#[derive(Debug)]
pub(super) struct UntilRemoved {
    process: Arc<Process>,
    handle: Handle,
    stage: Mutex<Stage>,
}

/// How far it came.
#[derive(Debug)]
enum Stage {
    WithMaker(Box<Maker>),
    Stays,
    Ended,
}

/// What a sandbox that is to outlive its maker ends with as long as it does not.
#[derive(Debug)]
struct Maker {
    stream: UnixStream,
    newborn: Newborn,
    starting: Starting,
}

/// Killed unless it is kept: nothing half-made stays.
#[derive(Debug)]
pub(super) struct Newborn {
    process: Arc<Process>,
    kept: bool,
}

impl Newborn {
    pub(super) fn new(process: Process) -> Self {
        Self {
            process: Arc::new(process),
            kept: false,
        }
    }

    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Newborn {
    fn drop(&mut self) {
        if !self.kept {
            self.process.kill();
        }
    }
}

impl UntilRemoved {
    pub(super) fn of_maker(
        handle: Handle,
        stream: UnixStream,
        newborn: Newborn,
        starting: Starting,
    ) -> Self {
        let process = Arc::clone(&newborn.process);
        let maker = Maker {
            stream,
            newborn,
            starting,
        };
        Self {
            process,
            handle,
            stage: Mutex::new(Stage::WithMaker(Box::new(maker))),
        }
    }

    /// What it was until now; another one is told that it has ended, until the stage is set again.
    fn leave_stage(&self) -> Stage {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *stage, Stage::Ended)
    }

    fn stays(&self) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = Stage::Stays;
    }
}

#[async_trait]
impl End for WithMaker {
    async fn close(&self, connection: &Connection) -> Result<(), SandboxError> {
        connection.end("closed");
        let mut closed = self.0.clone();
        let limit = Duration::from_secs(CLOSE_LIMIT);
        match tokio::time::timeout(limit, closed.wait_for(|closed| *closed))
            .await
            .map(|r| r.is_ok())
        {
            Ok(true) => Ok(()),
            Ok(false) => Err(SandboxError::Gone("its keeper was stopped".to_owned())),
            Err(_) => Err(SandboxError::TimedOut(CLOSE_LIMIT)),
        }
    }

    async fn stay(&self) -> Result<(), SandboxError> {
        Err(unable(Ability::Outlive))
    }

    fn process(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[async_trait]
impl End for UntilRemoved {
    async fn close(&self, connection: &Connection) -> Result<(), SandboxError> {
        connection.say(&Request::End).await;
        if let Stage::WithMaker(maker) = self.leave_stage() {
            maker.starting.finish().await;
        }
        let closed = resident::close(&self.process, &self.handle).await;
        connection.end("closed");
        closed
    }

    async fn stay(&self) -> Result<(), SandboxError> {
        let maker = match self.leave_stage() {
            Stage::WithMaker(maker) => *maker,
            Stage::Stays => {
                self.stays();
                return Ok(());
            }
            Stage::Ended => return Err(guest::never_stayed()),
        };
        guest::stay(&maker.stream).await?;
        maker.newborn.keep();
        self.stays();
        maker.starting.leave().await;
        Ok(())
    }

    fn process(&self) -> Option<BorrowedFd<'_>> {
        Some(self.process.descriptor().as_fd())
    }
}

/// One that outlives its maker.
pub(super) async fn open(handle: &Handle) -> Result<GuestSandbox, SandboxError> {
    let agent = identity::agent(handle.id)?;
    let stream = Door::at(&handle.state)?.connect().await?;
    let process = Process::of(&stream)?;
    match guest::greet(&stream).await {
        // One that dies closes what it has one after another, its listener among the last.
        Err(SandboxError::Gone(_)) if process.is_dying().await => {
            return Err(SandboxError::NotRunning);
        }
        greeted => greeted?,
    }
    Ok(GuestSandbox {
        connection: Connection::new(stream),
        agent,
        end: Box::new(UntilRemoved {
            process: Arc::new(process),
            handle: handle.clone(),
            stage: Mutex::new(Stage::Stays),
        }),
        wall: None,
    })
}
