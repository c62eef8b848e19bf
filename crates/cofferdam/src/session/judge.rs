//! Who may hold back a branch.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::git::{Oid, Repository};
use crate::registry::Record;

/// Decides about commits that passed the gate, before a branch of the user's moves to them.
#[async_trait]
pub trait Judge: fmt::Debug + Send + Sync {
    /// Of the sandbox with this record. `trusted`: a commit of the user's, which no sandbox made. The error says why no branch must
    /// move, as [`crate::session::Landing::Kept`] tells it.
    async fn judge(
        &self,
        repo: &Repository,
        record: &Record,
        trusted: &Oid,
        tip: &Oid,
    ) -> Result<(), String>;
}

/// A [`Judge`], and how long it has judged: that is bounded by itself, and no part of what collecting may take.
#[derive(Debug)]
pub(super) struct Judging<'a> {
    judge: &'a dyn Judge,
    took: Mutex<Duration>,
    since: Mutex<Option<Instant>>,
}

impl<'a> Judging<'a> {
    pub(super) fn by(judge: &'a dyn Judge) -> Self {
        Self {
            judge,
            took: Mutex::default(),
            since: Mutex::default(),
        }
    }

    /// As [`Judge::judge`].
    pub(super) async fn judge(
        &self,
        repo: &Repository,
        record: &Record,
        trusted: &Oid,
        tip: &Oid,
    ) -> Result<(), String> {
        let began = Instant::now();
        *lock(&self.since) = Some(began);
        let judged = self.judge.judge(repo, record, trusted, tip).await;
        *lock(&self.since) = None;
        *lock(&self.took) += began.elapsed();
        judged
    }

    /// With the time of the one that goes on.
    pub(super) fn took(&self) -> Duration {
        let since = lock(&self.since).map_or(Duration::ZERO, |since| since.elapsed());
        *lock(&self.took) + since
    }
}

fn lock<T>(one: &Mutex<T>) -> MutexGuard<'_, T> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}
