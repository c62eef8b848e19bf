//! What is kept of an agent's conversations: files that came out of a sandbox. Nothing reads them but another sandbox.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use super::error::RunsError;
use super::record::RunRecord;
use crate::fsx::{self, Context, Destination, FileError};
use crate::home::Home;

/// The files of a run's conversations, a directory for each iteration.
const CONVERSATIONS: &str = "conversations";
/// Bytes of all files of one run: of its earlier iterations those go that have no room.
pub(crate) const OF_A_RUN: u64 = 256 << 20;
/// Bytes of one file, and files of one conversation.
pub(crate) const LARGEST: u64 = 64 << 20;
pub(crate) const MOST: usize = 2000;
/// Directories within one another.
const DEEPEST: usize = 16;

/// One file: its path, whose parts are names, and its content.
pub(crate) type File = (String, Vec<u8>);

/// Of the run in this directory, a directory for each start of the agent.
pub(super) fn conversations(run: &Path) -> PathBuf {
    run.join(CONVERSATIONS)
}

/// Writes the files into a directory, which is made. Returns how many bytes they have.
pub(crate) fn keep(directory: &Path, files: &[File]) -> Result<u64, FileError> {
    let mut bytes = 0;
    for (path, content) in files {
        let path = directory.join(plain(path)?);
        if let Some(parent) = path.parent() {
            let made = fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(parent);
            made.context("make", parent)?;
        }
        fsx::write_sparse(&path, content)?;
        bytes += content.len() as u64;
    }
    Ok(bytes)
}

/// The files that [`keep`] wrote.
pub(crate) fn read(directory: &Path) -> Result<Vec<File>, FileError> {
    let mut files = Vec::new();
    for path in walk(directory)? {
        let content = fsx::read_bounded(&directory.join(&path), LARGEST)?;
        files.push((path, content));
    }
    Ok(files)
}

/// Writes all of a run's conversations into a new directory, one for each start of the agent. Returns the number of files.
pub fn export(home: &Home, record: &RunRecord, to: &Path) -> Result<usize, RunsError> {
    let from = conversations(&home.run(record.id));
    let paths = walk(&from)?;
    if paths.is_empty() {
        return Err(RunsError::NoConversation(record.id));
    }
    let made = Destination::find(to).and_then(|place| place.make_directory(0o700));
    let made = made.map_err(|error| match error.source.kind() {
        ErrorKind::NotFound => RunsError::NoParent {
            run: record.id,
            to: to.to_owned(),
        },
        ErrorKind::AlreadyExists => RunsError::NotNew {
            run: record.id,
            to: to.to_owned(),
        },
        _ => error.into(),
    })?;
    let mut count = 0;
    for path in paths {
        let content = fsx::read_bounded(&from.join(&path), LARGEST)?;
        // Not by its name, which somebody else may give to another directory.
        let kept = keep(&fsx::path_of(&made), &[(path.clone(), content)]);
        kept.map_err(|error| FileError::new(error.action, to.join(path), error.source))?;
        count += 1;
    }
    Ok(count)
}

/// Bytes that a directory's files take on the disk.
pub(super) fn weigh(directory: &Path) -> Result<u64, FileError> {
    let mut bytes = 0;
    for path in walk(directory)? {
        let path = directory.join(path);
        bytes += path.symlink_metadata().context("look at", &path)?.blocks() * 512;
    }
    Ok(bytes)
}

/// The regular files below a directory, in order; nothing where it is not there.
fn walk(directory: &Path) -> Result<Vec<String>, FileError> {
    let (mut found, mut waiting) = (Vec::new(), vec![(String::new(), 0)]);
    while let Some((below, depth)) = waiting.pop() {
        let at = directory.join(&below);
        let entries = match fs::read_dir(&at) {
            Err(error) if error.kind() == ErrorKind::NotFound && below.is_empty() => {
                return Ok(found);
            }
            entries => entries.context("read", &at)?,
        };
        for entry in entries {
            let entry = entry.context("read", &at)?;
            let kind = entry.file_type().context("look at", &at)?;
            // All of them are ours, from paths that were text.
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if below.is_empty() {
                name
            } else {
                format!("{below}/{name}")
            };
            if kind.is_file() {
                found.push(path);
            } else if kind.is_dir() && depth < DEEPEST {
                waiting.push((path, depth + 1));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A path that leads nowhere else.
fn plain(path: &str) -> Result<&Path, FileError> {
    let path = Path::new(path);
    let mut parts = path.components();
    let is_plain = parts.all(|part| matches!(part, Component::Normal(_)))
        && path.components().count() <= DEEPEST
        && !path.as_os_str().is_empty();
    is_plain.then_some(path).ok_or_else(|| {
        let why = "it leads out of its directory, or too deep into it";
        FileError::new("keep", path, std::io::Error::other(why))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_kept_below_and_nowhere_else() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join("kept");
        assert!(read(&at).unwrap().is_empty());
        let files = vec![
            ("a.jsonl".to_owned(), b"one".to_vec()),
            ("b/c d/e".to_owned(), b"two".to_vec()),
        ];
        assert_eq!(keep(&at, &files).unwrap(), 6);
        assert_eq!(read(&at).unwrap(), files);
        for bad in ["", "/x", "../x", "a/../../x", "./x", &"d/".repeat(20)] {
            let refused = keep(&at, &[(bad.to_owned(), Vec::new())]);
            assert!(refused.is_err(), "{bad}");
        }
        assert_eq!(read(&at).unwrap(), files);
    }
}
