//! User namespaces and their id maps.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::sys;

/// Both maps of a user namespace, in the format of user_namespaces(7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Maps {
    pub(crate) uids: String,
    pub(crate) gids: String,
}

impl Maps {
    /// One id each: `inside` shows as, and acts with the rights of, `outside`.
    pub(crate) fn single(inside: (u32, u32), outside: (u32, u32)) -> Self {
        Self {
            uids: format!("{} {} 1\n", inside.0, outside.0),
            gids: format!("{} {} 1\n", inside.1, outside.1),
        }
    }

    /// `owner` becomes `agent`; every other id stays what it is, so that a file with the owner's uid
    /// and another group can still be written by the agent.
    fn keeping_others(owner: (u32, u32), agent: (u32, u32)) -> Self {
        Self {
            uids: all_but(owner.0, agent.0),
            gids: all_but(owner.1, agent.1),
        }
    }
}

fn all_but(owner: u32, agent: u32) -> String {
    let mut map = format!("{owner} {agent} 1\n");
    let (low, high) = (owner.min(agent), owner.max(agent));
    // The last id, (uid_t) -1, is no id.
    for (from, to) in [(0, low), (low + 1, high), (high + 1, u32::MAX)] {
        if to > from {
            // Writing to a string cannot fail.
            let _ = writeln!(map, "{from} {from} {}", to - from);
        }
    }
    map
}

/// Writes the maps of the process `pid`, which must be in a new user namespace. `unprivileged`: the
/// writer may map nothing but its own ids, and must deny setgroups(2) first.
pub(crate) fn write_maps(pid: i32, maps: &Maps, unprivileged: bool) -> io::Result<()> {
    let write = |name: &str, text: &str| {
        let path = format!("/proc/{pid}/{name}");
        let mut file = fs::OpenOptions::new().write(true).open(path)?;
        io::Write::write_all(&mut file, text.as_bytes())
    };
    if unprivileged {
        write("setgroups", "deny")?;
    }
    write("gid_map", &maps.gids)?;
    write("uid_map", &maps.uids)
}

/// A user namespace for an idmapped mount: what `owner` owns on disk shows as `agent`'s.
pub(crate) fn mount_map(owner: (u32, u32), agent: (u32, u32)) -> io::Result<OwnedFd> {
    namespace(&Maps::keeping_others(owner, agent))
        // A caller who is itself in a user namespace may not have every id.
        .or_else(|_| namespace(&Maps::single(owner, agent)))
}

fn namespace(maps: &Maps) -> io::Result<OwnedFd> {
    let (wait, hold) = sys::pipe()?;
    let pid = sys::fork_into(libc::CLONE_NEWUSER)?;
    if pid == 0 {
        drop(hold);
        let _ = sys::poll(&[wait.as_raw_fd()], None);
        sys::exit(0);
    }
    let made = write_maps(pid, maps, false)
        .and_then(|()| fs::File::open(format!("/proc/{pid}/ns/user")).map(OwnedFd::from));
    drop(hold);
    sys::wait(pid, true)?;
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_other_ids_stay() {
        assert_eq!(all_but(0, 5), "0 5 1\n1 1 4\n6 6 4294967289\n");
        assert_eq!(
            all_but(1000, 0),
            "1000 0 1\n1 1 999\n1001 1001 4294966294\n"
        );
        assert_eq!(all_but(4, 5), "4 5 1\n0 0 4\n6 6 4294967289\n");
    }
}
