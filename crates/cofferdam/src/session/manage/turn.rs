//! Who may change a sandbox that is or was.

use tokio_util::sync::CancellationToken;

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
    turn.ok_or(RegistryError::InUse(name))
}
