//! What this machine can give to native sandboxes, for `cofferdam doctor`.

use std::fs;
use std::io;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::{cgroup, rehearse};
use crate::embedded;
use crate::sandbox::SandboxError;

/// One thing that native sandboxes need.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    /// What it is called in a report.
    pub name: &'static str,
    /// Whether it is there.
    pub status: Status,
    /// What was found.
    pub detail: String,
    /// What to do about it; empty where nothing is wrong.
    pub hint: String,
}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing is in the way.
    Ok,
    /// Sandboxes work, but something they can do elsewhere is not there.
    Degraded,
    /// No sandbox can be made, or none as it is made unless something else is asked for.
    Missing,
}

impl Check {
    fn new(name: &'static str, status: Status, detail: impl Into<String>, hint: &str) -> Self {
        let hint = if status == Status::Ok {
            String::new()
        } else {
            hint.to_owned()
        };
        Self {
            name,
            status,
            detail: detail.into(),
            hint,
        }
    }
}

/// Looks at this machine. Starts nothing.
pub fn probe() -> Vec<Check> {
    let mut checks = vec![kernel(), apparmor(), seccomp(), proc_mount(), program()];
    checks.extend(rights());
    for (name, available) in cgroup::available() {
        let name = if name == "memory" {
            "memory limit"
        } else {
            "cpu limit"
        };
        checks.push(match available {
            Ok(()) => Check::new(name, Status::Ok, "control groups can be made", ""),
            Err(error) => Check::new(
                name,
                Status::Degraded,
                format!("control groups below {} cannot be made: {error}", cgroup::MOUNT_POINT),
                "run as root or in a delegated group (`systemd-run --user --scope -p Delegate=yes`) \
                 to use it",
            ),
        });
    }
    checks.push(pause(cgroup::freezable()));
    checks.push(Check::new(
        "process limit",
        if kernel_version() >= (5, 14) {
            Status::Ok
        } else {
            Status::Degraded
        },
        "RLIMIT_NPROC in the sandbox's user namespace",
        "Linux 5.14 or newer counts it for each sandbox alone",
    ));
    checks
}

fn pause(freezable: io::Result<()>) -> Check {
    let name = "pause";
    match freezable {
        Ok(()) => Check::new(name, Status::Ok, "by the freezer of a control group", ""),
        Err(error) => Check::new(
            name,
            Status::Degraded,
            format!("by SIGSTOP, which some events undo for a moment: {error}"),
            "mount control groups of version 2; as an ordinary user start sandboxes in a delegated group \
             (`systemd-run --user --scope -p Delegate=yes`)",
        ),
    }
}

/// Tries what every sandbox needs, and what sandboxes of each network need: raises a wall that nobody uses, which makes no file and
/// starts no gateway. Bounded: 25 s.
pub async fn probe_network(cancel: &CancellationToken) -> Vec<Check> {
    vec![
        user_namespaces(rehearse::namespaces(cancel).await),
        wall(rehearse::wall(cancel).await),
        scope(rehearse::scope(cancel).await),
    ]
}

/// Tries whether sandboxes can have layers of files below `place`, which is there: see [`crate::sandbox::Ability::Layers`].
/// Bounded: 20 s.
pub async fn probe_layers(place: &Path, cancel: &CancellationToken) -> Check {
    let name = "layers";
    let hint = "`--mode bind` and `--mode copy` need none; `--mode layer` needs Linux 5.19 or newer as root, 5.11 as an ordinary \
                user, and a file system such as ext4, xfs or btrfs";
    match rehearse::layers(place, cancel).await {
        Ok(()) => Check::new(
            name,
            Status::Ok,
            "directories lie over one another (overlayfs)",
            "",
        ),
        Err(SandboxError::Unsupported { what, .. }) => {
            Check::new(name, Status::Degraded, what, hint)
        }
        Err(error) => Check::new(name, Status::Degraded, error.to_string(), hint),
    }
}

fn wall(raised: Result<(), SandboxError>) -> Check {
    let name = "network wall";
    match raised {
        Ok(()) => Check::new(name, Status::Ok, "comes up in a sandbox", ""),
        Err(SandboxError::Unsupported { what, hint }) => {
            Check::new(name, Status::Missing, what, &hint)
        }
        Err(error) => {
            let hint = "see the lines above; `cofferdam run --network none` needs no wall";
            Check::new(name, Status::Missing, error.to_string(), hint)
        }
    }
}

fn scope(held: io::Result<bool>) -> Check {
    let name = "`--network open`";
    let hint = "Linux 6.12 or newer with Landlock (CONFIG_SECURITY_LANDLOCK, and `landlock` in `lsm=`) keeps \
                it from them; without `--network open` nothing of the host is reached";
    match held {
        Ok(true) => {
            let detail = "abstract unix sockets of the host are out of its reach";
            Check::new(name, Status::Ok, detail, "")
        }
        Ok(false) => {
            let detail = "such a sandbox also reaches the host's abstract unix sockets";
            Check::new(name, Status::Degraded, detail, hint)
        }
        Err(error) => Check::new(name, Status::Degraded, error.to_string(), hint),
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

fn kernel_version() -> (u32, u32) {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn kernel() -> Check {
    let (major, minor) = kernel_version();
    let status = if (major, minor) >= (5, 12) {
        Status::Ok
    } else {
        Status::Missing
    };
    let detail = format!("Linux {major}.{minor}: detached and idmapped mounts, pidfd");
    Check::new("kernel", status, detail, "Linux 5.12 or newer is needed")
}

/// Tried: what a filter of system calls forbids stands in no file.
fn user_namespaces(tried: io::Result<Result<(), (String, String)>>) -> Check {
    let name = "user namespaces";
    match tried {
        Ok(Ok(())) => {
            let limit = read("/proc/sys/user/max_user_namespaces").unwrap_or_default();
            Check::new(name, Status::Ok, format!("up to {limit}"), "")
        }
        Ok(Err((what, hint))) => Check::new(name, Status::Missing, what, &hint),
        Err(error) => Check::new(name, Status::Missing, error.to_string(), ""),
    }
}

/// Root mounts for its sandboxes, which in a container it may not.
fn rights() -> Option<Check> {
    const SYS_ADMIN: u64 = 1 << 21;
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let status = read("/proc/self/status")?;
    let held = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    let held = u64::from_str_radix(held.trim(), 16).ok()?;
    let name = "root's rights";
    Some(if held & SYS_ADMIN == 0 {
        let hint = "root needs CAP_SYS_ADMIN in a container: give it, or run as an ordinary user";
        Check::new(name, Status::Missing, "root may not mount here", hint)
    } else {
        Check::new(name, Status::Ok, "mounts for its sandboxes", "")
    })
}

fn apparmor() -> Check {
    let restricted = read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    if restricted.as_deref() == Some("1") && !rustix::process::geteuid().is_root() {
        let detail = "unprivileged user namespaces are restricted";
        let hint = "install an AppArmor profile with `userns,` for the program, or \
                    sysctl kernel.apparmor_restrict_unprivileged_userns=0";
        return Check::new("AppArmor", Status::Missing, detail, hint);
    }
    Check::new(
        "AppArmor",
        Status::Ok,
        "does not restrict user namespaces",
        "",
    )
}

fn seccomp() -> Check {
    let actions = read("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    let needed = ["kill_process", "errno", "allow"];
    let there = needed.iter().all(|a| actions.split(' ').any(|b| a == &b));
    let status = if there { Status::Ok } else { Status::Missing };
    Check::new(
        "seccomp",
        status,
        actions,
        "use a kernel with CONFIG_SECCOMP_FILTER",
    )
}

/// A container that masks parts of `/proc` keeps user namespaces from mounting one of their own.
fn proc_mount() -> Check {
    let mounts = read("/proc/self/mounts").unwrap_or_default();
    let below: Vec<_> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .filter(|point| point.starts_with("/proc/") && *point != "/proc/sys/fs/binfmt_misc")
        .collect();
    if below.is_empty() {
        return Check::new("/proc", Status::Ok, "can be mounted inside", "");
    }
    let detail = format!("parts of it are covered: {}", below.join(", "));
    let hint = "run the container with an unmasked /proc (Docker: `--security-opt systempaths=unconfined`)";
    Check::new("/proc", Status::Missing, detail, hint)
}

fn program() -> Check {
    let made: io::Result<String> = embedded::guest();
    match made {
        Ok(_) => Check::new("guest", Status::Ok, "embedded, static", ""),
        Err(error) => Check::new(
            "guest",
            Status::Missing,
            format!("cannot make an executable memory file: {error}"),
            "sysctl vm.memfd_noexec=0",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_a_part_of_the_wall_is_named_with_the_next_step() {
        let lacking = SandboxError::Unsupported {
            what: "the network wall does not come up, nft_redir".to_owned(),
            hint: "load the kernel modules (nft_redir)".to_owned(),
        };
        let check = wall(Err(lacking));
        assert_eq!(check.status, Status::Missing);
        assert!(check.detail.contains("nft_redir"), "{check:?}");
        assert!(check.hint.starts_with("load "), "{check:?}");
        assert_eq!(
            wall(Err(SandboxError::TimedOut(10))).status,
            Status::Missing
        );
        assert_eq!(wall(Ok(())).status, Status::Ok);
    }

    #[test]
    fn a_kernel_that_does_not_scope_is_said() {
        assert_eq!(scope(Ok(false)).status, Status::Degraded);
        assert_eq!(scope(Ok(true)).status, Status::Ok);
    }
}
