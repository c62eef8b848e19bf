//! A sandbox that ended and left uncommitted work in files of its own: it lives on again, over the same files.

use std::path::Path;

use super::{Named, SessionError, made_from};
use crate::git::land::Landing;
use crate::git::private_clone::PrivateClone;
use crate::registry::{self, Entry, Lifetime, Owned, Phase, Setup};
use crate::session::collect;
use crate::session::form::Form;
use crate::session::located::discover;
use crate::session::manage::nothing_is_taken_out;
use crate::session::options::Caller;

impl Named {
    /// The sandbox of the repository around `directory` that is called `name`, stopped and living until it is deleted
    /// ([`super::start`] makes it run). For one that ended and kept its files; [`SessionError::Ended`] for another.
    pub async fn revive(
        caller: &Caller,
        directory: &Path,
        name: &str,
    ) -> Result<Self, SessionError> {
        let here = discover(caller, directory).await?;
        let Entry { record, .. } = registry::find(&caller.home, &here.top, name)?;
        let located = made_from(caller, here.into(), &record).await?;
        let mut owned = Owned::adopt(&caller.home, record)?;
        let state = owned.directory().to_owned();
        let record = &mut owned.record;
        let ended = || SessionError::Ended {
            name: name.to_owned(),
        };
        if record.phase != Phase::Stopped {
            return Err(ended());
        }
        if let Some(path) = record.worktree.clone().filter(|path| path.is_dir()) {
            // Its commits would move the branch under files that its user has before them.
            let name = name.to_owned();
            return Err(SessionError::InWorktree { name, path });
        }
        if !record.mode.owns_files()
            || !record.workspace(&caller.home).is_dir()
            || !PrivateClone::at(&state).git_dir.is_dir()
            || Form::read(&state).is_err()
        {
            return Err(ended());
        }
        nothing_is_taken_out(&state)?;
        // Later collecting goes on from what is home.
        let outcome = record.outcome.take();
        let home = outcome
            .as_ref()
            .and_then(|outcome| outcome.checkout.clone());
        record.landed = home.filter(|tip| *tip != record.base);
        if let Some(landed) = &record.landed {
            collect::left_at(&state, landed)?;
        }
        match outcome.as_ref().map(|outcome| &outcome.landing) {
            Some(Landing::Kept { .. }) => {}
            // Until it is mended, as of any that lives on.
            Some(Landing::Refused { .. }) => {
                record.kept = None;
                record.outcome = outcome;
            }
            _ => record.kept = None,
        }
        record.lifetime = Lifetime::UntilDeleted;
        record.setup = Setup::Done;
        record.phase = Phase::Active;
        super::agent_home(&state)?;
        owned.save()?;
        let record = owned.record.clone();
        Ok(Self { located, record })
    }
}
