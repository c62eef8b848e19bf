//! `cofferdam net log`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use cofferdam::network::NetworkKind;
use cofferdam::session::manage::ManageError;
use cofferdam::wall::log::{self, Verdict};

use crate::commands::dev;
use crate::commands::here::repository;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::traffic::{self, Row, Traffic};
use crate::ui::{json, output};

/// How often a log is looked at that may grow.
const PAUSE: Duration = Duration::from_millis(100);

/// Show what a sandbox asked of the network, and what became of it
///
/// Works while the sandbox is at work, and for 30 days after.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, or the path of a checkout for its dev sandbox; the newest one of this repository unless given
    #[arg(value_name = "SANDBOX|PATH")]
    name: Option<String>,

    /// Go on until the sandbox ends
    #[arg(long, short)]
    follow: bool,

    /// What was refused only, each thing once, with the command that opens it
    #[arg(long)]
    refused: bool,

    /// Every entry as it was written, one object a line
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let (name, there) = match arguments.name.clone() {
        Some(name) => {
            let (name, there) = dev::by_path(name, environment, interrupt).await?;
            (Some(name), there)
        }
        None => (None, None),
    };
    let environment = there.as_ref().unwrap_or(environment);
    let repository = repository(environment, interrupt).await?;
    let found = log::find(&environment.home, &repository.top, name.as_deref())?;
    if arguments.name.is_none() && !arguments.json && found.network.is_none() {
        let name = cofferdam::text::printable_line(&found.name);
        output::note(&format!("the network log of sandbox {name}\n"));
    }
    if let Some(network) = found.network
        && !arguments.json
    {
        output::note(&unlogged(&found.name, network));
        return Ok(ExitCode::SUCCESS);
    }
    let mut reader = found.open().map_err(ManageError::from)?;
    let mut show = Show::new(arguments);
    loop {
        // Asked before reading: what a sandbox that has ended wrote is then all there.
        let goes_on = arguments.follow && found.is_live(&environment.home);
        let mut piece = String::new();
        let mut wrong = None;
        reader
            .read(|line| {
                if let Err(error) = show.line(line, &mut piece) {
                    wrong = Some(error);
                }
            })
            .map_err(ManageError::from)?;
        if let Some(error) = wrong {
            return Err(error.into());
        }
        output::data(&piece)?;
        if !goes_on {
            break;
        }
        tokio::select! {
            () = interrupt.cancel.cancelled() => break,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
    output::data(&show.end())?;
    if let Some(nothing) = show.nothing() {
        output::note(nothing);
    }
    match interrupt.code() {
        Some(code) => Err(CliError::Interrupted { code }),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Why there is nothing to show of a sandbox without a wall.
fn unlogged(name: &str, network: NetworkKind) -> String {
    let name = cofferdam::text::printable_line(name);
    let why = match network {
        NetworkKind::None => "it reaches nothing, so there is nothing to log",
        NetworkKind::Allowlist | NetworkKind::Open => {
            "it reaches everything, and nothing of that is logged"
        }
    };
    format!("sandbox {name} was started with `--network {network}`: {why}\n")
}

/// How entries are shown.
#[derive(Debug)]
enum Show {
    Json {
        refused: bool,
    },
    /// Each as it comes.
    Lines {
        refused: bool,
    },
    /// All of them at the end.
    Table(Traffic),
}

impl Show {
    fn new(arguments: &Arguments) -> Self {
        let refused = arguments.refused;
        if arguments.json {
            Self::Json { refused }
        } else if arguments.follow {
            Self::Lines { refused }
        } else {
            Self::Table(Traffic::new(refused))
        }
    }

    /// A line that is no entry is left out: the writer may have died in it.
    fn line(&mut self, line: &[u8], out: &mut String) -> std::io::Result<()> {
        let Some(entry) = log::parse(line) else {
            return Ok(());
        };
        let is_refused = entry.verdict == Some(Verdict::Refused);
        match self {
            Self::Json { refused } | Self::Lines { refused } if *refused && !is_refused => {}
            Self::Json { .. } => {
                let value: serde_json::Value = serde_json::from_slice(line)?;
                out.push_str(&json::line(&value)?);
            }
            Self::Lines { .. } => {
                if let Some(row) = Row::new(&entry) {
                    out.push_str(&traffic::line(&row));
                }
            }
            Self::Table(traffic) => traffic.add(&entry),
        }
        Ok(())
    }

    /// What to say where nothing is shown.
    fn nothing(&self) -> Option<&'static str> {
        match self {
            Self::Table(traffic) if traffic.is_empty() => Some(if traffic.of_refused() {
                "nothing was refused\n"
            } else {
                "it has asked for nothing\n"
            }),
            _ => None,
        }
    }

    fn end(&self) -> String {
        match self {
            Self::Json { .. } | Self::Lines { .. } => String::new(),
            Self::Table(traffic) => traffic.render(),
        }
    }
}
