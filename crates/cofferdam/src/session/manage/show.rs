//! A sandbox's branch as people look at it. Only host-owned objects that passed the gate are read.

use super::{ManageError, Target};
use crate::git::{Oid, Repository};
use crate::sandbox::registry::Entry;
use crate::session::collect::commits_between;
use crate::session::report::CommitLine;
use crate::text::printable;

/// How much of a difference is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffStyle {
    Patch,
    Stat,
    NameStatus,
}

/// The difference between the sandbox's base and its branch, control bytes escaped.
pub async fn diff(target: &Target, style: DiffStyle) -> Result<String, ManageError> {
    let (repo, entry) = target.find().await?;
    let Entry { record, in_use } = &entry;
    let tip = target.tip(&repo, record, *in_use).await?;
    diff_between(&repo, &record.base, &tip, style, &target.cancel).await
}

/// The commits on the sandbox's branch since its base, newest last.
pub async fn log(target: &Target) -> Result<Vec<CommitLine>, ManageError> {
    let (repo, entry) = target.find().await?;
    let Entry { record, in_use } = &entry;
    let tip = target.tip(&repo, record, *in_use).await?;
    Ok(commits_between(&repo, &record.base, &tip, &target.cancel).await?)
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
