//! A merge whose command was killed in the middle. A stopped sandbox is collected no more, so nobody else
//! comes to its journal: every command that would change or remove such a sandbox finishes it first.

use tokio_util::sync::CancellationToken;

use super::ManageError;
use crate::git::Repository;
use crate::git::land;
use crate::home::Home;
use crate::sandbox::registry::{self, Owned};
use crate::session::report::Landing;

/// Brings index and files of the checkout to the branch that has moved. `None`: nothing was begun. An error
/// leaves the journal where it is.
pub(super) async fn finish(
    home: &Home,
    repo: &Repository,
    owned: &Owned,
    cancel: &CancellationToken,
) -> Result<Option<Landing>, ManageError> {
    if !land::is_half_done(owned.directory()) {
        return Ok(None);
    }
    let repo = repo.without_drivers(cancel).await?;
    match land::finish(
        &repo,
        owned.directory(),
        &|top| registry::barred(home, top),
        cancel,
    )
    .await
    {
        Ok(landed) => Ok(landed.map(|landed| landed.landing)),
        Err(source) => {
            let name = owned.record.name.to_string();
            Err(ManageError::HalfMerged { name, source })
        }
    }
}
