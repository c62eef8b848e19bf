//! What a program inside may do: what an ordinary one may, and not a thing to the host.

use std::process::{Command, Stdio};

use super::trial::{Trial, finish, ok, put, refused, start};
use super::{Failure, Outcome, ensure};

pub(super) async fn a_program_has_none_that_an_ordinary_one_has_not(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    let status = ok(&*sandbox, "cat /proc/self/status").await?;
    let value = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1))
            .unwrap_or("missing")
    };
    for name in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        let has = u64::from_str_radix(value(name), 16);
        ensure!(has == Ok(0), "capabilities: {name} {}", value(name));
    }
    ensure!(
        value("NoNewPrivs:") == "1",
        "a program may get new privileges"
    );
    ensure!(value("Seccomp:") == "2", "no system call is filtered");
    ensure!(
        value("Uid:") != "0" && value("Gid:") != "0",
        "it is root: {status}"
    );
    Ok(Outcome::Passed)
}

pub(super) async fn the_kernel_is_not_configured_from_inside(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    // What the refusals are of is there, and works where it may.
    ok(
        &*sandbox,
        "cd /tmp && mkdir d && mknod pipe p && command -v mount chroot",
    )
    .await?;
    let scripts = [
        "echo x >/proc/sys/kernel/hostname",
        "echo 1 >/proc/sys/kernel/randomize_va_space",
        "echo 1 >/proc/sys/net/ipv4/ip_forward",
        "echo h >/proc/sysrq-trigger",
        "test -w /proc/kcore",
        "cat /proc/kcore",
        "test -w /proc/irq",
        "test -w /sys",
        "mkdir /sys/fs/cgroup/conformance",
        "mount -t tmpfs none /tmp/d",
        "mount --bind / /tmp/d",
        "mount -o remount,rw /proc",
        "umount /proc",
        "mknod /tmp/null c 1 3",
        "mknod /tmp/disk b 7 0",
        "chroot / true",
        "hostname changed-from-inside",
        "test -e /dev/mem",
        "test -e /dev/kmsg && cat /dev/kmsg",
    ];
    refused(&*sandbox, &scripts).await?;
    Ok(Outcome::Passed)
}

/// A process of the host's that nothing else looks like.
pub(super) struct Marked(std::process::Child);

impl Marked {
    pub(super) fn start(seconds: &str) -> Result<Self, Failure> {
        #[expect(
            clippy::disallowed_methods,
            reason = "an ordinary program beside the sandbox, which nobody waits for"
        )]
        let mut command = Command::new("sleep");
        command.arg(seconds).stdin(Stdio::null());
        Ok(Self(command.stdout(Stdio::null()).spawn()?))
    }

    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        // It may have been ended already, which is what is tried.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) async fn processes_of_the_host_are_out_of_reach(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let (outside, inside) = ("86461", "86462");
    let mut marked = Marked::start(outside)?;
    let sandbox = trial.any().await?;
    let mut run = start(&*sandbox, &format!("exec sleep {inside}")).await?;
    // Command lines and names of directories; who looks is none of them.
    let look = "for one in /proc/[0-9]*; do tr '\\0' ' ' <$one/cmdline; echo; done 2>/dev/null | grep '^sleep'; true";
    let seen = ok(&*sandbox, look).await?;
    ensure!(
        seen.contains(inside),
        "a program does not see those of its own sandbox: {seen:?}"
    );
    ensure!(
        !seen.contains(outside),
        "a process of the host's is seen: {seen:?}"
    );
    let id = marked.id();
    finish(start(&*sandbox, &format!("kill -9 {id}; kill -9 -1; true")).await?).await?;
    ensure!(
        marked.0.try_wait()?.is_none(),
        "a process of the host's was ended from inside"
    );
    let _ = run.kill(9).await;
    Ok(Outcome::Passed)
}

pub(super) async fn files_of_the_host_are_out_of_sight(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let secret = trial.place.join("secret");
    put(&secret, "of the host\n")?;
    let mut spec = trial.spec()?;
    trial.with_workspace(&mut spec)?;
    let sandbox = trial.create(&spec).await?;
    let text = format!(
        "for place in '' /proc/1/root /proc/self/root /workspace/.. /proc/self/cwd/..; do cat \"$place{}\" 2>/dev/null && exit 0; \
         done; cat ../secret 2>/dev/null || ! echo hidden",
        secret.display()
    );
    let done = finish(start(&*sandbox, &text).await?).await?;
    ensure!(
        !done.exit.success() && done.out == "hidden\n",
        "a file of the host's is read: {done:?}"
    );
    // Neither what runs the machine.
    let scripts = [
        "test -e /var/run/docker.sock",
        "test -e /run/podman/podman.sock",
        "test -e /run/systemd/private",
        "test -e /run/dbus/system_bus_socket",
        "cat /etc/shadow | grep -q .",
        "echo x >/etc/passwd",
        "echo x >/etc/conformance",
        "ls /root/ | grep -q .",
    ];
    refused(&*sandbox, &scripts).await?;
    Ok(Outcome::Passed)
}

pub(super) async fn its_init_cannot_be_ended_or_looked_into(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    for signal in ["KILL", "STOP", "TERM", "SEGV", "ABRT"] {
        finish(start(&*sandbox, &format!("kill -{signal} 1")).await?).await?;
        ok(&*sandbox, "true").await?;
    }
    let scripts = [
        "ls /proc/1/root/",
        "ls /proc/1/fd/ | grep -q .",
        "cat /proc/1/environ | grep -q .",
        "head -c 1 /proc/1/mem",
        "cat /proc/1/maps | grep -q .",
    ];
    refused(&*sandbox, &scripts).await?;
    Ok(Outcome::Passed)
}
