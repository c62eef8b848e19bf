//! Where an ordinary user's engine mounts: a user namespace and a mount namespace of its own, which its processes share.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags};

use super::EngineOptions;
use super::client::Client;
use super::kind::Kind;
use crate::fsx;
use crate::sandbox::SandboxError;

/// Podman's process that does nothing but keep them, below the user's directory for such things.
const KEEPER: &str = "libpod/tmp/pause.pid";

/// One of its processes. Who listens at its socket may be the system instead, which starts it when it is asked.
pub(super) fn process(client: &Client, options: &EngineOptions) -> Result<OwnedFd, SandboxError> {
    let keeper = || {
        let runtime = options.around.runtime.as_deref()?;
        keeper(client.kind(), runtime)
    };
    let found = [Some(client.process()), keeper()];
    let mut found = found.into_iter().flatten().filter_map(apart);
    found.next().ok_or_else(|| SandboxError::Unsupported {
        what: format!(
            "cannot find the namespaces in which {} mounts, and so cannot lay directories over one another for it",
            client.kind()
        ),
        hint: "use `--mode bind` or `--mode copy`".to_owned(),
    })
}

fn keeper(kind: Kind, runtime: &Path) -> Option<Pid> {
    if kind != Kind::Podman {
        return None;
    }
    let text = fsx::read_bounded(&runtime.join(KEEPER), 32).ok()?;
    let number = std::str::from_utf8(&text).ok()?.trim().parse().ok()?;
    Pid::from_raw(number)
}

/// It, where it has a user namespace of its own.
fn apart(process: Pid) -> Option<OwnedFd> {
    let held = rustix::process::pidfd_open(process, PidfdFlags::empty()).ok()?;
    let users = |process: &str| fs::read_link(PathBuf::from(format!("/proc/{process}/ns/user")));
    let (theirs, ours) = (users(&process.as_raw_nonzero().to_string()), users("self"));
    matches!((theirs, ours), (Ok(theirs), Ok(ours)) if theirs != ours).then_some(held)
}
