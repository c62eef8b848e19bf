//! Where gateways live: this version's below the home, and those of other versions.

use std::io::ErrorKind;
use std::path::PathBuf;

use cofferdam_wall::client::GatewayDirectory;
use cofferdam_wall::control::PROTOCOL;

use crate::fsx::{self, Context};
use crate::home::Home;
use crate::wall::WallError;

/// Directories of other versions have the same name but for the number.
const PREFIX: &str = "gateway-";

/// Removes the directories of other versions' gateways where none lives any more; only names them
/// with `dry_run`.
pub(crate) fn remove_dead(home: &Home, dry_run: bool) -> Result<Vec<PathBuf>, WallError> {
    let mut removed = Vec::new();
    let entries = match std::fs::read_dir(home.path()) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(removed),
        entries => entries.context("read", home.path())?,
    };
    for entry in entries {
        let entry = entry.context("read", home.path())?;
        if !is_other_version(&entry.file_name()) {
            continue;
        }
        let path = entry.path();
        // One that cannot be trusted is the user's to look at.
        let Ok(Some(at)) = GatewayDirectory::find(&path) else {
            continue;
        };
        let Some(_lock) = at.lock()? else { continue };
        if !dry_run {
            fsx::remove_tree(&path)?;
        }
        removed.push(path);
    }
    Ok(removed)
}

/// Whether a gateway of another version lives in this home: what is behind that, this version cannot ask.
pub(crate) fn another_lives(home: &Home) -> bool {
    let Ok(entries) = std::fs::read_dir(home.path()) else {
        return false;
    };
    entries.flatten().any(|entry| {
        is_other_version(&entry.file_name())
            && matches!(GatewayDirectory::find(&entry.path()), Ok(Some(at)) if at.is_held())
    })
}

fn is_other_version(name: &std::ffi::OsStr) -> bool {
    name.to_str()
        .and_then(|name| name.strip_prefix(PREFIX))
        .and_then(|number| number.parse::<u32>().ok())
        .is_some_and(|number| number != PROTOCOL)
}
