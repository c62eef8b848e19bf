//! What is at a place inside: which names there are, and what files hold. Whoever asks sees what the agent sees.
//!
//! The question is the one value of its stream. The answer is a row of values that ends with one of its own, as in
//! [`super::files`].

use serde::{Deserialize, Serialize};

/// What somebody wants to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// An absolute path. Links on the way to it are followed, and none below it is.
    pub path: Vec<u8>,
    /// Whether a link at the place itself is.
    pub follow: bool,
    /// So many levels below a directory; 0: the thing itself.
    pub depth: u32,
    /// What files hold, where that is asked for.
    pub content: Option<Content>,
    /// A directory at or above the place: from it on, what the ignore files in the tree say is left out, and what is git's own. Where it
    /// is empty, or something else, all is told; so it is at a place that is itself left out.
    pub ignoring: Vec<u8>,
}

/// Which bytes of each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    pub offset: u64,
    pub length: u64,
    /// Of files with more bytes than these nothing is told.
    pub largest: u64,
}

/// One part of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seen {
    /// Where the place really is, first of all, if that can be told: an absolute path without links.
    At(Vec<u8>),
    /// In the order of their paths, each directory before what is in it.
    Thing {
        /// Relative to the place, which itself is empty.
        path: Vec<u8>,
        kind: Kind,
        /// The permissions alone.
        mode: u32,
        size: u64,
        /// When what it holds was last changed, in seconds since 1970.
        changed: i64,
    },
    /// The text of the link that was named last.
    Target(Vec<u8>),
    /// The next bytes of the file that was named last.
    Part(Vec<u8>),
    /// It is there or not, and cannot be looked at, or not to its end: an error number.
    Unread { path: Vec<u8>, errno: i32 },
    /// Nothing follows.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    File,
    Directory,
    Link,
    /// A pipe, a socket or a device.
    Other,
}

#[cfg(test)]
mod tests {
    use super::super::files::{read, write};
    use super::*;

    /// What comes out of a sandbox is a row of values or is refused; it costs what it is long.
    #[test]
    fn fuzz_guest_browse() {
        let seen = [
            Seen::At(b"/a".to_vec()),
            Seen::Thing {
                path: b"a/b".to_vec(),
                kind: Kind::Link,
                mode: 0o644,
                size: 3,
                changed: -1,
            },
            Seen::Target(b"../x".to_vec()),
            Seen::Part(vec![0, 1, 2]),
            Seen::Unread {
                path: Vec::new(),
                errno: 2,
            },
            Seen::End,
        ];
        let seeds = seen.map(|one| {
            let mut bytes = Vec::new();
            write(&mut bytes, &one).unwrap();
            bytes
        });
        cofferdam_lab::fuzz::mutate("guest browse", &seeds, |mut bytes| {
            while let Ok(one) = read::<Seen>(&mut bytes) {
                let mut again = Vec::new();
                write(&mut again, &one).unwrap();
                assert_eq!(read::<Seen>(&mut &again[..]).unwrap(), one);
            }
        });
    }
}
