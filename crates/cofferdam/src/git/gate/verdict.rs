//! What is judged, and what is said of it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::walk::Entry;
use crate::text::printable;

/// So many violations tell enough, and so many notes: who makes more of either wants them not to be read.
pub(super) const MOST: usize = 50;

/// For each changed path every state it has in some commit (`None`: it is gone).
pub(super) type Changes = BTreeMap<Vec<u8>, Vec<Option<Entry>>>;

#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub executes: Vec<String>,
    pub notes: Notes,
}

/// What a reviewer should know: the first of them, and how many more.
#[derive(Debug, Default)]
pub(super) struct Notes {
    first: Vec<String>,
    more: usize,
}

impl Notes {
    pub(super) fn add(&mut self, note: impl FnOnce() -> String) {
        if self.first.len() < MOST {
            self.first.push(note());
        } else {
            self.more += 1;
        }
    }

    pub(super) fn into_texts(self) -> Vec<String> {
        let mut texts = self.first;
        match self.more {
            0 => {}
            1 => texts.push("another name is like these".to_owned()),
            more => texts.push(format!("{more} more names are like these")),
        }
        texts
    }
}

/// A path of a commit, byte for byte: whoever leaves it out has to find it again.
pub(super) fn path_of(path: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path))
}

/// A path as a message has it.
pub(super) fn shown(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path)
        .replace('\n', "\\n")
        .replace('\t', "\\t");
    printable(&text).chars().take(300).collect()
}
