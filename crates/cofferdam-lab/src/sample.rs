//! Which of many points a test tries: all of them, or a share that a seed chooses.
//!
//! `scripts/test` prints the seed and takes it again (`--seed`); `scripts/test --all` tries every point.

#![expect(
    clippy::disallowed_methods,
    reason = "tests take what to do from `scripts/test` by the environment"
)]

use std::time::SystemTime;

const SEED: &str = "COFFERDAM_TEST_SEED";
const ALL: &str = "COFFERDAM_TEST_ALL";
/// Set where somebody has named the tests that run.
const NAMED: &str = "COFFERDAM_TEST_NAMED";

/// Whether tests do what takes minutes too: `scripts/test --all`.
pub fn all() -> bool {
    std::env::var_os(ALL).is_some()
}

/// Whether somebody has named the tests that run: everybody has who runs them without `scripts/test`.
pub fn is_named() -> bool {
    std::env::var_os(SEED).is_none() || std::env::var_os(NAMED).is_some()
}

/// Whether a run of the whole suite leaves out what is called `name`, of which it tries one of each `share`. Whoever runs a test by
/// its name has all of it.
pub fn leaves_out(name: &str, share: u64) -> bool {
    !is_named() && !all() && Sample::new(name).below(share) != 0
}

/// A row of numbers that the seed and a name decide.
#[derive(Debug, Clone)]
pub struct Sample {
    seed: u64,
    state: u64,
    all: bool,
}

impl Sample {
    /// `name` makes tests with one seed choose apart.
    pub fn new(name: &str) -> Self {
        let given = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(now);
        let all = all();
        let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
        for byte in name.bytes() {
            // FNV-1a: seeds that differ by one, and names that differ by a letter, are far apart.
            state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Self {
            seed,
            state: state | 1,
            all,
        }
    }

    /// What a failure must say, so that the same points can be tried again.
    pub fn again(&self) -> String {
        let all = if self.all { "--all " } else { "" };
        format!("again by `scripts/test {all}--seed {}`", self.seed)
    }

    /// Whether the whole set is wanted, and what takes long at its true length.
    pub fn is_everything(&self) -> bool {
        self.all
    }

    /// A number less than `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % limit
    }

    /// One of each `share` neighbours of `points`, in order; all of them where the whole set is wanted.
    pub fn of<T>(&mut self, points: impl IntoIterator<Item = T>, share: u64) -> Vec<T> {
        let mut chosen = Vec::new();
        let (mut left, mut wanted) = (0, 0);
        for point in points {
            if left == 0 {
                (left, wanted) = (share, self.below(share));
            }
            left -= 1;
            if self.all || left == wanted {
                chosen.push(point);
            }
        }
        chosen
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(1, |since| u64::from(since.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::Sample;

    fn sample(seed: u64, all: bool) -> Sample {
        Sample {
            seed,
            state: seed,
            all,
        }
    }

    #[test]
    fn one_of_each_group_is_chosen_and_every_one_by_some_seed() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 1..200 {
            let chosen = sample(seed, false).of(0..40, 4);
            assert_eq!(chosen.len(), 10, "{seed}");
            for (group, point) in chosen.iter().enumerate() {
                assert_eq!(point / 4, group, "{seed}: {chosen:?}");
            }
            assert_eq!(chosen, sample(seed, false).of(0..40, 4), "{seed}");
            seen.extend(chosen);
        }
        assert_eq!(seen.len(), 40);
        assert_eq!(sample(1, true).of(0..40, 4), (0..40).collect::<Vec<_>>());
    }
}
