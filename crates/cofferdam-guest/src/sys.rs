//! The system calls that the guest needs, as safe functions. The only file with `unsafe`.

#![expect(
    unsafe_code,
    reason = "raw system calls: mounts, namespaces, capabilities, seccomp"
)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_ptr_alignment,
    reason = "control messages are read unaligned; system calls return a long that is a descriptor or a process id"
)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, c_long, c_uint, c_ulong};

pub(crate) const ATTR_RDONLY: u64 = 0x1;
pub(crate) const ATTR_NOSUID: u64 = 0x2;
pub(crate) const ATTR_NODEV: u64 = 0x4;
pub(crate) const ATTR_NOEXEC: u64 = 0x8;
const ATTR_IDMAP: u64 = 0x0010_0000;
const OPEN_TREE_CLONE: c_uint = 1;
const OPEN_TREE_CLOEXEC: c_uint = libc::O_CLOEXEC as c_uint;
const MOVE_MOUNT_F_EMPTY_PATH: c_uint = 0x4;
const MOVE_MOUNT_T_EMPTY_PATH: c_uint = 0x40;
const FSCONFIG_SET_STRING: c_uint = 1;
const FSCONFIG_CMD_CREATE: c_uint = 6;
const AT_RECURSIVE: c_int = 0x8000;

/// The network namespace, which a sandbox shares with the host only if the user says so.
pub(crate) const NETWORK: c_int = libc::CLONE_NEWNET;

/// Every other namespace: a sandbox always has its own.
pub(crate) const NAMESPACES: c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn check_int(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn owned(result: c_long) -> io::Result<OwnedFd> {
    let fd = check(result)?;
    // SAFETY: the kernel has just made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// A path or word for the kernel; a NUL byte inside is an error.
pub(crate) fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// As fork(2), with the child in new namespaces. Zero in the child. The guest has one thread, so
/// the child may go on as if nothing had happened.
pub(crate) fn fork_into(flags: c_int) -> io::Result<i32> {
    // SAFETY: no CLONE_VM and no new stack: this is fork.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone,
            c_long::from(flags | libc::SIGCHLD),
            0_i64,
            0_i64,
            0_i64,
            0_i64,
        )
    };
    check(pid).map(|pid| pid as i32)
}

/// Ends this process at once.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: always sound; nothing of ours needs to run at exit.
    unsafe { libc::_exit(code) }
}

/// Waits for the end of `pid`, or of any child if it is -1. `None` where `block` is false and none has ended.
///
/// A child can make its parent its tracer (`PTRACE_TRACEME`) and stop: that is reported like an end, and nobody else
/// could wake it. It is let go, with the signal that stopped it.
pub(crate) fn wait(pid: i32, block: bool) -> io::Result<Option<(i32, i32)>> {
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call.
        let got =
            unsafe { libc::waitpid(pid, &raw mut status, if block { 0 } else { libc::WNOHANG }) };
        match check_int(got) {
            Ok(0) => return Ok(None),
            Ok(stopped) if libc::WIFSTOPPED(status) => let_go(stopped, libc::WSTOPSIG(status)),
            Ok(ended) => return Ok(Some((ended, status))),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Ends being the tracer of a stopped child. It gets the signal as if nobody had traced it; but for SIGTRAP, which
/// an execve(2) makes only for a tracer.
fn let_go(pid: i32, signal: c_int) {
    let signal = if signal == libc::SIGTRAP { 0 } else { signal };
    // SAFETY: takes numbers. It fails where the child was killed meanwhile: the next wait tells.
    unsafe { libc::ptrace(libc::PTRACE_DETACH, pid, 0, c_long::from(signal)) };
}

pub(crate) fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: takes two numbers.
    check_int(unsafe { libc::kill(pid, signal) }).map(drop)
}

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

/// A new file system of this type with these options, not attached anywhere yet.
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
            let (key, value) = (key.as_ptr(), value.as_ptr());
            check(libc::syscall(
                libc::SYS_fsconfig,
                fd,
                FSCONFIG_SET_STRING,
                key,
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

pub(crate) fn open_at(at: RawFd, path: &CStr, flags: c_int, mode: u32) -> io::Result<OwnedFd> {
    // SAFETY: NUL-terminated string.
    let fd = unsafe { libc::openat(at, path.as_ptr(), flags | libc::O_CLOEXEC, mode) };
    owned(c_long::from(fd))
}

pub(crate) fn make_directory(at: RawFd, path: &CStr, mode: u32) -> io::Result<()> {
    // SAFETY: NUL-terminated string.
    check_int(unsafe { libc::mkdirat(at, path.as_ptr(), mode) }).map(drop)
}

pub(crate) fn make_symlink(at: RawFd, text: &CStr, path: &CStr) -> io::Result<()> {
    // SAFETY: NUL-terminated strings.
    check_int(unsafe { libc::symlinkat(text.as_ptr(), at, path.as_ptr()) }).map(drop)
}

pub(crate) fn read_link(path: &CStr) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0u8; 4096];
    // SAFETY: the buffer is as long as said.
    let got = unsafe { libc::readlink(path.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
    buffer.truncate(check(got as c_long)? as usize);
    Ok(buffer)
}

/// Mode, owner, group and device of what a descriptor refers to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) kind: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) device: u64,
}

impl Found {
    pub(crate) fn is_directory(&self) -> bool {
        self.kind == libc::S_IFDIR
    }
}

pub(crate) fn look_at(fd: BorrowedFd<'_>) -> io::Result<Found> {
    // SAFETY: all zeros is a valid stat, and it outlives the call.
    let stat = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        check_int(libc::fstat(fd.as_raw_fd(), &raw mut stat))?;
        stat
    };
    Ok(Found {
        kind: stat.st_mode & libc::S_IFMT,
        uid: stat.st_uid,
        gid: stat.st_gid,
        device: stat.st_dev,
    })
}

/// Real, effective and saved ids of this process.
pub(crate) fn become_ids(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: raw system calls, because there is one thread and glibc's wrappers signal the others.
    unsafe {
        check(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
        check(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
    }
    Ok(())
}

/// The effective uid and gid of this process.
pub(crate) fn own_ids() -> (u32, u32) {
    // SAFETY: no arguments.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Writes one byte.
pub(crate) fn write_byte(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: one byte is there.
    check(unsafe { libc::write(fd.as_raw_fd(), b".".as_ptr().cast(), 1) } as c_long).map(drop)
}

pub(crate) fn drop_groups() -> io::Result<()> {
    // SAFETY: an empty list.
    check(unsafe { libc::syscall(libc::SYS_setgroups, 0_usize, std::ptr::null::<u32>()) }).map(drop)
}

pub(crate) fn set_hostname(name: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length belong together.
    check_int(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }).map(drop)
}

pub(crate) fn process_option(option: c_int, value: c_ulong) -> io::Result<()> {
    // SAFETY: only options whose argument is a number are used.
    check_int(unsafe { libc::prctl(option, value, 0, 0, 0) }).map(drop)
}

/// Gives up every capability for good, in all five sets.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    for capability in 0..64 {
        match process_option(libc::PR_CAPBSET_DROP, capability) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
            other => other?,
        }
    }
    process_option(
        libc::PR_CAP_AMBIENT,
        libc::PR_CAP_AMBIENT_CLEAR_ALL as c_ulong,
    )?;
    let head: [u32; 2] = [0x2008_0522, 0];
    let none = [0u32; 6];
    // SAFETY: version 3 takes two sets of three words.
    check(unsafe { libc::syscall(libc::SYS_capset, head.as_ptr(), none.as_ptr()) }).map(drop)
}

/// Installs a seccomp filter; the process must have no_new_privs.
pub(crate) fn install_filter(program: &[libc::sock_filter]) -> io::Result<()> {
    let length =
        u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?;
    let filter = libc::sock_fprog {
        len: length,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the program outlives the call, which copies it.
    check(unsafe { libc::syscall(libc::SYS_seccomp, 1, 0, &raw const filter) }).map(drop)
}

pub(crate) fn set_limit(resource: u32, soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit64 {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: the structure outlives the call.
    check_int(unsafe { libc::setrlimit64(resource, &raw const limit) }).map(drop)
}

/// The hard limit of this process.
pub(crate) fn hard_limit(resource: u32) -> io::Result<u64> {
    let mut limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure outlives the call.
    check_int(unsafe { libc::getrlimit64(resource, &raw mut limit) })?;
    Ok(limit.rlim_max)
}

/// Brings the loopback interface of this network namespace up.
pub(crate) fn loopback_up() -> io::Result<()> {
    // SAFETY: all zeros is a valid ifreq; it outlives the call; the name fits.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let socket = owned(c_long::from(socket))?;
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l'.cast_signed();
        request.ifr_name[1] = b'o'.cast_signed();
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        check_int(libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as _,
            &raw const request,
        ))?;
    }
    Ok(())
}

/// A netlink socket of this protocol, close-on-exec.
pub(crate) fn netlink_socket(protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd = unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            protocol,
        )
    };
    owned(c_long::from(fd))
}

/// Whether a socket of this kind may be made at all.
pub(crate) fn try_socket(family: c_int, kind: c_int, protocol: c_int) -> io::Result<()> {
    // SAFETY: takes numbers; the result is new and ours.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    owned(c_long::from(fd)).map(drop)
}

/// Changes how many connections may wait to be accepted.
pub(crate) fn listen(socket: BorrowedFd<'_>, backlog: c_int) -> io::Result<()> {
    // SAFETY: takes a descriptor and a number.
    check_int(unsafe { libc::listen(socket.as_raw_fd(), backlog) }).map(drop)
}

/// The names of all network interfaces of this namespace.
pub(crate) fn interfaces() -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    // SAFETY: the list ends with an entry whose index is zero and is freed once.
    unsafe {
        let list = libc::if_nameindex();
        if list.is_null() {
            return Err(io::Error::last_os_error());
        }
        let mut entry = list;
        while (*entry).if_index != 0 {
            names.push(
                CStr::from_ptr((*entry).if_name)
                    .to_string_lossy()
                    .into_owned(),
            );
            entry = entry.add(1);
        }
        libc::if_freenameindex(list);
    }
    Ok(names)
}

/// Sends all bytes in one piece.
pub(crate) fn write_all(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length belong together.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    match check(sent as c_long)? as usize {
        all if all == bytes.len() => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EMSGSIZE)),
    }
}

/// Sends bytes with descriptors that travel with the first of them; how many bytes went.
pub(crate) fn send_with(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[OwnedFd],
) -> io::Result<usize> {
    let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let length = size_of_val(raw.as_slice());
    // Words, so that the header in it is aligned.
    let mut control = [0u64; 16];
    // SAFETY: every pointer in the header points to memory that outlives the call, and the control
    // message is as long as what is copied into it.
    unsafe {
        let mut part = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(length as u32) as _;
        if header.msg_controllen as usize > size_of_val(&control) {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        (*message).cmsg_level = libc::SOL_SOCKET;
        (*message).cmsg_type = libc::SCM_RIGHTS;
        (*message).cmsg_len = libc::CMSG_LEN(length as u32) as _;
        std::ptr::copy_nonoverlapping(raw.as_ptr().cast(), libc::CMSG_DATA(message), length);
        let sent = libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL);
        Ok(check(sent as c_long)? as usize)
    }
}

/// From now on this process and its descendants reach only their own abstract unix sockets, not those of
/// others in the same network namespace. The process must have no_new_privs.
pub(crate) fn scope_abstract_sockets() -> io::Result<()> {
    const ABSTRACT_UNIX_SOCKET: u64 = 1;
    // struct landlock_ruleset_attr: nothing of files, nothing of ports, one scope.
    let attr: [u64; 3] = [0, 0, ABSTRACT_UNIX_SOCKET];
    // SAFETY: the structure outlives the call; the descriptor is new and ours.
    unsafe {
        let size = size_of_val(&attr);
        let ruleset = libc::syscall(libc::SYS_landlock_create_ruleset, attr.as_ptr(), size, 0);
        let ruleset = owned(ruleset)?;
        let fd = c_long::from(ruleset.as_raw_fd());
        check(libc::syscall(libc::SYS_landlock_restrict_self, fd, 0)).map(drop)
    }
}

/// A pipe, both ends close-on-exec.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: two descriptors fit; both are new and ours.
    unsafe {
        check_int(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Closes everything that the caller left open past the standard descriptors, then takes standard
/// input over as a descriptor of its own that does not survive exec.
pub(crate) fn take_standard_input() -> io::Result<OwnedFd> {
    // SAFETY: called first of all, when nothing here owns a descriptor; the result is new and ours.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3 as c_uint, c_uint::MAX, 0 as c_uint);
        owned(c_long::from(libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 3)))
    }
}

/// Nothing from `first` on survives exec.
pub(crate) fn close_on_exec_from(first: u32) {
    const CLOEXEC: c_uint = 4;
    // SAFETY: only sets a flag.
    unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, CLOEXEC) };
}

/// `target` becomes a copy of `fd` that survives exec.
pub(crate) fn install_fd(fd: RawFd, target: RawFd) -> io::Result<()> {
    // SAFETY: takes two descriptors.
    check_int(unsafe { libc::dup2(fd, target) }).map(drop)
}

/// Blocks these signals and returns a descriptor that reads them.
pub(crate) fn signal_descriptor(signals: &[c_int]) -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised before use and outlives the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        check_int(libc::sigprocmask(
            libc::SIG_BLOCK,
            &raw const set,
            std::ptr::null_mut(),
        ))?;
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        owned(c_long::from(libc::signalfd(-1, &raw const set, flags)))
    }
}

/// Signal mask empty and every disposition default, as a program expects them.
pub(crate) fn reset_signals() {
    // SAFETY: the set is initialised before use; SIG_DFL is always valid.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

pub(crate) fn ignore_signal(signal: c_int) {
    // SAFETY: SIG_IGN is always valid.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

pub(crate) fn new_session() -> io::Result<()> {
    // SAFETY: no argument.
    check_int(unsafe { libc::setsid() }).map(drop)
}

pub(crate) fn set_umask(mask: u32) {
    // SAFETY: takes a number.
    unsafe { libc::umask(mask) };
}

pub(crate) fn enter_directory(path: &CStr) -> io::Result<()> {
    // SAFETY: NUL-terminated string.
    check_int(unsafe { libc::chdir(path.as_ptr()) }).map(drop)
}

/// Replaces this program; returns only the error.
pub(crate) fn execute(program: &CStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let pointers = |words: &[CString]| {
        words
            .iter()
            .map(|w| w.as_ptr())
            .chain([std::ptr::null()])
            .collect::<Vec<_>>()
    };
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    // SAFETY: both arrays end with a null pointer and outlive the call.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// Waits until one of `fds` can be read or has been hung up; -1 waits for ever. True for each such.
pub(crate) fn poll(fds: &[RawFd], milliseconds: c_int) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> = fds
        .iter()
        .map(|&fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    // SAFETY: the array is as long as said.
    let got = unsafe {
        libc::poll(
            polled.as_mut_ptr(),
            polled.len() as libc::nfds_t,
            milliseconds,
        )
    };
    match check_int(got) {
        Err(error) if error.raw_os_error() != Some(libc::EINTR) => Err(error),
        _ => Ok(polled.iter().map(|p| p.revents != 0).collect()),
    }
}

/// Reads what is there; zero is end of file. The second value: descriptors that came along.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut fds = Vec::new();
    // Words, so that the headers in it are aligned.
    let mut control = [0u64; 16];
    // SAFETY: every pointer in the header points to memory that outlives the call; descriptors that
    // arrive are new and ours.
    let got = unsafe {
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        let got = loop {
            let got = libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC);
            match check(got as c_long) {
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                other => break other?,
            }
        };
        let mut message = libc::CMSG_FIRSTHDR(&raw const header);
        while !message.is_null() {
            let (level, kind) = ((*message).cmsg_level, (*message).cmsg_type);
            if level == libc::SOL_SOCKET && kind == libc::SCM_RIGHTS {
                let start = libc::CMSG_DATA(message);
                let bytes = (*message).cmsg_len as usize - (start as usize - message as usize);
                for n in 0..bytes / size_of::<RawFd>() {
                    let fd = start.cast::<RawFd>().add(n).read_unaligned();
                    fds.push(OwnedFd::from_raw_fd(fd));
                }
            }
            message = libc::CMSG_NXTHDR(&raw const header, message);
        }
        got
    };
    Ok((got as usize, fds))
}
