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
        believed(keeper(client.kind(), runtime)?)
    };
    apart(client.process()).or_else(keeper).ok_or_else(|| SandboxError::Unsupported {
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
    is_in_ours(process, "user")
        .is_some_and(|same| !same)
        .then_some(held)
}

/// The same of a process of which only the number is known, and that may be another's by now: an agent's, before all. Each sandbox and
/// container has processes of its own.
fn believed(process: Pid) -> Option<OwnedFd> {
    apart(process).filter(|_| is_in_ours(process, "pid") == Some(true))
}

/// Whether its namespace of this kind is ours; `None` where nobody says.
fn is_in_ours(process: Pid, kind: &str) -> Option<bool> {
    let of = |process: &str| fs::read_link(PathBuf::from(format!("/proc/{process}/ns/{kind}")));
    let (theirs, ours) = (of(&process.as_raw_nonzero().to_string()), of("self"));
    Some(theirs.ok()? == ours.ok()?)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use super::*;

    /// A process with namespaces of its own, which ends with this value.
    struct Apart(Child);

    impl Apart {
        /// `options`: of unshare(1), which runs `sleep`, itself or as a child.
        #[expect(
            clippy::disallowed_methods,
            reason = "a test starts a process to look at"
        )]
        fn new(options: &[&str]) -> Self {
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user", "--kill-child"]);
            Self(command.args(options).args(["sleep", "60"]).spawn().unwrap())
        }

        /// Who sleeps; `None` where this machine has no such namespaces for users.
        fn sleeps(&mut self) -> Option<Pid> {
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(20) && self.0.try_wait().unwrap().is_none()
            {
                let own = self.0.id().to_string();
                let below = fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
                let below = below.unwrap_or_default();
                let all = below.split_whitespace().chain([own.as_str()]);
                let mut sleeping = all.filter(|one| {
                    let name = fs::read_to_string(format!("/proc/{one}/comm"));
                    name.is_ok_and(|name| name.trim() == "sleep")
                });
                if let Some(one) = sleeping.next() {
                    return Pid::from_raw(one.parse().unwrap());
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            None
        }
    }

    impl Drop for Apart {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Podman's process has a user namespace of its own and this machine's processes; one of a sandbox has neither.
    #[test]
    fn a_number_that_is_a_sandboxs_by_now_is_not_believed() {
        let own = rustix::process::getpid();
        assert!(believed(own).is_none());
        let (mut keeper, mut agent) = (
            Apart::new(&["--mount", "--fork"]),
            Apart::new(&["--pid", "--fork"]),
        );
        let (Some(keeper), Some(agent)) = (keeper.sleeps(), agent.sleeps()) else {
            return cofferdam_lab::skip!("no user namespaces, or no lists of children, here");
        };
        assert!(believed(keeper).is_some());
        assert!(apart(agent).is_some() && believed(agent).is_none());
    }
}
