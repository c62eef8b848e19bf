//! The options of `cofferdam run`.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{
    NonEmptyStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser,
};
use clap::{ArgGroup, Args, ValueEnum};
use cofferdam::agent::AGENTS;
use cofferdam::names::BranchName;
use cofferdam::network::NetworkKind;

use crate::ui::human::{parse_bytes, parse_duration};

/// Let an agent work in a sandbox and bring its verified commits home
///
/// Without a branch strategy the agent works in this checkout itself (`--head`), or with
/// `--mode copy` on a temporary branch (`--merge-to-head`).
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
#[command(group = ArgGroup::new("strategy").args(["head", "merge_to_head", "branch"]))]
pub(crate) struct Arguments {
    /// The agent; `command`, any program, is meant where only `-- COMMAND` is given
    #[arg(long, value_name = "AGENT", value_parser = agents(), help_heading = "Agent")]
    pub(super) agent: Option<String>,

    /// The model, as the agent names it
    #[arg(long, help_heading = "Agent")]
    pub(super) model: Option<String>,

    /// How much the model should think, as the agent names it
    #[arg(long, help_heading = "Agent")]
    pub(super) effort: Option<String>,

    /// The agent's login file (`.credentials.json`, `auth.json`), kept for this and later runs
    #[arg(long, value_name = "FILE", help_heading = "Agent")]
    pub(super) login: Option<PathBuf>,

    /// The prompt, passed as it is, `-` for standard input; what is piped in is added to it, or is the prompt
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "prompt_file",
        help_heading = "Prompt"
    )]
    pub(super) prompt: Option<String>,

    /// A prompt template, `-` for standard input: {{KEY}} and !`command` in it are replaced; what is piped in is added
    #[arg(long, value_name = "FILE", help_heading = "Prompt")]
    pub(super) prompt_file: Option<PathBuf>,

    /// The value of {{KEY}} in the template
    #[arg(
        long = "arg",
        value_name = "KEY=VALUE",
        value_parser = parse_pair,
        requires = "prompt_file",
        conflicts_with = "prompt",
        help_heading = "Prompt"
    )]
    pub(super) template_values: Vec<(String, String)>,

    /// Work in this checkout itself; commits land on its branch
    #[arg(long, help_heading = "Branch strategy")]
    pub(super) head: bool,

    /// Work on a temporary branch and merge it into the checked-out branch at the end
    #[arg(long, help_heading = "Branch strategy")]
    pub(super) merge_to_head: bool,

    /// Work on this branch, which is made if it does not exist
    #[arg(long, value_name = "NAME", help_heading = "Branch strategy")]
    pub(super) branch: Option<BranchName>,

    /// Where a new branch starts; HEAD unless given
    #[arg(
        long,
        value_name = "REVISION",
        requires = "branch",
        help_heading = "Branch strategy"
    )]
    pub(super) base: Option<String>,

    /// How the sandbox sees the files: the host's directory itself, or a copy of its own
    #[arg(long, value_enum, default_value_t = FileMode::Bind, help_heading = "Sandbox")]
    pub(super) mode: FileMode,

    /// A file or directory below the repository's top to copy into the worktree, committed or not
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with = "head", help_heading = "Sandbox")]
    pub(super) copy: Vec<PathBuf>,

    /// A file or directory below the repository's top that the sandbox must not see; may be given more than once
    #[arg(long, value_name = "PATH", help_heading = "Sandbox")]
    pub(super) hide: Vec<PathBuf>,

    /// A variable for the agent; without a value it is taken from your environment
    #[arg(long = "env", value_name = "KEY[=VALUE]", help_heading = "Sandbox")]
    pub(super) variables: Vec<OsString>,

    /// The most memory, swap included: 512m, 2g
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "Sandbox")]
    pub(super) memory: Option<u64>,

    /// The most CPU time, in CPUs: 1.5
    #[arg(long, value_name = "NUMBER", value_parser = parse_cpus, help_heading = "Sandbox")]
    pub(super) cpus: Option<f64>,

    /// The most processes
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u64).range(1..),
        help_heading = "Sandbox"
    )]
    pub(super) pids: Option<u64>,

    /// What the sandbox may reach
    #[arg(
        long,
        value_parser = networks(),
        default_value_t = NetworkKind::Allowlist,
        help_heading = "Network"
    )]
    pub(super) network: NetworkKind,

    /// Open this too, for this run: example.com, db.example.com:5432, "db.example.com:8443 tls"
    #[arg(long, value_name = "RULE", help_heading = "Network")]
    pub(super) allow: Vec<String>,

    /// Names the sandbox, its temporary branch and its log
    #[arg(long, help_heading = "Sandbox")]
    pub(super) name: Option<String>,

    /// How often the agent is started at most; it ends the run earlier by its completion signal
    #[arg(
        long,
        value_name = "NUMBER",
        default_value = "1",
        value_parser = parse_count,
        help_heading = "Iterations"
    )]
    pub(super) max_iterations: NonZeroU32,

    /// What the agent says when nothing is left to do; may be given more than once
    #[arg(
        long = "completion-signal",
        value_name = "TEXT",
        default_value = cofferdam::session::COMPLETION_SIGNAL,
        value_parser = NonEmptyStringValueParser::new(),
        help_heading = "Iterations"
    )]
    pub(super) completion_signals: Vec<String>,

    /// No output of the agent for so long ends the run: 90, 90s, 10m
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10m",
        value_parser = parse_duration,
        help_heading = "Iterations"
    )]
    pub(super) idle_timeout: Duration,

    /// How long the agent may go on after its completion signal
    #[arg(
        long,
        value_name = "TIME",
        default_value = "60s",
        value_parser = parse_duration,
        help_heading = "Iterations"
    )]
    pub(super) grace: Duration,

    /// Run on this machine, in the worktree, before the sandbox exists
    #[arg(long, value_name = "COMMAND", help_heading = "Hooks")]
    pub(super) on_worktree_ready: Vec<String>,

    /// Run on this machine when the sandbox is up
    #[arg(long, value_name = "COMMAND", help_heading = "Hooks")]
    pub(super) on_host_ready: Vec<String>,

    /// Run in the sandbox when it is up
    #[arg(long, value_name = "COMMAND", help_heading = "Hooks")]
    pub(super) on_sandbox_ready: Vec<String>,

    /// Write the run log there instead of `.cofferdam/logs/`
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "no_log",
        help_heading = "Output"
    )]
    pub(super) log: Option<PathBuf>,

    /// Write no run log
    #[arg(long, help_heading = "Output")]
    pub(super) no_log: bool,

    /// Show warnings and the summary only
    #[arg(long, short, conflicts_with_all = ["verbose", "json"], help_heading = "Output")]
    pub(super) quiet: bool,

    /// Show also each step, what no parser understood, and the output of hooks
    #[arg(long, short, conflicts_with = "json", help_heading = "Output")]
    pub(super) verbose: bool,

    /// Print every event as a line of JSON, at last `finished` or `failed` (docs/run-events.md)
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,

    /// The program of the agent `command` with its arguments; more arguments for another agent
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

/// How the sandbox sees the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FileMode {
    Bind,
    Copy,
}

impl Arguments {
    pub(super) fn names_strategy(&self) -> bool {
        self.head || self.merge_to_head || self.branch.is_some()
    }

    /// Whether the agent is a program that the user named.
    pub(super) fn runs_command(&self) -> bool {
        self.agent.as_deref().unwrap_or("command") == "command"
    }
}

fn agents() -> PossibleValuesParser {
    let values = AGENTS
        .iter()
        .map(|kind| PossibleValue::new(kind.name).help(kind.about));
    PossibleValuesParser::new(values)
}

fn networks() -> impl TypedValueParser<Value = NetworkKind> {
    let values = NetworkKind::ALL.map(|kind| {
        PossibleValue::new(kind.as_str()).help(match kind {
            NetworkKind::None => "Nothing but its own loopback",
            NetworkKind::Allowlist => "What `cofferdam net rules` lists",
            NetworkKind::Open => "Everything that this machine reaches: no wall",
        })
    });
    PossibleValuesParser::new(values).try_map(|name| name.parse())
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let refused = || format!("`{}` is not KEY=VALUE", text.escape_debug());
    let (key, value) = text.split_once('=').ok_or_else(refused)?;
    if key.is_empty() {
        return Err(refused());
    }
    Ok((key.to_owned(), value.to_owned()))
}

fn parse_count(text: &str) -> Result<NonZeroU32, String> {
    text.parse()
        .map_err(|_| format!("`{}` is not a number of at least 1", text.escape_debug()))
}

fn parse_cpus(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|&cpus: &f64| cpus.is_finite() && cpus >= 0.01)
        .ok_or_else(|| {
            format!(
                "`{}` is not a number of CPUs such as 2 or 1.5",
                text.escape_debug()
            )
        })
}
