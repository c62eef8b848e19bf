//! Closes the one gap that git leaves: `git commit` reads the index *before* it locks it. One that
//! read the old index just before a landing writes it back just after (and then fails, because the
//! branch has moved), and the next commit would revert what landed. So: where other git processes
//! of the user run in the working tree at that moment, wait for them and look at the index again.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// Which file the index is at the moment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct IndexState(Option<(u64, u64, i64, i64)>);

pub(super) fn index_state(git_dir: &Path) -> IndexState {
    let found = fs::metadata(git_dir.join("index")).ok();
    IndexState(found.map(|f| (f.ino(), f.size(), f.mtime(), f.mtime_nsec())))
}

/// The git processes (id, start time) that run in `top` or below it now.
pub(super) fn running_in(top: &Path) -> Vec<(u32, u64)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let is_git = fs::read(entry.path().join("comm")).is_ok_and(|name| name == b"git\n");
        // Where the directory cannot be read the process belongs to someone else.
        if is_git
            && fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(top))
            && let Some(start) = crate::process::start_time_of(pid)
        {
            found.push((pid, start));
        }
    }
    found
}

/// Waits at most 1 s: a `commit` that waits for its editor has written its index long ago.
pub(super) async fn wait_for(processes: &[(u32, u64)]) {
    for _ in 0..TRIES {
        if !processes
            .iter()
            .any(|&(pid, start)| crate::process::is_alive(pid, start))
        {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
