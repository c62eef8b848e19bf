//! Files that a user names by hand, where agents write too: inside a checkout no link is followed, because an agent may have
//! left it there to have the host read or write another file.
//!
//! A checkout is whatever has a `.git`, with all that is below. Outside of one links lead where they lead everywhere, and
//! devices and what a shell opened (`/dev/null`, `/dev/stdin`) are what they are.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::way::{Missing, Way, open_directory};
use super::{Context, FileError};

/// A file to read.
#[derive(Debug)]
pub struct Named {
    /// As its user named it: what messages say.
    path: PathBuf,
    way: Way,
}

/// A file to write.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
    way: Way,
}

impl Named {
    /// Nothing is opened yet. What is missing is missing here or when it is read.
    pub fn find(path: &Path) -> Result<Self, FileError> {
        let way = Way::to(path, "open", Missing::Fails)?;
        Ok(Self {
            path: path.to_owned(),
            way,
        })
    }

    /// Where it is, behind all links.
    pub fn place(&self) -> PathBuf {
        self.way.place()
    }

    /// Whether it can be read only once and may keep its reader waiting: a device, what a shell opened. A pipe that has a name is
    /// none: where nobody writes to it its reader would wait for ever.
    pub fn is_stream(&self) -> bool {
        self.way.kind().is_ok_and(|kind| match kind {
            FileType::RegularFile | FileType::Directory => false,
            FileType::CharacterDevice => !self.way.inside,
            _ => !self.way.inside && self.way.by_kernel,
        })
    }

    /// All of it, at most `limit` bytes: more is an error.
    pub fn read(&self, limit: u64) -> Result<Vec<u8>, FileError> {
        let failed = |why: String| FileError::new("read", &self.path, io::Error::other(why));
        // Nobody writes to a pipe that an agent left: opening it must not wait.
        let waits = if self.is_stream() {
            OFlags::empty()
        } else {
            OFlags::NONBLOCK
        };
        let file = self.way.open(OFlags::RDONLY | waits);
        let file = file.context("open", &self.path)?;
        let found = file.metadata().context("look at", &self.path)?;
        if !found.is_file() && !self.is_stream() {
            return Err(failed("it is not a regular file".to_owned()));
        }
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .context("read", &self.path)?;
        if bytes.len() as u64 > limit {
            return Err(failed(format!("it is larger than {limit} bytes")));
        }
        Ok(bytes)
    }

    /// The directory that it is in.
    pub(crate) fn into_directory(self) -> OwnedFd {
        self.way.directory
    }
}

impl Destination {
    /// Nothing is written yet. The directory that it is in has to be there.
    pub fn find(path: &Path) -> Result<Self, FileError> {
        Self::of(path, Missing::Fails)
    }

    /// The same, and the directories that are missing on the way to it are made.
    pub fn with_directories(path: &Path) -> Result<Self, FileError> {
        Self::of(path, Missing::IsMade)
    }

    fn of(path: &Path, missing: Missing) -> Result<Self, FileError> {
        let way = Way::to(path, "write", missing)?;
        Ok(Self {
            path: path.to_owned(),
            way,
        })
    }

    /// Writes it whole: beside and renamed, so that readers see what was there or what is. A device, a pipe and what a shell
    /// opened are written to as they are.
    pub fn write(&self, bytes: &[u8], mode: u32) -> Result<(), FileError> {
        match self.replaced()? {
            Replaced::File => self.replace(bytes, mode),
            Replaced::Stream => {
                let file = self.way.open(OFlags::WRONLY | OFlags::APPEND);
                let mut file = file.context("open", &self.path)?;
                file.write_all(bytes).context("write", &self.path)
            }
        }
    }

    /// Opens it to add to its end. Reading what is there is allowed too.
    pub fn append(&self, mode: u32) -> Result<File, FileError> {
        self.replaced()?;
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
        let opened = self.way.open_with(flags, mode);
        opened.context("open", &self.path)
    }

    /// Opens it where nothing is.
    pub fn create_new(&self, mode: u32) -> Result<File, FileError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let opened = self.way.open_with(flags, mode);
        opened.context("create", &self.path)
    }

    /// Takes away what [`Self::create_new`] made.
    pub fn remove(&self) -> Result<(), FileError> {
        let removed = rustix::fs::unlinkat(&self.way.directory, &self.way.name, AtFlags::empty());
        removed.context("remove", &self.path)
    }

    /// Makes a directory where nothing is, and opens it.
    pub fn make_directory(&self, mode: u32) -> Result<OwnedFd, FileError> {
        let (at, name) = (&self.way.directory, &self.way.name);
        rustix::fs::mkdirat(at, name, Mode::from_raw_mode(mode)).context("make", &self.path)?;
        open_directory(at, name, OFlags::RDONLY).context("open", &self.path)
    }

    fn replaced(&self) -> Result<Replaced, FileError> {
        let refuse = |why: &str| {
            let why = io::Error::other(why.to_owned());
            Err(FileError::new("write", &self.path, why))
        };
        match self.way.kind() {
            Ok(FileType::Directory) => refuse("it is a directory"),
            Ok(FileType::RegularFile) if !self.way.by_kernel => Ok(Replaced::File),
            Err(Errno::NOENT) => Ok(Replaced::File),
            Err(errno) => Err(FileError::new("look at", &self.path, errno.into())),
            Ok(_) if self.way.inside => refuse("it is not a regular file"),
            Ok(_) => Ok(Replaced::Stream),
        }
    }

    fn replace(&self, bytes: &[u8], mode: u32) -> Result<(), FileError> {
        let (at, name) = (&self.way.directory, &self.way.name);
        for attempt in 0..100u32 {
            let mut beside = OsString::from(".");
            beside.push(name);
            beside.push(format!(".{}.{attempt}", std::process::id()));
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = match rustix::fs::openat(at, &beside, flags, Mode::from_raw_mode(mode)) {
                Err(Errno::EXIST) => continue,
                opened => opened.context("create a file beside", &self.path)?,
            };
            let written = File::from(opened).write_all(bytes);
            let written = written
                .and_then(|()| Ok(rustix::fs::renameat(at, &beside, at, name)?))
                .context("write", &self.path);
            if written.is_err() {
                let _ = rustix::fs::unlinkat(at, &beside, AtFlags::empty());
            }
            return written;
        }
        let why = io::Error::other("no free temporary name");
        Err(FileError::new("create a file beside", &self.path, why))
    }
}

/// What writing does to what is there.
enum Replaced {
    File,
    Stream,
}

/// The path of an open directory, as long as it is open: whoever renames it changes nothing.
pub(crate) fn path_of(directory: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fsx::{private_dir, write_private};

    /// A checkout with a directory, beside a place that agents cannot write.
    fn places() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let room = tempfile::tempdir().unwrap();
        let real = room.path().canonicalize().unwrap();
        let (top, outside) = (real.join("top"), real.join("outside"));
        private_dir(&top.join(".git")).unwrap();
        private_dir(&top.join("sub")).unwrap();
        private_dir(&outside).unwrap();
        write_private(&outside.join("key"), b"canary").unwrap();
        (room, top, outside)
    }

    fn read(path: &Path) -> Result<String, String> {
        let read = Named::find(path).and_then(|named| named.read(10));
        let read = read.map_err(|error| error.to_string())?;
        Ok(String::from_utf8(read).unwrap())
    }

    fn write(path: &Path) -> Result<(), String> {
        let written = Destination::find(path).and_then(|to| to.write(b"new", 0o644));
        written.map_err(|error| error.to_string())
    }

    #[test]
    fn no_link_of_a_checkout_is_followed() {
        let (_room, top, outside) = places();
        symlink(outside.join("key"), top.join("link")).unwrap();
        symlink("../../outside", top.join("sub/away")).unwrap();
        symlink(outside.join("none"), top.join("dangling")).unwrap();
        for (name, target) in [
            ("link", "key"),
            ("sub/away/key", "../../outside"),
            ("sub/../sub/away/key", "../../outside"),
            ("dangling", "none"),
        ] {
            let refused = [
                read(&top.join(name)).unwrap_err(),
                write(&top.join(name)).unwrap_err(),
            ];
            for text in refused {
                assert!(
                    text.contains("is a symlink to") && text.contains(target),
                    "{text}"
                );
                assert!(text.contains("agents write there"), "{text}");
            }
        }
        assert_eq!(read(&outside.join("key")).unwrap(), "canary");
        assert!(!outside.join("none").exists());
        // What is no link is read and written, and so is what is above the checkout.
        write(&top.join("sub/new")).unwrap();
        assert_eq!(read(&top.join("sub/new")).unwrap(), "new");
        assert_eq!(read(&top.join("sub/../../outside/key")).unwrap(), "canary");
        assert_eq!(fs::read_dir(top.join("sub")).unwrap().count(), 2);
    }

    #[test]
    fn links_outside_lead_where_they_lead() {
        let (_room, top, outside) = places();
        symlink("key", outside.join("link")).unwrap();
        symlink(&top, outside.join("checkout")).unwrap();
        assert_eq!(read(&outside.join("link")).unwrap(), "canary");
        write(&outside.join("link")).unwrap();
        assert_eq!(read(&outside.join("key")).unwrap(), "new");
        assert!(outside.join("link").is_symlink());
        // Into a checkout too, and from there on it is one.
        write(&outside.join("checkout/file")).unwrap();
        assert_eq!(read(&top.join("file")).unwrap(), "new");
        symlink(outside.join("key"), top.join("link")).unwrap();
        assert!(read(&outside.join("checkout/link")).is_err());
        assert!(write(&outside.join("checkout/link")).is_err());
        symlink("round", outside.join("round")).unwrap();
        assert!(read(&outside.join("round")).is_err());
    }

    #[test]
    fn pipes_and_devices_are_what_they_are_but_for_those_of_a_checkout() {
        let (_room, top, outside) = places();
        let fifo = |path: &Path| {
            let mode = Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0).unwrap();
        };
        // Nobody is at its other end: whoever opened it would wait.
        fifo(&top.join("pipe"));
        assert!(
            read(&top.join("pipe"))
                .unwrap_err()
                .contains("not a regular")
        );
        assert!(
            write(&top.join("pipe"))
                .unwrap_err()
                .contains("not a regular")
        );
        let to = Destination::find(&top.join("pipe")).unwrap();
        assert!(to.append(0o600).is_err());
        fifo(&outside.join("pipe"));
        let path = outside.join("pipe");
        assert!(read(&path).unwrap_err().contains("not a regular"));
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read_to_string(path)
        });
        write(&path).unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), "new");
        assert!(path.symlink_metadata().is_ok_and(|found| !found.is_file()));
        write(Path::new("/dev/null")).unwrap();
        assert_eq!(read(Path::new("/dev/null")).unwrap(), "");
        assert!(read(Path::new("/dev/zero")).unwrap_err().contains("larger"));
        // What is open in this process, as `/dev/stdin` is.
        let open = File::open(outside.join("key")).unwrap();
        let open = format!("/dev/fd/{}", open.as_raw_fd());
        assert_eq!(read(Path::new(&open)).unwrap(), "canary");
    }

    #[test]
    fn what_is_made_anew_is_made_where_it_was_named() {
        let (_room, top, outside) = places();
        symlink(&outside, top.join("away")).unwrap();
        assert!(Destination::find(&top.join("away/new")).is_err());
        assert!(Destination::with_directories(&top.join("away/a/new")).is_err());
        let to = Destination::with_directories(&top.join("a/b/new")).unwrap();
        to.create_new(0o600).unwrap();
        assert!(to.create_new(0o600).is_err());
        to.remove().unwrap();
        let made = to.make_directory(0o700).unwrap();
        write_private(&path_of(&made).join("file"), b"in it").unwrap();
        assert_eq!(read(&top.join("a/b/new/file")).unwrap(), "in it");
        assert!(to.make_directory(0o700).is_err());
        assert!(write(&top.join("a/b")).unwrap_err().contains("directory"));
        let mut log = Destination::find(&top.join("log"))
            .unwrap()
            .append(0o600)
            .unwrap();
        log.write_all(b"one").unwrap();
        let mut log = Destination::find(&top.join("log"))
            .unwrap()
            .append(0o600)
            .unwrap();
        log.write_all(b"two").unwrap();
        assert_eq!(read(&top.join("log")).unwrap(), "onetwo");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }
}
