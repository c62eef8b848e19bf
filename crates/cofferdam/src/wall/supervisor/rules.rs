//! The compiled list of a long-lived sandbox's rules: what its supervisor tells every gateway.

use std::path::PathBuf;

use cofferdam_wall::supervisor::{List, RULES};

use crate::fsx;
use crate::home::Home;
use crate::names::SandboxId;
use crate::wall::change::right::Change;
use crate::wall::rules::{Loaded, Problem};
use crate::wall::{WallError, WallSpec};

/// What became of a list.
#[derive(Debug)]
pub enum Compiled {
    /// It says what the sources say; what is wrong with them is left out of it.
    Written(Vec<Problem>),
    /// A whole source cannot be read: the list that was there stays.
    Kept(Vec<Problem>),
}

/// Whether the sandbox has a list, and so lives until it is deleted.
pub fn is_long_lived(home: &Home, sandbox: SandboxId) -> bool {
    file(home, sandbox).symlink_metadata().is_ok()
}

/// Reads the sources of a sandbox's rules and writes its list, whole or not at all. Without a list there is none to
/// keep: what could be read is written then. It is in force when [`super::Supervisor::reload`] says so.
pub async fn write_rules(change: &Change, spec: &WallSpec) -> Result<Compiled, WallError> {
    let loaded = load(spec).await?;
    let is_there = is_long_lived(&spec.home, spec.sandbox);
    if is_there && loaded.problems.iter().any(Problem::is_whole_source) {
        return Ok(Compiled::Kept(loaded.problems));
    }
    write(change, &spec.home, spec.sandbox, &loaded)?;
    Ok(Compiled::Written(loaded.problems))
}

/// The same for a sandbox that begins, which has only the rules that can be read now: a list of an earlier start does
/// not count. What is wrong with their sources.
pub async fn begin_rules(change: &Change, spec: &WallSpec) -> Result<Vec<Problem>, WallError> {
    let loaded = load(spec).await?;
    write(change, &spec.home, spec.sandbox, &loaded)?;
    Ok(loaded.problems)
}

async fn load(spec: &WallSpec) -> Result<Loaded, WallError> {
    let sources = spec.sources.clone();
    // A list may be long.
    let loaded = tokio::task::spawn_blocking(move || sources.load());
    Ok(loaded.await.map_err(std::io::Error::from)?)
}

/// Writes what was read under the same right to change.
pub(in crate::wall) fn write(
    _change: &Change,
    home: &Home,
    sandbox: SandboxId,
    loaded: &Loaded,
) -> Result<(), WallError> {
    let list = List {
        rules: loaded.lines(),
    };
    let bytes = list
        .encode()
        .map_err(|error| WallError::Protocol(error.to_string()))?;
    let file = file(home, sandbox);
    // On a full disk what is there already can stay, where it can be trusted.
    let known = fsx::read_guarded(&file, bytes.len() as u64);
    if known.is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    Ok(fsx::write_private(&file, &bytes)?)
}

fn file(home: &Home, sandbox: SandboxId) -> PathBuf {
    home.sandbox(sandbox).join(RULES)
}
