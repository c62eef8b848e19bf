//! What is committed on a branch of the shelf and nowhere else: nothing brings it home by itself, so it is told to whoever leaves.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::jailed::Objects;
use super::on_shelf::Unpushed;

use super::push::of_shelf;
use super::shelf::{self, List};
use super::shelf_git::git_directory;
use crate::fsx;
use crate::git::private_clone;
use crate::git::{Oid, Repository, bare, worktree};
use crate::home::Home;
use crate::names::BranchName;
use crate::registry::Record;
use crate::sandbox::native::jail::{self, JailOutput};

/// Counts the commits that $1 has and the others have not, as far as those are there, and says whether it has all of $2, if that is one.
const COUNT: &str = r#"tip=$1 host=$2
shift 2
known=
for one; do
    ! git cat-file -e "$one^{commit}" 2>/dev/null || known="$known ^$one"
done
how=forward
[ -z "$host" ] || git merge-base --is-ancestor "$host" "$tip" 2>/dev/null || how=diverged
echo "$(git rev-list --count "$tip" $known) $how""#;
/// A number and a word.
const ANSWER: usize = 40;
/// Who leaves waits for it.
const LIMIT: Duration = Duration::from_secs(10);
/// Where pushes may make branches.
const OURS: &str = "cofferdam/";

/// What the branch that a sandbox lives on has on the shelf, and no branch of the host's. The sandbox's word: only names are read on the
/// host, and commits are counted in a jail. `None`: there is nothing, or nobody can tell. Bounded: 10 s.
pub(super) async fn unpushed(
    home: &Home,
    repository: &Repository,
    record: &Record,
    cancel: &CancellationToken,
) -> Option<Unpushed> {
    let branch = record.shelf_branch()?.clone();
    let files = shelf::of(home, record).ok()??.files();
    let full = branch.full();
    let git = git_directory(&files)?;
    let found = private_clone::read_refs(&git.place(), repository.format, Some(&full)).ok()?;
    let tip = found.refs.get(full.as_bytes())?.clone();
    if is_home(repository, &tip, cancel).await {
        return None;
    }
    let brought = shelf::noted(home, record, List::Brought).ok()?;
    let pushed = shelf::noted(home, record, List::Pushed).ok()?;
    let mut known = vec![record.base.clone(), repository.head.commit().clone()];
    known.extend(brought.commits(&branch).cloned());
    let at = repository.resolve(&full, cancel).await.ok().flatten();
    known.extend(at.clone());
    let other: Option<BranchName> = format!("{OURS}{branch}").parse().ok();
    for commit in [Some(&branch), other.as_ref()]
        .into_iter()
        .flatten()
        .flat_map(|branch| pushed.commits(branch))
    {
        // Somebody may have deleted the branch here.
        if is_home(repository, commit, cancel).await {
            known.push(commit.clone());
        }
    }
    let reader = home
        .sandbox(record.id)
        .join(format!("shelf-reader-{}", std::process::id()));
    let counted = count(
        repository,
        (files, &reader),
        (&tip, at.as_ref()),
        &known,
        cancel,
    )
    .await;
    // What is left of it goes with the sandbox.
    let _ = fsx::remove_tree_or_file(&reader);
    let (commits, diverged) = counted.unzip();
    if commits == Some(0) {
        return None;
    }
    let is_free = worktree::check_free(repository, &branch).is_ok();
    let refspec = if is_free {
        branch.to_string()
    } else {
        // What is checked out is never pushed to.
        format!("{branch}:{OURS}{branch}")
    };
    Some(Unpushed {
        branch,
        commits,
        refspec,
        diverged: is_free && diverged == Some(true),
    })
}

/// Whether a reference of the host's has it.
pub(super) async fn is_home(
    repository: &Repository,
    tip: &Oid,
    cancel: &CancellationToken,
) -> bool {
    // What the repository does not have is an error there.
    let here = repository.resolve(tip.as_str(), cancel).await;
    matches!(here, Ok(Some(_)))
        && repository
            .is_at_home(tip, "", cancel)
            .await
            .unwrap_or(false)
}

async fn count(
    repository: &Repository,
    (files, reader): (PathBuf, &Path),
    (tip, at): (&Oid, Option<&Oid>),
    known: &[Oid],
    cancel: &CancellationToken,
) -> Option<(usize, bool)> {
    bare::make(repository, reader).ok()?;
    let words = [tip.as_str(), at.map_or("", Oid::as_str)].into_iter();
    let words = words
        .chain(known.iter().map(Oid::as_str))
        .map(OsString::from);
    let objects: Objects = of_shelf(files);
    let request = objects.request(
        reader.to_owned(),
        COUNT,
        words.collect(),
        Vec::new(),
        JailOutput::Capture(ANSWER),
        LIMIT,
    );
    let done = jail::run(request, cancel).await.ok()?;
    if !done.exit.success() {
        return None;
    }
    let said = String::from_utf8(done.stdout).ok()?;
    let (count, how) = said.trim_end().split_once(' ')?;
    Some((count.parse().ok()?, how == "diverged"))
}
