//! The filter of system calls that a container gets: what engines allow a container without any right, without what gives a file
//! set-user-id or set-group-id bits. The guest adds its own to each program that it starts; what somebody starts by the engine has this
//! one alone, and a checkout is a host directory in which such a file gives its owner's rights to everybody.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::users::Users;
use super::{EngineOptions, Kind};
use crate::fsx;
use crate::sandbox::SandboxError;
use crate::text::hex;

/// Made by a test of the guest's.
const OF_A_SANDBOX: &str = include_str!("seccomp.json");
/// The same, and a user namespace can be made: the guest makes one, and adds to each program the filter that forbids it.
const THAT_MAPS: &str = include_str!("seccomp-mapped.json");
/// Begins an engine's option.
const OPTION: &str = "seccomp=";
/// A profile's length, at most.
const LIMIT: u64 = 1 << 20;

/// The engine's option.
pub(super) fn option(
    kind: Kind,
    users: Users,
    options: &EngineOptions,
) -> Result<String, SandboxError> {
    let profile = profile(users);
    Ok(match kind {
        Kind::Docker => format!("{OPTION}{profile}"),
        // It takes a file's name.
        Kind::Podman => {
            let path = file(options, profile);
            let read = fsx::read_bounded(&path, LIMIT).ok();
            if read.is_none_or(|read| read != profile.as_bytes()) {
                let failed = |error: fsx::FileError| SandboxError::Start(error.to_string());
                fsx::private_dir(&options.home).map_err(failed)?;
                fsx::write_private(&path, profile.as_bytes()).map_err(failed)?;
            }
            format!("{OPTION}{}", path.display())
        }
    })
}

/// Whether an engine says of a container that it was made with that.
pub(super) fn is_in_force(said: &[String], users: Users, options: &EngineOptions) -> bool {
    let profile = profile(users);
    let path = file(options, profile);
    let mut filters = said.iter().filter_map(|one| one.strip_prefix(OPTION));
    filters
        .next()
        .is_some_and(|one| one == profile || one == path.display().to_string())
        && filters.next().is_none()
}

/// As a command line names it.
pub(super) fn shown(option: &str) -> &str {
    if option.starts_with("seccomp={") {
        "seccomp=seccomp.json"
    } else {
        option
    }
}

fn profile(users: Users) -> &'static str {
    match users {
        Users::Machine | Users::Kept => OF_A_SANDBOX,
        Users::Mapped => THAT_MAPS,
    }
}

/// Of its content, so that one never changes for which a container was made.
fn file(options: &EngineOptions, profile: &str) -> PathBuf {
    let digest = hex(&Sha256::digest(profile.as_bytes())[..8]);
    options.home.join(format!("seccomp-{digest}.json"))
}
