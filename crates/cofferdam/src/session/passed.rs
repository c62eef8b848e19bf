//! Which files have passed which check: they are not checked again.

use std::path::Path;

use sha2::{Digest, Sha256};

use crate::fsx;
use crate::git::Oid;
use crate::text::hex;

/// So many are known; older ones are checked again.
const MOST: usize = 1000;
const LONGEST: u64 = 1 << 20;

/// One tree and the command that it passed, in hex digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passed(String);

impl Passed {
    /// `rest`: the command, and whatever else decides how it ends.
    pub(super) fn new<'a>(tree: &'a Oid, rest: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for part in std::iter::once(tree.as_str()).chain(rest) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        Self(hex(&hash.finalize()))
    }

    /// `file`: where they are kept. What cannot be read is checked again.
    pub(super) fn is_known(&self, file: &Path) -> bool {
        let known = fsx::read_bounded(file, LONGEST).unwrap_or_default();
        known
            .split(|&byte| byte == b'\n')
            .any(|line| line == self.0.as_bytes())
    }

    /// One that is lost to another command that writes at the same time is checked again.
    pub(super) fn remember(&self, file: &Path) {
        let known = fsx::read_bounded(file, LONGEST).unwrap_or_default();
        let known = String::from_utf8_lossy(&known);
        let newest = std::iter::once(self.0.as_str()).chain(known.lines());
        let lines: String = newest.take(MOST).flat_map(|line| [line, "\n"]).collect();
        let _ = fsx::write_private(file, lines.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passed_is_known_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("passed");
        let tree = |digit: &str| digit.repeat(40).parse::<Oid>().unwrap();
        let one = Passed::new(&tree("1"), ["native", "", "make", "test"]);
        assert!(!one.is_known(&file));
        one.remember(&file);
        assert!(one.is_known(&file));
        for other in [
            Passed::new(&tree("2"), ["native", "", "make", "test"]),
            Passed::new(&tree("1"), ["docker", "", "make", "test"]),
            Passed::new(&tree("1"), ["native", "", "make"]),
            Passed::new(&tree("1"), ["native", "", "maket", "est"]),
        ] {
            assert!(!other.is_known(&file), "{other:?}");
        }
        for number in 0..MOST {
            Passed(number.to_string()).remember(&file);
        }
        assert!(!one.is_known(&file));
        assert!(Passed("7".to_owned()).is_known(&file));
    }
}
