//! The static executable that runs inside a sandbox.
fn main() {}
