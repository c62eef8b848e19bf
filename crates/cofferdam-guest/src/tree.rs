//! The sandbox's mount tree while it is built: where a mount may go, and what is made on the way.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::sys;

/// Why the sandbox was not set up.
#[derive(Debug)]
pub(crate) enum Refusal {
    Unsupported { what: String, hint: String },
    Broken(String),
}

/// What the launcher did for one mount.
#[derive(Debug)]
pub(crate) enum Prepared {
    /// A detached mount that the init only needs to attach.
    Ready(OwnedFd),
    /// The init opens it itself.
    Later,
    /// An optional one that is not there.
    Absent,
}

pub(crate) fn shown(path: &[u8]) -> String {
    format!("`{}`", path.escape_ascii())
}

pub(crate) fn mount_error(path: &[u8], error: &io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(libc::EINVAL) => Refusal::Unsupported {
            what: format!(
                "cannot mount {}: other file systems are mounted below it",
                shown(path)
            ),
            hint: "unmount them, or choose a directory without mounts in it".to_owned(),
        },
        Some(libc::EPERM) => Refusal::Unsupported {
            what: format!("cannot mount {}: {error}", shown(path)),
            hint: "root needs CAP_SYS_ADMIN in a container: give it, or run as an ordinary user"
                .to_owned(),
        },
        _ => Refusal::Broken(format!("cannot mount {}: {error}", shown(path))),
    }
}

/// The new root and the file systems that are ours, where missing mount points may be made.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
    ours: Vec<u64>,
}

impl Tree {
    pub(crate) fn new(root: OwnedFd) -> io::Result<Self> {
        let device = sys::look_at(root.as_fd())?.device;
        Ok(Self {
            root,
            ours: vec![device],
        })
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Attaches a file system of ours at `path`, relative to the root; the directory is made.
    pub(crate) fn attach_own(&mut self, tree: &OwnedFd, path: &CStr) -> io::Result<()> {
        let device = sys::look_at(tree.as_fd())?.device;
        self.attach(tree, path)?;
        self.ours.push(device);
        Ok(())
    }

    /// Attaches `tree` at the directory `path`, relative to the root; made if it is missing.
    pub(crate) fn attach(&self, tree: &OwnedFd, path: &CStr) -> io::Result<()> {
        match sys::make_directory(self.root.as_raw_fd(), path, 0o755) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.attach_over(tree, path)
    }

    /// Attaches `tree` over what is at `path`, relative to the root.
    pub(crate) fn attach_over(&self, tree: &OwnedFd, path: &CStr) -> io::Result<()> {
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let target = sys::open_at(self.root.as_raw_fd(), path, flags, 0)?;
        sys::attach(tree.as_fd(), target.as_fd())
    }

    /// Attaches `tree` at the absolute path `target` inside. What is missing is made in file systems
    /// of ours, never in a host directory. No symlink is followed on the way.
    pub(crate) fn attach_at(&self, tree: &OwnedFd, target: &[u8]) -> Result<(), Refusal> {
        let broken = |error: io::Error| {
            Refusal::Broken(format!("cannot mount at {}: {error}", shown(target)))
        };
        let directory = sys::look_at(tree.as_fd()).map_err(broken)?.is_directory();
        let point = self.point(target, directory)?;
        let found = sys::look_at(point.as_fd()).map_err(broken)?;
        if found.is_directory() != directory || found.kind == libc::S_IFLNK {
            let kind = if directory { "a directory" } else { "a file" };
            return Err(refused(target, &format!("it is not {kind} there")));
        }
        sys::attach(tree.as_fd(), point.as_fd()).map_err(broken)
    }

    /// Makes a symlink at the absolute path `target` inside, in file systems of ours alone. Where it leads is
    /// looked up inside, like every path there.
    pub(crate) fn link_at(&self, text: &[u8], target: &[u8]) -> Result<(), Refusal> {
        let broken = |error: io::Error| {
            Refusal::Broken(format!("cannot make the link {}: {error}", shown(target)))
        };
        let Some(at) = target
            .iter()
            .rposition(|&byte| byte == b'/')
            .filter(|&at| at > 0)
        else {
            return Err(refused(
                target,
                "its parent is the root, or it is not absolute",
            ));
        };
        let parent = self.point(&target[..at], true)?;
        let device = sys::look_at(parent.as_fd()).map_err(broken)?.device;
        if !self.ours.contains(&device) {
            return Err(refused(target, "a host directory is mounted there"));
        }
        let text = sys::c_string(text).map_err(broken)?;
        let name = sys::c_string(&target[at + 1..]).map_err(broken)?;
        sys::make_symlink(parent.as_raw_fd(), &text, &name).map_err(broken)
    }

    /// A detached copy of what is at `target` inside, which must be a directory or a regular file.
    pub(crate) fn clone_at(&self, target: &[u8]) -> Result<OwnedFd, Refusal> {
        let copy = sys::c_string(target)
            .and_then(|path| sys::open_inside(self.root(), &path))
            .and_then(|there| {
                let found = sys::look_at(there.as_fd())?;
                if !matches!(found.kind, libc::S_IFDIR | libc::S_IFREG) {
                    return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
                }
                sys::clone_tree(there.as_raw_fd(), c"", &sys::TreeKind::Exact)
            });
        copy.map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => refused(target, "a symlink is on its path"),
            _ => mount_error(target, &error),
        })
    }

    /// The mount point, made where it is missing.
    fn point(&self, target: &[u8], directory: bool) -> Result<OwnedFd, Refusal> {
        let broken = |error: io::Error| {
            Refusal::Broken(format!("cannot mount at {}: {error}", shown(target)))
        };
        if !target.starts_with(b"/") {
            return Err(refused(target, "it is not an absolute path"));
        }
        let whole = sys::c_string(target).map_err(broken)?;
        let names: Vec<&[u8]> = target
            .split(|&b| b == b'/')
            .filter(|n| !n.is_empty())
            .collect();
        if names.is_empty() || names.iter().any(|name| *name == b"." || *name == b"..") {
            return Err(refused(
                target,
                "its path has `.` or `..` in it, or is the root",
            ));
        }
        match sys::open_inside(self.root(), &whole) {
            Ok(point) => return Ok(point),
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                return Err(refused(target, "a symlink is on its path"));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(broken(error)),
        }
        let mut at = sys::open_inside(self.root(), c"/").map_err(broken)?;
        for (index, name) in names.iter().enumerate() {
            let name = sys::c_string(name).map_err(broken)?;
            let flags = libc::O_PATH | libc::O_NOFOLLOW;
            let next = match sys::open_at(at.as_raw_fd(), &name, flags, 0) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let device = sys::look_at(at.as_fd()).map_err(broken)?.device;
                    if !self.ours.contains(&device) {
                        let what = "it does not exist in the host directory that is mounted there";
                        return Err(refused(target, what));
                    }
                    if directory || index + 1 < names.len() {
                        sys::make_directory(at.as_raw_fd(), &name, 0o755).map_err(broken)?;
                    } else {
                        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
                        sys::open_at(at.as_raw_fd(), &name, flags, 0o644).map_err(broken)?;
                    }
                    sys::open_at(at.as_raw_fd(), &name, flags, 0)
                }
                other => other,
            };
            at = next.map_err(broken)?;
        }
        Ok(at)
    }
}

fn refused(target: &[u8], why: &str) -> Refusal {
    Refusal::Unsupported {
        what: format!("cannot mount at {}: {why}", shown(target)),
        hint: "choose another target, or make it first".to_owned(),
    }
}
