//! What a child says that does something in init's place: one number, before it ends.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use crate::sys;

/// Of one child, as far as it was heard.
#[derive(Debug)]
pub(crate) struct LastWord {
    pipe: File,
    bytes: Vec<u8>,
    over: bool,
}

impl LastWord {
    /// And what the child says it with, by [`say`].
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let (read, write) = sys::pipe()?;
        sys::do_not_wait(read.as_fd())?;
        let word = Self {
            pipe: read.into(),
            bytes: Vec::new(),
            over: false,
        };
        Ok((word, write))
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.pipe.as_raw_fd()
    }

    /// Does not wait.
    pub(crate) fn hear(&mut self) {
        let mut buffer = [0u8; 8];
        match self.pipe.read(&mut buffer) {
            Ok(count @ 1..) => self.bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => self.over = true,
        }
        self.over |= self.bytes.len() >= size_of::<i32>();
    }

    /// Nothing more comes.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Who was killed says none.
    pub(crate) fn number(self) -> Option<i32> {
        self.bytes.try_into().ok().map(i32::from_le_bytes)
    }
}

/// In the child.
pub(crate) fn say(tell: OwnedFd, number: i32) -> io::Result<()> {
    File::from(tell).write_all(&number.to_le_bytes())
}
