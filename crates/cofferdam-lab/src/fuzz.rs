//! Hostile bytes by mutation, for parsers: seeds that are well formed, changed a little, again and again.
//!
//! In the ordinary suite a few thousand from a fixed number; `scripts/fuzz` lets it run for minutes from a number that
//! it prints. No coverage guides it: that needs a nightly compiler.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "reads how long to run, and says from which number"
)]

use std::time::{Duration, Instant, SystemTime};

/// Seconds for each target. Without it the fixed part runs.
const SECONDS: &str = "COFFERDAM_FUZZ_SECONDS";
/// A number that an earlier run printed.
const NUMBER: &str = "COFFERDAM_FUZZ_NUMBER";
const FIXED: u64 = 4096;
const LONGEST: usize = 64 << 10;

/// What is remarkable to parsers of numbers.
const EDGES: [u8; 9] = [0, 1, 0x0a, 0x0d, 0x7f, 0x80, 0xc0, 0xfe, 0xff];

/// Calls the target with one changed seed after the other. A panic of the target fails the test, with the number and
/// the bytes before it.
pub fn mutate(name: &str, seeds: &[Vec<u8>], mut target: impl FnMut(&[u8])) {
    let setting = |key| std::env::var(key).ok().and_then(|text| text.parse().ok());
    let seconds: Option<u64> = setting(SECONDS);
    let clock = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(1, |since| u64::try_from(since.as_nanos()).unwrap_or(1))
    };
    let number = setting(NUMBER).unwrap_or_else(|| seconds.map_or(1, |_| clock()));
    if seconds.is_some() {
        eprintln!("{name}: {NUMBER}={number}");
    }
    let mut random = Random(number | 1);
    let mut bytes = Current {
        name,
        number,
        bytes: Vec::new(),
    };
    let (start, mut count) = (Instant::now(), 0);
    for seed in seeds {
        bytes.bytes.clone_from(seed);
        target(seed);
    }
    loop {
        match seconds {
            Some(seconds) if start.elapsed() >= Duration::from_secs(seconds) => break,
            None if count == FIXED => break,
            _ => count += 1,
        }
        let seed = &seeds[random.below(seeds.len())];
        bytes.bytes.clone_from(seed);
        for _ in 0..=random.below(6) {
            random.change(&mut bytes.bytes, seeds);
        }
        bytes.bytes.truncate(LONGEST);
        target(&bytes.bytes);
    }
    if seconds.is_some() {
        eprintln!("{name}: {count} inputs");
    }
}

/// Tells what was tried when the target panics.
struct Current<'a> {
    name: &'a str,
    number: u64,
    bytes: Vec<u8>,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (name, number) = (self.name, self.number);
            eprintln!("{name}: {NUMBER}={number}: {}", self.bytes.escape_ascii());
        }
    }
}

/// xorshift64*: any sequence does.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next()).unwrap_or(0) % most.max(1)
    }

    fn byte(&mut self) -> u8 {
        match self.below(2) {
            0 => EDGES[self.below(EDGES.len())],
            _ => self.next().to_le_bytes()[0],
        }
    }

    /// One change: of a bit or byte, of the length, of the order, or a piece of another seed.
    fn change(&mut self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.below(bytes.len());
        let end = (at + 1 + self.below(16)).min(bytes.len());
        match self.below(8) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            1 if !bytes.is_empty() => bytes[at] = self.byte(),
            2 => bytes.insert(at, self.byte()),
            3 if at < end => drop(bytes.drain(at..end)),
            4 => bytes.truncate(at),
            5 if at < end => {
                let again = bytes[at..end].to_vec();
                for _ in 0..=self.below(64) {
                    bytes.splice(at..at, again.iter().copied());
                }
            }
            6 if at < end => bytes[at..end].reverse(),
            _ => {
                let other = &seeds[self.below(seeds.len())];
                let from = self.below(other.len());
                bytes.splice(at.., other[from..].iter().copied());
            }
        }
    }
}
