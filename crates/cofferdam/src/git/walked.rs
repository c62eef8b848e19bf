//! The files of a checkout beside what its index says of them, by the walk that looks at each of them anyway
//! ([`super::nested`]). What is beyond doubt, git is not asked again: it would look at all files once more.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::Digest;

use super::hex::hex;
use super::index::format::{Entry, Stat, parse};
use super::inodes;
use super::{ObjectFormat, Oid};
use crate::fsx;

/// A larger index than this is left to git.
const LIMIT: u64 = 2 << 30;

/// Where an index is.
#[derive(Debug, Clone)]
pub struct IndexAt {
    /// The index file.
    pub path: PathBuf,
    /// The hash that the objects are named by.
    pub format: ObjectFormat,
}

/// What differs from an index, or may differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    /// What the index adds up to.
    pub tree: Oid,
    /// Files that are not, beyond doubt, as it says; directories that are gone with all that they had.
    pub doubtful: BTreeSet<PathBuf>,
    /// What is there and is not in it, without what is below such a directory.
    pub untracked: BTreeSet<PathBuf>,
}

/// The bytes of an index, and when it was written, in seconds.
#[derive(Debug)]
pub(super) struct Read {
    bytes: Vec<u8>,
    format: ObjectFormat,
    written: i64,
}

impl Read {
    /// `None` where it cannot be read: git says why.
    pub(super) fn from(at: &IndexAt) -> Option<Self> {
        // Before it is read: one that takes its place meanwhile is younger, and what is asked is whether files are older.
        let written = fs::symlink_metadata(&at.path).ok()?.mtime();
        let bytes = fsx::read_bounded(&at.path, LIMIT).ok()?;
        let format = at.format;
        Some(Self {
            bytes,
            format,
            written,
        })
    }

    pub(super) fn expected(&self) -> Option<Expected<'_>> {
        let index = parse(&self.bytes, self.format).ok()?;
        let tree = hex(index.root_tree(self.format)?).parse().ok()?;
        let is_plain = |entry: &Entry<'_>| {
            let is_file = matches!(entry.mode, 0o100_644 | 0o100_755 | 0o120_000);
            let is_looked_at = !entry.assume_valid && !entry.skip_worktree && !entry.intent_to_add;
            is_file && is_looked_at && entry.stage == 0
        };
        let whole = !index.sparse && index.shared.is_none() && index.entries.iter().all(is_plain);
        let empty = b"blob 0\0";
        whole.then_some(Expected {
            entries: index.entries,
            tree,
            written: self.written,
            empty: match self.format {
                ObjectFormat::Sha1 => sha1::Sha1::digest(empty).to_vec(),
                ObjectFormat::Sha256 => sha2::Sha256::digest(empty).to_vec(),
            },
        })
    }
}

/// What an index says of files.
#[derive(Debug)]
pub(super) struct Expected<'a> {
    /// In git's order: by the bytes of the paths.
    entries: Vec<Entry<'a>>,
    tree: Oid,
    written: i64,
    /// The raw id of an empty file.
    empty: Vec<u8>,
}

/// What directories have, beside what is expected there.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// Entries of the index that were compared with something.
    met: usize,
    doubtful: BTreeSet<PathBuf>,
    untracked: BTreeSet<PathBuf>,
}

impl Expected<'_> {
    /// One directory: its files and links, and the paths of its directories.
    pub(super) fn compare(
        &self,
        directory: &Path,
        files: &[inodes::Entry],
        directories: &[PathBuf],
    ) -> Compared {
        let mut compared = Compared::default();
        let mut within = directory.as_os_str().as_bytes().to_vec();
        if !within.is_empty() {
            within.push(b'/');
        }
        let below = self.below(&within);
        if below.is_empty() && !within.is_empty() {
            // It is untracked itself, or in one that is.
            return compared;
        }
        let mut here: HashMap<&[u8], &Entry<'_>> = HashMap::new();
        let mut deeper: BTreeSet<&[u8]> = BTreeSet::new();
        for entry in below {
            let name = &entry.path[within.len()..];
            match name.iter().position(|&byte| byte == b'/') {
                Some(end) => deeper.insert(&name[..end]),
                None => here.insert(name, entry).is_none(),
            };
        }
        let at = |name: &[u8]| directory.join(OsStr::from_bytes(name));
        for file in files {
            let name = file.name().as_bytes();
            match here.remove(name) {
                Some(entry) => {
                    compared.met += 1;
                    if !self.is_same(entry, file) {
                        compared.doubtful.insert(at(name));
                    }
                }
                None => {
                    compared.untracked.insert(at(name));
                }
            }
        }
        for path in directories {
            let name = path.file_name().unwrap_or_default();
            if !deeper.remove(name.as_bytes()) {
                compared.untracked.insert(path.clone());
            }
        }
        compared.met += here.len();
        compared.doubtful.extend(here.into_keys().map(at));
        for name in deeper {
            let gone = [&within, name, b"/"].concat();
            compared.met += self.below(&gone).len();
            compared.doubtful.insert(at(name));
        }
        compared
    }

    fn below(&self, directory: &[u8]) -> &[Entry<'_>] {
        let begin = (self.entries).partition_point(|entry| *entry.path < *directory);
        let rest = &self.entries[begin..];
        let count = rest.partition_point(|entry| entry.path.starts_with(directory));
        &rest[..count]
    }

    /// More must be equal than git asks for, whatever its settings are. A file that changed in the second in which the index
    /// was written may have changed afterwards; where git is to look into one, its index says that it is empty.
    fn is_same(&self, entry: &Entry<'_>, file: &inodes::Entry) -> bool {
        let stat = Stat {
            dev: entry.stat.dev,
            ..file.stat()
        };
        entry.mode == file.mode_in_git()
            && entry.stat == stat
            && i64::from(stat.mtime[0]) < self.written
            && (stat.size != 0 || *entry.oid == *self.empty)
    }

    /// `None` where there is something that was not seen.
    pub(super) fn conclude(self, compared: Compared) -> Option<Walked> {
        (compared.met == self.entries.len()).then_some(Walked {
            tree: self.tree,
            doubtful: compared.doubtful,
            untracked: compared.untracked,
        })
    }
}

impl Compared {
    pub(super) fn merge(&mut self, other: Self) {
        self.met += other.met;
        self.doubtful.extend(other.doubtful);
        self.untracked.extend(other.untracked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::index::format::write;

    const WRITTEN: i64 = 4_000_000_000;

    /// Files of a directory as they are, beside an index that says after `change` how they were.
    fn compare(change: impl Fn(&mut Entry<'_>)) -> Option<Walked> {
        compare_with(&[], change)
    }

    /// The same, where directories have a file each that is not looked at.
    fn compare_with(directories: &[PathBuf], change: impl Fn(&mut Entry<'_>)) -> Option<Walked> {
        let room = tempfile::tempdir().unwrap();
        fsx::write_private(&room.path().join("empty"), b"").unwrap();
        fsx::write_private(&room.path().join("text"), b"text").unwrap();
        let top = fs::File::open(room.path()).unwrap();
        let look = |name: &str| inodes::Entry::look(&top, name.into()).unwrap();
        let files = ["empty", "text"].map(look);
        let empty = sha1::Sha1::digest(b"blob 0\0").to_vec();
        let mut entries: Vec<Entry<'_>> = files
            .iter()
            .map(|file| Entry {
                path: file.name().as_bytes().into(),
                stat: file.stat(),
                mode: 0o100_644,
                oid: empty.clone().into(),
                stage: 0,
                assume_valid: false,
                skip_worktree: false,
                intent_to_add: false,
            })
            .collect();
        entries[1].oid = vec![1; 20].into();
        entries.iter_mut().for_each(change);
        for directory in directories {
            let path = [directory.as_os_str().as_bytes(), b"/file"].concat();
            let path = path.into();
            let one = entries[1].clone();
            entries.push(Entry { path, ..one });
        }
        let trees = [b"\x002 0\n", &[7; 20][..]].concat();
        let read = Read {
            bytes: write(&entries, Some(&trees), ObjectFormat::Sha1),
            format: ObjectFormat::Sha1,
            written: WRITTEN,
        };
        let expected = read.expected()?;
        let compared = expected.compare(Path::new(""), &files, directories);
        expected.conclude(compared)
    }

    #[test]
    fn each_number_counts_but_the_device() {
        let same = compare(|_| {}).unwrap();
        assert_eq!(same.tree.as_str(), "07".repeat(20));
        assert!(same.doubtful.is_empty() && same.untracked.is_empty());
        assert_eq!(compare(|entry| entry.stat.dev += 1).unwrap(), same);
        let changes: [fn(&mut Entry<'_>); 11] = [
            |entry| entry.stat.ctime[0] += 1,
            |entry| entry.stat.ctime[1] ^= 1,
            |entry| entry.stat.mtime[0] += 1,
            |entry| entry.stat.mtime[1] ^= 1,
            |entry| entry.stat.ino += 1,
            |entry| entry.stat.uid += 1,
            |entry| entry.stat.gid += 1,
            |entry| entry.stat.size += 1,
            |entry| entry.mode = 0o100_755,
            // As git marks one into which it is to look: without a size.
            |entry| entry.oid = vec![1; 20].into(),
            |entry| entry.stat = Stat::default(),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let doubtful = compare(change).unwrap().doubtful;
            assert!(doubtful.contains(Path::new("empty")), "{number}");
        }
        let others: [fn(&mut Entry<'_>); 5] = [
            |entry| entry.mode = 0o160_000,
            |entry| entry.stage = 1,
            |entry| entry.assume_valid = true,
            |entry| entry.skip_worktree = true,
            |entry| entry.intent_to_add = true,
        ];
        for change in others {
            assert_eq!(compare(change), None);
        }
    }

    #[test]
    fn nothing_is_told_where_a_part_was_not_seen() {
        assert_eq!(compare_with(&["zz".into()], |_| {}), None);
    }
}
