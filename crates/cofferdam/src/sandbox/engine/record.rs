//! What is remembered of a sandbox's engine beside its record: whoever clears it away later may have other surroundings.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::find::{Endpoint, From};
use super::{EngineOptions, Kind};
use crate::fsx;
use crate::path_json::PathText;
use crate::sandbox::SandboxError;

const FILE: &str = "engine.json";
const LIMIT: u64 = 1 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Remembered {
    /// Of the engine.
    socket: PathText,
    /// [`EngineOptions::home`].
    home: PathText,
    image: String,
    /// [`EngineOptions::runtime`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    runtime: Option<String>,
}

/// Before anything of the sandbox is made.
pub(super) fn write(
    place: &Path,
    endpoint: &Endpoint,
    options: &EngineOptions,
    image: &str,
) -> Result<(), SandboxError> {
    let remembered = Remembered {
        socket: PathText(endpoint.socket.clone()),
        home: PathText(options.home.clone()),
        image: image.to_owned(),
        runtime: options.runtime.clone(),
    };
    let failed = |error: String| SandboxError::Start(error);
    let bytes =
        serde_json::to_vec_pretty(&remembered).map_err(|error| failed(error.to_string()))?;
    fsx::write_private(&place.join(FILE), &bytes).map_err(|error| failed(error.to_string()))
}

/// The options and the engine; none where nothing of a sandbox was made.
pub(super) fn read(
    kind: Kind,
    place: &Path,
) -> Result<Option<(EngineOptions, Endpoint)>, SandboxError> {
    let path = place.join(FILE);
    let broken = |what: String| SandboxError::Unsupported {
        what: format!("cannot read which engine the sandbox is in: {what}"),
        hint: format!("look at {}", path.display()),
    };
    let bytes = match fsx::read_bounded(&path, LIMIT) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other.map_err(|error| broken(error.to_string()))?,
    };
    let found: Remembered =
        serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
    let mut options = EngineOptions::new(found.home.0, super::Surroundings::default());
    options.image = Some(found.image);
    options.runtime = found.runtime;
    let endpoint = Endpoint {
        kind,
        socket: found.socket.0,
        from: From::Record,
    };
    Ok(Some((options, endpoint)))
}
