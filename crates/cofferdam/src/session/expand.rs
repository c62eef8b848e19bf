//! The shell expressions of a template, run in the sandbox.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio_util::sync::CancellationToken;

use super::error::{ExpressionError, RunErrorKind};
use super::inside::{Inside, InsideError, Output};
use crate::prompt::Substituted;
use crate::sandbox::Sandbox;

/// The most that one may print: 1 MiB.
const OUTPUT: usize = 1 << 20;

/// Where they run, and how long each may take.
#[derive(Clone, Copy)]
pub(super) struct Expanding<'a> {
    pub sandbox: &'a dyn Sandbox,
    pub environment: &'a BTreeMap<OsString, OsString>,
    pub limit: Duration,
    pub cancel: &'a CancellationToken,
}

impl Expanding<'_> {
    /// What each of them prints, all at once; in the order of the template.
    pub(super) async fn outputs(self, template: &Substituted) -> Result<Vec<String>, RunErrorKind> {
        let commands = template.expressions().iter().map(|one| &one.command);
        try_join_all(commands.map(|command| self.output(command))).await
    }

    async fn output(self, command: &str) -> Result<String, RunErrorKind> {
        let inside = Inside {
            sandbox: self.sandbox,
            arguments: vec!["/bin/sh".into(), "-c".into(), command.into()],
            directory: None,
            environment: self.environment,
            limit: self.limit,
            output: Output::Captured(OUTPUT),
        };
        let failed = |exit, reason: String| {
            let command = crate::text::printable(command);
            RunErrorKind::Expression(ExpressionError {
                command,
                exit,
                reason,
            })
        };
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
