//! Files of a sandbox, for whoever is outside: looked into, written and removed one by one, as its agent would.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use super::{Named, Session, SessionError};
use crate::fsx::lock;
use crate::sandbox::SandboxError;
use crate::sandbox::browse::{Peek, Sight, browse};
use crate::sandbox::change::{FileChange, change};
use crate::session::form::Form;
use crate::session::options::Caller;

/// Held by whoever changes files by what they hold, in the state directory.
const LOCK: &str = "files";
const OTHERS: Duration = Duration::from_secs(20);
/// For one look, or one row of changes.
const LIMIT: Duration = Duration::from_mins(2);

/// The right to change files by what they hold, for as long as this value is there.
#[derive(Debug)]
pub struct AloneWithFiles(
    #[expect(dead_code, reason = "its end lets go of the lock")] std::fs::File,
);

/// As [`Session::alone_with_files`].
pub(super) async fn alone_with_files(
    caller: &Caller,
    named: &Named,
) -> Result<AloneWithFiles, SessionError> {
    let directory = caller.home.sandbox(named.record.id);
    let taken = lock::take_within(&directory.join(LOCK), OTHERS).await?;
    let name = || named.record.name.to_string();
    let taken = taken.ok_or_else(|| SessionError::Busy { name: name() })?;
    Ok(AloneWithFiles(taken))
}

impl Session {
    /// Whoever changes a file by what is in it has this from the look to the change: one process at a time has it. Bounded: 20 s.
    pub async fn alone_with_files(&self) -> Result<AloneWithFiles, SessionError> {
        alone_with_files(&self.caller, &self.named).await
    }

    /// Where programs start inside: the top of the repository.
    pub fn workdir(&self) -> Result<PathBuf, SessionError> {
        Ok(Form::read(&self.directory())?.workdir())
    }

    /// Tells what is at a place inside: see [`browse`]. Bounded: 2 minutes.
    pub async fn browse(
        &self,
        place: &Peek<'_>,
        hear: &mut (dyn FnMut(Sight) -> ControlFlow<()> + Send),
    ) -> Result<(), SessionError> {
        self.named.check_files(&self.caller)?;
        self.within(browse(self.sandbox(), place, hear)).await
    }

    /// Changes files, in their order, each of them whole or not at all; says of each why it is as it was. Nothing of it is committed.
    /// Bounded: 2 minutes.
    pub async fn change_files(
        &self,
        changes: &[FileChange<'_>],
    ) -> Result<Vec<Result<(), io::Error>>, SessionError> {
        self.named.check_files(&self.caller)?;
        self.within(change(self.sandbox(), changes)).await
    }

    /// Programs inside can hold up whoever looks for them.
    async fn within<T>(
        &self,
        step: impl Future<Output = Result<T, SandboxError>>,
    ) -> Result<T, SessionError> {
        let done = tokio::select! {
            done = tokio::time::timeout(LIMIT, step) => {
                done.unwrap_or(Err(SandboxError::TimedOut(LIMIT.as_secs())))
            }
            () = self.caller.cancel.cancelled() => Err(SandboxError::Cancelled),
        };
        done.map_err(|source| self.failed(source))
    }
}
