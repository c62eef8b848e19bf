//! Whose ids a sandbox's processes have on the host.

use cofferdam_guest::protocol::Agent;

use crate::ids;
use crate::names::SandboxId;
use crate::sandbox::SandboxError;

/// An ordinary caller's own ids; for root ids that are this sandbox's alone.
pub(in crate::sandbox) fn agent(id: SandboxId) -> Result<Agent, SandboxError> {
    if rustix::process::geteuid().as_raw() != 0 {
        return Ok(Agent::Caller);
    }
    let uid = ids::of_sandbox(id).ok_or_else(|| SandboxError::Unsupported {
        what: "root has no unprivileged user id to give to the agent in this container".to_owned(),
        hint: "run as an ordinary user, or map more ids into the container".to_owned(),
    })?;
    Ok(Agent::Separate { uid, gid: uid })
}
