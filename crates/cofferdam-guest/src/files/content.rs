//! What a file holds, as one number: whoever is inside gains nothing by another file with the same.

use std::io::{self, Read};
use std::os::fd::BorrowedFd;

use crate::sys;

/// File systems on which every change has a time, see [`cofferdam_guest::protocol::files::Print`]: ext4, XFS, Btrfs, F2FS,
/// bcachefs, as statfs(2) numbers them.
const WRITTEN_BACK: [u32; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0xca45_1a4e];

/// Whether the time of its last change tells of every change of this file.
pub(super) fn has_true_time(file: BorrowedFd<'_>) -> bool {
    sys::file_system(file).is_ok_and(|kind| WRITTEN_BACK.contains(&kind))
}

/// Of everything that is left to be read.
pub(super) fn content(file: &mut impl Read) -> io::Result<u64> {
    let mut file = Numbered::new(file);
    io::copy(&mut file, &mut io::sink())?;
    Ok(file.number)
}

/// Numbers what is read: FNV-1a, 64 bits wide.
#[derive(Debug)]
pub(super) struct Numbered<R> {
    from: R,
    pub(super) number: u64,
}

impl<R> Numbered<R> {
    pub(super) fn new(from: R) -> Self {
        let number = 0xcbf2_9ce4_8422_2325;
        Self { from, number }
    }
}

impl<R: Read> Read for Numbered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        for byte in &buffer[..count] {
            self.number = (self.number ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(count)
    }
}
