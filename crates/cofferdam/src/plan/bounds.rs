//! How large a plan may be.

/// Bytes of a plan.
pub const MAX_FILE: u64 = 1 << 20;
/// The most tasks of one plan.
pub const MAX_TASKS: usize = 200;
/// The most starts of an agent for one task.
pub const MAX_ITERATIONS: u32 = 100;
/// Bytes of one prompt.
pub const MAX_PROMPT: usize = 1 << 20;
/// Bytes of a name: what is added to it has room in the name of a sandbox.
pub(super) const MAX_NAME: usize = 48;
/// Bytes of any other text: models, branches, arguments.
pub(super) const MAX_TEXT: usize = 64 << 10;
