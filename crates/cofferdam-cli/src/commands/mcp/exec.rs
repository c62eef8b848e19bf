//! `sandbox-exec`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cofferdam::sandbox::{Exit, ProgramFault, SandboxError};
use cofferdam::session::living::{Condition, Program};
use cofferdam::session::{Session, SessionError, SessionExec};
use cofferdam::text::printable_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changed::{self, Changed};
use super::failure::Failure;
use super::output::{self, Part};
use super::refused;
use super::server::{Asked, Server};
use super::tool::{Call, Effect};

/// Seconds.
const USUAL: u64 = 120;
const LONGEST: u64 = 3600;
/// So many bytes of what it printed first and last are told.
const FIRST: u64 = 10_000;
const LAST: u64 = 20_000;
/// Between two looks at whether it has ended.
const SHORTEST: Duration = Duration::from_millis(1);
const PAUSE: Duration = Duration::from_millis(50);
/// What a program that was killed may take to be gone.
const GONE: Duration = Duration::from_secs(10);
const KILL: i32 = 9;
/// When a sandbox was ended that a program was waited for in.
const MEANWHILE: &str = "its program ran";

/// Run a program in a sandbox
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Exec {
    /// The sandbox's name
    sandbox: String,
    /// A line for the shell `sh`
    command: Option<String>,
    /// A program and its arguments instead, started without a shell
    program: Option<Vec<String>>,
    /// Where it starts: a directory inside, absolute or below the top of the repository, which it is unless given
    directory: Option<String>,
    /// Variables for it
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Seconds after which it is killed: 120 unless given, 3600 at most
    timeout: Option<u64>,
    /// Answer at once and leave it running, such as a server: `sandbox-output` tells later what it printed, `sandbox-kill` ends it
    #[serde(default)]
    background: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Ran {
    /// By which `sandbox-output` and `sandbox-kill` know it, where it runs in the background or printed more than is told here
    id: Option<String>,
    /// How it ended: its exit code
    exit_code: Option<i32>,
    /// Or the number of the signal that ended it
    signal: Option<i32>,
    /// It took longer than `timeout`, and was killed
    timed_out: bool,
    /// What it printed, standard output and standard error as they came
    output: String,
    /// So many bytes in the middle of it are left out
    left_out: u64,
    /// What it changed
    #[serde(flatten)]
    changed: Changed,
    /// The seconds that it was to take at most.
    #[serde(skip)]
    limit: u64,
}

impl Call for Exec {
    const NAME: &'static str = "sandbox-exec";
    const TITLE: &'static str = "Run a program";
    const DESCRIPTION: &'static str = "Runs a shell command or a program in a sandbox, and tells what it printed and how it ended. What it \
        changes in the repository becomes a commit; new files that an ignore file covers do not. It has no terminal and no input.";
    const EFFECT: Effect = Effect::Changes;
    type Told = Ran;

    async fn call(self, server: Server, asked: Asked) -> Result<Ran, Failure> {
        let words = match (self.command, self.program) {
            (Some(command), None) => vec!["sh".to_owned(), "-c".to_owned(), command],
            (None, Some(words)) if !words.is_empty() => words,
            _ => {
                return Err(Failure::new(
                    "one of `command` and `program` is to be given",
                    "`command` is a line for the shell, such as \"make test\".",
                ));
            }
        };
        let seconds = self.timeout.unwrap_or(USUAL);
        if !(1..=LONGEST).contains(&seconds) {
            return Err(Failure::new(
                format!("`timeout` is {seconds}, and may be 1 to {LONGEST} seconds"),
                "Run what is to take longer with `background`.",
            ));
        }
        let is_name = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        if let Some(name) = self.environment.keys().find(|name| !is_name(name)) {
            return Err(Failure::new(
                format!("`{name}` is no name of a variable"),
                "In `environment` each variable has its name alone as a key, and what it is to hold as the value.",
            ));
        }
        let session = if self.background {
            server.to_change(&self.sandbox, &asked).await?
        } else {
            server.to_run(&self.sandbox, &asked).await?
        };
        let mut exec = SessionExec::new(words);
        let directory = self.directory;
        exec.directory = directory.as_ref().map(PathBuf::from);
        let variables = self.environment.into_iter();
        exec.environment = variables
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let refused = session.refused_from_now_on();
        let began = session.exec_detached(exec).await;
        let began = began.map_err(|error| not_begun(error, directory.as_deref()))?;
        if self.background {
            return Ok(Ran::running(&began));
        }
        // Whoever deletes the sandbox meanwhile is told of it.
        let waits = began.waited_for().ok().flatten();
        let limit = Duration::from_secs(seconds);
        asked.stand_aside();
        let waited = wait(&session, &began, limit, &asked).await;
        asked.work_again().await;
        let (exit, killed) = waited?;
        let timed_out = killed.then_some(seconds);
        drop(waits);
        if !began.output.exists() {
            return Err(Failure::gone(session.name().as_str(), MEANWHILE));
        }
        if matches!(exit, Some(Exit::Signal(_))) && !killed {
            // It may have been killed with the whole sandbox.
            condition(&session).await?;
        }
        let printed = output::both_ends(&began.output, FIRST, LAST)?;
        let mut changed = changed::record(&session, Self::NAME).await;
        let refused = refused.until_now();
        changed.notes.extend(refused.iter().map(refused::note));
        Ok(Ran::ended(began, exit, timed_out, printed, changed))
    }
}

/// Until it ends, by itself or not.
async fn wait(
    session: &Session,
    program: &Program,
    limit: Duration,
    asked: &Asked,
) -> Result<(Option<Exit>, bool), Failure> {
    let mut deadline = Instant::now() + limit;
    let mut pause = SHORTEST;
    let mut killed = None;
    loop {
        if let Some(exit) = output::exit(program)? {
            return Ok((Some(exit), killed.is_some()));
        }
        match killed {
            None if asked.cancel.is_cancelled() || Instant::now() >= deadline => {
                // It may have ended just now.
                let _ = session.signal(program.id.number, KILL).await;
                killed = Some(Instant::now());
            }
            Some(at) if at.elapsed() > GONE => return Ok((None, true)),
            _ => {}
        }
        let slept = Instant::now();
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE);
        // One whose sandbox was stopped meanwhile has no end, and what is paused takes no time.
        if pause == PAUSE && condition(session).await? == Condition::Paused {
            deadline += slept.elapsed();
        }
    }
}

/// Why it does not run. `directory`: where it was to start.
fn not_begun(error: SessionError, directory: Option<&str>) -> Failure {
    if let SessionError::Sandbox {
        source:
            SandboxError::Program {
                fault: ProgramFault::Directory,
                reason,
                ..
            },
        ..
    } = &error
        && let Some(directory) = directory
    {
        let directory = printable_line(directory);
        let what = if reason.contains("No such file") {
            format!("there is no directory {directory}")
        } else {
            format!("it cannot start in the directory {directory}: {reason}")
        };
        return Failure::new(what, "`sandbox-ls` tells which there are.");
    }
    error.into()
}

async fn condition(session: &Session) -> Result<Condition, Failure> {
    session.condition().await.map_err(|error| match error {
        SessionError::Stopped { name, .. }
        | SessionError::Sandbox {
            name,
            source: SandboxError::Gone(_),
        } => Failure::gone(&name, MEANWHILE),
        error => error.into(),
    })
}

impl Ran {
    fn running(program: &Program) -> Self {
        Self {
            id: Some(program.id.to_string()),
            exit_code: None,
            signal: None,
            timed_out: false,
            output: String::new(),
            left_out: 0,
            changed: Changed::default(),
            limit: 0,
        }
    }

    fn ended(
        program: Program,
        exit: Option<Exit>,
        timed_out: Option<u64>,
        printed: Part,
        changed: Changed,
    ) -> Self {
        let (exit_code, signal) = output::in_numbers(exit);
        let id = program.id.to_string();
        let is_whole = printed.left_out == 0 && exit.is_some();
        if is_whole {
            // Nobody has more to read of it. What cannot be removed goes with the sandbox.
            let _ = program.forget();
        }
        Self {
            id: (!is_whole).then_some(id),
            exit_code,
            signal,
            timed_out: timed_out.is_some(),
            output: printed.text,
            left_out: printed.left_out,
            changed,
            limit: timed_out.unwrap_or_default(),
        }
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.output)?;
        if !self.output.is_empty() && !self.output.ends_with('\n') {
            writeln!(f)?;
        }
        match (self.exit_code, self.signal, &self.id) {
            (Some(code), _, _) => writeln!(f, "[exit code {code}]")?,
            (None, Some(signal), _) => writeln!(f, "[ended by signal {signal}]")?,
            (None, None, Some(id)) if !self.timed_out => writeln!(
                f,
                "[it runs in the background as {id}: `sandbox-output` tells what it prints, `sandbox-kill` ends it]"
            )?,
            _ => {}
        }
        if self.timed_out && self.exit_code.is_none() && self.signal.is_none() {
            writeln!(f, "[it did not end when it was killed]")?;
        } else if self.timed_out {
            writeln!(
                f,
                "[it was killed, because it took longer than its timeout of {} s; give a longer one (`timeout`, {LONGEST} at most), or run it with `background`]",
                self.limit
            )?;
        }
        if let (Some(id), true) = (&self.id, self.left_out > 0) {
            writeln!(
                f,
                "[{} bytes in the middle are left out: `sandbox-output` with the id {id} tells them from offset {FIRST} on]",
                self.left_out
            )?;
        }
        self.changed.fmt(f)
    }
}
