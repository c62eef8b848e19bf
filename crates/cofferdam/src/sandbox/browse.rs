//! What is at a place inside, for whoever is outside: one question, and an answer of any length that is checked as it comes.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::Path;

use cofferdam_guest::protocol::browse::{Question, Seen};
use cofferdam_guest::protocol::files::{self, is_plain};
use cofferdam_guest::protocol::{HEAD, body_length, decode};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;

use super::files::pipe;
use super::{Sandbox, SandboxError};

pub use cofferdam_guest::protocol::browse::{Content, Kind};

const BUFFER: usize = 64 << 10;

/// Of a sandbox's files, as the agent sees them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Peek<'a> {
    /// Absolute. Links on the way to it are followed inside, and none below it is.
    pub path: &'a Path,
    /// Whether a link at the place itself is.
    pub follow: bool,
    /// So many levels below a directory; 0: the thing itself.
    pub depth: u32,
    /// What files hold.
    pub content: Option<Content>,
    /// A directory at or above the place, absolute: what ignore files from there on say, and git's own, is left out, unless the place
    /// itself would be.
    pub ignoring: Option<&'a Path>,
}

impl<'a> Peek<'a> {
    /// The thing itself, and nothing of what it holds.
    pub fn at(path: &'a Path) -> Self {
        Self {
            path,
            follow: true,
            depth: 0,
            content: None,
            ignoring: None,
        }
    }

    /// With what is so many levels below.
    #[must_use]
    pub fn down(self, depth: u32) -> Self {
        Self { depth, ..self }
    }

    /// With what files hold.
    #[must_use]
    pub fn with_content(self, content: Content) -> Self {
        Self {
            content: Some(content),
            ..self
        }
    }

    /// Without what ignore files from `directory` on leave out.
    #[must_use]
    pub fn ignoring(self, directory: Option<&'a Path>) -> Self {
        Self {
            ignoring: directory,
            ..self
        }
    }

    /// A link at the place itself is told as what it is.
    #[must_use]
    pub fn unfollowed(self) -> Self {
        Self {
            follow: false,
            ..self
        }
    }

    fn question(&self) -> Question {
        let bytes = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
        Question {
            path: bytes(self.path),
            follow: self.follow,
            depth: self.depth,
            content: self.content,
            ignoring: self.ignoring.map(bytes).unwrap_or_default(),
        }
    }
}

/// One part of an answer. What a sandbox says is hostile: its bytes are any, but a path leads below the place and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sight {
    /// Where the place really is, told first: an absolute path without links.
    At(Vec<u8>),
    /// One thing that is there.
    Thing(Thing),
    /// The text of the link that was told last.
    Target(Vec<u8>),
    /// The next bytes of the file that was told last.
    Part(Vec<u8>),
    /// It cannot be looked at, or not to its end.
    Unread {
        /// Below the place, which itself is empty.
        path: Vec<u8>,
        /// What the system said inside (`errno`).
        error: i32,
    },
}

/// Something that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Thing {
    /// Below the place, which itself is empty. In the order of paths each directory is before what is in it.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// The permissions alone.
    pub mode: u32,
    /// In bytes.
    pub size: u64,
    /// When what it holds was last changed, in seconds since 1970.
    pub changed: i64,
}

/// Tells each part of the answer to `hear`, until it has heard enough. Unbounded in time and number: that is `hear`'s, and whoever drops
/// this. What is not there is [`Sight::Unread`] as well.
pub async fn browse(
    sandbox: &dyn Sandbox,
    place: &Peek<'_>,
    hear: &mut (dyn FnMut(Sight) -> ControlFlow<()> + Send),
) -> Result<(), SandboxError> {
    let (question, into) = pipe()?;
    let (from, seen) = pipe()?;
    let mut asked = Vec::new();
    files::write(&mut asked, &place.question()).map_err(|error| failed(&error))?;
    let send = async {
        let mut to = pipe::Sender::from_owned_fd(into)?;
        to.write_all(&asked).await
    };
    let most = place
        .content
        .map_or(0, |content| content.length.min(content.largest));
    let listen = listen(from, most, hear);
    let (sent, told, heard) = tokio::join!(send, sandbox.browse(question, seen), listen);
    match heard {
        // Who wants no more closes the pipe, and that is no error of the sandbox's.
        Ok(Heard::Enough) => return Ok(()),
        Ok(Heard::All) => {}
        // Who told it has the better reason to stop.
        Err(error) => return told.and(Err(failed(&error))),
    }
    told?;
    sent.map_err(|error| failed(&error))
}

fn failed(error: &io::Error) -> SandboxError {
    SandboxError::Files {
        action: "look into",
        reason: error.to_string(),
    }
}

enum Heard {
    All,
    Enough,
}

/// `most`: bytes of one file.
async fn listen(
    from: OwnedFd,
    most: u64,
    hear: &mut (dyn FnMut(Sight) -> ControlFlow<()> + Send),
) -> io::Result<Heard> {
    let garbled = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "it does not follow the protocol",
        )
    };
    let from = pipe::Receiver::from_owned_fd(from)?;
    let mut from = BufReader::with_capacity(BUFFER, from);
    let (mut is_in_file, mut left) = (false, 0);
    loop {
        let mut head = [0; HEAD];
        from.read_exact(&mut head).await?;
        let length = body_length(head).map_err(|_| garbled())?;
        let mut body = vec![0; length];
        from.read_exact(&mut body).await?;
        let seen = decode(&body).map_err(|_| garbled())?;
        let sight = match seen {
            Seen::End => return Ok(Heard::All),
            Seen::Thing {
                path,
                kind,
                mode,
                size,
                changed,
            } if path.is_empty() || is_plain(&path) => {
                (is_in_file, left) = (kind == Kind::File, most);
                Sight::Thing(Thing {
                    path,
                    kind,
                    mode: mode & 0o777,
                    size,
                    changed,
                })
            }
            Seen::Part(bytes) if is_in_file && bytes.len() as u64 <= left => {
                left -= bytes.len() as u64;
                Sight::Part(bytes)
            }
            Seen::At(path) if path.starts_with(b"/") => Sight::At(path),
            Seen::Target(text) if !is_in_file => Sight::Target(text),
            Seen::Unread { path, errno } => Sight::Unread { path, error: errno },
            _ => return Err(garbled()),
        };
        if hear(sight).is_break() {
            return Ok(Heard::Enough);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// What somebody hears of these bytes.
    fn heard(bytes: &[u8]) -> io::Result<Vec<Sight>> {
        let (from, to) = pipe().unwrap();
        std::fs::File::from(to).write_all(bytes).unwrap();
        let mut all = Vec::new();
        let mut hear = |sight| {
            all.push(sight);
            ControlFlow::Continue(())
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async { listen(from, 2, &mut hear).await })?;
        Ok(all)
    }

    fn stream(all: &[Seen]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for one in all {
            files::write(&mut bytes, one).unwrap();
        }
        bytes
    }

    fn thing(path: &str, kind: Kind) -> Seen {
        Seen::Thing {
            path: path.into(),
            kind,
            mode: 0o4755,
            size: 1,
            changed: 2,
        }
    }

    #[test]
    fn what_leads_out_of_the_place_is_not_heard() {
        let part = Seen::Part(b"x".to_vec());
        let all = stream(&[
            thing("", Kind::Directory),
            thing("a/b", Kind::File),
            part.clone(),
            Seen::End,
        ]);
        let told = heard(&all).unwrap();
        assert_eq!(told.len(), 3);
        assert!(matches!(&told[1], Sight::Thing(one) if one.mode == 0o755));
        for cut in 0..all.len() {
            heard(&all[..cut]).unwrap_err();
        }
        for path in ["../a", "/a", "a/../b", "a//b", "."] {
            heard(&stream(&[thing(path, Kind::File), Seen::End])).unwrap_err();
        }
        let target = Seen::Target(b"x".to_vec());
        let long = Seen::Part(b"xyz".to_vec());
        for odd in [
            vec![thing("a", Kind::File), long, Seen::End],
            vec![Seen::At(b"a/b".to_vec()), Seen::End],
            vec![part.clone(), Seen::End],
            vec![thing("a", Kind::Link), part, Seen::End],
            vec![thing("a", Kind::File), target, Seen::End],
        ] {
            heard(&stream(&odd)).unwrap_err();
        }
    }
}
