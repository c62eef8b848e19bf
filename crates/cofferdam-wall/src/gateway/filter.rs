//! The system calls that the gateway makes. Hostile bytes that win against a parser of ours get no other one.
//!
//! Two filters. What is not on the list does not exist (ENOSYS), so that a C library or a kernel that asks for
//! something newer falls back to what is. A few calls only somebody makes who has taken the process over: they
//! end it, and the library starts another one.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

/// Why there is no filter.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    #[error("the gateway's filter of system calls cannot be made: {0}")]
    Made(#[from] BackendError),
    #[error("the gateway's filter of system calls cannot be installed: {0}")]
    Installed(#[from] seccompiler::Error),
}

/// Allowed whatever the arguments are.
const ALLOWED: &[i64] = &[
    // Descriptors. What may be opened says Landlock.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_openat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_readlinkat,
    libc::SYS_pipe2,
    libc::SYS_eventfd2,
    libc::SYS_splice,
    // Connections.
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    // Waiting, time, numbers that nobody guesses.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_ppoll,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    libc::SYS_getrandom,
    // Memory, without a right to execute it: see [`allowed`].
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Threads and signals of this process.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_exit,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
];

/// What ends the process.
const DEADLY: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_mount,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// For this process's threads and those that they start. There is no way back.
pub(super) fn install() -> Result<(), FilterError> {
    for filter in filters()? {
        seccompiler::apply_filter_all_threads(&filter)?;
    }
    Ok(())
}

fn filters() -> Result<[BpfProgram; 2], BackendError> {
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    let deadly = DEADLY.iter().map(|call| (*call, Vec::new())).collect();
    let deadly = SeccompFilter::new(
        deadly,
        SeccompAction::Allow,
        SeccompAction::KillProcess,
        machine,
    )?;
    let absent = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let allowed = SeccompFilter::new(allowed()?, absent, SeccompAction::Allow, machine)?;
    Ok([deadly.try_into()?, allowed.try_into()?])
}

fn allowed() -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let mut rules: BTreeMap<_, Vec<_>> = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let one_of = |argument, values: &[i32]| {
        let rules = values.iter().map(|value| {
            let value = u64::from(value.cast_unsigned());
            SeccompRule::new(vec![is(argument, SeccompCmpOp::Eq, value)?])
        });
        rules.collect::<Result<Vec<_>, _>>()
    };
    rules.insert(
        libc::SYS_socket,
        one_of(0, &[libc::AF_INET, libc::AF_INET6])?,
    );
    let commands = [
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
        libc::F_SETFL,
        libc::F_DUPFD_CLOEXEC,
        libc::F_SETPIPE_SZ,
        libc::F_GETPIPE_SZ,
    ];
    rules.insert(libc::SYS_fcntl, one_of(1, &commands)?);
    // Not blocking; how much there is to read.
    rules.insert(libc::SYS_ioctl, one_of(1, &[0x5421, 0x541b])?);
    rules.insert(
        libc::SYS_prctl,
        one_of(0, &[libc::PR_SET_NAME, libc::PR_SET_VMA])?,
    );
    // The limits of this process, to be read.
    let own = vec![is(0, SeccompCmpOp::Eq, 0)?, is_null(2)?];
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(own)?]);
    let executable = u64::from(libc::PROT_EXEC.cast_unsigned());
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let data = is(2, SeccompCmpOp::MaskedEq(executable), 0)?;
        rules.insert(call, vec![SeccompRule::new(vec![data])?]);
    }
    // A thread, not a process. clone3(2), whose flags cannot be read, does not exist: the C library then uses this.
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    let thread = is(0, SeccompCmpOp::MaskedEq(thread), thread)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![thread])?]);
    Ok(rules)
}

fn is(argument: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)
}

fn is_null(argument: u8) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a test starts itself again, because a filter has no way back"
)]
mod tests {
    use std::io::{Error, Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Command, Output};
    use std::sync::mpsc;

    use super::*;

    /// What the test's child does, behind the filter or not.
    const DEED: &str = "COFFERDAM_TEST_DEED";
    const NAME: &str = "gateway::filter::tests::only_what_the_gateway_does_can_be_done";

    fn carry() -> std::io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let thread = std::thread::Builder::new().spawn(move || -> std::io::Result<()> {
            TcpStream::connect(address)?.write_all(b"carried")
        })?;
        let mut text = String::new();
        listener.accept()?.0.read_to_string(&mut text)?;
        std::fs::read("/etc/hosts")?;
        UdpSocket::bind("127.0.0.1:0")?;
        thread.join().unwrap()
    }

    fn make_directory() -> std::io::Result<()> {
        std::fs::create_dir(format!("/tmp/cofferdam-filter-{}", std::process::id())).and_then(
            |()| std::fs::remove_dir(format!("/tmp/cofferdam-filter-{}", std::process::id())),
        )
    }

    fn netlink() -> std::io::Result<()> {
        use rustix::net::{AddressFamily, SocketType, socket};
        Ok(socket(AddressFamily::NETLINK, SocketType::RAW, None).map(drop)?)
    }

    fn signal() -> std::io::Result<()> {
        let own = rustix::process::getpid();
        Ok(rustix::process::test_kill_process(own)?)
    }

    fn unix() -> std::io::Result<()> {
        std::os::unix::net::UnixDatagram::unbound().map(drop)
    }

    fn execute() -> std::io::Result<()> {
        Err(Command::new("/bin/true").exec())
    }

    type Deed = fn() -> std::io::Result<()>;
    const REFUSED: [(&str, Deed); 4] = [
        ("directory", make_directory),
        ("netlink", netlink),
        ("signal", signal),
        ("unix", unix),
    ];
    const OTHERS: [(&str, Deed); 2] = [("carry", carry), ("execute", execute)];

    /// In the child: a thread that was there before the filter, and this one.
    fn act(name: &str, filtered: bool) {
        let deed = REFUSED
            .iter()
            .chain(&OTHERS)
            .find(|(known, _)| *known == name);
        let (_, deed) = *deed.unwrap();
        let (go, gone) = mpsc::channel::<()>();
        let before = std::thread::spawn(move || {
            gone.recv().unwrap();
            deed()
        });
        if filtered {
            install().unwrap();
        }
        go.send(()).unwrap();
        let outcomes = [before.join().unwrap(), deed()];
        let told = outcomes.map(|outcome| {
            outcome.map_or_else(|error: Error| error.raw_os_error().unwrap_or(-1), |()| 0)
        });
        // The harness's own output needs nothing else.
        std::io::stderr()
            .write_all(format!("told {told:?}\n").as_bytes())
            .unwrap();
    }

    fn run(name: &str, filtered: bool) -> Output {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture", "--test-threads=1"])
            .env(DEED, format!("{name} {filtered}"))
            .output()
            .unwrap()
    }

    #[test]
    fn only_what_the_gateway_does_can_be_done() {
        if let Ok(deed) = std::env::var(DEED) {
            let (name, filtered) = deed.split_once(' ').unwrap();
            return act(name, filtered == "true");
        }
        let told = |name, filtered, expected: &str| {
            let done = run(name, filtered);
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(said.contains(expected), "{name} {filtered}: {done:?}");
        };
        told("carry", false, "told [0, 0]");
        told("carry", true, "told [0, 0]");
        for (name, _) in REFUSED {
            told(name, false, "told [0, 0]");
            told(name, true, "told [38, 38]");
        }
        assert!(run("execute", false).status.success(), "/bin/true");
        let done = run("execute", true);
        assert_eq!(done.status.signal(), Some(libc::SIGSYS), "{done:?}");
    }
}
