//! Whether the agent's program is there, as far as that can be told before anything is made.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::committed::{self, Found};
use super::error::RunErrorKind;
use super::options::RunOptions;
use super::plan::{Plan, PlanError};
use crate::registry::Strategy;
use crate::sandbox::{ProgramFault, SandboxError};

/// Refuses a program that cannot be there. A hook may make it or install it, and a `PATH` of the caller's for inside
/// is nobody's to judge here: then its start tells.
pub(super) async fn check(
    options: &RunOptions,
    plan: &Plan,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<(), RunErrorKind> {
    let Some(program) = options.task.agent.program() else {
        return Ok(());
    };
    let hooks = &options.session.hooks;
    let hooks = [
        &hooks.host_worktree_ready,
        &hooks.host_sandbox_ready,
        &hooks.sandbox_ready,
    ];
    if hooks.iter().any(|hooks| !hooks.is_empty()) {
        return Ok(());
    }
    let absent = if let Some(path) = in_the_tree(program.name) {
        is_absent(options, plan, &path).await?
    } else {
        let search_path = options.caller.environment.get(OsStr::new("PATH"));
        !environment.contains_key(OsStr::new("PATH"))
            && options
                .session
                .sandbox
                .lacks(program.name, search_path.map(OsString::as_os_str))
    };
    if !absent {
        return Ok(());
    }
    let program = crate::text::printable_bytes_line(program.name.as_bytes());
    let reason = "there is no such program".to_owned();
    Err(if plan.record.on_host {
        SandboxError::HostProgram { program, reason }
    } else {
        SandboxError::Program {
            program,
            fault: ProgramFault::Missing,
            reason,
        }
    }
    .into())
}

/// The path of a program that is looked for from the top of the workspace. One that leads out of it is left to the
/// sandbox.
fn in_the_tree(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.is_absolute() || !program.as_bytes().contains(&b'/') {
        return None;
    }
    let parts = path.components();
    let plain: PathBuf = parts.filter(|part| *part != Component::CurDir).collect();
    let mut parts = plain.components();
    let below = parts.all(|part| matches!(part, Component::Normal(_)));
    (below && !plain.as_os_str().is_empty()).then_some(plain)
}

async fn is_absent(options: &RunOptions, plan: &Plan, path: &Path) -> Result<bool, RunErrorKind> {
    let top = plan.repository.top.as_path();
    // Also where a symlink of the tree leads, as far as that is the same inside.
    let missing = || {
        let found = top.join(path).metadata();
        found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    };
    if plan.record.strategy == Strategy::Head || committed::is_copied(options, plan, path) {
        return Ok(missing());
    }
    // A symlink may lead to what is copied, or out of the tree: that is left to the sandbox.
    match committed::found(plan, path, &options.caller.cancel).await? {
        Found::Committed => Ok(false),
        Found::Missing => Ok(true),
        Found::Changed => {
            let (what, path) = ("agent's program", path.to_owned());
            Err(PlanError::Uncommitted { what, path }.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_tree() {
        let check = |program: &str, want: Option<&str>| {
            let found = in_the_tree(OsStr::new(program));
            assert_eq!(found, want.map(PathBuf::from), "{program}");
        };
        check("./a.sh", Some("a.sh"));
        check("tools/./a", Some("tools/a"));
        check("a", None);
        check("/bin/a", None);
        check("../a", None);
        check("./a/../../b", None);
        check("./", None);
    }
}
