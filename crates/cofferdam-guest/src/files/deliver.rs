//! Files to places anywhere inside, each of them whole or not at all, as the agent makes them.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use cofferdam_guest::protocol::files::{self, Parcel, Print, Receipt, is_plain};

use super::content::Number;
use super::{BUFFER, Tree, invalid, print, split};
use crate::sys;

/// See [`cofferdam_guest::protocol::Request::Deliver`].
pub(crate) fn deliver(from: OwnedFd, to: OwnedFd, owner: Option<(u32, u32)>) -> io::Result<()> {
    let mut from = BufReader::with_capacity(BUFFER, File::from(from));
    let mut to = BufWriter::with_capacity(BUFFER, File::from(to));
    let mut tree = Tree::root()?;
    loop {
        let receipt = match files::read::<Parcel>(&mut from)? {
            Parcel::File { path, mode } => match bring(&mut tree, &mut from, &path, (mode, owner))?
            {
                Ok(print) => Receipt::There { print },
                Err(errno) => Receipt::Refused { errno },
            },
            Parcel::Look { path, print } => match look(&mut tree, &path) {
                Ok(found) if found == print => Receipt::There { print },
                _ => Receipt::Changed,
            },
            Parcel::Gone { path } => match remove(&mut tree, &path) {
                Ok(()) => Receipt::Gone,
                Err(error) => Receipt::Refused {
                    errno: error.raw_os_error().unwrap_or(libc::EIO),
                },
            },
            Parcel::Part(_) | Parcel::Whole | Parcel::Broken => return Err(invalid()),
            Parcel::End => break,
        };
        files::write(&mut to, &receipt)?;
    }
    files::write(&mut to, &Receipt::End)?;
    to.flush()
}

/// One file, whose content follows. An error of the stream ends it all; one of the file is the file's alone.
fn bring(
    tree: &mut Tree,
    from: &mut BufReader<File>,
    path: &[u8],
    (mode, owner): (u32, Option<(u32, u32)>),
) -> io::Result<Result<Print, i32>> {
    let mut new = New::begin(tree, path);
    loop {
        match files::read::<Parcel>(from)? {
            Parcel::Part(bytes) => {
                if let Ok(open) = &mut new
                    && let Err(error) = open.file.write_all(&bytes)
                {
                    new = Err(error);
                }
            }
            Parcel::Whole => {
                let done = new.and_then(|new| new.takes_its_place(tree, mode, owner));
                return Ok(done.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)));
            }
            Parcel::Broken => return Ok(Err(libc::ECANCELED)),
            _ => return Err(invalid()),
        }
    }
}

/// A file beside its place. Dropped before it has taken that, it is gone.
#[derive(Debug)]
struct New {
    file: File,
    directory: OwnedFd,
    temporary: CString,
    path: Vec<u8>,
    is_there: bool,
}

impl New {
    fn begin(tree: &mut Tree, path: &[u8]) -> io::Result<Self> {
        if !is_plain(path) {
            return Err(invalid());
        }
        let (parent, name) = split(path);
        let directory = tree.directory(parent, true)?;
        // A descriptor by which something may be made there.
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let directory = sys::open_at(directory.as_raw_fd(), c".", flags, 0)?;
        // Of the same file always the same: what one that was killed left is found by whoever brings that file again.
        let mut number = Number::default();
        number.add(name);
        let temporary = sys::c_string(format!(".cofferdam-sync-{:016x}", number.end()).as_bytes())?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let make = || sys::open_at(directory.as_raw_fd(), &temporary, flags, 0o600);
        let made = match make() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                sys::unlink_at(directory.as_fd(), &temporary)?;
                make()
            }
            other => other,
        }?;
        Ok(Self {
            file: File::from(made),
            directory,
            temporary,
            path: path.to_vec(),
            is_there: false,
        })
    }

    /// Whether nobody has begun with the same file after this one, whose stream may have ended meanwhile.
    fn is_the_last(&self) -> bool {
        let inode = |at, name| sys::stat_at(at, name).map(|stat| stat.inode).ok();
        let own = inode(self.file.as_fd(), c"");
        own.is_some() && own == inode(self.directory.as_fd(), &self.temporary)
    }

    fn takes_its_place(
        mut self,
        tree: &mut Tree,
        mode: u32,
        owner: Option<(u32, u32)>,
    ) -> io::Result<Print> {
        if let Some((uid, gid)) = owner {
            sys::change_owner(self.file.as_fd(), uid, gid)?;
        }
        sys::change_mode(self.file.as_fd(), mode & 0o777)?;
        if !self.is_the_last() {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        let (parent, name) = split(&self.path);
        let name = sys::c_string(name)?;
        let from = (self.directory.as_fd(), &*self.temporary);
        sys::rename_at(from, (self.directory.as_fd(), &name), 0)?;
        self.is_there = true;
        // It counts where it is found again.
        let stat = sys::stat_at(tree.directory(parent, false)?, &name)?;
        Ok(print(&stat))
    }
}

impl Drop for New {
    fn drop(&mut self) {
        if !self.is_there && self.is_the_last() {
            let _ = sys::unlink_at(self.directory.as_fd(), &self.temporary);
        }
    }
}

fn remove(tree: &mut Tree, path: &[u8]) -> io::Result<()> {
    if !is_plain(path) {
        return Err(invalid());
    }
    let (parent, name) = split(path);
    sys::unlink_at(tree.directory(parent, false)?, &sys::c_string(name)?)
}

fn look(tree: &mut Tree, path: &[u8]) -> io::Result<Print> {
    if !is_plain(path) {
        return Err(invalid());
    }
    let (parent, name) = split(path);
    let stat = sys::stat_at(tree.directory(parent, false)?, &sys::c_string(name)?)?;
    Ok(print(&stat))
}
