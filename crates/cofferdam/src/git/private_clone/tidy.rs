//! Makes a private clone fit to be opened by git in a jail: whatever could keep git waiting, or make
//! it read without end, is no part of a repository and goes.

use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;

use super::refs::{RefsError, unreadable};
use crate::fsx::beneath;

const DEPTH: usize = 40;
const ENTRIES: usize = 2_000_000;
/// Git reads these files whole, and a sparse one may claim any length.
const WHOLE: [&str; 6] = [
    "HEAD",
    "config",
    "packed-refs",
    "shallow",
    "objects/info/alternates",
    "objects/info/commit-graph",
];
const WHOLE_LIMIT: i64 = 64 << 20;
/// So many oddities tell enough.
const ODD: usize = 10;

/// What [`tidy`] found.
#[derive(Debug, Default)]
pub struct Tidied {
    /// Pipes, sockets, devices and symbolic links; they are gone.
    pub removed: Vec<PathBuf>,
    /// What could not be looked at, and files that git must not read whole.
    pub odd: Vec<RefsError>,
}

/// Removes pipes, sockets, devices and symbolic links below `git_dir`. Nothing may run in the sandbox
/// any more; if something does, nothing outside of the directory is touched. An error is the host's
/// alone.
pub fn tidy(git_dir: &Path) -> Result<Tidied, RefsError> {
    let root = beneath::root(git_dir).map_err(|errno| unreadable(git_dir, errno))?;
    let mut tidied = Tidied::default();
    for name in WHOLE {
        match rustix::fs::statat(&root, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if found.st_size > WHOLE_LIMIT => {
                tidied.odd.push(RefsError::TooLarge { name: name.into() });
            }
            _ => {}
        }
    }
    let Tidied { removed, odd } = &mut tidied;
    let mut note = |error: RefsError| {
        if error.is_of_the_host() {
            return Err(error);
        }
        if odd.len() < ODD {
            odd.push(error);
        }
        Ok(())
    };
    let mut seen = 0;
    let mut pending = vec![(PathBuf::new(), 0)];
    while let Some((path, depth)) = pending.pop() {
        let directory = match beneath::directory(&root, &path) {
            Ok(directory) => directory,
            Err(Errno::NOENT) if depth > 0 => continue,
            Err(errno) => {
                note(unreadable(&path, errno))?;
                continue;
            }
        };
        // The entries are read through a descriptor of its own, so that this one can remove them.
        let entries = Dir::read_from(&directory).map_err(|errno| unreadable(&path, errno))?;
        for entry in entries {
            let entry = entry.map_err(|errno| unreadable(&path, errno))?;
            let bytes = entry.file_name().to_bytes();
            if matches!(bytes, b"." | b"..") {
                continue;
            }
            seen += 1;
            if seen > ENTRIES || depth > DEPTH {
                note(RefsError::TooMany)?;
                return Ok(tidied);
            }
            let name = path.join(std::ffi::OsStr::from_bytes(bytes));
            match kind(
                directory_fd(&directory),
                entry.file_name(),
                entry.file_type(),
            ) {
                Ok(FileType::Directory) => pending.push((name, depth + 1)),
                Ok(FileType::RegularFile) | Err(Errno::NOENT) => {}
                Ok(_) => {
                    let gone =
                        rustix::fs::unlinkat(&directory, entry.file_name(), AtFlags::empty());
                    if let Err(errno) = gone {
                        note(unreadable(&name, errno))?;
                        continue;
                    }
                    removed.push(name);
                }
                Err(errno) => note(unreadable(&name, errno))?,
            }
        }
    }
    Ok(tidied)
}

fn directory_fd(directory: &std::os::fd::OwnedFd) -> BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(directory)
}

/// Some file systems do not say it with the name.
fn kind(
    directory: BorrowedFd<'_>,
    name: &std::ffi::CStr,
    told: FileType,
) -> Result<FileType, Errno> {
    if told != FileType::Unknown {
        return Ok(told);
    }
    let found = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(found.st_mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_files_and_directories_stay() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        crate::fsx::write_private(&outside.path().join("kept"), b"x").unwrap();
        let git = dir.path();
        fs::create_dir_all(git.join("objects/info")).unwrap();
        crate::fsx::write_private(&git.join("HEAD"), b"ref: refs/heads/main\n").unwrap();
        symlink(outside.path(), git.join("refs")).unwrap();
        symlink("/dev/zero", git.join("objects/info/alternates")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, git.join("config"), FileType::Fifo, mode, 0).unwrap();
        let mut removed = tidy(git).unwrap().removed;
        removed.sort();
        let names: Vec<_> = removed.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(names, ["config", "objects/info/alternates", "refs"]);
        assert!(git.join("HEAD").exists() && outside.path().join("kept").exists());
        assert!(tidy(git).unwrap().removed.is_empty());
    }

    #[test]
    fn a_file_that_claims_too_much_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = fs::File::create(dir.path().join("config")).unwrap();
        file.set_len(1 << 40).unwrap();
        let odd = tidy(dir.path()).unwrap().odd;
        assert!(matches!(odd[..], [RefsError::TooLarge { .. }]));
    }
}
