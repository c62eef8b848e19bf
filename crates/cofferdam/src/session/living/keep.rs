//! The place of a living sandbox is kept by its supervisor; where that was killed, the next command starts another.

use std::fs::File;
use std::time::{Duration, Instant};

use super::{Session, SessionError};
use crate::fsx::lock;
use crate::registry::Reach;
use crate::wall::supervisor::{self, Supervisor, SupervisorError};
use crate::wall::{self, HandedOver, WallSpec};

/// How long another command may take to start one.
const OTHERS: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

impl Session {
    /// Has the sandbox's place kept, where nobody does. Bounded: 20 s.
    pub(super) async fn keep(&self) -> Result<(), SessionError> {
        let failed = |source| SessionError::Supervisor {
            name: self.record.name.to_string(),
            source,
        };
        let deadline = Instant::now() + OTHERS;
        loop {
            let found = Supervisor::connect(&self.directory()).await;
            if found.map_err(failed)?.is_some() {
                return Ok(());
            }
            let place = self.place().await?;
            let lock = lock::open(&self.directory().join("lock"))?;
            match self.start_keeper(place, lock).await {
                // Another command was faster, or somebody looked just then.
                Err(SupervisorError::Taken) if Instant::now() < deadline => {
                    tokio::time::sleep(PAUSE).await;
                }
                done => return done.map_err(failed),
            }
        }
    }

    /// Starts the supervisor, which takes the sandbox's lock, or has it with who started it.
    pub(super) async fn start_keeper(
        &self,
        place: Option<HandedOver>,
        lock: File,
    ) -> Result<(), SupervisorError> {
        let gone = || SupervisorError::Start("the sandbox has no process".to_owned());
        let init = self.sandbox.process().ok_or_else(gone)?;
        let init = init.try_clone_to_owned()?;
        let (home, id) = (&self.caller.home, self.record.id);
        supervisor::start(home, id, lock.into(), init, place).await?;
        Ok(())
    }

    /// What the sandbox itself has of its place behind the wall.
    async fn place(&self) -> Result<Option<HandedOver>, SessionError> {
        let Some(spec) = self.wall_spec() else {
            return Ok(None);
        };
        let sockets = self.sandbox.sockets().await;
        let sockets = sockets.map_err(|source| self.failed(source))?;
        let place = HandedOver::of_sockets(&spec, sockets);
        place.map(Some).map_err(|source| self.walled(source))
    }

    /// `None`: it has no wall.
    pub(super) fn wall_spec(&self) -> Option<WallSpec> {
        if !matches!(self.record.network, Some(Reach::Allowlist { .. })) {
            return None;
        }
        Some(WallSpec {
            home: self.caller.home.clone(),
            sandbox: self.record.id,
            name: self.record.name.clone(),
            sources: wall::sources_of(&self.caller.home, &self.record)?,
        })
    }

    pub(super) fn walled(&self, source: crate::wall::WallError) -> SessionError {
        SessionError::Wall {
            name: self.record.name.to_string(),
            source,
        }
    }
}
