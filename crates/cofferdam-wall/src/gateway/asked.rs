//! What a program asks for once and its resolver several times: for both families of addresses, again
//! over TCP, again because the answer was no. The log has it once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::dns::Resolution;
use crate::{HostName, Reason};

/// What is asked again within this time is the same lookup.
const ONE_LOOKUP: Duration = Duration::from_secs(2);
/// So many are remembered. Where more are asked at once, each question is told.
const MOST: usize = 256;

/// Lookups that were told a moment ago.
#[derive(Debug, Default)]
pub(super) struct Asked {
    told: HashMap<(Answered, Option<HostName>), Instant>,
}

/// What came of a lookup, without its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Answered {
    Refused,
    Full,
    TooMany,
    NotAHostName,
    Unsupported,
    Malformed,
    Known,
}

impl Asked {
    /// Whether it is another lookup than those of a moment ago, which then have been told.
    pub(super) fn is_new(&mut self, outcome: &Resolution, now: Instant) -> bool {
        let is_recent = |told: Instant| now.saturating_duration_since(told) < ONE_LOOKUP;
        let key = key(outcome);
        if self.told.get(&key).is_some_and(|told| is_recent(*told)) {
            return false;
        }
        if self.told.len() >= MOST {
            self.told.retain(|_, told| is_recent(*told));
        }
        if self.told.len() < MOST {
            self.told.insert(key, now);
        }
        true
    }
}

fn key(outcome: &Resolution) -> (Answered, Option<HostName>) {
    match outcome {
        Resolution::Refused(refusal) => match &refusal.reason {
            Reason::NameNotAllowed(name) | Reason::LongBelow(name) => {
                (Answered::Refused, Some(name.clone()))
            }
            _ => (Answered::Refused, None),
        },
        Resolution::Full(name, _) => (Answered::Full, Some(name.clone())),
        Resolution::TooMany(name) => (Answered::TooMany, Some(name.clone())),
        Resolution::NotAHostName => (Answered::NotAHostName, None),
        Resolution::Unsupported => (Answered::Unsupported, None),
        Resolution::Malformed => (Answered::Malformed, None),
        Resolution::Address(name, _) | Resolution::NoRecord(name, _) => {
            (Answered::Known, Some(name.clone()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn too_many(name: &str) -> Resolution {
        Resolution::TooMany(name.parse().unwrap())
    }

    #[test]
    fn what_is_asked_again_at_once_is_one_lookup() {
        let mut asked = Asked::default();
        let start = Instant::now();
        let later = |millis| start + Duration::from_millis(millis);
        let one = too_many("one.test");
        assert!(asked.is_new(&one, start));
        assert!(!asked.is_new(&one, start));
        assert!(!asked.is_new(&one, later(1999)));
        assert!(asked.is_new(&too_many("two.test"), later(1)));
        assert!(asked.is_new(&Resolution::Malformed, later(1)));
        // A program that goes on asking is heard again, and not once for all time.
        assert!(asked.is_new(&one, later(2000)));
        assert!(!asked.is_new(&one, later(3000)));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_nothing_is_lost_by_that() {
        let mut asked = Asked::default();
        let start = Instant::now();
        for number in 0..MOST * 4 {
            assert!(asked.is_new(&too_many(&format!("n{number}.test")), start));
        }
        assert_eq!(asked.told.len(), MOST);
        assert!(asked.is_new(&too_many("last.test"), start));
        let later = start + ONE_LOOKUP;
        assert!(asked.is_new(&too_many("last.test"), later));
        assert!(!asked.is_new(&too_many("last.test"), later));
        assert_eq!(asked.told.len(), 1);
    }
}
