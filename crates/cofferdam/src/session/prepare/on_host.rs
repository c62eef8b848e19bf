//! Without a sandbox: a directory to work in is all that is made.

use super::{Making, Ready};
use crate::registry::{Owned, Phase};
use crate::sandbox::{Contained, SandboxError, SandboxSpec};
use crate::session::error::RunErrorKind;
use crate::session::hook_point::HookPoint;
use crate::session::hooks;

impl Making<'_> {
    pub(super) async fn prepare_on_host(
        &self,
        owned: &mut Owned,
        slot: &mut Option<Ready>,
    ) -> Result<(), RunErrorKind> {
        let (caller, cancel) = (self.caller, &self.caller.cancel);
        let Contained::BindMount(kind) = &self.options.sandbox else {
            return Err(SandboxError::Start("no directory".into()).into());
        };
        self.make_worktree(owned).await?;
        let workspace = owned.record.workspace(&caller.home);
        hooks::on_host(
            HookPoint::WorktreeReady,
            &self.options.hooks.host_worktree_ready,
            &workspace,
            &caller.environment,
            self.events,
            cancel,
        )
        .await?;
        if owned.record.worktree.is_some() {
            // From here on somebody's work may be in it. A checkout is its user's, who is there.
            owned.set_phase(Phase::Active)?;
        }
        let (id, name) = (owned.record.id, owned.record.name.clone());
        let spec = SandboxSpec::new(id, name, "host", &workspace);
        *slot = Some(Ready::Mounted(kind.provider.create(&spec, cancel).await?));
        Ok(())
    }
}
