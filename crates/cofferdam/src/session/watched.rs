//! Watching the checkout that a living sandbox shares with its user: a process of its own does it for as long as the sandbox
//! lives. Where that one is gone nothing in the sandbox runs ([`Sandbox::watch`]), and the next command starts another.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::io::AsyncReadExt;

use super::appearing;
use super::emitter::Emitter;
use super::event::Notice;
use super::options::{Caller, Watcher};
use super::outlived::End;
use super::ports::Published;
use super::push::Pushes;
use crate::detached;
use crate::fsx::lock;
use crate::fsx::{self, FileError};
use crate::git::appearing::Watch;
use crate::git::discovery::Start;
use crate::git::{self, Repository, RepositoryError, nested};
use crate::home::Home;
use crate::names::SandboxId;
use crate::registry::{self, AdoptedGit, Mode, Record, RegistryError, Strategy};
use crate::sandbox::{self, Handle, SandboxError};
use crate::text::printable_line;

/// Held by whoever watches, from the moment at which the sandbox depends on it. In the state directory, as what follows.
const LOCK: &str = "watch";
/// Its time is when the sandbox ended, where its watcher saw that. Whatever came into the checkout since is no work of its programs.
const END: &str = "watched.ended";
/// What was seen, a line each, until somebody is told ([`seen`]).
const SEEN: &str = "watched";
/// About so much of it is kept, and a little more may be there.
const MOST_SEEN: u64 = 64 << 10;
const MOST_READ: u64 = 4 * MOST_SEEN;
/// Until one watches: a large checkout is gone through first.
const LIMIT: Duration = Duration::from_secs(60);
/// How long one may have its lock who only looks at it.
const LOOKERS: Duration = Duration::from_millis(500);
/// What has not stopped by then does not: its sandbox ends it.
const STANDSTILL: Duration = Duration::from_secs(5);
/// How long one may still be there whose sandbox has ended.
const ENDING: Duration = Duration::from_secs(5);
/// What one says that watches. Anything else is why it does not.
const READY: &[u8] = b"ready";
/// The longest reason that is read.
const MOST_SAID: u64 = 4 << 10;

/// Why nobody watches.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The caller did not say which program watches a shared checkout.
    #[error("its caller has no program that does")]
    NoWatcher,
    /// Its watcher does not start; here are the system's words.
    #[error("its watcher does not start: {0}")]
    Start(#[source] std::io::Error),
    /// Its watcher says nothing within this many seconds.
    #[error("its watcher says nothing within {0} s")]
    Silent(u64),
    /// Its watcher says why, in its own words, safe for a terminal.
    #[error("{0}")]
    Told(String),
    /// Some of its directories cannot be watched, so not all that appears would be seen.
    #[error("not every directory of it can be watched: {0}")]
    Blind(#[source] std::io::Error),
    /// It ended, or never was.
    #[error("it has no process")]
    NoProcess,
    /// The caller cancelled it.
    #[error("looking through it was cut short")]
    CutShort,
    /// What is known of the sandbox cannot be read.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The repository cannot be worked in.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// What is to be stopped in it could not be.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// Whether its programs work in a directory in which its user works too.
pub(super) fn is_shared(record: &Record) -> bool {
    record.strategy == Strategy::Head && record.mode == Mode::Bind
}

/// Has the checkout of a sandbox that is up watched, where nobody does. Bounded: 60 s.
pub(super) async fn see_to_it(caller: &Caller, record: &Record) -> Result<(), WatchError> {
    let state = caller.home.sandbox(record.id);
    // Whoever holds it has made the sandbox depend on it: what is started there waits for a watcher.
    if lock::is_held(&state.join(LOCK)) {
        return Ok(());
    }
    let watcher = caller.watcher.as_ref().ok_or(WatchError::NoWatcher)?;
    let told = async {
        let stream = spawn(watcher, record.id)?;
        let mut said = Vec::new();
        stream.take(MOST_SAID).read_to_end(&mut said).await?;
        Ok(said)
    };
    let told = tokio::select! {
        told = tokio::time::timeout(LIMIT, told) => told,
        () = caller.cancel.cancelled() => return Err(WatchError::CutShort),
    };
    let said = told.map_err(|_| WatchError::Silent(LIMIT.as_secs()))?;
    let said = said.map_err(WatchError::Start)?;
    if said == READY {
        return Ok(());
    }
    Err(WatchError::Told(match &*said {
        [] => "its watcher ended at once".to_owned(),
        said => printable_line(&String::from_utf8_lossy(said)),
    }))
}

/// Waits for the watcher of a sandbox that has ended: the next one is not its business. `false`: it is still there.
pub(super) async fn has_ended(state: &Path) -> Result<bool, FileError> {
    let ended = lock::take_within(&state.join(LOCK), ENDING).await?;
    Ok(ended.is_some())
}

/// What is known of all sandboxes that share a checkout.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// When the last of them ended. `None`: there is one that may run, or nobody saw its end.
    pub ended: Option<SystemTime>,
    /// What any of them has taken for its user's.
    pub adopted: Vec<AdoptedGit>,
}

impl Sharing {
    /// Of the checkout of this one, itself included.
    pub(super) fn of(home: &Home, record: &Record) -> Result<Self, RegistryError> {
        let workspace = record.workspace(home);
        let mut sharing = Self::default();
        let mut all_ended = true;
        for entry in registry::list(home, None)?.entries {
            let other = entry.record;
            if !is_shared(&other) || other.workspace(home) != workspace {
                continue;
            }
            let state = home.sandbox(other.id);
            let seen = state.join(END).symlink_metadata();
            // What has a watcher has no such file: it may have come this moment.
            match seen.and_then(|seen| seen.modified()) {
                Ok(ended) if !lock::is_held(&state.join(LOCK)) => {
                    sharing.ended = sharing.ended.max(Some(ended));
                }
                _ => all_ended = false,
            }
            sharing.adopted.extend(other.adopted);
        }
        sharing.ended = sharing.ended.filter(|_| all_ended);
        Ok(sharing)
    }
}

/// What a watcher saw since somebody was told last, each in a line, safe for a terminal.
pub(super) fn seen(state: &Path) -> Vec<String> {
    let path = state.join(SEEN);
    let Ok(seen) = fsx::read_bounded(&path, MOST_READ) else {
        return Vec::new();
    };
    // The file stays, for the watcher has it open. What is written between the two is lost to whoever reads, and lies where it was
    // moved to.
    if let Ok(file) = std::fs::File::options().write(true).open(&path) {
        let _ = file.set_len(0);
    }
    let text = String::from_utf8_lossy(&seen);
    let lines = text.lines().filter(|line| !line.starts_with("---"));
    let lines = lines.map(|line| printable_line(line.strip_prefix("note: ").unwrap_or(line)));
    lines.collect()
}

/// Its standard input is the other end of what is returned.
fn spawn(watcher: &Watcher, id: SandboxId) -> std::io::Result<tokio::net::UnixStream> {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the watcher outlives its starter and every bound: no Invocation"
    )]
    let mut command = Command::new(&watcher.program);
    command
        .args(&watcher.arguments)
        .arg(id.to_string())
        .env_clear()
        .envs(&watcher.environment)
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    detached::start(command)?;
    let ours = UnixStream::from(ours);
    ours.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(ours)
}

/// What a [`Watcher`] does with the name that it is given last: watches the checkout that this sandbox shares, until the sandbox
/// ends. `starter`: its standard input, on which it says how it goes. `caller`: as of any command; its events are for the
/// next one.
///
/// The process becomes the leader of a session of its own: setsid(2). An error is told to whoever started it as well.
pub async fn watch(caller: &Caller, id: SandboxId, starter: UnixStream) -> Result<(), WatchError> {
    detached::begin();
    let mut starter = Some(starter);
    let mut say = |text: &[u8]| {
        // It may not wait for it any more.
        if let Some(mut stream) = starter.take() {
            let _ = stream.write_all(text);
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    };
    let watched = watch_until_it_ends(caller, id, &mut say).await;
    if let Err(error) = &watched {
        say(error.to_string().as_bytes());
    }
    watched
}

async fn watch_until_it_ends(
    caller: &Caller,
    id: SandboxId,
    say: &mut impl FnMut(&[u8]),
) -> Result<(), WatchError> {
    let record = registry::load(&caller.home, id)?;
    let state = caller.home.sandbox(id);
    let provider = sandbox::provider_of(&record.provider, &state)?;
    let handle = Handle {
        id,
        state: state.clone(),
    };
    let sandbox = provider.open(&handle).await?;
    let end = End::of(sandbox.as_ref()).ok_or(WatchError::NoProcess)?;
    let start = Start::find(&record.repository, &registry::workspaces(&caller.home)?)?;
    let user = caller.user_home.as_deref();
    let repository = Repository::discover(&caller.git, &start, user, &caller.cancel).await?;
    // The user's own git is not to bring the files to another commit while programs may write them.
    let _occupied = match record.shelf_branch() {
        Some(_) => git::occupy_beside(&repository.git_dir, &caller.cancel).await?,
        None => git::occupy(&repository.git_dir, &caller.cancel).await?,
    };
    let top = record.workspace(&caller.home);
    let before = record.nested_before.iter().map(|path| path.0.clone());
    let (before, to) = (before.collect(), state.join("nested"));
    let begun = tokio::task::spawn_blocking(move || {
        let found = nested::scan_before(&top, false)?;
        let mut watch = Watch::start(&top, found.directories, before, &to)?;
        let first = watch.look(found.git);
        Ok::<_, FileError>((watch, first))
    });
    let (mut watch, first) = begun.await.map_err(|_| WatchError::CutShort)??;
    let events = Emitter::to_file(&state.join(SEEN), MOST_SEEN)?;
    // What cannot all be watched is known now.
    if let Some(why) = appearing::tell_all(first, &events) {
        return Err(WatchError::Blind(why));
    }
    // From here on something may run there.
    fsx::remove_file_if_exists(&state.join(END))?;
    sandbox.watch().await?;
    let path = state.join(LOCK);
    let alone = lock::open(&path)?;
    // One who only looks at it has it for a moment.
    if !lock::wait_for(&alone, &path, LOOKERS).await? {
        // Another command was faster, and its watcher watches.
        say(READY);
        return Ok(());
    }
    // Whoever is told that it is ready finds them.
    let ports = (!record.ports.is_empty())
        .then(|| Published::begin(&record.ports, &record.provider, handle));
    let ports = ports.transpose()?;
    say(READY);
    let events = Arc::new(events);
    let _pushes = record
        .dev
        .is_some()
        .then(|| Pushes::begin(caller, id, &state, &events));
    let why = tokio::select! {
        why = appearing::strictly(&mut watch, &events) => why,
        () = end.comes() => {
            fsx::write_private(&state.join(END), b"")?;
            return Ok(());
        }
    };
    let text = format!(
        "everything in the sandbox stood still, because not every directory of its checkout could be watched any more: {why}"
    );
    events.notice(Notice::Other { text });
    // Without this connection nothing runs any more. What was made before is looked for then, once.
    drop(sandbox);
    if let Some(ports) = ports {
        ports.close();
    }
    // Whoever wants to use it tries with a watcher of its own.
    drop(alone);
    tokio::time::sleep(STANDSTILL).await;
    let top = record.workspace(&caller.home);
    let last = tokio::task::spawn_blocking(move || {
        let found = nested::scan(&top, nested::Closed::Skip)?;
        Ok::<_, FileError>(watch.look(found))
    });
    let last = last.await.map_err(|_| WatchError::CutShort)??;
    appearing::tell_all(last, &events);
    Err(WatchError::Blind(why))
}
