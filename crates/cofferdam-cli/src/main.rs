//! The command `cofferdam`.
fn main() {}
