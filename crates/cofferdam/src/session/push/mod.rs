//! `git push host` from a dev sandbox: a branch of the host's moves while the sandbox lives. Whoever watches its checkout answers, for as
//! long as that is watched. Every commit passes the gate; what is checked out does not move, and nothing moves but forward.

mod door;
mod known;
mod land;
mod pack;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use cofferdam_guest::protocol::push::{Answer, Question};
use tokio::time::Instant;

use super::emitter::Emitter;
use super::options::Caller;
use crate::names::SandboxId;
use door::{Asked, Door};
pub(super) use door::{is_ours, mounts};
use land::Refused;

/// So many pushes are looked at in so much time: each costs the host more than it costs the sandbox.
const MOST: usize = 20;
const TIME: Duration = Duration::from_mins(1);

/// Whose branches move.
#[derive(Debug, Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) caller: &'a Caller,
    pub(super) id: SandboxId,
    /// Told to whoever leaves.
    pub(super) events: &'a Emitter,
}

/// The way in, for one watcher.
#[derive(Debug)]
pub(super) struct Pushes {
    door: Door,
    /// When the latest were taken.
    taken: VecDeque<Instant>,
}

impl Pushes {
    /// `state`: the state directory of the sandbox.
    pub(super) fn open(state: &Path) -> std::io::Result<Self> {
        let door = Door::open(state)?;
        let taken = VecDeque::new();
        Ok(Self { door, taken })
    }

    /// Answers one after the other, for as long as it is polled.
    pub(super) async fn serve(mut self, of: Of<'_>) -> Infallible {
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
                Question::Branches => match land::branches(of).await {
                    Ok(branches) => Answer::Branches(branches),
                    Err(refused) => refused.into_answer(of),
                },
                Question::Push(push) => {
                    let moved = match self.too_many() {
                        Some(refused) => Err(refused),
                        None => Box::pin(land::push(of, &push, &mut caller)).await,
                    };
                    moved.map_or_else(|refused| refused.into_answer(of), |()| Answer::Landed)
                }
            };
            caller.answer(&answer).await;
        }
    }

    fn too_many(&mut self) -> Option<Refused> {
        let now = Instant::now();
        while self.taken.front().is_some_and(|then| now - *then >= TIME) {
            self.taken.pop_front();
        }
        if let Some(first) = self.taken.front().filter(|_| self.taken.len() >= MOST) {
            let left = TIME.saturating_sub(now - *first).as_secs() + 1;
            return Some(Refused::TooMany { left });
        }
        self.taken.push_back(now);
        None
    }
}
