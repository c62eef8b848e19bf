//! An agent's own terminal interface, and the person at it.

use std::collections::BTreeMap;
use std::ffi::OsString;

use tokio_util::sync::CancellationToken;

use crate::agent::{AgentProvider, AgentRequest};
use crate::process::Exit;
use crate::sandbox::{ExecRequest, Sandbox};
use crate::session::attendant::Attendant;
use crate::session::first_start::{self, Put};
use crate::session::stream::AgentFailure;

/// SIGHUP: what a program hears whose terminal goes.
const HANG_UP: i32 = 1;

/// What one program needs.
pub(super) struct Attended<'a> {
    pub sandbox: &'a dyn Sandbox,
    pub agent: &'a dyn AgentProvider,
    pub request: AgentRequest,
    pub environment: &'a BTreeMap<OsString, OsString>,
    pub attendant: &'a dyn Attendant,
    pub cancel: &'a CancellationToken,
}

impl Attended<'_> {
    /// Until the program has ended, or the run is cancelled.
    pub(super) async fn run(self) -> Result<Exit, AgentFailure> {
        let command = self.agent.interactive(&self.request)?;
        let mut exec = ExecRequest::new(command.arguments);
        exec.environment = self.environment.clone();
        exec.environment.extend(self.attendant.environment());
        exec.environment.extend(command.environment);
        exec.terminal = Some(self.attendant.size());
        let put = if self.request.skip_permissions {
            first_start::put(self.sandbox, &self.agent.first_start(&self.request)).await
        } else {
            // Its user has answered it, or does.
            Put::default()
        };
        let ended = self.with(exec).await;
        put.take_away(self.sandbox).await;
        ended
    }

    async fn with(&self, exec: ExecRequest) -> Result<Exit, AgentFailure> {
        let execution = tokio::select! {
            () = self.cancel.cancelled() => return Err(AgentFailure::Cancelled),
            started = self.sandbox.exec(exec) => started?,
        };
        let number = execution.number();
        tokio::select! {
            exit = self.attendant.attend(execution) => Ok(exit?),
            () = self.cancel.cancelled() => {
                // Its terminal has gone with the one who attended.
                if let Some(number) = number {
                    let _ = self.sandbox.signal(number, HANG_UP).await;
                }
                Err(AgentFailure::Cancelled)
            }
        }
    }
}
