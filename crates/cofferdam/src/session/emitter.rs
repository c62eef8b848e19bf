//! Where a run's events go: the caller's sink and the run log, in one order.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;

use super::event::{Event, EventSink, Notice};
use super::options::{LogLimits, RunLog};
use super::runlog::LogFile;
use crate::agent::AgentEvent;
use crate::fsx::{Context, Destination, FileError};
use crate::text::{printable, printable_line, without_colours};

/// So many names that an agent chose are shown of one kind: it may have made very many.
const MOST_OF_AN_AGENT: usize = 50;

/// Sends each event to the run log, then to the sink.
#[derive(Debug)]
pub(super) struct Emitter {
    sink: EventSink,
    log: Mutex<Option<LogFile>>,
    path: Option<PathBuf>,
    /// Something could not be written, and that was told.
    is_incomplete: AtomicBool,
    /// Until the run is announced: what was said too early.
    held: Mutex<Option<Vec<Event>>>,
}

impl Emitter {
    /// Opens the log for appending. `config_dir` is the repository's `.cofferdam`.
    pub(super) fn open(
        sink: EventSink,
        (log, limits): (&RunLog, LogLimits),
        config_dir: &Path,
        file_name: &str,
    ) -> Result<Self, FileError> {
        let (path, file) = match log {
            RunLog::None => (None, None),
            RunLog::File(path) => {
                let file = Destination::find(path)?.append(0o600)?;
                (Some(path.clone()), Some(LogFile::of(file, path, limits)?))
            }
            RunLog::Default => {
                let logs = config_dir.join("logs");
                own_directory(config_dir)?;
                own_directory(&logs)?;
                let ignore = logs.join(".gitignore");
                if !ignore.exists() {
                    crate::fsx::write_with_mode(&ignore, b"*\n", 0o644)?;
                }
                let path = logs.join(file_name);
                set_old_aside(&path, limits.file)?;
                let file = LogFile::open(&path, limits)?;
                (Some(path), Some(file))
            }
        };
        let emitter = Self {
            sink,
            log: Mutex::new(file),
            path,
            is_incomplete: AtomicBool::new(false),
            held: Mutex::new(Some(Vec::new())),
        };
        emitter.write(&format!("--- Run started: {} ---", Timestamp::now()));
        Ok(emitter)
    }

    /// Adds to a file of at most about `most` bytes, for whoever reads it later.
    pub(super) fn to_file(path: &Path, most: u64) -> Result<Self, FileError> {
        let limits = LogLimits {
            file: most,
            head: most / 2,
            tail: most / 2,
        };
        Ok(Self {
            log: Mutex::new(Some(LogFile::open(path, limits)?)),
            ..Self::silent()
        })
    }

    /// For work that nobody watches.
    pub(super) fn silent() -> Self {
        Self {
            sink: EventSink::default(),
            log: Mutex::new(None),
            path: None,
            is_incomplete: AtomicBool::new(false),
            held: Mutex::new(None),
        }
    }

    /// What the caller hears with, without the log.
    pub(super) fn callers(&self) -> EventSink {
        self.sink.clone()
    }

    /// Without a log, for what was announced already.
    pub(super) fn sink(sink: EventSink) -> Self {
        Self {
            sink,
            ..Self::silent()
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

    /// A log that cannot be written (full disk) must not stop the run: that it lacks something is told, once. What has
    /// several lines is not all ours: from the second on each has a mark, so that none of them passes as an entry.
    pub(super) fn write(&self, line: &str) {
        let Err(error) = self.append(line) else {
            return;
        };
        if !self.is_incomplete.swap(true, Ordering::Relaxed) {
            self.notice(Notice::LogIncomplete {
                why: error.to_string(),
            });
        }
    }

    fn append(&self, line: &str) -> std::io::Result<()> {
        let mut log = self
            .log
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(file) = log.as_mut() else {
            return Ok(());
        };
        let mut text = printable(&without_colours(line)).replace('\n', "\n| ");
        text.push('\n');
        file.write(text.as_bytes())
    }
}

fn set_old_aside(path: &Path, largest: u64) -> Result<(), FileError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_file() && found.len() > largest => {
            std::fs::rename(path, path.with_extension("log.old")).context("rename", path)
        }
        _ => Ok(()),
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
            mode,
            source_branch,
            target_branch,
            max_iterations,
            ..
        } => format!(
            "sandbox {name}: agent {agent}, provider {provider}, strategy {strategy}, mode {mode}, branch {source_branch}, target {target_branch}, up to {max_iterations} iteration(s)"
        ),
        Event::Step { step } => format!("step: {step}"),
        Event::Progress { .. } | Event::HookOutput { .. } => return None,
        Event::SandboxReady { millis } => format!("sandbox ready in {millis} ms"),
        Event::HookStarted { point, command } => format!("hook {point}: {command}"),
        Event::HookFinished {
            point,
            exit,
            output,
            ..
        } => {
            format!("hook {point} ended with {exit}\n{}", output.trim_end())
        }
        Event::IterationStarted {
            iteration,
            of,
            prompt_bytes,
        } => {
            format!("iteration {iteration}/{of} (prompt {prompt_bytes} bytes)")
        }
        Event::Agent { item, .. } => match item {
            AgentEvent::Text { text } => format!("| {}", text.trim_end_matches('\n')),
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
            started: false,
            ..
        } => format!("iteration {iteration}: the agent did not start"),
        Event::IterationFinished {
            iteration,
            exit,
            completed,
            ..
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
        Event::Refused { what, reason, .. } => format!("refused: {what}: {reason}"),
        Event::Notice(notice) => format!("note: {notice}"),
        Event::Landed { landing } => format!("result: {landing}"),
    };
    Some(text)
}

/// Of many the first ones, and how many more.
fn first(names: impl IntoIterator<Item = impl AsRef<str>>, most: usize) -> String {
    let mut names = names.into_iter();
    let shown: Vec<_> = names.by_ref().take(most).collect();
    let shown: Vec<&str> = shown.iter().map(AsRef::as_ref).collect();
    let more = match names.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shown.join(", ") + &more
}

/// The options that give these variables; of many the first ones.
fn options(names: &[String], value: &str) -> String {
    let shown = names.iter().take(3);
    let options: Vec<_> = shown.map(|name| format!("`--env {name}{value}`")).collect();
    let more = if names.len() > 3 { " …" } else { "" };
    options.join(" ") + more
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::UnusedArgument { name } => format!("prompt argument `{name}` is not used"),
            Self::BeforeRecorded { reference } => {
                format!("your uncommitted work was recorded at {reference}")
            }
            Self::UncommittedChanged { reference, paths } => {
                let names = first(paths.iter().map(|path| path.to_string_lossy()), 5);
                format!(
                    "uncommitted work of yours was changed or removed: {names}; as it was: \
                     git restore --source={reference} PATH"
                )
            }
            Self::UncommittedTaken { reference } => format!(
                "uncommitted work of yours is in the agent's commits; as it was before, for 30 days: \
                 git restore --source={reference} PATH"
            ),
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
            Self::NothingHidden { paths } => {
                let names = first(paths, MOST_OF_AN_AGENT);
                format!("`hide` names what is not here, and hides nothing by that: {names}")
            }
            Self::Executes { paths } => {
                let names = first(paths, MOST_OF_AN_AGENT);
                format!("these changed files run on your machine: {names}")
            }
            Self::NestedGitMoved { paths, to } => format!(
                "git directories that the agent left were moved to {}: {}",
                to.display(),
                first(paths, MOST_OF_AN_AGENT)
            ),
            Self::BranchSwitched { to } => format!("what is on the agent's branch {to} lands, in place of the sandbox's own"),
            Self::EnvironmentWithheld { names } => format!(
                ".cofferdam/.env is tracked or linked, so it takes nothing from your environment; not set: {} \
                 (if you want it, add {})",
                names.join(", "),
                options(names, "")
            ),
            Self::SteeringWithheld { names } => format!(
                ".cofferdam/.env is tracked or linked, so it sets nothing that could decide what runs or where a \
                 key goes; not set: {} (if you want it, add {}, or keep the file out of git)",
                names.join(", "),
                options(names, "=VALUE")
            ),
            Self::NoKey {
                agent,
                variables,
                why,
            } => format!(
                "{agent} has no login and no key ({}): {why}",
                variables.join(", ")
            ),
            Self::Renamed { given, name } => format!(
                "the sandbox is called `{name}`: a name has only a-z, 0-9 and `-`, and other commands take \
                 `{given}` for it too"
            ),
            Self::LoginRenewed => "the agent renewed its login, which is kept".to_owned(),
            Self::CopyMissing { path } => {
                format!("{} is not there any more: not copied", path.display())
            }
            Self::NoLayers { why } => {
                format!("layers are not possible here, so it has a directory of its own: {why}")
            }
            Self::LogIncomplete { why } => {
                format!("the run log is incomplete, as it could not be written: {why}")
            }
            Self::UncommittedOutside { paths: 1 } => {
                "1 uncommitted change of this checkout stays outside: the sandbox has committed files".to_owned()
            }
            Self::UncommittedOutside { paths } => {
                format!(
                    "{paths} uncommitted changes of this checkout stay outside: the sandbox has committed files"
                )
            }
            Self::NetworkOpen => {
                "the sandbox has this machine's own network: it reaches everything that you reach, \
                 services on this machine and in your private networks too, and nothing is logged"
                    .to_owned()
            }
            Self::OnHost => {
                "no sandbox: the agent works on this machine as you do, and asks you before it does something".to_owned()
            }
            Self::BoundsNothing { agent, what } => {
                format!("{agent} does not say its {what}: that bound bounds nothing, but one of the time does")
            }
            Self::ModelRefused { what, reason, .. } => {
                format!("the agent's model is at {what}, which is refused: {reason}")
            }
            Self::MoreRefused { told } => {
                format!(
                    "more than {told} destinations are refused: only the network log has the others"
                )
            }
            Self::NetworkLost { why } => {
                format!("the sandbox has lost its network, and reaches nothing from now on: {why}")
            }
            Self::KilledForMemory { processes } => {
                let which = match processes {
                    1 => "a process".to_owned(),
                    many => format!("{many} processes"),
                };
                format!(
                    "the kernel killed {which} of the sandbox, because its memory was used up (`--memory` says how much it has)"
                )
            }
            Self::OtherWrites => {
                "another command writes files of this repository for its sandboxes: waiting for it".to_owned()
            }
            Self::RulesSlow => "putting the network rules in force…".to_owned(),
            Self::ConfigUnread { text } => format!(
                "{text}: until that is mended none of its rules is in force, nor the built-in list"
            ),
            Self::NotSynced { text } => format!("not synced: {text}"),
            Self::ChecksNotApproved { asked } => format!(
"branches move without {asked} of the `gate.checks` in .cofferdam/config.yaml, which wait for `cofferdam approve`"
),
            Self::NotApproved { asked } => {
                let (what, waits) = match asked {
                    1 => ("one thing", "waits"),
                    _ => ("things", "wait"),
                };
                let count = if *asked == 1 { String::new() } else { format!("{asked} ") };
                format!(
                    "{} asks for {count}{what} that {waits} for you, and goes without: see `cofferdam approve`",
                    crate::config::OF_REPOSITORY
                )
            }
            Self::NetworkConfig { text } | Self::Other { text } => text.clone(),
        };
        // One line stays one line: names and words in it are a sandbox's.
        f.write_str(&printable_line(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who makes thousands of them does not fill its user's terminal, nor the log.
    #[test]
    fn of_very_many_names_the_first_are_shown() {
        let paths: Vec<String> = (0..60).map(|n| format!("{n}/Makefile")).collect();
        let to = PathBuf::from("/kept");
        for notice in [
            Notice::Executes {
                paths: paths.clone(),
            },
            Notice::NestedGitMoved { paths, to },
        ] {
            let text = notice.to_string();
            assert!(
                text.ends_with(", 49/Makefile and 10 more") && text.contains(": 0/Makefile, "),
                "{text}"
            );
        }
        let paths = vec!["Makefile".to_owned()];
        let text = Notice::Executes { paths }.to_string();
        assert_eq!(text, "these changed files run on your machine: Makefile");
    }
}
