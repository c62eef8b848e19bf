//! Where a run's events go: the caller's sink and the run log, in one order.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use jiff::Timestamp;

use super::event::{Event, EventSink, Notice};
use super::options::RunLog;
use crate::agent::AgentEvent;
use crate::fsx::{Context, FileError};
use crate::text::printable;

/// Sends each event to the run log, then to the sink.
#[derive(Debug)]
pub(super) struct Emitter {
    sink: EventSink,
    log: Mutex<Option<File>>,
    path: Option<PathBuf>,
    /// Until the run is announced: what was said too early.
    held: Mutex<Option<Vec<Event>>>,
}

impl Emitter {
    /// Opens the log for appending. `config_dir` is the repository's `.cofferdam`.
    pub(super) fn open(
        sink: EventSink,
        log: &RunLog,
        config_dir: &Path,
        file_name: &str,
    ) -> Result<Self, FileError> {
        let path = match log {
            RunLog::None => None,
            RunLog::File(path) => Some(path.clone()),
            RunLog::Default => {
                let logs = config_dir.join("logs");
                own_directory(config_dir)?;
                own_directory(&logs)?;
                let ignore = logs.join(".gitignore");
                if !ignore.exists() {
                    crate::fsx::write_with_mode(&ignore, b"*\n", 0o644)?;
                }
                Some(logs.join(file_name))
            }
        };
        let file = match &path {
            None => None,
            Some(path) => Some(
                std::fs::OpenOptions::new()
                    .append(true)
                    .create(true)
                    .mode(0o600)
                    .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
                    .open(path)
                    .context("open the run log", path)?,
            ),
        };
        let emitter = Self {
            sink,
            log: Mutex::new(file),
            path,
            held: Mutex::new(Some(Vec::new())),
        };
        emitter.write(&format!("--- Run started: {} ---", Timestamp::now()));
        Ok(emitter)
    }

    /// For work that nobody watches.
    pub(super) fn silent() -> Self {
        Self {
            sink: EventSink::default(),
            log: Mutex::new(None),
            path: None,
            held: Mutex::new(None),
        }
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Says `first`, then what waited for it. Only the first call does anything: until it, every
    /// event waits.
    pub(super) fn announce(&self, first: impl FnOnce() -> Vec<Event>) {
        let Some(held) = self.held().take() else {
            return;
        };
        for event in first().iter().chain(&held) {
            self.emit(event);
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<Vec<Event>>> {
        self.held
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn emit(&self, event: &Event) {
        if let Some(held) = self.held().as_mut() {
            held.push(event.clone());
            return;
        }
        if let Some(line) = line_of(event) {
            self.write(&line);
        }
        self.sink.emit(event);
    }

    pub(super) fn notice(&self, notice: Notice) {
        self.emit(&Event::Notice(notice));
    }

    /// A log that cannot be written (full disk) must not stop the run.
    pub(super) fn write(&self, line: &str) {
        let mut log = self
            .log
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(file) = log.as_mut() {
            let mut bytes = printable(line).into_bytes();
            bytes.push(b'\n');
            let _ = file.write_all(&bytes);
        }
    }
}

/// Makes a directory in the repository; one that is a symlink is refused, because a repository
/// could point it anywhere.
fn own_directory(path: &Path) -> Result<(), FileError> {
    match std::fs::create_dir(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let found = std::fs::symlink_metadata(path).context("look at", path)?;
            if found.is_dir() {
                return Ok(());
            }
            let why = std::io::Error::other("it is not a directory (symlinks are refused here)");
            Err(FileError::new("use", path, why))
        }
        Err(error) => Err(FileError::new("create", path, error)),
    }
}

fn line_of(event: &Event) -> Option<String> {
    let text = match event {
        Event::Planned {
            name,
            agent,
            provider,
            strategy,
            source_branch,
            target_branch,
            max_iterations,
            ..
        } => format!(
            "sandbox {name}: agent {agent}, provider {provider}, strategy {strategy}, branch {source_branch}, target {target_branch}, up to {max_iterations} iteration(s)"
        ),
        Event::Step { step } => format!("step: {step}"),
        Event::SandboxReady { millis } => format!("sandbox ready in {millis} ms"),
        Event::HookStarted { place, command } => format!("hook {place}: {command}"),
        Event::HookFinished {
            place,
            exit,
            output,
            ..
        } => {
            format!("hook {place} ended with {exit}\n{}", output.trim_end())
        }
        Event::IterationStarted {
            iteration,
            of,
            prompt_bytes,
        } => {
            format!("iteration {iteration}/{of} (prompt {prompt_bytes} bytes)")
        }
        Event::Agent { item, .. } => match item {
            AgentEvent::Text { text } => text.trim_end_matches('\n').to_owned(),
            AgentEvent::ToolCall { name, arguments } => format!("[tool] {name}: {arguments}"),
            AgentEvent::Result {
                text,
                is_error: true,
            } => format!("[error] {text}"),
            AgentEvent::Session { id } => format!("[session] {id}"),
            AgentEvent::Usage { .. } | AgentEvent::Result { .. } | AgentEvent::Raw { .. } => {
                return None;
            }
        },
        Event::AgentError { line, .. } => format!("[stderr] {line}"),
        Event::Idle { minutes, .. } => format!("agent idle for {minutes} minute(s)"),
        Event::IterationFinished {
            iteration,
            exit,
            completed,
        } => format!(
            "iteration {iteration} ended: {}{}",
            exit.map_or_else(
                || "stopped by cofferdam".to_owned(),
                |exit| exit.to_string()
            ),
            if *completed {
                ", completion signalled"
            } else {
                ""
            }
        ),
        Event::Notice(notice) => format!("note: {notice}"),
        Event::Landed { landing } => format!("result: {landing}"),
    };
    Some(text)
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::UnusedArgument { name } => format!("prompt argument `{name}` is not used"),
            Self::Degraded { what } => format!("weaker than usual: {what}"),
            Self::BeforeRecorded { reference } => {
                format!("your uncommitted work was recorded at {reference}")
            }
            Self::HiddenInHistory { paths } => {
                let names: Vec<_> = paths
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect();
                format!(
                    "hidden, but tracked: what commits hold there is in the history that goes in: {}",
                    names.join(", ")
                )
            }
            Self::Executes { paths } => {
                format!(
                    "these changed files run on your machine: {}",
                    paths.join(", ")
                )
            }
            Self::NestedGitMoved { paths, to } => format!(
                "git directories that the agent left were moved to {}: {}",
                to.display(),
                paths.join(", ")
            ),
            Self::BranchSwitched { to } => format!("the agent left its branch for {to}"),
            Self::EnvironmentWithheld { names } => format!(
                ".cofferdam/.env is tracked or linked, so it gives no values of the caller's environment; \
                 not set: {}",
                names.join(", ")
            ),
            Self::SteeringWithheld { names } => format!(
                ".cofferdam/.env is tracked or linked, so it does not say where the agent's key goes; not set: \
                 {} (if you want it, give it with `--env`)",
                names.join(", ")
            ),
            Self::LoginRenewed => "the agent renewed its login, which is kept".to_owned(),
            Self::CopyMissing { path } => format!("{} does not exist: not copied", path.display()),
            Self::NetworkOpen => {
                "the sandbox has this machine's own network: it reaches everything that you reach, \
                 services on this machine and in your private networks too, and nothing is logged"
                    .to_owned()
            }
            Self::NetworkLost { why } => {
                format!("the sandbox has lost its network, and reaches nothing from now on: {why}")
            }
            Self::NetworkConfig { text } | Self::Other { text } => text.clone(),
        };
        f.write_str(&printable(&text))
    }
}
