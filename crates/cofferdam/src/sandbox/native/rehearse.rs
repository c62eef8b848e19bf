//! Tries what this machine gives to a sandbox, for `cofferdam doctor`: with the guest itself, in a sandbox that nobody
//! uses. Nothing is registered, and no file stays.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use cofferdam_guest::protocol::{self, ProcessLimits, Setup, WALL_SOCKETS};
use tokio_util::sync::CancellationToken;

use super::host::Host;
use super::jail::{self, JailOutput, JailRequest};
use super::launch::Starting;
use super::{NativeOptions, tools};
use crate::embedded;
use crate::names::SandboxId;
use crate::process::Invocation;
use crate::sandbox::guest::{self, start_error};
use crate::sandbox::tried::{Room, TRIED, said};
use crate::sandbox::{Limits, SandboxError, identity};
use crate::text::printable;

const SCOPE_LIMIT: Duration = Duration::from_secs(5);

/// Whether a sandbox comes up as far as its wall. Bounded: 20 s.
pub(super) async fn wall(cancel: &CancellationToken) -> Result<(), SandboxError> {
    let id = SandboxId::random().map_err(start_error)?;
    let setup = Setup {
        hostname: "doctor".to_owned(),
        agent: identity::agent(id)?,
        mounts: tools::offered(&Host::default()).mounts,
        limits: ProcessLimits {
            processes: None,
            open_files: None,
            file_size: None,
        },
        workdir: b"/".to_vec(),
        environment: Vec::new(),
        network: protocol::Network::Wall,
        lifetime: protocol::Lifetime::WithConnection,
        group: None,
        seen: Vec::new(),
        expected: None,
        root: false,
    };
    let frame = protocol::encode(&setup).map_err(|error| SandboxError::Start(error.to_string()))?;
    let (stream, launcher) = guest::spawn(None)?;
    let starting = Starting {
        launcher: Some(launcher),
        group: None,
    };
    let up = async {
        guest::send(&stream, &frame, &[])
            .await
            .map_err(start_error)?;
        match guest::ready(&stream).await?.len() {
            WALL_SOCKETS => Ok(()),
            count => Err(SandboxError::Start(format!(
                "its init handed over {count} sockets"
            ))),
        }
    };
    let limit = NativeOptions::default().ready_limit;
    let raised = tokio::select! {
        () = cancel.cancelled() => Err(SandboxError::Cancelled),
        up = tokio::time::timeout(limit, up) => {
            up.unwrap_or(Err(SandboxError::TimedOut(limit.as_secs())))
        }
    };
    // Its end.
    drop(stream);
    starting.finish().await;
    raised
}

/// Whether directories below `place` can lie over one another in a sandbox, and whether that is written to as other file
/// systems are. What is made there is removed again. Bounded: 20 s.
pub(super) async fn layers(place: &Path, cancel: &CancellationToken) -> Result<(), SandboxError> {
    let id = SandboxId::random().map_err(start_error)?;
    let room = Room::make(place, id)?;
    let tried = over(&room, cancel).await;
    room.leave(tried)
}

async fn over(room: &Room, cancel: &CancellationToken) -> Result<(), SandboxError> {
    let request = JailRequest {
        mounts: vec![room.mount()],
        arguments: Room::arguments(),
        environment: BTreeMap::new(),
        directory: TRIED.into(),
        stdin: Vec::new(),
        stdout: JailOutput::Nothing,
        limits: Limits::default(),
        timeout: NativeOptions::default().ready_limit,
    };
    let done = jail::run(request, cancel).await?;
    if done.exit.success() {
        return Ok(());
    }
    Err(said(&done.stderr_tail))
}

/// Whether there can be namespaces: what is wrong, and what to do.
pub(super) async fn namespaces(
    cancel: &CancellationToken,
) -> io::Result<Result<(), (String, String)>> {
    let mut call = Invocation::new(embedded::guest()?, "/").args(["try-namespaces"]);
    call.limit = SCOPE_LIMIT;
    let done = call.run(cancel).await.map_err(io::Error::other)?;
    if done.exit.success() {
        return Ok(Ok(()));
    }
    let said = printable(&String::from_utf8_lossy(&done.stderr));
    let (what, hint) = said.split_once('\n').unwrap_or((&said, ""));
    Ok(Err((what.to_owned(), hint.trim().to_owned())))
}

/// Whether a sandbox in the host's network is kept from the host's abstract unix sockets.
pub(super) async fn scope(cancel: &CancellationToken) -> io::Result<bool> {
    let mut call = Invocation::new(embedded::guest()?, "/").args(["try-scope"]);
    call.limit = SCOPE_LIMIT;
    let done = call.run(cancel).await.map_err(io::Error::other)?;
    Ok(done.exit.success())
}
