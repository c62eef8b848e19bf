//! Who may hold back a branch.

use std::fmt;
use std::time::Duration;

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

    /// The longest that it takes.
    fn limit(&self) -> Duration;
}
