//! The root of a dev sandbox's container: a child of its process 1, from before that became the agent. It listens for the host alone.

use std::os::fd::BorrowedFd;

use async_trait::async_trait;
use cofferdam_guest::protocol::{self, Agent, AsRoot};

use super::reach::Reach;
use super::record;
use super::users::Users;
use crate::sandbox::guest::{self, Connection, Door, End, GuestSandbox, start_error};
use crate::sandbox::{Ability, Handle, SandboxError, unable};

/// `files_of`: a user's and a group's id.
pub(super) async fn open(
    reach: &Reach,
    handle: &Handle,
    files_of: (u32, u32),
) -> Result<GuestSandbox, SandboxError> {
    has(reach, handle).await?;
    let stream = Door::at(&handle.state)?.of_root().connect().await?;
    let version = guest::greet(&stream).await?;
    let asked = protocol::encode(&AsRoot { files_of });
    let asked = asked.map_err(|error| SandboxError::Start(error.to_string()))?;
    let sent = guest::send(&stream, &asked, &[]).await;
    sent.map_err(start_error)?;
    let limit = reach.options.ready_limit;
    let ready = tokio::time::timeout(limit, guest::ready(&stream)).await;
    ready.unwrap_or(Err(SandboxError::TimedOut(limit.as_secs())))?;
    Ok(GuestSandbox {
        connection: Connection::new(stream),
        version,
        agent: Agent::Caller,
        end: Box::new(WithConnection),
        wall: None,
    })
}

/// Why there is none, if there is none.
async fn has(reach: &Reach, handle: &Handle) -> Result<(), SandboxError> {
    let made = record::whose(reach.place(handle))?.made;
    if made.is_some_and(|made| made.root) {
        return Ok(());
    }
    let (what, hint) = if reach.client().await?.users()? == Users::Mapped {
        (
            "whose engine is their own is root of its containers already, and nobody else can be",
            "put it into the repository's Dockerfile",
        )
    } else {
        (
            "nobody in this sandbox is root before it is started again",
            "stop it and start it",
        )
    };
    Err(SandboxError::Unsupported {
        what: what.to_owned(),
        hint: hint.to_owned(),
    })
}

/// What was started ends with the connection.
#[derive(Debug)]
struct WithConnection;

#[async_trait]
impl End for WithConnection {
    async fn close(&self, connection: &Connection) -> Result<(), SandboxError> {
        connection.end("closed");
        Ok(())
    }

    async fn stay(&self) -> Result<(), SandboxError> {
        Err(unable(Ability::Outlive))
    }

    fn process(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
