//! What is at a place: names and what files hold, as whoever has a program's rights sees them.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use cofferdam_guest::protocol::browse::{Content, Kind, Question, Seen};
use cofferdam_guest::protocol::files::{self, is_plain};

use super::ignore::{Rules, own_rules};
use super::{BUFFER, MOST_NAMES, READ, Tree, is_gone, split};
use crate::sys::{self, Stat};

/// See [`cofferdam_guest::protocol::Request::Browse`].
pub(crate) fn browse(from: OwnedFd, to: OwnedFd) -> io::Result<()> {
    let question: Question = files::read(&mut BufReader::new(File::from(from)))?;
    let mut to = BufWriter::with_capacity(BUFFER, File::from(to));
    match begin(&question) {
        Ok((at, stat)) => {
            let own = sys::c_string(format!("/proc/self/fd/{}", at.as_raw_fd()).as_bytes())?;
            if let Ok(real) = sys::read_link(&own) {
                files::write(&mut to, &Seen::At(real))?;
            }
            let mut browsing = Browsing {
                tree: Tree {
                    root: at,
                    last: None,
                },
                rules: OfTheTree::find(&question),
                content: question.content,
                to,
            };
            browsing.at_the_place(&question, &stat)?;
            to = browsing.to;
        }
        Err(error) => files::write(&mut to, &unread(Vec::new(), &error))?,
    }
    files::write(&mut to, &Seen::End)?;
    to.flush()
}

/// The place itself, whatever links lead there.
fn begin(question: &Question) -> io::Result<(OwnedFd, Stat)> {
    if !question.path.starts_with(b"/") {
        return Err(super::invalid());
    }
    let path = sys::c_string(&question.path)?;
    let follow = if question.follow { 0 } else { libc::O_NOFOLLOW };
    let at = sys::open_at(libc::AT_FDCWD, &path, libc::O_PATH | follow, 0)?;
    let stat = sys::stat_at(at.as_fd(), c"")?;
    Ok((at, stat))
}

fn unread(path: Vec<u8>, error: &io::Error) -> Seen {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    Seen::Unread { path, errno }
}

/// What the ignore files say, of paths from the place on.
#[derive(Debug)]
struct OfTheTree {
    rules: Rules,
    /// The place, from the directory on whose ignore files count.
    place: Vec<u8>,
}

impl OfTheTree {
    fn find(question: &Question) -> Option<Self> {
        let rest = question.path.strip_prefix(&question.ignoring[..])?;
        let place = match rest {
            [] => rest,
            _ => rest.strip_prefix(b"/").filter(|rest| is_plain(rest))?,
        };
        let mut top = Tree::open(&question.ignoring, false).ok()?;
        let mut this = Self {
            rules: Rules::default(),
            place: Vec::new(),
        };
        // Of what is above the place; at it and below it they are read on the way.
        let mut above = Vec::new();
        for name in place.split(|&byte| byte == b'/') {
            if name.is_empty() {
                break;
            }
            let at = top.directory(&above, false).ok()?;
            this.rules.replace(above.clone(), &own_rules(at)?);
            let below = joined(&above, name);
            if this.leaves_out(&below, true) {
                return None;
            }
            above = below;
        }
        this.place = above;
        Some(this)
    }

    fn leaves_out(&self, path: &[u8], is_directory: bool) -> bool {
        let whole = joined(&self.place, path);
        let (_, name) = split(&whole);
        name.eq_ignore_ascii_case(b".git") || self.rules.ignores(&whole, is_directory)
    }

    fn read(&mut self, path: &[u8], at: BorrowedFd<'_>) {
        if let Some(text) = own_rules(at) {
            self.rules.replace(joined(&self.place, path), &text);
        }
    }
}

fn joined(parent: &[u8], name: &[u8]) -> Vec<u8> {
    match (parent, name) {
        ([], name) => name.to_vec(),
        (parent, []) => parent.to_vec(),
        (parent, name) => [parent, b"/", name].concat(),
    }
}

#[derive(Debug)]
struct Browsing {
    tree: Tree,
    rules: Option<OfTheTree>,
    content: Option<Content>,
    to: BufWriter<File>,
}

impl Browsing {
    fn at_the_place(&mut self, question: &Question, stat: &Stat) -> io::Result<()> {
        self.tell(Vec::new(), stat)?;
        if stat.kind == libc::S_IFLNK {
            let target = sys::read_link_at(self.tree.root.as_fd(), c"")?;
            return files::write(&mut self.to, &Seen::Target(target));
        }
        if stat.kind == libc::S_IFREG
            && let Some(content) = self.content
        {
            let path = sys::c_string(&question.path)?;
            let opened = sys::open_at(libc::AT_FDCWD, &path, READ & !libc::O_NOFOLLOW, 0);
            return self.read(Vec::new(), opened, content);
        }
        if stat.kind != libc::S_IFDIR || question.depth == 0 {
            return Ok(());
        }
        let mut names = 0;
        // What is next is last.
        let mut waiting = Vec::new();
        self.names_below(&[], &mut waiting, &mut names)?;
        while let Some(path) = waiting.pop() {
            let levels = path.split(|&byte| byte == b'/').count();
            let is_deep = levels >= question.depth as usize;
            if self.at_name(&path)? && !is_deep {
                self.names_below(&path, &mut waiting, &mut names)?;
            }
        }
        Ok(())
    }

    /// Puts what is in it where it is next.
    fn names_below(
        &mut self,
        path: &[u8],
        waiting: &mut Vec<Vec<u8>>,
        count: &mut usize,
    ) -> io::Result<()> {
        let opened = self.tree.directory(path, false).and_then(|at| {
            let at = sys::open_at(at.as_raw_fd(), c".", READ | libc::O_DIRECTORY, 0)?;
            let names = sys::names(at.as_fd())?;
            Ok((at, names))
        });
        let (at, mut names) = match opened {
            Ok(opened) => opened,
            // It went away meanwhile.
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return files::write(&mut self.to, &unread(path.to_vec(), &error)),
        };
        *count += names.len();
        if *count as u64 > MOST_NAMES {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        if let Some(rules) = &mut self.rules {
            rules.read(path, at.as_fd());
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        waiting.extend(names.iter().map(|name| joined(path, name.to_bytes())));
        Ok(())
    }

    /// Whether it is a directory that is told.
    fn at_name(&mut self, path: &[u8]) -> io::Result<bool> {
        let (parent, name) = split(path);
        let name = sys::c_string(name)?;
        // A name that no stream has is nothing that could be asked for.
        if !is_plain(path) {
            let error = io::Error::from_raw_os_error(libc::ENAMETOOLONG);
            files::write(&mut self.to, &unread(path.to_vec(), &error))?;
            return Ok(false);
        }
        let found = self
            .tree
            .directory(parent, false)
            .and_then(|at| at.try_clone_to_owned())
            .and_then(|at| Ok((sys::stat_at(at.as_fd(), &name)?, at)));
        let (stat, at) = match found {
            Ok(found) => found,
            Err(error) if is_gone(&error) => return Ok(false),
            Err(error) => {
                files::write(&mut self.to, &unread(path.to_vec(), &error))?;
                return Ok(false);
            }
        };
        let is_directory = stat.kind == libc::S_IFDIR;
        if let Some(rules) = &self.rules
            && rules.leaves_out(path, is_directory)
        {
            return Ok(false);
        }
        self.tell(path.to_vec(), &stat)?;
        match (stat.kind, self.content) {
            // It may be something else by now.
            (libc::S_IFLNK, _) => {
                if let Ok(target) = sys::read_link_at(at.as_fd(), &name) {
                    files::write(&mut self.to, &Seen::Target(target))?;
                }
            }
            (libc::S_IFREG, Some(content)) => self.read_at(path, at.as_fd(), &name, content)?,
            _ => {}
        }
        Ok(is_directory)
    }

    fn tell(&mut self, path: Vec<u8>, stat: &Stat) -> io::Result<()> {
        let seen = Seen::Thing {
            path,
            kind: match stat.kind {
                libc::S_IFREG => Kind::File,
                libc::S_IFDIR => Kind::Directory,
                libc::S_IFLNK => Kind::Link,
                _ => Kind::Other,
            },
            mode: stat.mode,
            size: stat.size,
            changed: stat.modified,
        };
        files::write(&mut self.to, &seen)
    }

    fn read_at(
        &mut self,
        path: &[u8],
        at: BorrowedFd<'_>,
        name: &CString,
        content: Content,
    ) -> io::Result<()> {
        let opened = sys::open_at(at.as_raw_fd(), name, READ, 0);
        self.read(path.to_vec(), opened, content)
    }

    fn read(
        &mut self,
        path: Vec<u8>,
        opened: io::Result<OwnedFd>,
        content: Content,
    ) -> io::Result<()> {
        let opened = opened.and_then(|file| Ok((sys::stat_at(file.as_fd(), c"")?, file)));
        let (stat, file) = match opened {
            Ok(opened) => opened,
            Err(error) => return files::write(&mut self.to, &unread(path, &error)),
        };
        // Something else has its name meanwhile, or it is too large.
        if stat.kind != libc::S_IFREG || stat.size > content.largest {
            return Ok(());
        }
        let mut file = File::from(file);
        if let Err(error) = file.seek(SeekFrom::Start(content.offset)) {
            return files::write(&mut self.to, &unread(path, &error));
        }
        let mut left = content.length.min(content.largest);
        let mut part = vec![0; BUFFER];
        while left > 0 {
            let share = usize::try_from(left).unwrap_or(BUFFER).min(BUFFER);
            match file.read(&mut part[..share]) {
                Ok(0) => break,
                Ok(count) => {
                    files::write(&mut self.to, &Seen::Part(part[..count].to_vec()))?;
                    left -= count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return files::write(&mut self.to, &unread(path, &error)),
            }
        }
        Ok(())
    }
}
