//! The login of an agent: a file that is kept on the host, copied into each sandbox of that agent, and copied
//! back when its program has renewed it. Nothing else of the program's settings travels. What such a file looks like
//! is the agent's to say ([`LoginFormat`]).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::inside::{Inside, InsideError, Output};
use super::options::RunOptions;
use crate::agent::{self, AGENTS, AgentOptions, LoginFormat};
use crate::fsx::{self, FileError};
use crate::sandbox::Sandbox;

/// The largest login: 64 KiB.
const LIMIT: usize = 64 << 10;
/// For copying one in or out.
const TIME: Duration = Duration::from_secs(10);
/// The login on its way in.
const VARIABLE: &str = "COFFERDAM_LOGIN";

/// Why there is no login to give.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error(transparent)]
    File(#[from] FileError),
    /// The one that the user gave for this run.
    #[error("the login of {agent} cannot be read: {source}")]
    Unreadable {
        agent: String,
        /// Where its program keeps one, relative to a home.
        usual: &'static str,
        source: FileError,
    },
    #[error("{} is no login: {why}", path.display())]
    NoLogin { path: PathBuf, why: &'static str },
    #[error(transparent)]
    Foreign(Box<ForeignLogin>),
    #[error("{agent} has no login file")]
    NoFile { agent: String },
    #[error("the login could not be copied into the sandbox: {0}")]
    NotGiven(String),
}

/// A file that is no login of this agent, but perhaps one of another.
#[derive(Debug, thiserror::Error)]
#[error("{} is no login of {agent}: {}expected {} in it", path.display(), belongs(*other), listed(marks))]
pub struct ForeignLogin {
    pub path: PathBuf,
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

/// A login that a sandbox gets.
#[derive(Debug)]
pub(super) struct Login {
    format: LoginFormat,
    /// Where it is kept on the host.
    kept: PathBuf,
    bytes: Vec<u8>,
    value: Value,
    /// For this run, by the user: from now on it is the one that is kept.
    given: bool,
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
        let kept = options.caller.home.login(agent);
        let path = options.task.login.as_deref().unwrap_or(&kept);
        let bytes = match fsx::read_bounded(path, LIMIT as u64) {
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
        Ok(Some(Self {
            format: *format,
            kept,
            bytes,
            value,
            given: options.task.login.is_some(),
        }))
    }

    /// Copies it in, before the agent starts.
    pub(super) async fn give(
        &self,
        sandbox: &dyn Sandbox,
        environment: &BTreeMap<OsString, OsString>,
        cancel: &CancellationToken,
    ) -> Result<(), LoginError> {
        let script = format!(
            "cd && umask 077 && mkdir -p \"${{1%/*}}\" && printf %s \"${VARIABLE}\" > \"$1\""
        );
        let mut environment = environment.clone();
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        environment.insert(VARIABLE.into(), text.into());
        let done = self.shell(sandbox, &script, &environment, cancel).await;
        let done = done.map_err(|error| LoginError::NotGiven(error.to_string()))?;
        if !done.exit.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(LoginError::NotGiven(crate::text::printable(
                said.trim_end(),
            )));
        }
        if !self.given {
            return Ok(());
        }
        let _lock = self.lock().await?;
        self.keep(&self.bytes)
    }

    /// Keeps what the agent's program made of it. A sandbox may have written anything there: what is no
    /// renewal of the same login is left.
    pub(super) async fn take_back(
        &self,
        sandbox: &dyn Sandbox,
        environment: &BTreeMap<OsString, OsString>,
        cancel: &CancellationToken,
    ) -> Result<bool, LoginError> {
        let script = "cd && cat -- \"$1\"";
        let Ok(done) = self.shell(sandbox, script, environment, cancel).await else {
            return Ok(false);
        };
        let bytes = done.stdout;
        if !done.exit.success() || bytes == self.bytes {
            return Ok(false);
        }
        let Ok(after) = serde_json::from_slice::<Value>(&bytes) else {
            return Ok(false);
        };
        // Another run may have renewed it too, or the user may have given another one.
        let _lock = self.lock().await?;
        let now = match fsx::read_bounded(&self.kept, LIMIT as u64) {
            Err(error) if error.is_not_found() => return Ok(false),
            now => now?,
        };
        let Ok(now) = parse(&self.kept, &now) else {
            return Ok(false);
        };
        let format = &self.format;
        let replaces = format.renews(&self.value, &after) && format.renews(&now, &after);
        if !replaces || (now != self.value && !format.is_newer(&now, &after)) {
            return Ok(false);
        }
        self.keep(&bytes)?;
        Ok(true)
    }

    /// Held while the kept one is looked at and replaced. Bounded: 10 s.
    async fn lock(&self) -> Result<File, LoginError> {
        let directory = self.kept.parent().unwrap_or(&self.kept);
        fsx::private_dir(directory)?;
        let path = directory.join("lock");
        let lock = fsx::lock::take_within(&path, TIME).await?;
        let busy = || FileError::new("lock", &path, io::ErrorKind::WouldBlock.into());
        Ok(lock.ok_or_else(busy)?)
    }

    fn keep(&self, bytes: &[u8]) -> Result<(), LoginError> {
        if let Some(directory) = self.kept.parent() {
            fsx::private_dir(directory)?;
        }
        Ok(fsx::write_private(&self.kept, bytes)?)
    }

    async fn shell(
        &self,
        sandbox: &dyn Sandbox,
        script: &str,
        environment: &BTreeMap<OsString, OsString>,
        cancel: &CancellationToken,
    ) -> Result<super::inside::Captured, InsideError> {
        let inside = Inside {
            sandbox,
            arguments: ["/bin/sh", "-c", script, "sh", self.format.path]
                .map(Into::into)
                .to_vec(),
            directory: None,
            environment,
            limit: TIME,
            output: Output::Captured(LIMIT),
        };
        inside.run(cancel).await
    }
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
