//! Merge what a sandbox committed into the branch that is checked out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::checkout::take_for_checkout;
use super::sandbox_ref::Work;
use super::{ManageError, SandboxRef, tips};
use crate::git::CommitLine;
use crate::git::land::Landing;
use crate::git::land::{self, Incoming};
use crate::git::{GitError, Head, Identity, Oid, Repository, identity, status};
use crate::names::Slug;
use crate::registry::{Squashed, Strategy};
use crate::session::barred::{barred, to_be_stopped};
use crate::session::collect::{CollectError, merge_message};
use crate::session::judge::Judge;
use crate::session::standing::Standing;
use crate::text::printable_line;

/// So many files are words of one command.
const MOST_ASKED: usize = 500;

/// What a merge came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merge {
    /// [`Landing::Nothing`]: all of it was there already.
    pub landing: Landing,
    /// What the checked-out branch did not have, newest last; with [`Landing::Nothing`] what it has of the sandbox.
    pub commits: Vec<CommitLine>,
    /// The agent worked in the checkout, so that the files of the commits lie there.
    pub lies_there: bool,
    /// Files of the landing that someone had changed meanwhile: left as they are. Printable.
    pub changed_outside: Vec<String>,
    /// It is there as one commit, which an earlier merge made.
    pub as_one: bool,
    /// Files of the user's that are in no commit, and that the commits change: they are in the way of those that are kept.
    pub in_the_way: Vec<PathBuf>,
}

/// How [`merge`] merges.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MergeOptions {
    /// Of a commit that it makes. `None`: looked up in the user's git configuration.
    pub author: Option<Identity>,
    /// Each is one commit with all of the changes, and no merge: the sandbox's own commits do not come along.
    pub squash: bool,
}

impl MergeOptions {
    /// One commit of all its changes, not a merge of its branch.
    pub fn squashed() -> Self {
        Self {
            squash: true,
            ..Self::default()
        }
    }
}

/// Merges what the sandbox's branch holds, and then the commits that are kept beside it because it had
/// moved: one answer for each, in this order. Nothing moves where one conflicts or where local changes
/// overlap. The branch stays; `delete` removes it. A sandbox that lives on goes on with it. Calls `said` with what was done before about a dead run in the
/// checkout. `judge` is asked before each; without one nobody is.
pub async fn merge(
    target: &SandboxRef,
    mut options: MergeOptions,
    said: &(dyn Fn(&str) + Sync),
    judge: Option<&dyn Judge>,
) -> Result<Vec<Merge>, ManageError> {
    let judged = judged(target, judge).await?;
    let (repo, mut owned, finished) = take_for_checkout(target, said).await?;
    let (home, cancel) = (&target.home, &target.cancel);
    let name = owned.record.name.to_string();
    let record = &owned.record;
    let Head::Branch { name: into, .. } = &repo.head else {
        return Err(ManageError::DetachedTarget);
    };
    let lies_there = record.strategy == Strategy::Head && record.repository == repo.top.as_path();
    if options.squash && lies_there && record.shelf_branch().is_none() {
        options.squash = false;
        said("it worked in this checkout, where its commits lie already: they come as they are");
    }
    let mut current = repo.head.commit().clone();
    let (mut there, mut missing) = (Vec::<Oid>::new(), Vec::new());
    let Work { tips, base, .. } = target.work(&repo, record, false).await?;
    for tip in tips {
        if repo.is_ancestor(&tip.id, &current, cancel).await? {
            there.push(tip.id);
        } else {
            missing.push(tip);
        }
    }
    if missing.is_empty() {
        let commits = repo.commits_since(&base, &there, cancel).await?;
        if finished.is_none() {
            let nothing = commits.is_empty();
            target.refuse_unpushed(&repo, record, nothing).await?;
        }
        let done = finished.unwrap_or_else(|| Landing::Nothing.into());
        return Ok(vec![Merge {
            landing: done.landing,
            changed_outside: done.changed_outside,
            commits,
            lies_there,
            as_one: false,
            in_the_way: Vec::new(),
        }]);
    }
    let author = match options.author {
        Some(author) => author,
        None => identity::identity(&repo, target.caller_home.as_deref(), cancel)
            .await?
            .ok_or(ManageError::NoIdentity)?,
    };
    let repo = repo.without_drivers(cancel).await?;
    let state = owned.directory();
    let mut squashed = None;
    let mut changed_outside = finished.map_or_else(Vec::new, |done| done.changed_outside);
    let mut done = Vec::new();
    for tip in missing {
        // What was pushed from the shelf lies in no checkout.
        let lies_there = lies_there && !tip.on_branch;
        let squash = options.squash && !lies_there;
        let has = match &record.squashed {
            Some(squashed) => still_has(&repo, squashed, &tip.id, cancel).await?,
            _ => None,
        };
        if has.as_ref() == Some(&tip.id) {
            done.push(Merge {
                landing: Landing::Nothing,
                commits: repo
                    .commits_since(&record.base, std::slice::from_ref(&tip.id), cancel)
                    .await?,
                changed_outside: std::mem::take(&mut changed_outside),
                lies_there,
                as_one: true,
                in_the_way: Vec::new(),
            });
            continue;
        }
        // With its commits come those that are there as one: what they changed is the same.
        let has = has.filter(|_| squash);
        let since = has.as_ref().unwrap_or(&current);
        let commits = repo
            .commits_since(since, std::slice::from_ref(&tip.id), cancel)
            .await?;
        let source = tips::branch(record).filter(|_| tip.on_branch);
        let message = match source {
            _ if squash => squash_message(&name, &commits),
            Some(branch) => merge_message(branch, into),
            None => format!("Merge the work of sandbox '{name}' into {into}"),
        };
        let verdict = match (judge, judged.get(&tip.id)) {
            (None, _) => Ok(()),
            (Some(_), Some(verdict)) => verdict.clone(),
            // It came in meanwhile.
            (Some(judge), None) => {
                judge
                    .judge(&repo, record, repo.head.commit(), &tip.id)
                    .await
            }
        };
        if let Err(why) = verdict {
            let reference = match source {
                Some(branch) => branch.as_str().to_owned(),
                None => tip.id.to_string(),
            };
            done.push(Merge {
                landing: Landing::Kept { reference, why },
                commits,
                changed_outside: std::mem::take(&mut changed_outside),
                lies_there,
                as_one: false,
                in_the_way: Vec::new(),
            });
            continue;
        }
        let merge = land::Merging {
            start: &repo.head,
            source,
            identity: &author,
            message: &message,
            squash,
            has: has.as_ref(),
        };
        let incoming = if lies_there {
            Incoming::from_head(record.id, record.base.clone(), tip.id.clone())
        } else {
            Incoming::from_branch(record.id, record.base.clone(), tip.id.clone())
        };
        // Not while commits are judged, which takes long.
        let standing = Standing::beside(home, repo.top.as_path()).await;
        let barred = |top: &Path| barred(home, record.id, top, &standing);
        let landed = land::merge_to_head(&repo, &merge, &incoming, state, &barred, cancel).await;
        drop(standing);
        let landed = landed.map_err(CollectError::from)?;
        let mut landing = landed.landing;
        changed_outside.extend(landed.changed_outside);
        if let Landing::Landed { tip: into, .. } = &landing {
            if squash && *into == current {
                landing = Landing::Nothing;
            } else {
                if squash && tip.on_branch {
                    squashed = Some(Box::new(Squashed {
                        tip: tip.id.clone(),
                        into: into.clone(),
                    }));
                }
                current = into.clone();
            }
        }
        let in_the_way = match &landing {
            Landing::Kept { .. } if !lies_there => {
                // It is advice.
                let found = in_the_way(&repo, &base, &tip.id, cancel).await;
                found.unwrap_or_default()
            }
            _ => Vec::new(),
        };
        done.push(Merge {
            landing,
            commits,
            changed_outside: std::mem::take(&mut changed_outside),
            lies_there,
            as_one: false,
            in_the_way,
        });
    }
    if squashed.is_some() {
        owned.record.squashed = squashed;
        owned.save()?;
    }
    Ok(done)
}

/// Files of the checkout with changes that are in no commit, where the commits change them too. So long a list is not asked for.
async fn in_the_way(
    repo: &Repository,
    base: &Oid,
    tip: &Oid,
    cancel: &CancellationToken,
) -> Result<Vec<PathBuf>, GitError> {
    let changed = repo.changed_files(base, tip, cancel).await?;
    let paths: Vec<&Path> = changed.iter().map(PathBuf::as_path).collect();
    if paths.is_empty() || paths.len() > MOST_ASKED {
        return Ok(Vec::new());
    }
    status::uncommitted(repo, &paths, cancel).await
}

/// The sandboxes that live on and are at work in the checkout: [`merge`] moves nothing there as long as they are.
pub async fn at_work(target: &SandboxRef) -> Result<Vec<Slug>, ManageError> {
    let (repo, _) = target.find_here().await?;
    Ok(to_be_stopped(&target.home, repo.top.as_path())?)
}

/// What was merged as one commit before, where that is in what is checked out, and behind `tip`.
pub(super) async fn still_has(
    repo: &Repository,
    Squashed { tip: has, into }: &Squashed,
    tip: &Oid,
    cancel: &CancellationToken,
) -> Result<Option<Oid>, GitError> {
    let holds = repo.is_ancestor(into, repo.head.commit(), cancel).await?
        && repo.is_ancestor(has, tip, cancel).await?;
    Ok(holds.then(|| has.clone()))
}

/// As git says it of a squash: what came, a line each.
fn squash_message(name: &str, commits: &[CommitLine]) -> String {
    let lines = commits.iter();
    let lines = lines.map(|commit| format!("* {}\n", printable_line(&commit.subject)));
    let lines: String = lines.collect();
    format!("Work of sandbox '{name}'\n\n{lines}")
}

/// What is said about the commits that would be merged, before the sandbox is taken: that may take hours, in which others want to work
/// with it.
async fn judged(
    target: &SandboxRef,
    judge: Option<&dyn Judge>,
) -> Result<BTreeMap<Oid, Result<(), String>>, ManageError> {
    let mut judged = BTreeMap::new();
    let Some(judge) = judge else {
        return Ok(judged);
    };
    let (repo, entry) = target.find_here().await?;
    let (record, head) = (&entry.record, repo.head.commit());
    let is_at_work = !record.lives_on() && (entry.in_use || record.phase.is_unfinished());
    if is_at_work || !matches!(repo.head, Head::Branch { .. }) {
        // It is refused anyway.
        return Ok(judged);
    }
    for tip in target.tips(&repo, record, false).await? {
        if !repo.is_ancestor(&tip.id, head, &target.cancel).await? {
            let verdict = judge.judge(&repo, record, head, &tip.id).await;
            judged.insert(tip.id, verdict);
        }
    }
    Ok(judged)
}
