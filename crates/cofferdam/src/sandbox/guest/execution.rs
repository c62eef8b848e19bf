//! A program in a sandbox with a guest, as its user has it.

use async_trait::async_trait;
use tokio::net::unix::pipe;

use super::connection::Program;
use crate::sandbox::{BoxRead, BoxWrite, Execution, Exit, SandboxError, Terminal};

/// A program in a sandbox with a guest.
#[derive(Debug)]
pub(in crate::sandbox) struct GuestExecution {
    pub(super) program: Program,
    pub(super) streams: Outside,
}

/// The user's ends.
#[derive(Debug, Default)]
pub(super) struct Outside {
    pub(super) stdin: Option<pipe::Sender>,
    pub(super) stdout: Option<pipe::Receiver>,
    pub(super) stderr: Option<pipe::Receiver>,
    pub(super) terminal: Option<Terminal>,
}

#[async_trait]
impl Execution for GuestExecution {
    fn number(&self) -> Option<u64> {
        Some(self.program.number)
    }

    fn take_terminal(&mut self) -> Option<Terminal> {
        self.streams.terminal.take()
    }

    fn take_stdin(&mut self) -> Option<BoxWrite> {
        Some(Box::new(self.streams.stdin.take()?))
    }

    fn take_stdout(&mut self) -> Option<BoxRead> {
        Some(Box::new(self.streams.stdout.take()?))
    }

    fn take_stderr(&mut self) -> Option<BoxRead> {
        Some(Box::new(self.streams.stderr.take()?))
    }

    async fn wait(&mut self) -> Result<Exit, SandboxError> {
        self.program.wait().await
    }

    async fn kill(&mut self, signal: i32) -> Result<(), SandboxError> {
        self.program.signal(signal).await
    }
}
