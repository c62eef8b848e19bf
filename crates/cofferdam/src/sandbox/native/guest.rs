//! The guest's executable, from a sealed memory file: no host file is needed, and no sandbox can
//! change what the next one runs.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, SealFlags};

static PROGRAM: &[u8] = include_bytes!(env!("COFFERDAM_GUEST_FILE"));

/// A path under which this process (and a child of it before exec) can execute the guest.
pub(super) fn executable() -> io::Result<String> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    let file = if let Some(file) = FILE.get() {
        file
    } else {
        let made = sealed_copy()?;
        FILE.get_or_init(|| made)
    };
    Ok(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn sealed_copy() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Before Linux 6.3 every memory file can be executed, and the flag is unknown.
    let file = rustix::fs::memfd_create("cofferdam-guest", flags | MemfdFlags::EXEC)
        .or_else(|_| rustix::fs::memfd_create("cofferdam-guest", flags))?;
    let mut rest = PROGRAM;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = &rest[written..];
    }
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file)
}
