//! What a detached program prints, into the file that the host gave for it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use cofferdam_guest::protocol::{GuestExit, MOST_OUTPUT, end_line};

use crate::sys;

/// Bytes that are carried at once: the share of one among many.
const SHARE: usize = 64 << 10;
/// After a program's end so many bytes of what it left are carried before its end is told: more than a pipe holds.
const LEFT: usize = 2 << 20;

#[derive(Debug)]
pub(crate) struct Pump {
    /// Closed when everybody inside has closed the other end.
    pipe: Option<File>,
    output: File,
    end: Option<File>,
    /// How many more bytes are kept.
    room: u64,
}

impl Pump {
    /// The pump, and what the program gets as standard input, output and error.
    pub(crate) fn new(output: OwnedFd, end: OwnedFd) -> io::Result<(Self, Vec<OwnedFd>)> {
        let (read, write) = sys::pipe()?;
        sys::do_not_wait(read.as_fd())?;
        let nothing = sys::open_at(libc::AT_FDCWD, c"/dev/null", libc::O_RDONLY, 0)?;
        let streams = vec![nothing, write.try_clone()?, write];
        let pump = Self {
            pipe: Some(read.into()),
            output: output.into(),
            end: Some(end.into()),
            room: MOST_OUTPUT,
        };
        Ok((pump, streams))
    }

    pub(crate) fn raw(&self) -> Option<RawFd> {
        self.pipe.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Nothing more comes, and its end was told.
    pub(crate) fn is_done(&self) -> bool {
        self.pipe.is_none() && self.end.is_none()
    }

    /// Carries one share; how much it was.
    pub(crate) fn carry(&mut self) -> usize {
        let Some(pipe) = &mut self.pipe else {
            return 0;
        };
        let mut buffer = vec![0u8; SHARE];
        match pipe.read(&mut buffer) {
            Ok(0) => {
                self.pipe = None;
                0
            }
            Ok(count) => {
                self.keep(&buffer[..count]);
                count
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(_) => {
                self.pipe = None;
                0
            }
        }
    }

    /// The program does not wait for what is not kept.
    fn keep(&mut self, bytes: &[u8]) {
        if self.room == 0 {
            return;
        }
        let kept = usize::try_from(self.room).unwrap_or(usize::MAX);
        let kept = &bytes[..bytes.len().min(kept)];
        // What cannot be kept is lost; a full disk is no reason to end the program.
        let _ = self.output.write_all(kept);
        self.room -= kept.len() as u64;
        if self.room == 0 {
            let _ = writeln!(
                self.output,
                "\n[cofferdam: what follows after {MOST_OUTPUT} bytes is dropped]"
            );
        }
    }

    /// Tells the program's end, after what it printed. What it left running may print on.
    pub(crate) fn tell_end(&mut self, exit: GuestExit) {
        let mut left = LEFT;
        while left > 0 {
            match self.carry() {
                0 => break,
                count => left = left.saturating_sub(count),
            }
        }
        if let Some(mut end) = self.end.take() {
            let _ = end.write_all(end_line(exit).as_bytes());
        }
    }
}
