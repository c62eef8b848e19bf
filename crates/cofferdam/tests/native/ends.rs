//! Ends: closing, cancelling, and `kill -9` of any part leave nothing.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use cofferdam::names::SandboxId;
use cofferdam::sandbox::native::{Native, remove_leftovers};
use cofferdam::sandbox::{BindMountProvider, ExecRequest, SandboxError};
use cofferdam_lab::skip;
use tokio_util::sync::CancellationToken;

use crate::world::{
    both, control_groups, create, eventually, is_root, marker, mounts, new_mounts_go, ok,
    processes_with, run_async, spec, start, status_of,
};

both! {
    async fn closing_ends_everything() {
        let sandbox = create(&spec()).await.unwrap();
        let marker = marker();
        let script = format!("trap '' TERM HUP; (setsid sh -c 'trap \"\" TERM HUP; setsid sleep {marker} & exec sleep {marker}' &) ; sleep {marker}");
        let run = start(&*sandbox, &script).await;
        eventually("the daemons", || processes_with(&format!("sleep {marker}")).len() >= 3).await;
        let began = Instant::now();
        sandbox.close().await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(20));
        assert_eq!(processes_with(&marker), Vec::<u32>::new(), "when close returns, not later");
        sandbox.close().await.unwrap();
        let mut run = run;
        assert!(matches!(run.wait().await, Err(SandboxError::Gone(_))));
        let request = ExecRequest::new(["true"]);
        assert!(matches!(sandbox.exec(request).await, Err(SandboxError::Gone(_))));

        let sandbox = create(&spec()).await.unwrap();
        start(&*sandbox, &format!("exec sleep {marker}")).await;
        eventually("the sleeper", || processes_with(&marker).len() == 1).await;
        drop(sandbox);
        eventually("dropping ends it", || processes_with(&marker).is_empty()).await;
    }
}

both! {
    async fn killing_reaches_what_left_the_group() {
        let sandbox = create(&spec()).await.unwrap();
        let marker = marker();
        let mut run = start(&*sandbox, &format!("setsid sleep {marker} & sleep {marker}; :")).await;
        eventually("both", || processes_with(&format!("sleep {marker}")).len() >= 2).await;
        run.kill(9).await.unwrap();
        eventually("all dead", || processes_with(&marker).is_empty()).await;
        assert_eq!(ok(&*sandbox, "echo still here").await, "still here\n");
        sandbox.close().await.unwrap();
    }
}

/// Ends a helper also where its test fails.
struct Helper(std::process::Child);

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process that the test below kills: makes a sandbox in which something sleeps.
#[test]
fn helper_that_is_killed() {
    let Some(marker) = env::var_os("COFFERDAM_TEST_MARKER") else {
        return;
    };
    run_async(async move {
        let sandbox = create(&spec()).await.unwrap();
        let marker = marker.into_string().unwrap();
        start(
            &*sandbox,
            &format!("trap '' HUP TERM; setsid sleep {marker} & sleep {marker}; :"),
        )
        .await;
        std::future::pending::<()>().await;
    });
}

both! {
    /// `kill -9` of the caller, of the launcher and of the sandbox's init: each leaves nothing.
    async fn killing_any_part_leaves_nothing() {
        for part in 0..3 {
            let marker = marker();
            let caller = Command::new(env::current_exe().unwrap())
                .args(["--exact", "ends::helper_that_is_killed", "--nocapture"])
                .env("COFFERDAM_TEST_MARKER", &marker)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let caller = Helper(caller);
            let sleep = format!("sleep {marker}");
            eventually("the sandbox", || processes_with(&sleep).len() >= 3).await;
            let inside = processes_with(&sleep)[0];
            let init: u32 = status_of(inside, "PPid").parse().unwrap();
            let launcher: u32 = status_of(init, "PPid").parse().unwrap();
            let victim = [caller.0.id(), launcher, init][part];
            let victim = rustix::process::Pid::from_raw(i32::try_from(victim).unwrap()).unwrap();
            rustix::process::kill_process(victim, rustix::process::Signal::KILL).unwrap();
            eventually("nothing is left", || processes_with(&sleep).is_empty()).await;
            let gone = |pid: u32| {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                stat.is_empty() || stat.contains(") Z ")
            };
            eventually("init and launcher are gone", || gone(init) && gone(launcher)).await;
        }
    }
}

/// The process that the test below kills while it makes sandboxes with limits.
#[test]
fn helper_with_limits() {
    let Some(id) = env::var_os("COFFERDAM_TEST_ID") else {
        return;
    };
    run_async(async move {
        let id = id.into_string().unwrap().parse().unwrap();
        let mut spec = spec();
        spec.id = id;
        spec.limits.memory = Some(256 << 20);
        let sandbox = create(&spec).await.unwrap();
        loop {
            start(&*sandbox, "sleep 10000").await;
        }
    });
}

/// `kill -9` at any point of a start: all processes die, and `gc` finds the control groups by id.
#[test]
fn killing_at_any_point_leaves_only_what_gc_finds() {
    if !is_root() {
        return skip!("only root has control groups to limit a sandbox with");
    }
    run_async(async {
        let mut seen = 0;
        for point in 0..20u64 {
            let id = SandboxId::random().unwrap();
            let mut caller = Command::new(env::current_exe().unwrap())
                .args(["--exact", "ends::helper_with_limits"])
                .env("COFFERDAM_TEST_ID", id.to_string())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            tokio::time::sleep(Duration::from_millis(1 + point * point / 2)).await;
            caller.kill().unwrap();
            caller.wait().unwrap();
            let groups = control_groups(id);
            seen += groups.len();
            let empty = || {
                groups.iter().all(|group| {
                    fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|p| p.is_empty())
                })
            };
            eventually("everything in its control groups is dead", empty).await;
            remove_leftovers(id, None).await;
            assert_eq!(control_groups(id), Vec::<PathBuf>::new());
        }
        assert!(seen > 0, "none of them came as far as its control groups");
    });
}

both! {
    async fn creating_can_be_cancelled() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let made = Native::default().create(&spec(), &cancel).await;
        assert!(matches!(made, Err(SandboxError::Cancelled)));
        for delay in 0..20 {
            let cancel = CancellationToken::new();
            let timer = cancel.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_micros(200 * delay)).await;
                timer.cancel();
            });
            if let Ok(sandbox) = Native::default().create(&spec(), &cancel).await {
                sandbox.close().await.unwrap();
            }
        }
        let me = std::process::id();
        // A thread's children are listed with the thread that made them.
        let ours = || {
            let threads = fs::read_dir(format!("/proc/{me}/task")).unwrap().flatten();
            let children = threads.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
            let children: Vec<String> = children.flat_map(|all| all.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
            let is_ours = |child: &String| fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name.contains("cofferdam"));
            children.into_iter().filter(is_ours).collect::<Vec<_>>()
        };
        eventually("no launcher is left", || ours().is_empty()).await;
    }
}

#[test]
fn closing_leaves_mounts_and_namespaces_as_they_were() {
    let before = mounts();
    run_async(async {
        for _ in 0..5 {
            let sandbox = create(&spec()).await.unwrap();
            ok(&*sandbox, "true").await;
            sandbox.close().await.unwrap();
        }
        new_mounts_go(&before).await;
    });
}
