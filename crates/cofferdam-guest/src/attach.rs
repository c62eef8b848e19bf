//! Mounts on the host for a container. Of root's: what their owner has shows as the agent's. Of an ordinary user's: what lies over
//! one another, in the namespaces of their engine, because only there they may. Whoever asked takes them away once the engine has
//! them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use cofferdam_guest::protocol::{Agent, Attach, Attached, Reply, Source};

use crate::channel::Channel;
use crate::launch::{Owners, prepare};
use crate::layers;
use crate::sys;
use crate::tree::{Refusal, mount_error};

/// Serves one [`Attach`] on its standard input. The exit code.
pub(crate) fn run() -> i32 {
    let Ok(socket) = sys::take_standard_input() else {
        return 2;
    };
    let mut channel = Channel::new(socket);
    let Ok((asked, fds)) = channel.read_with_fds::<Attach>() else {
        return 2;
    };
    let attached = match asked.owner {
        Agent::Separate { uid, gid } => of_root(&asked, (uid, gid)).map(|()| Vec::new()),
        Agent::Caller => of_caller(&asked, fds),
    };
    let (sent, code) = match attached {
        Ok(trees) => (channel.send_with(&Reply::Ready, &trees), 0),
        Err(refusal) => (channel.send(&refusal.into()), 1),
    };
    sent.map_or(2, |()| code)
}

/// As whoever is root in the engine's user namespace. What is mounted there is seen by nobody else on the host.
fn of_caller(asked: &Attach, fds: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, Refusal> {
    let broken = |what: String| Refusal::Broken(what);
    let Ok([engine]) = <[OwnedFd; 1]>::try_from(fds) else {
        return Err(broken("it needs a process of the engine".to_owned()));
    };
    sys::join(engine.as_fd(), libc::CLONE_NEWUSER | libc::CLONE_NEWNS)
        .map_err(|error| broken(format!("cannot join the engine's namespaces: {error}")))?;
    let trees = asked.mounts.iter().map(|one| {
        let Source::Layers { lower, upper } = &one.source else {
            return Err(broken("it mounts layers alone".to_owned()));
        };
        let tree = layers::of_caller_apart(lower, upper.as_deref(), asked.lifetime)?;
        put(&tree, one).map_err(|error| mount_error(&one.place, &error))?;
        Ok(tree)
    });
    trees.collect()
}

fn of_root(asked: &Attach, ids: (u32, u32)) -> Result<(), Refusal> {
    let mut maps = Owners::default();
    for one in &asked.mounts {
        let mut map = |needed, path: &[u8]| prepare(needed, path, ids, &mut maps);
        let tree = match &one.source {
            Source::Path(path) => map(one.writable, path)?,
            Source::Layers { lower, upper } => {
                let map = |path: &[u8]| map(true, path);
                layers::of_root(lower, upper.as_deref(), asked.lifetime, ids, map)?
            }
            Source::Nothing | Source::Target | Source::Link(_) => {
                let what = "it mounts paths and layers alone".to_owned();
                return Err(Refusal::Broken(what));
            }
        };
        put(&tree, one).map_err(|error| mount_error(&one.place, &error))?;
    }
    Ok(())
}

fn put(tree: &OwnedFd, one: &Attached) -> io::Result<()> {
    sys::make_private(tree.as_fd())?;
    let place = sys::c_string(&one.place)?;
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    let place = sys::open_at(libc::AT_FDCWD, &place, flags, 0)?;
    sys::attach(tree.as_fd(), place.as_fd())
}
