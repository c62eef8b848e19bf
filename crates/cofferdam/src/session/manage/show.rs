//! A sandbox's work as people look at it. Only host-owned objects that passed the gate are read.

use super::{ManageError, Target, Tip};
use crate::git::CommitLine;
use crate::git::{Oid, Repository};
use crate::registry::Entry;
use crate::session::collect::commits_since;
use crate::text::printable;

/// How much of a difference is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffStyle {
    Patch,
    Stat,
    NameStatus,
}

/// The difference between the sandbox's base and its branch, control bytes escaped. Commits that are kept
/// beside a branch that moved follow as a difference of their own.
pub async fn diff(target: &Target, style: DiffStyle) -> Result<String, ManageError> {
    let (repo, entry) = target.find().await?;
    let mut text = String::new();
    for tip in at_home(target, &repo, &entry).await? {
        let base = &entry.record.base;
        text += &diff_between(&repo, base, &tip.id, style, &target.cancel).await?;
    }
    Ok(text)
}

/// The commits of the sandbox's branch since its base, and those kept beside it, newest last.
pub async fn log(target: &Target) -> Result<Vec<CommitLine>, ManageError> {
    let (repo, entry) = target.find().await?;
    let tips = at_home(target, &repo, &entry).await?;
    let tips: Vec<Oid> = tips.into_iter().map(|tip| tip.id).collect();
    Ok(commits_since(&repo, &entry.record.base, &tips, &target.cancel).await?)
}

/// What can be shown. The commits of a dead run are in its own repository, and nobody reads that but the gate.
async fn at_home(
    target: &Target,
    repo: &Repository,
    entry: &Entry,
) -> Result<Vec<Tip>, ManageError> {
    let Entry { record, in_use } = entry;
    if !in_use && record.phase.is_unfinished() {
        let name = record.name.to_string();
        return Err(ManageError::Interrupted { name });
    }
    target.tips(repo, record, *in_use).await
}

pub(in crate::session) async fn diff_between(
    repo: &Repository,
    base: &Oid,
    tip: &Oid,
    style: DiffStyle,
    cancel: &tokio_util::sync::CancellationToken,
) -> Result<String, ManageError> {
    let flag = match style {
        DiffStyle::Patch => "--patch",
        DiffStyle::Stat => "--stat",
        DiffStyle::NameStatus => "--name-status",
    };
    let objects = repo.objects();
    let done = repo
        .command()
        // What is shown is a sandbox's, and so may be the `.gitattributes` that say what not to show. Git
        // looks for them in the work tree and in the index: here is no such file, and there is no such
        // index. A zero byte in a file hides as much as an attribute, so everything counts as text.
        .work_tree(&objects)
        .env("GIT_INDEX_FILE", objects.join("no-index"))
        .args([
            "diff-tree",
            "-r",
            "--text",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "-M",
            flag,
        ])
        .args(["--end-of-options", base.as_str(), tip.as_str()])
        .run(cancel)
        .await?;
    Ok(printable(&String::from_utf8_lossy(&done.stdout)))
}
