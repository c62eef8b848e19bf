//! What the user's configuration and the repository's say where a sandbox is made or used.

use super::options::Caller;
use crate::config::{self, Effective};
use crate::git::Repository;

/// Read anew each time.
pub(super) async fn effective(caller: &Caller, repository: &Repository) -> Effective {
    let (home, top) = (caller.home.clone(), repository.top.clone());
    let read = move || config::effective(&home, Some((top.as_path(), &top)));
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}
