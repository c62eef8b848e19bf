//! Values that will grow are not written out whole: they have constructors, and a match has an arm for what comes.

use cofferdam::RunReport;
use cofferdam::sandbox::{ExecRequest, SandboxSpec};
use cofferdam::session::living::{Condition, Program};
use cofferdam::session::{Caller, Kept, SessionExec, SessionOptions, Task};

type Values = (Caller, SessionOptions, Task, SessionExec, ExecRequest, SandboxSpec);
type Given = (RunReport, Kept, Program);

fn again(values: Values) -> Values {
    (
        Caller { ..values.0 },
        SessionOptions { ..values.1 },
        Task { ..values.2 },
        SessionExec { ..values.3 },
        ExecRequest { ..values.4 },
        SandboxSpec { ..values.5 },
    )
}

fn given(given: Given) -> Given {
    (
        RunReport { ..given.0 },
        Kept { ..given.1 },
        Program { ..given.2 },
    )
}

fn word(condition: Condition) -> &'static str {
    match condition {
        Condition::Running => "running",
        Condition::Paused => "paused",
        Condition::Stopped => "stopped",
    }
}

fn main() {}
