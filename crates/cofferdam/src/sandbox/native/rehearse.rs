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
use crate::fsx;
use crate::home::TRIED_LAYERS;
use crate::names::SandboxId;
use crate::process::Invocation;
use crate::sandbox::guest::{self, start_error};
use crate::sandbox::{Access, Limits, Mount, MountSource, SandboxError, identity};

/// Where layers are tried.
const TRIED: &str = "/workspace/tried";
/// What tries it.
const PROGRAM: &str = "program";
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
    let room = place.join(format!("{TRIED_LAYERS}{id}"));
    let tried = over(&room, cancel).await;
    let removed = fsx::remove_tree(&room);
    tried?;
    removed.map_err(|error| SandboxError::Start(error.to_string()))
}

async fn over(room: &Path, cancel: &CancellationToken) -> Result<(), SandboxError> {
    let made = |name: &str| {
        let path = room.join(name);
        let done = fsx::private_dir(&path);
        done.map(|()| path)
            .map_err(|error| SandboxError::Start(error.to_string()))
    };
    let lower = made("lower")?;
    fsx::write_with_mode(&lower.join(PROGRAM), embedded::GUEST, 0o755)
        .map_err(|error| SandboxError::Start(error.to_string()))?;
    let lower = vec![lower];
    made("lower/directory")?;
    let changes = made("changes")?;
    for name in [protocol::UPPER, protocol::WORK] {
        made(&format!("changes/{name}"))?;
    }
    let upper = Some(changes);
    let request = JailRequest {
        mounts: vec![Mount {
            source: MountSource::Layers { lower, upper },
            target: TRIED.into(),
            access: Access::ReadWrite,
        }],
        // By the guest itself: mv(1) copies what cannot be renamed.
        arguments: [format!("{TRIED}/{PROGRAM}").into(), "try-renames".into()].into(),
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
    let said = String::from_utf8_lossy(&done.stderr_tail);
    Err(SandboxError::Start(crate::text::printable_line(
        said.trim_end(),
    )))
}

/// Whether a sandbox in the host's network is kept from the host's abstract unix sockets.
pub(super) async fn scope(cancel: &CancellationToken) -> io::Result<bool> {
    let mut call = Invocation::new(embedded::guest()?, "/").args(["try-scope"]);
    call.limit = SCOPE_LIMIT;
    let done = call.run(cancel).await.map_err(io::Error::other)?;
    Ok(done.exit.success())
}
