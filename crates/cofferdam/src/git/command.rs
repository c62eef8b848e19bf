//! One hardened git command. Every host git call of this crate is built here: cleared environment,
//! no system or global configuration, no hooks, no prompts, no network, explicit directories.
//!
//! There is no switch that disables a repository's own configuration, so these settings do not
//! make it safe to open a git directory that a sandbox can write. Nothing may do that.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::process::{Exit, Finished, Input, Invocation, ProcessError, Running, Sink, Watch};

/// One that a signal ended has said nothing.
fn after_colon(stderr: &str) -> String {
    if stderr.is_empty() {
        return String::new();
    }
    format!(": {stderr}")
}

/// A git call failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// It gave no result: it could not be started, took too long or was cancelled.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// It ended with anything but success.
    #[error("`git {command}` failed with {exit}{}", after_colon(stderr))]
    Failed {
        /// The subcommand.
        command: String,
        /// Its exit code, or the signal that killed it.
        exit: Exit,
        /// The last lines of standard error, control bytes escaped.
        stderr: String,
    },
    /// It succeeded, and its output has an unknown form.
    #[error("`git {command}` printed what cannot be understood: {what}")]
    Output {
        /// Its arguments, safe for a terminal.
        command: String,
        /// What is wrong with it.
        what: String,
    },
}

/// The git program to use and how long a call may take.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    limit: Duration,
    /// Settings that lie over those of the repository: full name and value.
    overrides: Arc<[(OsString, &'static str)]>,
}

impl Git {
    /// `program`: an absolute path, or `git` to look it up in `/usr/local/bin:/usr/bin:/bin`.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            limit: Duration::from_secs(120),
            overrides: Arc::default(),
        }
    }

    /// Every call takes at most this long.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// With these settings over the repository's own; names may hold any character.
    #[must_use]
    pub(super) fn with_overrides(mut self, overrides: Vec<(OsString, &'static str)>) -> Self {
        self.overrides = overrides.into();
        self
    }

    /// The git that is run.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A call that opens the git directory `git_dir`, whose shared part is `common_dir`.
    pub fn at(&self, git_dir: &Path, common_dir: &Path) -> GitCommand {
        let mut command = self.anywhere(git_dir);
        command.environment("GIT_DIR", git_dir);
        command.environment("GIT_COMMON_DIR", common_dir);
        command
    }

    /// A call that opens no repository, or finds one itself from `directory` (discovery only).
    pub fn anywhere(&self, directory: &Path) -> GitCommand {
        let mut invocation = Invocation::new(self.program.as_os_str(), directory);
        invocation.limit = self.limit;
        // Nothing here fetches, and a partial clone must not do so by itself: `GIT_NO_LAZY_FETCH` is not known to git before
        // 2.39.4 and its like. No transport is allowed to any.
        let fixed = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", "/nonexistent"),
            ("LANG", "C.UTF-8"),
            ("LC_ALL", "C"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "/bin/false"),
            ("SSH_ASKPASS", "/bin/false"),
            ("GIT_EDITOR", "false"),
            ("GIT_SEQUENCE_EDITOR", "false"),
            ("GIT_PAGER", "cat"),
            ("GIT_ALLOW_PROTOCOL", ""),
            ("GIT_PROTOCOL_FROM_USER", "0"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_LITERAL_PATHSPECS", "1"),
        ];
        for (key, value) in fixed {
            invocation.environment.insert(key.into(), value.into());
        }
        for (number, (name, value)) in self.overrides.iter().enumerate() {
            let mut set = |key: &str, value: &OsStr| {
                let key = format!("GIT_CONFIG_{key}_{number}");
                invocation.environment.insert(key.into(), value.to_owned());
            };
            set("KEY", name);
            set("VALUE", OsStr::new(value));
        }
        if !self.overrides.is_empty() {
            let count = self.overrides.len().to_string();
            let key = "GIT_CONFIG_COUNT".into();
            invocation.environment.insert(key, count.into());
        }
        let settings = [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            // What lies on the disk counts, whatever somebody said of an index.
            "core.ignoreStat=false",
            "core.untrackedCache=false",
            "core.protectHFS=true",
            "core.protectNTFS=true",
            "core.quotePath=true",
            "core.sshCommand=/bin/false",
            "core.attributesFile=/dev/null",
            "core.alternateRefsCommand=:",
            "credential.helper=",
            "diff.ignoreSubmodules=all",
            "submodule.recurse=false",
            "fetch.recurseSubmodules=false",
            "protocol.ext.allow=never",
            "commit.gpgSign=false",
            "tag.gpgSign=false",
            "gpg.program=/bin/false",
            "gc.auto=0",
            "maintenance.auto=false",
            "log.showSignature=false",
            "safe.bareRepository=explicit",
            "advice.detachedHead=false",
            "branch.autoSetupMerge=false",
            "branch.autoSetupRebase=never",
            "core.logAllRefUpdates=true",
        ];
        for setting in settings {
            invocation.arguments.push("-c".into());
            invocation.arguments.push(setting.into());
        }
        invocation.arguments.push("--no-pager".into());
        GitCommand {
            invocation,
            name: String::new(),
            answers: vec![0],
        }
    }
}

/// One git call under construction.
#[derive(Debug)]
pub struct GitCommand {
    invocation: Invocation,
    name: String,
    answers: Vec<i32>,
}

impl GitCommand {
    /// Adds an argument. The first one that is no option names the subcommand in messages.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        let argument = argument.as_ref();
        if self.name.is_empty() && !argument.as_encoded_bytes().starts_with(b"-") {
            self.name = argument.to_string_lossy().into_owned();
        }
        self.invocation.arguments.push(argument.to_owned());
        self
    }

    /// More arguments, after those that it has.
    #[must_use]
    pub fn args(self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// A `-c` setting; must come before the subcommand.
    #[must_use]
    pub fn config(mut self, setting: impl Into<OsString>) -> Self {
        self.invocation.arguments.push("-c".into());
        self.invocation.arguments.push(setting.into());
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, key: &str, value: impl Into<OsString>) -> Self {
        self.environment(key, value);
        self
    }

    /// Removes a variable of the hardened set; say why at the call.
    #[must_use]
    pub fn without_env(mut self, key: &str) -> Self {
        self.invocation.environment.remove(OsStr::new(key));
        self
    }

    fn environment(&mut self, key: &str, value: impl Into<OsString>) {
        self.invocation.environment.insert(key.into(), value.into());
    }

    /// The work tree, which also becomes the current directory.
    #[must_use]
    pub fn work_tree(mut self, path: &Path) -> Self {
        self.environment("GIT_WORK_TREE", path);
        path.clone_into(&mut self.invocation.directory);
        self
    }

    /// Where it runs.
    #[must_use]
    pub fn directory(mut self, path: &Path) -> Self {
        path.clone_into(&mut self.invocation.directory);
        self
    }

    /// What it reads on standard input.
    #[must_use]
    pub fn input(mut self, input: Input) -> Self {
        self.invocation.input = input;
        self
    }

    /// Where its standard output goes.
    #[must_use]
    pub fn output(mut self, sink: Sink) -> Self {
        self.invocation.output = sink;
        self
    }

    /// It is killed after this long.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.invocation.limit = limit;
        self
    }

    /// See [`Invocation::patience`].
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.invocation.patience = patience;
        self
    }

    /// Standard error, where git tells its progress, as it comes.
    #[must_use]
    pub fn watch(mut self, watch: Watch) -> Self {
        self.invocation.watch = Some(watch);
        self
    }

    /// Exit codes that are answers, not failures (0 always is).
    #[must_use]
    pub fn answers(mut self, codes: &[i32]) -> Self {
        self.answers.extend_from_slice(codes);
        self
    }

    /// Runs it; any exit code outside of [`Self::answers`] is an error with git's own words.
    pub async fn run(self, cancel: &CancellationToken) -> Result<Finished, GitError> {
        let Self {
            invocation,
            name,
            answers,
        } = self;
        check(name, &answers, invocation.run(cancel).await?)
    }

    /// Runs it and returns standard output as text without the last line feed.
    pub async fn line(self, cancel: &CancellationToken) -> Result<String, GitError> {
        let name = self.name.clone();
        let done = self.run(cancel).await?;
        let text = String::from_utf8(done.stdout).map_err(|_| GitError::Output {
            command: name,
            what: "it is not UTF-8".into(),
        })?;
        Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
    }

    /// Starts it, for pipelines.
    pub fn start(self) -> Result<RunningGit, GitError> {
        let Self {
            invocation,
            name,
            answers,
        } = self;
        Ok(RunningGit {
            name,
            answers,
            running: invocation.start()?,
        })
    }
}

/// A git call that runs.
#[derive(Debug)]
pub struct RunningGit {
    name: String,
    answers: Vec<i32>,
    running: Running,
}

impl RunningGit {
    /// Bounds the memory (bytes) that the process can allocate from now on: it reads hostile bytes.
    pub fn limit_memory(&self, bytes: u64) {
        self.running.limit_memory(bytes);
    }

    /// Waits for its end. Fails where it takes longer than its limit, or is cancelled; both kill it.
    pub async fn finish(self, cancel: &CancellationToken) -> Result<Finished, GitError> {
        check(self.name, &self.answers, self.running.finish(cancel).await?)
    }
}

fn check(command: String, answers: &[i32], done: Finished) -> Result<Finished, GitError> {
    match done.exit {
        Exit::Code(code) if answers.contains(&code) => Ok(done),
        exit => {
            let text = String::from_utf8_lossy(&done.stderr);
            let lines: Vec<&str> = text.trim_end().lines().rev().take(8).collect();
            // Of a line that git wrote over, as it does for progress, the last words count.
            let shown = |line: &'_ str| line.rsplit('\r').next().unwrap_or_default().to_owned();
            let tail = lines
                .into_iter()
                .rev()
                .map(shown)
                .collect::<Vec<_>>()
                .join("\n");
            let stderr = crate::text::printable(&tail);
            Err(GitError::Failed {
                command,
                exit,
                stderr,
            })
        }
    }
}
