//! Sockets in directories that a sandbox sees.

use std::fs::Permissions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use tokio::net::UnixListener;

/// Before anybody may connect it has this at the end of its name.
const UNSEEN: &str = "~";

/// Listens at `name` in `directory`, in the place of whoever did before. Everybody who sees the directory may connect, from the moment
/// at which they see the socket: they may be watching. The directory's path may be longer than the address of a socket; `name` is short.
pub(crate) fn listen_in(directory: &Path, name: &str) -> io::Result<UnixListener> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let at_hand = rustix::fs::open(directory, flags, Mode::empty())?;
    let unseen = directory.join(format!("{name}{UNSEEN}"));
    super::remove_file_if_exists(&unseen).map_err(io::Error::other)?;
    let address = format!("/proc/self/fd/{}/{name}{UNSEEN}", at_hand.as_raw_fd());
    let listener = UnixListener::bind(address)?;
    std::fs::set_permissions(&unseen, Permissions::from_mode(0o666))?;
    std::fs::rename(unseen, directory.join(name))?;
    Ok(listener)
}
