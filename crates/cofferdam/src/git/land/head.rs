//! The `head` strategy: the agent worked in the user's own working tree, so the files are there;
//! the branch and the index follow.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::checkout::Landed;
use super::journal::{Files, Move};
use super::landing::Landing;
use super::{LandError, kept};
use crate::git::gate::Accepted;
use crate::git::{Head, Repository, refs};

/// Brings what was checked out at the `start` from there to the accepted tip. Working files are not touched; what the
/// user staged stays staged. `start` is the base, or a commit of the sandbox's that landed before. If it is neither, or
/// the user has committed or switched meanwhile, nothing moves.
pub async fn head(
    repo: &Repository,
    start: &Head,
    accepted: &Accepted,
    state: &Path,
    cancel: &CancellationToken,
) -> Result<Landed, LandError> {
    let from = start.commit();
    let landed_before = || accepted.commits().iter().any(|commit| commit.id == *from);
    if from != accepted.base() && !landed_before() {
        return Ok(kept(
            accepted,
            "the sandbox's commits do not continue what was checked out",
        )
        .into());
    }
    let reference = start
        .branch()
        .map_or_else(|| "HEAD".to_owned(), crate::names::BranchName::full);
    let step = Move::new(
        accepted.id(),
        Files::AreThere,
        reference,
        (from, accepted.tip()),
        &repo.git_dir,
        repo.top.as_path(),
    );
    let moved = step.run(repo, state, &|_| None, cancel).await?;
    let landed = step.landed(moved);
    // A killed command may have come so far already.
    if matches!(landed.landing, Landing::Kept { .. })
        && refs::read(repo, &step.reference, cancel).await?.as_ref() == Some(accepted.tip())
    {
        let branch = start
            .branch()
            .map_or_else(|| "HEAD".to_owned(), ToString::to_string);
        return Ok(Landing::Landed {
            branch,
            tip: accepted.tip().clone(),
        }
        .into());
    }
    Ok(landed)
}
