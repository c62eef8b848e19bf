//! `git push host` from a dev sandbox: a branch of the host's moves while the sandbox lives. Whoever watches its checkout answers, for as
//! long as that is watched. Every commit passes the gate; what is checked out does not move, and nothing moves but forward.

mod door;
mod known;
mod land;
mod pack;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_guest::protocol::push::{Answer, Question};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::emitter::Emitter;
use super::event::Notice;
use super::options::Caller;
use crate::names::SandboxId;
use door::{Asked, Door};
pub(super) use door::{is_ours, mounts};
use land::Refused;
pub(super) use pack::of_shelf;

/// So many pushes are looked at in so much time: each costs the host more than it costs the sandbox. And so many questions before.
const MOST: usize = 20;
const MOST_QUESTIONS: usize = 3 * MOST;
const TIME: Duration = Duration::from_mins(1);

/// Whose branches move.
#[derive(Debug, Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) caller: &'a Caller,
    pub(super) id: SandboxId,
    /// Told to whoever leaves.
    pub(super) events: &'a Emitter,
}

/// The way in, for as long as this value is there. On a thread of its own: whoever watches the checkout waits for no push.
#[derive(Debug)]
pub(super) struct Pushes {
    stop: CancellationToken,
}

impl Pushes {
    /// `state`: the state directory of the sandbox. Where nobody can be answered it is told.
    pub(super) fn begin(
        caller: &Caller,
        id: SandboxId,
        state: &Path,
        events: &Arc<Emitter>,
    ) -> Self {
        let stop = caller.cancel.child_token();
        let caller = Caller {
            cancel: stop.clone(),
            ..caller.clone()
        };
        let (state, told) = (state.to_owned(), Arc::clone(events));
        let serve = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let door = Door::open(&state)?;
                let of = Of {
                    caller: &caller,
                    id,
                    events: &told,
                };
                let taking = Taking {
                    door,
                    pushes: VecDeque::new(),
                    questions: VecDeque::new(),
                };
                tokio::select! {
                    never = taking.serve(of) => match never {},
                    () = caller.cancel.cancelled() => Ok(()),
                }
            })
        };
        let told = Arc::clone(events);
        let begun = std::thread::Builder::new().spawn(move || {
            let served: std::io::Result<()> = serve();
            if let Err(error) = served {
                tell(&told, &error);
            }
        });
        if let Err(error) = begun {
            tell(events, &error);
        }
        Self { stop }
    }
}

impl Drop for Pushes {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn tell(events: &Emitter, error: &std::io::Error) {
    let text = format!("nothing is pushed from inside: {error}");
    events.notice(Notice::Other { text });
}

/// Answers.
#[derive(Debug)]
struct Taking {
    door: Door,
    /// When the latest were taken.
    pushes: VecDeque<Instant>,
    questions: VecDeque<Instant>,
}

impl Taking {
    /// One after the other, for as long as it is polled.
    async fn serve(mut self, of: Of<'_>) -> Infallible {
        loop {
            let asked = self.door.next().await;
            let Some(Asked {
                question,
                mut caller,
            }) = asked
            else {
                continue;
            };
            let answer = match question {
                Question::Branches => {
                    let branches = match too_many(&mut self.questions, MOST_QUESTIONS) {
                        Some(refused) => Err(refused),
                        None => Box::pin(land::branches(of)).await,
                    };
                    branches.map_or_else(|refused| refused.into_answer(of), Answer::Branches)
                }
                Question::Push(push) => {
                    let moved = match too_many(&mut self.pushes, MOST) {
                        Some(refused) => Err(refused),
                        None => Box::pin(land::push(of, &push, &mut caller)).await,
                    };
                    moved.map_or_else(|refused| refused.into_answer(of), |()| Answer::Landed)
                }
            };
            caller.answer(&answer).await;
        }
    }
}

fn too_many(taken: &mut VecDeque<Instant>, most: usize) -> Option<Refused> {
    let now = Instant::now();
    while taken.front().is_some_and(|then| now - *then >= TIME) {
        taken.pop_front();
    }
    if let Some(first) = taken.front().filter(|_| taken.len() >= most) {
        let left = TIME.saturating_sub(now - *first).as_secs() + 1;
        return Some(Refused::TooMany { left });
    }
    taken.push_back(now);
    None
}
