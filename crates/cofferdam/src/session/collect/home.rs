//! The way home of everything that the sandbox's repository has a name for: one tip lands, others get
//! a reference each, and what may not or cannot come home stays in the state directory and is named.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::changed::REFUSED;
use super::packing::{Aside, Received};
use super::tips::{DETACHED, Tip, Tips, extra_of};
use super::{CollectError, Collected, Collector, Reaches, Source};
use crate::fsx::{self, FileError};
use crate::git::gate::{self, Accepted};
use crate::git::land::Landing;
use crate::git::private_clone::{GIT_DIR, PrivateClone};
use crate::git::refs::{self, Own};
use crate::git::{Oid, recorded};
use crate::registry::{Owned, Strategy};
use crate::session::event::Notice;
use crate::session::layers;
use crate::session::report::Beside;
use crate::session::transfer::UNCOMMITTED;

/// So many tips pass the gate one by one; what is named beyond them is kept in one pack.
const MAX_TIPS: usize = 64;

/// The journey of one sandbox's tips.
struct Journey<'a> {
    owned: &'a Owned,
    source: &'a Source<'a>,
    tips: &'a Tips,
    /// Commits that are in the repository.
    home: BTreeSet<Oid>,
    /// Tips that came through the gate now.
    accepted: Vec<Oid>,
    landed: bool,
    /// What was refused: name, reason and kept pack.
    refused: Vec<(String, Landing)>,
    /// Bytes of the kept packs.
    kept_bytes: u64,
    /// What was not looked at, or is no commit.
    left: Vec<Tip>,
}

impl Collector<'_> {
    /// Lands the commits at the sandbox's own tip and keeps those at others.
    pub(super) async fn take_home(
        &self,
        owned: &Owned,
        source: &Source<'_>,
        tips: &Tips,
        home: BTreeSet<Oid>,
        collected: &mut Collected,
    ) -> Result<(), CollectError> {
        let began = Instant::now();
        let mut journey = Journey {
            owned,
            source,
            tips,
            landed: !home.is_empty(),
            home,
            accepted: Vec::new(),
            refused: Vec::new(),
            kept_bytes: 0,
            left: Vec::new(),
        };
        journey.landed |= self.stays(owned, tips).await?;
        collected.checkout = tips.head.clone().filter(|head| *head == owned.record.base);
        let mut looked = 0;
        for tip in &tips.all {
            let is_head = tips.head.as_ref() == Some(&tip.id);
            if journey.home.contains(&tip.id) {
                if is_head {
                    collected.checkout = Some(tip.id.clone());
                }
                continue;
            }
            if let Some(landed) = &owned.record.landed
                && tip.is_commit
                && self.repo.is_ancestor(&tip.id, landed, self.cancel).await?
            {
                // Home since an earlier collecting.
                journey.landed |= tips.own.as_ref() == Some(&tip.id);
                if is_head {
                    collected.checkout = Some(tip.id.clone());
                }
                continue;
            }
            if self.lives() && tip.is_commit && self.is_kept(&journey, tip).await? {
                continue;
            }
            if !tip.is_commit || looked == MAX_TIPS || self.took(began) > self.limit * 3 / 4 {
                journey.left.push(tip.clone());
                continue;
            }
            if self.is_old(owned, &tip.id).await? {
                if is_head {
                    collected.checkout = Some(tip.id.clone());
                    let text = format!(
                        "the agent ended at the older commit {}: nothing to land",
                        tip.id.short()
                    );
                    self.events.notice(Notice::Other { text });
                }
                continue;
            }
            if owned.record.dev.is_some() && self.is_here(tip).await? {
                continue;
            }
            looked += 1;
            let received = if is_beside(owned, tip) {
                self.receive_beside(owned, source, &tip.id).await?
            } else {
                self.receive(owned, source, &tip.id, Own::Tip).await?
            };
            match received {
                Received::Accepted(accepted) => {
                    self.welcome(&mut journey, tip, &accepted, collected)
                        .await?;
                }
                Received::Refused {
                    why, pack, paths, ..
                } => {
                    collected.refused_paths.extend(paths);
                    let pack = journey.bounded(pack)?;
                    collected.keeps_repository |= pack.is_none();
                    let landing = Landing::Refused { pack, why };
                    journey.refused.push((tip.name.clone(), landing));
                }
            }
        }
        if let (Some(tip), true) = (&collected.tip, journey.accepted.len() > 1) {
            self.point_tip(owned, tip).await?;
        }
        self.leave_the_rest(&mut journey, collected).await?;
        tell_refusals(&journey, collected);
        for text in collected.beside_in_words(owned.record.id) {
            self.events.notice(Notice::Other { text });
        }
        Ok(())
    }

    /// Whether the sandbox's branch is where it belongs since an earlier collecting: what landed then is still there, the
    /// agent did not go on from it on the sandbox's own branch, and is on no other one with news. Without that, of two
    /// branches that stand side by side each would take the place of the other, again and again.
    async fn stays(&self, owned: &Owned, tips: &Tips) -> Result<bool, CollectError> {
        let Some(landed) = &owned.record.landed else {
            return Ok(false);
        };
        let there = |tip: &Tip| tip.lands && tip.id == *landed;
        if tips.own.is_some() || !tips.all.iter().any(there) {
            return Ok(false);
        }
        match &tips.head {
            Some(head) if *head != owned.record.base => {
                Ok(self.repo.is_ancestor(head, landed, self.cancel).await?)
            }
            _ => Ok(true),
        }
    }

    /// Whether a reference of the host's has it, wherever it came from: what a person's branch inside is at may be on one that is not
    /// checked out here any more.
    async fn is_here(&self, tip: &Tip) -> Result<bool, CollectError> {
        let here = self.repo.resolve(tip.id.as_str(), self.cancel).await?;
        Ok(here.is_some() && self.repo.is_at_home(&tip.id, "", self.cancel).await?)
    }

    /// Whether an earlier collecting gave it a reference of its own, and it is still none that lands.
    async fn is_kept(&self, journey: &Journey<'_>, tip: &Tip) -> Result<bool, CollectError> {
        let owned = journey.owned;
        let lands = !journey.landed
            && tip.lands
            && match &journey.tips.own {
                None => true,
                Some(own) => self.repo.is_ancestor(own, &tip.id, self.cancel).await?,
            };
        let reference = extra_of(owned, tip);
        Ok(!lands
            && refs::read(self.repo, &reference, self.cancel)
                .await?
                .as_ref()
                == Some(&tip.id))
    }

    /// Commits that passed the gate land, or get a reference of their own.
    async fn welcome(
        &self,
        journey: &mut Journey<'_>,
        tip: &Tip,
        accepted: &Accepted,
        collected: &mut Collected,
    ) -> Result<(), CollectError> {
        let Tip { name, id, .. } = tip;
        let (owned, tips) = (journey.owned, journey.tips);
        let commits = accepted.commits().iter().map(|commit| commit.id.clone());
        journey.home.extend(commits);
        journey.home.insert(id.clone());
        journey.accepted.push(id.clone());
        if tips.head.as_ref() == Some(id) {
            collected.checkout = Some(id.clone());
        }
        let own = owned.record.branch.as_ref();
        let is_its_branch = match own {
            Some(branch) => branch.as_str() == name,
            None => name == DETACHED,
        };
        // The sandbox's own branch comes first, unless where the agent ended contains it.
        let is_own = !journey.landed
            && tip.lands
            && name != UNCOMMITTED
            // Where a person lives another branch is one that they mean, and does not become what is checked out on the host.
            && (owned.record.dev.is_none() || is_its_branch)
            && (tips.own.as_ref()).is_none_or(|own| journey.home.contains(own));
        if !is_own {
            // Its user takes what is kept beside it, or not, and is told before that: once, and of nothing that landed.
            let kept = refs::read(self.repo, &extra_of(owned, tip), self.cancel).await?;
            if kept.as_ref() != Some(id) {
                let mut executes = self.executes(owned, accepted).await?;
                executes.retain(|path| !collected.executes.contains(path));
                self.report(accepted, &executes);
                collected.notes.extend_from_slice(accepted.notes());
            }
            let at = self.keep_tip(owned, tip).await?;
            collected.beside.push(Beside {
                names: vec![name.clone()],
                at,
                refused: None,
            });
            return Ok(());
        }
        journey.landed = true;
        let executes = self.executes(owned, accepted).await?;
        self.report(accepted, &executes);
        collected.notes.extend_from_slice(accepted.notes());
        collected.executes.extend(executes);
        let branch = owned.record.branch.as_ref();
        if branch.is_none_or(|branch| branch.as_str() != name)
            && !(branch.is_none() && name == DETACHED)
        {
            collected.switched = Some(name.clone());
            self.events
                .notice(Notice::BranchSwitched { to: name.clone() });
        }
        collected.changed = accepted.changed().iter().cloned().collect();
        collected.commits = match &owned.record.landed {
            None => accepted.commits().to_vec(),
            Some(landed) => {
                let tips = std::slice::from_ref(id);
                self.repo.commits_since(landed, tips, self.cancel).await?
            }
        };
        collected.tip = Some(id.clone());
        if owned.record.strategy == Strategy::Head {
            let (id, begins) = (owned.record.id, owned.record.begins());
            let changed = accepted.changed();
            collected.taken = recorded::taken(self.repo, id, begins, changed, self.cancel).await?;
        }
        collected
            .beside
            .extend(self.keep_rewritten(owned, id).await?);
        collected.landing = self.land(owned, accepted).await?;
        if let Landing::Kept { reference, .. } = &mut collected.landing
            && self.reaches == Reaches::WhileItLives
            && *reference == refs::own(owned.record.id, Own::Tip)
        {
            // That one moves on with the next collecting; this is a name that stays.
            *reference = self.keep_extra(owned, id).await?;
        }
        Ok(())
    }

    /// What runs by itself of what is new: whoever collected before was told of the rest.
    async fn executes(
        &self,
        owned: &Owned,
        accepted: &Accepted,
    ) -> Result<Vec<String>, CollectError> {
        let mut executes = accepted.executes().to_vec();
        if let (Some(landed), false) = (&owned.record.landed, executes.is_empty()) {
            let tip = accepted.tip();
            let new = self.repo.changed_files(landed, tip, self.cancel).await?;
            let new: BTreeSet<String> = new.iter().map(|path| gate::shown_path(path)).collect();
            executes.retain(|path| new.contains(path));
        }
        Ok(executes)
    }

    /// What is named but did not pass by the gate: one pack of it, or else the repository stays.
    async fn leave_the_rest(
        &self,
        journey: &mut Journey<'_>,
        collected: &mut Collected,
    ) -> Result<(), CollectError> {
        let owned = journey.owned;
        let repository = PrivateClone::at(owned.directory()).git_dir;
        let repository = crate::text::printable_line(&repository.to_string_lossy());
        if let Some(first) = journey.tips.odd.first() {
            collected.keeps_repository = true;
            collected.beside.push(Beside {
                names: vec!["the sandbox's git directory".to_owned()],
                at: repository.clone(),
                refused: Some(first.to_string()),
            });
        }
        let left: Vec<&Tip> = journey
            .left
            .iter()
            .filter(|tip| !journey.home.contains(&tip.id))
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        let mut revisions: String = left.iter().map(|tip| format!("{}\n", tip.id)).collect();
        let known = std::iter::once(&owned.record.base).chain(&journey.accepted);
        revisions.extend(known.map(|id| format!("^{id}\n")));
        let pack = owned.directory().join("rest.pack");
        let list = left.iter().map(|tip| format!("{} {}\n", tip.id, tip.name));
        let list: String = list.collect();
        let listed = pack.with_extension("refs");
        if self.lives() && is_kept_as(&pack, &listed, &list) {
            return Ok(());
        }
        let aside = self
            .set_aside(owned, journey.source, revisions, &pack)
            .await?;
        let names = left.iter().map(|tip| tip.name.clone()).collect();
        collected.beside.push(match aside {
            Aside::Pack => {
                fsx::write_private(&listed, list.as_bytes())?;
                Beside {
                    names,
                    at: crate::text::printable_line(&pack.to_string_lossy()),
                    refused: None,
                }
            }
            Aside::Failed(why) => {
                collected.keeps_repository = true;
                Beside {
                    names,
                    at: repository,
                    refused: Some(why),
                }
            }
        });
        Ok(())
    }
}

impl Journey<'_> {
    /// One sandbox's refused packs are bounded together: any number of tips may refer to the same
    /// large objects. What has no room stays in the sandbox's repository.
    fn bounded(
        &mut self,
        pack: Option<std::path::PathBuf>,
    ) -> Result<Option<std::path::PathBuf>, FileError> {
        let Some(pack) = pack else { return Ok(None) };
        let bytes = pack.metadata().map_or(0, |found| found.len());
        if self.kept_bytes + bytes > gate::Limits::default().pack_bytes {
            fsx::remove_file_if_exists(&pack)?;
            return Ok(None);
        }
        self.kept_bytes += bytes;
        Ok(Some(pack))
    }
}

/// Whether it is a branch that a person made where they live, beside the one that is checked out.
fn is_beside(owned: &Owned, tip: &Tip) -> bool {
    let own = owned.record.branch.as_ref();
    let is_own = own.is_some_and(|branch| branch.as_str() == tip.name);
    owned.record.dev.is_some() && tip.lands && tip.name != DETACHED && !is_own
}

/// Whether an earlier collecting kept the same.
fn is_kept_as(pack: &Path, listed: &Path, list: &str) -> bool {
    pack.is_file()
        && fsx::read_bounded(listed, list.len() as u64).is_ok_and(|there| there == list.as_bytes())
}

/// The first refusal is the run's landing where there is no other; the rest is beside it.
fn tell_refusals(journey: &Journey<'_>, collected: &mut Collected) {
    let repository = PrivateClone::at(journey.owned.directory()).git_dir;
    for (name, landing) in &journey.refused {
        let Landing::Refused { pack, why } = landing else {
            continue;
        };
        let at = pack.as_deref().unwrap_or(&repository);
        if matches!(collected.landing, Landing::Nothing) {
            collected.landing = Landing::Refused {
                pack: Some(at.to_owned()),
                why: why.clone(),
            };
            continue;
        }
        collected.beside.push(Beside {
            names: vec![name.clone()],
            at: crate::text::printable_line(&at.to_string_lossy()),
            refused: Some(why.clone()),
        });
    }
    if let (Landing::Nothing, Some(odd)) = (&collected.landing, journey.tips.odd.first()) {
        collected.landing = Landing::Refused {
            pack: Some(repository),
            why: odd.to_string(),
        };
    }
}

/// Whether the state directory of a sandbox that ended holds work that came no further.
pub(in crate::session) fn keeps_work(directory: &Path) -> bool {
    let own = |name: &str| matches!(name, "work" | GIT_DIR) || name == layers::CHANGES;
    has_entry(directory, |name| own(name) || is_set_aside(name))
}

/// The same of one that lives on, whose files and repository are there in any case.
pub(in crate::session) fn sets_aside(directory: &Path) -> bool {
    set_aside(directory).is_some()
}

/// The first of what that is, by its name.
pub(in crate::session) fn set_aside(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    let mut all: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    all.sort();
    let found = all
        .iter()
        .find(|name| is_set_aside(&name.to_string_lossy()));
    found.map(|name| directory.join(name))
}

/// What the gate refused, and git directories that were moved out of a workspace.
fn is_set_aside(name: &str) -> bool {
    name == "nested"
        || name == REFUSED
        || (name != "incoming.pack" && name.strip_suffix(".pack").is_some())
}

fn has_entry(directory: &Path, is_meant: impl Fn(&str) -> bool) -> bool {
    std::fs::read_dir(directory).is_ok_and(|mut entries| {
        entries.any(|entry| entry.is_ok_and(|entry| is_meant(&entry.file_name().to_string_lossy())))
    })
}
