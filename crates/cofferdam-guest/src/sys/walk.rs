//! Paths step by step, where openat2(2) is not there: in a container's filter, which cannot read with what mode a file is made by it.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use libc::c_int;

use super::base::c_string;
use super::directory::{file_system, read_link_at};
use super::file::{look_at, open_at};

/// As the kernel bounds it.
const MOST_LINKS: usize = 40;
/// Of /proc, whose links mean another thing for each process that follows them.
pub(crate) const PROC: u32 = 0x9fa0;

/// What is done with symlinks on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// ELOOP, but for one at the end. A path is one below `base` then, whatever it begins with, and does not lead back (EXDEV).
    Refused,
    /// Followed, but for one at the end where it is not to be; ELOOP where it is /proc's.
    Followed,
}

/// The location that `path` is from `base`, by no step that openat2(2) would not have gone. `flags`: beside O_PATH.
pub(super) fn walk(
    base: BorrowedFd<'_>,
    path: &CStr,
    flags: c_int,
    links: Links,
) -> io::Result<OwnedFd> {
    let path = PathBuf::from(OsStr::from_bytes(path.to_bytes()));
    let own = libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    let root = || open_at(libc::AT_FDCWD, c"/", own | libc::O_DIRECTORY, 0);
    let (mut at, mut rest) = (base.try_clone_to_owned()?, steps(&path));
    if links == Links::Refused && rest.iter().any(|step| step.as_os_str() == "..") {
        return Err(io::Error::from_raw_os_error(libc::EXDEV));
    }
    let mut followed = 0;
    while let Some(step) = rest.pop() {
        if step.as_os_str() == "/" {
            if links == Links::Followed {
                at = root()?;
            }
            continue;
        }
        let name = c_string(step.as_os_str().as_bytes())?;
        let stays = rest.is_empty() && flags & libc::O_NOFOLLOW != 0;
        let next = open_at(at.as_raw_fd(), &name, own, 0)?;
        if stays || !look_at(next.as_fd())?.is_link() {
            at = next;
            continue;
        }
        followed += 1;
        let refused = links == Links::Refused || followed > MOST_LINKS;
        if refused || file_system(next.as_fd())? == PROC {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let leads = read_link_at(next.as_fd(), c"")?;
        rest.extend(steps(Path::new(OsStr::from_bytes(&leads))));
    }
    match flags & libc::O_DIRECTORY {
        0 => Ok(at),
        _ if look_at(at.as_fd())?.is_directory() => Ok(at),
        _ => Err(io::Error::from_raw_os_error(libc::ENOTDIR)),
    }
}

/// The last one first.
fn steps(path: &Path) -> Vec<PathBuf> {
    let steps = path.components().filter(|step| *step != Component::CurDir);
    let mut steps: Vec<PathBuf> = steps.map(|step| PathBuf::from(step.as_os_str())).collect();
    steps.reverse();
    steps
}
