//! Whose turn it is in a sandbox: a few calls work in one at once, and the others wait in the order in which they came. What answers for
//! a sandbox serves a few at once and sends others away, who would take it for gone.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::failure::Failure;

/// Calls that work in one sandbox at once, and programs in it that somebody waits for.
const WORKING: usize = 8;
const PROGRAMS: usize = 32;
/// Calls that wait for either, and for how long.
const WAITING: usize = 64;
const PATIENCE: Duration = Duration::from_mins(2);

/// A sandbox as calls name it: its repository, and its name there.
pub(super) type Whose = (PathBuf, String);

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Turns {
    doors: Arc<Mutex<HashMap<Whose, Weak<Door>>>>,
    /// Calls that compare what is in files, in any sandbox: they need a processor each.
    searching: Arc<Semaphore>,
}

#[derive(Debug)]
struct Door {
    working: Arc<Semaphore>,
    programs: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// What one call has of a sandbox until it ends.
#[derive(Debug)]
pub(super) struct Turn {
    door: Arc<Door>,
    /// It works.
    working: Option<OwnedSemaphorePermit>,
    /// It may wait for a program.
    program: Option<OwnedSemaphorePermit>,
}

impl Turns {
    pub(super) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            doors: Arc::default(),
            searching: Arc::new(Semaphore::new(processors)),
        }
    }

    /// At the door of a sandbox; nothing is taken yet.
    pub(super) fn at(&self, place: &Whose) -> Turn {
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        let door = doors.get(place).and_then(Weak::upgrade);
        let door = door.unwrap_or_else(|| {
            let door = Arc::new(Door {
                working: Arc::new(Semaphore::new(WORKING)),
                programs: Arc::new(Semaphore::new(PROGRAMS)),
                waiting: Arc::new(Semaphore::new(WAITING)),
            });
            doors.retain(|_, door| door.strong_count() > 0);
            doors.insert(place.clone(), Arc::downgrade(&door));
            door
        });
        Turn {
            door,
            working: None,
            program: None,
        }
    }

    /// The right to keep one processor busy. Whoever waits has a turn in a sandbox, which bounds how many do.
    pub(super) async fn search(
        &self,
        cancel: &CancellationToken,
    ) -> Result<OwnedSemaphorePermit, Failure> {
        taken(&self.searching, cancel).await.ok_or_else(busy)?
    }
}

impl Turn {
    /// Waits until there is room to work.
    pub(super) async fn work(&mut self, cancel: &CancellationToken) -> Result<(), Failure> {
        if self.working.is_none() {
            let working = in_line(&self.door, &self.door.working, cancel).await?;
            self.working = Some(working);
        }
        Ok(())
    }

    /// Waits until there is room to wait for one program more.
    pub(super) async fn program(&mut self, cancel: &CancellationToken) -> Result<(), Failure> {
        let program = in_line(&self.door, &self.door.programs, cancel).await?;
        self.program = Some(program);
        Ok(())
    }

    /// Another one may work while this one waits for its program.
    pub(super) fn stand_aside(&mut self) {
        self.working = None;
    }

    /// Works again in its turn, and where that is late without one: what was begun is to come to its end.
    pub(super) async fn work_again(&mut self) {
        let room = Arc::clone(&self.door.working).acquire_owned();
        if let Ok(Ok(working)) = tokio::time::timeout(PATIENCE, room).await {
            self.working = Some(working);
        }
    }
}

/// In the order in which they come; where too many wait, nobody more does.
async fn in_line(
    door: &Door,
    room: &Arc<Semaphore>,
    cancel: &CancellationToken,
) -> Result<OwnedSemaphorePermit, Failure> {
    if let Ok(taken) = Arc::clone(room).try_acquire_owned() {
        return Ok(taken);
    }
    let _waits = door.waiting.try_acquire().map_err(|_| busy())?;
    taken(room, cancel).await.ok_or_else(busy)?
}

/// `None`: not for very long.
async fn taken(
    room: &Arc<Semaphore>,
    cancel: &CancellationToken,
) -> Option<Result<OwnedSemaphorePermit, Failure>> {
    tokio::select! {
        taken = tokio::time::timeout(PATIENCE, Arc::clone(room).acquire_owned()) => taken.ok()?.ok().map(Ok),
        () = cancel.cancelled() => Some(Err(cancelled())),
    }
}

fn busy() -> Failure {
    Failure::new(
        "the sandbox is busy: too many calls at once are about it",
        "Call the tool again in a moment, and fewer at once.",
    )
}

pub(super) fn cancelled() -> Failure {
    Failure::new(
        "the call was cancelled",
        "Call the tool again if it is still wanted.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> Whose {
        ("/repository".into(), name.to_owned())
    }

    #[tokio::test]
    async fn so_many_work_and_the_others_wait_in_line() {
        let (turns, never) = (Turns::new(), CancellationToken::new());
        let mut working = Vec::new();
        for _ in 0..WORKING {
            let mut turn = turns.at(&place("one"));
            turn.work(&never).await.unwrap();
            working.push(turn);
        }
        // Another sandbox is another door.
        turns.at(&place("two")).work(&never).await.unwrap();
        let wait = |cancel: &CancellationToken| {
            let (mut turn, cancel) = (turns.at(&place("one")), cancel.clone());
            tokio::spawn(async move { turn.work(&cancel).await })
        };
        let gives_up = CancellationToken::new();
        let line: Vec<_> = (0..WAITING).map(|_| wait(&gives_up)).collect();
        while working[0].door.waiting.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = turns.at(&place("one")).work(&never).await.unwrap_err();
        assert!(format!("{refused:?}").contains("busy"), "{refused:?}");
        // Those that want nothing any more are gone at once.
        gives_up.cancel();
        for one in line {
            let refused = one.await.unwrap().unwrap_err();
            assert!(format!("{refused:?}").contains("cancelled"), "{refused:?}");
        }
        let last = wait(&never);
        while working[0].door.waiting.available_permits() == WAITING {
            tokio::task::yield_now().await;
        }
        assert!(!last.is_finished());
        // Who waits for a program makes room, and has its own again.
        working[0].stand_aside();
        last.await.unwrap().unwrap();
        working[0].work_again().await;
        assert_eq!(working[0].door.working.available_permits(), 0);
        drop(working);
        assert_eq!(
            turns.at(&place("one")).door.working.available_permits(),
            WORKING
        );
    }
}
