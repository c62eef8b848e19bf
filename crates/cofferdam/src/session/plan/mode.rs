//! How the sandbox sees its files, where that is left open.

use std::fmt;

use serde::{Serialize, Serializer};

use super::PlanError;
use crate::registry::{Mode, Strategy};
use crate::sandbox::{Ability, Contained};
use crate::session::error::RunErrorKind;
use crate::session::layers;
use crate::session::options::{Caller, Hooks, SessionOptions};

/// Why a sandbox sees its files as it does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModeReason {
    /// By the kind of sandbox that the caller chose.
    Asked,
    /// The sandbox was there before.
    Made,
    /// The choice was open, and layers are possible: that is best.
    Possible,
    /// The strategy `head` is the host's directory itself.
    Head,
    /// A hook on the host needs a directory with all files.
    HostHook,
    /// There can be no layers here, and why.
    Impossible(String),
}

impl fmt::Display for ModeReason {
    /// As it stands in brackets behind the mode.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("as asked"),
            Self::Made => f.write_str("as it was made"),
            Self::Possible => f.write_str("the default"),
            Self::Head => f.write_str("as the strategy is"),
            Self::HostHook => f.write_str("a hook on the host needs the directory"),
            Self::Impossible(why) => write!(f, "layers are not possible here: {why}"),
        }
    }
}

impl Serialize for ModeReason {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Refuses what does not go together, and finds out what is possible where the caller leaves it open.
pub(super) async fn choose(
    caller: &Caller,
    options: &SessionOptions,
    strategy: &Strategy,
) -> Result<(Mode, ModeReason), RunErrorKind> {
    let sandbox = &options.sandbox;
    match sandbox {
        Contained::BindMount(_) if *strategy == Strategy::Head => {
            return Ok((Mode::Bind, ModeReason::Head));
        }
        Contained::BindMount(kind) if kind.layers => {}
        Contained::BindMount(_) => return Ok((Mode::Bind, ModeReason::Asked)),
        Contained::PrivateCopy(kind) if kind.layered => {
            sandbox.require(Ability::Layers)?;
            if runs_on_host(&options.hooks) {
                return Err(PlanError::LayerHook.into());
            }
            return Ok((Mode::Layer, ModeReason::Asked));
        }
        Contained::PrivateCopy(_) => return Ok((Mode::Copy, ModeReason::Asked)),
        Contained::Isolated(_) => return Ok((Mode::Inside, ModeReason::Asked)),
    }
    if runs_on_host(&options.hooks) {
        return Ok((Mode::Bind, ModeReason::HostHook));
    }
    Ok(
        match layers::possible(&caller.home, sandbox, &caller.cancel).await {
            Ok(()) => (Mode::Layer, ModeReason::Possible),
            Err(why) => (Mode::Bind, ModeReason::Impossible(why)),
        },
    )
}

fn runs_on_host(hooks: &Hooks) -> bool {
    !hooks.host_worktree_ready.is_empty() || !hooks.host_sandbox_ready.is_empty()
}
