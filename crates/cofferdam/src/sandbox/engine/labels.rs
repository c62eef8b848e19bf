//! What is written on containers, so that whoever ends one knows whose it is.

use super::EngineOptions;
use crate::names::SandboxId;

/// The id of a sandbox, and whose Cofferdam it is: both are looked for before anything is ended.
const ID: &str = "io.cofferdam.id";
const HOME: &str = "io.cofferdam.home";
/// What a container is to its sandbox, where it is not the agent's.
pub(super) const ROLE: &str = "io.cofferdam.role";
pub(super) const HOLDER: &str = "holder";
/// On a holder that no sandbox has yet.
pub(super) const READY: [&str; 2] = [ROLE, "ready"];

/// What is written on a sandbox's containers.
pub(super) fn labels(options: &EngineOptions, id: SandboxId) -> [(String, String); 2] {
    [(ID.to_owned(), id.to_string()), of_home(options)]
}

/// What is written on every container of this Cofferdam's.
pub(super) fn of_home(options: &EngineOptions) -> (String, String) {
    let home = options.home.canonicalize();
    let home = home.unwrap_or_else(|_| options.home.clone());
    (HOME.to_owned(), home.to_string_lossy().into_owned())
}

/// The same, as an engine filters by it.
pub(super) fn written(options: &EngineOptions, id: SandboxId) -> Vec<String> {
    let labels = labels(options, id);
    labels.map(|(name, value)| format!("{name}={value}")).into()
}
