//! Values that will grow are not written out whole: they have constructors, and a match has an arm for what comes.

use cofferdam::RunReport;
use cofferdam::agent::AgentOptions;
use cofferdam::sandbox::engine::EngineOptions;
use cofferdam::sandbox::native::NativeOptions;
use cofferdam::sandbox::{ExecRequest, Limits, SandboxSpec};
use cofferdam::session::living::{Collection, Condition, Program};
use cofferdam::session::manage::{
    DeleteOptions, Deleted, GcOptions, GcReport, Merge, Recovered, Summary,
};
use cofferdam::session::{
    Beside, Caller, Hook, Hooks, Kept, SessionExec, SessionOptions, Task, Timeouts, Watcher,
};

type Values = (Caller, SessionOptions, Task, SessionExec, ExecRequest, SandboxSpec);
type Given = (RunReport, Kept, Program, Collection, Beside);
type Named = (Hook, Hooks, Watcher);

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
        Collection { ..given.3 },
        Beside { ..given.4 },
    )
}

fn named(named: Named) -> Named {
    (
        Hook { ..named.0 },
        Hooks { ..named.1 },
        Watcher { ..named.2 },
    )
}

type Options = (AgentOptions, EngineOptions, NativeOptions, Limits, DeleteOptions, GcOptions, Timeouts);
type Told = (Deleted, GcReport, Merge, Recovered, Summary);

fn chosen(options: Options) -> Options {
    (
        AgentOptions { ..options.0 },
        EngineOptions { ..options.1 },
        NativeOptions { ..options.2 },
        Limits { ..options.3 },
        DeleteOptions { ..options.4 },
        GcOptions { ..options.5 },
        Timeouts { ..options.6 },
    )
}

fn told(told: Told) -> Told {
    (
        Deleted { ..told.0 },
        GcReport { ..told.1 },
        Merge { ..told.2 },
        Recovered { ..told.3 },
        Summary { ..told.4 },
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
