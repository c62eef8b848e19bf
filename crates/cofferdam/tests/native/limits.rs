//! Limits of one sandbox, and what it may not take from the machine.

use std::fs;
use std::process::Command;

use cofferdam::sandbox::native::{Native, Status, probe};
use cofferdam::sandbox::{BindMountProvider, Limits, SandboxError, SandboxSpec};
use cofferdam_lab::skip;

use crate::world::{alone, both, call, control_groups, create, eventually, is_root, ok, sh, spec};

fn limited(limits: Limits) -> SandboxSpec {
    let mut spec = spec();
    spec.limits = limits;
    spec
}

both! {
    /// What the kernel counts for the whole machine or for the caller. Each thing is tried outside too, by the same
    /// program: there it works.
    async fn pools_of_the_machine_stay_the_hosts() {
        let sandbox = create(&spec()).await.unwrap();
        let outside = |script: &str| {
            let output = Command::new("sh").args(["-c", script]).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        // io_setup(1, &context): a context out of fs.aio-max-nr.
        let contexts = call("206, 1, $p = pack(\"Q\", 0)");
        assert_eq!((ok(&*sandbox, &contexts).await.as_str(), outside(&contexts).as_str()), ("38", "0"));
        // A lease on a file stops whoever opens it.
        let lease = "f=$(mktemp); perl -e 'open F, \"<\", $ARGV[0] or die; $r = fcntl(F, 1024, 0); print $r ? 0 : $!+0' $f; rm $f";
        assert_eq!((ok(&*sandbox, lease).await.as_str(), outside(lease).as_str()), ("22", "0"));
        // Other commands of fcntl go on: close-on-exec copies, sizes of pipes, locks, seals.
        let commands = "pipe R, W; for ([1, 0], [3, 0], [1030, 20], [1032, 0]) { defined fcntl(R, $_->[0], $_->[1]) or print \"$_->[0] \" } \
                        $l = pack(\"ssx4qqix4\", 0, 0, 0, 0, 0); open F, \"+>\", \"/tmp/locked\" or die; fcntl(F, 6, $l) or print 6; \
                        fcntl(F, 37, $l) or print 37; print \"all\"";
        assert_eq!(ok(&*sandbox, &format!("perl -e '{commands}'")).await, "all");
        // Watches on files: half of what the caller may have, so two tests of one caller would take all.
        let _alone = alone();
        let most = |name: &str| {
            let text = fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).unwrap();
            text.trim().parse::<u64>().unwrap()
        };
        let half = most("max_user_instances") / 2;
        let watches = "for (1..5000) { $f = syscall(253); last if $f < 0; $n++ } print \"$n \", $!+0";
        assert_eq!(ok(&*sandbox, &format!("perl -e '{watches}'")).await, format!("{half} 24"), "EMFILE");
        assert_eq!(outside(&call("253")), "0", "the host has watches while the sandbox has all of its own");
        assert_eq!(ok(&*sandbox, &call("253")).await, "0", "and they come back");
        // Queued signals, message queues, locked memory: a part of the caller's.
        let limits = |text: &str| text.split_whitespace().map(|n| n.parse().unwrap_or(u64::MAX)).collect::<Vec<u64>>();
        let ask = "bash -c 'ulimit -Hi; ulimit -Hq; ulimit -Hl'";
        let (inside, all) = (limits(&ok(&*sandbox, ask).await), limits(&outside(ask)));
        assert!(inside[0] <= all[0] / 4 && inside[0] <= 16_384 && inside[0] > 0, "{inside:?} {all:?}");
        assert!(inside[1] <= all[1] / 4 && inside[1] > 0, "{inside:?} {all:?}");
        assert!(inside[2] <= 8192, "{inside:?}");
        // Terminals: some of the machine's.
        let terminals = "for (1..2000) { open($f[$_], \"+<\", \"/dev/ptmx\") or last; $n++ } print \"$n \", $!+0";
        assert_eq!(ok(&*sandbox, &format!("perl -e '{terminals}'")).await, "256 28", "ENOSPC");
        // Descriptors of all processes together.
        let table: u64 = fs::read_to_string("/proc/sys/fs/file-max").unwrap().trim().parse().unwrap();
        let both = limits(&ok(&*sandbox, "bash -c 'ulimit -Hn; ulimit -Hu'").await);
        assert!(u128::from(both[0]) * u128::from(both[1] - 1) <= u128::from(table / 2).max(1024 * 256), "{both:?} of {table}");
        assert!(both[0] >= 1024, "{both:?}");
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn limits_hold() {
        let mut limits = Limits::default();
        limits.processes = Some(20);
        limits.open_files = Some(50);
        let sandbox = create(&limited(limits)).await.unwrap();
        let fork = |n: u32| format!("perl -e 'for (1..{n}) {{ $p = fork; defined $p or do {{ print $!+0; exit }}; $p or do {{ sleep 5; exit }} }} print \"all\"; kill 9, -$$'");
        let (_, out, _) = sh(&*sandbox, &format!("setsid -w {}", fork(50))).await;
        assert_eq!(out, "11", "EAGAIN");
        sandbox.close().await.unwrap();
        let mut limits = Limits::default();
        limits.processes = Some(20);
        limits.open_files = Some(50);
        let sandbox = create(&limited(limits)).await.unwrap();
        assert!(ok(&*sandbox, "ulimit -n; ulimit -c").await.starts_with("50\n0\n"));
        let ten = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1 & done; wait; echo all";
        assert_eq!(ok(&*sandbox, ten).await, "all\n");
        sandbox.close().await.unwrap();

        let mut limits = Limits::default();
        limits.memory = Some(64 << 20);
        limits.cpus = Some(0.5);
        let spec = limited(limits);
        let checked = Native::default().check_limits(&spec.limits);
        let made = create(&spec).await;
        assert_eq!(made.is_err(), checked.is_err(), "refused where it cannot be given: {checked:?}");
        if is_root() {
            let sandbox = made.unwrap();
            let fill = |mib: u32| format!("perl -e '$x = \"x\" x ({mib} << 20); print length $x'");
            assert_eq!(ok(&*sandbox, &fill(8)).await, (8u32 << 20).to_string());
            let (exit, ..) = sh(&*sandbox, &fill(200)).await;
            assert!(!exit.success(), "{exit}");
            sandbox.close().await.unwrap();
        } else if let Err(error) = made {
            assert!(matches!(&error, SandboxError::Unsupported { what, .. } if what.contains("memory")), "{error}");
            skip!("a limit that holds, as an ordinary user: {error}");
        }
        eventually("its control groups are gone", || control_groups(spec.id).is_empty()).await;
        let checks = probe();
        assert!(checks.iter().all(|check| check.status != Status::Missing), "{checks:?}");
        Native::default().check_limits(&Limits::default()).unwrap();
    }
}

both! {
    /// By the kernel's own count of what was held back, and by the program's own processor time: a busy machine
    /// makes neither wrong.
    async fn a_busy_program_gets_its_share_of_the_processors_and_no_more() {
        let busy = "perl -MTime::HiRes=time -e '$s = time; 1 while (times)[0] + (times)[1] < 0.2; print time - $s'";
        for (cpus, is_held_back) in [(0.05, true), (1.5, false)] {
            let mut limits = Limits::default();
            limits.cpus = Some(cpus);
            let spec = limited(limits);
            if let (false, Err(error)) = (is_root(), Native::default().check_limits(&spec.limits)) {
                assert!(matches!(create(&spec).await, Err(SandboxError::Unsupported { .. })));
                return skip!("a share of the processors, as an ordinary user: {error}");
            }
            let sandbox = create(&spec).await.unwrap();
            let took: f64 = ok(&*sandbox, busy).await.parse().unwrap();
            let groups = control_groups(spec.id);
            let stat = groups.iter().find_map(|group| fs::read_to_string(group.join("cpu.stat")).ok());
            let stat = stat.unwrap_or_default();
            let times = stat.lines().find_map(|line| line.strip_prefix("nr_throttled "));
            let times: u32 = times.unwrap_or_else(|| panic!("{groups:?}: {stat}")).parse().unwrap();
            // 5 ms of each period of 100 ms, which is less than its share among many others: 0.2 s of work take 4 s,
            // that of starting up, which is before the clock, left out.
            assert_eq!(times > 0, is_held_back, "{cpus}: {stat}");
            assert!(took > 2.0 || !is_held_back, "{cpus}: 0.2 s of work in {took} s");
            sandbox.close().await.unwrap();
        }
    }
}
