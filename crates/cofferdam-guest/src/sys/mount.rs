//! Mounts and the view of the file system.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use libc::{c_int, c_long, c_uint};

use super::base::{check, check_int, owned};
use super::walk::{Links, walk};

pub(crate) const ATTR_RDONLY: u64 = 0x1;
pub(crate) const ATTR_NOSUID: u64 = 0x2;
pub(crate) const ATTR_NODEV: u64 = 0x4;
pub(crate) const ATTR_NOEXEC: u64 = 0x8;
const ATTR_IDMAP: u64 = 0x0010_0000;
const OPEN_TREE_CLONE: c_uint = 1;
const OPEN_TREE_CLOEXEC: c_uint = libc::O_CLOEXEC as c_uint;
const MOVE_MOUNT_F_EMPTY_PATH: c_uint = 0x4;
const MOVE_MOUNT_T_EMPTY_PATH: c_uint = 0x40;
const FSCONFIG_SET_FLAG: c_uint = 0;
const FSCONFIG_SET_STRING: c_uint = 1;
const FSCONFIG_CMD_CREATE: c_uint = 6;
const AT_RECURSIVE: c_int = 0x8000;

/// What [`clone_tree`] takes.
#[derive(Debug)]
pub(crate) enum TreeKind {
    /// With everything mounted below it; a symlink is followed. For system directories.
    Whole,
    /// Without what is mounted below it; a symlink is not followed. For named host paths, and with an
    /// empty path for `at` itself.
    Exact,
}

/// A detached copy of the mount at `path` (relative to `at`), without what is mounted below it
/// in a [`TreeKind::Whole`].
pub(crate) fn clone_tree(at: RawFd, path: &CStr, how: &TreeKind) -> io::Result<OwnedFd> {
    let flags = OPEN_TREE_CLONE
        | OPEN_TREE_CLOEXEC
        | match how {
            TreeKind::Whole => AT_RECURSIVE as c_uint,
            TreeKind::Exact => (libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) as c_uint,
        };
    // SAFETY: `path` is a NUL-terminated string that outlives the call.
    owned(unsafe { libc::syscall(libc::SYS_open_tree, c_long::from(at), path.as_ptr(), flags) })
}

/// Mounts the detached `tree` on what `target` refers to.
pub(crate) fn attach(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    let empty = c"".as_ptr();
    let flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
    // SAFETY: both paths are NUL-terminated; the descriptors are open.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            c_long::from(tree.as_raw_fd()),
            empty,
            c_long::from(target.as_raw_fd()),
            empty,
            flags,
        )
    })
    .map(drop)
}

#[repr(C)]
#[derive(Default)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

fn mount_setattr(at: RawFd, path: &CStr, flags: c_int, attr: &MountAttr) -> io::Result<()> {
    // SAFETY: `attr` is the kernel's struct mount_attr, version 0, and outlives the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            c_long::from(at),
            path.as_ptr(),
            c_long::from(flags),
            std::ptr::from_ref(attr),
            size_of::<MountAttr>(),
        )
    })
    .map(drop)
}

/// Adds attributes to a mount, and to all below it if `recursive`.
pub(crate) fn restrict(tree: BorrowedFd<'_>, set: u64, recursive: bool) -> io::Result<()> {
    let attr = MountAttr {
        set,
        ..MountAttr::default()
    };
    let flags = libc::AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    mount_setattr(tree.as_raw_fd(), c"", flags, &attr)
}

/// Maps the ids of a detached mount by a user namespace's maps.
pub(crate) fn map_ids(tree: BorrowedFd<'_>, userns: BorrowedFd<'_>) -> io::Result<()> {
    let attr = MountAttr {
        set: ATTR_IDMAP,
        userns: userns.as_raw_fd() as u64,
        ..MountAttr::default()
    };
    mount_setattr(tree.as_raw_fd(), c"", libc::AT_EMPTY_PATH, &attr)
}

/// Mount events of the host no longer arrive here, nor ours there.
pub(crate) fn make_mounts_private() -> io::Result<()> {
    let attr = MountAttr {
        propagation: libc::MS_PRIVATE,
        ..MountAttr::default()
    };
    mount_setattr(libc::AT_FDCWD, c"/", AT_RECURSIVE, &attr)
}

/// What happens to mounts below this one stays there.
pub(crate) fn make_private(tree: BorrowedFd<'_>) -> io::Result<()> {
    let attr = MountAttr {
        propagation: libc::MS_PRIVATE,
        ..MountAttr::default()
    };
    mount_setattr(tree.as_raw_fd(), c"", libc::AT_EMPTY_PATH, &attr)
}

/// A new file system of this type with these options, not attached anywhere yet. An option without a value is a flag.
pub(crate) fn new_filesystem(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    attr: u64,
) -> io::Result<OwnedFd> {
    // SAFETY: NUL-terminated strings that outlive the calls; descriptors are open.
    unsafe {
        let context = owned(libc::syscall(libc::SYS_fsopen, kind.as_ptr(), 1))?;
        let fd = c_long::from(context.as_raw_fd());
        for (key, value) in options {
            let (how, value) = if value.is_empty() {
                (FSCONFIG_SET_FLAG, std::ptr::null())
            } else {
                (FSCONFIG_SET_STRING, value.as_ptr())
            };
            check(libc::syscall(
                libc::SYS_fsconfig,
                fd,
                how,
                key.as_ptr(),
                value,
                0,
            ))?;
        }
        let none = std::ptr::null::<u8>();
        check(libc::syscall(
            libc::SYS_fsconfig,
            fd,
            FSCONFIG_CMD_CREATE,
            none,
            none,
            0,
        ))?;
        owned(libc::syscall(libc::SYS_fsmount, fd, 1, attr as c_uint))
    }
}

/// The current directory becomes the root; the old root is gone for good.
pub(crate) fn pivot_here() -> io::Result<()> {
    // SAFETY: NUL-terminated strings.
    unsafe {
        check(libc::syscall(
            libc::SYS_pivot_root,
            c".".as_ptr(),
            c".".as_ptr(),
        ))?;
        check_int(libc::umount2(c".".as_ptr(), libc::MNT_DETACH))?;
        check_int(libc::chdir(c"/".as_ptr()))?;
    }
    Ok(())
}

/// Takes away what is mounted at the current directory. Who still has it open goes on with it.
pub(crate) fn unmount_here() -> io::Result<()> {
    // SAFETY: a NUL-terminated string.
    check_int(unsafe { libc::umount2(c".".as_ptr(), libc::MNT_DETACH) }).map(drop)
}

/// Whether nobody can write here: by this mount, or to the file system below it.
pub(crate) fn is_read_only(fd: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: all zeros is a valid value of it, and it outlives the call.
    let found = unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        check_int(libc::fstatvfs(fd.as_raw_fd(), &raw mut found))?;
        found
    };
    Ok(found.f_flag & libc::ST_RDONLY != 0)
}

pub(crate) fn change_directory(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes a descriptor.
    check_int(unsafe { libc::fchdir(fd.as_raw_fd()) }).map(drop)
}

#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// Opens `path` as a location below `root`, through mounts but through no symlink.
pub(crate) fn open_inside(root: BorrowedFd<'_>, path: &CStr) -> io::Result<OwnedFd> {
    match open_inside_by(root, path) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            walk(root, path, libc::O_NOFOLLOW, Links::Refused)
        }
        opened => opened,
    }
}

/// That by the kernel alone.
pub(super) fn open_inside_by(root: BorrowedFd<'_>, path: &CStr) -> io::Result<OwnedFd> {
    const NO_MAGICLINKS: u64 = 0x2;
    const NO_SYMLINKS: u64 = 0x4;
    const IN_ROOT: u64 = 0x10;
    let how = OpenHow {
        flags: (libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW) as u64,
        mode: 0,
        resolve: NO_MAGICLINKS | NO_SYMLINKS | IN_ROOT,
    };
    let root = c_long::from(root.as_raw_fd());
    // SAFETY: `how` is the kernel's struct open_how and outlives the call.
    owned(unsafe {
        libc::syscall(
            libc::SYS_openat2,
            root,
            path.as_ptr(),
            &raw const how,
            size_of::<OpenHow>(),
        )
    })
}
