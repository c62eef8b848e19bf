//! Plans: many tasks of agents in one file, run beside one another, each an ordinary [`crate::run`] on a branch of its own.
//!
//! A plan is data that an agent may have written. It has prompts, agents, branches, iterations and order, bounded in number and
//! size; everything that touches the host comes from whoever runs it. [`Plan`] is what a file says, checked whole before
//! anything begins; [`run()`] runs it. What has ended well is on disk, so that the same plan goes on where it was.

mod bounds;
mod error;
mod event;
mod options;
mod order;
mod read;
mod report;
mod run;
mod schema;
mod state;
mod tasks;

pub use bounds::{MAX_FILE, MAX_ITERATIONS, MAX_PROMPT, MAX_TASKS};
pub use error::{PlanFault, PlanFileError, PlanRunError};
pub use event::{PlanEvent, PlanSink, Stage, What};
pub use options::PlanOptions;
pub use report::{Failure, PlanReport, TaskEnd, TaskReport};
pub use run::run;
pub use tasks::{AgentChoice, Plan, PlannedTask, Prompt, Review};
