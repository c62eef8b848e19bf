//! Where an agent's work ended: on its branch, on another one, under any other name, or on none.

use std::collections::BTreeMap;

use super::{CollectError, Collector, Source};
use crate::git::Oid;
use crate::git::private_clone::{self, PrivateClone, PrivateHead, PrivateRefs, RefsError, STASH};
use crate::git::refs::{self, EXTRA, EXTRA_STASH, Own, Transaction};
use crate::git::refs_at::below_own;
use crate::names::BranchName;
use crate::registry::Owned;
use crate::session::event::Notice;
use crate::session::transfer;

/// A name in the sandbox's repository, and what it names.
#[derive(Debug, Clone)]
pub(super) struct Tip {
    /// Printable, without `refs/heads/`.
    pub(super) name: String,
    pub(super) id: Oid,
    /// A commit; anything else is nothing that could come home.
    pub(super) is_commit: bool,
    /// HEAD or a branch: what may land. A tag or a stash is only kept.
    pub(super) lands: bool,
    /// Git's way to take it is another than a merge.
    pub(super) is_stash: bool,
}

/// Where an agent's work ended.
#[derive(Debug)]
pub(super) struct Tips {
    /// The sandbox's own branch, if it moved.
    pub(super) own: Option<Oid>,
    /// What is checked out in the sandbox.
    pub(super) head: Option<Oid>,
    /// In a dev sandbox its own branch, then HEAD; elsewhere HEAD, then its own branch; then other branches, then every other
    /// name.
    pub(super) all: Vec<Tip>,
    /// What could not be read; names may hide there.
    pub(super) odd: Vec<RefsError>,
}

/// The name of a HEAD that is on no branch.
pub(super) const DETACHED: &str = "a detached HEAD";

impl Collector<'_> {
    /// What the sandbox's HEAD, refs, stashes and linked worktrees name, without the base.
    pub(super) async fn tips(
        &self,
        owned: &Owned,
        source: &Source<'_>,
    ) -> Result<Tips, CollectError> {
        let own_name = owned.record.branch.as_ref().map(BranchName::full);
        let mut odd = Vec::new();
        let mut found = match source {
            Source::State => {
                let git = PrivateClone::at(owned.directory()).git_dir;
                let tidied = private_clone::tidy(&git)?;
                for path in tidied.removed {
                    let path = crate::text::printable_line(&path.to_string_lossy());
                    let text =
                        format!("`{path}` in the sandbox's git directory is no file: removed");
                    self.events.notice(Notice::Other { text });
                }
                odd.extend(tidied.odd);
                private_clone::read_refs(&git, self.repo.format, own_name.as_deref())?
            }
            Source::Sandbox { sandbox, workdir } => {
                transfer::refs(*sandbox, workdir, self.repo.format, self.cancel).await?
            }
            // It is where the sandbox's branch would be.
            Source::Made { tip, .. } => match &own_name {
                Some(name) => PrivateRefs {
                    head: Some(PrivateHead::Symbolic(name.as_bytes().to_vec())),
                    refs: BTreeMap::from([(name.as_bytes().to_vec(), tip.clone())]),
                    ..PrivateRefs::default()
                },
                None => PrivateRefs {
                    head: Some(PrivateHead::Detached(tip.clone())),
                    ..PrivateRefs::default()
                },
            },
            Source::Files { .. } => PrivateRefs::default(),
        };
        odd.append(&mut found.odd);
        let base = &owned.record.base;
        let own_tip = own_name
            .as_ref()
            .and_then(|name| found.refs.get(name.as_bytes()))
            .filter(|tip| *tip != base)
            .cloned();
        let mut all: Vec<Tip> = Vec::new();
        let mut known = std::collections::BTreeSet::from([base.clone()]);
        let mut add = |name: &[u8], id: &Oid| {
            if known.insert(id.clone()) {
                let name = name.strip_prefix(b"refs/heads/").unwrap_or(name);
                all.push(Tip {
                    name: crate::text::printable_bytes_line(name),
                    id: id.clone(),
                    is_commit: true,
                    lands: true,
                    is_stash: false,
                });
            }
        };
        let own = || own_name.as_ref().zip(own_tip.as_ref());
        // Where a person lives the branch that is checked out on the host moves by its own commits alone, whatever goes on from them.
        if let (Some((name, tip)), true) = (own(), owned.record.dev.is_some()) {
            add(name.as_bytes(), tip);
        }
        if let Some(tip) = found.head_commit() {
            match &found.head {
                Some(PrivateHead::Symbolic(name)) => add(name, tip),
                _ => add(DETACHED.as_bytes(), tip),
            }
        }
        if let Some((name, tip)) = own() {
            add(name.as_bytes(), tip);
        }
        let is_branch = |name: &[u8]| name.starts_with(b"refs/heads/");
        for (name, tip) in found.refs.iter().filter(|(name, _)| is_branch(name)) {
            add(name, tip);
        }
        let branches = all.len();
        let mut add = |name: &[u8], id: &Oid| {
            if known.insert(id.clone()) {
                all.push(Tip {
                    name: crate::text::printable_bytes_line(name),
                    id: id.clone(),
                    is_commit: false,
                    lands: false,
                    is_stash: name == b"refs/stash" || name == STASH,
                });
            }
        };
        for (name, tip) in found.refs.iter().filter(|(name, _)| !is_branch(name)) {
            add(name, tip);
        }
        for (name, tip) in &found.others {
            add(name, tip);
        }
        // A tag may name anything; a branch is a commit or nothing that git made.
        let others: Vec<Oid> = all[branches..].iter().map(|tip| tip.id.clone()).collect();
        let peeled = self.peel(owned, source, &others).await?;
        for tip in &mut all[branches..] {
            if let Some(commit) = peeled.get(&tip.id) {
                tip.id = commit.clone();
                tip.is_commit = true;
            }
        }
        Ok(Tips {
            own: own_tip,
            head: found.head_commit().cloned(),
            all,
            odd,
        })
    }

    /// The commits that these objects are, or that they are tags of.
    async fn peel(
        &self,
        owned: &Owned,
        source: &Source<'_>,
        ids: &[Oid],
    ) -> Result<BTreeMap<Oid, Oid>, CollectError> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        if let Source::Sandbox { .. } = source {
            // Its git has told them peeled.
            return Ok(ids.iter().map(|id| (id.clone(), id.clone())).collect());
        }
        let kinds = self.kinds(owned, ids).await?;
        let commits = ids.iter().zip(kinds).filter_map(|(id, kind)| {
            let (commit, kind) = kind?;
            (kind == "commit").then_some((id.clone(), commit))
        });
        Ok(commits.collect())
    }

    /// A tip that the base contains is no work: the agent only looked at, or went back to, an old
    /// commit.
    pub(super) async fn is_old(&self, owned: &Owned, tip: &Oid) -> Result<bool, CollectError> {
        Ok(self
            .repo
            .is_ancestor(tip, &owned.record.base, self.cancel)
            .await?)
    }

    /// A reference of its own for accepted commits that are not on the sandbox's branch.
    pub(super) async fn keep_extra(
        &self,
        owned: &Owned,
        tip: &Oid,
    ) -> Result<String, CollectError> {
        self.keep_as(owned, extra(owned, tip), tip).await
    }

    /// The same of a name in the sandbox's repository.
    pub(super) async fn keep_tip(&self, owned: &Owned, tip: &Tip) -> Result<String, CollectError> {
        self.keep_as(owned, extra_of(owned, tip), &tip.id).await
    }

    async fn keep_as(
        &self,
        owned: &Owned,
        reference: String,
        tip: &Oid,
    ) -> Result<String, CollectError> {
        self.point(owned, &reference, tip).await?;
        Ok(reference)
    }

    /// Every pass through the gate moves the sandbox's tip: this puts it back to what landed.
    pub(super) async fn point_tip(&self, owned: &Owned, tip: &Oid) -> Result<(), CollectError> {
        let reference = refs::own(owned.record.id, Own::Tip);
        self.point(owned, &reference, tip).await
    }

    pub(super) async fn point(
        &self,
        owned: &Owned,
        reference: &str,
        tip: &Oid,
    ) -> Result<(), CollectError> {
        let old = refs::read(self.repo, reference, self.cancel).await?;
        if old.as_ref() != Some(tip) {
            Transaction::new(format!("cofferdam {}", owned.record.id))
                .update(reference, tip, old.as_ref())
                .commit(self.repo, self.cancel)
                .await?;
        }
        Ok(())
    }
}

/// Named by what it holds: a later collecting never takes the place of an earlier one.
pub(super) fn extra(owned: &Owned, tip: &Oid) -> String {
    format!("{}{EXTRA}{tip}", below_own(owned.record.id))
}

pub(super) fn extra_of(owned: &Owned, tip: &Tip) -> String {
    let (below, id) = (below_own(owned.record.id), &tip.id);
    if tip.is_stash {
        format!("{below}{EXTRA_STASH}{id}")
    } else {
        extra(owned, id)
    }
}
