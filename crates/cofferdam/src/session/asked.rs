//! How another command asks the owner of a sandbox to end it: over a socket in its state directory. Nobody is sent a signal, because the
//! owner may be a whole program that has more to do.

use std::convert::Infallible;
use std::fs::Permissions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use crate::fsx;

const SOCKET: &str = "owner.sock";

/// All that is said. Who only connects, to see who listens, has asked for nothing.
const END: &[u8; 4] = b"end\n";

/// How long somebody may take to say it.
const LISTENS: Duration = Duration::from_secs(2);

/// After an error that the next try may have again.
const PAUSE: Duration = Duration::from_millis(100);

/// Where the owner is asked, as long as this is there.
#[derive(Debug)]
pub(super) struct Asked {
    /// `None`: a disk that is full or read-only has no room for it. Then nobody can ask.
    listener: Option<UnixListener>,
    path: PathBuf,
}

impl Asked {
    /// In a state directory.
    pub(super) fn listen(directory: &Path) -> Self {
        let path = directory.join(SOCKET);
        let listener = fsx::listener::listen_in(directory, SOCKET).ok();
        let private = std::fs::set_permissions(&path, Permissions::from_mode(0o600));
        Self {
            listener: listener.filter(|_| private.is_ok()),
            path,
        }
    }

    /// Cancels when somebody has asked, who is the same user or root.
    pub(super) async fn cancels(&self, cancel: &CancellationToken) -> Infallible {
        if let Some(listener) = &self.listener {
            while !is_asked(listener).await {}
            cancel.cancel();
        }
        std::future::pending().await
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let _ = fsx::remove_file_if_exists(&self.path);
    }
}

async fn is_asked(listener: &UnixListener) -> bool {
    let Ok((mut stream, _)) = listener.accept().await else {
        tokio::time::sleep(PAUSE).await;
        return false;
    };
    let own = rustix::process::geteuid().as_raw();
    let is_ours = |uid| uid == own || uid == 0;
    if !stream.peer_cred().is_ok_and(|peer| is_ours(peer.uid())) {
        return false;
    }
    let mut word = [0; END.len()];
    let heard = tokio::time::timeout(LISTENS, stream.read_exact(&mut word)).await;
    matches!(heard, Ok(Ok(_))) && word == *END
}

/// Asks the owner whose state directory this is. `false`: nobody listens there.
pub(super) async fn ask(directory: &Path) -> bool {
    let asked = async {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let at_hand = rustix::fs::open(directory, flags, Mode::empty())?;
        // As short as an address must be.
        let address = format!("/proc/self/fd/{}/{SOCKET}", at_hand.as_raw_fd());
        let mut stream = UnixStream::connect(address).await?;
        stream.write_all(END).await
    };
    let asked: io::Result<()> = asked.await;
    asked.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_is_asked_cancels_and_nobody_else_is_asked() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("x".repeat(200));
        std::fs::create_dir(&directory).unwrap();
        assert!(!ask(&directory).await);
        let asked = Asked::listen(&directory);
        let at_hand = std::fs::File::open(&directory).unwrap();
        let mode = std::fs::metadata(directory.join(SOCKET)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
        let cancel = CancellationToken::new();
        // Whoever looks who listens where.
        let path = format!("/proc/self/fd/{}/{SOCKET}", at_hand.as_raw_fd());
        for said in [&b""[..], b"end", b"dne\n"] {
            let mut stream = UnixStream::connect(&path).await.unwrap();
            stream.write_all(said).await.unwrap();
        }
        tokio::select! {
            never = asked.cancels(&cancel) => match never {},
            () = cancel.cancelled() => panic!("nobody asked"),
            () = tokio::time::sleep(PAUSE) => {}
        }
        assert!(ask(&directory).await);
        tokio::select! {
            never = asked.cancels(&cancel) => match never {},
            () = cancel.cancelled() => {}
        }
        drop(asked);
        assert!(!ask(&directory).await);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    }
}
