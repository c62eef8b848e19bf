//! Profiles of engines, as files that a test keeps: of a container in which Cofferdam works, and of a sandbox's own.

use super::{CREATES, NEW_NAMESPACES, REFUSED, SPECIAL};

/// What Cofferdam itself makes of these when it works inside a container.
const NEEDED: [&str; 15] = [
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "setns",
    "sethostname",
    "setdomainname",
    "pidfd_getfd",
];

/// What Docker (from 20.10) and Podman allow a container without any right, and which arguments do not matter for.
const ALLOWED: &str = "
    accept accept4 access adjtimex alarm arch_prctl arm_fadvise64_64 arm_sync_file_range bind breakpoint brk
    cacheflush cachestat capget capset chdir chown chown32 clock_adjtime clock_adjtime64 clock_getres
    clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep clock_nanosleep_time64 close close_range connect
    copy_file_range dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2
    epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64
    fadvise64_64 fallocate fanotify_mark fchdir fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr
    flock fork fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futex
    futex_requeue futex_time64 futex_wait futex_waitv futex_wake futimesat get_robust_list get_thread_area getcpu
    getcwd getdents getdents64 getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getitimer
    getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresgid32 getresuid getresuid32
    getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid getuid32 getxattr inotify_add_watch
    inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64
    io_setup io_submit ioctl ioprio_get ioprio_set ipc kill landlock_add_rule landlock_create_ruleset
    landlock_restrict_self lchown lchown32 lgetxattr link linkat listen listmount listxattr llistxattr _llseek
    lremovexattr lseek lsetxattr lstat lstat64 madvise map_shadow_stack membarrier memfd_create memfd_secret mincore
    mkdir mkdirat mlock mlock2 mlockall mmap mmap2 modify_ldt mprotect mq_getsetattr mq_notify mq_open mq_timedreceive
    mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync
    munlock munlockall munmap name_to_handle_at nanosleep newfstatat _newselect pause pidfd_open pidfd_send_signal
    pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll ppoll_time64 prctl pread64 preadv preadv2 prlimit64
    process_mrelease process_vm_readv process_vm_writev pselect6 pselect6_time64 ptrace pwrite64 pwritev pwritev2 read
    readahead readlink readlinkat readv recv recvfrom recvmmsg recvmmsg_time64 recvmsg remap_file_pages removexattr
    rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo
    rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo sched_get_priority_max
    sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval
    sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp
    select semctl semget semop semtimedop semtimedop_time64 send sendfile sendfile64 sendmmsg sendmsg sendto
    set_robust_list set_thread_area set_tid_address set_tls setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32
    setgroups setgroups32 setitimer setpgid setpriority setregid setregid32 setresgid setresgid32 setresuid
    setresuid32 setreuid setreuid32 setrlimit setsid setsockopt setuid setuid32 setxattr shmat shmctl shmdt shmget
    shutdown sigaltstack signalfd signalfd4 sigprocmask sigreturn socketpair splice stat stat64 statfs
    statfs64 statmount statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill time timer_create
    timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create
    timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64 times tkill truncate truncate64 ugetrlimit
    umask uname unlink unlinkat utime utimensat utimensat_time64 utimes vfork wait4 waitid waitpid write writev
";

/// Calls that make or change a file, and which argument has its mode.
const MODES: [(&str, u32); 7] = [
    ("chmod", 1),
    ("creat", 1),
    ("fchmod", 1),
    ("fchmodat", 2),
    ("fchmodat2", 2),
    ("mknod", 1),
    ("mknodat", 2),
];
/// Those where others say whether there is a mode; it comes next.
const OPENS: [(&str, u32); 2] = [("open", 1), ("openat", 2)];

/// The profile of a container in which Cofferdam works, as engines read it: what no sandbox may do no program of the container
/// may, but for what Cofferdam needs to make one.
fn of_ours_inside() -> String {
    let names = REFUSED.iter().map(|(name, _)| *name);
    let names: Vec<_> = names.filter(|name| !NEEDED.contains(name)).collect();
    let names = names.join("\",\n        \"");
    format!(
        "{{\n  \"defaultAction\": \"SCMP_ACT_ALLOW\",\n  \"architectures\": [\"SCMP_ARCH_X86_64\", \"SCMP_ARCH_X86\"],\n  \
         \"syscalls\": [\n    {{\n      \"names\": [\n        \"{names}\"\n      ],\n      \
         \"action\": \"SCMP_ACT_ERRNO\",\n      \"errnoRet\": 1\n    }}\n  ]\n}}\n"
    )
}

/// One rule: these calls are answered so.
fn rule(names: &[&str], action: &str, arguments: &str) -> String {
    let names = names.join("\", \"");
    let arguments = match arguments {
        "" => String::new(),
        some => format!(", \"args\": [{some}]"),
    };
    format!("    {{ \"names\": [\"{names}\"], {action}{arguments} }}")
}

/// One argument of a call has none of these bits.
fn without(index: u32, bits: u32) -> String {
    format!(
        "{{ \"index\": {index}, \"value\": {bits}, \"valueTwo\": 0, \"op\": \"SCMP_CMP_MASKED_EQ\" }}"
    )
}

/// The first argument of a call is this.
fn first_is(value: u64) -> String {
    format!("{{ \"index\": 0, \"value\": {value}, \"op\": \"SCMP_CMP_EQ\" }}")
}

/// That of a sandbox's container: what both engines allow, and of that nothing by which a file gets set-user-id or set-group-id bits.
/// Programs that somebody starts by the engine have this filter alone. `maps`: its process 1 makes a user namespace.
///
/// Whatever is not allowed is refused (EPERM): a rule that refuses would be none beside one that allows. As in the filter of programs
/// `openat2` is not there, whose mode cannot be read; a directory gets no such bit by its making. `clone3`: neither can its flags.
fn of_a_sandbox(maps: bool) -> String {
    const ALLOW: &str = "\"action\": \"SCMP_ACT_ALLOW\"";
    const ABSENT: &str = "\"action\": \"SCMP_ACT_ERRNO\", \"errnoRet\": 38";
    let allowed: Vec<&str> = ALLOWED.split_whitespace().collect();
    let mut rules = vec![rule(&allowed, ALLOW, "")];
    rules.extend(MODES.map(|(name, mode)| rule(&[name], ALLOW, &without(mode, SPECIAL))));
    for (name, flags) in OPENS {
        rules.push(rule(&[name], ALLOW, &without(flags, CREATES)));
        rules.push(rule(&[name], ALLOW, &without(flags + 1, SPECIAL)));
    }
    rules.push(rule(&["clone"], ALLOW, &without(0, NEW_NAMESPACES)));
    // The families that programs of the guest's have: Unix, IPv4, IPv6 and netlink. What `socketcall` makes nobody can see.
    for family in [1, 2, 10, 16] {
        rules.push(rule(&["socket"], ALLOW, &first_is(family)));
    }
    for personality in [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff] {
        rules.push(rule(&["personality"], ALLOW, &first_is(personality)));
    }
    if maps {
        // CLONE_NEWUSER, and nothing beside it.
        rules.push(rule(&["unshare"], ALLOW, &first_is(0x1000_0000)));
    }
    rules.push(rule(&["clone3", "openat2"], ABSENT, ""));
    let rules = rules.join(",\n");
    format!(
        "{{\n  \"defaultAction\": \"SCMP_ACT_ERRNO\",\n  \"archMap\": [\n    {{ \"architecture\": \"SCMP_ARCH_X86_64\", \
         \"subArchitectures\": [\"SCMP_ARCH_X86\"] }},\n    {{ \"architecture\": \"SCMP_ARCH_AARCH64\", \
         \"subArchitectures\": [\"SCMP_ARCH_ARM\"] }}\n  ],\n  \"syscalls\": [\n{rules}\n  ]\n}}\n"
    )
}

#[test]
fn the_profiles_are_of_the_same_calls() {
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    for (path, profile) in [
        ("docs/seccomp.json", of_ours_inside()),
        (
            "crates/cofferdam/src/sandbox/engine/seccomp.json",
            of_a_sandbox(false),
        ),
        (
            "crates/cofferdam/src/sandbox/engine/seccomp-mapped.json",
            of_a_sandbox(true),
        ),
    ] {
        let path = format!("{top}{path}");
        #[expect(
            clippy::disallowed_methods,
            reason = "the way in which generated files are renewed"
        )]
        if std::env::var_os("COFFERDAM_UPDATE").is_some() {
            std::fs::write(&path, &profile).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), profile);
    }
    let known = |name: &&str| REFUSED.iter().any(|(other, _)| other == name);
    assert!(NEEDED.iter().all(known));
}

/// What is refused to programs by their own filter whatever they ask is refused to those that an engine starts, but for what debuggers
/// and old programs use.
#[test]
fn what_engines_allow_is_what_programs_may() {
    const MORE: [&str; 3] = ["process_vm_readv", "process_vm_writev", "modify_ldt"];
    for (name, _) in REFUSED.iter().filter(|(name, _)| !MORE.contains(name)) {
        assert!(ALLOWED.split_whitespace().all(|one| one != *name), "{name}");
    }
}
