//! Renames that the kernel does not make: in an ordinary user's overlay it refuses a directory that lies in a layer or is
//! merged (EXDEV). Programs ask init before each rename, and init has a child make those.
//!
//! Whoever asks is hostile. What it says is looked up from its own directories, never through a link that would mean
//! something else for init, and what is made is made with a program's rights and in a program's bounds.

mod asked;
mod carry;

pub(crate) use asked::{Arguments, Asked, Kind, OpenPath, Path, memory};
pub(crate) use carry::{Carried, carry};
