//! A change of rules: kept in its file, and in force at once in the sandboxes that it is for.

mod apply;
pub(super) mod right;

pub use apply::{Applied, ChangeError, Effect, Reached};
pub use right::Change;
