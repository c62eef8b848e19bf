//! The options of `cofferdam run`.

use std::ffi::OsString;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, PossibleValue, PossibleValuesParser};
use cofferdam::agent::AGENTS;

use crate::commands::defaults::{Defaults, known};
use crate::commands::making::{Sandbox, Strategy};
use crate::error::CliError;
use crate::ui::human::parse_duration;

/// Let an agent work in a sandbox and bring its verified commits home
///
/// Without a branch strategy the agent works on a temporary branch, which is merged into the checked-out one when the run
/// succeeds (`--merge-to-head`). It sees committed files; what you have not committed stays outside, unless `--copy` names
/// it. The sandbox ends with the agent, unless it is kept (`--keep`) or was there before (`--in`).
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
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

    /// Run the tasks of a plan, `-` for standard input: each on a branch of its own, several at once (docs/orchestration.md)
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "prompt", "prompt_file", "template_values", "Strategy", "name", "within", "keep", "log", "output_tag",
        ],
        help_heading = "Plan"
    )]
    pub(super) plan: Option<PathBuf>,

    /// So many tasks are at work at once; 2 unless given
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = parse_jobs,
        requires = "plan",
        help_heading = "Plan"
    )]
    pub(super) jobs: Option<NonZeroUsize>,

    /// Run tasks too that ended well when the same plan was run before
    #[arg(long, requires = "plan", help_heading = "Plan")]
    pub(super) again: bool,

    #[command(flatten)]
    pub(super) strategy: Strategy,

    #[command(flatten)]
    pub(super) sandbox: Sandbox,

    /// Work in this sandbox, which `cofferdam create` made, instead of one of its own
    #[arg(
        long = "in",
        value_name = "SANDBOX",
        conflicts_with_all = ["Strategy", "Sandbox", "name", "keep"],
        help_heading = "Sandbox"
    )]
    pub(super) within: Option<String>,

    /// Leave the sandbox alive at the end, as `cofferdam create` makes one
    #[arg(long, help_heading = "Sandbox")]
    pub(super) keep: bool,

    /// Names the sandbox, its temporary branch and its log
    #[arg(long, help_heading = "Sandbox")]
    pub(super) name: Option<String>,

    /// How often the agent is started at most, once unless the configuration says otherwise; it ends the run earlier by its completion signal
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = parse_count,
        help_heading = "Iterations"
    )]
    pub(super) max_iterations: Option<NonZeroU32>,

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

    /// End the run after so long: 90m, 2h; what it waits for a quota does not count
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Bounds")]
    pub(super) max_time: Option<Duration>,

    /// End it when the agent has used more tokens, those from a cache too
    #[arg(long, value_name = "NUMBER", help_heading = "Bounds")]
    pub(super) max_tokens: Option<u64>,

    /// End it when it has cost more, in US dollars, where the agent says what it costs
    #[arg(long, value_name = "USD", value_parser = parse_dollars, help_heading = "Bounds")]
    pub(super) max_cost: Option<u64>,

    /// Where a limit of the model's is reached wait until it is over, and go on; so long altogether, 6 hours unless given
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "6h",
        value_parser = parse_duration,
        help_heading = "Bounds"
    )]
    pub(super) wait_for_quota: Option<Duration>,

    /// What the agent gives back at the end: the last <TAG>…</TAG> in its own words; JSON, where a schema is given
    #[arg(long, value_name = "TAG", help_heading = "Structured output")]
    pub(super) output_tag: Option<String>,

    /// The JSON Schema of what it gives back; an answer that does not fit is asked for again
    #[arg(
        long,
        value_name = "FILE",
        requires = "output_tag",
        help_heading = "Structured output"
    )]
    pub(super) output_schema: Option<PathBuf>,

    /// How often it is asked again
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "output_tag",
        default_value_t = 2,
        help_heading = "Structured output"
    )]
    pub(super) output_retries: u32,

    /// Write what it gives back there too, whole or not at all
    #[arg(
        long,
        value_name = "FILE",
        requires = "output_tag",
        help_heading = "Structured output"
    )]
    pub(super) output_file: Option<PathBuf>,

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

    /// Its user works with the agent at its own terminal interface.
    #[arg(skip)]
    pub(super) attended: bool,

    /// And there is no sandbox.
    #[arg(skip)]
    pub(super) on_host: bool,

    /// The program of the agent `command` with its arguments; more arguments for another agent
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

impl Arguments {
    /// Puts the configuration's choices where the command line makes none. A sandbox that was there before is as it is.
    pub(super) fn or(mut self, defaults: &Defaults) -> Result<Self, CliError> {
        if self.within.is_none() && !self.on_host {
            self.sandbox = self.sandbox.or(defaults).or_network(defaults);
            let can_share = !self.keep && self.sandbox.can_share();
            self.strategy = self.strategy.or(defaults, can_share);
        }
        self.max_iterations = self.max_iterations.or(defaults.iterations);
        if let (None, true, Some(agent)) = (&self.agent, self.command.is_empty(), &defaults.agent) {
            self.agent = Some(known(agent)?.to_owned());
        }
        // Each agent has names of its own for them.
        let beside = defaults.agent.as_ref().map(|agent| &agent.value);
        if self.agent.as_ref() == beside && !self.runs_command() {
            self.model = self.model.or_else(|| defaults.model.clone());
            self.effort = self.effort.or_else(|| defaults.effort.clone());
        }
        Ok(self)
    }

    /// Whether the agent is a program that the user named.
    pub(super) fn runs_command(&self) -> bool {
        self.agent.as_deref().unwrap_or("command") == "command"
    }
}

pub(in crate::commands) fn agents() -> PossibleValuesParser {
    let values = AGENTS
        .iter()
        .map(|kind| PossibleValue::new(kind.name).help(kind.about));
    PossibleValuesParser::new(values)
}

pub(in crate::commands) fn parse_pair(text: &str) -> Result<(String, String), String> {
    let refused = || format!("`{}` is not KEY=VALUE", text.escape_debug());
    let (key, value) = text.split_once('=').ok_or_else(refused)?;
    if key.is_empty() {
        return Err(refused());
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// Dollars, as millionths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what does not fit is refused"
)]
fn parse_dollars(text: &str) -> Result<u64, String> {
    let dollars = text.strip_prefix('$').unwrap_or(text).parse::<f64>();
    let micro = dollars.map(|dollars| (dollars * 1e6).round());
    let is_sum = |micro: &f64| *micro >= 1.0 && *micro < 1e15;
    let micro = micro.ok().filter(is_sum);
    micro.map(|micro| micro as u64).ok_or_else(|| {
        format!(
            "`{}` is no sum of dollars, such as 2.50",
            text.escape_debug()
        )
    })
}

fn parse_count(text: &str) -> Result<NonZeroU32, String> {
    text.parse()
        .map_err(|_| format!("`{}` is not a number of at least 1", text.escape_debug()))
}

/// More would only wait for one another.
const MOST_JOBS: usize = 64;

fn parse_jobs(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok();
    let number = number.filter(|number: &NonZeroUsize| number.get() <= MOST_JOBS);
    number.ok_or_else(|| {
        format!(
            "`{}` is not a number from 1 to {MOST_JOBS}",
            text.escape_debug()
        )
    })
}
