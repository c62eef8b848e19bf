//! What a killed command leaves running: a git of its own, which goes on writing to the working tree though nobody waits
//! for it any more. Whoever has the index lock next waits for its end: what it writes is journalled, and whole then.
//!
//! Not PR_SET_PDEATHSIG: that ends a child with the *thread* that started it, and cuts its files off.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use super::settle::running_in;
use crate::process::is_alive;
use crate::text::printable;

const TRIES: u32 = 600;
const PAUSE: Duration = Duration::from_millis(50);

/// Waits for each git that writes in `top` for a command of ours. The caller holds the index lock, so that command is
/// dead. `Some`: one is still there after 30 s.
pub(super) async fn await_orphans(git_dir: &Path, top: &Path) -> Option<String> {
    let mut orphans = running_in(top);
    orphans.retain(|&(process, _)| has_our_index(process, git_dir));
    for _ in 0..TRIES {
        orphans.retain(|&(process, start)| is_alive(process, start));
        if orphans.is_empty() {
            return None;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let (process, _) = orphans.first()?;
    let at = printable(&top.to_string_lossy());
    Some(format!(
        "git, process {process} of a command that was killed, still writes in {at}: wait for its end, or end it"
    ))
}

/// Whether it works with an index that only we make: `cofferdam-<id>.index` and what is beside it.
fn has_our_index(process: u32, git_dir: &Path) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{process}/environ")) else {
        return false;
    };
    let ours = [
        b"GIT_INDEX_FILE=",
        git_dir.as_os_str().as_bytes(),
        b"/cofferdam-",
    ];
    let ours = ours.concat();
    environment
        .split(|&byte| byte == 0)
        .any(|variable| variable.starts_with(&ours))
}
