//! Hooks in the order of S2-20. Their exit codes and timeouts count everywhere.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::emitter::Emitter;
use super::event::Event;
use super::hook_point::HookPoint;
use super::inside::{Inside, InsideError};
use super::options::Hook;
use crate::process::{Exit, Input, Invocation, ProcessError};
use crate::sandbox::Sandbox;

/// A hook did not succeed; the step it belongs to has failed.
#[derive(Debug, thiserror::Error)]
#[error("the {point} hook `{command}` failed: {reason}")]
pub struct HookError {
    pub point: HookPoint,
    pub command: String,
    pub exit: Option<Exit>,
    pub reason: String,
}

/// The most output of a hook that is kept.
const OUTPUT: usize = 1 << 20;

/// Runs a hook so that it ends with its caller, whatever ends that: at the other end of standard
/// input is a pipe that nobody writes, and its end is the caller's.
const WATCHED: &str = r#"exec 3<&0 </dev/null
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
        };
        let (theirs, ours) = std::io::pipe()
            .map_err(|error| failed(None, format!("cannot make a pipe: {error}")))?;
        invocation.input = Input::Fd(theirs.into());
        let done = invocation.run(cancel).await;
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
        finished(
            point,
            &hook.command,
            done.exit,
            &done.stdout,
            &done.stderr,
            events,
        )?;
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
        let inside = Inside {
            sandbox: self.sandbox,
            arguments: vec!["/bin/sh".into(), "-c".into(), hook.command.clone().into()],
            directory: self.directory,
            environment: self.environment,
            limit: hook.timeout,
            output_limit: OUTPUT,
        };
        let failed = |error: InsideError| HookError {
            point,
            command: label.to_owned(),
            exit: None,
            reason: error.to_string(),
        };
        let done = inside.run(cancel).await.map_err(failed)?;
        finished(
            point,
            label,
            done.exit,
            &done.stdout,
            &done.stderr,
            self.events,
        )
    }
}

fn finished(
    point: HookPoint,
    label: &str,
    exit: Exit,
    stdout: &[u8],
    stderr: &[u8],
    events: &Emitter,
) -> Result<(), HookError> {
    let mut output = String::from_utf8_lossy(stdout).into_owned();
    output.push_str(&String::from_utf8_lossy(stderr));
    let tail: Vec<&str> = output.trim_end().lines().rev().take(10).collect();
    let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
    events.emit(&Event::HookFinished {
        point,
        command: label.to_owned(),
        exit,
        output,
    });
    if exit.success() {
        return Ok(());
    }
    let reason = crate::text::printable(&format!("{exit}\n{tail}"))
        .trim_end()
        .to_owned();
    Err(HookError {
        point,
        command: label.to_owned(),
        exit: Some(exit),
        reason,
    })
}
