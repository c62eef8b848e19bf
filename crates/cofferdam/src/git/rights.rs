//! What other users of the machine may do with a checkout: compared before and after an agent, so that its
//! `chmod 777` does not stay. Git knows only whether a file is a program, so the modes that were there count;
//! what is new gets what its neighbours have.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::fsx::beneath;
use crate::path_json::PathText;

/// Reading and writing by group and others; whether a file runs is git's business.
const FILE: u32 = 0o066;
const DIRECTORY: u32 = 0o077;
/// Inside, the umask is 022: what is new may be read by others where the user's own umask says no. That is
/// taken back without a word.
const WRITE: u32 = 0o022;
/// So many files are remembered whose rights are not those of most in their directory.
const MOST: usize = 20_000;

/// Rights as they were, without what is usual.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// Of most directories, and of most files.
    usual: (u32, u32),
    /// Where a directory, or most files in it, have other rights.
    directories: Vec<(PathText, (u32, u32))>,
    files: Vec<(PathText, u32)>,
    /// Directories of which no file is compared: there were too many to remember.
    #[serde(default)]
    crowded: Vec<PathText>,
}

/// Collects [`Rights`].
#[derive(Debug, Default)]
pub(super) struct Seen {
    directories: HashMap<PathBuf, (u32, Option<u32>)>,
    files: Vec<(PathBuf, u32)>,
    crowded: HashSet<PathBuf>,
}

impl Seen {
    pub(super) fn note<'a>(
        &mut self,
        path: &Path,
        mode: u32,
        files: impl Iterator<Item = (&'a OsString, u32)> + Clone,
    ) {
        let most = most(files.clone().map(|(_, mode)| mode & FILE));
        self.directories
            .insert(path.to_owned(), (mode & DIRECTORY, most));
        let odd = files.filter(|(_, mode)| Some(mode & FILE) != most);
        if odd.clone().count() > MOST.saturating_sub(self.files.len()) {
            self.crowded.insert(path.to_owned());
            return;
        }
        let odd = odd.map(|(name, mode)| (path.join(name), mode & FILE));
        self.files.extend(odd);
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.directories.extend(other.directories);
        self.crowded.extend(other.crowded);
        if self.files.len() + other.files.len() > MOST {
            let parents = other.files.iter().filter_map(|(path, _)| path.parent());
            self.crowded.extend(parents.map(Path::to_owned));
        } else {
            self.files.extend(other.files);
        }
    }

    pub(super) fn rights(&self) -> Rights {
        let usual = (
            most(self.directories.values().map(|(own, _)| *own)).unwrap_or_default(),
            most(self.directories.values().filter_map(|(_, files)| *files)).unwrap_or_default(),
        );
        let odd = self.directories.iter().filter_map(|(path, (own, files))| {
            let both = (*own, files.unwrap_or(usual.1));
            (both != usual).then(|| (PathText(path.clone()), both))
        });
        let mut directories: Vec<_> = odd.collect();
        directories.sort_by(|one, other| one.0.0.cmp(&other.0.0));
        let mut crowded: Vec<_> = self.crowded.iter().cloned().map(PathText).collect();
        crowded.sort_by(|one, other| one.0.cmp(&other.0));
        let files = self.files.iter();
        Rights {
            usual,
            directories,
            files: files
                .map(|(path, mode)| (PathText(path.clone()), *mode))
                .collect(),
            crowded,
        }
    }
}

/// The value that comes most often; of several the one that gives least.
fn most(values: impl Iterator<Item = u32>) -> Option<u32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts
        .into_iter()
        .rev()
        .max_by_key(|(_, count)| *count)
        .map(|(value, _)| value)
}

/// One file or directory that others may do more with than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loosened {
    /// Absolute, or below the top where it was found.
    pub path: PathBuf,
    /// What they gained.
    pub gained: u32,
}

impl Loosened {
    /// Whether somebody must have asked for it: a umask does not explain it.
    pub fn is_asked(&self) -> bool {
        self.gained & WRITE != 0 || self.path.as_os_str().is_empty()
    }
}

impl Rights {
    /// To be asked about many paths.
    pub fn indexed(&self) -> Indexed<'_> {
        Indexed {
            usual: self.usual,
            directories: self
                .directories
                .iter()
                .map(|(path, rights)| (path.0.as_path(), *rights))
                .collect(),
            files: self
                .files
                .iter()
                .map(|(path, rights)| (path.0.as_path(), *rights))
                .collect(),
            crowded: self.crowded.iter().map(|path| path.0.as_path()).collect(),
        }
    }
}

/// [`Rights`] by their paths.
#[derive(Debug)]
pub struct Indexed<'a> {
    usual: (u32, u32),
    directories: HashMap<&'a Path, (u32, u32)>,
    files: HashMap<&'a Path, u32>,
    crowded: HashSet<&'a Path>,
}

impl Indexed<'_> {
    /// What others gained in the directory at `path`, which has `mode` and these files.
    pub(super) fn loosened<'a>(
        &self,
        path: &Path,
        mode: u32,
        files: impl Iterator<Item = (&'a OsString, u32)>,
    ) -> Vec<Loosened> {
        let (own, most) = self.directories.get(path).copied().unwrap_or(self.usual);
        let mut found = Vec::new();
        let mut compare = |path: PathBuf, gained: u32| {
            if gained != 0 {
                found.push(Loosened { path, gained });
            }
        };
        compare(path.to_owned(), mode & DIRECTORY & !own);
        if self.crowded.contains(path) {
            return found;
        }
        for (name, mode) in files {
            // Most files need no look at their paths.
            if mode & FILE == most && self.files.is_empty() {
                continue;
            }
            let path = path.join(name);
            let allowed = self.files.get(path.as_path()).copied().unwrap_or(most);
            compare(path, mode & FILE & !allowed);
        }
        found
    }
}

/// Takes the rights back, and returns what could not be done. No symlink is followed, and nothing outside of
/// `top` is touched.
pub fn tighten(top: &Path, loosened: &[Loosened]) -> Vec<(PathBuf, Errno)> {
    let root = match beneath::root(top) {
        Ok(root) => root,
        Err(errno) => return vec![(top.to_owned(), errno)],
    };
    let done = loosened.iter().filter_map(|one| {
        match beneath::change_mode(&root, &one.path, OFlags::empty(), |mode| mode & !one.gained) {
            Ok(()) | Err(Errno::NOENT) => None,
            Err(errno) => Some((one.path.clone(), errno)),
        }
    });
    done.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(modes: &[(&str, u32)]) -> Vec<(OsString, u32)> {
        modes
            .iter()
            .map(|(name, mode)| (OsString::from(name), *mode))
            .collect()
    }

    #[test]
    fn what_others_gained() {
        let mut seen = Seen::default();
        let mut note = |path: &str, mode, files: &[(&str, u32)]| {
            let files = names(files);
            seen.note(
                Path::new(path),
                mode,
                files.iter().map(|(name, mode)| (name, *mode)),
            );
        };
        note("", 0o755, &[("a", 0o644), ("b", 0o755), ("key", 0o600)]);
        note("shared", 0o2775, &[("a", 0o664)]);
        note("src", 0o755, &[("a", 0o644)]);
        note("private", 0o700, &[]);
        // Half of these are not as most are, and too many to remember.
        let many: Vec<String> = (0..3 * MOST).map(|number| number.to_string()).collect();
        let many: Vec<_> = many
            .iter()
            .zip([0o600, 0o664].into_iter().cycle())
            .map(|(name, mode)| (name.as_str(), mode))
            .collect();
        note("crowded", 0o755, &many);
        let rights = seen.rights();
        assert_eq!(rights.usual, (0o055, 0o044));
        let text = serde_json::to_string(&rights).unwrap();
        let rights: Rights = serde_json::from_str(&text).unwrap();
        let check = |path: &str, mode, files: &[(&str, u32)], want: &[(&str, u32)]| {
            let files = names(files);
            let files = files.iter().map(|(name, mode)| (name, *mode));
            let found = rights.indexed().loosened(Path::new(path), mode, files);
            let found: Vec<_> = found
                .iter()
                .map(|one| (one.path.to_str().unwrap(), one.gained))
                .collect();
            assert_eq!(found, want, "{path}");
        };
        check(
            "",
            0o755,
            &[("a", 0o644), ("b", 0o644), ("key", 0o600)],
            &[],
        );
        check(
            "",
            0o777,
            &[("a", 0o666), ("key", 0o644)],
            &[("", 0o022), ("a", 0o022), ("key", 0o044)],
        );
        check("shared", 0o2775, &[("a", 0o664), ("new", 0o664)], &[]);
        check("private", 0o755, &[], &[("private", 0o055)]);
        check("made", 0o755, &[("x", 0o666)], &[("made/x", 0o022)]);
        check("src", 0o700, &[("a", 0o400)], &[]);
        check("crowded", 0o755, &many, &[]);
        check("crowded", 0o777, &[], &[("crowded", 0o022)]);
    }
}
