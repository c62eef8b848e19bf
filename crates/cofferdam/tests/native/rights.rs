//! Identity and rights: whom the processes inside belong to, and which system calls they have.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use cofferdam::sandbox::Access;

use crate::world::{
    both, call, create, eventually, fails, is_root, marker, mount, ok, processes_with, sh, spec,
    start, status_of,
};

both! {
    /// Invariant 5, seen from the host.
    async fn no_process_has_the_hosts_root() {
        if is_root() {
            // Only this thread's, which is the one that starts the launcher.
            let groups = [rustix::process::Gid::from_raw(0), rustix::process::Gid::from_raw(27)];
            rustix::thread::set_thread_groups(&groups).unwrap();
        }
        let (one, two) = (create(&spec()).await.unwrap(), create(&spec()).await.unwrap());
        let mut seen = Vec::new();
        for sandbox in [&one, &two] {
            let marker = marker();
            let mut run = start(&**sandbox, &format!("sleep {marker}; :")).await;
            eventually("both processes", || processes_with(&marker).len() == 2).await;
            let shell = processes_with(&marker)[0];
            let init: u32 = status_of(shell, "PPid").parse().unwrap();
            let launcher: u32 = status_of(init, "PPid").parse().unwrap();
            assert_eq!(status_of(launcher, "PPid"), std::process::id().to_string());
            for pid in processes_with(&marker).into_iter().chain([init]) {
                for field in ["Uid", "Gid"] {
                    let ids = status_of(pid, field);
                    let ids: Vec<u32> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
                    assert!(ids.iter().all(|id| *id == ids[0] && *id != 0), "{pid} {ids:?}");
                    if is_root() {
                        assert!(ids[0] >= 0x7000_0000);
                    } else {
                        assert_eq!(ids[0], rustix::process::geteuid().as_raw());
                    }
                }
                assert_eq!(status_of(pid, "NoNewPrivs"), "1");
                for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
                    assert_eq!(status_of(pid, set), "0000000000000000", "{set} of {pid}");
                }
            }
            assert_eq!(status_of(shell, "Seccomp"), "2");
            if is_root() {
                assert_eq!(status_of(init, "Groups"), "", "the caller's groups are gone");
            }
            seen.push(status_of(init, "Uid"));
            run.kill(9).await.unwrap();
        }
        assert_eq!(seen[0] != seen[1], is_root(), "two sandboxes of root have two uids");
        assert_eq!(ok(&*one, "id -u; id -un; hostname; echo $HOME").await, "1000\nagent\ncofferdam-test\n/home/agent\n");
        // Reading and writing what only the host's root may: as in docs/decisions/0003.
        fails(&*one, "cat /etc/shadow").await;
        fails(&*one, "echo x > /proc/sys/kernel/core_pattern").await;
        ok(&*one, "cat /proc/sys/kernel/core_pattern").await;
        one.close().await.unwrap();
        two.close().await.unwrap();
    }
}

both! {
    async fn nothing_it_makes_runs_with_its_owners_rights() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut spec = spec();
        spec.mounts = vec![mount(dir.path(), "/w", Access::ReadWrite)];
        spec.workdir = "/w".into();
        let sandbox = create(&spec).await.unwrap();
        let perl = r#"
            open(F, ">", "f") or die; my $f = "f\0"; my $how = pack("QQQ", 0101, 04755, 0); my $d = ".\0";
            my @names = map { "n$_\0" } 0..9;
            for my $bit (04755, 02755) {
                my @done = (syscall(90, $f, $bit), syscall(91, fileno(F), $bit), syscall(268, -100, $f, $bit),
                    syscall(452, -100, $f, $bit, 0), syscall(2, $names[0], 0101, $bit),
                    syscall(257, -100, $names[1], 0101, $bit), syscall(437, -100, $names[2], $how, 24),
                    syscall(85, $names[3], $bit), syscall(133, $names[4], 0100000 | $bit, 0),
                    syscall(259, -100, $names[5], 0100000 | $bit, 0), syscall(257, -100, $d, 020200002, $bit));
                print "@done\n";
            }"#;
        let refused = format!("{}\n", ["-1"; 11].join(" "));
        assert_eq!(ok(&*sandbox, &format!("perl -e '{perl}'")).await, refused.repeat(2));
        ok(&*sandbox, "chmod 755 f && echo x > g && chmod 600 g && mkdir d && chmod 1777 d").await;
        sandbox.close().await.unwrap();
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        for entry in names {
            assert_eq!(entry.metadata().unwrap().mode() & 0o6000, 0, "{entry:?}");
        }
    }
}

both! {
    async fn the_kernel_surface_is_small() {
        let sandbox = create(&spec()).await.unwrap();
        let check = async |what: &str, arguments: &str, want: &str| {
            assert_eq!(ok(&*sandbox, &call(arguments)).await, want, "{what}");
        };
        check("getpid", "39", "0").await;
        check("unshare(CLONE_NEWUSER)", "272, 0x10000000", "1").await;
        check("unshare(CLONE_FILES)", "272, 0x400", "0").await;
        check("clone(CLONE_NEWUSER)", "56, 0x10000011, 0, 0, 0, 0", "1").await;
        check("clone3", "435, 0, 0", "38").await;
        check("setns", "308, 0, 0", "1").await;
        check("mount", "165, 0, 0, 0, 0, 0", "1").await;
        check("umount2", "166, 0, 0", "1").await;
        check("pivot_root", "155, 0, 0", "1").await;
        check("open_by_handle_at", "304, 0, 0, 0", "1").await;
        check("keyctl", "250, 0, 0, 0", "1").await;
        check("bpf", "321, 0, 0, 0", "1").await;
        check("perf_event_open", "298, 0, 0, 0, 0, 0", "1").await;
        check("userfaultfd", "323, 0", "1").await;
        check("io_uring_setup", "425, 1, 0", "1").await;
        check("process_vm_readv", "310, 1, 0, 0, 0, 0, 0", "1").await;
        check("ptrace(PTRACE_ATTACH, 1)", "101, 16, 1, 0, 0", "1").await;
        check("a call that does not exist yet", "470, 0", "38").await;
        check("socket(AF_INET, SOCK_STREAM)", "41, 2, 1, 0", "0").await;
        check("socket(AF_UNIX, SOCK_STREAM)", "41, 1, 1, 0", "0").await;
        check("socket(AF_NETLINK, SOCK_RAW, ROUTE)", "41, 16, 3, 0", "0").await;
        check("socket(AF_NETLINK, SOCK_RAW, AUDIT)", "41, 16, 3, 9", "1").await;
        check("socket(AF_INET, SOCK_RAW)", "41, 2, 3, 1", "1").await;
        check("socket(AF_PACKET)", "41, 17, 3, 0", "97").await;
        check("socket(AF_ALG)", "41, 38, 5, 0", "97").await;
        check("socket(AF_VSOCK)", "41, 40, 1, 0", "97").await;
        check("prlimit64 of itself", "302, 0, 7, 0, 0", "0").await;
        check("prlimit64 of the init, to set", "302, 1, 7, 1, 0", "1").await;
        for (file, readable) in [("/proc/1/environ", false), ("/proc/1/mem", false), ("/proc/self/environ", true)] {
            let (exit, ..) = sh(&*sandbox, &format!("head -c 1 {file}")).await;
            assert_eq!(exit.success(), readable, "{file}");
        }
        fails(&*sandbox, "ls /proc/1/fd/").await;
        // A signal to the init from inside does nothing.
        sh(&*sandbox, "kill -9 1; kill -TERM 1; kill -STOP 1; kill -INT 1").await;
        assert_eq!(ok(&*sandbox, "echo alive").await, "alive\n");
        sandbox.close().await.unwrap();
    }
}
