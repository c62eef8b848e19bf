//! What happens while a plan is run, as typed events: those of each run with the task that it is.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::Serialize;

use super::report::Failure;
use crate::names::{BranchName, Slug};
use crate::session::{Event, RunReport};

/// Which start of an agent of a task it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The task's own.
    Work,
    /// The one that looks at what the first one did.
    Review,
}

/// One event of one task.
#[derive(Debug, Clone, Copy)]
pub struct PlanEvent<'a> {
    /// Which task.
    pub task: &'a Slug,
    /// Which of its agents.
    pub stage: Stage,
    /// What happened.
    pub what: What<'a>,
}

/// What happened.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum What<'a> {
    /// A run of it begins.
    Started {
        /// Where its commits will be.
        branch: &'a BranchName,
    },
    /// An event of its run.
    Run(&'a Event),
    /// A run of it ended well.
    Finished(&'a RunReport),
    /// It ended otherwise; nothing more is done of it.
    Failed(&'a Failure),
    /// It ended well when the plan was run before.
    Before,
    /// A task that it waits for did not end well.
    Skipped {
        /// The task that did not end well.
        after: &'a Slug,
    },
}

/// Where events of a plan go: a function that must be quick.
#[derive(Clone, Default)]
pub struct PlanSink(Option<Arc<Sink>>);

type Sink = dyn Fn(PlanEvent<'_>) + Send + Sync;

impl PlanSink {
    /// `sink` is called from whatever task has the event, and should not take long.
    pub fn new(sink: impl Fn(PlanEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(sink)))
    }

    /// A sink that panics is ignored: a broken forwarder cannot stop a plan.
    pub(super) fn emit(&self, task: &Slug, stage: Stage, what: What<'_>) {
        if let Some(sink) = &self.0 {
            let event = PlanEvent { task, stage, what };
            let _ = catch_unwind(AssertUnwindSafe(|| sink(event)));
        }
    }
}

impl fmt::Debug for PlanSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "PlanSink(set)"
        } else {
            "PlanSink(none)"
        })
    }
}
