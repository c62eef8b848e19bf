//! Whether an engine's sandboxes can have layers: tried in one that nobody uses.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use super::holding::IMAGE as EMPTY;
use super::image::Chosen;
use super::labels::of_home;
use super::make;
use super::places;
use super::reach::Reach;
use crate::fsx;
use crate::fsx::lock::{self, Lock};
use crate::names::{SandboxId, Slug};
use crate::sandbox::guest::start_error;
use crate::sandbox::tried::{Room, TRIED, said};
use crate::sandbox::{ExecRequest, Limits, Sandbox, SandboxError, SandboxSpec};

const LIMIT: Duration = Duration::from_secs(20);
/// Between two tries of a lock.
const PAUSE: Duration = Duration::from_millis(2);
/// Below an engine's home.
const PLACE: &str = "tried";

/// Makes a container with directories of `place` over one another, and works there. What is made is removed again.
/// Bounded: what a container takes to come up, and 20 s.
pub(super) async fn layers(
    reach: &Arc<Reach>,
    place: &Path,
    cancel: &CancellationToken,
) -> Result<(), SandboxError> {
    let id = SandboxId::random().map_err(start_error)?;
    let slug = Slug::from_text("doctor").map_err(|error| SandboxError::Start(error.to_string()))?;
    let room = Room::make(place, id)?;
    let mut spec = SandboxSpec::new(id, slug, "", TRIED);
    spec.mounts.push(room.mount());
    spec.limits = Limits {
        processes: None,
        open_files: None,
        ..Limits::default()
    };
    let tried = async {
        let (_held, reach) = apart(reach).await?;
        let client = reach.client().await?;
        // Whatever image its sandboxes will have: what is tried is a program of ours.
        let image = Chosen::empty(client.empty_image(EMPTY).await?);
        let (sandbox, _) = Box::pin(make::make(&reach, client, &image, &spec, cancel)).await?;
        let tried = tokio::time::timeout(LIMIT, rename(&sandbox)).await;
        let closed = sandbox.close().await;
        tried.unwrap_or(Err(SandboxError::TimedOut(LIMIT.as_secs())))?;
        closed
    };
    let tried = tried.await;
    room.leave(tried)
}

/// The same engine with a home of its own for trials, so that its containers can be told from those of sandboxes. One that could
/// not be removed, because its engine went away, is removed by the next trial; the lock says that nobody is at one.
async fn apart(reach: &Reach) -> Result<(lock::Held, Arc<Reach>), SandboxError> {
    let failed = |error: fsx::FileError| SandboxError::Start(error.to_string());
    let client = reach.client().await?;
    let mut options = reach.options.clone();
    fsx::private_dir(&options.home).map_err(failed)?;
    options.home.push(PLACE);
    fsx::private_dir(&options.home).map_err(failed)?;
    let path = options.home.join("lock");
    let file = lock::open(&path).map_err(failed)?;
    if lock::try_hold(&file, Lock::Exclusive, &path).map_err(failed)? {
        let (name, value) = of_home(&options);
        let places = places::real(&options, [places::meetings(&options)]);
        for left in client.labelled(&[format!("{name}={value}")]).await? {
            if client.meets_below(&left, &places).await? {
                client.remove(&left).await?;
            }
        }
    }
    // Whoever clears up now finds nothing of this trial yet.
    while !lock::try_hold(&file, Lock::Shared, &path).map_err(failed)? {
        tokio::time::sleep(PAUSE).await;
    }
    let held = lock::Held::new(file);
    let endpoint = Some(client.endpoint.clone());
    Ok((held, Arc::new(Reach::new(client.kind(), options, endpoint))))
}

async fn rename(sandbox: &dyn Sandbox) -> Result<(), SandboxError> {
    let mut run = sandbox.exec(ExecRequest::new(Room::arguments())).await?;
    let mut text = Vec::new();
    if let Some(stderr) = run.take_stderr() {
        // Read as far as it comes: how it ended is what counts.
        let _ = stderr.take(4096).read_to_end(&mut text).await;
    }
    if run.wait().await?.success() {
        return Ok(());
    }
    Err(said(&text))
}
