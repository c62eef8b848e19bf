//! What is remembered of a sandbox's engine beside its record: whoever clears it away later may have other surroundings.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::find::{Endpoint, From};
use super::{EngineOptions, Kind};
use crate::fsx;
use crate::path_json::PathText;
use crate::sandbox::SandboxError;

const FILE: &str = "engine.json";
const LIMIT: u64 = 8 << 20;
/// A longer command is not remembered, in bytes: it says again what stands there already.
const LONGEST_COMMAND: usize = 2 << 20;

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
    /// The real path of the sandbox's, as its containers name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repository: Option<PathText>,
    /// Once it is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made: Option<Made>,
}

/// What was made, by which it is known again and looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Made {
    /// The engine's own ids: the agent's first, then a holder's.
    pub(super) containers: Vec<String>,
    pub(super) mounts: Vec<Mounted>,
    /// Where its image has volumes, as an engine names the places. Nothing in records of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) volumes: Option<Vec<PathText>>,
    /// By the engine: how many, bytes, and billionths of a CPU.
    pub(super) processes: Option<i64>,
    pub(super) memory: Option<i64>,
    pub(super) cpus: Option<i64>,
    /// What a command line of the engine's would have to say to make the same. Nothing in records of earlier builds.
    #[serde(default)]
    pub(super) command: Vec<String>,
    /// The host may start programs as root in it.
    #[serde(default)]
    pub(super) root: bool,
}

/// A directory or file of the host's that the agent sees.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Mounted {
    pub(super) source: String,
    pub(super) target: String,
    pub(super) writable: bool,
}

/// Whose containers a sandbox's are; nothing of one of which nothing was made.
#[derive(Debug, Default)]
pub(super) struct Remembrance {
    pub(super) repository: Option<PathBuf>,
    pub(super) made: Option<Made>,
}

/// Before anything of the sandbox is made, and again when all of it is.
pub(super) fn write(
    place: &Path,
    endpoint: &Endpoint,
    options: &EngineOptions,
    image: &str,
    repository: Option<&Path>,
    made: Option<&Made>,
) -> Result<(), SandboxError> {
    let remembered = Remembered {
        socket: PathText(endpoint.socket.clone()),
        home: PathText(options.home.clone()),
        image: image.to_owned(),
        runtime: options.runtime.clone(),
        repository: repository.map(|path| PathText(path.to_owned())),
        made: made.cloned().map(|mut made| {
            if made.command.iter().map(String::len).sum::<usize>() > LONGEST_COMMAND {
                made.command.clear();
            }
            made
        }),
    };
    let failed = |error: String| SandboxError::Start(error);
    let bytes =
        serde_json::to_vec_pretty(&remembered).map_err(|error| failed(error.to_string()))?;
    fsx::write_private(&place.join(FILE), &bytes).map_err(|error| failed(error.to_string()))
}

/// From then on it is as if nothing of the sandbox had been made.
pub(super) fn forget(place: &Path) -> Result<(), SandboxError> {
    fsx::remove_tree_or_file(&place.join(FILE))
        .map_err(|error| SandboxError::Start(error.to_string()))
}

/// The options and the engine; none where nothing of a sandbox was made.
pub(super) fn read(
    kind: Kind,
    place: &Path,
) -> Result<Option<(EngineOptions, Endpoint)>, SandboxError> {
    let Some(found) = remembered(place)? else {
        return Ok(None);
    };
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

pub(super) fn whose(place: &Path) -> Result<Remembrance, SandboxError> {
    let found = remembered(place)?;
    Ok(
        found.map_or_else(Remembrance::default, |found| Remembrance {
            repository: found.repository.map(|path| path.0),
            made: found.made,
        }),
    )
}

fn remembered(place: &Path) -> Result<Option<Remembered>, SandboxError> {
    let path = place.join(FILE);
    let broken = |what: String| SandboxError::Unsupported {
        what: format!("cannot read which engine the sandbox is in: {what}"),
        hint: format!("look at {}", path.display()),
    };
    let bytes = match fsx::read_bounded(&path, LIMIT) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other.map_err(|error| broken(error.to_string()))?,
    };
    let found = serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
    Ok(Some(found))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files")]
mod tests {
    use super::*;

    /// As the first version wrote it, which knew no runtime.
    const FIRST: &str = r#"{
  "socket": "/run/docker.sock",
  "home": "/home/user/.cofferdam/engines",
  "image": "debian:bookworm-slim"
}"#;

    #[test]
    fn what_earlier_versions_wrote_is_read() {
        let place = tempfile::tempdir().unwrap();
        assert!(read(Kind::Docker, place.path()).unwrap().is_none());
        std::fs::write(place.path().join(FILE), FIRST).unwrap();
        let (options, endpoint) = read(Kind::Docker, place.path()).unwrap().unwrap();
        assert_eq!(endpoint.socket, Path::new("/run/docker.sock"));
        assert_eq!(options.home, Path::new("/home/user/.cofferdam/engines"));
        assert_eq!(options.image.as_deref(), Some("debian:bookworm-slim"));
        assert_eq!(options.runtime, None);
        // What is written today without one is the same.
        let image = "debian:bookworm-slim";
        write(place.path(), &endpoint, &options, image, None, None).unwrap();
        let written = std::fs::read_to_string(place.path().join(FILE)).unwrap();
        assert_eq!(written, FIRST);
        let earlier = whose(place.path()).unwrap();
        assert!(earlier.repository.is_none() && earlier.made.is_none());
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join(FILE), "{").unwrap();
        let error = read(Kind::Podman, place.path()).unwrap_err().to_string();
        assert!(error.contains("which engine the sandbox is in"), "{error}");
    }
}
