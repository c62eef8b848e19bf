//! What the inodes of a checkout say that an agent may write: names elsewhere, rights that a file keeps
//! when it is written through a mapping, and rights of other users. Filled by the one walk of [`super::nested`].

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, StatxFlags};
use rustix::io::Errno;

use super::index::format::Stat;
use super::rights::{Indexed, Loosened, Rights, Seen};

/// What is asked of each file.
#[derive(Debug, Clone, Copy)]
pub enum Look<'a> {
    /// Before the agent: what it must not write, and who may do what.
    Before,
    /// After it: what changed at this time or later (seconds since 1970, and nanoseconds), and what was
    /// opened to others.
    After {
        /// Seconds since 1970, and nanoseconds.
        since: (i64, i64),
        /// What others were allowed before.
        rights: &'a Indexed<'a>,
    },
}

/// What was found.
#[derive(Debug, Default)]
pub struct Inodes {
    /// Device, inode and links of files with several names, and those of their names that were found.
    linked: BTreeMap<(u64, u64), (u32, Vec<PathBuf>)>,
    /// Files with a set-user-id or set-group-id bit or capabilities. The kernel takes those away when
    /// somebody writes, but not when they write through a shared mapping.
    pub privileged: BTreeSet<PathBuf>,
    pub(super) seen: Seen,
    /// Files and links that changed since; only where asked for.
    pub changed: Vec<PathBuf>,
    /// What others may do now and could not before.
    pub loosened: Vec<Loosened>,
}

/// One entry of a directory that is no directory.
#[derive(Debug)]
pub(super) struct Entry {
    name: OsString,
    mode: u32,
    links: u32,
    inode: (u64, u64),
    changed: (i64, i64),
    modified: (i64, i64),
    owner: (u32, u32),
    size: u64,
}

impl Entry {
    /// `None` where it is gone, or is something that nobody can write.
    pub(super) fn look(directory: impl AsFd, name: OsString) -> Option<Self> {
        let wanted = StatxFlags::TYPE
            | StatxFlags::MODE
            | StatxFlags::NLINK
            | StatxFlags::INO
            | StatxFlags::CTIME
            | StatxFlags::MTIME
            | StatxFlags::UID
            | StatxFlags::GID
            | StatxFlags::SIZE;
        let found = rustix::fs::statx(directory, &name, AtFlags::SYMLINK_NOFOLLOW, wanted).ok()?;
        Some(Self {
            name,
            mode: u32::from(found.stx_mode),
            links: found.stx_nlink,
            inode: (
                u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor),
                found.stx_ino,
            ),
            changed: (found.stx_ctime.tv_sec, i64::from(found.stx_ctime.tv_nsec)),
            modified: (found.stx_mtime.tv_sec, i64::from(found.stx_mtime.tv_nsec)),
            owner: (found.stx_uid, found.stx_gid),
            size: found.stx_size,
        })
    }

    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    /// As an index has it, but for the device. Git keeps the low 32 bits of each number.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "what git does with them"
    )]
    pub(super) fn stat(&self) -> Stat {
        let time = |(seconds, nanoseconds): (i64, i64)| [seconds as u32, nanoseconds as u32];
        Stat {
            ctime: time(self.changed),
            mtime: time(self.modified),
            dev: 0,
            ino: self.inode.1 as u32,
            uid: self.owner.0,
            gid: self.owner.1,
            size: self.size as u32,
        }
    }

    /// The mode that git has for such a file.
    pub(super) fn mode_in_git(&self) -> u32 {
        match (self.is_file(), self.mode & 0o100) {
            (true, 0) => 0o100_644,
            (true, _) => 0o100_755,
            (false, _) => 0o120_000,
        }
    }

    fn is_file(&self) -> bool {
        FileType::from_raw_mode(self.mode) == FileType::RegularFile
    }
}

impl Inodes {
    /// Takes note of one directory below `top`, whose mode is `mode`, and of all that is in it.
    pub(super) fn note(
        &mut self,
        top: &Path,
        path: &Path,
        mode: u32,
        entries: &[Entry],
        look: Look<'_>,
    ) {
        let files = entries.iter().filter(|entry| entry.is_file());
        match look {
            Look::Before => {
                for file in files.clone() {
                    if file.links > 1 {
                        let known = self.linked.entry(file.inode).or_default();
                        known.0 = file.links;
                        known.1.push(path.join(&file.name));
                    }
                    let keeps = file.mode & 0o6000 != 0
                        || (file.mode & 0o111 != 0
                            && has_capabilities(&top.join(path).join(&file.name)));
                    if keeps {
                        self.privileged.insert(path.join(&file.name));
                    }
                }
                let modes = files.map(|file| (&file.name, file.mode));
                self.seen.note(path, mode, modes);
            }
            Look::After { since, rights } => {
                let fresh = entries.iter().filter(|entry| entry.changed >= since);
                self.changed
                    .extend(fresh.map(|entry| path.join(&entry.name)));
                let modes = files.map(|file| (&file.name, file.mode));
                self.loosened.extend(rights.loosened(path, mode, modes));
            }
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (inode, (links, names)) in other.linked {
            let known = self.linked.entry(inode).or_default();
            known.0 = links;
            known.1.extend(names);
        }
        self.privileged.extend(other.privileged);
        self.seen.merge(other.seen);
        self.changed.extend(other.changed);
        self.loosened.extend(other.loosened);
    }

    /// The names of files that have other names too, which were not found: who writes one of these writes
    /// there. Files whose names are all in the checkout are not among them.
    pub fn linked_outside(&self) -> BTreeSet<PathBuf> {
        let outside = self.linked.values().filter(|(links, names)| {
            usize::try_from(*links).is_ok_and(|links| links > names.len())
        });
        outside
            .flat_map(|(_, names)| names.iter().cloned())
            .collect()
    }

    /// Who may do what, to be compared with after the agent.
    pub fn rights(&self) -> Rights {
        self.seen.rights()
    }
}

fn has_capabilities(path: &Path) -> bool {
    let mut value = [0_u8; 64];
    match rustix::fs::lgetxattr(path, c"security.capability", &mut value[..]) {
        Ok(length) => length > 0,
        // It is there, and longer than any that is known.
        Err(errno) => errno == Errno::RANGE,
    }
}
