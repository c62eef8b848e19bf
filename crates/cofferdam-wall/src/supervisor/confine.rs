//! What a supervisor gives up. It stays the user that it is, because that one owns the state directory and starts
//! gateways: as root it keeps the two capabilities by which a gateway becomes somebody else, and no other.
//!
//! It reads nothing that a sandbox writes. So there is no filter of system calls and no Landlock, which a gateway
//! that it starts would inherit.

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets};

/// What a gateway's start needs of root.
const KEPT: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);

/// In the only thread.
pub(super) fn confine() -> Result<(), Errno> {
    // Keys pressed at the starter's terminal are not for it, nor the end of that.
    _ = rustix::process::setsid();
    rustix::process::umask(Mode::from_raw_mode(0o077));
    rustix::thread::set_no_new_privs(true)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::thread::clear_ambient_capability_set()?;
    let own = rustix::thread::capabilities(None)?;
    if own.effective.contains(CapabilitySet::SETPCAP) {
        for number in 0..u64::BITS {
            let one = CapabilitySet::from_bits_retain(1 << number);
            if !KEPT.contains(one) {
                // Fails for numbers that this kernel does not have.
                _ = rustix::thread::remove_capability_from_bounding_set(one);
            }
        }
    }
    let kept = own.permitted & KEPT;
    rustix::thread::set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )
}

/// The signals that ask or tell something, to be read; those that a terminal sends are among them and mean nothing.
pub(super) fn signals() -> nix::Result<SignalFd> {
    let mut all = SigSet::empty();
    for signal in [
        Signal::SIGTERM,
        Signal::SIGCHLD,
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTSTP,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
    ] {
        all.add(signal);
    }
    all.thread_block()?;
    SignalFd::with_flags(&all, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}
