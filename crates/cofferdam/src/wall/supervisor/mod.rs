//! The supervisors of sandboxes that outlive their command, from the library's side: started, found and asked. See
//! docs/decisions/0011-a-sandbox-that-lives-on.md.

mod ended;
mod error;
mod found;
mod rules;
mod start;

pub use cofferdam_wall::supervisor::Wall;
pub use ended::{ended_unasked, expect_end, expect_no_end, forget_end};
pub use error::SupervisorError;
pub use found::{Status, Supervisor, VERSION};
pub(super) use rules::write;
pub use rules::{Compiled, begin_rules, is_long_lived, write_rules};
pub use start::start;
