//! Watches a checkout that an agent shares with its user: git directories that appear there are told of, and
//! moved out where they could run something.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::MissedTickBehavior;

use super::emitter::Emitter;
use super::event::Notice;
use crate::git::appearing::{Appeared, Watch};
use crate::registry::Owned;
use crate::text::printable_line;

/// So many are named within [`WHILE`] while the agent works; the end of a run names all that are left then.
const NAMED: usize = 10;
const WHILE: Duration = Duration::from_secs(60);
/// So often those that were harmless are judged again.
const AGAIN: Duration = Duration::from_millis(200);

/// Watches `directories` of a workspace, as they were before any program of the sandbox: from the return on, nothing
/// that appears is missed. `None` where there is nothing to watch, or no way to.
pub(super) async fn start(
    owned: &Owned,
    workspace: PathBuf,
    directories: Vec<PathBuf>,
    events: &Emitter,
) -> Option<Watch> {
    if directories.is_empty() {
        return None;
    }
    let nested = owned.record.nested_before.iter();
    let before = nested.map(|path| path.0.clone()).collect();
    let to = owned.directory().join("nested");
    let started =
        tokio::task::spawn_blocking(move || Watch::start(&workspace, directories, before, &to));
    let started = started.await.map_err(|error| error.to_string());
    match started.and_then(|started| started.map_err(|error| error.to_string())) {
        Ok(watch) => Some(watch),
        Err(why) => {
            blind(&why, events);
            None
        }
    }
}

/// Tells of git directories that appear, for as long as it is polled.
pub(super) async fn watch(watch: Option<Watch>, events: &Emitter) -> Infallible {
    if let Some(mut watch) = watch
        && let Err(error) = watch_all(&mut watch, events, Seeing::Most).await
    {
        blind(&error.to_string(), events);
    }
    std::future::pending().await
}

/// As [`watch`], for as long as everything is seen. Returns when it is not.
pub(super) async fn strictly(watch: &mut Watch, events: &Emitter) -> io::Error {
    match watch_all(watch, events, Seeing::All).await {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

/// Tells of what was there already. Returns why not everything is seen, where that is so.
pub(super) fn tell_all(found: Vec<Appeared>, events: &Emitter) -> Option<io::Error> {
    let (mut named, mut blind) = (Named::default(), None);
    for one in found {
        match one {
            Appeared::Blind(errno) => blind = Some(errno.into()),
            one => tell(one, &mut named, events),
        }
    }
    blind
}

/// What becomes of a watch that does not see everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seeing {
    /// It goes on, and that is told.
    Most,
    /// It ends.
    All,
}

/// How many were named lately. A sandbox may be watched for months.
#[derive(Debug, Default)]
struct Named {
    count: usize,
    since: Option<Instant>,
}

impl Named {
    /// Whether one more may be named; that no more are is told once.
    fn has_room(&mut self, events: &Emitter) -> bool {
        if self.since.is_none_or(|since| since.elapsed() >= WHILE) {
            *self = Self {
                count: 0,
                since: Some(Instant::now()),
            };
        }
        self.count += 1;
        if self.count == NAMED + 1 {
            let text = format!(
                "more than {NAMED} git directories appeared within {} s: no more are named for as long",
                WHILE.as_secs()
            );
            events.notice(Notice::Other { text });
        }
        self.count <= NAMED
    }
}

async fn watch_all(watch: &mut Watch, events: &Emitter, seeing: Seeing) -> io::Result<Infallible> {
    #[expect(
        deprecated,
        reason = "what takes its place is unsafe; the descriptor is owned and outlives this"
    )]
    let readable = AsyncFd::with_interest(watch.descriptor(), Interest::READABLE)?;
    let mut named = Named::default();
    // Not a sleep: events without end would start it anew without end.
    let mut again = tokio::time::interval(AGAIN);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut found = watch.read();
    loop {
        let mut blind = None;
        for one in found {
            match one {
                // All others first: they may have been moved.
                Appeared::Blind(errno) if seeing == Seeing::All => blind = Some(errno),
                one => tell(one, &mut named, events),
            }
        }
        if let Some(errno) = blind {
            return Err(errno.into());
        }
        found = tokio::select! {
            ready = readable.readable() => {
                ready?.clear_ready();
                watch.read()
            }
            _ = again.tick(), if watch.keeps_harmless() => watch.look_at_harmless(),
        };
    }
}

fn tell(one: Appeared, named: &mut Named, events: &Emitter) {
    let text = match one {
        Appeared::Blind(errno) => return blind(&errno.to_string(), events),
        Appeared::Stays(error) => error.to_string(),
        Appeared::TooMany(path) => format!(
            "many git directories appeared; of this one and more not every change is seen before the end: {}",
            printable_line(&path.to_string_lossy())
        ),
        Appeared::Seen(_) | Appeared::Moved(..) if !named.has_room(events) => return,
        Appeared::Seen(path) => {
            format!(
                "a git directory appeared while the agent works; use no git of yours there until the end: {}",
                printable_line(&path.to_string_lossy())
            )
        }
        Appeared::Moved(path, to) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_while_more_are_named() {
        let events = Emitter::sink(crate::session::EventSink::default());
        let mut named = Named::default();
        let count = |named: &mut Named| (0..30).filter(|_| named.has_room(&events)).count();
        assert_eq!(count(&mut named), NAMED);
        assert_eq!(count(&mut named), 0);
        named.since = Instant::now().checked_sub(WHILE);
        assert_eq!(count(&mut named), NAMED);
    }
}
