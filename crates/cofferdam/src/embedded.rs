//! The executables that the library carries, from sealed memory files: no host file is needed, and
//! nothing that runs can change what is started next.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, SealFlags};

/// A path under which this process (and a child of it before exec) can execute the guest.
pub(crate) fn guest() -> io::Result<String> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    let program = include_bytes!(env!("COFFERDAM_GUEST_FILE"));
    path(&FILE, "cofferdam-guest", program)
}

/// As [`guest`], for the gateway. A file of its own: the start of a sandbox does not pay for it.
pub(crate) fn gateway() -> io::Result<String> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    let program = include_bytes!(env!("COFFERDAM_GATEWAY_FILE"));
    path(&FILE, "cofferdam-gateway", program)
}

fn path(file: &'static OnceLock<OwnedFd>, name: &str, program: &[u8]) -> io::Result<String> {
    let file = if let Some(file) = file.get() {
        file
    } else {
        let made = sealed_copy(name, program)?;
        file.get_or_init(|| made)
    };
    Ok(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn sealed_copy(name: &str, program: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Before Linux 6.3 every memory file can be executed, and the flag is unknown.
    let file = rustix::fs::memfd_create(name, flags | MemfdFlags::EXEC)
        .or_else(|_| rustix::fs::memfd_create(name, flags))?;
    let mut rest = program;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = &rest[written..];
    }
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file)
}
