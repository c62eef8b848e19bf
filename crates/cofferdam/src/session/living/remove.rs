//! The end of a sandbox that lives on. From here it is as one whose command died: collecting it and taking away what is
//! left have one way.

use super::life::{halt, turn};
use super::{Named, SessionError};
use crate::registry::Lifetime;
use crate::sandbox::BindMountProvider;
use crate::session::options::Caller;

/// Ends every program of the sandbox and its life; its work and its record are there for [`super::super::manage`].
/// Bounded: 60 s.
pub async fn end(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> Result<(), SessionError> {
    named.check(provider)?;
    let mut turn = turn(caller, named).await?;
    halt(caller, named, provider).await?;
    turn.record.lifetime = Lifetime::Command;
    Ok(turn.save()?)
}
