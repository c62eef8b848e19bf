//! Whether the agent's program is there, as far as that can be told before anything is made.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::error::RunErrorKind;
use super::options::RunOptions;
use crate::git::{Oid, Repository, below};
use crate::registry::Strategy;
use crate::sandbox::{ProgramFault, SandboxError};

/// Refuses a program that cannot be there. A hook may make it or install it, and a `PATH` of the caller's for inside
/// is nobody's to judge here: then its start tells.
pub(super) async fn check(
    options: &RunOptions,
    repository: &Repository,
    strategy: &Strategy,
    base: &Oid,
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
        is_absent(options, repository, strategy, base, &path).await?
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
    Err(SandboxError::Program {
        program: crate::text::printable_bytes_line(program.name.as_bytes()),
        fault: ProgramFault::Missing,
        reason: "there is no such program".to_owned(),
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

async fn is_absent(
    options: &RunOptions,
    repository: &Repository,
    strategy: &Strategy,
    base: &Oid,
    path: &Path,
) -> Result<bool, RunErrorKind> {
    let top = repository.top.as_path();
    // Also where a symlink of the tree leads, as far as that is the same inside.
    let missing = || {
        let found = top.join(path).metadata();
        found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    };
    if *strategy == Strategy::Head {
        return Ok(missing());
    }
    let copied = |copy: &PathBuf| below::plain(top, copy).is_ok_and(|copy| path.starts_with(copy));
    if options.session.copy.iter().any(copied) {
        return Ok(missing());
    }
    // A symlink may lead to what is copied, or out of the tree: that is left to the sandbox.
    Ok(repository
        .is_missing(base, path, &options.caller.cancel)
        .await?)
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
