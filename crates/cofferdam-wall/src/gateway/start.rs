//! What the gateway gives up before it reads its first byte.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::{Gid, Uid};

use crate::inherited;
use crate::keys;

/// Why the gateway does not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(
        "usage: cofferdam-gateway OWNER_UID RUN_UID, with the control socket as standard input"
    )]
    Usage,
    #[error("the gateway does not run as root: give the id of an ordinary user as RUN_UID")]
    Root,
    #[error("standard input is not the gateway's control socket: {0}")]
    Socket(io::Error),
    #[error("standard output is not the gateway's lock: {0}")]
    Lock(io::Error),
    #[error("what the gateway inherited cannot be closed: {0}")]
    Inherited(io::Error),
    #[error("the gateway cannot {0}: {1}")]
    GiveUp(&'static str, rustix::io::Errno),
}

/// What the process has when it begins.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) control: UnixListener,
    /// Whose questions are answered.
    pub(super) owner: Uid,
    pub(super) home: Home,
}

/// The files by which the library finds this gateway, to notice that they are gone.
#[derive(Debug)]
pub(super) struct Home {
    /// Neither read nor written.
    files: Vec<OwnedFd>,
}

impl Home {
    /// Whether nobody can find this gateway any more. By the inode, because after giving up root the path
    /// may be out of reach.
    pub(super) fn is_gone(&self) -> bool {
        self.files
            .iter()
            .any(|file| rustix::fs::fstat(file).is_ok_and(|stat| stat.st_nlink == 0))
    }
}

/// Becomes the unprivileged user, in the only thread. `arguments`: OWNER_UID (whose questions are answered),
/// RUN_UID (whom to become if started by root).
pub(super) fn prepare(arguments: &[OsString]) -> Result<Started, StartError> {
    let [owner, run] = arguments else {
        return Err(StartError::Usage);
    };
    let (owner, run) = (number(owner)?, number(run)?);
    // Keys pressed at the starter's terminal are not for it, nor the end of that.
    _ = rustix::process::setsid();
    // A supervisor hears of its own end by itself, and has SIGTERM withheld.
    keys::keep_withheld();
    inherited::close().map_err(StartError::Inherited)?;
    let control = rustix::stdio::stdin()
        .try_clone_to_owned()
        .map(UnixListener::from)
        .map_err(StartError::Socket)?;
    let listens = rustix::net::sockopt::socket_acceptconn(&control)
        .map_err(|errno| StartError::Socket(errno.into()))?;
    let address = control.local_addr().map_err(StartError::Socket)?;
    if !listens {
        return Err(StartError::Socket(io::Error::other("it does not listen")));
    }
    // Before the user changes: the folder is the owner's alone.
    let lock = watch(Path::new("/proc/self/fd/1"), OFlags::empty())
        .map_err(|errno| StartError::Lock(errno.into()))?;
    let mut files = vec![lock];
    // A path that does not lead there from here (bound through another folder's descriptor) is not watched.
    if let Some(path) = address.as_pathname().filter(|path| path.is_absolute())
        && let Ok(socket) = watch(path, OFlags::NOFOLLOW)
    {
        files.push(socket);
    }
    give_up(run)?;
    Ok(Started {
        control,
        owner: Uid::from_raw(owner),
        home: Home { files },
    })
}

fn number(argument: &OsStr) -> Result<u32, StartError> {
    argument
        .to_str()
        .and_then(|text| text.parse().ok())
        .ok_or(StartError::Usage)
}

fn watch(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty())
}

fn give_up(run: u32) -> Result<(), StartError> {
    let cannot = |what| move |errno| StartError::GiveUp(what, errno);
    if rustix::process::geteuid().is_root() {
        if run == 0 {
            return Err(StartError::Root);
        }
        let (uid, gid) = (Uid::from_raw(run), Gid::from_raw(run));
        rustix::thread::set_thread_groups(&[]).map_err(cannot("leave root's groups"))?;
        rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(cannot("change its group"))?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(cannot("change its user"))?;
    }
    if rustix::process::getuid().is_root() || rustix::process::geteuid().is_root() {
        return Err(StartError::Root);
    }
    rustix::thread::clear_ambient_capability_set().map_err(cannot("drop its capabilities"))?;
    rustix::thread::set_no_new_privs(true).map_err(cannot("renounce new privileges"))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(cannot("forbid dumps of its memory"))?;
    rustix::process::umask(Mode::from_raw_mode(0o077));
    let files = rustix::process::getrlimit(Resource::Nofile);
    rustix::process::setrlimit(
        Resource::Nofile,
        Rlimit {
            current: files.maximum,
            maximum: files.maximum,
        },
    )
    .map_err(cannot("raise its limit of open files"))
}
