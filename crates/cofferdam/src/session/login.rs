//! The login of an agent: a file that is kept on the host, copied into each sandbox of that agent, and copied
//! back when its program has renewed it. Nothing else of the program's settings travels. What such a file looks like
//! is the agent's to say ([`LoginFormat`]).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::inside::{Inside, InsideError, Output};
use super::options::RunOptions;
use super::shells;
use crate::agent::{self, AGENTS, AgentOptions, AgentProvider, LoginFormat};
use crate::fsx::{self, FileError, beneath};
use crate::home::Home;
use crate::registry::{self, RegistryError};
use crate::sandbox::Sandbox;
use crate::volumes::{self, Purpose, VolumeError};

/// The largest login: 64 KiB.
const LIMIT: usize = 64 << 10;
/// For copying one in or out.
const TIME: Duration = Duration::from_secs(10);
/// The login on its way in.
const VARIABLE: &str = "COFFERDAM_LOGIN";

/// Why there is no login to give.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// A file that is kept could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The login that the user gave for this run cannot be read.
    #[error("the login of {agent} cannot be read: {source}")]
    Unreadable {
        /// The agent's name.
        agent: String,
        /// Where its program keeps one, relative to a home.
        usual: &'static str,
        /// What the system said.
        source: FileError,
    },
    /// The file has not the form of a login.
    #[error("{} is no login: {why}", path.display())]
    NoLogin {
        /// The file.
        path: PathBuf,
        /// Why, as a sentence fragment.
        why: &'static str,
    },
    /// The volume that keeps logins cannot be used.
    #[error(transparent)]
    Volume(#[from] Box<VolumeError>),
    /// What is known of sandboxes cannot be read.
    #[error(transparent)]
    Registry(#[from] Box<RegistryError>),
    /// It is another agent's.
    #[error(transparent)]
    Foreign(Box<ForeignLogin>),
    /// The agent has no login file: variables alone let it in.
    #[error("{agent} has no login file")]
    NoFile {
        /// The agent's name.
        agent: String,
    },
    /// It could not be copied into the sandbox; here is why, as a sentence fragment.
    #[error("the login could not be copied into the sandbox: {0}")]
    NotGiven(String),
}

/// A file that is no login of this agent, but perhaps one of another.
#[derive(Debug, thiserror::Error)]
#[error("{} is no login of {agent}: {}expected {} in it", path.display(), belongs(*other), listed(marks))]
pub struct ForeignLogin {
    /// The file.
    pub path: PathBuf,
    /// The name of the agent that it was given for.
    pub agent: String,
    /// The agent whose it is, where that can be told.
    pub other: Option<&'static str>,
    /// The names of which one should be in it.
    pub marks: &'static [&'static str],
    /// Where the agent's program keeps its own, relative to a home.
    pub usual: &'static str,
    /// The program that makes it.
    pub program: Option<String>,
}

fn belongs(other: Option<&str>) -> String {
    other.map_or_else(String::new, |other| format!("it is one of {other}; "))
}

fn listed(marks: &[&str]) -> String {
    let marks: Vec<String> = marks.iter().map(|mark| format!("`{mark}`")).collect();
    marks.join(" or ")
}

/// Where the login of an agent is kept on this machine, whether there is one or not: in the volume that is for it. One that an earlier
/// version kept stays where it is.
pub fn kept_login(home: &Home, agent: &dyn AgentProvider) -> PathBuf {
    let earlier = home.login(agent.name());
    let (Some(purpose), Some(format)) = (volume_of(agent), agent.login()) else {
        return earlier;
    };
    let name = Path::new(format.path).file_name().unwrap_or_default();
    let kept = volumes::place_of_all(home, purpose).join(name);
    if earlier.is_file() && !kept.exists() {
        earlier
    } else {
        kept
    }
}

/// What the volume of an agent's login is for; none where it has no volume.
fn volume_of(agent: &dyn AgentProvider) -> Option<Purpose> {
    Purpose::called(agent.login()?.volume?.name)
}

/// There as long as no login of this agent is taken from a sandbox: its user has forgotten one.
fn forgotten(home: &Home, agent: &dyn AgentProvider) -> PathBuf {
    kept_login(home, agent).with_extension("forgotten")
}

/// A login that a sandbox gets.
#[derive(Debug)]
pub(super) struct Login {
    home: Home,
    /// Of its agent, where that has one.
    volume: Option<Purpose>,
    format: LoginFormat,
    /// Where it is kept on the host.
    kept: PathBuf,
    bytes: Vec<u8>,
    value: Value,
    /// For this run, by the user: from now on it is the one that is kept.
    given: bool,
    /// It is what the sandbox was given, and not what is kept by now.
    was_given: bool,
}

impl Login {
    /// The one that the user gave for this run, else the one that is kept. A new one is kept when it is
    /// given to a sandbox.
    pub(super) fn find(options: &RunOptions) -> Result<Option<Self>, LoginError> {
        let agent = options.task.agent.name();
        let Some(format) = options.task.agent.login() else {
            return match options.task.login {
                None => Ok(None),
                Some(_) => Err(LoginError::NoFile {
                    agent: agent.to_owned(),
                }),
            };
        };
        let kept = kept_login(&options.caller.home, options.task.agent.as_ref());
        let path = options.task.login.as_deref().unwrap_or(&kept);
        let read = match options.task.login {
            // An agent may have left a link in the place of what its user names.
            Some(_) => fsx::Named::find(path).and_then(|named| named.read(LIMIT as u64)),
            None => fsx::read_bounded(path, LIMIT as u64),
        };
        let bytes = match read {
            Err(error) if error.is_not_found() && options.task.login.is_none() => return Ok(None),
            Err(source) if options.task.login.is_some() => {
                return Err(LoginError::Unreadable {
                    agent: agent.to_owned(),
                    usual: format.path,
                    source,
                });
            }
            bytes => bytes?,
        };
        let value = parse(path, &bytes)?;
        if !format.is_of(&value) {
            let program = options.task.agent.program();
            return Err(LoginError::Foreign(Box::new(ForeignLogin {
                path: path.to_owned(),
                agent: agent.to_owned(),
                other: owner(&value),
                marks: format.marks,
                usual: format.path,
                program: program.map(|program| program.name.to_string_lossy().into_owned()),
            })));
        }
        let (bytes, value) = format.only(bytes, value);
        Ok(Some(Self {
            home: options.caller.home.clone(),
            volume: volume_of(options.task.agent.as_ref()),
            format: *format,
            kept,
            bytes,
            value,
            given: options.task.login.is_some(),
            was_given: true,
        }))
    }

    /// The one that is kept for an agent, for a sandbox in which a person starts it. `None`: none is, or it has no file.
    pub(super) fn kept(home: &Home, agent: &dyn AgentProvider) -> Result<Option<Self>, LoginError> {
        let Some(format) = agent.login() else {
            return Ok(None);
        };
        let kept = kept_login(home, agent);
        let bytes = match fsx::read_bounded(&kept, LIMIT as u64) {
            Err(error) if error.is_not_found() => return Ok(None),
            bytes => bytes?,
        };
        // An earlier version kept the whole file.
        let value = parse(&kept, &bytes)?;
        let (bytes, value) = format.only(bytes, value);
        Ok(Some(Self {
            home: home.clone(),
            volume: volume_of(agent),
            format: *format,
            value,
            kept,
            bytes,
            given: false,
            was_given: false,
        }))
    }

    /// As [`Self::give`], where there is none inside, or one of which this is a renewal.
    pub(super) async fn give_where_older(
        &self,
        sandbox: &dyn Sandbox,
        cancel: &CancellationToken,
    ) -> Result<(), LoginError> {
        let nothing = BTreeMap::new();
        let Some(inside) = read(sandbox, &self.format, &nothing, cancel).await else {
            return self.give(sandbox, &nothing, cancel).await;
        };
        let all = serde_json::from_slice::<Value>(&inside).unwrap_or_default();
        let format = &self.format;
        let (_, inside) = format.only(inside, all.clone());
        let is_older = format.renews(&inside, &self.value) && format.is_newer(&inside, &self.value);
        // There may be none, in a file of other tokens.
        if format.is_of(&inside) && !is_older {
            return Ok(());
        }
        let all = format.beside(&all, &self.value);
        let text = if all == self.value {
            self.bytes.clone()
        } else {
            all.to_string().into_bytes()
        };
        self.copy_in(sandbox, &text, &nothing, cancel).await
    }

    /// Copies it in, before the agent starts.
    pub(super) async fn give(
        &self,
        sandbox: &dyn Sandbox,
        environment: &BTreeMap<OsString, OsString>,
        cancel: &CancellationToken,
    ) -> Result<(), LoginError> {
        self.copy_in(sandbox, &self.bytes, environment, cancel)
            .await?;
        if !self.given {
            return Ok(());
        }
        let _lock = lock(&self.home).await?;
        self.keep(&self.bytes)
    }

    async fn copy_in(
        &self,
        sandbox: &dyn Sandbox,
        text: &[u8],
        environment: &BTreeMap<OsString, OsString>,
        cancel: &CancellationToken,
    ) -> Result<(), LoginError> {
        let script = format!(
            "cd && umask 077 && mkdir -p \"${{1%/*}}\" && [ ! -d \"$1\" ] && printf %s \"${VARIABLE}\" > \"$1.new\" && mv -f \"$1.new\" \"$1\""
        );
        let to = Path::new(self.format.path);
        put(sandbox, (&script, to), text, environment, cancel).await
    }

    /// Keeps what the agent's program made of it. A sandbox may have written anything there: what is no
    /// renewal of the same login is left.
    pub(super) async fn take_back(
        &self,
        sandbox: &dyn Sandbox,
        environment: &BTreeMap<OsString, OsString>,
        cancel: &CancellationToken,
    ) -> Result<bool, LoginError> {
        let read = read(sandbox, &self.format, environment, cancel).await;
        let Some(bytes) = read.filter(|bytes| *bytes != self.bytes) else {
            return Ok(false);
        };
        let Ok(after) = serde_json::from_slice::<Value>(&bytes) else {
            return Ok(false);
        };
        let (bytes, after) = self.format.only(bytes, after);
        // Another run may have renewed it too, or the user may have given another one.
        let _lock = lock(&self.home).await?;
        let now = match fsx::read_bounded(&self.kept, LIMIT as u64) {
            Err(error) if error.is_not_found() => return Ok(false),
            now => now?,
        };
        let Ok(all) = parse(&self.kept, &now) else {
            return Ok(false);
        };
        let format = &self.format;
        let (_, now) = format.only(now, all);
        let replaces = format.renews(&self.value, &after) && format.renews(&now, &after);
        // Others may have renewed it since it was given.
        let is_as_given = self.was_given && now == self.value;
        if !replaces || (!is_as_given && !format.is_newer(&now, &after)) {
            return Ok(false);
        }
        self.keep(&bytes)?;
        Ok(true)
    }

    fn keep(&self, bytes: &[u8]) -> Result<(), LoginError> {
        keep(&self.home, self.volume, &self.kept, bytes)
    }
}

/// Keeps a login that the user gives, in the place of any other.
pub fn keep_login(home: &Home, agent: &dyn AgentProvider, bytes: &[u8]) -> Result<(), LoginError> {
    let ours = agent.login().and_then(|format| {
        let value = LoginFormat::parse(bytes).ok()?;
        Some(format.only(bytes.to_vec(), value).0)
    });
    let bytes = ours.as_deref().unwrap_or(bytes);
    keep(home, volume_of(agent), &kept_login(home, agent), bytes)
}

/// Held while a kept one is looked at and replaced. Bounded: 10 s.
async fn lock(home: &Home) -> Result<File, LoginError> {
    let directory = home.turns();
    fsx::private_dir(&directory)?;
    let path = directory.join("logins");
    let lock = fsx::lock::take_within(&path, TIME).await?;
    let busy = || FileError::new("lock", &path, io::ErrorKind::WouldBlock.into());
    Ok(lock.ok_or_else(busy)?)
}

/// Forgets the login of an agent: the one that is kept, and the copies in the homes of sandboxes that are there. Those that are only in the
/// memory of a program, and what a server knows, stay. Returns whether one was kept, and how many sandboxes had one.
pub fn forget_login(home: &Home, agent: &dyn AgentProvider) -> Result<(bool, usize), LoginError> {
    let mut was_kept = false;
    for path in [kept_login(home, agent), home.login(agent.name())] {
        was_kept |= path.exists();
        fsx::remove_file_if_exists(&path)?;
    }
    // A program inside may have it in its memory, and write it again.
    if let Some(purpose) = volume_of(agent) {
        volumes::open(home, purpose, Path::new("/")).map_err(Box::new)?;
        fsx::write_private(&forgotten(home, agent), b"")?;
    }
    let Some(format) = agent.login() else {
        return Ok((was_kept, 0));
    };
    let mut copies = 0;
    for entry in registry::list(home, None).map_err(Box::new)?.entries {
        let inside = home.agent_home(entry.record.id);
        // Programs inside may have put anything there.
        let Ok(root) = beneath::root(&inside) else {
            continue;
        };
        let path = Path::new(format.path);
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            continue;
        };
        // Whatever else its program keeps there stays.
        let there = beneath::read(&root, path, LIMIT as u64).ok().flatten();
        let there = there.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        let rest = there.map(|all| format.beside(&all, &Value::Object(Map::new())));
        let rest = rest.filter(|rest| rest.as_object().is_some_and(|all| !all.is_empty()));
        let removed = match rest {
            Some(rest) => beneath::open(&root, path, OFlags::WRONLY | OFlags::TRUNC)
                .and_then(|file| rustix::io::write(&file, rest.to_string().as_bytes()))
                .map(drop),
            None => beneath::directory(&root, directory)
                .and_then(|at| rustix::fs::unlinkat(at, name, rustix::fs::AtFlags::empty())),
        };
        copies += usize::from(removed.is_ok());
    }
    Ok((was_kept, copies))
}

fn keep(home: &Home, volume: Option<Purpose>, to: &Path, bytes: &[u8]) -> Result<(), LoginError> {
    if let Some(purpose) = volume {
        volumes::open(home, purpose, Path::new("/")).map_err(Box::new)?;
    }
    if let Some(directory) = to.parent() {
        fsx::private_dir(directory)?;
    }
    fsx::remove_file_if_exists(&to.with_extension("forgotten"))?;
    Ok(fsx::write_private(to, bytes)?)
}

/// What became of a login that a person made inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// There is none, or one is kept by now.
    Nothing,
    Kept,
    /// Its user has forgotten one, and has given none since.
    Forgotten,
}

/// Keeps the login that a person made inside, where none is kept for that agent.
pub(super) async fn keep_first(
    home: &Home,
    agent: &dyn AgentProvider,
    sandbox: &dyn Sandbox,
    cancel: &CancellationToken,
) -> Result<First, LoginError> {
    let Some(format) = agent.login() else {
        return Ok(First::Nothing);
    };
    let Some(bytes) = read(sandbox, format, &BTreeMap::new(), cancel).await else {
        return Ok(First::Nothing);
    };
    // A file without a mark of its own could be anything.
    let Ok(value) = LoginFormat::parse(&bytes) else {
        return Ok(First::Nothing);
    };
    if format.marks.is_empty() || !format.is_of(&value) {
        return Ok(First::Nothing);
    }
    let (bytes, _) = format.only(bytes, value);
    let _lock = lock(home).await?;
    let to = kept_login(home, agent);
    if to.exists() {
        return Ok(First::Nothing);
    }
    if forgotten(home, agent).exists() {
        return Ok(First::Forgotten);
    }
    keep(home, volume_of(agent), &to, &bytes)?;
    Ok(First::Kept)
}

/// Puts what the volume of an agent's login has beside it where the sandbox has none.
pub(super) async fn give_beside(
    home: &Home,
    agent: &dyn AgentProvider,
    sandbox: &dyn Sandbox,
    cancel: &CancellationToken,
) -> Result<(), LoginError> {
    let (Some(purpose), Some(format)) = (volume_of(agent), agent.login()) else {
        return Ok(());
    };
    let beside = format.volume.map_or(&[][..], |volume| volume.beside);
    let directory = volumes::place_of_all(home, purpose);
    // The rules that every such sandbox begins with are nobody's work.
    let script = format!(
        "cd && mkdir -p \"${{1%/*}}\" && {{ {{ [ -e \"$1\" ] && [ \"$(cat \"$1\")\" != \"$RULES\" ]; }} || printf %s \"${VARIABLE}\" > \"$1\"; }}"
    );
    let rules = BTreeMap::from([("RULES".into(), shells::RULES.trim_end().into())]);
    for name in beside {
        let Ok(text) = fsx::read_bounded(&directory.join(name), LIMIT as u64) else {
            continue;
        };
        let to = Path::new(format.path).with_file_name(name);
        put(sandbox, (&script, &to), &text, &rules, cancel).await?;
    }
    Ok(())
}

/// Runs a script that puts a text at a place below the agent's home.
async fn put(
    sandbox: &dyn Sandbox,
    (script, to): (&str, &Path),
    text: &[u8],
    environment: &BTreeMap<OsString, OsString>,
    cancel: &CancellationToken,
) -> Result<(), LoginError> {
    let mut environment = environment.clone();
    let text = String::from_utf8_lossy(text).into_owned();
    environment.insert(VARIABLE.into(), text.into());
    let done = shell(sandbox, to, script, &environment, cancel).await;
    let done = done.map_err(|error| LoginError::NotGiven(error.to_string()))?;
    if done.exit.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(LoginError::NotGiven(crate::text::printable(
        said.trim_end(),
    )))
}

/// What is in the file inside; `None`: there is none, or it is too large.
async fn read(
    sandbox: &dyn Sandbox,
    format: &LoginFormat,
    environment: &BTreeMap<OsString, OsString>,
    cancel: &CancellationToken,
) -> Option<Vec<u8>> {
    let (at, script) = (
        Path::new(format.path),
        "cd && [ -f \"$1\" ] && cat -- \"$1\"",
    );
    let done = shell(sandbox, at, script, environment, cancel).await;
    let done = done.ok()?;
    done.exit.success().then_some(done.stdout)
}

async fn shell(
    sandbox: &dyn Sandbox,
    place: &Path,
    script: &str,
    environment: &BTreeMap<OsString, OsString>,
    cancel: &CancellationToken,
) -> Result<super::inside::Captured, InsideError> {
    let inside = Inside {
        sandbox,
        arguments: ["/bin/sh", "-c", script, "sh"]
            .map(OsString::from)
            .into_iter()
            .chain([place.into()])
            .collect(),
        directory: None,
        environment,
        limit: TIME,
        output: Output::Captured(LIMIT),
    };
    inside.run(cancel).await
}

/// The agent whose login it is, of those that are known by a name in theirs.
fn owner(value: &Value) -> Option<&'static str> {
    let mut known = AGENTS.iter();
    let known = known.find(|kind| {
        let agent = agent::by_name(kind.name, AgentOptions::default());
        let format = agent.as_ref().ok().and_then(|agent| agent.login());
        format.is_some_and(|format| !format.marks.is_empty() && format.is_of(value))
    });
    known.map(|kind| kind.name)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Value, LoginError> {
    LoginFormat::parse(bytes).map_err(|why| LoginError::NoLogin {
        path: path.to_owned(),
        why,
    })
}
