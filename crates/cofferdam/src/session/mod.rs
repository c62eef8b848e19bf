//! The one lifecycle: plan → prepare → work → collect → dispose.

pub mod envfile;
mod event;
mod options;
mod report;

pub use event::{Event, EventSink, Notice};
pub use options::{Hook, Hooks, PromptSource, RunLog, RunOptions, Timeouts};
pub use report::{CommitLine, Iteration, Kept, Landing, RunError, RunErrorKind, RunReport};

/// Runs an agent in a sandbox until it signals completion or the iterations are used up, and brings
/// verified commits home.
pub async fn run(_options: RunOptions) -> Result<RunReport, RunError> {
    unreachable!()
}
