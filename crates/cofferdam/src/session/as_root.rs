//! The root of a sandbox, where it has one: for commands of the configuration that ask for it, and for files that are not the agent's.

use std::sync::Arc;

use super::inside::AGENT_HOME;
use crate::config::{Merged, Owner};
use crate::registry::Record;
use crate::sandbox::{Ability, BindMountProvider, Handle, Sandbox, SandboxError};
use crate::sync::ids;
use crate::{home::Home, sandbox};

/// Why a command that wants to be root is left out.
pub(super) const NO_ROOT: &str =
    "nobody in this sandbox is root: dev sandboxes in Docker or Podman have one";
/// Where its commands run: in nothing of the agent's.
pub(super) const DIRECTORY: &str = "/";
const ROOT: (u32, u32) = (0, 0);
/// Where agents write, or everybody does.
const WRITTEN: [&str; 7] = [
    AGENT_HOME,
    "/workspace",
    "/repo-shelf",
    "/commandhistory",
    "/tmp",
    "/var/tmp",
    "/dev/shm",
];

/// Whether the configuration wants a root inside.
pub(super) fn is_wanted(config: &Merged) -> bool {
    let owned = |owner: &Owner| matches!(owner, Owner::Other(name) if ids(name).is_some());
    config.on_sync.iter().any(|one| one.value.root)
        || config.sync.iter().any(|one| owned(&one.value.owner))
}

/// Where agents write, as a repository's command names it: what is approved would not be what is there by then.
pub(super) fn names_written(command: &str) -> Option<&'static str> {
    let mut places = WRITTEN.into_iter().chain(["~", "$HOME"]);
    places.find(|place| command.contains(place))
}

/// Whether a sandbox can have one: a person lives in it, and its provider gives one.
pub(super) fn can_be(is_dev: bool, abilities: sandbox::Abilities) -> bool {
    is_dev && abilities.has(Ability::Root)
}

/// The root of one sandbox, by its provider.
#[derive(Debug)]
pub(super) struct AsRoot {
    provider: Arc<dyn BindMountProvider>,
    handle: Handle,
    /// Whose files are root's own.
    pub(super) sandbox: Box<dyn Sandbox>,
}

impl AsRoot {
    /// Why there is none is in words; one that does not answer is an error.
    pub(super) async fn of(
        record: &Record,
        home: &Home,
    ) -> Result<Result<Self, String>, SandboxError> {
        let state = home.sandbox(record.id);
        let provider = sandbox::provider_of(&record.provider, &state)?;
        if !can_be(record.dev.is_some(), provider.abilities()) {
            return Ok(Err(NO_ROOT.to_owned()));
        }
        let handle = Handle {
            id: record.id,
            state,
        };
        match provider.open_as_root(&handle, ROOT).await {
            Ok(sandbox) => Ok(Ok(Self {
                provider,
                handle,
                sandbox,
            })),
            Err(error @ SandboxError::Unsupported { .. }) => Ok(Err(error.to_string())),
            Err(error) => Err(error),
        }
    }

    /// The same for files of somebody's.
    pub(super) async fn for_files_of(
        &self,
        owner: (u32, u32),
    ) -> Result<Box<dyn Sandbox>, SandboxError> {
        self.provider.open_as_root(&self.handle, owner).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_agents_are_named() {
        for (command, place) in [
            ("sh /workspace/app/ci/fix.sh", Some("/workspace")),
            ("cat ~/x", Some("~")),
            ("sh \"$HOME/x\"", Some("$HOME")),
            ("curl -o /tmp/x https://a.test && sh /tmp/x", Some("/tmp")),
            ("echo Etc/UTC > /etc/timezone", None),
        ] {
            assert_eq!(names_written(command), place, "{command}");
        }
    }
}
