//! The socket at which programs of a sandbox ask. Any of them may, in any words.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_guest::protocol::push::{self, Answer, DOOR, HEAD, Question, SOCKET, VERSION};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::embedded;
use crate::fsx::listener::listen_in;
use crate::fsx::{self, Context, FileError};
use crate::home::Home;
use crate::sandbox::{Access, Mount, MountSource};

/// In the state directory.
const DIRECTORY: &str = "pushes";
/// The program that git starts for `cofferdam::`.
const PROGRAM: &str = "/.cofferdam/bin/git-remote-cofferdam";
/// How long one may take to say what it wants, and to hear an answer.
const LIMIT: Duration = Duration::from_secs(5);
/// After an error of the listener's: descriptors may be free again.
const PAUSE: Duration = Duration::from_millis(100);

/// What the sandbox sees of it.
pub(in crate::session) fn mounts(home: &Home, state: &Path) -> Result<Vec<Mount>, FileError> {
    let directory = directory(state)?;
    let program = home.engines();
    fsx::private_dir(&program)?;
    let program = embedded::guest_file(&program).context("write a program to", &program)?;
    let mount = |source: PathBuf, target: &str| Mount {
        source: MountSource::Path(source),
        target: target.into(),
        access: Access::ReadOnly,
    };
    Ok(vec![mount(program, PROGRAM), mount(directory, DOOR)])
}

/// Whether this is one of [`mounts`].
pub(in crate::session) fn is_ours(mount: &Mount) -> bool {
    mount.target == Path::new(PROGRAM) || mount.target == Path::new(DOOR)
}

/// Below a directory that its user alone can enter; the sandbox may have ids of its own.
fn directory(state: &Path) -> Result<PathBuf, FileError> {
    let directory = state.join(DIRECTORY);
    fsx::private_dir(&directory)?;
    std::fs::set_permissions(&directory, Permissions::from_mode(0o755))
        .context("open", &directory)?;
    Ok(directory)
}

/// A question, and who waits for its answer.
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) caller: Waiting,
}

/// Somebody inside who waits.
#[derive(Debug)]
pub(super) struct Waiting(UnixStream);

#[derive(Debug)]
pub(super) struct Door(UnixListener);

impl Door {
    pub(super) fn open(state: &Path) -> std::io::Result<Self> {
        let directory = directory(state).map_err(std::io::Error::other)?;
        Ok(Self(listen_in(&directory, SOCKET)?))
    }

    /// The next question; `None` where somebody came and asked nothing that can be answered.
    pub(super) async fn next(&self) -> Option<Asked> {
        let Ok((stream, _)) = self.0.accept().await else {
            tokio::time::sleep(PAUSE).await;
            return None;
        };
        let mut caller = Waiting(stream);
        let body = tokio::time::timeout(LIMIT, caller.read()).await.ok()??;
        let (version, rest) = body.split_first()?;
        // A version beyond 127 has a second byte, and is another one.
        if u32::from(*version) != VERSION {
            let why = "the sandbox was started by another version of cofferdam".to_owned();
            let hint = "`cofferdam restart` on the host starts it anew".to_owned();
            caller.answer(&Answer::Refused { why, hint }).await;
            return None;
        }
        let question = push::decode(rest).ok()?;
        Some(Asked { question, caller })
    }
}

impl Waiting {
    async fn read(&mut self) -> Option<Vec<u8>> {
        let mut head = [0; HEAD];
        self.0.read_exact(&mut head).await.ok()?;
        let length = push::body_length(head).ok()?;
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.ok()?;
        Some(body)
    }

    /// Who does not read hears nothing.
    pub(super) async fn answer(&mut self, answer: &Answer) {
        let Ok(frame) = push::encode(answer) else {
            return;
        };
        let said = self.0.write_all(&frame);
        let _ = tokio::time::timeout(LIMIT, said).await;
    }

    pub(super) async fn say(&mut self, text: String) {
        self.answer(&Answer::Said(text)).await;
    }
}
