//! What the user's configuration and the repository's say where a sandbox is made or used.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::options::Caller;
use crate::config::{self, Effective, Merged, Setting, Source};
use crate::names::RepoPath;
use crate::sandbox::Limits;

/// Read anew each time.
pub(super) async fn effective(caller: &Caller, top: &RepoPath) -> Effective {
    let (home, top) = (caller.home.clone(), top.clone());
    let read = move || config::effective(&home, Some((top.as_path(), &top)));
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}

/// The variables of what a repository wants to run: those that it gives itself, and none of its user's before anybody has read a word
/// (decision 0010).
pub(super) fn plain(config: &Merged) -> BTreeMap<OsString, OsString> {
    let own = |name: &OsString| {
        let variable = name.to_str().and_then(|name| config.env.get(name));
        variable.is_some_and(|one| one.source == Source::Repository)
    };
    let mut variables = crate::sync::variables(config, &BTreeMap::new());
    variables.retain(|name, _| own(name));
    variables
}

/// Those that the configuration has for every sandbox.
pub(super) fn limits_of(config: &Merged) -> Limits {
    let mut limits = Limits::default();
    for one in config.settings.values() {
        match one.value {
            Setting::Memory(bytes) => limits.memory = Some(bytes),
            Setting::Cpus(cpus) => limits.cpus = Some(cpus.get()),
            Setting::Processes(number) => limits.processes = Some(number),
            _ => {}
        }
    }
    limits
}
