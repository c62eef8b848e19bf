//! A stand-in for everything behind the boundary: its replies, exit codes, git directories and packs
//! come from generators and from a list of spite. The host never hangs, and no reference but the
//! sandbox's own moves.
//!
//! The guest's protocol itself is fuzzed beside its reader, in `sandbox/native/connection.rs`.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests start programs, write files, and fail by panicking"
)]

#[path = "session/support.rs"]
#[expect(dead_code, reason = "shared with the session's tests")]
mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cofferdam::sandbox::{
    BindMount, BindMountProvider, BoxRead, BoxWrite, BranchStrategy, CopyStrategy, ExecRequest,
    Execution, Exit, Isolated, IsolatedProvider, IsolatedSandbox, MountSource, NetworkKind,
    Sandbox, SandboxError, SandboxSpec,
};
use cofferdam::session::manage;
use cofferdam::{RunError, RunReport};
use proptest::prelude::*;
use support::{Env, command, run};
use tokio_util::sync::CancellationToken;

/// No scenario may take longer, collecting included.
const LIMIT: Duration = Duration::from_secs(25);

/// What a program in the sandbox pretends to do.
#[derive(Debug, Clone)]
struct Pretence {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: End,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Exit(Exit),
    /// It never says that it has ended.
    Never,
    /// The sandbox breaks down.
    Gone,
}

impl Pretence {
    fn says(stdout: impl Into<Vec<u8>>) -> Self {
        Self {
            stdout: stdout.into(),
            stderr: Vec::new(),
            end: End::Exit(Exit::Code(0)),
        }
    }
}

#[derive(Debug)]
struct Run {
    pretence: Pretence,
    taken: bool,
}

#[async_trait]
impl Execution for Run {
    fn take_stdin(&mut self) -> Option<BoxWrite> {
        Some(Box::new(tokio::io::sink()))
    }

    fn take_stdout(&mut self) -> Option<BoxRead> {
        self.taken = true;
        Some(Box::new(std::io::Cursor::new(self.pretence.stdout.clone())))
    }

    fn take_stderr(&mut self) -> Option<BoxRead> {
        Some(Box::new(std::io::Cursor::new(self.pretence.stderr.clone())))
    }

    async fn wait(&mut self) -> Result<Exit, SandboxError> {
        match self.pretence.end {
            End::Exit(exit) => Ok(exit),
            End::Never => std::future::pending().await,
            End::Gone => Err(SandboxError::Gone("it exploded".into())),
        }
    }

    async fn kill(&mut self, _signal: i32) -> Result<(), SandboxError> {
        match self.pretence.end {
            // Not even that is answered.
            End::Never => std::future::pending().await,
            _ => Ok(()),
        }
    }
}

/// A program's name and arguments to what it pretends.
type Script = Arc<dyn Fn(&ExecRequest) -> Pretence + Send + Sync>;
/// What the agent does to its git directory.
type Spite = Arc<dyn Fn(&Path) + Send + Sync>;

/// A sandbox that only pretends, with or without files of its own.
#[derive(Clone)]
struct Hostile {
    script: Script,
    spite: Spite,
    /// `close` is never answered.
    stays: bool,
    git: PathBuf,
}

impl std::fmt::Debug for Hostile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hostile")
    }
}

impl Hostile {
    fn new(script: impl Fn(&ExecRequest) -> Pretence + Send + Sync + 'static) -> Self {
        Self {
            script: Arc::new(script),
            spite: Arc::new(|_| {}),
            stays: false,
            git: PathBuf::new(),
        }
    }

    fn spiteful(spite: impl Fn(&Path) + Send + Sync + 'static) -> Self {
        Self {
            spite: Arc::new(spite),
            ..Self::new(|_| Pretence::says("done\n"))
        }
    }
}

#[async_trait]
impl Sandbox for Hostile {
    async fn exec(&self, request: ExecRequest) -> Result<Box<dyn Execution>, SandboxError> {
        if self.git.is_dir() {
            (self.spite)(&self.git);
        }
        Ok(Box::new(Run {
            pretence: (self.script)(&request),
            taken: false,
        }))
    }

    async fn close(&self) -> Result<(), SandboxError> {
        if self.stays {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

#[async_trait]
impl IsolatedSandbox for Hostile {
    async fn copy_in(&self, _source: &Path, _target: &Path) -> Result<(), SandboxError> {
        Ok(())
    }
}

#[async_trait]
impl BindMountProvider for Hostile {
    fn name(&self) -> &'static str {
        "hostile"
    }

    fn networks(&self) -> &[NetworkKind] {
        &[NetworkKind::None]
    }

    async fn create(
        &self,
        spec: &SandboxSpec,
        _cancel: &CancellationToken,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        let git = spec.mounts.iter().find_map(|mount| match &mount.source {
            MountSource::Path(path) if path.ends_with("git") => Some(path.clone()),
            _ => None,
        });
        Ok(Arc::new(Self {
            git: git.unwrap(),
            ..self.clone()
        }))
    }
}

#[async_trait]
impl IsolatedProvider for Hostile {
    fn name(&self) -> &'static str {
        "hostile"
    }

    fn networks(&self) -> &[NetworkKind] {
        &[NetworkKind::None]
    }

    async fn create(
        &self,
        _spec: &SandboxSpec,
        _cancel: &CancellationToken,
    ) -> Result<Arc<dyn IsolatedSandbox>, SandboxError> {
        Ok(Arc::new(self.clone()))
    }
}

/// A repository with another branch that no sandbox ever sees.
fn env() -> Env {
    let env = Env::new();
    env.git(&["checkout", "-qb", "secret"]);
    env.write("secret.txt", "secret\n");
    env.commit_all("secret");
    env.git(&["checkout", "-q", "main"]);
    env
}

/// Runs it, and then `gc`, and checks that both ended in time and moved nothing.
#[track_caller]
fn survives(
    env: &Env,
    sandbox: impl Into<cofferdam::sandbox::Contained>,
    what: &str,
) -> Result<RunReport, RunError> {
    let before = users_refs(env);
    let mut options = env.with(sandbox, command(&["/bin/true"]));
    options.idle_timeout = Duration::from_millis(200);
    options.completion_grace = Duration::from_millis(200);
    options.timeouts.collect = Duration::from_secs(5);
    let began = Instant::now();
    let result = run(options);
    assert!(
        began.elapsed() < LIMIT,
        "{what}: it took {:?}",
        began.elapsed()
    );
    assert_eq!(users_refs(env), before, "{what}: {result:?}");
    env.git(&["fsck", "--full", "--strict", "--no-dangling"]);
    result
}

/// `gc` ends too, moves nothing, and what it cannot bring home it names; `delete` ends it.
#[track_caller]
fn is_cleaned_up(env: &Env, what: &str) {
    let before = users_refs(env);
    let cancel = CancellationToken::new();
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let git = cofferdam::git::Git::new("git");
        let user = env.dir.path().join("user");
        manage::gc(
            &env.home,
            &git,
            Some(&env.repo),
            Some(&user),
            false,
            &cancel,
        )
        .await
        .unwrap();
        let list = manage::list(&env.home, &git, Some(&env.repo), Some(&user), &cancel);
        for one in list.await.unwrap() {
            let target = manage::Target {
                home: env.home.clone(),
                git: git.clone(),
                repository: env.repo.clone(),
                caller_home: Some(user.clone()),
                name: one.name.to_string(),
                cancel: cancel.clone(),
            };
            let options = manage::DeleteOptions {
                force: true,
                purge: true,
            };
            manage::delete(&target, options)
                .await
                .unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    });
    assert!(
        began.elapsed() < LIMIT,
        "{what}: it took {:?}",
        began.elapsed()
    );
    assert_eq!(users_refs(env), before, "{what}");
    env.assert_no_state();
}

fn users_refs(env: &Env) -> Vec<String> {
    let refs = env.refs();
    refs.lines()
        .filter(|line| !line.starts_with("refs/cofferdam/"))
        .map(str::to_owned)
        .collect()
}

fn put(path: PathBuf, bytes: impl AsRef<[u8]>) {
    let _ = fs::remove_file(&path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn node(path: &Path, kind: rustix::fs::FileType, device: u64) {
    let _ = fs::remove_file(path);
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    // Devices only where the caller may; a sandbox may not either.
    let _ = rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, device);
}

fn large(path: &Path) {
    let _ = fs::remove_file(path);
    fs::File::create(path).unwrap().set_len(1 << 30).unwrap();
}

#[test]
fn git_directories_full_of_spite() {
    let nowhere = "1234567890123456789012345678901234567890";
    let outside = tempfile::tempdir().unwrap();
    put(outside.path().join("oid"), format!("{nowhere}\n"));
    let out = outside.path().to_owned();
    let fifo = rustix::fs::FileType::Fifo;
    let zero = rustix::fs::makedev(1, 5);
    let device = rustix::fs::FileType::CharacterDevice;
    let secret = env().git(&["rev-parse", "secret"]);
    let cases: Vec<(&str, Spite)> = vec![
        (
            "HEAD is noise",
            Arc::new(|git| put(git.join("HEAD"), [0xff; 99])),
        ),
        ("HEAD is empty", Arc::new(|git| put(git.join("HEAD"), ""))),
        (
            "HEAD is missing",
            Arc::new(|git| fs::remove_file(git.join("HEAD")).unwrap_or(())),
        ),
        (
            "HEAD is a pipe",
            Arc::new(move |git| node(&git.join("HEAD"), fifo, 0)),
        ),
        (
            "HEAD is a device",
            Arc::new(move |git| node(&git.join("HEAD"), device, zero)),
        ),
        ("HEAD is 1 GiB", Arc::new(|git| large(&git.join("HEAD")))),
        (
            "HEAD leads outside",
            Arc::new(|git| {
                put(
                    git.join("HEAD"),
                    "ref: refs/heads/../../../../../etc/passwd\n",
                );
            }),
        ),
        (
            "HEAD leads to itself",
            Arc::new(|git| put(git.join("HEAD"), "ref: HEAD\n")),
        ),
        (
            "HEAD is no object",
            Arc::new(move |git| put(git.join("HEAD"), format!("{nowhere}\n"))),
        ),
        ("HEAD is a link outside", {
            let out = out.clone();
            Arc::new(move |git| {
                let _ = fs::remove_file(git.join("HEAD"));
                let _ = symlink(out.join("oid"), git.join("HEAD"));
            })
        }),
        ("the branch is what was never exported", {
            let secret = secret.clone();
            Arc::new(move |git| put(git.join("refs/heads/main"), format!("{secret}\n")))
        }),
        (
            "the branch is null",
            Arc::new(|git| put(git.join("refs/heads/main"), format!("{}\n", "0".repeat(40)))),
        ),
        (
            "a branch is a pipe",
            Arc::new(move |git| node(&git.join("refs/heads/pipe"), fifo, 0)),
        ),
        (
            "a branch is a device",
            Arc::new(move |git| node(&git.join("refs/heads/device"), device, zero)),
        ),
        (
            "a branch is 1 GiB",
            Arc::new(|git| large(&git.join("refs/heads/large"))),
        ),
        (
            "branches lead in a circle",
            Arc::new(|git| {
                put(git.join("refs/heads/a"), "ref: refs/heads/b\n");
                put(git.join("refs/heads/b"), "ref: refs/heads/a\n");
                put(git.join("HEAD"), "ref: refs/heads/a\n");
            }),
        ),
        (
            "a name of control bytes",
            Arc::new(move |git| put(git.join("refs/heads/\u{1b}[31m\n"), format!("{nowhere}\n"))),
        ),
        (
            "packed-refs is a pipe",
            Arc::new(move |git| node(&git.join("packed-refs"), fifo, 0)),
        ),
        (
            "packed-refs is 1 GiB",
            Arc::new(|git| large(&git.join("packed-refs"))),
        ),
        (
            "a million refs",
            Arc::new(move |git| {
                let lines: String = (0..1_000_000)
                    .map(|n| format!("{nowhere} refs/heads/x{n}\n"))
                    .collect();
                put(git.join("packed-refs"), lines);
            }),
        ),
        (
            "deep directories",
            Arc::new(|git| {
                let deep: PathBuf = std::iter::repeat_n("d", 300).collect();
                fs::create_dir_all(git.join("refs/heads").join(deep)).unwrap();
            }),
        ),
        ("refs is a link outside", {
            let out = out.clone();
            Arc::new(move |git| {
                let _ = fs::remove_dir_all(git.join("refs"));
                let _ = symlink(&out, git.join("refs"));
            })
        }),
        (
            "a loose object is noise",
            Arc::new(move |git| {
                put(git.join("objects/12").join(&nowhere[2..]), [0x78; 400]);
                put(git.join("refs/heads/main"), format!("{nowhere}\n"));
            }),
        ),
        (
            "packs are noise",
            Arc::new(move |git| {
                put(
                    git.join("objects/pack/pack-1234567890123456789012345678901234567890.pack"),
                    [7; 4000],
                );
                put(
                    git.join("objects/pack/pack-1234567890123456789012345678901234567890.idx"),
                    [9; 4000],
                );
                put(git.join("refs/heads/main"), format!("{nowhere}\n"));
            }),
        ),
        (
            "alternates are a pipe",
            Arc::new(move |git| {
                node(&git.join("objects/info/alternates"), fifo, 0);
                put(git.join("refs/heads/main"), format!("{nowhere}\n"));
            }),
        ),
        (
            "alternates have no end",
            Arc::new(move |git| {
                let _ = fs::remove_file(git.join("objects/info/alternates"));
                let _ = symlink("/dev/zero", git.join("objects/info/alternates"));
                put(git.join("refs/heads/main"), format!("{nowhere}\n"));
            }),
        ),
        (
            "alternates claim 1 TiB",
            Arc::new(|git| {
                let file = git.join("objects/info/alternates");
                let _ = fs::remove_file(&file);
                fs::File::create(file).unwrap().set_len(1 << 40).unwrap();
            }),
        ),
        (
            "a loose object is a pipe",
            Arc::new(move |git| {
                fs::create_dir_all(git.join("objects/12")).unwrap();
                node(&git.join("objects/12").join(&nowhere[2..]), fifo, 0);
                put(git.join("refs/heads/main"), format!("{nowhere}\n"));
            }),
        ),
        ("configuration that runs programs", {
            let out = out.clone();
            Arc::new(move |git| {
                let touch = format!("touch {}/ran", out.display());
                let text = format!(
                    "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {touch}\n\tpager = {touch}\n\
                     \thooksPath = {0}\n\talternateRefsCommand = {touch}\n[uploadpack]\n\tpackObjectsHook = {touch}\n\
                     [include]\n\tpath = {0}/more\n",
                    out.display()
                );
                put(git.join("config"), text);
                put(git.join("refs/heads/main"), format!("{nowhere}\n"));
            })
        }),
        (
            "the configuration is a pipe",
            Arc::new(move |git| {
                node(&git.join("config"), fifo, 0);
                put(git.join("refs/heads/main"), format!("{nowhere}\n"));
            }),
        ),
        (
            "nothing is left",
            Arc::new(|git| {
                for entry in fs::read_dir(git).unwrap().flatten() {
                    let _ =
                        fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
                }
            }),
        ),
    ];
    for (what, spite) in cases {
        let env = env();
        let hostile = Hostile::spiteful(move |git| spite(git));
        let landed = survives(&env, BindMount::new(hostile, BranchStrategy::Head), what);
        if let Ok(report) = landed {
            assert_eq!(report.commits.len(), 0, "{what}");
        }
        is_cleaned_up(&env, what);
        assert!(
            !out.join("ran").exists(),
            "{what}: something of the sandbox's ran"
        );
    }
}

fn ends() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => any::<i32>().prop_map(|code| End::Exit(Exit::Code(code))),
        2 => any::<i32>().prop_map(|signal| End::Exit(Exit::Signal(signal))),
        1 => Just(End::Gone),
    ]
}

fn pretences() -> impl Strategy<Value = Pretence> {
    let word = prop_oneof![
        any::<Vec<u8>>(),
        Just(b"1234567890123456789012345678901234567890".to_vec()),
        Just(b"refs/heads/main".to_vec()),
        Just(b"\n".to_vec()),
        Just(b" ".to_vec()),
        Just(b"PACK\0\0\0\x02\xff\xff\xff\xff".to_vec()),
        Just(vec![b'x'; 70_000]),
    ];
    let stream = proptest::collection::vec(word, 0..8).prop_map(|words| words.concat());
    (stream, any::<Vec<u8>>(), ends()).prop_map(|(stdout, stderr, end)| Pretence {
        stdout,
        stderr,
        end,
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        max_shrink_iters: 20,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(2),
        ..ProptestConfig::default()
    })]

    /// An isolated sandbox that answers every question with something else.
    #[test]
    fn replies_from_a_fuzzer(said in proptest::collection::vec(pretences(), 1..6)) {
        let env = env();
        let next = std::sync::atomic::AtomicUsize::new(0);
        let what = format!("{said:?}");
        let hostile = Hostile::new(move |_| {
            let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            said[number % said.len()].clone()
        });
        let _ = survives(&env, Isolated::new(hostile, CopyStrategy::MergeToHead), &what);
        is_cleaned_up(&env, &what);
    }
}

/// Packs of an isolated sandbox: a real one, cut, flipped, repeated, and noise.
#[test]
fn packs_from_a_fuzzer() {
    let env = env();
    let (tip, pack) = real_pack(&env);
    let mut seed = 0x1234_5678_9abc_def1_u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    // The whole pack lands: what is changed below is what refuses it.
    let landed = survives_pack(&env, &tip, pack.clone(), "the pack itself").unwrap();
    assert_eq!(landed.commits.len(), 1);
    for round in 0..24 {
        let mut bytes = pack.clone();
        match round % 4 {
            0 => bytes.truncate(random(pack.len())),
            1 => {
                let at = random(pack.len());
                bytes[at] ^= 1 << random(8);
            }
            2 => {
                bytes = (0..random(5000))
                    .map(|_| u8::try_from(random(256)).unwrap())
                    .collect();
            }
            _ => {
                let at = random(pack.len());
                let insert: Vec<u8> = bytes[..at].to_vec();
                bytes.splice(at..at, insert);
            }
        }
        let env = self::env();
        let (tip, _) = real_pack(&env);
        let what = format!("round {round}");
        let result = survives_pack(&env, &tip, bytes, &what);
        if let Ok(report) = &result {
            assert_eq!(report.commits.len(), 0, "{what}: {report:?}");
        }
        is_cleaned_up(&env, &what);
    }
}

/// A commit on `main` as an agent would make it, packed; the repository forgets it again.
fn real_pack(env: &Env) -> (String, Vec<u8>) {
    let apart = env.dir.path().join("apart");
    let git = |directory: &Path, arguments: &[&str]| {
        let done = env.try_git(directory, arguments);
        assert!(done.status.success(), "{arguments:?}");
        done.stdout
    };
    git(env.dir.path(), &["clone", "-q", "repo", "apart"]);
    fs::write(apart.join("new.txt"), "new\n").unwrap();
    fs::write(apart.join("README.md"), "hello\nagain\n").unwrap();
    git(&apart, &["add", "-A"]);
    git(
        &apart,
        &[
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@b",
            "commit",
            "-qm",
            "new",
        ],
    );
    let tip = String::from_utf8(git(&apart, &["rev-parse", "HEAD"]))
        .unwrap()
        .trim()
        .to_owned();
    git(
        &apart,
        &["bundle", "create", "-q", "b", "origin/main..HEAD"],
    );
    let bundle = fs::read(apart.join("b")).unwrap();
    let start = bundle
        .windows(6)
        .position(|bytes| bytes == b"\n\nPACK")
        .unwrap()
        + 2;
    (tip, bundle[start..].to_vec())
}

#[track_caller]
fn survives_pack(env: &Env, tip: &str, pack: Vec<u8>, what: &str) -> Result<RunReport, RunError> {
    let tip = tip.to_owned();
    let hostile = Hostile::new(move |request| {
        let line = request
            .arguments
            .last()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        if line.contains("pack-objects") {
            Pretence::says(pack.clone())
        } else if line.contains("rev-parse") {
            Pretence::says(format!("{tip}\nrefs/heads/evil\n{tip} refs/heads/evil\n"))
        } else {
            Pretence::says("")
        }
    });
    let strategy = CopyStrategy::Branch {
        branch: "cofferdam/fuzz".parse().unwrap(),
        base: None,
    };
    let mut options = env.with(Isolated::new(hostile, strategy), command(&["/bin/true"]));
    options.timeouts.collect = Duration::from_secs(5);
    let before = users_refs(env);
    let began = Instant::now();
    let result = run(options);
    assert!(
        began.elapsed() < LIMIT,
        "{what}: it took {:?}",
        began.elapsed()
    );
    let after: Vec<String> = users_refs(env)
        .into_iter()
        // The branch that the sandbox was given.
        .filter(|line| !line.starts_with("refs/heads/cofferdam/fuzz"))
        .collect();
    assert_eq!(after, before, "{what}");
    env.git(&["fsck", "--full", "--strict", "--no-dangling"]);
    result
}

/// Silence: an agent that never ends and cannot be killed, in a sandbox that does not close.
#[test]
fn silence_is_bounded() {
    let env = env();
    let mut hostile = Hostile::new(|_| Pretence {
        end: End::Never,
        ..Pretence::says("hello\n")
    });
    hostile.stays = true;
    let began = Instant::now();
    let mut options = env.with(
        BindMount::new(hostile, BranchStrategy::Head),
        command(&["/bin/true"]),
    );
    options.idle_timeout = Duration::from_millis(200);
    let result = run(options);
    assert!(result.is_err());
    assert!(
        began.elapsed() < Duration::from_secs(40),
        "{:?}",
        began.elapsed()
    );
    env.assert_no_state();
}
