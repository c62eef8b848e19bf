//! How much of something a sandbox may have in a time: so much each second, and so many new names below a wildcard.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::HostName;

/// A token bucket.
#[derive(Debug)]
pub(super) struct Rate {
    pub(super) left: f64,
    burst: f64,
    each_second: f64,
    at: Instant,
}

impl Rate {
    /// `burst` at once, and `each_second` after that.
    pub(super) fn new(burst: f64, each_second: f64, now: Instant) -> Self {
        Self {
            left: burst,
            burst,
            each_second,
            at: now,
        }
    }

    pub(super) fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * self.each_second).min(self.burst);
        self.at = now;
        if self.left < 1.0 {
            return false;
        }
        self.left -= 1.0;
        true
    }
}

/// The lookups of one sandbox. What it is not given is counted.
#[derive(Debug)]
pub(super) struct Lookups {
    rate: Rate,
    left_out: u64,
    told: Option<Instant>,
}

impl Lookups {
    /// What programs that start with hundreds of parallel downloads do not reach.
    pub(super) const BURST: f64 = 2000.0;
    pub(super) const EACH_SECOND: f64 = 500.0;
    /// Between two times that it is told.
    const AGAIN: Duration = Duration::from_secs(1);

    pub(super) fn new(now: Instant) -> Self {
        Self {
            rate: Rate::new(Self::BURST, Self::EACH_SECOND, now),
            left_out: 0,
            told: None,
        }
    }

    /// Whether one more is answered; with it how many were not, when it is time to tell.
    pub(super) fn take(&mut self, now: Instant) -> (bool, Option<u64>) {
        let answered = self.rate.take(now);
        self.left_out += u64::from(!answered);
        let due = self
            .told
            .is_none_or(|told| now.saturating_duration_since(told) >= Self::AGAIN);
        if self.left_out == 0 || !due {
            return (answered, None);
        }
        self.told = Some(now);
        (answered, Some(std::mem::take(&mut self.left_out)))
    }
}

/// The names that were asked for below each wildcard. Who asks for ever new ones talks to the name servers of
/// that domain: the names are the message.
#[derive(Debug, Default)]
pub(super) struct Below {
    windows: HashMap<HostName, Window>,
}

#[derive(Debug)]
struct Window {
    since: Instant,
    names: HashSet<HostName>,
}

impl Below {
    /// Different names below one wildcard in a [`Below::TIME`]; a page of a CDN has some tens.
    pub(super) const MOST: usize = 120;
    const TIME: Duration = Duration::from_secs(60);

    /// Whether this name, below `*.apex`, is not one too many.
    pub(super) fn admit(&mut self, apex: &HostName, name: &HostName, now: Instant) -> bool {
        let window = self.windows.entry(apex.clone()).or_insert_with(|| Window {
            since: now,
            names: HashSet::new(),
        });
        if now.saturating_duration_since(window.since) >= Self::TIME {
            window.since = now;
            window.names.clear();
        }
        if window.names.contains(name) {
            return true;
        }
        window.names.len() < Self::MOST && window.names.insert(name.clone())
    }

    /// Why one is not admitted.
    pub(super) fn reason(name: &HostName) -> String {
        format!(
            "{name}: more than {} names below its wildcard were asked for within a minute",
            Self::MOST
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_so_many_each_second() {
        let start = Instant::now();
        let mut rate = Rate::new(1000.0, 200.0, start);
        let passed = |rate: &mut Rate, at| (0..5000).filter(|_| rate.take(at)).count();
        assert_eq!(passed(&mut rate, start), 1000);
        assert_eq!(passed(&mut rate, start + Duration::from_secs(2)), 400);
        assert_eq!(passed(&mut rate, start + Duration::from_secs(1000)), 1000);
    }

    #[test]
    fn lookups_that_are_too_many_are_told_once_a_second_and_none_is_lost() {
        let start = Instant::now();
        let mut lookups = Lookups::new(start);
        let mut flood = |at| {
            let taken: Vec<_> = (0..5000).map(|_| lookups.take(at)).collect();
            let answered = taken.iter().filter(|(answered, _)| *answered).count();
            let told: Vec<u64> = taken.iter().filter_map(|(_, told)| *told).collect();
            (answered, told)
        };
        assert_eq!(flood(start), (2000, vec![1]));
        assert_eq!(flood(start + Duration::from_millis(500)), (250, vec![]));
        let (answered, told) = flood(start + Duration::from_secs(1));
        assert_eq!((answered, told), (250, vec![2999 + 4750]));
    }

    #[test]
    fn new_names_below_one_wildcard_are_bounded_and_others_are_not_hurt() {
        let start = Instant::now();
        let mut below = Below::default();
        let name = |text: &str| text.parse::<HostName>().unwrap();
        let (one, other) = (name("one.test"), name("other.test"));
        for number in 0..Below::MOST {
            assert!(below.admit(&one, &name(&format!("n{number}.one.test")), start));
        }
        let more = name("more.one.test");
        let later = start + Duration::from_secs(59);
        assert!(!below.admit(&one, &more, later));
        assert!(below.admit(&one, &name("n7.one.test"), later));
        assert!(below.admit(&other, &name("n0.other.test"), later));
        assert!(below.admit(&one, &more, start + Duration::from_secs(60)));
    }
}
