//! The shell expressions of a template, run in the sandbox.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio_util::sync::CancellationToken;

use super::error::{ExpressionError, RunErrorKind};
use super::inside::{Inside, InsideError, Output};
use crate::process::Exit;
use crate::prompt::{PROMPT_LIMIT, Substituted};
use crate::sandbox::Sandbox;

/// The most that one may print: 1 MiB.
const OUTPUT: usize = 1 << 20;

/// So many run at once.
const AT_ONCE: usize = 8;

/// Where they run, and how long each may take.
#[derive(Clone, Copy)]
pub(super) struct Expanding<'a> {
    pub sandbox: &'a dyn Sandbox,
    pub environment: &'a BTreeMap<OsString, OsString>,
    pub limit: Duration,
    pub cancel: &'a CancellationToken,
}

impl Expanding<'_> {
    /// What each of them prints, several at once; in the order of the template. Where one fails the others are ended first.
    pub(super) async fn outputs(self, template: &Substituted) -> Result<Vec<String>, RunErrorKind> {
        let cancel = &self.cancel.child_token();
        let here = Expanding { cancel, ..self };
        let commands = template.expressions().iter().enumerate();
        let mut running = stream::iter(commands)
            .map(|(at, one)| async move { (at, here.output(&one.command).await) })
            .buffer_unordered(AT_ONCE);
        let mut outputs = vec![String::new(); template.expressions().len()];
        let (mut failed, mut bytes) = (None, template.bytes());
        while let Some((at, output)) = running.next().await {
            let output = output.and_then(|output| {
                bytes += output.len();
                if bytes > PROMPT_LIMIT {
                    let reason =
                        format!("the prompt becomes larger than {} MiB", PROMPT_LIMIT >> 20);
                    return Err(gave_none(&template.expressions()[at].command, None, reason));
                }
                Ok(output)
            });
            match output {
                Ok(output) => outputs[at] = output,
                Err(error) => {
                    cancel.cancel();
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(outputs), Err)
    }

    async fn output(self, command: &str) -> Result<String, RunErrorKind> {
        if self.cancel.is_cancelled() {
            return Err(RunErrorKind::Cancelled);
        }
        let inside = Inside {
            sandbox: self.sandbox,
            arguments: vec!["/bin/sh".into(), "-c".into(), command.into()],
            directory: None,
            environment: self.environment,
            limit: self.limit,
            output: Output::Captured(OUTPUT),
        };
        let failed = |exit, reason| gave_none(command, exit, reason);
        let done = match inside.run(self.cancel).await {
            Ok(done) => done,
            Err(InsideError::Cancelled) => return Err(RunErrorKind::Cancelled),
            Err(error) => return Err(failed(None, error.to_string())),
        };
        if !done.exit.success() {
            let stderr = String::from_utf8_lossy(&done.stderr);
            let reason = format!(
                "{}\n{}",
                done.exit,
                crate::text::printable(stderr.trim_end())
            );
            return Err(failed(Some(done.exit), reason.trim_end().to_owned()));
        }
        Ok(String::from_utf8_lossy(&done.stdout).trim_end().to_owned())
    }
}

fn gave_none(command: &str, exit: Option<Exit>, reason: String) -> RunErrorKind {
    let command = crate::text::printable(command);
    RunErrorKind::Expression(ExpressionError {
        command,
        exit,
        reason,
    })
}
