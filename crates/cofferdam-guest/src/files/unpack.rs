//! Entries of a stream become files, as the agent makes them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use cofferdam_guest::protocol::files::{self, Entry, Known, Print, is_plain};

use super::content::{Number, has_true_time};
use super::{Tree, invalid, print, split};
use crate::sys;

/// Bytes on their way.
const BUFFER: usize = 64 << 10;
/// Longer than any kernel takes between two times of change.
const TICK: Duration = Duration::from_millis(50);

/// See [`cofferdam_guest::protocol::Request::Unpack`].
pub(crate) fn unpack(
    directory: &[u8],
    tracked: bool,
    from: OwnedFd,
    to: OwnedFd,
) -> io::Result<()> {
    let mut from = BufReader::with_capacity(BUFFER, File::from(from));
    let mut to = BufWriter::with_capacity(BUFFER, File::from(to));
    let mut tree = Tree::open(directory, true)?;
    loop {
        let mut content = None;
        let path = match files::read::<Entry>(&mut from)? {
            Entry::Directory { path, mode } => {
                make_directory(&mut tree, &path, mode)?;
                continue;
            }
            Entry::File { path, mode, size } => {
                content = make_file(&mut tree, &path, mode, &mut (&mut from).take(size))?;
                path
            }
            Entry::Link { path, target } => {
                let (parent, name) = split(&path);
                let parent = tree.directory(parent, true)?;
                let (name, text) = (sys::c_string(name)?, sys::c_string(&target)?);
                replacing(parent, &name, || {
                    sys::make_symlink(parent.as_raw_fd(), &text, &name)
                })?;
                path
            }
            Entry::Gone { .. } | Entry::Left { .. } => return Err(invalid()),
            Entry::End { .. } => break,
        };
        let (parent, name) = split(&path);
        let stat = sys::stat_at(tree.directory(parent, false)?, &sys::c_string(name)?)?;
        let print = Print {
            content,
            ..print(&stat)
        };
        let known = Known::Path {
            path,
            tracked,
            print,
        };
        files::write(&mut to, &known)?;
    }
    outlast()?;
    files::write(&mut to, &Known::End)?;
    to.flush()
}

fn make_directory(tree: &mut Tree, path: &[u8], mode: u32) -> io::Result<()> {
    if !is_plain(path) {
        return Err(invalid());
    }
    let (parent, name) = split(path);
    let parent = tree.directory(parent, true)?;
    let name = sys::c_string(name)?;
    match sys::stat_at(parent, &name) {
        Ok(found) if found.kind == libc::S_IFDIR => {}
        Ok(_) => {
            sys::unlink_at(parent, &name)?;
            sys::make_directory(parent.as_raw_fd(), &name, 0o755)?;
        }
        Err(_) => sys::make_directory(parent.as_raw_fd(), &name, 0o755)?,
    }
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let made = sys::open_at(parent.as_raw_fd(), &name, flags, 0)?;
    sys::change_mode(made.as_fd(), mode & 0o777 | 0o700)?;
    tree.forget();
    Ok(())
}

/// What it holds, where the time of its last change does not tell of every change.
fn make_file(
    tree: &mut Tree,
    path: &[u8],
    mode: u32,
    content: &mut io::Take<impl BufRead>,
) -> io::Result<Option<u64>> {
    if !is_plain(path) {
        return Err(invalid());
    }
    let (parent, name) = split(path);
    let parent = tree.directory(parent, true)?;
    let name = sys::c_string(name)?;
    // Never what is there already: it may be a pipe, or lead elsewhere.
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    let made = replacing(parent, &name, || {
        sys::open_at(parent.as_raw_fd(), &name, flags, 0o600)
    })?;
    let mut file = File::from(made);
    let number = if has_true_time(file.as_fd()) {
        io::copy(content, &mut file)?;
        None
    } else {
        Some(copy_numbered(content, &mut file)?)
    };
    if content.limit() > 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    sys::change_mode(file.as_fd(), mode & 0o777)?;
    Ok(number)
}

/// The number of what was copied.
fn copy_numbered(from: &mut impl BufRead, to: &mut File) -> io::Result<u64> {
    let mut number = Number::default();
    loop {
        let part = from.fill_buf()?;
        if part.is_empty() {
            return Ok(number.end());
        }
        to.write_all(part)?;
        number.add(part);
        let count = part.len();
        from.consume(count);
    }
}

/// Makes something, in the place of what has its name.
fn replacing<T>(
    parent: std::os::fd::BorrowedFd<'_>,
    name: &std::ffi::CStr,
    make: impl Fn() -> io::Result<T>,
) -> io::Result<T> {
    match make() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            sys::unlink_at(parent, name)?;
            make()
        }
        other => other,
    }
}

/// Waits until what changes next has another time than what was made last.
fn outlast() -> io::Result<()> {
    let (made, began) = (sys::coarse_time()?, Instant::now());
    // The clock may be set meanwhile.
    while sys::coarse_time()? <= made && began.elapsed() < TICK {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
