//! How often and how fast a gateway that ends is replaced.

use std::time::Duration;

/// A gateway that lived so long is no part of a series of ends.
const CALM: Duration = Duration::from_secs(60);
/// So many ends in a series, and the sandbox has lost its network.
const ATTEMPTS: u32 = 10;
/// The second attempt of a series waits so long, each later one twice as long as the one before.
const BACKOFF: Duration = Duration::from_millis(20);

/// The ends of one sandbox's gateways that came fast after each other.
#[derive(Debug, Default)]
pub struct Series {
    ends: u32,
}

impl Series {
    /// A gateway ended that had lived so long.
    pub fn ended_after(&mut self, lived: Duration) {
        if lived >= CALM {
            self.ends = 0;
        }
    }

    /// Counts an attempt, and says how long to wait before it. `None`: there were enough.
    pub fn attempt(&mut self) -> Option<Duration> {
        if self.is_over() {
            return None;
        }
        let doublings = self.ends.checked_sub(1);
        self.ends += 1;
        Some(doublings.map_or(Duration::ZERO, |doublings| {
            BACKOFF * 2u32.saturating_pow(doublings)
        }))
    }

    /// Whether there is no further attempt.
    pub fn is_over(&self) -> bool {
        self.ends >= ATTEMPTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_slower_and_slower_and_end() {
        let mut series = Series::default();
        let waits: Vec<_> = std::iter::from_fn(|| series.attempt()).collect();
        let millis: Vec<_> = waits.iter().map(Duration::as_millis).collect();
        assert_eq!(millis, [0, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120]);
        assert!(series.is_over());
        series.ended_after(CALM / 2);
        assert_eq!(series.attempt(), None);
        series.ended_after(CALM);
        assert_eq!(series.attempt(), Some(Duration::ZERO));
    }
}
