//! What `scripts/bench` times by library call. Each subcommand prints one duration in microseconds
//! on each line: see the script for what they mean.
#![expect(clippy::print_stdout, reason = "its output is the result")]

use std::error::Error;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cofferdam::agent::Command;
use cofferdam::git::discovery::{Start, Workspaces};
use cofferdam::git::gate::{Gate, Limits as GateLimits, Rules};
use cofferdam::git::identity::{UserConfig, user_config_around};
use cofferdam::git::index::{self, Owner};
use cofferdam::git::private_clone::{
    INSIDE_GIT_DIR, INSIDE_VAULT, IndexFile, PrivateClone, PrivateCloneSpec,
};
use cofferdam::git::refs::Own;
use cofferdam::git::vault::{Export, Vault};
use cofferdam::git::{Git, Identity, Repository, land};
use cofferdam::home::Home;
use cofferdam::names::{BranchName, SandboxId, Slug};
use cofferdam::process::{Input, Invocation};
use cofferdam::registry;
use cofferdam::sandbox::native::jail::{self, JailOutput, JailRequest};
use cofferdam::sandbox::native::{Native, NativeOptions};
use cofferdam::sandbox::{
    Access, BindMount, BindMountProvider, BranchStrategy, ExecRequest, Limits, Mount, MountSource,
    SandboxSpec,
};
use cofferdam::session::{Event, EventSink, Landing, RunOptions};
use tokio_util::sync::CancellationToken;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: bench native-true N | private-clone REPO N | \
                     indexed-clone REPO N | gate REPO N | \
                     head-ready REPO N | head-unchecked REPO N | head-first REPO N";

fn main() -> Result<()> {
    let mut words = std::env::args();
    if words.next().is_some_and(|name| name.ends_with("/git")) {
        return stand_in_for_git(words.collect());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(bench(words.collect()))
}

/// git, except that `git status` finds nothing, at once: what is left is the rest of a run.
fn stand_in_for_git(words: Vec<String>) -> Result<()> {
    if words.iter().any(|word| word == "status") {
        return Ok(());
    }
    #[expect(clippy::disallowed_methods, reason = "this process becomes git")]
    let mut git = std::process::Command::new("git");
    Err(std::os::unix::process::CommandExt::exec(git.args(words)).into())
}

async fn bench(words: Vec<String>) -> Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (taken, count) = match words[..] {
        ["native-true", count] => (Timed::NativeTrue, count),
        ["private-clone", repo, count] => (Timed::Clone(path(repo)?, false), count),
        ["indexed-clone", repo, count] => (Timed::Clone(path(repo)?, true), count),
        ["gate", repo, count] => (Timed::Gate(path(repo)?), count),
        ["head-ready", repo, count] => (Timed::Head(path(repo)?, Moment::Ready), count),
        ["head-unchecked", repo, count] => (Timed::Head(path(repo)?, Moment::Unchecked), count),
        ["head-first", repo, count] => (Timed::Head(path(repo)?, Moment::FirstOutput), count),
        _ => return Err(USAGE.into()),
    };
    let count: usize = count.parse()?;
    let room = tempfile::Builder::new()
        .prefix("cofferdam-bench-call.")
        .tempdir()?;
    let home = Home::new(room.path().join("home"));
    match taken {
        Timed::NativeTrue => native_true(count).await,
        Timed::Clone(repo, indexed) => {
            private_clone(&home, &repo, room.path(), indexed, count).await
        }
        Timed::Gate(repo) => gate(&home, &repo, room.path(), count).await,
        Timed::Head(repo, moment) => {
            let stand_in = room.path().join("git");
            std::os::unix::fs::symlink(std::env::current_exe()?, &stand_in)?;
            let git = match moment {
                Moment::Unchecked => Git::new(stand_in),
                Moment::Ready | Moment::FirstOutput => Git::new("git"),
            };
            Box::pin(head(&home, &git, &repo, moment, count)).await
        }
    }
}

fn path(word: &str) -> Result<PathBuf> {
    Ok(Path::new(word).canonicalize()?)
}

enum Timed {
    NativeTrue,
    /// With an index or without.
    Clone(PathBuf, bool),
    Gate(PathBuf),
    Head(PathBuf, Moment),
}

#[derive(Clone, Copy)]
enum Moment {
    /// The sandbox could start a program.
    Ready,
    /// The same, where the check for uncommitted work does nothing.
    Unchecked,
    /// The first program has printed something: the check for uncommitted work is over as well.
    FirstOutput,
}

fn print(taken: Duration) {
    println!("{}", taken.as_micros());
}

/// Created, `true` run to its end, and gone again.
async fn native_true(count: usize) -> Result<()> {
    let cancel = CancellationToken::new();
    let native = Native::new(NativeOptions::default());
    for _ in 0..count {
        let (id, slug) = (SandboxId::random()?, Slug::from_text("bench")?);
        let spec = SandboxSpec::new(id, slug, "bench", "/home/agent");
        let began = Instant::now();
        let sandbox = native.create(&spec, &cancel).await?;
        let request = ExecRequest::new(["true"]);
        let exit = sandbox.exec(request).await?.wait().await?;
        sandbox.close().await?;
        print(began.elapsed());
        if !exit.success() {
            return Err(format!("true: {exit}").into());
        }
    }
    Ok(())
}

/// A repository with what a private clone of its HEAD is made of.
struct Host {
    repo: Repository,
    config: UserConfig,
    export: Export,
}

impl Host {
    async fn open(home: &Home, path: &Path, cancel: &CancellationToken) -> Result<Self> {
        let git = Git::new("git");
        let start = Start::find(path, &registry::workspaces(home)?)?;
        let (repo, config) = tokio::join!(
            Repository::discover(&git, &start, None, cancel),
            user_config_around(&git, &start, None, cancel)
        );
        let (repo, config) = (repo?, config?);
        let vault = Vault::open(home, &repo)?;
        let export = vault.export(&repo, repo.head.commit(), cancel).await?;
        Ok(Self {
            repo,
            config,
            export,
        })
    }

    /// The private clone in `directory`, where wanted with the index of HEAD.
    async fn clone_into(&self, directory: &Path, indexed: bool) -> Result<()> {
        let (tip, cancel) = (self.repo.head.commit(), CancellationToken::new());
        let scratch = directory.join("scratch");
        let index = if indexed {
            Some(index::build(&self.repo, tip, Owner::AGENT, &[], &scratch, &cancel).await?)
        } else {
            None
        };
        PrivateClone::create(&PrivateCloneSpec {
            directory,
            repo: &self.repo,
            export: &self.export,
            branch: self.repo.head.branch(),
            identity: Some(&Identity::fallback()),
            config: &self.config,
            pushes: false,
            index: index.as_ref().map(|index| IndexFile::Bytes(&index.bytes)),
        })?;
        Ok(())
    }
}

/// The vault is asked too: it is warm, as it is for every run but the first of a commit. That the
/// repository is found is not timed: a run does it once for all its steps.
async fn private_clone(
    home: &Home,
    path: &Path,
    room: &Path,
    indexed: bool,
    count: usize,
) -> Result<()> {
    let cancel = CancellationToken::new();
    let mut host = Host::open(home, path, &cancel).await?;
    let directory = room.join("state");
    for _ in 0..count {
        std::fs::create_dir(&directory)?;
        let began = Instant::now();
        let (vault, tip) = (Vault::open(home, &host.repo)?, host.repo.head.commit());
        host.export = vault.export(&host.repo, tip, &cancel).await?;
        host.clone_into(&directory, indexed).await?;
        print(began.elapsed());
        std::fs::remove_dir_all(&directory)?;
    }
    Ok(())
}

/// The commits of `main..work` in a private clone are packed in a jail, pass the gate and land as
/// the branch `work`. The host repository has only `main`, and is new each time.
async fn gate(home: &Home, path: &Path, room: &Path, count: usize) -> Result<()> {
    let cancel = CancellationToken::new();
    let host = room.join("host");
    git(room, ["init", "-q", "-b", "main"], &host).await?;
    git(
        &host,
        ["fetch", "-q", "--update-head-ok"],
        &format!("{}", path.display()),
    )
    .await?;
    git(&host, ["update-ref", "refs/heads/main"], "FETCH_HEAD").await?;
    let state = room.join("state");
    std::fs::create_dir(&state)?;
    let found = Host::open(home, &host, &cancel).await?;
    found.clone_into(&state, true).await?;
    // What an agent would have committed; its git finds the vault elsewhere than the sandbox's.
    let clone = state.join("git");
    let inside = std::fs::read(clone.join("objects/info/alternates"))?;
    let vault = format!("{}\n", state.join("vault").display());
    cofferdam::fsx::write_with_mode(
        &clone.join("objects/info/alternates"),
        vault.as_bytes(),
        0o644,
    )?;
    let from = format!("{}", path.display());
    git(&clone, ["fetch", "-q", &from], "work:refs/heads/work").await?;
    cofferdam::fsx::write_with_mode(&clone.join("objects/info/alternates"), &inside, 0o644)?;
    let branch: BranchName = "work".parse()?;
    let tip = std::fs::read_to_string(clone.join("refs/heads/work"))?
        .trim_end()
        .parse()?;

    let fresh = room.join("fresh");
    for _ in 0..count {
        let to = fresh.display().to_string();
        let copy = Invocation::new("cp", "/")
            .args(["-a", "--"])
            .args([&host, Path::new(&to)]);
        copy.env("PATH", "/usr/bin:/bin").run(&cancel).await?;
        let start = Start::find(&fresh, &Workspaces::default())?;
        let repo = Repository::discover(&Git::new("git"), &start, None, &cancel).await?;
        let id = SandboxId::random()?;
        let began = Instant::now();
        let gate = Gate {
            repo: repo.clone(),
            id,
            base: repo.head.commit().clone(),
            known: Vec::new(),
            alternate: state.join("vault"),
            state: state.clone(),
            holder: Own::Tip,
            limits: GateLimits::default(),
            rules: Rules::default(),
        };
        let (read, write) = std::io::pipe()?;
        let revisions = format!("{tip}\n^{}\n", gate.base);
        let pack = jail::run(packing(&state, revisions, write.into()), &cancel);
        let (packed, accepted) =
            tokio::join!(pack, gate.receive(Input::Fd(read.into()), &tip, &cancel));
        let (packed, accepted) = (packed?, accepted?);
        let landed = land::branch(
            &repo,
            &branch,
            land::Expected::New,
            None,
            &accepted,
            &cancel,
        )
        .await?;
        print(began.elapsed());
        if !packed.exit.success() || !matches!(landed, Landing::Landed { .. }) {
            return Err(format!("{}: {landed}", packed.exit).into());
        }
        std::fs::remove_dir_all(&fresh)?;
    }
    Ok(())
}

fn packing(state: &Path, revisions: String, to: OwnedFd) -> JailRequest {
    let read_only = |name: &str, target: &str| Mount {
        source: MountSource::Path(state.join(name)),
        target: target.into(),
        access: Access::ReadOnly,
    };
    let words = [
        "git",
        "pack-objects",
        "--revs",
        "--thin",
        "--stdout",
        "--delta-base-offset",
        "-q",
    ];
    let variables = [("GIT_DIR", INSIDE_GIT_DIR), ("GIT_CONFIG_NOSYSTEM", "1")];
    JailRequest {
        mounts: vec![
            read_only("git", INSIDE_GIT_DIR),
            read_only("vault", INSIDE_VAULT),
        ],
        arguments: words.map(Into::into).to_vec(),
        environment: variables
            .map(|(key, value)| (key.into(), value.into()))
            .into(),
        directory: "/".into(),
        stdin: revisions.into_bytes(),
        stdout: JailOutput::Fd(to),
        limits: Limits::default(),
        timeout: Duration::from_secs(600),
    }
}

/// git as a user would call it, for what is not timed.
async fn git<const N: usize>(
    directory: &Path,
    words: [&str; N],
    last: impl AsRef<std::ffi::OsStr>,
) -> Result<()> {
    let cancel = CancellationToken::new();
    let call = Invocation::new("git", directory).args(words).args([last]);
    let done = call
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .run(&cancel)
        .await?;
    if done.exit.success() {
        return Ok(());
    }
    Err(format!(
        "git {}: {}",
        words[0],
        String::from_utf8_lossy(&done.stderr)
    )
    .into())
}

/// From the call of `run` under `head` to `moment`, with what every run has: the wall and its proof, and a
/// run log. Every process starts with a cold vault and without a gateway: the first value warms both.
async fn head(home: &Home, git: &Git, path: &Path, moment: Moment, count: usize) -> Result<()> {
    let search_path = OsString::from("/usr/local/bin:/usr/bin:/bin");
    for _ in 0..count {
        let agent = Arc::new(Command::new(["echo", "up"])?);
        let sandbox = BindMount::new(Native::default(), BranchStrategy::Head);
        let mut options = RunOptions::new(home.clone(), path, agent, sandbox);
        options.caller.environment = [("PATH".into(), search_path.clone())].into();
        options.caller.git = git.clone();
        let reached: Arc<Mutex<Option<Instant>>> = Arc::default();
        let seen = reached.clone();
        options.caller.events = EventSink::new(move |event| {
            let is_it = match moment {
                Moment::Ready | Moment::Unchecked => matches!(event, Event::SandboxReady { .. }),
                Moment::FirstOutput => matches!(event, Event::Agent { .. }),
            };
            if is_it && let Ok(mut seen) = seen.lock() {
                seen.get_or_insert_with(Instant::now);
            }
        });
        let began = Instant::now();
        cofferdam::run(options).await?;
        let reached = *reached.lock().map_err(|_| "the sink panicked")?;
        print(
            reached
                .ok_or("the moment did not come")?
                .duration_since(began),
        );
    }
    Ok(())
}
