//! Names in directories, and what is known of what they stand for.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, c_long, c_uint};

use super::base::{check, check_int, owned};
use super::walk::{Links, walk};

/// Of what a name stands for, without following it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name {
    /// `S_IFREG` and its like.
    pub(crate) kind: u32,
    /// With the special bits.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) inode: u64,
    pub(crate) size: u64,
    pub(crate) device: u64,
    /// Which mount it is in: two of one file system differ.
    pub(crate) mount: u64,
    /// Seconds and nanoseconds of the last access and the last change of its content.
    pub(crate) times: [(i64, u32); 2],
    /// The same of its last change of any kind.
    pub(crate) changed: (i64, u32),
    /// A mount begins here. None where the kernel does not say (before Linux 5.8).
    pub(crate) begins: Option<bool>,
}

impl Name {
    pub(crate) fn is_directory(&self) -> bool {
        self.kind == libc::S_IFDIR
    }
}

#[repr(C)]
#[derive(Default, Clone, Copy)]
struct Time {
    seconds: i64,
    nanoseconds: u32,
    reserved: i32,
}

/// The kernel's struct statx.
#[repr(C)]
#[derive(Default)]
struct Statx {
    mask: u32,
    block_size: u32,
    attributes: u64,
    links: u32,
    uid: u32,
    gid: u32,
    mode: u16,
    padding: u16,
    inode: u64,
    size: u64,
    blocks: u64,
    attributes_mask: u64,
    accessed: Time,
    born: Time,
    changed: Time,
    modified: Time,
    special_device: [u32; 2],
    device: [u32; 2],
    mount: u64,
    rest: [u64; 13],
}

/// An empty name is the descriptor itself.
pub(crate) fn name_at(at: BorrowedFd<'_>, name: &CStr) -> io::Result<Name> {
    const BASIC_AND_MOUNT: c_uint = 0x7ff | 0x1000;
    const MOUNT_ROOT: u64 = 0x2000;
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH | libc::AT_NO_AUTOMOUNT;
    let mut found = Statx::default();
    // SAFETY: the structure is the kernel's and outlives the call; NUL-terminated string.
    check(unsafe {
        libc::syscall(
            libc::SYS_statx,
            at.as_raw_fd(),
            name.as_ptr(),
            flags,
            BASIC_AND_MOUNT,
            &raw mut found,
        )
    })?;
    let time = |time: Time| (time.seconds, time.nanoseconds);
    Ok(Name {
        kind: u32::from(found.mode) & libc::S_IFMT,
        mode: u32::from(found.mode) & 0o7777,
        uid: found.uid,
        inode: found.inode,
        size: found.size,
        device: libc::makedev(found.device[0], found.device[1]),
        mount: found.mount,
        times: [time(found.accessed), time(found.modified)],
        changed: time(found.changed),
        begins: (found.attributes_mask & MOUNT_ROOT != 0)
            .then_some(found.attributes & MOUNT_ROOT != 0),
    })
}

/// How [`resolve`] goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolve {
    /// However long it takes.
    Waiting,
    /// EAGAIN where the kernel would have to look something up.
    AtOnce,
}

/// What `path` leads to from `base`, as any other process would find it: by no link that means another thing for each
/// process that follows it (ELOOP). A symlink at its end is not followed.
pub(crate) fn resolve(
    base: BorrowedFd<'_>,
    path: &CStr,
    flags: c_int,
    how: Resolve,
) -> io::Result<OwnedFd> {
    match resolve_by(base, path, flags, how) {
        // Whoever asks it not to wait asks again.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => match how {
            Resolve::AtOnce => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
            Resolve::Waiting => walk(base, path, flags, Links::Followed),
        },
        resolved => resolved,
    }
}

/// That by the kernel alone.
fn resolve_by(
    base: BorrowedFd<'_>,
    path: &CStr,
    flags: c_int,
    how: Resolve,
) -> io::Result<OwnedFd> {
    const NO_MAGICLINKS: u64 = 0x2;
    const CACHED: u64 = 0x20;
    let cached = match how {
        Resolve::Waiting => 0,
        Resolve::AtOnce => CACHED,
    };
    let flags = flags | libc::O_PATH | libc::O_CLOEXEC;
    // struct open_how.
    let how: [u64; 3] = [flags as u64, 0, NO_MAGICLINKS | cached];
    // SAFETY: the structure outlives the call and is as long as said; NUL-terminated string.
    owned(unsafe {
        libc::syscall(
            libc::SYS_openat2,
            c_long::from(base.as_raw_fd()),
            path.as_ptr(),
            how.as_ptr(),
            size_of_val(&how),
        )
    })
}

/// `flags` as those of renameat2(2).
pub(crate) fn rename_at(
    from: (BorrowedFd<'_>, &CStr),
    to: (BorrowedFd<'_>, &CStr),
    flags: c_uint,
) -> io::Result<()> {
    // SAFETY: NUL-terminated strings.
    check(unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            from.0.as_raw_fd(),
            from.1.as_ptr(),
            to.0.as_raw_fd(),
            to.1.as_ptr(),
            flags,
        )
    })
    .map(drop)
}

/// A second name in another directory; of a symlink itself.
pub(crate) fn link_at(from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    // SAFETY: a NUL-terminated string.
    check_int(unsafe {
        libc::linkat(
            from.as_raw_fd(),
            name.as_ptr(),
            to.as_raw_fd(),
            name.as_ptr(),
            0,
        )
    })
    .map(drop)
}

/// Removes an empty directory.
pub(crate) fn remove_directory_at(at: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    // SAFETY: a NUL-terminated string.
    check_int(unsafe { libc::unlinkat(at.as_raw_fd(), name.as_ptr(), libc::AT_REMOVEDIR) })
        .map(drop)
}

/// See [`Name::times`].
pub(crate) fn set_times(fd: BorrowedFd<'_>, times: [(i64, u32); 2]) -> io::Result<()> {
    let times = times.map(|(seconds, nanoseconds)| libc::timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds.into(),
    });
    // SAFETY: two times are there.
    check_int(unsafe { libc::futimens(fd.as_raw_fd(), times.as_ptr()) }).map(drop)
}

/// Gives `to` every extended attribute of `from` that this process may give.
pub(crate) fn copy_attributes(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    /// More the kernel never has.
    const MOST: usize = 64 << 10;
    let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
    let (mut names, mut value) = (vec![0u8; MOST], Vec::new());
    // SAFETY: buffers are as long as said.
    let got = unsafe { libc::flistxattr(from, names.as_mut_ptr().cast(), names.len()) };
    match check(got as c_long) {
        Ok(got) => names.truncate(got as usize),
        Err(error) if error.raw_os_error() == Some(libc::ENOTSUP) => return Ok(()),
        Err(error) => return Err(error),
    }
    let mut rest = names.as_slice();
    while let Ok(name) = CStr::from_bytes_until_nul(rest) {
        rest = &rest[name.to_bytes_with_nul().len()..];
        value.resize(MOST, 0);
        // SAFETY: the buffer is as long as said; NUL-terminated string.
        let got =
            unsafe { libc::fgetxattr(from, name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
        // Gone meanwhile, or not to be read.
        let Ok(got) = usize::try_from(got) else {
            continue;
        };
        // SAFETY: as many bytes are there; NUL-terminated string. What may not be given is left out.
        unsafe { libc::fsetxattr(to, name.as_ptr(), value.as_ptr().cast(), got, 0) };
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files")]
mod tests {
    use std::os::fd::AsFd;

    use super::super::mount::open_inside_by;
    use super::super::{c_string, look_at};
    use super::*;

    #[test]
    fn the_structure_is_as_long_as_the_kernels() {
        assert_eq!(size_of::<Statx>(), 256);
    }

    /// The kernel's own answers are the measure.
    #[test]
    fn step_by_step_is_as_the_kernel_goes() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path();
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::write(top.join("a/file"), "x").unwrap();
        for (text, name) in [
            ("a", "link"),
            ("../a", "a/up"),
            ("loop", "loop"),
            ("missing", "dangling"),
            ("/proc/self/root", "magic"),
            ("/tmp", "absolute"),
        ] {
            std::os::unix::fs::symlink(text, top.join(name)).unwrap();
        }
        let base: OwnedFd = std::fs::File::open(top).unwrap().into();
        let paths = [
            "a/b",
            "/a/b",
            "a/./b/",
            "a/../a/file",
            "a/file",
            "a/file/x",
            "link/b",
            "link",
            "a/up/b",
            "a/up",
            "loop",
            "loop/x",
            "dangling",
            "magic/etc",
            "absolute",
            "missing",
            "missing/x",
            ".",
        ];
        let seen = |found: io::Result<OwnedFd>| {
            let found = found.and_then(|found| look_at(found.as_fd()));
            let found = found.map(|found| (found.kind, found.device));
            found.map_err(|error| error.raw_os_error())
        };
        for path in paths {
            let text = c_string(path.as_bytes()).unwrap();
            for flags in [0, libc::O_NOFOLLOW, libc::O_DIRECTORY] {
                let kernel = resolve_by(base.as_fd(), &text, flags, Resolve::Waiting);
                let ours = walk(base.as_fd(), &text, flags, Links::Followed);
                assert_eq!(seen(ours), seen(kernel), "{path} {flags:o}");
            }
            if !path.contains("..") {
                let kernel = open_inside_by(base.as_fd(), &text);
                let ours = walk(base.as_fd(), &text, libc::O_NOFOLLOW, Links::Refused);
                let name = |found: io::Result<OwnedFd>| found.is_ok();
                assert_eq!(name(ours), name(kernel), "{path}");
            }
        }
    }
}
