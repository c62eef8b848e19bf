//! Hooks in the order of S2-20. Their exit codes and timeouts count everywhere.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::emitter::Emitter;
use super::event::Event;
use super::heard::Heard;
use super::hook_point::HookPoint;
use super::inside::{Inside, InsideError, Output};
use super::options::Hook;
use crate::process::{Exit, Input, Invocation, ProcessError, Sink};
use crate::sandbox::{ProgramFault, Sandbox, SandboxError};

/// A hook did not succeed; the step it belongs to has failed.
#[derive(Debug, thiserror::Error)]
#[error("the {point} hook `{command}` failed: {reason}")]
pub struct HookError {
    /// Where in the life of a sandbox.
    pub point: HookPoint,
    /// As the user wrote it.
    pub command: String,
    /// How it ended; nothing where it did not run to its end.
    pub exit: Option<Exit>,
    /// Why, as a sentence fragment.
    pub reason: String,
    /// The sandbox that it ran in ended meanwhile, or contact with it was lost.
    pub sandbox_gone: bool,
    /// There is no shell there that could run it.
    pub no_shell: bool,
}

/// So many lines of the beginning and of the end are in an error.
const FIRST: usize = 5;
const LAST: usize = 10;

/// How often the line that a hook is at is told.
const NEWS: Duration = Duration::from_millis(250);

/// Runs a hook so that it ends with its caller, whatever ends that: at the other end of standard
/// input is a pipe that nobody writes, and its end is the caller's. Both its streams are one.
const WATCHED: &str = r#"exec 3<&0 </dev/null >&2
{ read -r _ <&3; kill -KILL 0; } >/dev/null 2>&1 &
exec 3<&-
exec /bin/sh -c "$1""#;

/// Runs host hooks one after the other in `directory`.
pub(super) async fn on_host(
    point: HookPoint,
    hooks: &[Hook],
    directory: &Path,
    environment: &BTreeMap<OsString, OsString>,
    events: &Emitter,
    cancel: &CancellationToken,
) -> Result<(), HookError> {
    for hook in hooks {
        events.emit(&Event::HookStarted {
            point,
            command: hook.command.clone(),
        });
        let mut invocation =
            Invocation::new("/bin/sh", directory).args(["-c", WATCHED, "sh", &hook.command]);
        invocation.environment.clone_from(environment);
        invocation.limit = hook.timeout;
        let failed = |exit, reason| HookError {
            point,
            command: hook.command.clone(),
            exit,
            reason,
            sandbox_gone: false,
            no_shell: false,
        };
        let (theirs, ours) = std::io::pipe()
            .map_err(|error| failed(None, format!("cannot make a pipe: {error}")))?;
        let heard = Arc::new(Heard::default());
        invocation.input = Input::Fd(theirs.into());
        invocation.output = Sink::Nothing;
        invocation.watch = Some(heard.watch());
        let telling = Telling {
            point,
            label: &hook.command,
            heard: &heard,
            events,
        };
        let done = telling.until(invocation.run(cancel)).await;
        drop(ours);
        let done = match done {
            Ok(done) => done,
            Err(ProcessError::TimedOut { limit, .. }) => {
                return Err(failed(
                    None,
                    format!("it did not finish within {} s", limit.as_secs_f32()),
                ));
            }
            Err(error) => return Err(failed(None, error.to_string())),
        };
        telling.finished(done.exit)?;
    }
    Ok(())
}

/// Runs sandbox hooks one after the other as the agent user in the workspace.
pub(super) async fn in_sandbox(
    hooks: &[Hook],
    sandbox: &dyn Sandbox,
    environment: &BTreeMap<OsString, OsString>,
    events: &Emitter,
    cancel: &CancellationToken,
) -> Result<(), HookError> {
    let inside = InSandbox {
        point: HookPoint::SandboxReady,
        sandbox,
        directory: None,
        environment,
        events,
    };
    for hook in hooks {
        inside.run(hook, &hook.command, cancel).await?;
    }
    Ok(())
}

/// How long a command of the configuration may take that runs as often as a sandbox is made or synced.
pub(super) const LIMIT: Duration = Duration::from_secs(600);

/// Where hooks in a sandbox run.
pub(super) struct InSandbox<'a> {
    pub point: HookPoint,
    pub sandbox: &'a dyn Sandbox,
    /// The workspace unless given.
    pub directory: Option<&'a Path>,
    pub environment: &'a BTreeMap<OsString, OsString>,
    pub events: &'a Emitter,
}

impl InSandbox<'_> {
    /// A command of the configuration. `label`: what it is called.
    pub(super) async fn configured(
        &self,
        command: &str,
        label: &str,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<(), HookError> {
        let mut hook = Hook::new(command);
        hook.timeout = limit;
        self.run(&hook, label, cancel).await
    }

    /// `label`: what it is called.
    pub(super) async fn run(
        &self,
        hook: &Hook,
        label: &str,
        cancel: &CancellationToken,
    ) -> Result<(), HookError> {
        let point = self.point;
        self.events.emit(&Event::HookStarted {
            point,
            command: label.to_owned(),
        });
        let heard = Arc::new(Heard::default());
        let inside = Inside {
            sandbox: self.sandbox,
            arguments: vec!["/bin/sh".into(), "-c".into(), hook.command.clone().into()],
            directory: self.directory,
            environment: self.environment,
            limit: hook.timeout,
            output: Output::Seen(heard.watch()),
        };
        let failed = |error: InsideError| HookError {
            point,
            command: label.to_owned(),
            exit: None,
            reason: error.to_string(),
            sandbox_gone: matches!(error, InsideError::Sandbox(SandboxError::Gone(_))),
            no_shell: is_missing(&error),
        };
        let telling = Telling {
            point,
            label,
            heard: &heard,
            events: self.events,
        };
        let done = telling.until(inside.run(cancel)).await.map_err(failed)?;
        telling.finished(done.exit)
    }
}

fn is_missing(error: &InsideError) -> bool {
    let fault = match error {
        InsideError::Sandbox(SandboxError::Program { fault, .. }) => Some(*fault),
        _ => None,
    };
    fault == Some(ProgramFault::Missing)
}

/// A hook that runs, and who hears of it.
struct Telling<'a> {
    point: HookPoint,
    label: &'a str,
    heard: &'a Heard,
    events: &'a Emitter,
}

impl Telling<'_> {
    /// Tells now and then what line it is at.
    async fn until<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            match tokio::time::timeout(NEWS, &mut work).await {
                Ok(done) => return done,
                Err(_) => {
                    if let Some(line) = self.heard.news() {
                        self.events.emit(&Event::HookOutput {
                            point: self.point,
                            command: self.label.to_owned(),
                            line,
                        });
                    }
                }
            }
        }
    }

    fn finished(&self, exit: Exit) -> Result<(), HookError> {
        let output = self.heard.text();
        let shown = around(output.trim_end());
        self.events.emit(&Event::HookFinished {
            point: self.point,
            command: self.label.to_owned(),
            exit,
            output,
        });
        if exit.success() {
            return Ok(());
        }
        let reason = crate::text::printable(&format!("{exit}\n{shown}"))
            .trim_end()
            .to_owned();
        Err(HookError {
            point: self.point,
            command: self.label.to_owned(),
            exit: Some(exit),
            reason,
            sandbox_gone: false,
            no_shell: false,
        })
    }
}

/// The longest line of it in characters.
const LONGEST: usize = 1000;

/// The first lines and the last ones of what a hook that failed has printed.
fn around(output: &str) -> String {
    let lines: Vec<String> = output.lines().map(ends).collect();
    if lines.len() <= FIRST + LAST + 1 {
        return lines.join("\n");
    }
    let (first, last) = (&lines[..FIRST], &lines[lines.len() - LAST..]);
    let between = format!("… {} lines are left out …", lines.len() - FIRST - LAST);
    [first, &[between], last].concat().join("\n")
}

/// The beginning and the end of one line.
fn ends(line: &str) -> String {
    let count = line.chars().count();
    if count <= LONGEST {
        return line.to_owned();
    }
    let half = LONGEST / 2;
    let first: String = line.chars().take(half).collect();
    let last: String = line.chars().skip(count - half).collect();
    format!(
        "{first} … {} characters are left out … {last}",
        count - 2 * half
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_beginning_and_the_end_of_a_long_line() {
        let longest = "x".repeat(LONGEST);
        assert_eq!(around(&longest), longest);
        let shown = around(&format!("begins{longest}ends"));
        assert!(
            shown.starts_with("begins") && shown.ends_with("ends"),
            "{shown}"
        );
        assert!(
            shown.contains("x … 10 characters are left out … x"),
            "{shown}"
        );
    }

    #[test]
    fn an_error_has_the_first_lines_and_the_last() {
        let lines = |count: usize| (1..=count).map(|n| n.to_string()).collect::<Vec<_>>();
        let all = lines(FIRST + LAST + 1).join("\n");
        assert_eq!(around(&all), all);
        let shown = around(&lines(100).join("\n"));
        assert!(
            shown.starts_with("1\n2\n3\n4\n5\n… 85 lines are left out …\n91\n"),
            "{shown}"
        );
        assert!(shown.ends_with("\n100"));
    }
}
