//! The control group that a sandbox's programs are in, from their first moment on, and that can be frozen.
//!
//! Init stands beside it and decides who is frozen when. Nothing inside can leave the group: no file of control groups is
//! visible there, and their descriptors are init's alone. It is one of version 2: what is frozen there can be killed,
//! where version 1 would keep it, and with it init's own end, until somebody outside let it go.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use cofferdam_guest::protocol::PROGRAMS_GROUP;

use crate::sys;

#[derive(Debug)]
pub(crate) struct Freezer {
    /// Where init is.
    own: OwnedFd,
    /// Where everything else is, below it.
    programs: OwnedFd,
    switch: File,
    events: File,
}

impl Freezer {
    /// Opened as whoever made the group, and in their namespaces.
    pub(crate) fn open(path: &[u8]) -> io::Result<Self> {
        let directory = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let own = sys::open_at(libc::AT_FDCWD, &sys::c_string(path)?, directory, 0)?;
        let name = sys::c_string(PROGRAMS_GROUP.as_bytes())?;
        let programs = sys::open_at(own.as_raw_fd(), &name, directory, 0)?;
        let file = |name, flags| sys::open_at(programs.as_raw_fd(), name, flags, 0).map(File::from);
        let freezer = Self {
            switch: file(c"cgroup.freeze", libc::O_WRONLY)?,
            events: file(c"cgroup.events", libc::O_RDONLY)?,
            own,
            programs,
        };
        freezer.set(false)?;
        Ok(freezer)
    }

    pub(crate) fn own(&self) -> BorrowedFd<'_> {
        self.own.as_fd()
    }

    pub(crate) fn programs(&self) -> BorrowedFd<'_> {
        self.programs.as_fd()
    }

    /// Whether init, as it is by now, can start programs there: only trying tells what this machine allows.
    pub(crate) fn works(&self) -> bool {
        match sys::fork_within(self.programs(), 0) {
            Ok(0) => sys::exit(0),
            Ok(child) => sys::wait(child, true).is_ok(),
            Err(_) => false,
        }
    }

    /// Returns before everything has followed: see [`Self::is_frozen`].
    pub(crate) fn set(&self, frozen: bool) -> io::Result<()> {
        let word: &[u8] = if frozen { b"1" } else { b"0" };
        self.switch.write_all_at(word, 0)
    }

    /// Whether nothing in it runs.
    pub(crate) fn is_frozen(&self) -> io::Result<bool> {
        let mut text = [0; 256];
        let length = self.events.read_at(&mut text, 0)?;
        let mut lines = text[..length].split(|&byte| byte == b'\n');
        Ok(lines.any(|line| line == b"frozen 1"))
    }
}
