//! Which templates and backlogs there are.

use clap::ValueEnum;

/// What agents are to do, in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Template {
    /// One task, whose prompt is yours
    Blank,
    /// One agent works on one open item of the backlog after the other
    SimpleLoop,
    /// One item after the other: work, then a review, then the merge
    SequentialReviewer,
    /// An agent plans, the tasks run side by side, and what is finished is merged
    ParallelPlanner,
    /// The same, with a review of each task
    ParallelPlannerWithReview,
}

/// Where open items are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Backlog {
    /// GitHub's issues, by `gh`
    Github,
    /// Beads, by `bd`
    Beads,
    /// Another place: you fill in its commands
    Custom,
}

/// What stands where somebody has to fill in something.
pub(super) const FILL_IN: &str = "FILL-IN";

impl Template {
    /// Of its directory too.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Blank => "blank",
            Self::SimpleLoop => "simple-loop",
            Self::SequentialReviewer => "sequential-reviewer",
            Self::ParallelPlanner => "parallel-planner",
            Self::ParallelPlannerWithReview => "parallel-planner-with-review",
        }
    }

    pub(super) fn needs_backlog(self) -> bool {
        self != Self::Blank
    }
}

impl Backlog {
    pub(super) const ALL: [Self; 3] = [Self::Github, Self::Beads, Self::Custom];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Beads => "beads",
            Self::Custom => "custom",
        }
    }
}
