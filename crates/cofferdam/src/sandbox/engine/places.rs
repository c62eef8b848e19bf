//! Where on the host things lie that containers are given, below [`EngineOptions::home`].

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{EngineOptions, Kind};
use crate::sandbox::SandboxError;
use crate::sandbox::guest::start_error;

/// Where guests are met, and what root mounts for its containers.
const MEETINGS: &str = "meet";
const MOUNTS: &str = "mounts";
const NOTHING: &str = "nothing";
const IMAGES: &str = "images";

/// These places by their real paths, as an engine was told them.
pub(super) fn real(
    options: &EngineOptions,
    places: impl IntoIterator<Item = PathBuf>,
) -> Vec<PathBuf> {
    let home = options.home.canonicalize();
    let home = home.unwrap_or_else(|_| options.home.clone());
    let real = |place: PathBuf| match place.strip_prefix(&options.home) {
        Ok(rest) => home.join(rest),
        Err(_) => place,
    };
    places.into_iter().map(real).collect()
}

/// What one sandbox has of an engine's place on the host.
pub(super) fn meeting(options: &EngineOptions, id: &impl ToString) -> PathBuf {
    meetings(options).join(id.to_string())
}

/// Where the holder of its wall is met. An engine that gets to a request late makes this directory again.
pub(super) fn wall_meeting(options: &EngineOptions, id: &impl ToString) -> PathBuf {
    meetings(options).join(format!("{}-wall", id.to_string()))
}

pub(super) fn meetings(options: &EngineOptions) -> PathBuf {
    options.home.join(MEETINGS)
}

pub(super) fn mounted(options: &EngineOptions, id: &impl ToString) -> PathBuf {
    options.home.join(MOUNTS).join(id.to_string())
}

/// What is known of an image. `id`: the engine's. One kind of engine makes for a container what another one leaves as the image has it,
/// and one image has the same id in both.
pub(super) fn image(options: &EngineOptions, kind: Kind, id: &str) -> PathBuf {
    let name = id.strip_prefix("sha256:").unwrap_or(id);
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let name = format!("{}-{name}", kind.name());
    options.home.join(IMAGES).join(name)
}

/// A directory that stays empty: not even its owner's to write.
pub(super) fn nothing(options: &EngineOptions) -> Result<PathBuf, SandboxError> {
    let nothing = options.home.join(NOTHING);
    match std::fs::create_dir(&nothing) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(start_error(error)),
        _ => {
            let closed = std::fs::Permissions::from_mode(0o555);
            std::fs::set_permissions(&nothing, closed).map_err(start_error)?;
            Ok(nothing)
        }
    }
}
