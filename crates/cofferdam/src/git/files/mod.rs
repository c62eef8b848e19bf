//! Files of a commit for a sandbox without git, and a commit of what changed there. Neither way is there a checkout: the
//! files go in as git has them, and what comes out becomes objects in a git directory of ours that no sandbox sees.

mod changes;
mod commit;
mod tree;

pub use changes::{Changes, ChangesError, Limits, Stayed};
pub use commit::{Made, MakeError, Workshop};
pub use tree::{Sent, send};
