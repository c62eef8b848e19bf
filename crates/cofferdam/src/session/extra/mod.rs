//! What a sandbox sees of this machine beside its own files (`--mount`): only where its caller says so, on the command line or in
//! [`super::SessionOptions`]; no file can. [`grammar`] reads it, [`target`] and [`source`] refuse what would undo a sandbox's
//! bounds, [`below`] finds what lies in it that no sandbox may have, and [`made`] makes mounts of it all, at each start anew.

mod below;
pub(super) mod error;
mod grammar;
mod known;
mod made;
mod source;
mod target;

pub use error::ExtraMountError;
pub use grammar::parse as parse_mount;
pub(super) use made::{Beside, check};
