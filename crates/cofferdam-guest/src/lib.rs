//! The protocol between the host and the guest: what a sandbox is made of, what is asked of it, and
//! what it answers. The host trusts nothing that comes back.

pub mod protocol;
