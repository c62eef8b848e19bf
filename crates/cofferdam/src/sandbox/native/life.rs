//! How long a native sandbox lives, and how its end is seen.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cofferdam_guest::protocol::Request;
use tokio::net::UnixStream;
use tokio::sync::watch;

use super::launch::Starting;
use super::resident;
use crate::sandbox::guest::{
    self, Connection, Door, End, GuestSandbox, Process, Provisional, Staying,
};
use crate::sandbox::{Ability, GroupMemory, Handle, SandboxError, group_memory, identity, unable};

/// The bound of [`close`](crate::sandbox::Sandbox::close) in seconds.
const CLOSE_LIMIT: u64 = 10;

#[derive(Debug)]
pub(super) struct WithMaker {
    /// True when everything of the sandbox is gone.
    pub(super) closed: watch::Receiver<bool>,
    /// The group that its memory is counted in, where that is limited.
    pub(super) memory: Option<PathBuf>,
}

#[derive(Debug)]
pub(super) struct UntilRemoved {
    process: Arc<Process>,
    handle: Handle,
    staying: Staying<Maker>,
}

/// What a sandbox that is to outlive its maker ends with as long as it does not.
#[derive(Debug)]
struct Maker {
    stream: UnixStream,
    init: Provisional,
    starting: Starting,
}

impl UntilRemoved {
    pub(super) fn of_maker(
        handle: Handle,
        stream: UnixStream,
        init: Provisional,
        starting: Starting,
    ) -> Self {
        Self {
            process: Arc::clone(init.process()),
            handle,
            staying: Staying::with(Maker {
                stream,
                init,
                starting,
            }),
        }
    }
}

#[async_trait]
impl End for WithMaker {
    async fn close(&self, connection: &Connection) -> Result<(), SandboxError> {
        connection.end("closed");
        let mut closed = self.closed.clone();
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

    fn group_memory(&self) -> Option<GroupMemory> {
        group_memory::of(self.memory.as_ref()?)
    }
}

#[async_trait]
impl End for UntilRemoved {
    async fn close(&self, connection: &Connection) -> Result<(), SandboxError> {
        connection.say(&Request::End).await;
        if let Some(maker) = self.staying.end() {
            maker.starting.finish().await;
        }
        let closed = resident::close(&self.process, &self.handle).await;
        connection.end("closed");
        closed
    }

    async fn stay(&self) -> Result<(), SandboxError> {
        let Some(maker) = self.staying.begin()? else {
            return Ok(());
        };
        guest::stay(&maker.stream).await?;
        maker.init.keep();
        self.staying.done();
        maker.starting.leave().await;
        Ok(())
    }

    fn process(&self) -> Option<BorrowedFd<'_>> {
        Some(self.process.descriptor().as_fd())
    }

    fn group_memory(&self) -> Option<GroupMemory> {
        self.process.group_memory(&self.handle.id.to_string())
    }
}

/// One that outlives its maker.
pub(super) async fn open(handle: &Handle) -> Result<GuestSandbox, SandboxError> {
    let agent = identity::agent(handle.id)?;
    let stream = Door::at(&handle.state)?.connect().await?;
    let process = Process::of(&stream)?;
    let version = match guest::greet(&stream).await {
        // One that dies closes what it has one after another, its listener among the last.
        Err(SandboxError::Gone(_)) if process.is_dying().await => {
            return Err(SandboxError::NotRunning);
        }
        greeted => greeted?,
    };
    Ok(GuestSandbox {
        connection: Connection::new(stream),
        version,
        agent,
        end: Box::new(UntilRemoved {
            process: Arc::new(process),
            handle: handle.clone(),
            staying: Staying::already(),
        }),
        wall: None,
    })
}
