//! Who may be connected over HTTP at once: those who know the word, and for a moment those who have not said it yet, who take no seat
//! of theirs. Of strangers the oldest gives way: only who comes hundreds of times a second is in the way of somebody new.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// So many of either at once.
const MOST: usize = 64;

#[derive(Debug, Clone)]
pub(super) struct Seats {
    known: Arc<Semaphore>,
    /// Oldest first.
    strangers: Arc<Mutex<VecDeque<(u64, CancellationToken)>>>,
    next: u64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Guest {
    number: u64,
    seats: Seats,
    seat: Mutex<Option<OwnedSemaphorePermit>>,
    /// It has to go.
    pub(super) leave: CancellationToken,
}

impl Seats {
    pub(super) fn new() -> Self {
        Self {
            known: Arc::new(Semaphore::new(MOST)),
            strangers: Arc::default(),
            next: 0,
        }
    }

    /// Somebody comes. Where there are too many strangers, the one goes who has been one for longest.
    pub(super) fn come(&mut self, stop: &CancellationToken) -> Guest {
        let (number, leave) = (self.next, stop.child_token());
        self.next += 1;
        let mut strangers = lock(&self.strangers);
        strangers.push_back((number, leave.clone()));
        if strangers.len() > MOST
            && let Some((_, oldest)) = strangers.pop_front()
        {
            oldest.cancel();
        }
        drop(strangers);
        Guest {
            number,
            seats: self.clone(),
            seat: Mutex::new(None),
            leave,
        }
    }
}

impl Guest {
    /// They have said the word. Whether there is room for them.
    pub(super) fn is_seated(&self) -> bool {
        let mut seat = lock(&self.seat);
        if seat.is_none() {
            *seat = Arc::clone(&self.seats.known).try_acquire_owned().ok();
            if seat.is_some() {
                self.is_no_stranger();
            }
        }
        seat.is_some()
    }

    fn is_no_stranger(&self) {
        lock(&self.seats.strangers).retain(|(number, _)| *number != self.number);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.is_no_stranger();
    }
}

fn lock<T>(what: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_give_way_to_each_other_and_take_no_seat() {
        let (mut seats, stop) = (Seats::new(), CancellationToken::new());
        let first = seats.come(&stop);
        assert!(first.is_seated());
        let strangers: Vec<Guest> = (0..=MOST).map(|_| seats.come(&stop)).collect();
        let gone: Vec<bool> = strangers
            .iter()
            .map(|one| one.leave.is_cancelled())
            .collect();
        assert!(gone[0] && !gone[1..].contains(&true));
        assert!(!first.leave.is_cancelled());
        assert!(strangers[1..MOST].iter().all(Guest::is_seated));
        // All are taken.
        assert!(!strangers[MOST].is_seated());
        drop(first);
        assert!(strangers[MOST].is_seated());
        drop(strangers);
        assert!(lock(&seats.strangers).is_empty());
        assert_eq!(seats.known.available_permits(), MOST);
    }
}
