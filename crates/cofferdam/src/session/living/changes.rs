//! Whether a living sandbox has work in its files that is in no commit, for somebody who only wants to know.

use std::collections::BTreeMap;
use std::time::Duration;

use super::collect::holds_uncommitted;
use super::life::{condition, halt_stopped, turn, uncollected};
use super::{Condition, Named, Session};
use crate::git::copied;
use crate::registry::Mode;
use crate::sandbox::BindMountProvider;
use crate::session::inside::{Inside, Output};
use crate::session::layers;
use crate::session::manage::{ManageError, at_risk};
use crate::session::options::Caller;

const LOOKED: Duration = Duration::from_secs(5);
/// So many bytes of memory have to be left for a git.
const ROOM: u64 = 32 << 20;
/// Prints something else than [`NONE`] where there is any, and nothing where git did not come to its end. The sandbox's own git answers, as
/// it was told to: who acts on it looks by [`super::rest`], for which its programs stand still.
const LOOK: &str = "command -v git >/dev/null && {
    git status --porcelain --untracked-files=normal --ignore-submodules=all -- \"$@\" && echo done; } | head -c 5";
/// No line of git's begins so.
const NONE: &[u8] = b"done\n";

/// `None`: nobody can tell now, as of one that is paused, or whose memory is nearly used up. Its programs go on. Bounded: 5 s.
pub async fn changes(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> Option<bool> {
    let looked = async {
        if named.record.mode.owns_files() {
            in_its_files(caller, named, provider).await
        } else {
            in_its_worktree(caller, named).await
        }
    };
    tokio::time::timeout(LOOKED, looked).await.ok().flatten()
}

async fn in_its_files(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> Option<bool> {
    let state = caller.home.sandbox(named.record.id);
    if named.record.mode == Mode::Layer && layers::is_untouched(&state) {
        return Some(false);
    }
    match condition(caller, named, provider).await.ok()? {
        Condition::Paused => None,
        Condition::Stopped => {
            let turn = turn(caller, named).await.ok()?;
            if !halt_stopped(caller, named, provider).await.ok()? {
                return None;
            }
            Some(holds_uncommitted(caller, named, &turn).await)
        }
        Condition::Running => {
            // Its git would take what somebody removed below it for changes.
            if named.record.mode == Mode::Layer && !layers::still_stands(&state).ok()? {
                return None;
            }
            let session = Session::open(caller, named.clone(), provider).await.ok()?;
            // Its git might be what has something inside killed.
            let memory = session.sandbox().group_memory();
            if memory
                .and_then(|memory| memory.left())
                .is_some_and(|left| left < ROOM)
            {
                return None;
            }
            let files = named.record.workspace(&caller.home);
            let which = copied::but_untouched(&state, &files);
            let environment = BTreeMap::new();
            let words = ["sh", "-c", LOOK, "sh"].map(Into::into);
            let inside = Inside {
                sandbox: session.sandbox(),
                arguments: words.into_iter().chain(which).collect(),
                directory: None,
                environment: &environment,
                limit: LOOKED,
                output: Output::Captured(4096),
            };
            let done = inside.run(&caller.cancel).await.ok()?;
            if done.exit.success() {
                told(&done.stdout)
            } else {
                None
            }
        }
    }
}

/// What [`LOOK`] printed.
fn told(printed: &[u8]) -> Option<bool> {
    (!printed.is_empty()).then_some(printed != NONE)
}

async fn in_its_worktree(caller: &Caller, named: &Named) -> Option<bool> {
    let record = &named.record;
    record.worktree.as_ref()?;
    let repo = named.repository(caller).await.ok()?;
    let at = record.landed.as_ref().unwrap_or(&record.base);
    let user = caller.user_home.as_deref();
    let found = at_risk(&caller.home, repo, record, at, user, &caller.cancel).await;
    let found = matches!(found.ok()?, Some(ManageError::UncommittedWork { .. }));
    if found && uncollected(caller, named).await != Some(false) {
        // It may be in a commit that nobody knows of here.
        return None;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel may kill it, as where the sandbox's memory is used up.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a shell, as inside")]
    fn a_git_that_was_killed_has_not_said_that_there_is_none() {
        let place = tempfile::tempdir().unwrap();
        let looked = |git: &str| {
            crate::fsx::write_with_mode(&place.path().join("git"), git.as_bytes(), 0o755).unwrap();
            let path = format!("{}:/usr/bin:/bin", place.path().display());
            let mut shell = std::process::Command::new("sh");
            let done = shell.args(["-c", LOOK, "sh"]).env("PATH", path).output();
            told(&done.unwrap().stdout)
        };
        assert_eq!(looked("#!/bin/sh\nexit 0\n"), Some(false));
        assert_eq!(looked("#!/bin/sh\necho '?? u.txt'\n"), Some(true));
        assert_eq!(looked("#!/bin/sh\nyes '?? done'\n"), Some(true));
        assert_eq!(looked("#!/bin/sh\nkill -9 $$\n"), None);
        assert_eq!(looked("#!/bin/sh\necho ' M a'; kill -9 $$\n"), Some(true));
        assert_eq!(looked("#!/bin/sh\nexit 128\n"), None);
    }
}
