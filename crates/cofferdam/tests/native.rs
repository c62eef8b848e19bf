//! The native sandbox, for real. Every test runs as the caller, and where that is root once more as
//! the ordinary user 1234, in a copy of this program that setpriv(1) starts.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests start helpers, write files, and stop at the first surprise"
)]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs};

use cofferdam::names::{SandboxId, Slug};
use cofferdam::sandbox::native::jail::{self, JailOutput, JailRequest};
use cofferdam::sandbox::native::{Native, NativeOptions, Status, probe, remove_leftovers};
use cofferdam::sandbox::{
    Access, BindMountProvider, ExecRequest, Execution, Exit, Limits, Mount, MountSource, Network,
    Sandbox, SandboxError, SandboxSpec,
};
use cofferdam_lab::skip;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

const ORDINARY: u32 = 1234;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn run_async(body: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            let limit = Duration::from_secs(60);
            tokio::time::timeout(limit, body)
                .await
                .expect("a test ends within a minute");
        });
}

/// This program where user 1234 can execute it.
fn public_copy() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (program, copy) = (env::current_exe().unwrap(), dir.path().join("native"));
    if fs::hard_link(&program, &copy).is_err() {
        fs::copy(&program, &copy).unwrap();
    }
    dir
}

fn as_ordinary_user(program: &Path) -> Command {
    let id = ORDINARY.to_string();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", &id, "--regid", &id, "--clear-groups"])
        .arg(program)
        .current_dir("/");
    command
}

fn repeat_as_ordinary_user(test: &str) {
    if is_root() {
        let copy = public_copy();
        let mut command = as_ordinary_user(&copy.path().join("native"));
        let done = command
            .args(["--exact", test, "--nocapture"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stdout);
        assert!(
            done.status.success() && text.contains("1 passed"),
            "as uid {ORDINARY}: {text}{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
}

macro_rules! both {
    ($(#[$meta:meta])* async fn $name:ident() $body:block) => {
        $(#[$meta])*
        #[test]
        fn $name() {
            run_async(async $body);
            repeat_as_ordinary_user(stringify!($name));
        }
    };
}

fn spec() -> SandboxSpec {
    SandboxSpec {
        id: SandboxId::random().unwrap(),
        slug: Slug::from_text("test").unwrap(),
        hostname: "cofferdam-test".into(),
        workdir: "/".into(),
        mounts: Vec::new(),
        environment: BTreeMap::new(),
        search_path: None,
        caller_home: None,
        programs: Vec::new(),
        unseen: Vec::new(),
        limits: Limits::default(),
        network: Network::None,
    }
}

async fn create(spec: &SandboxSpec) -> Result<Arc<dyn Sandbox>, SandboxError> {
    Native::new(NativeOptions::default())
        .create(spec, &CancellationToken::new())
        .await
}

fn words<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Vec<OsString> {
    words
        .into_iter()
        .map(|word| word.as_ref().to_owned())
        .collect()
}

async fn start(sandbox: &dyn Sandbox, script: &str) -> Box<dyn Execution> {
    let arguments = words(["sh", "-c", script]);
    sandbox
        .exec(ExecRequest {
            arguments,
            ..ExecRequest::default()
        })
        .await
        .unwrap()
}

async fn finish(mut run: Box<dyn Execution>) -> (Exit, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (mut stdout, mut stderr) = (run.take_stdout().unwrap(), run.take_stderr().unwrap());
    let (a, b) = tokio::join!(stdout.read_to_end(&mut out), stderr.read_to_end(&mut err));
    a.unwrap();
    b.unwrap();
    let exit = run.wait().await.unwrap();
    (
        exit,
        String::from_utf8_lossy(&out).into(),
        String::from_utf8_lossy(&err).into(),
    )
}

async fn sh(sandbox: &dyn Sandbox, script: &str) -> (Exit, String, String) {
    finish(start(sandbox, script).await).await
}

/// Standard output of a script that must succeed.
async fn ok(sandbox: &dyn Sandbox, script: &str) -> String {
    let (exit, out, err) = sh(sandbox, script).await;
    assert!(exit.success(), "{script}: {exit}: {out}{err}");
    out
}

/// A script that must fail.
async fn fails(sandbox: &dyn Sandbox, script: &str) -> String {
    let (exit, out, err) = sh(sandbox, script).await;
    assert!(!exit.success(), "{script} did not fail: {out}");
    err
}

fn mount(source: impl Into<PathBuf>, target: impl Into<PathBuf>, access: Access) -> Mount {
    Mount {
        source: MountSource::Path(source.into()),
        target: target.into(),
        access,
    }
}

/// Ids of the processes whose command line contains `marker`.
fn processes_with(marker: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(marker) && pid != std::process::id() {
            found.push(pid);
        }
    }
    found
}

fn status_of(pid: u32, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with(&format!("{field}:")))
        .unwrap();
    line[field.len() + 1..].trim().to_owned()
}

async fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let start = Instant::now();
    while !check() {
        assert!(start.elapsed() < Duration::from_secs(30), "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A number of seconds to sleep that no other test sleeps: found again in command lines.
fn marker() -> String {
    let id = SandboxId::random().unwrap().to_string();
    format!("10000.{}", u64::from_str_radix(&id[..10], 16).unwrap())
}

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
                        assert_eq!(ids[0], ORDINARY);
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
    async fn only_what_is_mounted_is_there() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".cargo/bin")).unwrap();
        fs::create_dir_all(home.path().join(".ssh")).unwrap();
        fs::write(home.path().join(".ssh/id_rsa"), "secret").unwrap();
        fs::write(home.path().join(".cargo/credentials.toml"), "secret").unwrap();
        let tool = home.path().join(".cargo/bin/tool");
        fs::write(&tool, "#!/bin/sh\necho tool\n").unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o700)).unwrap();
        let path = format!("{0}/.cargo/bin:{0}/.ssh:/usr/bin", home.path().display());
        let spec = SandboxSpec {
            search_path: Some(path.into()),
            caller_home: Some(home.path().into()),
            ..spec()
        };
        let sandbox = create(&spec).await.unwrap();
        assert_eq!(ok(&*sandbox, "tool").await, "tool\n");
        let home = home.path().display();
        fails(&*sandbox, &format!("ls {home}/.ssh")).await;
        assert_eq!(ok(&*sandbox, &format!("ls -A {home} {home}/.cargo")).await.matches("secret").count(), 0);
        assert_eq!(ok(&*sandbox, &format!("ls -A {home}/.cargo")).await, "bin\n");
        fails(&*sandbox, &format!("touch {home}/.cargo/bin/new")).await;
        // The test's home lies in /tmp: what is made there is made in the private one.
        ok(&*sandbox, &format!("touch {home}/new")).await;
        assert!(!Path::new(&format!("{home}/new")).exists());
        for place in ["/", "/usr", "/etc", "/dev", "/opt", "/proc", "/home", "/.cofferdam", "/workspace"] {
            fails(&*sandbox, &format!("touch {place}/new")).await;
        }
        for place in ["/tmp", "/var/tmp", "/run", "/home/agent", "/dev/shm", "$HOME"] {
            ok(&*sandbox, &format!("touch {place}/new && ls {place}/new")).await;
        }
        for gone in ["/root", "/sys", "/boot", "/srv", "/var/lib", "/var/run/docker.sock"] {
            fails(&*sandbox, &format!("ls {gone}")).await;
        }
        assert_eq!(ok(&*sandbox, "ls /proc/self/fd").await.lines().count(), 4, "0 to 2 and ls's own");
        assert_eq!(ok(&*sandbox, "echo a > /dev/stdout; echo b | cat /dev/stdin; : < /dev/null > /dev/null").await, "a\nb\n");
        assert_eq!(ok(&*sandbox, "grep -v lo: /proc/net/dev | tail -n +3; umask").await, "0022\n");
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn files_land_with_the_owner_of_the_directory() {
        let mut owners = vec![rustix::process::geteuid().as_raw()];
        if is_root() {
            owners.push(4321);
        }
        for owner in owners {
            let tree = tempfile::tempdir().unwrap();
            std::os::unix::fs::chown(tree.path(), Some(owner), Some(owner)).unwrap();
            fs::write(tree.path().join("old"), "old").unwrap();
            std::os::unix::fs::chown(tree.path().join("old"), Some(owner), None).unwrap();
            fs::set_permissions(tree.path().join("old"), fs::Permissions::from_mode(0o600)).unwrap();
            let locked = tempfile::tempdir().unwrap();
            fs::write(locked.path().join("f"), "f").unwrap();
            let spec = SandboxSpec {
                workdir: "/workspace/repo".into(),
                mounts: vec![
                    mount(tree.path(), "/workspace/repo", Access::ReadWrite),
                    mount(locked.path(), "/.cofferdam/git", Access::ReadOnly),
                ],
                ..spec()
            };
            let sandbox = create(&spec).await.unwrap();
            let script = "cat old; echo new > old; mkdir -p a/b; echo x > a/b/c; ln -s x l; stat -c %u old a; pwd";
            assert_eq!(ok(&*sandbox, script).await, "old1000\n1000\n/workspace/repo\n");
            assert_eq!(ok(&*sandbox, "cat /.cofferdam/git/f").await, "f");
            fails(&*sandbox, "echo x > /.cofferdam/git/f").await;
            fails(&*sandbox, "rm -f /.cofferdam/git/f").await;
            sandbox.close().await.unwrap();
            for name in ["old", "a", "a/b", "a/b/c", "l"] {
                let found = fs::symlink_metadata(tree.path().join(name)).unwrap();
                assert_eq!(found.uid(), owner, "{name}");
            }
            assert_eq!(fs::read_to_string(tree.path().join("old")).unwrap(), "new\n");
        }
    }
}

both! {
    async fn mounts_go_where_they_are_told() {
        let tree = tempfile::tempdir().unwrap();
        let odd = tree.path().join(OsString::from_vec(b"a \"b\"\n'c\\\xff,:$(x)".to_vec()));
        fs::create_dir(&odd).unwrap();
        fs::write(odd.join("f"), "odd").unwrap();
        fs::create_dir(tree.path().join("hidden")).unwrap();
        fs::write(tree.path().join("hidden/secret"), "s").unwrap();
        fs::write(tree.path().join("file"), "below").unwrap();
        fs::write(tree.path().join("over"), "above").unwrap();
        std::os::unix::fs::symlink(&odd, tree.path().join("link")).unwrap();
        let target = PathBuf::from(OsString::from_vec(b"/workspace/t \"q\"\n'\xfe".to_vec()));
        let over = Mount { source: MountSource::Nothing, target: "/workspace/r/hidden".into(), access: Access::ReadOnly };
        let base = SandboxSpec {
            mounts: vec![
                mount(&odd, &target, Access::ReadWrite),
                mount(tree.path(), "/workspace/r", Access::ReadWrite),
                over,
                mount(tree.path().join("over"), "/workspace/r/file", Access::ReadOnly),
                mount(tree.path().join("over"), "/.cofferdam/new/file", Access::ReadOnly),
            ],
            ..spec()
        };
        let sandbox = create(&base).await.unwrap();
        let arguments = words([OsStr::new("cat"), target.join("f").as_os_str()]);
        let run = sandbox.exec(ExecRequest { arguments, ..ExecRequest::default() }).await.unwrap();
        assert_eq!(finish(run).await.1, "odd");
        let directory = Some(target.clone());
        let arguments = words(["sh", "-c", "cat f; echo new > g"]);
        let run = sandbox.exec(ExecRequest { arguments, directory, ..ExecRequest::default() }).await.unwrap();
        assert_eq!(finish(run).await.1, "odd");
        assert_eq!(fs::read_to_string(odd.join("g")).unwrap(), "new\n");
        assert_eq!(ok(&*sandbox, "ls -A /workspace/r/hidden; cat /workspace/r/file /.cofferdam/new/file").await, "aboveabove");
        fails(&*sandbox, "touch /workspace/r/hidden/x").await;
        fails(&*sandbox, "rmdir /workspace/r/hidden").await;
        sandbox.close().await.unwrap();
        assert_eq!(fs::read_to_string(tree.path().join("file")).unwrap(), "below");

        let refused = |mount: Mount| {
            let mut mounts = base.mounts.clone();
            mounts.push(mount);
            let spec = SandboxSpec { id: SandboxId::random().unwrap(), mounts, ..base.clone() };
            async move { create(&spec).await.unwrap_err() }
        };
        let error = refused(mount(&odd, "/workspace/r/not/there", Access::ReadOnly)).await;
        assert!(matches!(&error, SandboxError::Unsupported { what, .. } if what.contains("/workspace/r/not/there")), "{error}");
        assert!(!tree.path().join("not").exists(), "nothing is made in a host directory");
        let error = refused(mount(&odd, "/workspace/r/link/x", Access::ReadOnly)).await;
        assert!(matches!(&error, SandboxError::Unsupported { what, .. } if what.contains("symlink")), "{error}");
        for target in ["/workspace/../x", "/", "relative"] {
            let error = refused(mount(&odd, target, Access::ReadOnly)).await;
            assert!(matches!(&error, SandboxError::Unsupported { .. }), "{target}: {error}");
        }
        for source in ["link", "missing"] {
            let error = refused(mount(tree.path().join(source), "/workspace/new", Access::ReadOnly)).await;
            assert!(error.to_string().contains(source), "{error}");
        }
    }
}

both! {
    async fn a_mount_over_itself_changes_rights_and_follows_no_symlink() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir_all(dir.path().join("work/a/b/c")).unwrap();
        fs::create_dir_all(dir.path().join("outside/b")).unwrap();
        fs::write(dir.path().join("outside/b/secret"), "s").unwrap();
        let again = |target: &str, access| Mount { source: MountSource::Target, target: target.into(), access };
        let mut spec = spec();
        spec.mounts = vec![
            mount(dir.path().join("work"), "/w", Access::ReadWrite),
            again("/w/a", Access::ReadWrite),
            again("/w/a/b", Access::ReadOnly),
        ];
        let sandbox = create(&spec).await.unwrap();
        ok(&*sandbox, "touch /w/x /w/a/x").await;
        assert!(fails(&*sandbox, "touch /w/a/b/x").await.contains("Read-only"));
        assert!(fails(&*sandbox, "mv /w/a /w/old").await.contains("busy"));
        sandbox.close().await.unwrap();
        // Who works in the same directory at the same time may have exchanged it.
        fs::rename(dir.path().join("work/a"), dir.path().join("work/old")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("outside"), dir.path().join("work/a")).unwrap();
        for first in [1, 2] {
            let mut spec = spec.clone();
            spec.id = SandboxId::random().unwrap();
            spec.mounts.drain(1..first);
            let error = create(&spec).await.unwrap_err();
            assert!(error.to_string().contains("cannot mount"), "{error}");
        }
    }
}

both! {
    async fn a_program_that_cannot_run_is_an_error_at_once() {
        let sandbox = create(&spec()).await.unwrap();
        let began = Instant::now();
        for (arguments, directory, part) in [
            (words(["no-such-program"]), None, "does not exist"),
            (words(["/no/such/program"]), None, "does not exist"),
            (words(["/etc/passwd"]), None, "Permission denied"),
            (words(["true"]), Some("/no/such/directory"), "/no/such/directory"),
            (words(["true", &"x".repeat(200_000)]), None, "too long"),
            (words(["true", &"x".repeat(2 << 20)]), None, "too long"),
            (Vec::new(), None, ""),
        ] {
            let directory = directory.map(PathBuf::from);
            let request = ExecRequest { arguments, directory, stdin: true, ..ExecRequest::default() };
            let error = sandbox.exec(request).await.unwrap_err();
            assert!(matches!(error, SandboxError::Program { .. }), "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
        // At once: it waits for nothing. A busy machine takes its time.
        assert!(began.elapsed() < Duration::from_secs(20));
        // A program that never reads its megabyte of input.
        let request = ExecRequest { arguments: words(["true"]), stdin: true, ..ExecRequest::default() };
        let mut run = sandbox.exec(request).await.unwrap();
        let mut stdin = run.take_stdin().unwrap();
        let _ = stdin.write_all(&vec![b'x'; 1 << 20]).await;
        assert!(run.wait().await.unwrap().success());
        // And one that reads it all.
        let request = ExecRequest { arguments: words(["wc", "-c"]), stdin: true, ..ExecRequest::default() };
        let mut run = sandbox.exec(request).await.unwrap();
        let mut stdin = run.take_stdin().unwrap();
        stdin.write_all(&vec![b'x'; 1 << 20]).await.unwrap();
        drop(stdin);
        assert_eq!(finish(run).await.1.trim(), "1048576");
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn exits_are_told_apart() {
        let sandbox = create(&spec()).await.unwrap();
        assert_eq!(sh(&*sandbox, "exit 7").await.0, Exit::Code(7));
        assert_eq!(sh(&*sandbox, "kill -9 $$").await.0, Exit::Signal(9));
        assert_eq!(sh(&*sandbox, "kill -TERM $$").await.0, Exit::Signal(15));
        let mut run = start(&*sandbox, "trap '' TERM; echo ready; while :; do sleep 0.01; done").await;
        let mut line = [0u8; 6];
        run.take_stdout().unwrap().read_exact(&mut line).await.unwrap();
        run.kill(15).await.unwrap();
        let waited = tokio::time::timeout(Duration::from_millis(200), run.wait()).await;
        assert!(waited.is_err(), "it ignores SIGTERM");
        run.kill(9).await.unwrap();
        assert_eq!(run.wait().await.unwrap(), Exit::Signal(9));
        assert_eq!(run.wait().await.unwrap(), Exit::Signal(9), "told again");
        sandbox.close().await.unwrap();
    }
}

both! {
    /// A program that makes its parent, which is the init, its tracer, stops, and goes on: only an exit is its exit.
    async fn a_stop_is_no_exit() {
        let sandbox = create(&spec()).await.unwrap();
        let traced = "$| = 1; $SIG{USR1} = sub { print \"heard \" }; syscall(101, 0, 0, 0, 0) == 0 or die $!;";
        // The control: nobody is its tracer.
        let alone = "$SIG{USR1} = sub { print \"heard \" }; kill USR1, $$; print \"on\"; exit 7";
        let (exit, out, _) = sh(&*sandbox, &format!("exec perl -e '{alone}'")).await;
        assert_eq!((exit, out.as_str()), (Exit::Code(7), "heard on"));
        for (signal, said) in [("USR1", "heard on"), ("TRAP", "on"), ("CONT", "on"), ("WINCH", "on")] {
            let script = format!("exec perl -e '{traced} kill {signal}, $$; kill {signal}, $$ if \"{signal}\" eq \"TRAP\"; print \"on\"; exit 7'");
            // What is taken for an exit stays stopped, with the ends of its pipes.
            let ended = tokio::time::timeout(Duration::from_secs(20), sh(&*sandbox, &script)).await;
            let (exit, out, err) = ended.unwrap_or_else(|_| panic!("{signal}: a stop was taken for an exit"));
            // Asked for once, the init is no tracer any more: the second trap is one.
            if signal == "TRAP" {
                assert_eq!((exit, out.as_str()), (Exit::Signal(5), ""), "{err}");
            } else {
                assert_eq!((exit, out.as_str()), (Exit::Code(7), said), "{signal}: {err}");
            }
        }
        // Stopped as by a shell, not for ever: the host wakes it.
        let mut run = start(&*sandbox, &format!("exec perl -e '{traced} kill STOP, $$; print \"on\"; exit 7'")).await;
        let waited = tokio::time::timeout(Duration::from_millis(200), run.wait()).await;
        assert!(waited.is_err(), "{waited:?}");
        run.kill(18).await.unwrap();
        let (exit, out, err) = finish(run).await;
        assert_eq!((exit, out.as_str()), (Exit::Code(7), "on"), "{err}");
        // One that became the init's child only later; an execve, which a tracer sees as a trap; a second thread.
        let orphan = format!("pipe R, W; if (!fork) {{ close R; if (!fork) {{ select undef, undef, undef, 0.01 while getppid != 1; \
            {traced} kill USR1, $$; open O, \">&\", W; print O \"orphan\"; close O }} exit }} wait; close W; print <R>");
        let (exit, out, err) = sh(&*sandbox, &format!("exec perl -e '{orphan}'")).await;
        assert!(exit.success() && out.ends_with("orphan"), "{exit} {out} {err}");
        let executes = format!("exec perl -e '{traced} exec \"sh\", \"-c\", \"echo on; exit 7\"'");
        let (exit, out, err) = sh(&*sandbox, &executes).await;
        assert_eq!((exit, out.as_str()), (Exit::Code(7), "on\n"), "{err}");
        sandbox.close().await.unwrap();
    }
}

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
        let request = ExecRequest { arguments: words(["true"]), ..ExecRequest::default() };
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
                .args(["--exact", "helper_that_is_killed", "--nocapture"])
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
        let limits = Limits {
            memory: Some(256 << 20),
            ..Limits::default()
        };
        let sandbox = create(&SandboxSpec {
            id,
            limits,
            ..spec()
        })
        .await
        .unwrap();
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
                .args(["--exact", "helper_with_limits"])
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
            remove_leftovers(id).await;
            assert_eq!(control_groups(id), Vec::<PathBuf>::new());
        }
        assert!(seen > 0, "none of them came as far as its control groups");
    });
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

/// Runs one system call by number; its first argument are numbers. Prints the error number or 0.
fn call(arguments: &str) -> String {
    format!("perl -e '$r = syscall({arguments}); print $r < 0 ? $!+0 : 0'")
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
        // Watches on files: half of what the caller may have.
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
    async fn loopback_works_and_nothing_else() {
        let sandbox = create(&spec()).await.unwrap();
        let serve = "use IO::Socket::INET; $l = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\") or die; \
                     $c = IO::Socket::INET->new(PeerAddr => \"127.0.0.1\", PeerPort => $l->sockport) or die; print \"ok\"";
        assert_eq!(ok(&*sandbox, &format!("perl -e '{serve}'")).await, "ok");
        let out = "use IO::Socket::INET; IO::Socket::INET->new(PeerAddr => \"192.0.2.1:80\", Timeout => 2) and print \"out\"; print $!+0";
        assert_eq!(ok(&*sandbox, &format!("perl -e '{out}'")).await, "101", "ENETUNREACH");
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn limits_hold() {
        let limits = Limits { processes: Some(20), open_files: Some(50), ..Limits::default() };
        let sandbox = create(&SandboxSpec { limits, ..spec() }).await.unwrap();
        let fork = |n: u32| format!("perl -e 'for (1..{n}) {{ $p = fork; defined $p or do {{ print $!+0; exit }}; $p or do {{ sleep 5; exit }} }} print \"all\"; kill 9, -$$'");
        let (_, out, _) = sh(&*sandbox, &format!("setsid -w {}", fork(50))).await;
        assert_eq!(out, "11", "EAGAIN");
        sandbox.close().await.unwrap();
        let limits = Limits { processes: Some(20), open_files: Some(50), ..Limits::default() };
        let sandbox = create(&SandboxSpec { limits, ..spec() }).await.unwrap();
        assert!(ok(&*sandbox, "ulimit -n; ulimit -c").await.starts_with("50\n0\n"));
        let ten = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1 & done; wait; echo all";
        assert_eq!(ok(&*sandbox, ten).await, "all\n");
        sandbox.close().await.unwrap();

        let limits = Limits { memory: Some(64 << 20), cpus: Some(0.5), ..Limits::default() };
        let spec = SandboxSpec { limits, ..spec() };
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
            let limits = Limits { cpus: Some(cpus), ..Limits::default() };
            let spec = SandboxSpec { limits, ..spec() };
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

/// The control groups of this sandbox, in every hierarchy.
fn control_groups(id: SandboxId) -> Vec<PathBuf> {
    let mut tops: Vec<PathBuf> = vec!["/sys/fs/cgroup".into()];
    tops.extend(
        fs::read_dir("/sys/fs/cgroup")
            .unwrap()
            .flatten()
            .map(|entry| entry.path()),
    );
    let group = |top: PathBuf| top.join("cofferdam").join(id.to_string());
    tops.into_iter()
        .map(group)
        .filter(|group| group.exists())
        .collect()
}

both! {
    async fn what_lies_below_a_mount_is_left_out() {
        let spec = SandboxSpec { mounts: vec![mount("/dev", "/workspace/dev", Access::ReadOnly)], ..spec() };
        match create(&spec).await {
            // The file system of /dev cannot map owners: read-only it is mounted as it is.
            Ok(sandbox) => {
                assert!(is_root());
                ok(&*sandbox, "test -e /workspace/dev/null").await;
                assert_eq!(ok(&*sandbox, "ls -A /workspace/dev/pts").await, "");
                fails(&*sandbox, ": < /workspace/dev/null").await;
            }
            // An ordinary user cannot take it apart from what covers it.
            Err(SandboxError::Unsupported { what, .. }) => {
                assert!(!is_root() && what.contains("mounted below"), "{what}");
            }
            Err(error) => panic!("{error}"),
        }
        let writable = SandboxSpec { mounts: vec![mount("/dev", "/workspace/dev", Access::ReadWrite)], ..spec };
        let error = create(&writable).await.unwrap_err();
        assert!(matches!(&error, SandboxError::Unsupported { what, .. } if what.contains("/dev")), "{error}");
    }
}

both! {
    async fn freezing_stops_and_thawing_goes_on() {
        let sandbox = create(&spec()).await.unwrap();
        let script = "while :; do echo x; sleep 0.005; done & wait";
        let mut run = start(&*sandbox, script).await;
        let mut stdout = run.take_stdout().unwrap();
        let mut buffer = [0u8; 4096];
        assert!(stdout.read(&mut buffer).await.unwrap() > 0);
        sandbox.freeze().await.unwrap();
        // What was written before may still be in the pipe.
        while let Ok(read) = tokio::time::timeout(Duration::from_millis(300), stdout.read(&mut buffer)).await {
            assert!(read.unwrap() < 4096, "it still writes");
        }
        sandbox.thaw().await.unwrap();
        assert!(stdout.read(&mut buffer).await.unwrap() > 0);
        sandbox.close().await.unwrap();
    }
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

both! {
    async fn many_programs_at_once() {
        let sandbox = create(&spec()).await.unwrap();
        let runs = (0..50).map(|n| {
            let sandbox = Arc::clone(&sandbox);
            tokio::spawn(async move { (n, sh(&*sandbox, &format!("echo {n}; exit {n}")).await) })
        });
        for run in runs.collect::<Vec<_>>() {
            let (n, (exit, out, _)) = run.await.unwrap();
            assert_eq!((exit, out), (Exit::Code(n), format!("{n}\n")));
        }
        sandbox.close().await.unwrap();
    }
}

fn jail_request(script: &str) -> JailRequest {
    JailRequest {
        mounts: Vec::new(),
        arguments: words(["sh", "-c", script]),
        environment: BTreeMap::new(),
        directory: "/".into(),
        stdin: Vec::new(),
        stdout: JailOutput::Capture(1 << 20),
        limits: Limits::default(),
        timeout: Duration::from_secs(20),
    }
}

both! {
    async fn a_jail_runs_one_program() {
        let cancel = CancellationToken::new();
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("f"), "content").unwrap();
        let request = JailRequest {
            mounts: vec![mount(tree.path(), "/in", Access::ReadOnly)],
            stdin: b"input ".to_vec(),
            environment: [("A".into(), "env ".into())].into(),
            ..jail_request("cat; printf '%s' \"$A\"; cat /in/f; echo oops >&2; rm -f /in/f; sleep 1000 & exit 3")
        };
        let done = jail::run(request, &cancel).await.unwrap();
        assert_eq!((done.exit, &done.stdout[..]), (Exit::Code(3), &b"input env content"[..]));
        assert!(done.stderr_tail.starts_with(b"oops\n"));
        assert!(tree.path().join("f").exists());

        let out = fs::File::create(tree.path().join("out")).unwrap();
        let request = JailRequest { stdout: JailOutput::Fd(out.into()), ..jail_request("echo to a file") };
        jail::run(request, &cancel).await.unwrap();
        assert_eq!(fs::read_to_string(tree.path().join("out")).unwrap(), "to a file\n");

        let request = JailRequest { stdout: JailOutput::Capture(10), ..jail_request("yes") };
        assert!(jail::run(request, &cancel).await.is_err());
        let began = Instant::now();
        let request = JailRequest { timeout: Duration::from_millis(300), ..jail_request("sleep 1000") };
        assert!(matches!(jail::run(request, &cancel).await, Err(SandboxError::TimedOut(_))));
        cancel.cancel();
        assert!(matches!(jail::run(jail_request("sleep 1000"), &cancel).await, Err(SandboxError::Cancelled)));
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn closing_leaves_mounts_and_namespaces_as_they_were() {
    let mounts = || fs::read_to_string("/proc/self/mounts").unwrap();
    let before = mounts();
    run_async(async {
        for _ in 0..5 {
            let sandbox = create(&spec()).await.unwrap();
            ok(&*sandbox, "true").await;
            sandbox.close().await.unwrap();
        }
    });
    assert_eq!(mounts(), before);
}
