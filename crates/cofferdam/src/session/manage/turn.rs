//! Who may change a sandbox that is or was.

use tokio_util::sync::CancellationToken;

use super::{ManageError, SandboxRef};
use crate::git::Repository;
use crate::home::Home;
use crate::registry::{Owned, Record, RegistryError};

/// The right to change what a sandbox's record says: of one that lives on, a command at a time has it; of another, who
/// owns it.
pub(super) async fn take(
    home: &Home,
    record: Record,
    cancel: &CancellationToken,
) -> Result<Owned, RegistryError> {
    if !record.lives_on() {
        return Owned::adopt(home, record);
    }
    let name = record.name.clone();
    let turn = Owned::turn(home, &record, cancel).await?;
    // One that has ended meanwhile is taken away by who ended it.
    let turn = turn.filter(|owned| owned.record.lives_on());
    turn.ok_or(RegistryError::InUse(name))
}

/// The same of a sandbox that has ended, with its repository.
pub(super) async fn take_ended(target: &SandboxRef) -> Result<(Repository, Owned), ManageError> {
    let (repo, entry) = target.find().await?;
    let name = entry.record.name.to_string();
    if entry.in_use || entry.record.lives_on() {
        return Err(ManageError::Running { name });
    }
    if entry.record.phase.is_unfinished() {
        return Err(ManageError::Interrupted { name });
    }
    let owned = take(&target.home, entry.record, &target.cancel).await?;
    Ok((repo, owned))
}
