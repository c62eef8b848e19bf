//! Where a container's guest and its maker meet: a socket in a directory that the container sees, for one connection.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

use crate::fsx;
use crate::fsx::listener::listen_in;

/// The name of the socket, short because a socket's path is.
const SOCKET: &str = "s";

/// Below a directory that only its user can enter. Removed with this value; nobody can connect after that.
#[derive(Debug)]
pub(super) struct Rendezvous {
    directory: PathBuf,
    listener: UnixListener,
}

impl Rendezvous {
    /// `directory` is this sandbox's alone; its parent is 0700 afterwards.
    pub(super) fn at(directory: &Path) -> io::Result<Self> {
        if let Some(parent) = directory.parent() {
            fsx::private_dir(parent).map_err(io::Error::other)?;
        }
        fsx::remove_tree_or_file(directory).map_err(io::Error::other)?;
        std::fs::create_dir(directory)?;
        // The agent may have ids of its own, and nobody else comes as far as here.
        std::fs::set_permissions(directory, Permissions::from_mode(0o755))?;
        Self::in_place(directory)
    }

    /// In a directory that is there, and that its container may be watching: a socket that can be seen can be connected to.
    pub(super) fn in_place(directory: &Path) -> io::Result<Self> {
        let listener = listen_in(directory, SOCKET)?;
        Ok(Self {
            directory: directory.to_owned(),
            listener,
        })
    }

    /// What the container sees.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The socket, as somebody sees it who sees the directory at `place`.
    pub(super) fn socket(place: &str) -> String {
        format!("{place}/{SOCKET}")
    }

    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        // What stays after a crash is cleared with its sandbox.
        let _ = fsx::remove_tree_or_file(&self.directory);
    }
}
