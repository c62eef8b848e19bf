//! How long a container lives, how it is found again, and how it ends.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cofferdam_guest::protocol::Request;
use tokio::net::UnixStream;

use super::Kind;
use super::client::Client;
use super::reach::Reach;
use super::whose::Whose;
use super::{attached, places, record};
use crate::fsx;
use crate::sandbox::guest::{
    self, Connection, Door, End, GuestSandbox, Process, Provisional, Staying,
};
use crate::sandbox::{Ability, GroupMemory, Handle, SandboxError, identity, unable};

/// How long an engine may take to be done with a container that has ended, and how often it is asked.
const GONE: Duration = Duration::from_secs(8);
const LOOK: Duration = Duration::from_millis(20);
/// How long a guest may be silent until its engine is asked why.
const SILENT: Duration = Duration::from_secs(1);
/// Until one that could not be removed is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// Ends a sandbox's containers.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) reach: Arc<Reach>,
    pub(super) whose: Whose,
    pub(super) process: Arc<Process>,
    pub(super) lives_on: bool,
    pub(super) staying: Staying<Maker>,
}

/// What one that is to outlive its maker ends with as long as it does not.
#[derive(Debug)]
pub(super) struct Maker {
    pub(super) stream: UnixStream,
    pub(super) guest: Provisional,
}

#[async_trait]
impl End for Keeper {
    async fn close(&self, connection: &Connection) -> Result<(), SandboxError> {
        let ended = if self.lives_on {
            connection.say(&Request::End).await;
            // What waits to be said goes with the connection.
            let ended = self.process.end().await;
            connection.end("closed");
            ended
        } else {
            connection.end("closed");
            self.process.end().await
        };
        self.staying.end();
        // Also where it did not end: the engine kills it then.
        all_gone(&self.reach, &self.whose).await?;
        ended
    }

    async fn stay(&self) -> Result<(), SandboxError> {
        if !self.lives_on {
            return Err(unable(Ability::Outlive));
        }
        if let Some(maker) = self.staying.begin()? {
            guest::stay(&maker.stream).await?;
            maker.guest.keep();
            self.staying.done();
        }
        Ok(())
    }

    fn process(&self) -> Option<BorrowedFd<'_>> {
        // Whoever lives as long as its maker is told by its connection.
        self.lives_on.then(|| self.process.descriptor().as_fd())
    }

    fn group_memory(&self) -> Option<GroupMemory> {
        let mut containers = self.whose.containers().iter();
        containers.find_map(|id| self.process.group_memory(id))
    }
}

/// One that another one has joined is not removed before that is, and an engine may still make what it was asked for when nobody waited
/// any more: so all are tried again for a while.
async fn all_gone(reach: &Reach, whose: &Whose) -> Result<(), SandboxError> {
    let client = reach.client().await?;
    let until = Instant::now() + GONE;
    loop {
        let mut failed = None;
        for container in whose.found(client).await? {
            match gone(client, &container).await {
                Ok(()) => {}
                Err(error @ SandboxError::TimedOut(_)) => return Err(error),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        match failed {
            None => return Ok(()),
            Some(error) if Instant::now() >= until => return Err(error),
            Some(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

/// Removes it, and waits until the engine has it no more.
async fn gone(client: &Client, container: &str) -> Result<(), SandboxError> {
    // Podman waits for one that it has paused itself until it gives up, twice.
    if client.kind() == Kind::Podman && client.look(container).await?.is_some_and(|one| one.paused)
    {
        client.unpause(container).await?;
    }
    client.remove(container).await?;
    let gone = async {
        while client.look(container).await?.is_some() {
            tokio::time::sleep(LOOK).await;
            client.remove(container).await?;
        }
        Ok(())
    };
    let gone = tokio::time::timeout(GONE, gone).await;
    gone.unwrap_or(Err(SandboxError::TimedOut(GONE.as_secs())))
}

/// One that outlives its maker. The engine is not asked: its guest answers, or it is not running.
pub(super) async fn open(
    reach: &Arc<Reach>,
    handle: &Handle,
) -> Result<GuestSandbox, SandboxError> {
    let agent = identity::agent(handle.id)?;
    let whose = reach.whose(handle)?;
    let stream = Door::at(&handle.state)?.connect().await?;
    let process = Process::of(&stream)?;
    let answer = async {
        tokio::select! {
            greeted = guest::greet(&stream) => greeted,
            why = silenced(reach, &whose) => Err(why),
        }
    };
    let version = match answer.await {
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
        end: Box::new(Keeper {
            reach: Arc::clone(reach),
            whose,
            process: Arc::new(process),
            lives_on: true,
            staying: Staying::already(),
        }),
        wall: None,
    })
}

/// Comes to an end for who does not answer and cannot.
async fn silenced(reach: &Reach, whose: &Whose) -> SandboxError {
    tokio::time::sleep(SILENT).await;
    match paused(reach, whose).await {
        Some(why) => why,
        None => std::future::pending().await,
    }
}

/// Why it does not answer, where somebody has paused its container by the engine's own command: that stops the guest too.
async fn paused(reach: &Reach, whose: &Whose) -> Option<SandboxError> {
    let client = reach.client().await.ok()?;
    for id in whose.found(client).await.ok()? {
        if let Ok(Some(one)) = client.look(&id).await
            && one.paused
        {
            let kind = client.kind();
            return Some(SandboxError::Unsupported {
                what: format!("somebody has paused its container by {kind}'s own command"),
                hint: format!(
                    "let it go on with `{} unpause {}`",
                    kind.name(),
                    &id[..12.min(id.len())]
                ),
            });
        }
    }
    None
}

/// Ends a sandbox and clears away what is left of it, whatever that is.
pub(super) async fn remove(reach: &Reach, handle: &Handle) -> Result<(), SandboxError> {
    all_gone(reach, &reach.whose(handle)?).await?;
    clear(reach, handle)
}

/// Where its engine does not answer: ends the sandbox by its guest, which needs no engine for that, and forgets that it was ever made.
/// Says what may stay. None where the engine answers: then [`remove`] is the way.
pub(super) async fn let_go(reach: &Reach, handle: &Handle) -> Result<Option<String>, SandboxError> {
    let why = match reach.client().await {
        Ok(_) => return Ok(None),
        // One that is only away for a moment still has the containers.
        Err(SandboxError::NoEngine { .. }) if reach.is_listened_at().await => return Ok(None),
        Err(why @ SandboxError::NoEngine { .. }) => why,
        Err(other) => return Err(other),
    };
    if let Ok(door) = Door::at(&handle.state)
        && let Ok(stream) = door.connect().await
    {
        let process = Process::of(&stream)?;
        if guest::greet(&stream).await.is_ok() {
            Connection::new(stream).say(&Request::End).await;
        }
        process.end().await?;
    }
    clear(reach, handle)?;
    record::forget(&handle.state)?;
    Ok(Some(format!(
        "{why}; containers of this sandbox, if there are any, stay in {}",
        reach.kind()
    )))
}

/// What it had on the host beside its state.
fn clear(reach: &Reach, handle: &Handle) -> Result<(), SandboxError> {
    if let Ok(door) = Door::at(&handle.state) {
        door.remove();
        door.of_root().remove();
    }
    let failed = |error: String| SandboxError::Start(error);
    attached::clear(&places::mounted(&reach.options, &handle.id))
        .map_err(|error| failed(error.to_string()))?;
    let (options, id) = (&reach.options, &handle.id);
    for meeting in [
        places::meeting(options, id),
        places::wall_meeting(options, id),
    ] {
        fsx::remove_tree_or_file(&meeting).map_err(|error| failed(error.to_string()))?;
    }
    Ok(())
}
