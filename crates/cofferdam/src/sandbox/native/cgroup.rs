//! Limits of a whole sandbox by control groups, version 1 or 2, where the caller may make them, and the one that can be
//! frozen ([`freezer`]).
//! Processes are not among them: `RLIMIT_NPROC` counts inside the sandbox's user namespace.

mod freezer;
mod machine;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_guest::protocol::Agent;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use self::machine::{Machine, OURS, named, remove_parent};
use crate::names::SandboxId;
use crate::sandbox::{Limits, SandboxError, limits};

const ROOT: &str = "/sys/fs/cgroup";

/// The groups of one sandbox: one directory per hierarchy.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Those of its limits.
    directories: Vec<PathBuf>,
    /// One of those.
    memory: Option<PathBuf>,
    /// The one whose programs can be frozen. It may be one of those.
    freezer: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controller {
    Memory,
    Cpu,
}

impl Controller {
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
        }
    }
}

impl Group {
    /// The groups that `limits` need; none, and no cost, where they need none.
    pub(super) fn create(id: SandboxId, limits: &Limits) -> Result<Self, SandboxError> {
        Self::create_on(&Machine::this(), id, limits)
    }

    fn create_on(machine: &Machine, id: SandboxId, limits: &Limits) -> Result<Self, SandboxError> {
        let mut group = Self::default();
        for (controller, wanted) in [
            (Controller::Memory, limits.memory.is_some()),
            (Controller::Cpu, limits.cpus.is_some()),
        ] {
            if wanted && let Err(error) = group.limit(machine, controller, id, limits) {
                group.remove_now();
                return Err(unsupported(controller.name(), &error));
            }
        }
        Ok(group)
    }

    fn limit(
        &mut self,
        machine: &Machine,
        controller: Controller,
        id: SandboxId,
        limits: &Limits,
    ) -> io::Result<()> {
        let (parent, directory) = child(machine, controller, id)?;
        if !self.directories.contains(&directory) {
            self.directories.push(directory.clone());
        }
        if controller == Controller::Memory {
            self.memory = Some(directory.clone());
        }
        let write = |name: &str, value: String| set(&directory.join(name), &value);
        match (controller, parent.version) {
            (Controller::Memory, Version::One) => {
                let bytes = limits.memory.unwrap_or(u64::MAX).to_string();
                write("memory.limit_in_bytes", bytes.clone())?;
                // Absent where the kernel does not count swap; then there must be no swap.
                match write("memory.memsw.limit_in_bytes", bytes) {
                    Err(error) if limits::has_swap() => Err(error),
                    _ => Ok(()),
                }
            }
            (Controller::Memory, Version::Two) => {
                write("memory.max", limits.memory.unwrap_or(u64::MAX).to_string())?;
                match write("memory.swap.max", "0".to_owned()) {
                    Err(error) if limits::has_swap() => Err(error),
                    _ => Ok(()),
                }
            }
            (Controller::Cpu, Version::One) => {
                write("cpu.cfs_period_us", "100000".to_owned())?;
                write("cpu.cfs_quota_us", quota(limits.cpus).to_string())
            }
            (Controller::Cpu, Version::Two) => {
                write("cpu.max", format!("{} 100000", quota(limits.cpus)))
            }
        }
    }

    /// A group by which its programs are stopped, made where that can be. `state`: its state directory.
    pub(super) fn make_freezer(&mut self, id: SandboxId, agent: Agent, state: &Path) {
        let machine = Machine::this();
        self.freezer = freezer::make(&machine, id, &self.directories, agent, state).ok();
    }

    /// The one that its memory is counted in, where that is limited.
    pub(super) fn memory(&self) -> Option<&Path> {
        self.memory.as_deref()
    }

    /// The init's group, if there is one for its programs.
    pub(super) fn freezer(&self) -> Option<&Path> {
        self.freezer.as_deref()
    }

    /// Moves a process into the groups of its limits; what it forks later is in them too.
    pub(super) fn add(&self, pid: u32) -> io::Result<()> {
        self.directories
            .iter()
            .try_for_each(|d| set(&d.join("cgroup.procs"), &pid.to_string()))
    }

    /// They outlive this process: [`remove_leftovers`] finds them.
    pub(super) fn leave(mut self) {
        self.directories.clear();
        self.freezer = None;
    }

    /// The processes are dead, but the kernel may need a moment to let the groups go.
    pub(super) async fn remove(mut self) {
        for _ in 0..100 {
            self.remove_now();
            if self.directories.is_empty() && self.freezer.is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn remove_now(&mut self) {
        // First: it may be below another.
        if let Some(freezer) = self.freezer.take_if(|group| freezer::remove(group).is_ok()) {
            self.directories.retain(|directory| *directory != freezer);
        }
        self.directories
            .retain(|directory| match fs::remove_dir(directory) {
                Ok(()) => {
                    remove_parent(directory);
                    false
                }
                Err(error) => error.kind() != io::ErrorKind::NotFound,
            });
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.remove_now();
    }
}

/// Microseconds of every 100 ms; at least 1 ms, which is the kernel's own minimum.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped before"
)]
fn quota(cpus: Option<f64>) -> u64 {
    (cpus.unwrap_or(1.0) * 100_000.0).clamp(1000.0, 1e12) as u64
}

#[expect(
    clippy::disallowed_methods,
    reason = "a kernel file: nothing to replace atomically"
)]
fn set(path: &Path, value: &str) -> io::Result<()> {
    fs::write(path, value).map_err(|error| named(path, &error))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

#[derive(Debug)]
struct Parent {
    path: PathBuf,
    version: Version,
}

/// The sandbox's group. Another sandbox that ends may take the parent away in between: again.
fn child(
    machine: &Machine,
    controller: Controller,
    id: SandboxId,
) -> io::Result<(Parent, PathBuf)> {
    let mut attempts = 0;
    loop {
        let parent = parent(machine, controller)?;
        let directory = parent.path.join(id.to_string());
        attempts += 1;
        match fs::create_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && attempts < 10 => {}
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => return Ok((parent, directory)),
        }
    }
}

/// Our own group in the hierarchy of this controller, made where it is missing.
fn parent(machine: &Machine, controller: Controller) -> io::Result<Parent> {
    let mut last = io::Error::other("there is no control group hierarchy for it");
    for (top, version) in machine.hierarchies(controller) {
        let path = top.join(OURS);
        match prepare(&top, &path, controller, version) {
            Ok(()) => return Ok(Parent { path, version }),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn prepare(top: &Path, path: &Path, controller: Controller, version: Version) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(named(path, &error));
        }
        _ => {}
    }
    // Another user's sandboxes may have made it: ours cannot be below it.
    accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)
        .map_err(|error| named(path, &error.into()))?;
    if version == Version::Two {
        let enable = format!("+{}", controller.name());
        for group in [top, path] {
            let file = group.join("cgroup.subtree_control");
            let enabled = fs::read_to_string(&file).unwrap_or_default();
            if !enabled
                .split_ascii_whitespace()
                .any(|name| name == controller.name())
            {
                set(&file, &enable)?;
            }
        }
    }
    Ok(())
}

impl Machine {
    /// Where groups for this controller may be made, best first: at the top of its hierarchy, then in
    /// the group that this process is in.
    fn hierarchies(&self, controller: Controller) -> Vec<(PathBuf, Version)> {
        let mut found = Vec::new();
        for (point, kind, options) in self.mounts() {
            let version = match kind {
                "cgroup" if options.split(',').any(|o| o == controller.name()) => Version::One,
                "cgroup2" if offers(point, controller) => Version::Two,
                _ => continue,
            };
            found.push((point.to_owned(), version));
            let ours = self.group(controller, version);
            if let Some(ours) = ours.filter(|ours| !ours.is_empty()) {
                found.push((point.join(ours), version));
            }
        }
        found
    }

    /// The group that this process is in, relative to the top of its hierarchy.
    fn group(&self, controller: Controller, version: Version) -> Option<&str> {
        self.own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let here = match version {
                Version::One => controllers.split(',').any(|c| c == controller.name()),
                Version::Two => controllers.is_empty(),
            };
            here.then(|| path.trim_start_matches('/'))
        })
    }
}

fn offers(point: &Path, controller: Controller) -> bool {
    fs::read_to_string(point.join("cgroup.controllers")).is_ok_and(|all| {
        all.split_ascii_whitespace()
            .any(|name| name == controller.name())
    })
}

/// Removes the groups of this sandbox, whose owner is dead: for `gc` after a crash. Its processes may
/// need a moment to follow. `state`: its state directory, where one that lives on notes a group.
pub async fn remove_leftovers(id: SandboxId, state: Option<&Path>) {
    let machine = Machine::this();
    let directories = [Controller::Memory, Controller::Cpu]
        .into_iter()
        .flat_map(|controller| machine.hierarchies(controller))
        .map(|(top, _)| top.join(OURS).join(id.to_string()))
        .filter(|directory| directory.is_dir())
        .collect();
    for freezer in freezer::leftovers(&machine, id, state) {
        let group = Group {
            directories: Vec::new(),
            memory: None,
            freezer: Some(freezer),
        };
        group.remove().await;
    }
    let group = Group {
        directories,
        memory: None,
        freezer: None,
    };
    group.remove().await;
    if let Some(state) = state {
        freezer::forget(state);
    }
}

/// Refuses limits that cannot be given here. No cost where none is asked for.
pub(super) fn check(limits: &Limits) -> Result<(), SandboxError> {
    let wanted = [
        (Controller::Memory, limits.memory.is_some()),
        (Controller::Cpu, limits.cpus.is_some()),
    ];
    if wanted.iter().all(|(_, wanted)| !wanted) {
        return Ok(());
    }
    let machine = Machine::this();
    for (controller, wanted) in wanted {
        if wanted && let Err(error) = can_make(&machine, controller) {
            return Err(unsupported(controller.name(), &error));
        }
    }
    Ok(())
}

fn unsupported(name: &str, error: &io::Error) -> SandboxError {
    SandboxError::Unsupported {
        what: format!("cannot limit {name}: {error}"),
        hint: "leave the limit out, run as root, or from a delegated control group; see `cofferdam doctor`"
            .to_owned(),
    }
}

/// Whether memory and cpu can be limited: for [`super::probe`].
pub(super) fn available() -> [(&'static str, io::Result<()>); 2] {
    let machine = Machine::this();
    [Controller::Memory, Controller::Cpu]
        .map(|controller| (controller.name(), can_make(&machine, controller)))
}

/// Whether a group can be made whose programs the kernel stops: for [`super::probe`].
pub(super) fn freezable() -> io::Result<()> {
    freezer::place(&Machine::this()).map(drop)
}

fn can_make(machine: &Machine, controller: Controller) -> io::Result<()> {
    let parent = parent(machine, controller)?;
    // Only tried: gone again unless a sandbox uses it.
    let _ = fs::remove_dir(parent.path);
    Ok(())
}

/// The mount point that everybody uses, for messages.
pub(super) const MOUNT_POINT: &str = ROOT;

#[cfg(test)]
mod tests;
