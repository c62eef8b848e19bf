//! What a file holds, as one number: whoever is inside gains nothing by another file with the same.

use std::io::{self, Read};
use std::os::fd::BorrowedFd;

use crate::sys;

/// File systems on which every change has a time, see [`cofferdam_guest::protocol::files::Print`]: ext4, XFS, Btrfs, F2FS,
/// bcachefs, as statfs(2) numbers them.
const WRITTEN_BACK: [u32; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0xca45_1a4e];

const WORD: usize = 8;
/// So much is read at once.
const SHARE: usize = 64 << 10;

/// Whether the time of its last change tells of every change of this file.
pub(super) fn has_true_time(file: BorrowedFd<'_>) -> bool {
    sys::file_system(file).is_ok_and(|kind| WRITTEN_BACK.contains(&kind))
}

/// Of everything that is left to be read.
pub(super) fn content(file: &mut impl Read) -> io::Result<u64> {
    let (mut number, mut buffer) = (Number::default(), vec![0u8; SHARE]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(number.end()),
            Ok(count) => number.add(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Numbers bytes, eight at a time, however they come. Another word in one place is always another number.
#[derive(Debug, Default)]
pub(super) struct Number {
    number: u64,
    /// The first bytes of a word whose others did not come yet, and how many.
    begun: ([u8; WORD], usize),
}

impl Number {
    pub(super) fn add(&mut self, mut bytes: &[u8]) {
        let (begun, held) = &mut self.begun;
        if *held > 0 {
            let (now, later) = bytes.split_at(bytes.len().min(WORD - *held));
            begun[*held..][..now.len()].copy_from_slice(now);
            *held += now.len();
            if *held < WORD {
                return;
            }
            self.number = mixed(self.number, *begun);
            bytes = later;
        }
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.number = mixed(self.number, *word);
        }
        begun[..rest.len()].copy_from_slice(rest);
        *held = rest.len();
    }

    /// Of all that was added. How much it was is told by its size.
    pub(super) fn end(self) -> u64 {
        let (mut begun, held) = self.begun;
        begun[held..].fill(0);
        mixed(self.number, begun)
    }
}

/// Each step can be undone, so that nothing is lost. The second product spreads what the first one leaves in few bits: the
/// upper ones of a word.
fn mixed(number: u64, word: [u8; WORD]) -> u64 {
    let first = (number ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let second = (first ^ (first >> 32)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    second ^ (second >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number_of(parts: &[&[u8]]) -> u64 {
        let mut number = Number::default();
        for part in parts {
            number.add(part);
        }
        number.end()
    }

    #[test]
    fn a_number_depends_on_the_bytes_alone() {
        let bytes: Vec<u8> = (0..100).collect();
        let whole = number_of(&[&bytes]);
        for at in 0..bytes.len() {
            let (first, rest) = bytes.split_at(at);
            let (second, third) = rest.split_at(rest.len() / 3);
            assert_eq!(number_of(&[first, second, third]), whole, "{at}");
        }
        assert_eq!(content(&mut &bytes[..]).unwrap(), whole);
    }

    #[test]
    fn other_bytes_are_another_number() {
        let bytes = [7u8; 30];
        let mut seen = std::collections::HashSet::from([number_of(&[&bytes])]);
        for bit in [1, 0x80] {
            for at in 0..bytes.len() {
                let mut other = bytes;
                other[at] ^= bit;
                assert!(seen.insert(number_of(&[&other])), "{at}");
                // A product alone leaves its upper bits where they are.
                if let Some(byte) = other.get_mut(at + WORD) {
                    *byte ^= bit;
                    assert!(seen.insert(number_of(&[&other])), "{at} and the next word");
                }
            }
        }
    }
}
