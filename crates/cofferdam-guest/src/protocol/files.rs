//! Streams of files: what is put into a directory inside, what is known of it since, and what has changed in it.
//!
//! A stream is a row of values, each in a frame, and ends with a value of its own: one that was cut short is no stream,
//! whatever carried it. A file's bytes follow its value, as many as that says.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::frame::{self, HEAD};

/// The longest path in a stream in bytes: what the commit gate lets in.
pub const LONGEST_PATH: usize = 4000;
/// The longest name between two `/`.
const LONGEST_NAME: usize = 255;
/// Longer texts of ignore rules are none.
pub const LONGEST_RULES: usize = 512 << 10;
/// So many paths that cannot travel are named, the first ones.
pub const MOST_LEFT: usize = 100;

/// One thing in a tree. Paths are relative to the directory that a request names, and plain: see [`is_plain`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// Directories that are only on the way to something need no entry. Its owner can always write to it.
    Directory { path: Vec<u8>, mode: u32 },
    /// `size` bytes follow.
    File { path: Vec<u8>, mode: u32, size: u64 },
    Link {
        path: Vec<u8>,
        /// Its text. Nobody follows it.
        target: Vec<u8>,
    },
    /// Only out of a sandbox: a tracked file that is no longer there.
    Gone { path: Vec<u8> },
    /// Only out of a sandbox: it is there and cannot travel.
    Left { path: Vec<u8>, why: Why },
    /// Nothing follows. `left`: how many could not travel, named or not.
    End { left: u64 },
}

/// Why something stays inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// A pipe, a socket or a device.
    NoFile,
    /// Its mode keeps its own user from reading it.
    Unreadable,
    /// Larger than the request allows.
    TooLarge,
    /// Its path is longer than [`LONGEST_PATH`], or a name in it is no plain one.
    NoPath,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoFile => "it is no file, directory or link",
            Self::Unreadable => "it cannot be read",
            Self::TooLarge => "it is too large",
            Self::NoPath => "its path is too long",
        })
    }
}

/// What is known of the tree in a sandbox: the rules by which new files are left out, and what was put there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Known {
    /// The text of an ignore file, as git reads it. Without a directory it comes after those of all directories; with
    /// one it counts where that directory has no ignore file of its own any more.
    Rules {
        directory: Option<Vec<u8>>,
        text: Vec<u8>,
    },
    Path {
        path: Vec<u8>,
        /// Whether its end counts, and changes of it whatever is ignored.
        tracked: bool,
        print: Print,
    },
    /// Nothing at it and below it is anybody's work: a submodule, or what is hidden.
    Closed {
        path: Vec<u8>,
    },
    End,
}

/// What is brought to places inside, absolute paths without the slash that they begin with, and plain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Parcel {
    /// Its parts follow, and then whether that was all.
    File {
        path: Vec<u8>,
        mode: u32,
    },
    Part(Vec<u8>),
    /// The file takes its place.
    Whole,
    /// It does not: what it should hold is not known to its end.
    Broken,
    /// Whether what was brought there is there still, as it was.
    Look {
        path: Vec<u8>,
        print: Print,
    },
    End,
    /// A file or link that is to go. Only to guests that say [`super::BROWSES`].
    Gone {
        path: Vec<u8>,
    },
}

/// For each file, in their order, what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Receipt {
    There {
        print: Print,
    },
    /// Somebody has changed or removed it: [`Parcel::Look`] alone.
    Changed,
    Refused {
        errno: i32,
    },
    End,
    /// [`Parcel::Gone`] is.
    Gone,
}

/// By what a file is seen to be the one that was put there: nobody inside can set these back.
///
/// A write through a shared mapping is a change with a time only where the kernel is told of the first write to each page.
/// It is on file systems that write pages back to a disk. On tmpfs a page that was only read is mapped to be written as well,
/// and a write to it tells nobody (mm/memory.c, `vma_wants_writenotify`); and an overlay may have its files there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Print {
    pub inode: u64,
    pub size: u64,
    /// The time of its last change of any kind.
    pub seconds: i64,
    pub nanoseconds: i64,
    /// Of what it holds, where its time does not tell of every change.
    pub content: Option<u64>,
}

/// Whether it leads below a directory and nowhere else: relative, without `.`, `..` and empty names.
pub fn is_plain(path: &[u8]) -> bool {
    let is_name = |name: &[u8]| {
        !matches!(name, b"" | b"." | b"..") && name.len() <= LONGEST_NAME && !name.contains(&0)
    };
    path.len() <= LONGEST_PATH && path.split(|&byte| byte == b'/').all(is_name)
}

/// Writes one value.
pub fn write<T: Serialize>(to: &mut impl Write, value: &T) -> io::Result<()> {
    to.write_all(&frame::encode(value).map_err(io::Error::other)?)
}

/// Reads one value. [`io::ErrorKind::UnexpectedEof`] where the stream is cut short, [`io::ErrorKind::InvalidData`]
/// where it is none.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut head = [0u8; HEAD];
    from.read_exact(&mut head)?;
    let length = frame::body_length(head).map_err(invalid)?;
    // It grows with what really arrives.
    let mut body = Vec::new();
    from.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    frame::decode(&body).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths() {
        for path in ["a", "a/b", ".a", "..a", "a/..b", ".git"] {
            assert!(is_plain(path.as_bytes()), "{path}");
        }
        let long = "x/".repeat(LONGEST_PATH / 2) + "x";
        let name = "x".repeat(LONGEST_NAME + 1);
        for path in [
            "", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a\0", &long, &name,
        ] {
            assert!(!is_plain(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn a_stream_that_is_cut_is_none() {
        let mut bytes = Vec::new();
        let known = Known::Rules {
            directory: None,
            text: b"*.o\n".to_vec(),
        };
        write(&mut bytes, &known).unwrap();
        assert_eq!(read::<Known>(&mut &bytes[..]).unwrap(), known);
        for cut in 0..bytes.len() {
            let error = read::<Known>(&mut &bytes[..cut]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{cut}");
        }
        let error = read::<Entry>(&mut &[0xff; 9][..]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    /// What comes out of a sandbox is a stream or is refused; it costs what it is long.
    #[test]
    fn fuzz_guest_files() {
        let entries = [
            Entry::Directory {
                path: b"d".to_vec(),
                mode: 0o755,
            },
            Entry::File {
                path: b"d/f".to_vec(),
                mode: 0o644,
                size: 3,
            },
            Entry::Link {
                path: b"l".to_vec(),
                target: b"d/f".to_vec(),
            },
            Entry::Gone {
                path: b"g".to_vec(),
            },
            Entry::Left {
                path: b"p".to_vec(),
                why: Why::NoFile,
            },
            Entry::End { left: 1 },
        ];
        let seeds = entries.map(|entry| frame::encode(&entry).unwrap());
        cofferdam_lab::fuzz::mutate("guest files", &seeds, |mut bytes| {
            while let Ok(entry) = read::<Entry>(&mut bytes) {
                let mut again = Vec::new();
                write(&mut again, &entry).unwrap();
                assert_eq!(read::<Entry>(&mut &again[..]).unwrap(), entry);
            }
        });
    }
}
