//! What is judged, and what is said of it.

use std::collections::BTreeMap;

use super::walk::Entry;
use crate::text::printable;

/// So many violations tell enough.
pub(super) const MOST: usize = 50;

/// For each changed path every state it has in some commit (`None`: it is gone).
pub(super) type Changes = BTreeMap<Vec<u8>, Vec<Option<Entry>>>;

#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub executes: Vec<String>,
    pub notes: Vec<String>,
}

/// A path as a message has it.
pub(super) fn shown(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path)
        .replace('\n', "\\n")
        .replace('\t', "\\t");
    printable(&text).chars().take(300).collect()
}
