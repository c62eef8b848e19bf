//! What is in a tree that was not put there as it is. Every name is looked at, and only what changed is read.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use cofferdam_guest::protocol::files::{self, Entry, Known, MOST_LEFT, Print, Why, is_plain};

use super::content::content;
use super::ignore::{Rules, own_rules};
use super::{BUFFER, MOST_NAMES, READ, Tree, is_gone, print, split};
use crate::sys::{self, Stat};

/// See [`cofferdam_guest::protocol::Request::Snapshot`].
pub(crate) fn snapshot(
    directory: &[u8],
    largest: u64,
    known: OwnedFd,
    to: OwnedFd,
) -> io::Result<()> {
    let mut rules = Rules::default();
    let (mut paths, mut closed) = (HashMap::new(), HashSet::new());
    let mut from = BufReader::with_capacity(BUFFER, File::from(known));
    loop {
        match files::read::<Known>(&mut from)? {
            Known::Rules { directory, text } => rules.give(directory, &text),
            Known::Path {
                path,
                tracked,
                print,
            } => {
                let seen = false;
                let one = Before {
                    print,
                    tracked,
                    seen,
                };
                paths.insert(path, one);
            }
            Known::Closed { path } => _ = closed.insert(path),
            Known::End => break,
        }
    }
    let mut look = Look {
        tree: Tree::open(directory, false)?,
        rules,
        known: paths,
        closed,
        largest,
        names: 0,
        left: 0,
        to: BufWriter::with_capacity(BUFFER, File::from(to)),
    };
    look.around()?;
    look.at_the_rest()?;
    let left = look.left;
    files::write(&mut look.to, &Entry::End { left })?;
    look.to.flush()
}

#[derive(Debug)]
struct Before {
    print: Print,
    tracked: bool,
    seen: bool,
}

#[derive(Debug)]
struct Look {
    tree: Tree,
    rules: Rules,
    known: HashMap<Vec<u8>, Before>,
    closed: HashSet<Vec<u8>>,
    largest: u64,
    names: u64,
    left: u64,
    to: BufWriter<File>,
}

impl Look {
    /// Through every directory that is not ignored.
    fn around(&mut self) -> io::Result<()> {
        let mut waiting = vec![Vec::new()];
        while let Some(path) = waiting.pop() {
            let opened = self.tree.directory(&path, false).and_then(|at| {
                let at = sys::open_at(at.as_raw_fd(), c".", READ | libc::O_DIRECTORY, 0)?;
                let names = sys::names(at.as_fd())?;
                Ok((at, names))
            });
            let (at, names) = match opened {
                Ok(opened) => opened,
                // It went away meanwhile.
                Err(error) if is_gone(&error) => continue,
                Err(error) if path.is_empty() => return Err(error),
                Err(_) => {
                    self.leave(path, Why::Unreadable)?;
                    continue;
                }
            };
            self.names += names.len() as u64;
            if self.names > MOST_NAMES {
                return Err(io::Error::from_raw_os_error(libc::E2BIG));
            }
            self.read_rules(&path, at.as_fd());
            for name in names {
                // Git's own, in whatever place: no commit has such a name.
                if !name.to_bytes().eq_ignore_ascii_case(b".git") {
                    self.at_name(&path, at.as_fd(), &name, &mut waiting)?;
                }
            }
        }
        Ok(())
    }

    /// The directory's own ignore file takes the place of the one that was given for it.
    fn read_rules(&mut self, path: &[u8], at: BorrowedFd<'_>) {
        if let Some(text) = own_rules(at) {
            self.rules.replace(path.to_vec(), &text);
        }
    }

    fn at_name(
        &mut self,
        parent: &[u8],
        at: BorrowedFd<'_>,
        name: &CString,
        waiting: &mut Vec<Vec<u8>>,
    ) -> io::Result<()> {
        let mut path = parent.to_vec();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.to_bytes());
        if self.closed.contains(&path) {
            return Ok(());
        }
        let stat = match sys::stat_at(at, name) {
            Ok(stat) => stat,
            Err(error) if is_gone(&error) => return Ok(()),
            Err(_) => return self.leave(path, Why::Unreadable),
        };
        if !is_plain(&path) {
            return self.leave(path, Why::NoPath);
        }
        if stat.kind == libc::S_IFDIR {
            if !self.rules.ignores(&path, true) {
                waiting.push(path);
            }
            return Ok(());
        }
        let is_tracked = match self.known.get_mut(&path) {
            Some(before) => {
                before.seen = true;
                if is_same(before.print, &stat, at, name) {
                    return Ok(());
                }
                before.tracked
            }
            None => false,
        };
        if !is_tracked && self.rules.ignores(&path, false) {
            return Ok(());
        }
        self.send(path, at, name, &stat)
    }

    /// What is known and was not met: it is below something that is ignored, or it is gone.
    fn at_the_rest(&mut self) -> io::Result<()> {
        let known = std::mem::take(&mut self.known);
        let mut rest: Vec<(Vec<u8>, Print)> = known
            .into_iter()
            .filter(|(_, before)| before.tracked && !before.seen)
            .map(|(path, before)| (path, before.print))
            .collect();
        // Neighbours one after another.
        rest.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (path, before) in rest {
            let (parent, name) = split(&path);
            let name = sys::c_string(name)?;
            let found = self
                .tree
                .directory(parent, false)
                .and_then(|at| at.try_clone_to_owned())
                .and_then(|at| Ok((sys::stat_at(at.as_fd(), &name)?, at)));
            match found {
                Ok((stat, at)) if is_same(before, &stat, at.as_fd(), &name) => {}
                Ok((stat, at)) if stat.kind != libc::S_IFDIR => {
                    self.send(path, at.as_fd(), &name, &stat)?;
                }
                Err(error) if !is_gone(&error) => self.leave(path, Why::Unreadable)?,
                _ => files::write(&mut self.to, &Entry::Gone { path })?,
            }
        }
        Ok(())
    }

    fn send(
        &mut self,
        path: Vec<u8>,
        at: BorrowedFd<'_>,
        name: &CString,
        stat: &Stat,
    ) -> io::Result<()> {
        match stat.kind {
            libc::S_IFLNK => {
                let target = sys::read_link_at(at, name)?;
                files::write(&mut self.to, &Entry::Link { path, target })
            }
            libc::S_IFREG => self.send_file(path, at, name),
            _ => self.leave(path, Why::NoFile),
        }
    }

    fn send_file(&mut self, path: Vec<u8>, at: BorrowedFd<'_>, name: &CString) -> io::Result<()> {
        let opened = sys::open_at(at.as_raw_fd(), name, READ, 0)
            .and_then(|file| Ok((sys::stat_at(file.as_fd(), c"")?, file)));
        let Ok((stat, file)) = opened else {
            return self.leave(path, Why::Unreadable);
        };
        // Something else has its name meanwhile.
        if stat.kind != libc::S_IFREG {
            return self.leave(path, Why::NoFile);
        }
        if stat.size > self.largest {
            return self.leave(path, Why::TooLarge);
        }
        let (mode, size) = (stat.mode, stat.size);
        files::write(&mut self.to, &Entry::File { path, mode, size })?;
        let copied = io::copy(&mut File::from(file).take(size), &mut self.to)?;
        if copied < size {
            // It was cut short while it was read: half of it is no state of it.
            return Err(io::Error::from_raw_os_error(libc::ESTALE));
        }
        Ok(())
    }

    fn leave(&mut self, mut path: Vec<u8>, why: Why) -> io::Result<()> {
        self.left += 1;
        if self.left > MOST_LEFT as u64 {
            return Ok(());
        }
        path.truncate(files::LONGEST_PATH);
        files::write(&mut self.to, &Entry::Left { path, why })
    }
}

/// Whether it is what was put there. It is read only where its time may not tell of a change.
fn is_same(before: Print, stat: &Stat, at: BorrowedFd<'_>, name: &CString) -> bool {
    let Some(known) = before.content else {
        return is_movable(stat) && before == print(stat);
    };
    let timed = Print {
        content: None,
        ..before
    };
    if !is_movable(stat) || timed != print(stat) {
        return false;
    }
    let read = sys::open_at(at.as_raw_fd(), name, READ, 0).and_then(|file| {
        let is_it = print(&sys::stat_at(file.as_fd(), c"")?) == timed;
        Ok(is_it && content(&mut File::from(file).take(stat.size))? == known)
    });
    // What cannot be read is told when it is to be sent.
    read.unwrap_or(false)
}

fn is_movable(stat: &Stat) -> bool {
    matches!(stat.kind, libc::S_IFREG | libc::S_IFLNK)
}
