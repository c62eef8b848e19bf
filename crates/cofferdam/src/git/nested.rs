//! Finding git directories below a checkout: each of them makes git execute what its configuration
//! says, so those that exist are read-only inside, and those an agent left are moved out. A directory
//! with the right entries is one too, whatever its name: git takes it for a bare repository.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{AtFlags, Dir, FileType, Mode, StatxFlags};
use rustix::io::Errno;

use super::inodes::{Entry, Inodes, Look};
use super::own_files;
use super::walked::{self, Compared, Expected, IndexAt, Walked};
use crate::fsx::beneath;
use crate::fsx::{Context, FileError};
use crate::text::printable;

/// As many directories of one depth are worth threads of their own.
const WORTH_THREADS: usize = 128;
const MOST_THREADS: usize = 8;

/// What to do with a directory of the user's that cannot be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// An agent can do with it what its user can.
    Skip,
    /// An agent may have closed it: its owner gets the rights back.
    Open,
}

/// What a checkout holds that a sandbox may not have as it is.
#[derive(Debug, Default)]
pub struct Found {
    /// As [`scan`] finds it.
    pub git: BTreeSet<PathBuf>,
    /// Unix sockets, pipes and devices, wherever they are but in the top's own `.git` and `.cofferdam`: behind
    /// each may be a program of the user's.
    pub doors: BTreeSet<PathBuf>,
    /// Every directory that is no part of a git directory; only where doors are looked for.
    pub directories: Vec<PathBuf>,
    /// What single files say, where that was asked for.
    pub inodes: Inodes,
    /// Where an index was given, and nothing in the way.
    pub walked: Option<Walked>,
    /// Cofferdam's own directories in checkouts, which are not gone into, and symlinks in their place; only by [`scan_whole`].
    pub own: Vec<PathBuf>,
    /// Directories that cannot be listed; only by [`scan_whole`].
    pub closed: Vec<PathBuf>,
}

/// Every path below `top` whose last component is `.git` in any case, and the `HEAD` of every other
/// directory that git takes for a repository, relative to `top`. With [`Closed::Open`] also pipes in
/// the place of `.gitignore` and the like. The top's own `.git` and `.cofferdam` are left out;
/// symlinks are not followed. In a directory without directories, a file counts in the cases in which
/// this file system knows it by its name. What is deeper than a path can name is skipped: git cannot
/// reach it either.
///
/// Blocks for as long as the kernel takes to list every directory, on all processors.
pub fn scan(top: &Path, closed: Closed) -> Result<BTreeSet<PathBuf>, FileError> {
    Ok(walk(top, closed, false, None, None)?.git)
}

/// A pipe in the place of `.gitignore` and the like below `top`, relative to it: git opens it by its name alone, and waits for ever.
/// Nothing is changed to look; what cannot be listed git cannot list either.
///
/// Blocks as [`scan`] does.
pub fn trap(top: &Path) -> Result<Option<PathBuf>, FileError> {
    let root = beneath::root(top).context("open", top)?;
    let scan = Scan {
        top,
        closed: Closed::Skip,
        root: root.as_fd(),
        counts: counted_links(&root),
        doors: false,
        traps: true,
        look: None,
        expected: None,
        whole: None,
    };
    let found = scan.levels(&mut Compared::default())?.git;
    let kind = |path: &PathBuf| path.file_name().is_some_and(is_trap_name);
    Ok(found.into_iter().find(kind))
}

/// As [`trap`], on a thread of its own.
pub async fn trap_in(top: &Path) -> Result<Option<PathBuf>, FileError> {
    let path = top.to_owned();
    let found = tokio::task::spawn_blocking(move || trap(&path)).await;
    found.unwrap_or_else(|error| Err(FileError::new("list", top, std::io::Error::other(error))))
}

/// What is said of one, by its path.
pub fn waits_at(trap: &Path) -> String {
    let trap = printable(&trap.to_string_lossy());
    format!("{trap} is a pipe, at which git would wait for ever: remove it")
}

/// What git opens by its name alone, in a directory or at the top (gitignore(5), gitattributes(5), gitmodules(5), gitmailmap(5)).
const OPENED: [&str; 4] = [".gitignore", ".gitattributes", ".gitmodules", ".mailmap"];

/// Whether it is one of these.
pub fn is_trap_name(name: &OsStr) -> bool {
    OPENED.iter().any(|one| name.eq_ignore_ascii_case(one))
}

/// Before an agent: as [`scan`] with [`Closed::Skip`], and every socket, pipe and device; also what the inodes
/// say where `inodes` is set, which costs a system call for each file. Lists also the directories in which
/// there are only files: any of them may be a socket, and the kernel's list does not know those of other
/// network namespaces.
pub fn scan_before(top: &Path, inodes: bool) -> Result<Found, FileError> {
    walk(
        top,
        Closed::Skip,
        true,
        inodes.then_some(Look::Before),
        None,
    )
}

/// As [`scan_before`], of a directory that need not be a checkout: what is in its own `.git` counts too, and its own `HEAD` where
/// git takes it for a repository. `None` where there is more below it than `most`.
pub fn scan_whole(top: &Path, inodes: bool, most: usize) -> Result<Option<Found>, FileError> {
    let root = beneath::root(top).context("open", top)?;
    let seen = AtomicUsize::new(0);
    let scan = Scan {
        top,
        closed: Closed::Skip,
        root: root.as_fd(),
        counts: None,
        doors: true,
        traps: false,
        look: inodes.then_some(Look::Before),
        expected: None,
        whole: Some(Whole { seen: &seen, most }),
    };
    let found = scan.levels(&mut Compared::default())?;
    Ok((seen.into_inner() <= most).then_some(found))
}

/// As [`scan_before`] with the inodes, and whether the files are as the index `at` says.
pub fn scan_compared(top: &Path, at: &IndexAt) -> Result<Found, FileError> {
    let read = walked::Read::from(at);
    let expected = read.as_ref().and_then(walked::Read::expected);
    walk(top, Closed::Skip, true, Some(Look::Before), expected)
}

/// After an agent: as [`scan`] with [`Closed::Open`], and what the inodes say.
pub fn scan_after(top: &Path, look: Look<'_>) -> Result<Found, FileError> {
    walk(top, Closed::Open, false, Some(look), None)
}

fn walk(
    top: &Path,
    closed: Closed,
    doors: bool,
    look: Option<Look<'_>>,
    expected: Option<Expected<'_>>,
) -> Result<Found, FileError> {
    let root = match beneath::root(top) {
        Err(Errno::ACCESS) if closed == Closed::Open => {
            let _ = rustix::fs::chmod(top, Mode::RWXU);
            beneath::root(top)
        }
        opened => opened,
    };
    let root = root.context("open", top)?;
    let scan = Scan {
        top,
        closed,
        root: root.as_fd(),
        counts: counted_links(&root),
        doors,
        traps: closed == Closed::Open,
        look,
        expected: expected.as_ref(),
        whole: None,
    };
    let mut compared = Compared::default();
    let mut found = scan.levels(&mut compared)?;
    // What git makes of repositories in it, git knows.
    let traps = found.doors.iter().filter_map(|door| door.file_name());
    let is_plain = found.git.is_empty() && !traps.into_iter().any(is_trap_name);
    let expected = expected.filter(|_| is_plain);
    found.walked = expected.and_then(|expected| expected.conclude(compared));
    Ok(found)
}

/// What directories hold.
#[derive(Default)]
struct Seen {
    git: Vec<PathBuf>,
    doors: Vec<PathBuf>,
    directories: Vec<PathBuf>,
    inodes: Inodes,
    compared: Compared,
    own: Vec<PathBuf>,
    closed: Vec<PathBuf>,
}

/// How far it goes that is looked through whole.
#[derive(Clone, Copy)]
struct Whole<'a> {
    seen: &'a AtomicUsize,
    most: usize,
}

impl Whole<'_> {
    /// Whether one more is too many.
    fn is_over(self) -> bool {
        self.seen.fetch_add(1, Ordering::Relaxed) >= self.most
    }
}

#[derive(Clone, Copy)]
struct Scan<'a> {
    top: &'a Path,
    closed: Closed,
    root: BorrowedFd<'a>,
    /// The file system in which the links of a directory tell how many directories are in it.
    counts: Option<(u32, u32)>,
    doors: bool,
    /// Whether pipes at which git would wait are found.
    traps: bool,
    look: Option<Look<'a>>,
    /// Compared with what is looked at.
    expected: Option<&'a Expected<'a>>,
    /// Nothing at the top is left out.
    whole: Option<Whole<'a>>,
}

impl Scan<'_> {
    /// From the top down, one depth after the other.
    fn levels(self, compared: &mut Compared) -> Result<Found, FileError> {
        let mut found = Found::default();
        let mut level = vec![PathBuf::new()];
        while !level.is_empty() {
            let mut next = Vec::new();
            for seen in self.list_all(&level)? {
                found.git.extend(seen.git);
                found.doors.extend(seen.doors);
                found.inodes.merge(seen.inodes);
                found.own.extend(seen.own);
                found.closed.extend(seen.closed);
                compared.merge(seen.compared);
                next.extend(seen.directories);
            }
            if self.doors {
                let in_git =
                    |path: &PathBuf| path.iter().any(|name| name.eq_ignore_ascii_case(".git"));
                found
                    .directories
                    .extend(level.into_iter().filter(|path| !in_git(path)));
            }
            level = next;
        }
        Ok(found)
    }

    fn list_all(self, level: &[PathBuf]) -> Result<Vec<Seen>, FileError> {
        if level.len() < WORTH_THREADS {
            return Ok(vec![self.list_some(level)?]);
        }
        let threads = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(MOST_THREADS);
        let mut parts = level.chunks(level.len().div_ceil(threads));
        let own = parts.next().unwrap_or_default();
        std::thread::scope(|scope| {
            let others: Vec<_> = parts
                .map(|part| scope.spawn(move || self.list_some(part)))
                .collect();
            let mut seen = vec![self.list_some(own)?];
            for other in others {
                let gone = || std::io::Error::other("a thread ended early");
                let done = other
                    .join()
                    .map_err(|_| FileError::new("list", self.top, gone()))?;
                seen.push(done?);
            }
            Ok(seen)
        })
    }

    fn list_some(self, paths: &[PathBuf]) -> Result<Seen, FileError> {
        let mut seen = Seen::default();
        paths
            .iter()
            .try_for_each(|path| self.list(path, &mut seen))?;
        Ok(seen)
    }

    fn list(self, path: &Path, seen: &mut Seen) -> Result<(), FileError> {
        let top = self.top;
        let at_top = path.as_os_str().is_empty();
        let opened = match beneath::directory(self.root, path) {
            Err(Errno::ACCESS) if self.closed == Closed::Open => {
                let _ = beneath::open_up(self.root, path);
                beneath::directory(self.root, path)
            }
            opened => opened,
        };
        let directory = match opened {
            Ok(directory) => directory,
            Err(error) if at_top => return Err(FileError::new("open", top, error.into())),
            Err(Errno::ACCESS) if self.whole.is_some() => {
                seen.closed.push(path.to_owned());
                return Ok(());
            }
            // Gone, replaced by a symlink, or out of reach.
            Err(
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::LOOP
                | Errno::ACCESS
                | Errno::NAMETOOLONG
                | Errno::XDEV
                | Errno::AGAIN,
            ) => return Ok(()),
            Err(error) => return Err(FileError::new("open", top.join(path), error.into())),
        };
        if !at_top && !self.doors && self.look.is_none() && self.has_no_directory(&directory) {
            // Left are files and links. The file system is asked as git would ask it, so where it
            // does not tell cases apart, any case is found.
            let kind = |name: &str| match rustix::fs::statat(
                &directory,
                name,
                AtFlags::SYMLINK_NOFOLLOW,
            ) {
                Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
                Err(Errno::NOENT) => Ok(None),
                Err(error) => {
                    let place = top.join(path).join(name);
                    Err(FileError::new("look at", place, error.into()))
                }
            };
            if kind(".git")?.is_some() {
                seen.git.push(path.join(".git"));
            }
            let mut bare = Bare::default();
            if kind("HEAD")?.is_some() {
                bare.look_at(b"HEAD");
                for name in ["commondir", "objects", "refs"] {
                    if kind(name)?.is_some() {
                        bare.look_at(name.as_bytes());
                    }
                }
            }
            seen.git.extend(bare.head().map(|head| path.join(head)));
            if self.traps {
                for name in [".gitignore", ".gitattributes"] {
                    if kind(name)? == Some(FileType::Fifo) {
                        seen.git.push(path.join(name));
                    }
                }
            }
            return Ok(());
        }
        // Of what git has there only doors are of interest.
        let in_git = self.doors && path.iter().any(|name| name.eq_ignore_ascii_case(".git"));
        let mut bare = Bare::default();
        let mut inodes = Vec::new();
        let others = seen.directories.len();
        let looked = directory.try_clone().context("open", path)?;
        let entries = Dir::new(directory).context("list", path)?;
        for entry in entries {
            let entry = entry.context("list", path)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            if let Some(whole) = self.whole {
                if whole.is_over() {
                    return Ok(());
                }
            } else if at_top && (name == b".git" || name == b".cofferdam") {
                continue;
            }
            // Only joined where it is needed: most entries are files of no interest.
            let below = || path.join(OsStr::from_bytes(name));
            let kind = match entry.file_type() {
                FileType::Unknown if self.doors || self.look.is_some() => {
                    kind_of(&looked, entry.file_name())
                }
                kind => kind,
            };
            let is_own = name.eq_ignore_ascii_case(own_files::DIRECTORY.as_bytes());
            if self.whole.is_some()
                && is_own
                && matches!(kind, FileType::Directory | FileType::Symlink)
            {
                seen.own.push(below());
                if kind == FileType::Directory {
                    continue;
                }
            }
            if self.doors && is_door(kind) {
                seen.doors.push(below());
            }
            if in_git {
                if matches!(kind, FileType::Directory | FileType::Unknown) {
                    seen.directories.push(below());
                }
                continue;
            }
            bare.look_at(name);
            if self.look.is_some() && matches!(kind, FileType::RegularFile | FileType::Symlink) {
                let name = OsStr::from_bytes(name).to_owned();
                inodes.extend(Entry::look(&looked, name));
            }
            // Git opens these by their names alone, and a pipe keeps it waiting for ever.
            let is_trap = || self.traps && is_trap_name(OsStr::from_bytes(name));
            let is_pipe = kind == FileType::Fifo;
            if name.eq_ignore_ascii_case(b".git") || (is_pipe && is_trap()) {
                seen.git.push(below());
                if self.doors {
                    seen.directories.push(below());
                }
            } else if matches!(kind, FileType::Directory | FileType::Unknown) {
                seen.directories.push(below());
            }
        }
        if !at_top || self.whole.is_some() {
            seen.git.extend(bare.head().map(|head| path.join(head)));
        }
        if let (Some(look), false) = (self.look, in_git) {
            let found = rustix::fs::fstat(&looked).context("look at", path)?;
            seen.inodes.note(top, path, found.st_mode, &inodes, look);
            if let Some(expected) = self.expected {
                let compared = expected.compare(path, &inodes, &seen.directories[others..]);
                seen.compared.merge(compared);
            }
        }
        Ok(())
    }

    /// Most directories hold only files, and listing them is what takes the time.
    fn has_no_directory(self, directory: &OwnedFd) -> bool {
        // Its own name and its `.`; each directory in it would add a `..`.
        self.counts.is_some()
            && device_and_links(directory)
                .is_ok_and(|(on, links)| Some(on) == self.counts && links == 2)
    }
}

fn is_door(kind: FileType) -> bool {
    matches!(
        kind,
        FileType::Socket | FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice
    )
}

/// Where a listing does not tell. What cannot be looked at is opened as a directory, which fails well.
fn kind_of(directory: &OwnedFd, name: &std::ffi::CStr) -> FileType {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_or(FileType::Unknown, |found| {
            FileType::from_raw_mode(found.st_mode)
        })
}

/// The device of `root`, if its file system is one that counts.
fn counted_links(root: &OwnedFd) -> Option<(u32, u32)> {
    const EXT: u32 = 0xef53;
    const XFS: u32 = 0x5846_5342;
    const TMPFS: u32 = 0x0102_1994;
    let kind = u32::try_from(rustix::fs::fstatfs(root).ok()?.f_type).ok()?;
    if !matches!(kind, EXT | XFS | TMPFS) {
        return None;
    }
    device_and_links(root).ok().map(|(device, _)| device)
}

fn device_and_links(of: &OwnedFd) -> Result<((u32, u32), u32), Errno> {
    let found = rustix::fs::statx(of, c"", AtFlags::EMPTY_PATH, StatxFlags::NLINK)?;
    Ok(((found.stx_dev_major, found.stx_dev_minor), found.stx_nlink))
}

/// Whether the last component is `.git` in any case.
pub fn is_dot_git(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.eq_ignore_ascii_case(".git"))
}

/// Whether git takes the directory itself for a repository.
pub fn is_bare(directory: &Path) -> bool {
    let mut bare = Bare::default();
    for name in ["HEAD", "commondir", "objects", "refs"] {
        if directory.join(name).symlink_metadata().is_ok() {
            bare.look_at(name.as_bytes());
        }
    }
    bare.head().is_some()
}

/// The names by which git knows a git directory.
#[derive(Debug, Default)]
struct Bare {
    head: Option<OsString>,
    common: bool,
    objects: bool,
    refs: bool,
}

impl Bare {
    fn look_at(&mut self, name: &[u8]) {
        if name.eq_ignore_ascii_case(b"HEAD") {
            self.head = Some(OsStr::from_bytes(name).to_owned());
        }
        self.common |= name.eq_ignore_ascii_case(b"commondir");
        self.objects |= name.eq_ignore_ascii_case(b"objects");
        self.refs |= name.eq_ignore_ascii_case(b"refs");
    }

    fn head(self) -> Option<OsString> {
        self.head
            .filter(|_| self.common || (self.objects && self.refs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_case_and_kind() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        for name in [
            ".git/sub",
            "a/.git/modules/.git",
            "b/c/.GiT",
            ".cofferdam/worktrees/w",
            "d",
        ] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        crate::fsx::write_private(&top.join("d/.git"), b"gitdir: x").unwrap();
        crate::fsx::write_private(&top.join(".cofferdam/worktrees/w/.git"), b"x").unwrap();
        crate::fsx::write_private(&top.join(".GIT"), b"x").unwrap();
        symlink("/nonexistent", top.join("b/.git")).unwrap();
        symlink(top.join("a"), top.join("link")).unwrap();
        crate::fsx::write_private(&top.join("d/.gitignore"), b"x").unwrap();
        let want = [".GIT", "a/.git", "b/.git", "b/c/.GiT", "d/.git"].map(PathBuf::from);
        assert_eq!(scan(top, Closed::Skip).unwrap(), BTreeSet::from(want));
    }

    #[test]
    fn sockets_are_found_wherever_they_are() {
        use std::os::unix::net::UnixListener;
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        let places = [
            "s",
            "a/s",
            "a/b/s",
            "a/.git/s",
            "a/.git/w/s",
            ".git/s",
            ".cofferdam/s",
        ];
        let bound = places.map(|name| {
            fs::create_dir_all(top.join(name).parent().unwrap()).unwrap();
            UnixListener::bind(top.join(name)).unwrap()
        });
        crate::fsx::write_private(&top.join("a/b/file"), b"x").unwrap();
        fs::hard_link(top.join("a/s"), top.join("a/b/again")).unwrap();
        symlink(top.join("s"), top.join("link")).unwrap();
        // One that nobody listens at any more is one, for whoever binds it anew.
        drop(bound);
        let found = scan_before(top, false).unwrap();
        let want = ["s", "a/s", "a/b/again", "a/b/s", "a/.git/s", "a/.git/w/s"].map(PathBuf::from);
        assert_eq!(found.doors, BTreeSet::from(want));
        assert_eq!(found.git, BTreeSet::from(["a/.git".into()]));
        assert_eq!(scan(top, Closed::Skip).unwrap(), found.git);
    }

    #[test]
    fn names_elsewhere_and_kept_rights_are_found() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::create_dir_all(top.join("own/.git")).unwrap();
        let file = |path: &Path| crate::fsx::write_private(path, b"x").unwrap();
        let link = |from: &Path, to: &str| fs::hard_link(from, top.join(to)).unwrap();
        file(&dir.path().join("store"));
        link(&dir.path().join("store"), "a/one");
        link(&dir.path().join("store"), "a/b/two");
        file(&top.join("within"));
        link(&top.join("within"), "a/within");
        for (name, mode) in [("suid", 0o4755), ("sgid", 0o2755), ("plain", 0o755)] {
            file(&top.join(name));
            fs::set_permissions(top.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("suid", top.join("link")).unwrap();
        let found = scan_before(&top, true).unwrap();
        let want = ["a/b/two", "a/one"].map(PathBuf::from);
        assert_eq!(found.inodes.linked_outside(), BTreeSet::from(want));
        let want = ["sgid", "suid"].map(PathBuf::from);
        assert_eq!(found.inodes.privileged, BTreeSet::from(want));
        assert_eq!(found.git, BTreeSet::from(["own/.git".into()]));
    }

    #[test]
    fn nothing_is_left_out_of_what_is_looked_through_whole() {
        use std::os::unix::net::UnixListener;
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        for name in [".git", ".cofferdam", "a/.cofferdam/deep", "objects", "refs"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        crate::fsx::write_private(&top.join("HEAD"), b"ref: refs/heads/x").unwrap();
        let _bound = [".git/s", "a/.cofferdam/s"].map(|s| UnixListener::bind(top.join(s)));
        let found = scan_whole(top, true, 100).unwrap().unwrap();
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(found.own, paths(&[".cofferdam", "a/.cofferdam"]));
        assert_eq!(found.doors, BTreeSet::from([".git/s".into()]));
        assert_eq!(found.git, BTreeSet::from([".git".into(), "HEAD".into()]));
        // Those at the top, and two below.
        assert!(scan_whole(top, false, 8).unwrap().is_some());
        assert!(scan_whole(top, false, 7).unwrap().is_none());
    }

    #[test]
    fn pipes_are_doors() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        fs::create_dir_all(top.join("a/.git")).unwrap();
        for name in ["p", "a/p", "a/.git/p"] {
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, top.join(name), FileType::Fifo, mode, 0).unwrap();
        }
        let want = ["a/.git/p", "a/p", "p"].map(PathBuf::from);
        assert_eq!(scan_before(top, false).unwrap().doors, BTreeSet::from(want));
    }

    #[test]
    fn wide_levels_are_listed_whole() {
        let dir = tempfile::tempdir().unwrap();
        let mut want = BTreeSet::new();
        for number in 0..3 * WORTH_THREADS {
            let name = format!("d{number}/below");
            fs::create_dir_all(dir.path().join(&name)).unwrap();
            let path = dir.path().join(&name).join(".git");
            match number % 9 {
                0 => fs::create_dir(path).unwrap(),
                1 => crate::fsx::write_private(&path, b"gitdir: x").unwrap(),
                2 => symlink("x", path).unwrap(),
                _ => continue,
            }
            want.insert(PathBuf::from(name).join(".git"));
        }
        assert_eq!(scan(dir.path(), Closed::Skip).unwrap(), want);
    }

    #[test]
    fn what_git_takes_for_a_repository() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        for name in [
            "objects",
            "refs",
            "a/objects",
            "a/refs",
            "b",
            "c/objects",
            "c/Head",
            "d",
        ] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        for name in [
            "HEAD",
            "a/HEAD",
            "b/HEAD",
            "b/commondir",
            "d/HEAD",
            "d/objects",
            "d/refs",
        ] {
            crate::fsx::write_private(&top.join(name), b"ref: refs/heads/x").unwrap();
        }
        let want = ["a/HEAD", "b/HEAD", "d/HEAD"].map(PathBuf::from);
        assert_eq!(scan(top, Closed::Skip).unwrap(), BTreeSet::from(want));
    }

    #[test]
    fn depth_has_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut at = beneath::root(dir.path()).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o700);
        for _ in 0..3000 {
            rustix::fs::mkdirat(&at, "d", mode).unwrap();
            at = beneath::directory(&at, Path::new("d")).unwrap();
        }
        fs::create_dir_all(dir.path().join("x/.git")).unwrap();
        assert_eq!(
            scan(dir.path(), Closed::Skip).unwrap(),
            BTreeSet::from(["x/.git".into()])
        );
        drop(at);
        crate::fsx::remove_tree(&dir.path().join("d")).unwrap();
    }
}
