//! What a detached program prints, into the file that the host gave for it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use cofferdam_guest::protocol::{GuestExit, MOST_OUTPUT, end_text, lost_note};

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
    /// That more is dropped stands in the output.
    full_told: bool,
    /// So many bytes that came last could not be written, and nothing in the output says so.
    lost: u64,
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
            full_told: false,
            lost: 0,
        };
        Ok((pump, streams))
    }

    pub(crate) fn raw(&self) -> Option<RawFd> {
        self.pipe.as_ref().map(AsRawFd::as_raw_fd)
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost
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
        self.tell_lost();
        if self.room == 0 {
            return self.tell_full();
        }
        let kept = usize::try_from(self.room).unwrap_or(usize::MAX);
        let kept = &bytes[..bytes.len().min(kept)];
        // A full disk is no reason to end the program. Nothing more is written before it stands there what is missing.
        let written = if self.lost == 0 { self.write(kept) } else { 0 };
        self.lost += (kept.len() - written) as u64;
        self.room -= written as u64;
        if self.room == 0 {
            self.tell_full();
        }
    }

    /// How much could be written.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() {
            match self.output.write(&bytes[written..]) {
                Ok(0) => break,
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        written
    }

    /// Where it is lost, as soon as there is room for it.
    fn tell_lost(&mut self) {
        if self.lost > 0 && self.append(&lost_note(self.lost)) {
            self.lost = 0;
        }
    }

    fn tell_full(&mut self) {
        if !self.full_told {
            self.full_told = self.append(&format!(
                "\n[cofferdam: what follows after {MOST_OUTPUT} bytes is dropped]\n"
            ));
        }
    }

    /// All of it or nothing.
    fn append(&mut self, text: &str) -> bool {
        let before = self.output.metadata().map(|found| found.len());
        let whole = self.write(text.as_bytes()) == text.len();
        if let (false, Ok(length)) = (whole, before) {
            let _ = self.output.set_len(length);
        }
        whole
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
        self.tell_lost();
        if let Some(mut end) = self.end.take() {
            let _ = end.write_all(end_text(exit, self.lost).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;
    use std::os::fd::AsFd;

    use cofferdam_guest::protocol::read_end_text;

    use super::*;

    fn file() -> File {
        tempfile::tempfile().unwrap()
    }

    fn content(file: &mut File) -> String {
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    /// The last bytes for which there is room are kept, and the program does not wait for the rest.
    #[test]
    fn what_follows_the_most_is_dropped_and_told_once() {
        let (end, mut output) = (file(), file());
        let kept = output.try_clone().unwrap();
        let (mut pump, streams) = Pump::new(kept.into(), end.into()).unwrap();
        assert_eq!(pump.room, MOST_OUTPUT);
        pump.room = 5;
        let mut program = File::from(streams[1].try_clone().unwrap());
        for text in [&b"abc"[..], b"defg", b"hi", b"j"] {
            program.write_all(text).unwrap();
            assert_eq!(pump.carry(), text.len());
        }
        let told = format!("\n[cofferdam: what follows after {MOST_OUTPUT} bytes is dropped]\n");
        assert_eq!(content(&mut output), format!("abcde{told}"));
        // That is no loss of what it was to keep.
        assert_eq!(pump.lost(), 0);
    }

    /// A disk that is full for a while.
    #[test]
    fn what_could_not_be_written_is_told() {
        let full = || OwnedFd::from(File::options().write(true).open("/dev/full").unwrap());
        let (mut end, mut output) = (file(), file());
        let (mut pump, streams) = Pump::new(full(), end.try_clone().unwrap().into()).unwrap();
        let mut program = File::from(streams[1].try_clone().unwrap());
        program.write_all(b"lost").unwrap();
        assert_eq!((pump.carry(), pump.lost()), (4, 4));
        // There is room again.
        let full = std::mem::replace(&mut pump.output, output.try_clone().unwrap());
        program.write_all(b"kept").unwrap();
        assert_eq!((pump.carry(), pump.lost()), (4, 0));
        assert_eq!(content(&mut output), format!("{}kept", lost_note(4)));
        // And none at the end.
        pump.output = full;
        program.write_all(b"gone").unwrap();
        drop(program);
        pump.tell_end(GuestExit::Code(3));
        let told = read_end_text(content(&mut end).as_bytes());
        assert_eq!(told, Some((GuestExit::Code(3), 4)));
        assert!(streams[2].as_fd().try_clone_to_owned().is_ok());
    }
}
