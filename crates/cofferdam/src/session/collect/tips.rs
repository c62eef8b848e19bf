//! Where an agent's work ended: on its branch, on another one, or on none.

use std::path::Path;

use super::{CollectError, Collector, Source};
use crate::git::Oid;
use crate::git::private_clone::{self, PrivateHead};
use crate::git::refs::{self, Transaction};
use crate::names::BranchName;
use crate::sandbox::registry::Owned;
use crate::session::event::Notice;
use crate::session::transfer;

/// Where an agent's work ended.
#[derive(Debug)]
pub(super) struct Tips {
    /// The sandbox's own branch, if it moved.
    pub(super) own: Option<Oid>,
    /// What is checked out in the sandbox.
    pub(super) head: Option<Oid>,
    /// Names (printable, without `refs/heads/`) and commits, HEAD first.
    pub(super) all: Vec<(String, Oid)>,
}

/// The name of a HEAD that is on no branch.
pub(super) const DETACHED: &str = "a detached HEAD";

impl Collector<'_> {
    /// Where the sandbox's HEAD and branches are, where the agent ended first, without the base.
    pub(super) async fn tips(
        &self,
        owned: &Owned,
        source: &Source<'_>,
    ) -> Result<Tips, CollectError> {
        let found = match source {
            Source::State => {
                let git = owned.directory().join("git");
                for path in private_clone::tidy(&git)? {
                    let path = crate::text::printable_line(&path.to_string_lossy());
                    let text =
                        format!("`{path}` in the sandbox's git directory is no file: removed");
                    self.events.notice(Notice::Other { text });
                }
                private_clone::read_refs(&git, self.repo.format)?
            }
            Source::Sandbox { sandbox, workdir } => {
                transfer::refs(*sandbox, workdir, self.repo.format, self.cancel).await?
            }
        };
        let base = &owned.record.base;
        let own_name = owned.record.branch.as_ref().map(BranchName::full);
        let own = match &own_name {
            Some(name) => found
                .refs
                .get(name.as_bytes())
                .filter(|tip| *tip != base)
                .cloned(),
            None => None,
        };
        let mut all: Vec<(String, Oid)> = Vec::new();
        let mut add = |name: &[u8], tip: &Oid| {
            if tip != base && !all.iter().any(|(_, known)| known == tip) {
                let name = name.strip_prefix(b"refs/heads/").unwrap_or(name);
                all.push((crate::text::printable_bytes_line(name), tip.clone()));
            }
        };
        if let Some(tip) = found.head_commit() {
            match &found.head {
                PrivateHead::Symbolic(name) => add(name, tip),
                PrivateHead::Detached(_) => add(DETACHED.as_bytes(), tip),
            }
        }
        if let (Some(name), Some(tip)) = (&own_name, &own) {
            add(name.as_bytes(), tip);
        }
        for (name, tip) in found
            .refs
            .iter()
            .filter(|(name, _)| name.starts_with(b"refs/heads/"))
        {
            add(name, tip);
        }
        Ok(Tips {
            own,
            head: found.head_commit().cloned(),
            all,
        })
    }

    /// A tip that the base contains is no work: the agent only looked at, or went back to, an old
    /// commit. The empty pack that was kept for it goes.
    pub(super) async fn is_old(
        &self,
        owned: &Owned,
        tip: &Oid,
        pack: Option<&Path>,
    ) -> Result<bool, CollectError> {
        let done = self
            .repo
            .command()
            .args([
                "merge-base",
                "--is-ancestor",
                tip.as_str(),
                owned.record.base.as_str(),
            ])
            .answers(&[1, 128])
            .run(self.cancel)
            .await?;
        if !done.exit.success() {
            return Ok(false);
        }
        if let Some(pack) = pack {
            crate::fsx::remove_file_if_exists(pack)?;
        }
        let text = format!(
            "the agent ended at the older commit {}: nothing to land",
            tip.short()
        );
        self.events.notice(Notice::Other { text });
        Ok(true)
    }

    /// A reference of its own for accepted commits that are not on the sandbox's branch.
    pub(super) async fn keep_extra(
        &self,
        owned: &Owned,
        number: usize,
        tip: &Oid,
    ) -> Result<String, CollectError> {
        let id = owned.record.id;
        let reference = format!("refs/cofferdam/{id}/extra-{number}");
        let old = refs::read(self.repo, &reference, self.cancel).await?;
        if old.as_ref() != Some(tip) {
            Transaction::new(format!("cofferdam {id}"))
                .update(&reference, tip, old.as_ref())
                .commit(self.repo, self.cancel)
                .await?;
        }
        Ok(reference)
    }
}
