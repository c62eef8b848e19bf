//! What is written on containers, so that whoever ends one knows whose it is.

use std::collections::HashMap;
use std::path::Path;

use super::EngineOptions;
use crate::names::SandboxId;

/// The id of a sandbox, whose Cofferdam it is, and of which repository: all are looked for before anything is ended.
const ID: &str = "io.cofferdam.id";
const HOME: &str = "io.cofferdam.home";
/// Not on what is tried or built, which no repository has.
const REPOSITORY: &str = "io.cofferdam.repository";
/// What a container is to its sandbox, where it is not the agent's.
pub(super) const ROLE: &str = "io.cofferdam.role";
pub(super) const HOLDER: &str = "holder";
/// The agent's. It is said because an engine gives a container what its image has for labels too, and what is said here wins.
pub(super) const AGENT: &str = "agent";
/// On a holder that no sandbox has yet.
pub(super) const READY: [&str; 2] = [ROLE, "ready"];

/// What is written on a sandbox's containers.
pub(super) fn labels(
    options: &EngineOptions,
    id: SandboxId,
    repository: Option<&Path>,
) -> HashMap<String, String> {
    let mut labels = HashMap::from([(ID.to_owned(), id.to_string()), of_home(options)]);
    if let Some(path) = repository {
        labels.insert(REPOSITORY.to_owned(), path.to_string_lossy().into_owned());
    }
    labels
}

/// The id on what has no repository: what is tried, or what a build reaches its network through.
pub(super) fn of_no_repository(labels: &HashMap<String, String>) -> Option<&str> {
    let id = labels.get(ID).map(String::as_str);
    id.filter(|_| !labels.contains_key(REPOSITORY))
}

/// What is written on every container of this Cofferdam's.
pub(super) fn of_home(options: &EngineOptions) -> (String, String) {
    let home = options.home.canonicalize();
    let home = home.unwrap_or_else(|_| options.home.clone());
    (HOME.to_owned(), home.to_string_lossy().into_owned())
}
