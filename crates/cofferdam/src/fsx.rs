//! The one writer of host files: private modes, whole or not at all, never through a symlink.

pub(crate) mod beneath;
pub(crate) mod listener;
pub(crate) mod lock;
mod named;
mod way;

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub(crate) use named::path_of;
pub use named::{Destination, Named};
pub use way::LinkInCheckout;

use crate::text::printable_path;

/// A host file operation failed; names the path.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", printable_path(path))]
pub struct FileError {
    /// What was tried, as a verb: "create", "write", "read" …
    pub action: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl FileError {
    /// `action` fits "cannot … PATH": "read", "create the directory".
    pub fn new(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self {
            action,
            path: path.into(),
            source,
        }
    }

    /// Whether it failed because nothing is there (`ENOENT`).
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// The link that was not followed, if that is what failed.
    pub fn link(&self) -> Option<&LinkInCheckout> {
        self.source.get_ref()?.downcast_ref()
    }
}

/// Attaches action and path to an [`io::Result`].
pub trait Context<T> {
    /// `action` fits "cannot … PATH", as in [`FileError::new`].
    fn context(self, action: &'static str, path: &Path) -> Result<T, FileError>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, FileError> {
        self.map_err(|source| FileError::new(action, path, source))
    }
}

impl<T> Context<T> for Result<T, rustix::io::Errno> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, FileError> {
        self.map_err(|errno| FileError::new(action, path, errno.into()))
    }
}

/// Creates `path` and its missing parents with mode 0700. Refuses a last component that is a
/// symlink or belongs to another user.
pub fn private_dir(path: &Path) -> Result<(), FileError> {
    match fs::symlink_metadata(path) {
        Ok(found) => return check_private(path, &found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(FileError::new("look at", path, error)),
    }
    match fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
    {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = fs::symlink_metadata(path).context("look at", path)?;
            check_private(path, &found)
        }
        Err(error) => Err(FileError::new("create", path, error)),
    }
}

fn check_private(path: &Path, found: &fs::Metadata) -> Result<(), FileError> {
    let refuse = |why: &str| {
        Err(FileError::new(
            "use",
            path,
            io::Error::other(why.to_owned()),
        ))
    };
    if !found.is_dir() {
        return refuse("it is not a directory (symlinks are refused here)");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return refuse("it belongs to another user");
    }
    if found.mode() & 0o022 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).context("restrict", path)?;
    }
    Ok(())
}

/// Writes `bytes` to a temporary neighbour with mode 0600 and renames it over `path`: readers see
/// the old file or the new one, whatever happens in between.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    write_with_mode(path, bytes, 0o600)
}

/// As [`write_private`], where there is nothing of that name; says whether it was written.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<bool, FileError> {
    let mut beside = path.to_owned();
    beside.set_extension(format!("new-{}", std::process::id()));
    write_private(&beside, bytes)?;
    let linked = fs::hard_link(&beside, path);
    remove_file_if_exists(&beside)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        linked => linked.context("write", path).map(|()| true),
    }
}

/// Whether two files have the same content.
pub fn is_same(one: &Path, other: &Path) -> Result<bool, FileError> {
    let open = |path: &Path| fs::File::open(path).context("read", path);
    let (mut left, mut right) = (open(one)?, open(other)?);
    let bytes = |file: &fs::File, path| Ok(file.metadata().context("look at", path)?.len());
    if bytes(&left, one)? != bytes(&right, other)? {
        return Ok(false);
    }
    let (mut first, mut second) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let read = left.read(&mut first).context("read", one)?;
        if read == 0 {
            return Ok(true);
        }
        if right.read_exact(&mut second[..read]).is_err() || first[..read] != second[..read] {
            return Ok(false);
        }
    }
}

/// As [`write_private`], with another mode.
pub fn write_with_mode(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    replace(path, mode, |file| file.write_all(bytes))
}

/// As [`write_private`], where long runs of zeros take no room on the disk.
pub fn write_sparse(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    use std::os::unix::fs::FileExt;
    /// No file system has smaller holes worth having.
    const BLOCK: usize = 4096;
    replace(path, 0o600, |file| {
        let blocks = bytes.chunks(BLOCK).zip((0u64..).step_by(BLOCK));
        for (block, at) in blocks.filter(|(block, _)| block.iter().any(|&byte| byte != 0)) {
            file.write_all_at(block, at)?;
        }
        file.set_len(bytes.len() as u64)
    })
}

/// As [`write_with_mode`], with what is in the file `from`, which must not change meanwhile. The kernel copies it.
pub fn copy_with_mode(from: &Path, to: &Path, mode: u32) -> Result<(), FileError> {
    let mut from = fs::File::open(from).context("open", from)?;
    replace(to, mode, |file| io::copy(&mut from, file).map(drop))
}

fn replace(
    path: &Path,
    mode: u32,
    mut write: impl FnMut(&mut fs::File) -> io::Result<()>,
) -> Result<(), FileError> {
    let parent = path.parent().unwrap_or(Path::new("."));
    let mut last = None;
    for attempt in 0..100u32 {
        let name = path
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        let temporary = parent.join(format!(".{name}.{}.{attempt}", std::process::id()));
        let opened = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&temporary);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                last = Some(error);
                continue;
            }
            Err(error) => return Err(FileError::new("create", temporary, error)),
        };
        let written = write(&mut file).and_then(|()| fs::rename(&temporary, path));
        if let Err(error) = written {
            let _ = fs::remove_file(&temporary);
            return Err(FileError::new("write", path, error));
        }
        return Ok(());
    }
    let source = last.unwrap_or_else(|| io::Error::other("no free temporary name"));
    Err(FileError::new(
        "create a temporary file beside",
        path,
        source,
    ))
}

/// Reads at most `limit` bytes; a longer file is an error. Never follows a symlink at the end.
pub fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    read_checked(path, limit, |_| Ok(()))
}

/// As [`read_bounded`], for a file that decides what is allowed: nobody but its owner may be able to
/// write it, and that is this user or root.
pub fn read_guarded(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let read = read_checked(path, limit, |found| {
        let owner = found.uid();
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            return Err("it belongs to another user");
        }
        if found.mode() & 0o022 != 0 {
            return Err("others than its owner can write it (`chmod go-w` changes that)");
        }
        Ok(())
    });
    read.map_err(|error| {
        if error.source.raw_os_error() == Some(libc::ELOOP) {
            let why = "it is a symlink: put the file itself there";
            return FileError::new("read", path, io::Error::other(why));
        }
        error
    })
}

fn read_checked(
    path: &Path,
    limit: u64,
    check: impl FnOnce(&fs::Metadata) -> Result<(), &'static str>,
) -> Result<Vec<u8>, FileError> {
    use std::io::Read;
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .context("open", path)?;
    let found = file.metadata().context("look at", path)?;
    if !found.is_file() {
        return Err(FileError::new(
            "read",
            path,
            io::Error::other("it is not a regular file"),
        ));
    }
    check(&found).map_err(|why| FileError::new("use", path, io::Error::other(why)))?;
    // As much as it says it has: it grows from there if it says too little.
    let expected = found.len().min(limit).saturating_add(1).min(64 << 20);
    let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or(0));
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .context("read", path)?;
    if bytes.len() as u64 > limit {
        let why = io::Error::other(format!("it is larger than {limit} bytes"));
        return Err(FileError::new("read", path, why));
    }
    Ok(bytes)
}

/// Removes a file; a missing one is fine.
pub fn remove_file_if_exists(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(FileError::new("remove", path, error))
        }
        _ => Ok(()),
    }
}

/// Removes a tree; a missing one is fine. Never follows symlinks. Directories that a sandbox made
/// unreadable, or deeper than there are file descriptors, are no obstacle.
pub fn remove_tree(path: &Path) -> Result<(), FileError> {
    match fs::remove_dir_all(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) => {}
    }
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    }
    match remove_flat(path) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(FileError::new("remove", path, error.into())),
    }
}

/// Removes whatever is at `path`, a tree or a single file; a missing one is fine.
pub fn remove_tree_or_file(path: &Path) -> Result<(), FileError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => remove_tree(path),
        Ok(_) => remove_file_if_exists(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(FileError::new("look at", path, error)),
    }
}

/// Removes a tree of any depth and any modes: every directory is opened up and moved up first, to be
/// a child of `path`.
fn remove_flat(path: &Path) -> Result<(), rustix::io::Errno> {
    use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open_mode = Mode::from_raw_mode(0o700);
    let root = rustix::fs::open(path, flags, Mode::empty())?;
    let mut pending = vec![std::ffi::CString::from(c".")];
    let mut count = 0u64;
    while let Some(name) = pending.pop() {
        let at_root = name.as_c_str() == c".";
        if !at_root {
            // Nobody else works here any more, and a directory that was just listed is no symlink.
            rustix::fs::chmodat(&root, &name, open_mode, AtFlags::empty())?;
        }
        let directory = rustix::fs::openat(&root, &name, flags, Mode::empty())?;
        let entries = Dir::read_from(&directory)?.collect::<Result<Vec<_>, _>>()?;
        for entry in entries {
            let below = entry.file_name();
            if below == c"." || below == c".." {
                continue;
            }
            let found = rustix::fs::statat(&directory, below, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
                rustix::fs::unlinkat(&directory, below, AtFlags::empty())?;
                continue;
            }
            rustix::fs::chmodat(&directory, below, open_mode, AtFlags::empty())?;
            loop {
                count += 1;
                let up = std::ffi::CString::new(format!(".removing-{count}")).unwrap_or_default();
                let no = rustix::fs::RenameFlags::NOREPLACE;
                match rustix::fs::renameat_with(&directory, below, &root, &up, no) {
                    Err(rustix::io::Errno::EXIST) => {}
                    done => {
                        done?;
                        pending.push(up);
                        break;
                    }
                }
            }
        }
        if !at_root {
            rustix::fs::unlinkat(&root, &name, AtFlags::REMOVEDIR)?;
        }
    }
    rustix::fs::rmdir(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_replace_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        write_private(&path, b"one").unwrap();
        write_private(&path, b"two").unwrap();
        assert_eq!(read_bounded(&path, 10).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(read_bounded(&path, 2).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn holes_stay_holes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut bytes = vec![0; 8 << 20];
        bytes[5 << 20] = 1;
        bytes.extend(b"end");
        write_sparse(&path, &bytes).unwrap();
        assert!(read_bounded(&path, 9 << 20).unwrap() == bytes);
        let blocks = fs::metadata(&path).unwrap().blocks();
        assert!(blocks * 512 < 1 << 20, "{blocks} blocks");
    }

    #[test]
    fn symlinks_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        write_private(&target, b"kept").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(read_bounded(&link, 10).is_err());
        write_private(&link, b"new").unwrap();
        assert_eq!(read_bounded(&target, 10).unwrap(), b"kept");

        let real = dir.path().join("real");
        private_dir(&real).unwrap();
        let dir_link = dir.path().join("dirlink");
        std::os::unix::fs::symlink(&real, &dir_link).unwrap();
        assert!(private_dir(&dir_link).is_err());
    }

    #[test]
    fn trees_that_were_locked_up_go_away() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::set_permissions(tree.join("a"), fs::Permissions::from_mode(0o000)).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        remove_tree(&tree).unwrap();
    }
    #[test]
    fn trees_of_any_depth_go_away() {
        use rustix::fs::{Mode, OFlags};
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut at = rustix::fs::open(&tree, flags, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&at, "d", Mode::from_raw_mode(0o700)).unwrap();
            rustix::fs::symlinkat("/etc", &at, "link").unwrap();
            rustix::fs::mkdirat(&at, ".removing-1", Mode::from_raw_mode(0o000)).unwrap();
            at = rustix::fs::openat(&at, "d", flags, Mode::empty()).unwrap();
        }
        drop(at);
        remove_flat(&tree).unwrap();
        assert!(!tree.exists());
        assert!(Path::new("/etc/passwd").exists());
    }
}
