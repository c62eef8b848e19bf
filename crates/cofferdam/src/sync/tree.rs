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

    /// A regular file below it. A link may lead to another one below it, by whatever way, and not out of it.
    pub(super) fn file(&self, path: &Path) -> Result<File, String> {
        let file = match self.opened(path, ResolveFlags::NO_MAGICLINKS) {
            // A link with a whole path, or by way of directories above: what counts is where it leads.
            Err(Errno::XDEV) => self.opened(&self.end_of(path)?, ResolveFlags::NO_SYMLINKS),
            opened => opened,
        };
        let file = match file {
            Ok(file) => file,
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

    fn opened(&self, path: &Path, links: ResolveFlags) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | links;
        let mut tries = 0;
        loop {
            match rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) if tries < 100 => tries += 1,
                other => return other.map(File::from),
            }
        }
    }

    /// The place below it that links lead to, without any. Whoever opens it follows none: what it was may have changed.
    fn end_of(&self, path: &Path) -> Result<PathBuf, String> {
        let real = |path: &Path| path.canonicalize().map_err(|error| error.to_string());
        let top = real(&self.path)?;
        let end = real(&top.join(path))?;
        let below = end.strip_prefix(&top);
        below.map(Path::to_owned).map_err(|_| {
            let top = self.path.display();
            format!("a link leads out of {top}: put the file itself there")
        })
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
    fn a_link_is_judged_by_where_it_leads() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().join("home");
        crate::fsx::private_dir(&home.join("a")).unwrap();
        crate::fsx::write_private(&home.join("a/file"), b"x").unwrap();
        crate::fsx::write_private(&place.path().join("secret"), b"x").unwrap();
        for (name, to) in [
            ("relative", PathBuf::from("a/file")),
            ("whole", home.join("a/file")),
            ("twice", home.join("relative")),
            ("around", PathBuf::from("../home/a/file")),
            ("directory", home.join("a")),
            ("out", place.path().join("secret")),
            ("up", PathBuf::from("../secret")),
            ("out-by-two", home.join("up")),
            ("gone", home.join("none")),
        ] {
            symlink(to, home.join(name)).unwrap();
        }
        // By another name of the directory too.
        let named = place.path().join("named");
        symlink(&home, &named).unwrap();
        for top in [&home, &named] {
            let tree = Tree::open(top).unwrap();
            let said = |path: &str| tree.file(Path::new(path)).map(drop);
            for within in ["relative", "whole", "twice", "around", "directory/file"] {
                assert_eq!(said(within), Ok(()), "{within}");
            }
            for (path, why) in [
                ("directory", "it is a directory"),
                ("out", "a link leads out of"),
                ("up", "a link leads out of"),
                ("out-by-two", "a link leads out of"),
                ("gone", "No such file"),
            ] {
                let refused = said(path).unwrap_err();
                assert!(refused.contains(why), "{path}: {refused}");
            }
        }
    }

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
