//! `cofferdam demo`: the main job on a real repository, with an agent that also misbehaves, and a
//! look at what held.

mod stage;
mod verdict;

use std::fmt::Write;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use cofferdam::RunOptions;
use cofferdam::agent::{self, AgentEvent, AgentOptions};
use cofferdam::git::Identity;
use cofferdam::home::Home;
use cofferdam::sandbox::native::{Native, NativeOptions};
use cofferdam::sandbox::{BindMount, BranchStrategy};
use cofferdam::session::{Event, EventSink};
use cofferdam::text::printable_line;
use tokio_util::sync::CancellationToken;

use crate::commands::run::{LEAVING, supervise};
use crate::environment::Environment;
use crate::error::{self, CliError};
use crate::interrupt::Interrupt;
use crate::ui::live::{Live, Mode, Stream};
use crate::ui::shell::shell_word;
use crate::ui::steps::{Narrator, Verbosity};
use crate::ui::style::{self, paint};
use crate::ui::table::fit;
use crate::ui::{output, summary};
use stage::{Stage, StageError};
use verdict::{Before, Verdict};

/// Show the main job on a small repository of its own, with an agent that also misbehaves
///
/// Everything happens in a temporary directory, which is removed at the end.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Keep the demonstration's directory, to look around in it
    #[arg(long)]
    keep: bool,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    // From the first moment, so that a signal never leaves the directory behind.
    let interrupt = Interrupt::quiet().map_err(CliError::Runtime)?;
    let done = show(arguments, environment, &interrupt.cancel).await;
    match (interrupt.code(), done) {
        (Some(code), Err(_)) => Err(CliError::Interrupted { code }),
        (_, done) => done,
    }
}

async fn show(
    arguments: &Arguments,
    environment: &Environment,
    cancel: &CancellationToken,
) -> Result<ExitCode, CliError> {
    let stage = Stage::set(environment, cancel).await?;
    let user_home = environment
        .user_home
        .clone()
        .unwrap_or_else(|| "/root".into());
    let colour = environment.colour;
    headline(
        colour.on_stdout(),
        "A small repository, and an agent with three tasks",
    )?;
    output::data("$ cofferdam run --max-iterations 3 -- ./agent.sh\n")?;

    let before = Before::look(&stage, cancel).await?;
    let mode = if environment.live {
        Mode::Terminal
    } else {
        Mode::Plain
    };
    // One story on one stream, and no commands for what is gone when it has been read.
    let narrator = Narrator::new(Verbosity::Normal, true).without_hints();
    let live = Live::start(mode, Stream::Output, narrator, colour.on_stdout())
        .map_err(CliError::Runtime)?;
    let said = Arc::new(Mutex::new(String::new()));
    let mut options = options(&stage, environment, &user_home)?;
    options.caller.events = listen(&live, &said);
    let (interrupt, result) = supervise(options, live, LEAVING, async |options| {
        cofferdam::run(options).await
    })
    .await?;
    if let Some(code) = interrupt.code() {
        if let Err(error) = result {
            output::note(&error::render(&CliError::Run(error), colour.on_stderr()));
        }
        return Err(CliError::Interrupted { code });
    }
    let report = result?;
    output::data(&summary::work(&report, colour.on_stdout()))?;

    headline(
        colour.on_stdout(),
        "What the agent also tried, and what held",
    )?;
    let said = std::mem::take(&mut *said.lock().unwrap_or_else(PoisonError::into_inner));
    let verdicts = verdict::verdicts(&stage, &before, &said, &report, &user_home, cancel).await?;
    output::data(&render(&verdicts, colour.on_stdout()))?;
    let held = verdicts.iter().all(|verdict| verdict.held);
    output::data(&end(held, &verdicts, environment, colour.on_stdout()))?;
    if arguments.keep {
        output::data(&kept(stage, environment))?;
    }
    Ok(if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl From<StageError> for CliError {
    fn from(error: StageError) -> Self {
        let hint = match &error {
            StageError::Place { .. } => "set TMPDIR to a directory that you can write".to_owned(),
            StageError::Process(_) | StageError::Git { .. } => {
                "see what this machine lacks with `cofferdam doctor`".to_owned()
            }
            StageError::File(_) | StageError::Listen(_) => String::new(),
        };
        Self::Failed {
            message: error::message(&error),
            hint,
        }
    }
}

fn options(
    stage: &Stage,
    environment: &Environment,
    user_home: &Path,
) -> Result<RunOptions, CliError> {
    let agent = agent::by_name("command", AgentOptions::with_arguments(["./agent.sh"]))?;
    let native = Native::new(NativeOptions::default());
    let sandbox = BindMount::or_layers(native, BranchStrategy::MergeToHead);
    let home = Home::new(stage.own_files());
    let mut options = RunOptions::new(home, stage.repository(), agent, sandbox);
    options.caller.git = environment.git.clone();
    options.session.name = Some("demo".to_owned());
    options.task.max_iterations = NonZeroU32::MIN.saturating_add(2);
    options.session.environment = stage.variables(user_home);
    options
        .caller
        .environment
        .clone_from(&environment.variables);
    options.caller.user_home = Some(user_home.to_owned());
    options.session.identity = Some(Identity {
        name: "Demo Agent".to_owned(),
        email: "agent@example.com".to_owned(),
    });
    Ok(options)
}

/// Shows every event, and writes down what the agent says.
fn listen(live: &Live, said: &Arc<Mutex<String>>) -> EventSink {
    let feed = live.feed();
    let said = Arc::clone(said);
    EventSink::new(move |event| {
        feed.event(event);
        if let Event::Agent { item, .. } = event
            && let AgentEvent::Text { text } | AgentEvent::Raw { line: text } = item
        {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            said.push_str(text);
            said.push('\n');
        }
    })
}

fn headline(colour: bool, text: &str) -> std::io::Result<()> {
    output::data(&format!("\n{}\n", paint(text, style::STRONG, colour)))
}

fn render(verdicts: &[Verdict], colour: bool) -> String {
    let mut out = String::new();
    for Verdict {
        tried,
        agent,
        host,
        held,
    } in verdicts
    {
        let word = if *held {
            paint("held   ", style::GOOD, colour)
        } else {
            paint("BROKEN ", style::ERROR, colour)
        };
        let _ = writeln!(out, "{word} {tried}");
        let _ = writeln!(out, "          agent: {}", fit(agent, 160));
        let _ = writeln!(out, "          host:  {}", printable_line(host));
    }
    out
}

/// Where everything is, and how to look at it: Cofferdam's own files are beside the repository there.
fn kept(stage: Stage, environment: &Environment) -> String {
    let repository = shell_word(stage.repository());
    let own = shell_word(stage.own_files());
    let command = environment.invocation();
    format!(
        "kept: {}\n  git -C {repository} log -p main\n  \
         COFFERDAM_HOME={own} {command} -C {repository} net log demo --refused\n",
        shell_word(stage.keep())
    )
}

fn end(held: bool, verdicts: &[Verdict], environment: &Environment, colour: bool) -> String {
    if !held {
        let broken = verdicts.iter().filter(|verdict| !verdict.held).count();
        return format!(
            "\n{broken} of {} did not hold. Please report it.\n",
            verdicts.len()
        );
    }
    let command = environment.invocation();
    format!(
        "\nAll {} held. The work is on main, and nothing else came out.\n\
         {} in a repository of your own, with an agent of your own:\n  {command} run \
         --copy my-agent.sh -- ./my-agent.sh\n",
        verdicts.len(),
        paint("next:", style::HINT, colour),
    )
}
