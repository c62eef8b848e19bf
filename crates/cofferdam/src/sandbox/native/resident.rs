//! Sandboxes that outlive their makers: how one ends.

use cofferdam_guest::protocol::{self, GREETING, PROTOCOL, Request};
use tokio::net::UnixStream;

use super::cgroup;
use crate::sandbox::guest::{self, Door, END_LIMIT, Process};
use crate::sandbox::{Handle, SandboxError};

/// Ends a sandbox and clears away what is left of it.
pub(super) async fn remove(handle: &Handle) -> Result<(), SandboxError> {
    let ended = match Door::at(&handle.state) {
        Ok(door) => end(&door).await,
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) | Err(SandboxError::NotRunning) => clear(handle).await,
        Err(error) => return Err(error),
    }
    Ok(())
}

async fn end(door: &Door) -> Result<(), SandboxError> {
    let stream = door.connect().await?;
    let process = Process::of(&stream)?;
    // One that speaks another version closes the connection, and one that has stopped reads nothing.
    let request = protocol::encode(&Request::End).unwrap_or_default();
    let said = [&protocol::greeting(PROTOCOL)[..], &request].concat();
    let told = guest::send(&stream, &said, &[]).await;
    let answered = greeted(&stream);
    if told.is_err() || tokio::time::timeout(END_LIMIT, answered).await != Ok(true) {
        process.kill();
    }
    process.end().await
}

/// Whether it understands what it was told.
async fn greeted(stream: &UnixStream) -> bool {
    let mut theirs = [0; GREETING];
    let read = guest::read_exact(stream, &mut theirs).await;
    read.is_ok() && protocol::greeted(theirs).is_some_and(protocol::is_spoken)
}

/// After a request to end.
pub(super) async fn close(process: &Process, handle: &Handle) -> Result<(), SandboxError> {
    process.end().await?;
    clear(handle).await;
    Ok(())
}

/// What a sandbox leaves whose processes are dead.
async fn clear(handle: &Handle) {
    if let Ok(door) = Door::at(&handle.state) {
        door.remove();
    }
    cgroup::remove_leftovers(handle.id, Some(&handle.state)).await;
}
