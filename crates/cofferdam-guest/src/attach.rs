//! Mounts of root's on the host for a container: what their owner has shows as the agent's. Whoever asked takes them away once
//! the engine has them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use cofferdam_guest::protocol::{Attach, Attached, Reply, Source};

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
    let Ok(asked) = channel.read::<Attach>() else {
        return 2;
    };
    let reply = attach(&asked).map_or_else(Reply::from, |()| Reply::Ready);
    let code = (reply != Reply::Ready).into();
    match channel.send(&reply) {
        Ok(()) => code,
        Err(_) => 2,
    }
}

fn attach(asked: &Attach) -> Result<(), Refusal> {
    let mut maps = Owners::default();
    for one in &asked.mounts {
        let ids = (asked.uid, asked.gid);
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
