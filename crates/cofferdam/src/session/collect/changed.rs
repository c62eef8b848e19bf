//! Work out of an isolated sandbox without git: what changed in its files becomes one commit of its user's, which then
//! goes the way of every other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{CollectError, Collector};
use crate::fsx::{self, Context};
use crate::git::files::{Changes, ChangesError, Limits, Made, MakeError, Workshop};
use crate::git::private_clone::PrivateClone;
use crate::git::{Oid, gate};
use crate::registry::Owned;
use crate::sandbox::{Ability, IsolatedSandbox, SandboxError};
use crate::session::event::Notice;
use crate::session::files::KNOWN;
use crate::session::pipes::{feed, pipe_ends, spool};

/// What a sandbox said has changed, and what may not become a commit of it.
pub(super) const REFUSED: &str = "refused.files";
const INCOMING: &str = "incoming.files";
const WORKSHOP: &str = "changes";

/// What changed, as far as it became something.
#[derive(Debug)]
pub(super) enum Taken<'a> {
    Nothing,
    Commit(Oid, Workshop<'a>),
    /// The sandbox's doing: it is never tried again.
    Refused {
        why: String,
        kept: Option<PathBuf>,
    },
}

impl Collector<'_> {
    /// Asks the sandbox what changed, and makes a commit of it that nothing refers to yet.
    pub(super) async fn take_changes(
        &self,
        owned: &Owned,
        sandbox: &dyn IsolatedSandbox,
        workdir: &Path,
    ) -> Result<Taken<'_>, CollectError> {
        let state = owned.directory();
        let limits = gate::Limits::default();
        let incoming = state.join(INCOMING);
        fsx::remove_file_if_exists(&incoming)?;
        let frozen = match sandbox.freeze().await {
            Ok(()) => true,
            // Who fights it must not keep its work from its user: it is taken as it is.
            Err(
                SandboxError::Restless
                | SandboxError::Unable {
                    ability: Ability::Pause,
                    ..
                },
            ) => false,
            Err(error) => return Err(CollectError::Changes(error)),
        };
        let note = state.join(KNOWN);
        let (known, into) = pipe_ends()?;
        let (from, changes) = pipe_ends()?;
        let (fed, asked, spooled) = tokio::join!(
            feed(&note, into),
            sandbox.snapshot(workdir, limits.blob_bytes, known, changes),
            spool(from, &incoming, limits.pack_bytes),
        );
        if frozen {
            sandbox.thaw().await.map_err(CollectError::Changes)?;
        }
        if let Err(error @ SandboxError::CarrierEnded { .. }) = asked {
            return Err(CollectError::Changes(error));
        }
        fed?;
        if !spooled? {
            fsx::remove_file_if_exists(&incoming)?;
            let limit = limits.pack_bytes;
            let why = format!("more than {limit} bytes have changed");
            return Ok(Taken::Refused { why, kept: None });
        }
        asked.map_err(CollectError::Changes)?;
        let read = {
            let (spool, limits) = (
                incoming.clone(),
                Limits {
                    paths: limits.paths,
                    file_bytes: limits.blob_bytes,
                },
            );
            tokio::task::spawn_blocking(move || Changes::read(&spool, limits)).await
        };
        let read = read.map_err(|error| CollectError::Foreign(error.to_string()))?;
        let made = match read {
            Ok(changes) => {
                self.tell_what_stays(&changes);
                self.make(owned, &changes, limits.time).await
            }
            Err(error) => Err(error.into()),
        };
        let taken = match made {
            Ok(taken) => taken,
            Err(MakeError::Changes(ChangesError::Refused(why))) => {
                let kept = state.join(REFUSED);
                std::fs::rename(&incoming, &kept).context("keep", &kept)?;
                let kept = Some(kept);
                return Ok(Taken::Refused { why, kept });
            }
            Err(MakeError::Changes(ChangesError::File(error)) | MakeError::File(error)) => {
                return Err(error.into());
            }
            Err(MakeError::Git(error)) => return Err(error.into()),
        };
        fsx::remove_file_if_exists(&incoming)?;
        Ok(taken)
    }

    async fn make(
        &self,
        owned: &Owned,
        changes: &Changes,
        limit: Duration,
    ) -> Result<Taken<'_>, MakeError> {
        let state = owned.directory();
        let (directory, vault) = (state.join(WORKSHOP), PrivateClone::at(state).vault);
        let workshop = Workshop::open(self.repo, directory, vault, limit)?;
        let message = format!(
            "Work of the sandbox {name}\n\n\
             What changed in its files. It has no git: this commit was made when they were collected.",
            name = owned.record.name
        );
        let base = &owned.record.base;
        let made = workshop.commit(base, changes, self.author, &message, self.cancel);
        Ok(match made.await? {
            Made::Nothing => Taken::Nothing,
            Made::Commit(tip) => Taken::Commit(tip, workshop),
        })
    }

    fn tell_what_stays(&self, changes: &Changes) {
        const TOLD: usize = 20;
        for one in changes.stayed.iter().take(TOLD) {
            let path = crate::text::printable_bytes_line(&one.path);
            let text = format!("`{path}` stays in the sandbox: {}", one.why);
            self.events.notice(Notice::Other { text });
        }
        let told = changes.stayed.len().min(TOLD) as u64;
        if changes.left > told {
            let text = format!("{} more stay in the sandbox", changes.left - told);
            self.events.notice(Notice::Other { text });
        }
    }
}
