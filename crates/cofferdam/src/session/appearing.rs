//! Watches a checkout that an agent shares with its user: git directories that appear there are told of, and
//! moved out where they could run something.

use std::convert::Infallible;
use std::path::PathBuf;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::emitter::Emitter;
use super::event::Notice;
use crate::fsx::{Context, FileError};
use crate::git::appearing::{Appeared, Watch};
use crate::sandbox::registry::Owned;
use crate::text::printable_line;

/// So many are named while the agent works; the end names all that are left then.
const NAMED: usize = 10;

/// What is watched: the directories of a checkout as they are before the agent.
pub(super) type Directories = Vec<PathBuf>;

/// Tells of git directories that appear, for as long as it is polled. Watches nothing where there is nothing
/// to watch.
pub(super) async fn watch(
    owned: &Owned,
    workspace: PathBuf,
    directories: Directories,
    events: &Emitter,
) -> Infallible {
    if !directories.is_empty()
        && let Err(error) = watch_all(owned, workspace, directories, events).await
    {
        blind(&error.to_string(), events);
    }
    std::future::pending().await
}

async fn watch_all(
    owned: &Owned,
    workspace: PathBuf,
    directories: Directories,
    events: &Emitter,
) -> Result<Infallible, FileError> {
    let nested = owned.record.nested_before.iter();
    let before = nested.map(|path| path.0.clone()).collect();
    let to = owned.directory().join("nested");
    let top = workspace.clone();
    let start =
        tokio::task::spawn_blocking(move || Watch::start(&top, directories, before, &to)).await;
    let gone = |_| {
        FileError::new(
            "watch",
            &workspace,
            std::io::Error::other("a thread ended early"),
        )
    };
    let mut watch = start.map_err(gone)??;
    #[expect(
        deprecated,
        reason = "what takes its place is unsafe; the descriptor is owned and outlives this"
    )]
    let readable = AsyncFd::with_interest(watch.descriptor(), Interest::READABLE);
    let readable = readable.context("watch", &workspace)?;
    let mut named = 0;
    loop {
        for one in watch.read() {
            tell(one, &mut named, events);
        }
        let ready = readable.readable().await;
        ready.context("watch", &workspace)?.clear_ready();
    }
}

fn tell(one: Appeared, named: &mut usize, events: &Emitter) {
    let text = match one {
        Appeared::Blind(errno) => return blind(&errno.to_string(), events),
        Appeared::Stays(error) => error.to_string(),
        Appeared::Seen(_) | Appeared::Moved(..) if *named >= NAMED => return,
        Appeared::Seen(path) => {
            *named += 1;
            format!(
                "a git directory appeared while the agent works; use no git of yours there until the end: {}",
                printable_line(&path.to_string_lossy())
            )
        }
        Appeared::Moved(path, to) => {
            *named += 1;
            let paths = vec![path.to_string_lossy().into_owned()];
            let to = to.parent().unwrap_or(&to).to_owned();
            return events.notice(Notice::NestedGitMoved { paths, to });
        }
    };
    events.notice(Notice::Other { text });
}

fn blind(why: &str, events: &Emitter) {
    let text = format!(
        "git directories that appear while the agent works are not all seen before its end: {why}"
    );
    events.notice(Notice::Other { text });
}
