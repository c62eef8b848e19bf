//! Whether a living sandbox has commits that are not home, without a word to it.

use tokio_util::sync::CancellationToken;

use crate::git::land::Landing;
use crate::git::private_clone::{self, PrivateClone, PrivateHead};
use crate::git::refs::{self, Own};
use crate::git::refs_at::{RefsAt, below_own};
use crate::git::{Oid, Repository};
use crate::home::Home;
use crate::names::BranchName;
use crate::registry::Record;

/// Whether that is where the last commits that came home and did not land are.
fn is_kept_at(record: &Record, name: &str) -> bool {
    let landing = record.outcome.as_ref().map(|outcome| &outcome.landing);
    matches!(landing, Some(Landing::Kept { reference, .. }) if reference == name)
}

/// So many branches are looked at.
const BRANCHES: usize = 100;

/// Whether its HEAD or a branch of it is at a commit that is not home. Only its references are read, as files, while its
/// programs go on, and `refs` tells what is home; `None`: they cannot be read, or there are too many. What is stashed or tagged is not looked at.
pub(in crate::session) async fn has_uncollected(
    home: &Home,
    repo: &Repository,
    record: &Record,
    refs: &RefsAt,
    cancel: &CancellationToken,
) -> Option<bool> {
    let git = PrivateClone::at(&home.sandbox(record.id)).git_dir;
    let own = record.branch.as_ref().map(BranchName::full);
    let found = private_clone::read_refs(&git, repo.format, own.as_deref()).ok()?;
    let branches = found.refs.iter();
    let branches = branches.filter(|(name, _)| name.starts_with(b"refs/heads/"));
    let mut tips: Vec<&Oid> = branches.map(|(_, tip)| tip).collect();
    if let Some(PrivateHead::Detached(tip)) = &found.head {
        tips.push(tip);
    }
    tips.sort();
    tips.dedup();
    // It had one when it was made.
    if tips.is_empty() || tips.len() > BRANCHES {
        return None;
    }
    let mut known = vec![record.base.clone()];
    known.extend(record.landed.clone());
    if let Some(branch) = &own {
        known.extend(refs.get(branch).cloned());
    }
    // What only passed the gate is not home yet: where what does not land stays has another name.
    let passed = refs::own(record.id, Own::Tip);
    let own = below_own(record.id);
    let kept = refs.below(&own);
    let kept = kept.filter(|(name, _)| *name != passed || is_kept_at(record, name));
    known.extend(kept.map(|(_, id)| id.clone()));
    for tip in tips {
        if known.contains(tip) {
            continue;
        }
        let mut is_home = false;
        for known in &known {
            // What the repository does not have is an error there.
            is_home |= repo.is_ancestor(tip, known, cancel).await.unwrap_or(false);
            if is_home {
                break;
            }
        }
        // Of a branch that is not checked out here any more.
        if !is_home && record.dev.is_some() {
            let here = repo.resolve(tip.as_str(), cancel).await.ok()?;
            is_home = here.is_some() && repo.is_at_home(tip, "", cancel).await.ok()?;
        }
        if !is_home {
            return Some(true);
        }
    }
    Some(false)
}
