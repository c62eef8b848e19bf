//! About what a layer takes on disk.

use std::collections::HashSet;

use super::write::split;
use crate::git::index::format::GITLINK;

const BLOCK: u64 = 4096;
const INODE: u64 = 256;

/// A sum of all that lies in a layer: whole blocks, and an inode each. Many file systems need less for what is small; none
/// that layers may be on needs much more.
#[derive(Debug, Default)]
pub(super) struct Takes<'a> {
    directories: HashSet<&'a [u8]>,
    bytes: u64,
}

impl<'a> Takes<'a> {
    /// A file or symlink of this size, or a submodule, which is an empty directory.
    pub(super) fn path(&mut self, path: &'a [u8], mode: u32, size: u64) {
        if mode == GITLINK {
            self.directory(path);
        } else {
            self.bytes += size.div_ceil(BLOCK) * BLOCK + INODE;
            self.directory(split(path).0);
        }
    }

    /// A device has no blocks.
    pub(super) fn whiteout(&mut self, path: &'a [u8]) {
        self.bytes += INODE;
        self.directory(split(path).0);
    }

    /// With those above it, up to the top.
    fn directory(&mut self, mut path: &'a [u8]) {
        while self.directories.insert(path) && !path.is_empty() {
            path = split(path).0;
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.directories.len() as u64 * (BLOCK + INODE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_count_once_and_whiteouts_have_no_blocks() {
        let mut takes = Takes::default();
        assert_eq!(takes.bytes(), 0);
        takes.path(b"a/b/one", 0o100_644, 1);
        takes.path(b"a/b/two", 0o100_755, 4097);
        takes.path(b"a/empty", 0o100_644, 0);
        // Three blocks and three files, and the directories `a/b`, `a` and the top.
        let before = 3 * BLOCK + 3 * INODE + 3 * (BLOCK + INODE);
        assert_eq!(takes.bytes(), before);
        takes.path(b"a/submodule", GITLINK, 0);
        takes.whiteout(b"a/gone");
        takes.whiteout(b"c/gone");
        assert_eq!(takes.bytes(), before + 2 * (BLOCK + INODE) + 2 * INODE);
    }
}
