//! The place of a living sandbox is kept by its supervisor; where that was killed, the next command starts another.

use std::fs::File;
use std::time::{Duration, Instant};

use super::{Session, SessionError};
use crate::fsx::lock;
use crate::session::network;
use crate::wall::supervisor::{self, Supervisor, SupervisorError};
use crate::wall::{HandedOver, WallError, WallSpec};

/// How long another command may take to start one.
const OTHERS: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

impl Session {
    /// Has the sandbox's place kept, where nobody does. Bounded: 20 s.
    pub(super) async fn keep(&self) -> Result<(), SessionError> {
        let deadline = Instant::now() + OTHERS;
        loop {
            let found = Supervisor::connect(&self.directory()).await;
            if found.map_err(|source| self.unkept(source))?.is_some() {
                return Ok(());
            }
            let place = self.place().await?;
            let lock = lock::open(&self.directory().join("lock"))?;
            match self.start_keeper(place, lock).await {
                // Another command was faster, or somebody looked just then.
                Err(SupervisorError::Taken) if Instant::now() < deadline => {
                    tokio::time::sleep(PAUSE).await;
                }
                done => return done.map_err(|source| self.unkept(source)),
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
        let (home, id) = (&self.caller.home, self.id());
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
        network::wall_of_a_record(&self.caller.home, self.record())
    }

    pub(super) fn walled(&self, source: WallError) -> SessionError {
        SessionError::Wall {
            name: self.name().to_string(),
            source,
        }
    }
}
