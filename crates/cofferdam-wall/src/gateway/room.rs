//! Room for connections, by the descriptors that the process may have: a part is kept for each sandbox, whatever
//! the others do, and one sandbox cannot take all of the rest.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::EventfdFlags;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections of one sandbox that are still on their way: read for a name, resolved, dialled.
const OPENING: usize = 1024;

/// The room of the process.
#[derive(Debug)]
pub(super) struct Places {
    /// Sandboxes for which a part is kept.
    seats: Arc<Semaphore>,
    shared: Arc<Semaphore>,
    /// Of what is shared.
    for_one: usize,
    spare: Arc<Spare>,
}

/// The room of one sandbox.
#[derive(Debug)]
pub(super) struct Seat {
    own: Arc<Semaphore>,
    /// What this sandbox may still take of what is shared.
    more: Arc<Semaphore>,
    shared: Arc<Semaphore>,
    opening: Arc<Semaphore>,
    /// Of the process.
    pub(super) spare: Arc<Spare>,
    _kept: OwnedSemaphorePermit,
}

/// What a connection holds as long as it lives, and as long as it is on its way.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) opening: OwnedSemaphorePermit,
    pub(super) open: Open,
}

/// A place that was kept for the sandbox, or one of those that are shared.
#[derive(Debug)]
pub(super) struct Open {
    _place: OwnedSemaphorePermit,
    _shared: Option<OwnedSemaphorePermit>,
}

impl Places {
    /// What else the process has open.
    const OTHER_DESCRIPTORS: usize = 1024;
    const MOST: usize = 100_000;
    /// Connections that a sandbox can have in any case.
    const KEPT: usize = 64;
    /// What a sandbox has open without a connection, counted as connections.
    const OTHERS: usize = 4;

    pub(super) fn new(descriptors: Option<u64>) -> Self {
        let most = descriptors.map_or(Self::MOST, |most| {
            usize::try_from(most).unwrap_or(Self::MOST)
        });
        // A connection has two.
        let room = (most.saturating_sub(Self::OTHER_DESCRIPTORS) / 2).clamp(64, Self::MOST);
        let shared = room / 2;
        let seats = ((room - shared) / (Self::KEPT + Self::OTHERS)).max(1);
        Self {
            seats: Arc::new(Semaphore::new(seats)),
            shared: Arc::new(Semaphore::new(shared)),
            for_one: shared / 2,
            spare: Arc::new(Spare::new()),
        }
    }

    /// Keeps a part for one more sandbox; none if there is none left to keep.
    pub(super) fn seat(&self) -> Option<Seat> {
        let seat = Arc::clone(&self.seats).try_acquire_owned().ok()?;
        Some(Seat {
            own: Arc::new(Semaphore::new(Self::KEPT)),
            more: Arc::new(Semaphore::new(self.for_one)),
            shared: Arc::clone(&self.shared),
            opening: Arc::new(Semaphore::new(OPENING)),
            spare: Arc::clone(&self.spare),
            _kept: seat,
        })
    }
}

impl Seat {
    /// Room for one more connection.
    pub(super) fn take(&self) -> Option<Room> {
        let one = |of: &Arc<Semaphore>| Arc::clone(of).try_acquire_owned().ok();
        let opening = one(&self.opening)?;
        let open = match one(&self.own) {
            Some(wanted) => Open {
                _place: wanted,
                _shared: None,
            },
            None => Open {
                _place: one(&self.more)?,
                _shared: Some(one(&self.shared)?),
            },
        };
        Some(Room { opening, open })
    }
}

/// A descriptor that is kept for the moment in which there is no other: a connection that cannot be carried is
/// then still taken in and reset, instead of waiting for ever.
#[derive(Debug)]
pub(super) struct Spare(Mutex<Option<OwnedFd>>);

impl Spare {
    fn new() -> Self {
        Self(Mutex::new(Self::keep()))
    }

    fn keep() -> Option<OwnedFd> {
        rustix::event::eventfd(0, EventfdFlags::CLOEXEC).ok()
    }

    /// Calls this while the descriptor is free; it gives it back.
    pub(super) fn lend<T>(&self, to: impl FnOnce() -> T) -> T {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(spare.take());
        let done = to();
        *spare = Self::keep();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that a sandbox can get, and how much it was.
    fn greedy(seat: &Seat) -> Vec<Open> {
        std::iter::from_fn(|| seat.take().map(|room| room.open)).collect()
    }

    // Attack: some sandboxes take every connection, and no other one can even prove its wall.
    #[test]
    fn every_sandbox_has_its_part_whatever_the_others_take() {
        let places = Places::new(Some(4096));
        let seats: Vec<Seat> = std::iter::from_fn(|| places.seat()).collect();
        assert_eq!(seats.len(), 11);
        let taken: Vec<_> = seats.iter().map(greedy).collect();
        let counts: Vec<_> = taken.iter().map(Vec::len).collect();
        assert_eq!(counts, [448, 448, 64, 64, 64, 64, 64, 64, 64, 64, 64]);
        // All of it at once is what the descriptors are enough for.
        let descriptors = counts.iter().sum::<usize>() * 2 + seats.len() * Places::OTHERS * 2;
        assert!(descriptors <= 4096 - Places::OTHER_DESCRIPTORS);
        drop(taken);
        drop(seats);
        assert!(places.seat().is_some());
    }

    /// The numbers of docs/network.md.
    #[test]
    fn how_many_connections_one_sandbox_has() {
        for (descriptors, connections) in [(20_000, 2_436), (80_512, 10_000), (524_288, 25_064)] {
            let seat = Places::new(Some(descriptors)).seat().unwrap();
            // Idle ones: what is on its way is bounded apart.
            let all: Vec<_> = std::iter::from_fn(|| seat.take().map(|room| room.open)).collect();
            assert_eq!(all.len(), connections, "{descriptors}");
        }
    }

    #[test]
    fn few_descriptors_are_room_for_a_sandbox_and_many_for_hundreds() {
        assert!(Places::new(Some(40)).seat().is_some());
        let places = Places::new(None);
        let seats: Vec<Seat> = std::iter::from_fn(|| places.seat()).collect();
        assert_eq!(seats.len(), 363);
    }
}
