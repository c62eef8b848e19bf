//! The memory of one sandbox for what its programs have begun to say and not ended: heads of requests, client
//! hellos.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Of one sandbox. What it does not give is not kept: the connection ends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budget(Arc<AtomicUsize>);

/// There is no more of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too much that was begun and not ended waits in other connections of this sandbox")]
pub(crate) struct Spent;

impl Budget {
    /// In bytes.
    pub(crate) const MOST: usize = 64 << 20;

    /// Nothing yet, and the right to ask for more.
    pub(crate) fn share(&self) -> Share {
        Share {
            budget: self.clone(),
            bytes: 0,
        }
    }

    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one connection holds of it, given back with this value.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Budget,
    bytes: usize,
}

impl Share {
    /// Makes it so many bytes in all.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), Spent> {
        if bytes > self.bytes {
            let more = bytes - self.bytes;
            let before = self.budget.0.fetch_add(more, Ordering::Relaxed);
            if before + more > Budget::MOST {
                self.budget.0.fetch_sub(more, Ordering::Relaxed);
                return Err(Spent);
            }
        } else {
            let less = self.bytes - bytes;
            self.budget.0.fetch_sub(less, Ordering::Relaxed);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_taken_again_and_nothing_beyond() {
        let budget = Budget::default();
        let (mut one, mut two) = (budget.share(), budget.share());
        assert_eq!(one.set(Budget::MOST - 10), Ok(()));
        assert_eq!(two.set(11), Err(Spent));
        assert_eq!(two.set(10), Ok(()));
        assert_eq!(one.set(5), Ok(()));
        assert_eq!(budget.taken(), 15);
        drop((one, two));
        assert_eq!(budget.taken(), 0);
    }
}
