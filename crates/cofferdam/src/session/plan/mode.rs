//! How the sandbox sees its files, where that is left open.

use super::PlanError;
use crate::git::{Repository, worktree};
use crate::registry::{Mode, Strategy};
use crate::sandbox::{Ability, Contained, Layers};
use crate::session::error::RunErrorKind;
use crate::session::layers;
use crate::session::mode_reason::ModeReason;
use crate::session::options::{Caller, Hooks, SessionOptions};

/// Refuses what does not go together, and finds out what is possible where the caller leaves it open.
pub(super) async fn choose(
    caller: &Caller,
    options: &SessionOptions,
    repo: &Repository,
    strategy: &Strategy,
) -> Result<(Mode, ModeReason), RunErrorKind> {
    let sandbox = &options.sandbox;
    let otherwise = match sandbox {
        Contained::BindMount(_) if *strategy == Strategy::Head => {
            return Ok((Mode::Bind, ModeReason::Head));
        }
        Contained::BindMount(kind) if kind.layers => Mode::Bind,
        Contained::BindMount(_) => return Ok((Mode::Bind, ModeReason::Asked)),
        Contained::PrivateCopy(kind) if kind.layers == Layers::WherePossible => Mode::Copy,
        Contained::PrivateCopy(kind) if kind.layers == Layers::Yes => {
            sandbox.require(Ability::Layers)?;
            if runs_on_host(&options.hooks) {
                return Err(PlanError::LayerHook.into());
            }
            // Else it would be known only when a sandbox is half made.
            return match layers::possible(&caller.home, sandbox, &caller.cancel).await {
                Ok(()) => Ok((Mode::Layer, ModeReason::Asked)),
                Err(_) if caller.cancel.is_cancelled() => Err(RunErrorKind::Cancelled),
                Err(why) => Err(PlanError::NoLayers { why }.into()),
            };
        }
        Contained::PrivateCopy(_) => return Ok((Mode::Copy, ModeReason::Asked)),
        Contained::Isolated(_) => return Ok((Mode::Inside, ModeReason::Asked)),
    };
    if runs_on_host(&options.hooks) {
        return Ok((otherwise, ModeReason::HostHook));
    }
    let sparse = worktree::is_sparse(repo, &repo.git_dir, &caller.cancel);
    if sparse.await? {
        return Ok((otherwise, ModeReason::Sparse));
    }
    Ok(
        match layers::possible(&caller.home, sandbox, &caller.cancel).await {
            Ok(()) => (Mode::Layer, ModeReason::Possible),
            Err(why) => (otherwise, ModeReason::Impossible(why)),
        },
    )
}

fn runs_on_host(hooks: &Hooks) -> bool {
    !hooks.host_worktree_ready.is_empty() || !hooks.host_sandbox_ready.is_empty()
}
