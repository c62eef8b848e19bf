//! The system calls that a program inside may not make. docs/decisions/0002-native-syscalls.md says
//! why each is here. Written by hand, not with a filter library, because one filter needs several
//! answers and an upper bound.

use libc::{c_long, sock_filter};

#[cfg(test)]
mod profiles;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const EQUAL: u16 = 0x15;
const GREATER: u16 = 0x25;
const ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;
const ASK: u32 = 0x7fc0_0000;

/// Offsets in struct seccomp_data.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument_low(index: u32) -> u32 {
    16 + 8 * index
}
const fn argument_high(index: u32) -> u32 {
    argument_low(index) + 4
}

#[cfg(target_arch = "x86_64")]
const OURS: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OURS: u32 = 0xc000_00b7;
/// Numbers above belong to the x32 interface.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// The newest system call that was judged (`mseal`, Linux 6.10). Later ones do not exist inside.
const LAST: u32 = 462;
/// Every `CLONE_NEW*` that fits in the flags of clone(2) and unshare(2), and `CLONE_NEWTIME`.
const NEW_NAMESPACES: u32 = 0x7e02_0000;
const NEW_TIME: u32 = 0x80;

/// `S_ISUID` and `S_ISGID`: see [`special_bits`].
const SPECIAL: u32 = 0o6000;
/// `O_CREAT`, and the bit of `O_TMPFILE` that `O_DIRECTORY` does not have: only then is there a mode.
const CREATES: u32 = 0o100 | 0o20_000_000;

/// fcntl(2) commands up to here are POSIX's, locks of open files and signals.
const LAST_COMMON_COMMAND: u32 = 1023;
/// The commands beyond that are allowed. Not F_SETLEASE and its successors: a lease on a file of the workspace stops
/// whoever opens it on the host, for most of a minute and again and again.
const COMMANDS: [i32; 11] = [
    1025, // F_GETLEASE
    1027, // F_DUPFD_QUERY
    1028, // F_CREATED_QUERY
    libc::F_DUPFD_CLOEXEC,
    libc::F_SETPIPE_SZ,
    libc::F_GETPIPE_SZ,
    libc::F_ADD_SEALS,
    libc::F_GET_SEALS,
    1035, // F_GET_RW_HINT
    1036, // F_SET_RW_HINT
    1037, // F_GET_FILE_RW_HINT
];

const EPERM: u32 = ERRNO + 1;
const EINVAL: u32 = ERRNO + 22;
const ENOSYS: u32 = ERRNO + 38;
const EAFNOSUPPORT: u32 = ERRNO + 97;

/// Refused whatever the arguments are.
const REFUSED: &[(&str, c_long)] = &[
    // The view of the file system.
    ("mount", libc::SYS_mount),
    ("umount2", libc::SYS_umount2),
    ("pivot_root", libc::SYS_pivot_root),
    ("chroot", libc::SYS_chroot),
    ("move_mount", libc::SYS_move_mount),
    ("open_tree", libc::SYS_open_tree),
    ("fsopen", libc::SYS_fsopen),
    ("fsconfig", libc::SYS_fsconfig),
    ("fsmount", libc::SYS_fsmount),
    ("fspick", libc::SYS_fspick),
    ("mount_setattr", libc::SYS_mount_setattr),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ("setns", libc::SYS_setns),
    // The kernel and the machine.
    ("acct", libc::SYS_acct),
    ("bpf", libc::SYS_bpf),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_uring_register", libc::SYS_io_uring_register),
    ("init_module", libc::SYS_init_module),
    ("finit_module", libc::SYS_finit_module),
    ("delete_module", libc::SYS_delete_module),
    ("kexec_load", libc::SYS_kexec_load),
    ("reboot", libc::SYS_reboot),
    ("swapon", libc::SYS_swapon),
    ("swapoff", libc::SYS_swapoff),
    ("sethostname", libc::SYS_sethostname),
    ("setdomainname", libc::SYS_setdomainname),
    ("settimeofday", libc::SYS_settimeofday),
    ("clock_settime", libc::SYS_clock_settime),
    ("syslog", libc::SYS_syslog),
    ("vhangup", libc::SYS_vhangup),
    ("quotactl", libc::SYS_quotactl),
    ("quotactl_fd", libc::SYS_quotactl_fd),
    ("lookup_dcookie", libc::SYS_lookup_dcookie),
    ("nfsservctl", libc::SYS_nfsservctl),
    ("fanotify_init", libc::SYS_fanotify_init),
    // Keys are per user, not per namespace.
    ("keyctl", libc::SYS_keyctl),
    ("add_key", libc::SYS_add_key),
    ("request_key", libc::SYS_request_key),
    // Other processes' memory and descriptors, past what ptrace checks.
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("process_madvise", libc::SYS_process_madvise),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("kcmp", libc::SYS_kcmp),
    ("migrate_pages", libc::SYS_migrate_pages),
    ("move_pages", libc::SYS_move_pages),
    #[cfg(target_arch = "x86_64")]
    ("kexec_file_load", libc::SYS_kexec_file_load),
    #[cfg(target_arch = "x86_64")]
    ("iopl", libc::SYS_iopl),
    #[cfg(target_arch = "x86_64")]
    ("ioperm", libc::SYS_ioperm),
    #[cfg(target_arch = "x86_64")]
    ("modify_ldt", libc::SYS_modify_ldt),
    #[cfg(target_arch = "x86_64")]
    ("uselib", libc::SYS_uselib),
    #[cfg(target_arch = "x86_64")]
    ("ustat", libc::SYS_ustat),
    #[cfg(target_arch = "x86_64")]
    ("sysfs", libc::SYS_sysfs),
    #[cfg(target_arch = "x86_64")]
    ("_sysctl", libc::SYS__sysctl),
];

/// What [`asks_for_renames`] asks about.
pub(crate) const RENAMES: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
];

/// The filter, to be installed last in the child that becomes the program.
pub(crate) fn program() -> Vec<sock_filter> {
    filter(&[])
}

/// The same; but whoever has its listener is asked what is to become of a rename.
pub(crate) fn asks_for_renames() -> Vec<sock_filter> {
    filter(RENAMES)
}

fn filter(asked: &[c_long]) -> Vec<sock_filter> {
    let mut out = vec![
        step(LOAD, ARCHITECTURE),
        jump(EQUAL, OURS, 1, 0),
        answer(KILL_PROCESS),
    ];
    out.push(step(LOAD, NUMBER));
    #[cfg(target_arch = "x86_64")]
    out.extend([jump(GREATER, X32 - 1, 0, 1), answer(KILL_PROCESS)]);
    out.extend([jump(GREATER, LAST, 0, 1), answer(ENOSYS)]);
    for &(_, call) in REFUSED {
        rule(&mut out, call, &[answer(EPERM)]);
    }
    // ENOSYS, not EPERM: the C library then falls back to clone, whose flags can be read here.
    rule(&mut out, libc::SYS_clone3, &[answer(ENOSYS)]);
    // Every context comes out of one pool of the machine (fs.aio-max-nr); databases then read without it.
    rule(&mut out, libc::SYS_io_setup, &[answer(ENOSYS)]);
    rule(&mut out, libc::SYS_fcntl, &commands());
    // Its mode cannot be read; programs then use openat.
    rule(&mut out, libc::SYS_openat2, &[answer(ENOSYS)]);
    special_bits(&mut out);
    rule(&mut out, libc::SYS_clone, &refuse_bits(0, NEW_NAMESPACES));
    rule(
        &mut out,
        libc::SYS_unshare,
        &refuse_bits(0, NEW_NAMESPACES | NEW_TIME),
    );
    rule(&mut out, libc::SYS_socket, &sockets());
    let only_unix = allow_values(0, &[libc::AF_UNIX], EAFNOSUPPORT);
    rule(&mut out, libc::SYS_socketpair, &only_unix);
    rule(
        &mut out,
        libc::SYS_ioctl,
        &refuse_values(1, &[0x5412, 0x541c]),
    ); // TIOCSTI, TIOCLINUX
    // Linux, 32-bit Linux, both with uname 2.6, without address randomisation, and the question.
    let personalities = [0, 8, 0x2_0000, 0x2_0008, 0x4_0000, -1];
    rule(
        &mut out,
        libc::SYS_personality,
        &allow_values(0, &personalities, EPERM),
    );
    rule(&mut out, libc::SYS_prlimit64, &own_limits());
    for &call in asked {
        rule(&mut out, call, &[answer(ASK)]);
    }
    out.push(answer(ALLOW));
    out
}

fn step(code: u16, k: u32) -> sock_filter {
    sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

fn answer(action: u32) -> sock_filter {
    step(RETURN, action)
}

/// Skips `yes` or `no` instructions.
fn jump(code: u16, k: u32, yes: u8, no: u8) -> sock_filter {
    sock_filter {
        code,
        jt: yes,
        jf: no,
        k,
    }
}

/// `body` for this call, and it always answers: the number is no longer loaded after it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "short and positive"
)]
fn rule(out: &mut Vec<sock_filter>, call: c_long, body: &[sock_filter]) {
    debug_assert!(body.len() < 256 && body.last().is_some_and(|last| last.code == RETURN));
    out.push(jump(EQUAL, call as u32, 0, body.len() as u8));
    out.extend(body);
}

/// No set-user-id and no set-group-id file: inside they would mean nothing, but a workspace is a host
/// directory, and there such a file gives any local user the caller's rights, root's even.
fn special_bits(out: &mut Vec<sock_filter>) {
    let changes = [
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (libc::SYS_fchmodat2, 2),
        (libc::SYS_mknodat, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, 1),
    ];
    for (call, mode) in changes {
        rule(out, call, &refuse_bits(mode, SPECIAL));
    }
    let opens = [
        (libc::SYS_openat, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, 1),
    ];
    for (call, flags) in opens {
        let mut body = vec![
            step(LOAD, argument_low(flags)),
            jump(ANY_BIT, CREATES, 1, 0),
            answer(ALLOW),
        ];
        body.extend(refuse_bits(flags + 1, SPECIAL));
        rule(out, call, &body);
    }
}

fn refuse_bits(argument: u32, bits: u32) -> Vec<sock_filter> {
    vec![
        step(LOAD, argument_low(argument)),
        jump(ANY_BIT, bits, 0, 1),
        answer(EPERM),
        answer(ALLOW),
    ]
}

fn refuse_values(argument: u32, values: &[u32]) -> Vec<sock_filter> {
    let mut body = vec![step(LOAD, argument_low(argument))];
    for &value in values {
        body.extend([jump(EQUAL, value, 0, 1), answer(EPERM)]);
    }
    body.push(answer(ALLOW));
    body
}

#[expect(clippy::cast_sign_loss, reason = "compared as bits")]
fn allow_values(argument: u32, values: &[i32], otherwise: u32) -> Vec<sock_filter> {
    let mut body = vec![step(LOAD, argument_low(argument))];
    for &value in values {
        body.extend([jump(EQUAL, value as u32, 0, 1), answer(ALLOW)]);
    }
    body.push(answer(otherwise));
    body
}

/// What a file system without leases answers to the rest.
fn commands() -> Vec<sock_filter> {
    let mut body = vec![
        step(LOAD, argument_low(1)),
        jump(GREATER, LAST_COMMON_COMMAND, 1, 0),
        answer(ALLOW),
    ];
    body.extend(allow_values(1, &COMMANDS, EINVAL));
    body
}

/// Unix sockets; IPv4 and IPv6 streams and datagrams of TCP, UDP, MPTCP and ping; netlink for routes
/// (what `getifaddrs` asks). Nothing else: no raw or packet sockets, no AF_ALG, no AF_VSOCK.
#[expect(clippy::cast_possible_truncation, reason = "a short list")]
fn sockets() -> Vec<sock_filter> {
    let mut internet = vec![
        step(LOAD, argument_low(1)),
        step(AND, 0xf),
        jump(EQUAL, libc::SOCK_STREAM as u32, 2, 0),
        jump(EQUAL, libc::SOCK_DGRAM as u32, 1, 0),
        answer(EPERM),
    ];
    internet.extend(allow_values(2, &[0, 1, 6, 17, 58, 262], EPERM));
    let routes = allow_values(2, &[0], EPERM);
    let mut body = vec![
        step(LOAD, argument_low(0)),
        jump(EQUAL, libc::AF_UNIX as u32, 0, 1),
        answer(ALLOW),
        jump(EQUAL, libc::AF_NETLINK as u32, 0, routes.len() as u8),
    ];
    body.extend(routes);
    body.extend([
        jump(EQUAL, libc::AF_INET as u32, 2, 0),
        jump(EQUAL, libc::AF_INET6 as u32, 1, 0),
        answer(EAFNOSUPPORT),
    ]);
    body.extend(internet);
    body
}

/// A process may set its own limits and read anyone's: the init has the same uid and must not be
/// starved by a limit of zero.
fn own_limits() -> Vec<sock_filter> {
    vec![
        step(LOAD, argument_low(0)),
        jump(EQUAL, 0, 5, 0),
        step(LOAD, argument_low(2)),
        jump(EQUAL, 0, 0, 2),
        step(LOAD, argument_high(2)),
        jump(EQUAL, 0, 1, 0),
        answer(EPERM),
        answer(ALLOW),
    ]
}
