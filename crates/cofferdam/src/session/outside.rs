//! The user's uncommitted work, which a sandbox with files of its own does not have. It is looked for beside everything else:
//! no start waits for it.

use std::convert::Infallible;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::emitter::Emitter;
use super::event::Notice;
use super::options::Caller;
use super::plan::Plan;
use crate::git::identity::UserConfig;
use crate::git::{Repository, UserRules, before};
use crate::registry::Strategy;

/// So long a command that is about to end waits for it, where something came of it.
const AT_THE_END: Duration = Duration::from_secs(2);
/// Where nothing did, and the look began with the command: it is over by then, but on a busy machine. Whoever waited for nothing
/// does not wait longer because their checkout is large.
const FOR_NOTHING: Duration = Duration::from_millis(250);

/// With a larger index, of some 10,000 files, a look takes as long as all else that a quick command does, and would hold
/// that up: it begins with an agent that works.
const SOON: u64 = 1 << 20;
/// An agent that is gone sooner did not work.
const AT_WORK: Duration = Duration::from_millis(250);

/// A look beside a command. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Outside {
    look: Look,
    state: State,
    /// How long the end waits where nothing came home.
    patience: Duration,
}

#[derive(Debug)]
enum State {
    /// It has not begun.
    Later,
    Looking(JoinHandle<Option<usize>>),
    Told,
}

impl Outside {
    /// `copied`: paths below the top that the sandbox was given. `scratch`: a private directory that is made and removed. No landing
    /// may be under way.
    pub(super) fn begin(
        caller: &Caller,
        plan: &Plan,
        copied: &[PathBuf],
        scratch: PathBuf,
    ) -> Self {
        let look = Look {
            repo: plan.repository.clone(),
            config: plan.config.clone(),
            caller_home: caller.user_home.clone(),
            cancel: caller.abandon.clone(),
            copied: copied.iter().map(|path| plain(path)).collect(),
            scratch,
        };
        let index = look.repo.git_dir.join("index").metadata();
        let state = match index.map(|found| found.len()) {
            // An agent in the checkout has all of it.
            _ if plan.record.strategy == Strategy::Head => State::Told,
            // Its user is there, and has both.
            _ if plan.record.on_host => State::Told,
            Ok(size) if size > SOON => State::Later,
            _ => State::Looking(look.start()),
        };
        let patience = match state {
            State::Looking(_) => FOR_NOTHING,
            State::Later | State::Told => Duration::ZERO,
        };
        Self {
            look,
            state,
            patience,
        }
    }

    /// While the agent works: says what is found as soon as it is known.
    pub(super) async fn tell(&mut self, events: &Emitter) -> Infallible {
        if matches!(self.state, State::Later) {
            tokio::time::sleep(AT_WORK).await;
            self.state = State::Looking(self.look.start());
        }
        self.told(events).await;
        std::future::pending().await
    }

    /// Says it if it is known, before anything lands: what lands meanwhile would be counted as well.
    pub(super) async fn tell_known(&mut self, events: &Emitter) {
        let _ = tokio::time::timeout(Duration::ZERO, self.told(events)).await;
    }

    /// The last chance, at the end of a command that brought something home or did not: what is not known is told as that.
    pub(super) async fn end(mut self, something: bool, events: &Emitter) {
        if !something {
            let _ = tokio::time::timeout(self.patience, self.told(events)).await;
        }
        match std::mem::replace(&mut self.state, State::Told) {
            State::Told => return,
            State::Later => {}
            State::Looking(task) => {
                task.abort();
                // Its directory goes with it.
                let _ = task.await;
            }
        }
        let found = if something {
            let look = self.look.clone().count();
            tokio::time::timeout(AT_THE_END, look).await.ok().flatten()
        } else {
            None
        };
        tell(found, events);
    }

    async fn told(&mut self, events: &Emitter) {
        if let State::Looking(task) = &mut self.state {
            let found = task.await.ok().flatten();
            self.state = State::Told;
            tell(found, events);
        }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        if let State::Looking(task) = &self.state {
            task.abort();
        }
    }
}

/// What a look needs.
#[derive(Debug, Clone)]
struct Look {
    repo: Repository,
    config: UserConfig,
    caller_home: Option<PathBuf>,
    cancel: CancellationToken,
    copied: Vec<PathBuf>,
    scratch: PathBuf,
}

impl Look {
    fn start(&self) -> JoinHandle<Option<usize>> {
        tokio::spawn(self.clone().count())
    }

    /// How many paths of the checkout the sandbox does not have; `None` where it could not be found out. What landed is
    /// committed, and so is what the user committed since the start.
    async fn count(self) -> Option<usize> {
        let rules = UserRules {
            config: Some(&self.config),
            caller_home: self.caller_home.as_deref(),
        };
        let head = self.repo.resolve("HEAD", &self.cancel).await.ok()??;
        let count = before::count(
            &self.repo,
            &head,
            (rules, &self.copied),
            self.scratch,
            &self.cancel,
        );
        count.await.ok()
    }
}

/// As git names it.
fn plain(path: &Path) -> PathBuf {
    let parts = path.components();
    parts.filter(|part| *part != Component::CurDir).collect()
}

/// Says what was found.
fn tell(paths: Option<usize>, events: &Emitter) {
    match paths {
        Some(0) => {}
        Some(paths) => events.notice(Notice::UncommittedOutside { paths }),
        None => events.notice(Notice::Other {
            text: "uncommitted changes of this checkout, if there are any, stayed outside"
                .to_owned(),
        }),
    }
}
