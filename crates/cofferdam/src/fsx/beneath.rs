//! Opening names below a directory without ever leaving it: no symlink, no `..`, no magic link is
//! followed, whatever somebody changes meanwhile (openat2(2)).

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Opens `path` below `root`. Blocking devices and pipes do not block the opening.
pub(crate) fn open(root: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // The kernel answers EAGAIN when it cannot prove that a concurrent rename did not lead outside.
    for _ in 0..100 {
        match rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            done => return done,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens the directory `path` below `root`; an empty path is `root` itself.
pub(crate) fn directory(root: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    open(root, path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Gives the owner of the directory `path` back their rights to it, if this process is the owner: an
/// agent that took them away keeps the host out, but not git, which needs no right to list.
pub(crate) fn open_up(root: impl AsFd, path: &Path) -> Result<(), Errno> {
    change_mode(root, path, OFlags::DIRECTORY, |mode| mode | 0o700)
}

/// Changes the mode of what is at `path`, which is no symlink, if this process is its owner or root.
pub(crate) fn change_mode(
    root: impl AsFd,
    path: &Path,
    kind: OFlags,
    change: impl FnOnce(u32) -> u32,
) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    // With O_PATH the kernel takes no other flag than these.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC | kind;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let place = rustix::fs::openat2(root, path, flags, Mode::empty(), resolve)?;
    let found = rustix::fs::fstat(&place)?;
    let user = rustix::process::geteuid();
    if !user.is_root() && found.st_uid != user.as_raw() {
        return Err(Errno::ACCESS);
    }
    // A descriptor of this kind cannot be changed itself; its path can, and leads nowhere else.
    let itself = format!("/proc/self/fd/{}", place.as_raw_fd());
    rustix::fs::chmod(itself, Mode::from_raw_mode(change(found.st_mode & 0o7777)))
}

/// Opens the directory that everything else is resolved below. Its own path is trusted.
pub(crate) fn root(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// Makes the directory `path` below `root`; what it lies in is there.
pub(crate) fn make_directory(root: impl AsFd, path: &Path) -> Result<(), Errno> {
    let (above, name) = above(root, path)?;
    rustix::fs::mkdirat(above, name, Mode::from_raw_mode(0o777))
}

/// Removes the directory `path` below `root` where nothing is in it.
pub(crate) fn remove_directory(root: impl AsFd, path: &Path) -> Result<(), Errno> {
    let (above, name) = above(root, path)?;
    rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)
}

fn above(root: impl AsFd, path: &Path) -> Result<(OwnedFd, &OsStr), Errno> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let above = directory(root, path.parent().unwrap_or(Path::new("")))?;
    Ok((above, name))
}

/// Reads at most `limit` bytes of the regular file `path`; `None` where a longer one lies.
pub(crate) fn read(root: impl AsFd, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Errno> {
    use std::io::Read;
    let file = std::fs::File::from(open(root, path, OFlags::RDONLY)?);
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Err(Errno::INVAL);
    }
    let mut bytes = Vec::new();
    let read = file.take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}
