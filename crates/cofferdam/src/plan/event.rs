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
    Work,
    Review,
}

/// One event of one task.
#[derive(Debug, Clone, Copy)]
pub struct PlanEvent<'a> {
    pub task: &'a Slug,
    pub stage: Stage,
    pub what: What<'a>,
}

/// What happened.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum What<'a> {
    /// A run of it begins.
    Started { branch: &'a BranchName },
    /// An event of its run.
    Run(&'a Event),
    /// A run of it ended well.
    Finished(&'a RunReport),
    /// It ended otherwise; nothing more is done of it.
    Failed(&'a Failure),
    /// It ended well when the plan was run before.
    Before,
    /// This one, which it waits for, did not end well.
    Skipped { after: &'a Slug },
}

/// Where events of a plan go: a function that must be quick.
#[derive(Clone, Default)]
pub struct PlanSink(Option<Arc<Sink>>);

type Sink = dyn Fn(PlanEvent<'_>) + Send + Sync;

impl PlanSink {
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
