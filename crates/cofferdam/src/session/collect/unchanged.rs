//! Whether anything of a sandbox's own can have changed since its changes were recorded: by names, sizes, and times of change, which
//! the kernel sets and no program can (`inode(7)`, `st_ctime`). What is seen so only saves a look: whoever brings a sandbox's work home at
//! its end looks at everything.

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, Stat};
use sha2::{Digest, Sha256};

use crate::fsx::{self, FileError, beneath};
use crate::git::Oid;
use crate::git::hex::hex;
use crate::git::private_clone::PrivateClone;
use crate::home::Home;
use crate::registry::{Mode, Owned};
use crate::session::layers;

/// With more names a look is not much slower.
const MOST: usize = 20_000;
/// In the state directory: what was seen last.
const SEEN: &str = "recorded";
/// There too: which commit the index is.
const CLEAN: &str = "clean-index";
/// Of the git directory: what is in there is named by what is seen.
const OBJECTS: &[u8] = b"objects";

/// So old a change has to be that the next one has another time: the kernel's clock for files goes by ticks of 10 ms at most,
/// some file systems count in two seconds.
const TICK: Duration = Duration::from_millis(25);
const COARSE: Duration = Duration::from_millis(2_500);

/// How the sandbox's own files and its git directory are. Nothing in it may run.
#[derive(Debug)]
pub(in crate::session) struct Seen {
    sum: String,
    /// Whatever changes from now on is seen.
    is_settled: bool,
}

impl Seen {
    /// `None`: nobody can tell, or not in a moment.
    pub(in crate::session) fn now(owned: &Owned, home: &Home) -> Option<Self> {
        let state = owned.directory();
        let files = match owned.record.mode {
            Mode::Layer => layers::upper(state),
            Mode::Copy => owned.record.workspace(home),
            Mode::Bind | Mode::Inside => return None,
        };
        let mut looking = Looking::new();
        looking.tree(&files, b"")?;
        looking.tree(&PrivateClone::at(state).git_dir, OBJECTS)?;
        let (sum, is_settled) = looking.end()?;
        Some(Self { sum, is_settled })
    }

    /// Whether that is what was seen when all was recorded.
    pub(in crate::session) fn is_known(&self, owned: &Owned) -> bool {
        let known = fsx::read_bounded(&place(owned), 2 * self.sum.len() as u64);
        known.is_ok_and(|known| known == self.sum.as_bytes())
    }

    /// All of it is recorded.
    pub(in crate::session) fn remember(&self, owned: &Owned) -> Result<(), FileError> {
        if self.is_settled {
            fsx::write_private(&place(owned), self.sum.as_bytes())?;
        }
        Ok(())
    }
}

fn place(owned: &Owned) -> PathBuf {
    owned.directory().join(SEEN)
}

/// The sandbox's index has what this commit has and nothing else. Nothing in the sandbox may have run since that is so.
pub(in crate::session) fn remember_clean(owned: &Owned, commit: &Oid) -> Result<(), FileError> {
    match index_now(owned) {
        Some((sum, true)) => {
            let text = format!("{commit} {sum}");
            fsx::write_private(&owned.directory().join(CLEAN), text.as_bytes())
        }
        _ => Ok(()),
    }
}

/// Which commit the sandbox's index is, where nobody has touched it since [`remember_clean`]. `None`: it is to be read.
pub(super) fn clean(owned: &Owned) -> Option<String> {
    let known = fsx::read_bounded(&owned.directory().join(CLEAN), 256).ok()?;
    let known = String::from_utf8(known).ok()?;
    let (commit, sum) = known.split_once(' ')?;
    let (now, _) = index_now(owned)?;
    (now == sum).then(|| commit.to_owned())
}

/// How the index is, and whether whatever changes it from now on is seen.
fn index_now(owned: &Owned) -> Option<(String, bool)> {
    let mut looking = Looking::new();
    let index = PrivateClone::at(owned.directory()).index();
    looking.one(b"index", &rustix::fs::lstat(&index).ok()?);
    looking.end()
}

struct Looking {
    sum: Sha256,
    /// The last change, since 1970.
    newest: Duration,
    left: usize,
}

impl Looking {
    fn new() -> Self {
        Self {
            sum: Sha256::new(),
            newest: Duration::ZERO,
            left: MOST,
        }
    }

    /// The sum, and whether whatever changes from now on is seen.
    fn end(self) -> Option<(String, bool)> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let tick = if self.newest.subsec_nanos().is_multiple_of(1_000_000) {
            COARSE
        } else {
            TICK
        };
        Some((hex(&self.sum.finalize()), self.newest + tick < now))
    }

    /// Every name of a tree, without leaving it. `but`: a name at its top that is not looked into.
    fn tree(&mut self, top: &Path, but: &[u8]) -> Option<()> {
        let root = beneath::root(top).ok()?;
        self.one(b"", &rustix::fs::fstat(&root).ok()?);
        let mut open = vec![PathBuf::new()];
        while let Some(path) = open.pop() {
            let directory = beneath::directory(&root, &path).ok()?;
            for name in self.names(&directory)? {
                let stat = rustix::fs::statat(&directory, &*name, AtFlags::SYMLINK_NOFOLLOW);
                let stat = stat.ok()?;
                self.one(&name, &stat);
                let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                if is_directory && !(path.as_os_str().is_empty() && name == but) {
                    open.push(path.join(std::ffi::OsStr::from_bytes(&name)));
                }
            }
            // A name that begins with what stands before it in the list of another directory is none there.
            self.sum.update([0]);
        }
        Some(())
    }

    /// In the same order each time.
    fn names(&mut self, directory: impl AsFd) -> Option<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(directory).ok()? {
            let name = entry.ok()?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                self.left = self.left.checked_sub(1)?;
                names.push(name);
            }
        }
        names.sort_unstable();
        Some(names)
    }

    fn one(&mut self, name: &[u8], stat: &Stat) {
        self.sum.update(name);
        self.sum.update([0]);
        for number in [
            i128::from(stat.st_dev),
            i128::from(stat.st_ino),
            i128::from(stat.st_mode),
            i128::from(stat.st_size),
            i128::from(stat.st_ctime),
            i128::from(stat.st_ctime_nsec),
        ] {
            self.sum.update(number.to_le_bytes());
        }
        let (seconds, nanos) = (stat.st_ctime, stat.st_ctime_nsec);
        if let (Ok(seconds), Ok(nanos)) = (seconds.try_into(), nanos.try_into()) {
            self.newest = self.newest.max(Duration::new(seconds, nanos));
        }
    }
}
