//! What every test of the native sandbox needs: sandboxes, scripts in them, and what the host sees of them.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs};

use cofferdam::names::{SandboxId, Slug};
use cofferdam::sandbox::native::{Native, NativeOptions};
use cofferdam::sandbox::{
    Access, BindMountProvider, ExecRequest, Execution, Exit, Lifetime, Mount, MountSource, Sandbox,
    SandboxError, SandboxSpec,
};
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

/// An ordinary user of this test's own: what the kernel counts for a user, no other test takes.
pub(crate) fn own_id() -> u32 {
    10_000 + std::process::id() % 50_000
}

/// Waits until no other process of this program counts what the caller has, and keeps them waiting.
pub(crate) fn alone() -> fs::File {
    let program = fs::File::open(env::current_exe().unwrap()).unwrap();
    rustix::fs::flock(&program, rustix::fs::FlockOperation::LockExclusive).unwrap();
    program
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn run_async(body: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            let limit = Duration::from_mins(3);
            tokio::time::timeout(limit, body)
                .await
                .expect("a test ends within three minutes");
        });
}

/// This program where user 1234 can execute it.
pub(crate) fn public_copy() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (program, copy) = (env::current_exe().unwrap(), dir.path().join("native"));
    if fs::hard_link(&program, &copy).is_err() {
        fs::copy(&program, &copy).unwrap();
    }
    dir
}

fn as_ordinary_user(id: u32, program: &Path) -> Command {
    let id = id.to_string();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", &id, "--regid", &id, "--clear-groups"])
        .arg(program)
        .current_dir("/");
    command
}

/// `test` is its whole path, from the name of this program on.
pub(crate) fn repeat_as_ordinary_user(test: &str) {
    let (_, test) = test.split_once("::").unwrap();
    if is_root() {
        let copy = public_copy();
        let mut command = as_ordinary_user(own_id(), &copy.path().join("native"));
        let done = command
            .args(["--exact", test, "--nocapture"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stdout);
        assert!(
            done.status.success() && text.contains("1 passed"),
            "as an ordinary user: {text}{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
}

macro_rules! both {
    ($(#[$meta:meta])* async fn $name:ident() $body:block) => {
        $(#[$meta])*
        #[test]
        fn $name() {
            $crate::world::run_async(async $body);
            $crate::world::repeat_as_ordinary_user(concat!(module_path!(), "::", stringify!($name)));
        }
    };
}

pub(crate) fn spec() -> SandboxSpec {
    let (id, slug) = (SandboxId::random(), Slug::from_text("test"));
    SandboxSpec::new(id.unwrap(), slug.unwrap(), "cofferdam-test", "/")
}

pub(crate) async fn create(spec: &SandboxSpec) -> Result<Arc<dyn Sandbox>, SandboxError> {
    let sandbox = Native::new(NativeOptions::default())
        .create(spec, &CancellationToken::new())
        .await?;
    if spec.lifetime != Lifetime::WithMaker {
        sandbox.stay().await?;
    }
    Ok(sandbox)
}

pub(crate) fn words<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Vec<OsString> {
    words
        .into_iter()
        .map(|word| word.as_ref().to_owned())
        .collect()
}

pub(crate) async fn start(sandbox: &dyn Sandbox, script: &str) -> Box<dyn Execution> {
    let request = ExecRequest::new(["sh", "-c", script]);
    sandbox.exec(request).await.unwrap()
}

pub(crate) async fn finish(mut run: Box<dyn Execution>) -> (Exit, String, String) {
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

pub(crate) async fn sh(sandbox: &dyn Sandbox, script: &str) -> (Exit, String, String) {
    finish(start(sandbox, script).await).await
}

/// Standard output of a script that must succeed.
pub(crate) async fn ok(sandbox: &dyn Sandbox, script: &str) -> String {
    let (exit, out, err) = sh(sandbox, script).await;
    assert!(exit.success(), "{script}: {exit}: {out}{err}");
    out
}

/// A script that must fail.
pub(crate) async fn fails(sandbox: &dyn Sandbox, script: &str) -> String {
    let (exit, out, err) = sh(sandbox, script).await;
    assert!(!exit.success(), "{script} did not fail: {out}");
    err
}

pub(crate) fn mount(
    source: impl Into<PathBuf>,
    target: impl Into<PathBuf>,
    access: Access,
) -> Mount {
    Mount {
        source: MountSource::Path(source.into()),
        target: target.into(),
        access,
    }
}

/// Ids of the processes whose command line contains `marker`.
pub(crate) fn processes_with(marker: &str) -> Vec<u32> {
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

pub(crate) fn status_of(pid: u32, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with(&format!("{field}:")))
        .unwrap();
    line[field.len() + 1..].trim().to_owned()
}

pub(crate) async fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let start = Instant::now();
    while !check() {
        assert!(start.elapsed() < Duration::from_secs(30), "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A number of seconds to sleep that no other test sleeps: found again in command lines.
pub(crate) fn marker() -> String {
    let id = SandboxId::random().unwrap().to_string();
    format!("10000.{}", u64::from_str_radix(&id[..10], 16).unwrap())
}

/// Runs one system call by number; its first argument are numbers. Prints the error number or 0.
pub(crate) fn call(arguments: &str) -> String {
    format!("perl -e '$r = syscall({arguments}); print $r < 0 ? $!+0 : 0'")
}

/// The control groups of this sandbox, in every hierarchy.
pub(crate) fn control_groups(id: SandboxId) -> Vec<PathBuf> {
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

pub(crate) use both;

/// What is mounted on this machine, a line each, but for what engines mount for containers: those of other tests live as they like.
pub(crate) fn mounts() -> BTreeSet<String> {
    const OF_ENGINES: [&str; 4] = [
        "/overlay",
        "/netns/",
        "/containers/",
        "/overlay-containers/",
    ];
    let text = fs::read_to_string("/proc/self/mounts").unwrap();
    let place = |line: &str| line.split(' ').nth(1).unwrap_or_default().to_owned();
    let lines = text.lines().filter(|line| {
        let place = place(line);
        !OF_ENGINES.iter().any(|part| place.contains(part))
    });
    lines.map(str::to_owned).collect()
}

/// Others mount and unmount on this machine meanwhile; what is left of a sandbox stays.
pub(crate) async fn new_mounts_go(before: &BTreeSet<String>) {
    let mut left = &mounts() - before;
    eventually("what was mounted meanwhile goes again", || {
        left = &left & &mounts();
        left.is_empty()
    })
    .await;
}
