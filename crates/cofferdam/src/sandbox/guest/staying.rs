//! A sandbox that is to outlive its maker, and ends with it until it is told to stay.

use std::sync::{Arc, Mutex, PoisonError};

use super::Process;
use crate::sandbox::SandboxError;

/// How far one came. `M`: what it ends with.
#[derive(Debug)]
pub(in crate::sandbox) struct Staying<M>(Mutex<Stage<M>>);

#[derive(Debug)]
enum Stage<M> {
    WithMaker(M),
    Stays,
    /// Or is being asked.
    Ended,
}

impl<M> Staying<M> {
    pub(in crate::sandbox) fn with(maker: M) -> Self {
        Self(Mutex::new(Stage::WithMaker(maker)))
    }

    /// Of one that was there before.
    pub(in crate::sandbox) fn already() -> Self {
        Self(Mutex::new(Stage::Stays))
    }

    /// What it is to be asked by; [`Self::done`] follows where it stays. None: it stays already.
    pub(in crate::sandbox) fn begin(&self) -> Result<Option<M>, SandboxError> {
        match self.change(Stage::Ended) {
            Stage::WithMaker(maker) => Ok(Some(maker)),
            Stage::Stays => {
                self.done();
                Ok(None)
            }
            Stage::Ended => Err(SandboxError::Gone(
                "it ended before it was told to stay".to_owned(),
            )),
        }
    }

    pub(in crate::sandbox) fn done(&self) {
        self.change(Stage::Stays);
    }

    /// It is being ended: what it would have ended with.
    pub(in crate::sandbox) fn end(&self) -> Option<M> {
        match self.change(Stage::Ended) {
            Stage::WithMaker(maker) => Some(maker),
            Stage::Stays | Stage::Ended => None,
        }
    }

    fn change(&self, to: Stage<M>) -> Stage<M> {
        let mut stage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *stage, to)
    }
}

/// Killed unless it is kept: nothing half-made goes on, nor a guest that heard what it was told and was not heard.
#[derive(Debug)]
pub(in crate::sandbox) struct Provisional {
    process: Arc<Process>,
    kept: bool,
}

impl Provisional {
    pub(in crate::sandbox) fn new(process: Arc<Process>) -> Self {
        Self {
            process,
            kept: false,
        }
    }

    pub(in crate::sandbox) fn process(&self) -> &Arc<Process> {
        &self.process
    }

    pub(in crate::sandbox) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Provisional {
    fn drop(&mut self) {
        if !self.kept {
            self.process.kill();
        }
    }
}
