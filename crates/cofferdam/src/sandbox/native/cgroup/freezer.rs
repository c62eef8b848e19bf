//! A group that the programs of a sandbox are in and its init is not, so that the kernel stops them all when init says
//! so. Of version 2 alone: what version 1 has frozen cannot be killed, and would keep its sandbox from ending.

use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use cofferdam_guest::protocol::{Agent, PROGRAMS_GROUP};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::process::{Gid, Uid};

use super::machine::{Machine, OURS, named, remove_parent};
use crate::fsx;
use crate::names::SandboxId;

/// Where its path is noted, in the sandbox's state directory: another command may look for groups elsewhere, because it
/// is in another one itself.
const NOTE: &str = "group";
/// Bytes of that path.
const LONGEST: u64 = 4096;
/// By which the kernel is told to freeze: only groups of version 2 have it.
const SWITCH: &str = "cgroup.freeze";
const MEMBERS: &str = "cgroup.procs";

/// Makes the group of `id`, with the one for its programs below it, and notes it in `state` before. It lies below
/// `limited` where that is one of version 2: out of its limits a sandbox must not get.
pub(super) fn make(
    machine: &Machine,
    id: SandboxId,
    limited: &[PathBuf],
    agent: Agent,
    state: &Path,
) -> io::Result<PathBuf> {
    let limited = limited.iter().find(|group| group.join(SWITCH).exists());
    let directory = match limited {
        Some(directory) => directory.clone(),
        None => place(machine)?.join(OURS).join(id.to_string()),
    };
    fsx::write_private(&state.join(NOTE), directory.as_os_str().as_bytes())
        .map_err(io::Error::other)?;
    let made = fill(&directory, agent);
    if made.is_err() {
        // Where there are limits the group is theirs.
        let _ = match limited {
            Some(_) => fs::remove_dir(directory.join(PROGRAMS_GROUP)),
            None => remove(&directory),
        };
    }
    made.map(|()| directory)
}

fn fill(directory: &Path, agent: Agent) -> io::Result<()> {
    let programs = directory.join(PROGRAMS_GROUP);
    let mut attempts = 0;
    // Another sandbox that ends may take the parent away in between: again.
    while let Err(error) = fs::create_dir_all(&programs) {
        attempts += 1;
        if attempts == 10 {
            return Err(named(&programs, &error));
        }
    }
    let Agent::Separate { uid, gid } = agent else {
        return Ok(());
    };
    // Init starts programs with the agent's rights. No program sees these files.
    for group in [directory, &programs] {
        let members = group.join(MEMBERS);
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::chown(&members, Some(uid), Some(gid))
            .map_err(|errno| named(&members, &errno.into()))?;
    }
    Ok(())
}

/// Where a group of ours can be made: below the one that this process is in, whose limits go on, else at the top.
pub(super) fn place(machine: &Machine) -> io::Result<PathBuf> {
    let mut last = io::Error::other("no control groups of version 2 are mounted");
    for place in machine.unified() {
        match is_usable(&place) {
            Ok(()) => return Ok(place),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn is_usable(place: &Path) -> io::Result<()> {
    let write = |path: PathBuf| {
        accessat(CWD, &path, Access::WRITE_OK, AtFlags::EACCESS)
            .map_err(|errno| named(&path, &errno.into()))
    };
    write(place.to_owned())?;
    // To move a process from one group to another, the kernel asks for the right to their common parent.
    write(place.join(MEMBERS))?;
    match write(place.join(OURS)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The groups of a sandbox that may have been made, whoever made them.
pub(super) fn leftovers(machine: &Machine, id: SandboxId, state: Option<&Path>) -> Vec<PathBuf> {
    let ours = Path::new(OURS).join(id.to_string());
    let places = machine.unified().into_iter();
    let mut found: Vec<PathBuf> = places.map(|place| place.join(&ours)).collect();
    let noted = state.and_then(|state| fsx::read_bounded(&state.join(NOTE), LONGEST).ok());
    let noted = noted.map(|path| PathBuf::from(std::ffi::OsString::from_vec(path)));
    found.extend(noted.filter(|path| path.ends_with(&ours)));
    found.retain(|group| group.join(SWITCH).exists());
    found.sort();
    found.dedup();
    found
}

/// Its programs are dead: nothing else may be in it. Fails while the kernel still clears them away.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    for group in [&directory.join(PROGRAMS_GROUP), directory] {
        match fs::remove_dir(group) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    remove_parent(directory);
    Ok(())
}

/// Its groups are gone.
pub(super) fn forget(state: &Path) {
    let _ = fsx::remove_file_if_exists(&state.join(NOTE));
}
