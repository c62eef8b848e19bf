//! Directories of this machine that sources are below, and what is read of them.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::fsx::beneath;

/// A directory of this machine that sources are below.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) path: PathBuf,
    root: OwnedFd,
}

impl Tree {
    /// By a path that only its user makes.
    pub(super) fn open(path: &Path) -> Result<Arc<Self>, Errno> {
        let root = beneath::root(path)?;
        let path = path.to_owned();
        Ok(Arc::new(Self { path, root }))
    }

    /// By a path that may lead through one of `written`, in which somebody else makes links: from there on none is
    /// followed, and nothing leads out.
    pub(super) fn open_among(path: &Path, written: &[PathBuf]) -> Result<Arc<Self>, String> {
        let unreadable =
            |errno: Errno| format!("{}: {}", path.display(), std::io::Error::from(errno));
        let Some((top, below)) = parted(path, written) else {
            return Self::open(path).map_err(unreadable);
        };
        let root = beneath::root(top).and_then(|top| beneath::directory(top, below));
        // The kernel calls a link in the place of a directory no directory.
        let is_link = |errno| match errno {
            Errno::LOOP | Errno::XDEV => true,
            Errno::NOTDIR => path.is_dir(),
            _ => false,
        };
        let root = root.map_err(|errno| match errno {
            errno if is_link(errno) => format!(
                "{}: what lies below {} is looked for there alone, and through no link",
                path.display(),
                top.display()
            ),
            errno => unreadable(errno),
        })?;
        let path = path.to_owned();
        Ok(Arc::new(Self { path, root }))
    }

    /// A regular file below it. A link may lead to another one below it, and not out of it.
    pub(super) fn file(&self, path: &Path) -> Result<File, String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        let opened = loop {
            match rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) if tries < 100 => tries += 1,
                other => break other,
            }
        };
        let file = match opened {
            Ok(file) => File::from(file),
            Err(Errno::XDEV) => {
                return Err(format!("a link leads out of {}", self.path.display()));
            }
            // A socket.
            Err(Errno::NXIO) => return Err("it is no regular file".to_owned()),
            Err(errno) => return Err(std::io::Error::from(errno).to_string()),
        };
        match file.metadata() {
            Ok(found) if found.is_file() => Ok(file),
            Ok(found) if found.is_dir() => Err("it is a directory".to_owned()),
            Ok(_) => Err("it is no regular file".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The first part of `path` that is one of `written`, by whatever way it leads there, and the rest.
fn parted<'a>(path: &'a Path, written: &[PathBuf]) -> Option<(&'a Path, &'a Path)> {
    let place = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let written: Vec<_> = written.iter().filter_map(|one| place(one)).collect();
    let mut ancestors: Vec<&Path> = path.ancestors().collect();
    ancestors.reverse();
    let is_written = |one: &&Path| place(one).is_some_and(|one| written.contains(&one));
    let top = ancestors.into_iter().find(is_written)?;
    Some((top, path.strip_prefix(top).ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn where_an_agent_writes_no_link_is_followed_to_a_source() {
        let place = tempfile::tempdir().unwrap();
        let [checkout, secret] = ["checkout", "secret"].map(|name| place.path().join(name));
        for directory in [&checkout.join("a/b"), &secret.join("b")] {
            crate::fsx::private_dir(directory).unwrap();
            crate::fsx::write_private(&directory.join("file"), b"x").unwrap();
        }
        symlink(&secret, checkout.join("out")).unwrap();
        symlink("a", checkout.join("in")).unwrap();
        // The same directory by a name of its user's.
        let named = place.path().join("named");
        symlink(&checkout, &named).unwrap();
        let written = [place.path().join("gone"), checkout.clone()];
        let has_file = |path: &Path, written: &[PathBuf]| {
            let tree = Tree::open_among(path, written)?;
            tree.file(Path::new("file")).map(drop)
        };
        for top in [&checkout, &named] {
            assert_eq!(has_file(&top.join("a/b"), &written), Ok(()));
            for below in [
                "out",
                "out/b",
                "in",
                "in/b",
                "../secret/b",
                "a/../../secret/b",
            ] {
                let refused = has_file(&top.join(below), &written).unwrap_err();
                assert!(refused.contains("through no link"), "{below}: {refused}");
            }
            let missing = has_file(&top.join("none"), &written).unwrap_err();
            assert!(missing.contains("No such file"), "{missing}");
            let file = has_file(&top.join("a/b/file"), &written).unwrap_err();
            assert!(file.contains("Not a directory"), "{file}");
            // Where nobody else writes they are the user's own.
            assert_eq!(has_file(&top.join("out/b"), &[]), Ok(()));
        }
    }
}
