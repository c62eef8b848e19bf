//! Which of the paths that were copied into a sandbox's files ([`super::copies`]) nobody touched since: they are the
//! user's, and no work of the agent's.
//!
//! A path's mark is made of the inode, the size and the time of change of each file in it. That time cannot be set, and
//! everything that changes a file changes it; so nothing is read, and a file of the user's may change meanwhile.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType};
use sha2::{Digest, Sha256};

use super::below;
use super::copies::split;
use super::hex::hex;
use crate::fsx::beneath;
use crate::fsx::{self, FileError};

/// In the state directory.
pub const NOTE: &str = "copied";
/// What has more files than this counts as changed.
const MOST: u32 = 20_000;
const LIMIT: u64 = 1 << 20;

/// Notes in `state` how the `paths` of the checkout `top` lie in `files`, where they were just copied to.
pub fn note(state: &Path, files: &Path, top: &Path, paths: &[PathBuf]) -> Result<(), FileError> {
    let mut text = Vec::new();
    for path in paths {
        let Ok(path) = below::plain(top, path) else {
            continue;
        };
        if let Some(mark) = mark(files, &path) {
            text.extend([mark.as_bytes(), path.as_os_str().as_bytes(), b"\0"].concat());
        }
    }
    fsx::write_private(&state.join(NOTE), &text)
}

/// Those noted in `state` that lie in `files` as they were noted. What cannot be told is not among them. `files` may be
/// hostile: nothing outside is looked at.
pub fn untouched(state: &Path, files: &Path) -> Vec<PathBuf> {
    let noted = noted(state).into_iter().filter_map(|(noted, path)| {
        let now = mark(files, &path)?;
        (now.as_bytes() == noted).then_some(path)
    });
    noted.collect()
}

/// Those noted in `state`, whatever became of them inside.
pub fn paths(state: &Path) -> Vec<PathBuf> {
    noted(state).into_iter().map(|(_, path)| path).collect()
}

/// With their marks.
fn noted(state: &Path) -> Vec<(Vec<u8>, PathBuf)> {
    let text = fsx::read_bounded(&state.join(NOTE), LIMIT).unwrap_or_default();
    let noted = text.split(|&byte| byte == 0).filter_map(|one| {
        let (mark, path) = one.split_at_checked(MARK)?;
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        Some((mark.to_vec(), path))
    });
    noted.collect()
}

/// Arguments for git at the top of `files`: everything but what is untouched. None where that is everything.
pub fn but_untouched(state: &Path, files: &Path) -> Vec<OsString> {
    let untouched = untouched(state, files);
    let specs = untouched.iter().map(|path| {
        let mut spec = OsString::from(":(top,exclude,literal)");
        spec.push(path);
        spec
    });
    let all = (!untouched.is_empty()).then(|| OsString::from(":(top)"));
    all.into_iter().chain(specs).collect()
}

/// Hexadecimal digits of a mark.
const MARK: usize = 64;

fn mark(files: &Path, path: &Path) -> Option<String> {
    let files = beneath::root(files).ok()?;
    let mut marks = Vec::new();
    let (parent, name) = split(path);
    let parent = beneath::directory(&files, parent).ok()?;
    let found = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let mut pending = vec![(path.to_owned(), found)];
    while let Some((path, found)) = pending.pop() {
        if marks.len() >= MOST as usize {
            return None;
        }
        let mut one = path.as_os_str().as_bytes().to_vec();
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            // Its own times change with what is made and removed in it, and git knows nothing of them.
            one.extend(b"\0/");
            let directory = beneath::directory(&files, &path).ok()?;
            for entry in Dir::read_from(&directory).ok()? {
                let entry = entry.ok()?;
                let name = entry.file_name().to_bytes();
                if matches!(name, b"." | b"..") {
                    continue;
                }
                let found =
                    rustix::fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                let below = path.join(OsStr::from_bytes(name));
                pending.push((below, found.ok()?));
            }
        } else {
            let (seconds, nanoseconds) = (found.st_ctime, found.st_ctime_nsec);
            let (inode, size, mode) = (found.st_ino, found.st_size, found.st_mode);
            one.extend(format!("\0{inode} {size} {mode} {seconds}.{nanoseconds}").as_bytes());
        }
        marks.push(one);
    }
    marks.sort_unstable();
    Some(hex(&Sha256::digest(marks.join(&b"\0\0"[..]))))
}
