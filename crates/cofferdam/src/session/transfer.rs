//! Source in and commits out for isolated providers: the private clone travels whole, with its
//! packs, and a pack comes back over a stream.

use std::path::Path;

use super::mounts::VAULT_INSIDE;
use super::prepare::step;
use super::report::RunErrorKind;
use crate::sandbox::IsolatedSandbox;

/// Copies workspace (what `--copy` named), private clone, hooks and vault to where a mounting
/// provider would have mounted them.
pub(super) async fn send(
    state: &Path,
    workspace: &Path,
    workdir: &Path,
    sandbox: &dyn IsolatedSandbox,
) -> Result<(), RunErrorKind> {
    let git = workdir.join(".git");
    let parts = [
        (workspace.to_owned(), workdir.to_owned()),
        (state.join("vault"), VAULT_INSIDE.into()),
        (state.join("git"), git.clone()),
        (state.join("hooks"), git.join("hooks")),
    ];
    for (source, target) in parts {
        sandbox.copy_in(&source, &target).await.map_err(step("transfer into the sandbox"))?;
    }
    Ok(())
}
