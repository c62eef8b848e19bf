//! What an engine says of itself, and what follows from it for sandboxes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Kind;
use super::users::Users;
use crate::sandbox::{Limits, SandboxError};
use crate::text::printable_path;

/// Of its answer what is asked here. What it does not say is not known, and nothing is said of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct About {
    /// Of the kernel that its containers run on.
    kernel_version: String,
    cgroup_version: Option<String>,
    security_options: Option<Vec<String>>,
    memory_limit: Option<bool>,
    swap_limit: Option<bool>,
    pids_limit: Option<bool>,
    cpu_cfs_quota: Option<bool>,
    runc_commit: Commit,
    runtimes: Option<BTreeMap<String, Runtime>>,
    /// Where it keeps its own files, as its machine has them.
    docker_root_dir: Option<PathBuf>,
}

/// What the sandboxes of an engine do without, as a sentence fragment, and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// What they do without, as a sentence fragment.
    pub what: String,
    /// What helps, as a sentence fragment.
    pub hint: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Commit {
    #[serde(rename = "ID")]
    id: String,
}

/// A program, or since Docker 23 the kind of one.
#[derive(Debug, Clone, Deserialize)]
struct Runtime {
    path: Option<String>,
    #[serde(rename = "runtimeType")]
    kind: Option<String>,
}

/// The first versions of runc without the ways out of a container that are known (CVE-2025-31133, 52565, 52881), and the first
/// without the one before them (CVE-2024-21626).
const MENDED: [[u32; 3]; 3] = [[1, 2, 8], [1, 3, 3], [1, 4, 0]];
const MENDED_BEFORE: [u32; 3] = [1, 1, 12];

impl About {
    /// An ordinary user's engine limits nothing without delegated control groups of version 2.
    pub(super) fn has_control_groups_of_1(&self) -> bool {
        self.cgroup_version.as_deref() == Some("1")
    }

    /// The runtimes that it has, by their names, with what each starts.
    pub(super) fn runtimes(&self) -> BTreeMap<&str, &str> {
        let all = self.runtimes.iter().flatten();
        all.map(|(name, one)| {
            let starts = one.path.as_deref().or(one.kind.as_deref());
            (name.as_str(), starts.unwrap_or_default())
        })
        .collect()
    }

    /// Refuses an engine whose containers have another kernel. `ours`: this machine's.
    pub(super) fn is_on(&self, ours: &str, kind: Kind) -> Result<(), SandboxError> {
        let theirs = crate::text::printable_line(&self.kernel_version);
        if theirs.is_empty() || theirs == ours {
            return Ok(());
        }
        Err(SandboxError::Unsupported {
            what: format!(
                "{kind}'s containers run on another machine (Linux {theirs}), a virtual one perhaps"
            ),
            hint: format!(
                "install the engine on this machine, or leave out `--sandbox {}`",
                kind.name()
            ),
        })
    }

    /// Refuses a limit that the engine would take with a warning, and drop. `swaps`: whether this machine has swap. A limit of
    /// processes that nobody asked for is no reason to have no sandboxes at all: [`Self::lacks`] tells it.
    pub(super) fn can_limit(
        &self,
        limits: &Limits,
        kind: Kind,
        users: Users,
        swaps: bool,
    ) -> Result<(), SandboxError> {
        let refused = |what: String, hint: String| Err(SandboxError::Unsupported { what, hint });
        let old = users.rootless() && self.has_control_groups_of_1();
        if old && (limits.memory.is_some() || limits.cpus.is_some()) {
            return refused(
                format!(
                    "cannot limit memory or CPUs: {kind} is rootless, and this machine has control groups of version 1"
                ),
                format!("leave the limit out, or use {kind} as root"),
            );
        }
        let lacks = |known: Option<bool>| known == Some(false);
        let named = limits.processes != Limits::default().processes;
        let what = match limits {
            Limits {
                memory: Some(_), ..
            } if lacks(self.memory_limit) => "memory",
            // The limit is of both together.
            Limits {
                memory: Some(_), ..
            } if lacks(self.swap_limit) && swaps => "memory together with swap",
            Limits { cpus: Some(_), .. } if lacks(self.cpu_cfs_quota) => "CPUs",
            // An ordinary user's are counted by the guest.
            Limits {
                processes: Some(_), ..
            } if lacks(self.pids_limit) && named && !users.rootless() => "processes",
            _ => return Ok(()),
        };
        refused(
            format!("cannot limit {what}: {kind} has no control group for it on this machine"),
            "leave the limit out; `cofferdam doctor` says what would help".to_owned(),
        )
    }

    /// Refuses an engine that filters no system calls, as far as it says so: its profile allows less than ours refuses.
    pub(super) fn filters(&self, kind: Kind, users: Users) -> Result<(), SandboxError> {
        if self.security_options.is_none() {
            return Ok(());
        }
        if !self.options().any(|option| option == "name=seccomp") {
            return Err(SandboxError::Unsupported {
                what: format!("{kind} has no filter of system calls"),
                hint: format!("use a build of {kind} and a kernel that have seccomp"),
            });
        }
        // To whom maps their root it gives ours.
        if users != Users::Mapped && self.options().any(|option| option == "profile=unconfined") {
            return Err(unfiltered(kind));
        }
        Ok(())
    }

    /// Refuses a directory in which the engine's own files are, or that is among them. A link to it is it.
    pub(super) fn is_elsewhere(&self, directory: &Path, kind: Kind) -> Result<(), SandboxError> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let Some(own) = &self.docker_root_dir else {
            return Ok(());
        };
        let (own, there) = (real(own), real(directory));
        if own.as_os_str().is_empty() || !(own.starts_with(&there) || there.starts_with(&own)) {
            return Ok(());
        }
        Err(SandboxError::Unsupported {
            what: format!(
                "{kind} keeps its own files in {}, and no sandbox may be given {}",
                printable_path(&own),
                printable_path(directory)
            ),
            hint: "work in a clone of the repository elsewhere".to_owned(),
        })
    }

    /// Refuses an engine that gives its containers other users than this machine's: a sandbox's files would be nobody's there.
    pub(super) fn keeps_users(&self, kind: Kind) -> Result<(), SandboxError> {
        if !self.options().any(|option| option == "name=userns") {
            return Ok(());
        }
        Err(SandboxError::Unsupported {
            what: format!("{kind} gives all containers other users than this machine's"),
            hint: "take `userns-remap` out of Docker's settings (daemon.json), and start it again; or run a Docker of your own user's"
                .to_owned(),
        })
    }

    /// What sandboxes do without that others have.
    pub(super) fn lacks(&self, kind: Kind, users: Users) -> Vec<Lack> {
        let limits = self.lacks_limits(kind, users).into_iter();
        limits
            .chain(self.labels(kind))
            .chain(self.old_runc())
            .collect()
    }

    /// Nothing is labelled: where that is enforced, no container may read what is mounted in it.
    fn labels(&self, kind: Kind) -> Option<Lack> {
        self.options()
            .any(|one| one == "name=selinux")
            .then(|| Lack {
                what: format!(
                    "files that SELinux lets the containers of {kind} read, where it is enforced"
                ),
                hint: "leave out `--sandbox`: a native sandbox needs no labels".to_owned(),
            })
    }

    /// What is worth to know, and no reason to do anything.
    pub(super) fn notes(&self) -> Vec<String> {
        let has = |name: &str| self.options().any(|one| one == format!("name={name}"));
        let bare = self.security_options.is_some() && !has("apparmor") && !has("selinux");
        let bare = bare.then(|| "neither AppArmor nor SELinux beside it".to_owned());
        bare.into_iter().collect()
    }

    fn options(&self) -> impl Iterator<Item = &str> {
        let all = self.security_options.iter().flatten();
        // `name=seccomp,profile=builtin`
        all.flat_map(|option| option.split(','))
    }

    fn lacks_limits(&self, kind: Kind, users: Users) -> Option<Lack> {
        if users.rootless() && self.has_control_groups_of_1() {
            return Some(Lack {
                what: "limits of memory and CPUs (control groups of version 1)".to_owned(),
                hint: format!(
                    "run {kind} as root, or on a machine with control groups of version 2 that are delegated to you"
                ),
            });
        }
        let mut missing = Vec::new();
        let lacks = |known: Option<bool>| known == Some(false);
        if lacks(self.memory_limit) {
            missing.push("memory");
        } else if lacks(self.swap_limit) {
            missing.push("swap");
        }
        if lacks(self.cpu_cfs_quota) {
            missing.push("CPUs");
        }
        // An ordinary user's are counted by the guest.
        if lacks(self.pids_limit) && !users.rootless() {
            missing.push("processes");
        }
        let last = missing.pop()?;
        let all = if missing.is_empty() {
            last.to_owned()
        } else {
            format!("{} and {last}", missing.join(", "))
        };
        Some(Lack {
            what: format!("limits of {all}"),
            hint: if users.rootless() {
                "have the control groups `cpu`, `memory` and `pids` delegated to you (`Delegate=` of user@.service)".to_owned()
            } else {
                "have the kernel count them: `cgroup_enable=memory swapaccount=1` on its command line, or control groups of version 2".to_owned()
            },
        })
    }

    fn old_runc(&self) -> Option<Lack> {
        let version = upstream(&self.runc_commit.id)?;
        let same = |mended: &&[u32; 3]| mended[..2] == version[..2];
        let mended = MENDED.iter().find(same).unwrap_or(&MENDED[0]);
        if version >= *mended {
            return None;
        }
        let [major, minor, patch] = version;
        let known = if version < MENDED_BEFORE {
            "CVE-2024-21626"
        } else {
            "CVE-2025-31133"
        };
        Some(Lack {
            what: format!(
                "a runtime that is mended: runc {major}.{minor}.{patch} has ways out of a container that are known ({known})"
            ),
            hint: "install runc 1.2.8, 1.3.3 or newer, as it comes with the newest containerd.io"
                .to_owned(),
        })
    }
}

/// An engine's containers come up without a filter.
pub(super) fn unfiltered(kind: Kind) -> SandboxError {
    let setting = match kind {
        Kind::Docker => "`seccomp-profile` out of Docker's settings (daemon.json)",
        Kind::Podman => "`seccomp_profile` out of Podman's settings (containers.conf)",
    };
    SandboxError::Unsupported {
        what: format!("{kind}'s filter of system calls is turned off"),
        hint: format!("take {setting}, and start it again"),
    }
}

/// Of `v1.1.12-0-g51d5e946`. A distribution mends its own and keeps the number (`1.1.5+ds1-1+deb12u1`): that says nothing.
fn upstream(id: &str) -> Option<[u32; 3]> {
    let id = id.strip_prefix('v')?;
    let (version, rest) = id.split_once('-').unwrap_or((id, "0-g"));
    if !rest.starts_with("0-g") {
        return None;
    }
    let numbers: Result<Vec<u32>, _> = version.split('.').map(str::parse).collect();
    numbers.ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"KernelVersion":"6.1","CgroupVersion":"2","SecurityOptions":["name=apparmor","name=seccomp,profile=builtin"],
        "MemoryLimit":true,"SwapLimit":true,"PidsLimit":true,"CpuCfsQuota":true,"RuncCommit":{"ID":"v1.3.3-0-gd842d771"}}"#;

    fn lacks(text: &str, users: Users) -> Vec<String> {
        let about: About = serde_json::from_str(text).unwrap();
        let all = about.lacks(Kind::Docker, users).into_iter();
        all.map(|lack| lack.what).collect()
    }

    #[test]
    fn what_is_weaker_is_named() {
        assert_eq!(lacks(GOOD, Users::Machine), [""; 0]);
        for (from, to, want) in [
            (
                "\"MemoryLimit\":true",
                "\"MemoryLimit\":false",
                "limits of memory",
            ),
            (
                "\"SwapLimit\":true",
                "\"SwapLimit\":false",
                "limits of swap",
            ),
            (
                "\"PidsLimit\":true",
                "\"PidsLimit\":false",
                "limits of processes",
            ),
            (
                "\"CpuCfsQuota\":true",
                "\"CpuCfsQuota\":false",
                "limits of CPUs",
            ),
            ("v1.3.3", "v1.3.2", "runc 1.3.2"),
            (
                "v1.3.3",
                "v1.1.14",
                "runc 1.1.14 has ways out of a container that are known (CVE-2025",
            ),
            (
                "v1.3.3",
                "v1.1.9",
                "runc 1.1.9 has ways out of a container that are known (CVE-2024",
            ),
        ] {
            let found = lacks(&GOOD.replace(from, to), Users::Machine);
            assert!(found.len() == 1 && found[0].contains(want), "{found:?}");
        }
        let all = GOOD
            .replace("Limit\":true", "Limit\":false")
            .replace("Quota\":true", "Quota\":false");
        assert_eq!(
            lacks(&all, Users::Machine),
            ["limits of memory, CPUs and processes"]
        );
    }

    #[test]
    fn an_ordinary_users_engine_has_the_guests_limit_of_processes() {
        let weak = GOOD.replace("\"PidsLimit\":true", "\"PidsLimit\":false");
        for users in [Users::Mapped, Users::Kept] {
            assert_eq!(lacks(&weak, users), [""; 0]);
        }
        let old = GOOD.replace("\"CgroupVersion\":\"2\"", "\"CgroupVersion\":\"1\"");
        let limits = "limits of memory and CPUs (control groups of version 1)";
        assert_eq!(lacks(&old, Users::Kept), [limits]);
        assert_eq!(lacks(&old, Users::Machine), [""; 0]);
    }

    #[test]
    fn a_limit_that_would_be_dropped_is_refused() {
        let refused = |text: &str, users, swaps, limits: &Limits| {
            let about: About = serde_json::from_str(text).unwrap();
            let refused = about.can_limit(limits, Kind::Docker, users, swaps).err();
            refused.map(|error| error.to_string())
        };
        let none = Limits::default();
        let [mut memory, mut cpus, mut processes] = [(); 3].map(|()| none.clone());
        (memory.memory, cpus.cpus, processes.processes) = (Some(64 << 20), Some(0.5), Some(64));
        for (name, limits, swaps, what) in [
            ("MemoryLimit", &memory, false, "memory:"),
            ("SwapLimit", &memory, true, "memory together with swap:"),
            ("CpuCfsQuota", &cpus, false, "CPUs:"),
            ("PidsLimit", &processes, false, "processes:"),
        ] {
            let weak = GOOD.replace(&format!("\"{name}\":true"), &format!("\"{name}\":false"));
            let said = refused(&weak, Users::Machine, swaps, limits).unwrap();
            assert!(said.contains(&format!("cannot limit {what}")), "{said}");
            for (text, limits) in [(GOOD, limits), ("{}", limits), (&weak, &none)] {
                assert_eq!(refused(text, Users::Machine, true, limits), None, "{name}");
            }
        }
        let no_swap = GOOD.replace("\"SwapLimit\":true", "\"SwapLimit\":false");
        assert_eq!(refused(&no_swap, Users::Machine, false, &memory), None);
        let no_pids = GOOD.replace("\"PidsLimit\":true", "\"PidsLimit\":false");
        assert_eq!(refused(&no_pids, Users::Kept, false, &processes), None);
        let old = GOOD.replace("\"CgroupVersion\":\"2\"", "\"CgroupVersion\":\"1\"");
        for limits in [&memory, &cpus] {
            assert_eq!(refused(&old, Users::Machine, true, limits), None);
            let said = refused(&old, Users::Kept, true, limits).unwrap();
            assert!(said.contains("cannot limit memory or CPUs"), "{said}");
        }
    }

    #[test]
    fn one_that_filters_nothing_is_refused() {
        let refused = |text: &str, users| {
            let about: About = serde_json::from_str(text).unwrap();
            let refused = about.filters(Kind::Docker, users).err();
            refused.map(|error| error.to_string())
        };
        let off = GOOD.replace("builtin", "unconfined");
        let said = refused(&off, Users::Machine).unwrap();
        assert!(said.contains("is turned off"), "{said}");
        assert!(refused(&off, Users::Kept).is_some());
        // There it has ours in its place.
        assert_eq!(refused(&off, Users::Mapped), None);
        let none = GOOD.replace("name=seccomp,profile=builtin", "x");
        for users in [Users::Machine, Users::Kept, Users::Mapped] {
            let said = refused(&none, users).unwrap();
            assert!(said.contains("no filter of system calls"), "{said}");
            for text in [GOOD, "{}"] {
                assert_eq!(refused(text, users), None, "{text}");
            }
        }
    }

    #[test]
    fn what_it_does_with_users_and_labels_is_told() {
        let about = |text: &str| serde_json::from_str::<About>(text).unwrap();
        about(GOOD).keeps_users(Kind::Docker).unwrap();
        let mapped = GOOD.replace("name=apparmor", "name=userns");
        let refused = about(&mapped).keeps_users(Kind::Docker).unwrap_err();
        assert!(refused.to_string().contains("other users"), "{refused}");
        let labelled = GOOD.replace("name=apparmor", "name=selinux");
        assert!(lacks(&labelled, Users::Machine)[0].contains("SELinux"));
    }

    #[test]
    fn its_own_directory_is_no_workspace() {
        let place = tempfile::tempdir().unwrap();
        let own = place.path().join("data");
        std::fs::create_dir_all(own.join("repository")).unwrap();
        std::fs::create_dir(place.path().join("beside")).unwrap();
        std::os::unix::fs::symlink(&own, place.path().join("link")).unwrap();
        let text = format!(r#"{{"DockerRootDir":{own:?}}}"#);
        let about: About = serde_json::from_str(&text).unwrap();
        let is_refused = |part: &str| {
            let path = place.path().join(part);
            about.is_elsewhere(&path, Kind::Docker).is_err()
        };
        assert!(
            ["", "data", "data/repository", "link"]
                .into_iter()
                .all(is_refused)
        );
        assert!(!is_refused("beside"));
        for text in ["{}", r#"{"DockerRootDir":""}"#] {
            let about: About = serde_json::from_str(text).unwrap();
            about.is_elsewhere(place.path(), Kind::Docker).unwrap();
        }
    }

    #[test]
    fn what_is_not_said_is_not_judged() {
        for text in ["{}", r#"{"SecurityOptions":null,"Runtimes":null}"#] {
            assert_eq!(lacks(text, Users::Machine), [""; 0]);
            let about: About = serde_json::from_str(text).unwrap();
            assert_eq!(about.notes(), [""; 0]);
            about.is_on("6.1", Kind::Docker).unwrap();
        }
        for id in [
            "1.1.5+ds1-1+deb12u1",
            "d842d7719497cc3b",
            "",
            "v1.1.5-3-gabc",
            "v1.1",
        ] {
            assert_eq!(
                lacks(&GOOD.replace("v1.3.3-0-gd842d771", id), Users::Machine),
                [""; 0]
            );
        }
    }

    #[test]
    fn where_its_containers_run_and_what_stands_beside_it() {
        let about: About = serde_json::from_str(GOOD).unwrap();
        about.is_on("6.1", Kind::Docker).unwrap();
        let error = about.is_on("6.2", Kind::Docker).unwrap_err().to_string();
        assert!(error.contains("another machine (Linux 6.1)"), "{error}");
        assert_eq!(about.notes(), [""; 0]);
        let bare: About = serde_json::from_str(&GOOD.replace("apparmor", "x")).unwrap();
        assert_eq!(bare.notes().len(), 1);
    }
}
