//! Few paths that cover many: a mount for each of ten thousand files is none.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A directory with more of them below it is covered whole, where there are too many for a mount each.
const FEW: usize = 8;

/// At most `most` files and directories that are, or hold, all of `files`: each by itself where that is
/// possible, else the smallest directories. The top directory is never among them: `None`.
pub(super) fn cover(files: &BTreeSet<PathBuf>, most: usize) -> Option<Vec<PathBuf>> {
    if files.len() <= most {
        return Some(files.iter().cloned().collect());
    }
    let mut top = Node::default();
    for file in files {
        let mut node = &mut top;
        for name in file {
            node = node.below.entry(name.to_owned()).or_default();
        }
    }
    let all = top.children(Path::new(""));
    (all.len() <= most).then_some(all)
}

#[derive(Debug, Default)]
struct Node {
    below: BTreeMap<OsString, Node>,
}

impl Node {
    fn children(&self, path: &Path) -> Vec<PathBuf> {
        self.below
            .iter()
            .flat_map(|(name, node)| node.fold(path.join(name)))
            .collect()
    }

    fn fold(&self, path: PathBuf) -> Vec<PathBuf> {
        if self.below.is_empty() {
            return vec![path];
        }
        let all = self.children(&path);
        if all.len() > FEW { vec![path] } else { all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: impl Iterator<Item = String>) -> BTreeSet<PathBuf> {
        names.map(PathBuf::from).collect()
    }

    #[test]
    fn the_smallest_directories_that_suffice() {
        let few = set((0..20).map(|n| format!("src/{n}")));
        assert_eq!(cover(&few, 64).unwrap().len(), 20);
        // A package store, and one file beside it.
        let packages =
            (0..100).flat_map(|p| (0..20).map(move |n| format!("node_modules/.p/{p}/{n}")));
        let store = set(packages.chain(["src/a".to_owned()]));
        let want = ["node_modules/.p", "src/a"].map(PathBuf::from);
        assert_eq!(cover(&store, 64).unwrap(), want);
        // A copy of a whole checkout by links.
        let whole = set((0..65).map(|n| format!("{n}/a")));
        assert_eq!(cover(&whole, 64), None);
    }
}
