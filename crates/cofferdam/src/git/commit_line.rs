//! A commit as reports name it.

use serde::Serialize;

use super::Oid;

/// One commit of the agent that came home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommitLine {
    /// Its whole id.
    pub id: Oid,
    /// First line of its message, as it is: sanitise before showing.
    pub subject: String,
}
