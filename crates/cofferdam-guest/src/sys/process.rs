//! Processes: namespaces, ids, limits, signals.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, c_long, c_ulong};

use super::base::{check, check_int, owned};

/// The network namespace, which a sandbox shares with the host only if the user says so.
pub(crate) const NETWORK: c_int = libc::CLONE_NEWNET;

/// Every other namespace: a sandbox always has its own. Not that of control groups, which begins where its maker is:
/// see [`own_groups`].
pub(crate) const NAMESPACES: c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;

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

/// The same with the child in this control group (of version 2, its directory) from its first moment on. A move
/// afterwards would wait for every processor of the machine.
pub(crate) fn fork_within(group: BorrowedFd<'_>, flags: c_int) -> io::Result<i32> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    // SAFETY: all zeros is a valid value of it.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = CLONE_INTO_CGROUP | flags as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    arguments.cgroup = group.as_raw_fd() as u64;
    // SAFETY: no CLONE_VM and no new stack: this is fork. The structure outlives the call and is as long as said.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const arguments,
            size_of::<libc::clone_args>(),
        )
    };
    check(pid).map(|pid| pid as i32)
}

/// From now on the control group that this process is in is the top of what it and its children see of control groups.
pub(crate) fn own_groups() -> io::Result<()> {
    // SAFETY: takes a number.
    check_int(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) }).map(drop)
}

/// From now on this process is in a user namespace of its own.
pub(crate) fn own_users() -> io::Result<()> {
    // SAFETY: takes a number.
    check_int(unsafe { libc::unshare(libc::CLONE_NEWUSER) }).map(drop)
}

/// Lets others run that wait for this processor.
pub(crate) fn give_way() {
    // SAFETY: no argument.
    unsafe { libc::sched_yield() };
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
    loop {
        match wait_once(pid, block) {
            Ok(Some(Waited::LetGo)) => {}
            Ok(Some(Waited::Ended(pid, status))) => return Ok(Some((pid, status))),
            Ok(None) => return Ok(None),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// What became of a child that was waited for.
#[derive(Debug)]
pub(crate) enum Waited {
    /// Its number and status.
    Ended(i32, i32),
    /// It had made this process its tracer, and has none any more. It may do so again, for ever.
    LetGo,
}

/// The same, one child at a time.
pub(crate) fn wait_once(pid: i32, block: bool) -> io::Result<Option<Waited>> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let got = unsafe { libc::waitpid(pid, &raw mut status, if block { 0 } else { libc::WNOHANG }) };
    Ok(match check_int(got)? {
        0 => None,
        stopped if libc::WIFSTOPPED(status) => {
            let_go(stopped, libc::WSTOPSIG(status));
            Some(Waited::LetGo)
        }
        ended => Some(Waited::Ended(ended, status)),
    })
}

/// Whether this child was stopped by a signal since it was asked last. Does not wait.
pub(crate) fn was_stopped(pid: i32) -> bool {
    let Ok(id) = libc::id_t::try_from(pid) else {
        return false;
    };
    // SAFETY: all zeros are one, and it outlives the call, after which it says which child it was, or 0.
    unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WSTOPPED | libc::WNOHANG;
        libc::waitid(libc::P_PID, id, &raw mut found, options) == 0 && found.si_pid() == pid
    }
}

/// A descriptor that can be read when every thread of this child has ended, also before it can be reaped.
pub(crate) fn process_descriptor(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// Joins namespaces of a process, as `flags` of clone(2) say which. Of a thread that is alone.
pub(crate) fn join(process: BorrowedFd<'_>, flags: c_int) -> io::Result<()> {
    // SAFETY: takes numbers.
    check_int(unsafe { libc::setns(process.as_raw_fd(), flags) }).map(drop)
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

/// Real, effective and saved ids of this process.
pub(crate) fn become_ids(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: raw system calls, because there is one thread and glibc's wrappers signal the others.
    unsafe {
        check(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
        check(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
    }
    Ok(())
}

/// For all that concerns files this process is this user, with every capability that it may have.
pub(crate) fn act_on_files_as(uid: u32, gid: u32) -> io::Result<()> {
    let head: [u32; 2] = [0x2008_0522, 0];
    let mut sets = [0u32; 6];
    // SAFETY: raw system calls, because there is one thread; version 3 takes two sets of three words: effective, permitted,
    // inheritable.
    unsafe {
        // The answer is the id before.
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
        check(libc::syscall(
            libc::SYS_capget,
            head.as_ptr(),
            sets.as_mut_ptr(),
        ))?;
        // A change of the id has taken those away that are about files.
        (sets[0], sets[3]) = (sets[1], sets[4]);
        check(libc::syscall(
            libc::SYS_capset,
            head.as_ptr(),
            sets.as_ptr(),
        ))?;
    }
    Ok(())
}

/// The effective uid and gid of this process.
pub(crate) fn own_ids() -> (u32, u32) {
    // SAFETY: no arguments.
    unsafe { (libc::geteuid(), libc::getegid()) }
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
    drop_bounding_set()?;
    clear_capabilities()
}

/// Whatever is executed gets none any more. Needs a capability itself.
pub(crate) fn drop_bounding_set() -> io::Result<()> {
    keep_in_bounding_set(0)
}

fn keep_in_bounding_set(kept: u32) -> io::Result<()> {
    let dropped = (0..64).filter(|one| *one >= 32 || kept & (1 << one) == 0);
    for capability in dropped {
        match process_option(libc::PR_CAPBSET_DROP, capability) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
            other => other?,
        }
    }
    Ok(())
}

/// This process and whatever it executes has these alone: a bit for each, as in `/proc/PID/status`. It has to have them, and one more
/// that need not be among them.
pub(crate) fn keep_capabilities(kept: u32) -> io::Result<()> {
    keep_in_bounding_set(kept)?;
    let head: [u32; 2] = [0x2008_0522, 0];
    let sets = [kept, kept, 0, 0, 0, 0];
    // SAFETY: version 3 takes two sets of three words: effective, permitted, inheritable.
    check(unsafe { libc::syscall(libc::SYS_capset, head.as_ptr(), sets.as_ptr()) }).map(drop)
}

/// This process has none any more.
pub(crate) fn clear_capabilities() -> io::Result<()> {
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

pub(crate) fn default_signal(signal: c_int) {
    // SAFETY: SIG_DFL is always valid.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

pub(crate) fn new_session() -> io::Result<()> {
    // SAFETY: no argument.
    check_int(unsafe { libc::setsid() }).map(drop)
}

/// Replaces this program by another one with the same environment; returns only the error.
pub(crate) fn replace(program: &CStr, arguments: &[CString]) -> io::Error {
    let arguments = pointers(arguments);
    // SAFETY: the array ends with a null pointer and outlives the call. Nobody changes the environment: there is one thread.
    unsafe { libc::execv(program.as_ptr(), arguments.as_ptr()) };
    io::Error::last_os_error()
}

/// Replaces this program; returns only the error.
pub(crate) fn execute(program: &CStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    // SAFETY: both arrays end with a null pointer and outlive the call.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// As an array that ends with a null pointer.
fn pointers(words: &[CString]) -> Vec<*const libc::c_char> {
    let words = words.iter().map(|word| word.as_ptr());
    words.chain([std::ptr::null()]).collect()
}
