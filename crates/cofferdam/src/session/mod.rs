//! The one lifecycle: plan → prepare → work → collect → dispose. Every entry point goes through it;
//! none has its own copy of a step.
//!
//! [`plan`] decides and refuses before anything is made. [`prepare`] makes the worktree, the private
//! clone and the sandbox. [`iterate`] and [`stream`] run the agent. [`collect`] brings its commits
//! home through the gate, and [`dispose`] removes the rest. The last two work from the registry's
//! record alone, so that [`manage`] can finish what a killed command began.

mod access;
mod announce;
mod appearing;
mod as_root;
mod barred;
mod check_plan;
mod checks;
mod collect;
mod committed;
mod configured;
mod cover;
pub mod dev;
mod dispose;
mod doubts;
mod elsewhere;
mod emitter;
mod envfile;
mod error;
mod event;
mod extra;
mod files;
mod form;
mod guard;
mod heard;
mod hide;
mod holder;
mod hook_point;
mod hooks;
mod inside;
mod iterate;
mod jailed;
mod judge;
mod layers;
pub mod living;
mod login;
mod looking;
pub mod manage;
mod mode_reason;
mod model;
mod mounts;
mod network;
mod network_options;
mod options;
mod outlived;
mod outside;
mod passed;
mod pipes;
mod place;
mod plan;
mod ports;
mod prepare;
mod program;
mod protect;
mod push;
mod recorded;
mod refusals;
mod report;
mod run;
mod runlog;
mod shared;
mod shelf;
mod shells;
mod show_run;
mod starting;
mod stream;
mod submodules;
mod sync;
mod transfer;
mod uncommitted;
mod unsynced;
mod variables;
mod watched;

pub use crate::git::CommitLine;
pub use crate::git::land::Landing;
pub use checks::Checks;
pub use collect::{CollectError, Recorded};
pub use doubts::doubts;
pub use envfile::{EnvFileError, NotTrusted, Withheld};
pub use error::{ExpressionError, RunError, RunErrorKind};
pub use event::{Event, EventSink, Notice};
pub use extra::{ExtraMountError, parse_mount};
pub use holder::{Holder, Holding};
pub use hook_point::HookPoint;
pub use hooks::HookError;
pub use judge::Judge;
pub use living::{Session, SessionError, SessionExec};
pub use login::{ForeignLogin, LoginError, forget_login, keep_login, kept_login};
pub use mode_reason::ModeReason;
pub use network_options::NetworkOptions;
pub use options::{
    COMPLETION_SIGNAL, Caller, Hook, Hooks, LogLimits, PromptSource, RunLog, RunOptions,
    SessionOptions, Task, Timeouts, Watcher,
};
pub use plan::PlanError;
pub use ports::{PortsError, Unpublished};
pub use report::{Beside, Iteration, Kept, RunReport};
pub use run::{check, run};
pub use runlog::run_log;
pub use shelf::{ShelfError, Shelved, provision};
pub use shells::RULES;
pub use show_run::show_run;
pub use stream::AgentFailure;
pub use sync::{RulesNow, SyncMode, Synced};
pub use unsynced::SyncError;
pub use variables::{VariablesError, env_file_is_exposed, variables};
pub use watched::{WatchError, watch};
