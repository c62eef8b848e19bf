//! `cofferdam create`: a sandbox that stays until it is deleted.

use std::process::ExitCode;

use clap::Args;
use cofferdam::names::{NameError, Slug};
use cofferdam::registry::{Reach, Record};
use cofferdam::sandbox::{BranchStrategy, NetworkKind};
use cofferdam::session::{
    Caller, HookPoint, PlanError, RunError, RunErrorKind, Session, SessionOptions,
};
use cofferdam::text::printable_line;
use serde::Serialize;

use super::defaults::Defaults;
use super::making::{self, MadeIn, Sandbox, Strategy};
use super::{images, keep_ready, living};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::from_here::from_here;
use crate::ui::style::{self, paint};
use crate::ui::{json, output};

/// Make a sandbox that stays until it is deleted
///
/// Programs run in it with `exec` and `shell`, and what they commit comes home with `collect`, `diff`, `log` and `merge`.
/// Without a branch strategy it works on the branch `cofferdam/NAME`.
#[derive(Debug, Args)]
#[command(mut_arg("merge_to_head", |option| option.help(
    "Work on a temporary branch, which `cofferdam merge` merges into the branch that is checked out now"
)))]
pub(crate) struct Arguments {
    /// What the other commands call it
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    strategy: Strategy,

    #[command(flatten)]
    sandbox: Sandbox,

    /// One object: `id`, `name`, `branch`, `base`, `mode`, `image`, `network`, `repository`
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// What was made.
#[derive(Debug, Serialize)]
struct Made<'a> {
    id: String,
    name: &'a str,
    branch: String,
    base: &'a str,
    mode: &'static str,
    /// Nothing where it is in no container.
    image: Option<&'a str>,
    network: &'static str,
    repository: String,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let name = Slug::sandbox_name(&arguments.name).map_err(|error| misnamed(&error))?;
    let json = arguments.json;
    let (options, names_image) = options(arguments, &name, environment)?;
    let caller = living::caller(environment, interrupt);
    let create = async |caller: &Caller| Box::pin(Session::create(caller, &options)).await;
    let made = living::shown(&caller, environment, create).await?;
    let session = made.map_err(|error| explain(error, &name))?;
    let record = session.record();
    output::data(&if json {
        json::line(&told(record))?
    } else {
        from_here(&render(record, environment.colour.on_stdout())).into_owned()
    })?;
    if !names_image {
        images::tell_unbuilt(record, environment).await;
    }
    keep_ready::after_living(record);
    Ok(ExitCode::SUCCESS)
}

/// What an agent's sandbox begins with, where the configuration has no `setup`.
const SETUP: &str = "echo hello world";

/// For whoever has no command line: files of its own on a branch of its own.
pub(super) async fn unattended(
    name: &Slug,
    base: Option<String>,
    environment: &Environment,
) -> Result<SessionOptions, CliError> {
    let defaults = Defaults::read(environment)?;
    let sandbox = Sandbox::with_own_files(&defaults, environment).await;
    let arguments = Arguments {
        name: name.to_string(),
        strategy: Strategy {
            base,
            ..Strategy::default()
        },
        sandbox,
        json: false,
    };
    let (mut options, _) = options(arguments, name, environment)?;
    options.setup = Some(SETUP.to_owned());
    Ok(options)
}

/// As with nothing but a name and a place on the command line.
pub(super) async fn plain(
    name: &str,
    place: MadeIn,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<(), CliError> {
    let arguments = Arguments {
        name: name.to_owned(),
        strategy: Strategy::default(),
        sandbox: place.into(),
        json: false,
    };
    run(arguments, environment, interrupt).await.map(|_| ())
}

/// With whether an image is named, on the command line or in the configuration.
fn options(
    arguments: Arguments,
    name: &Slug,
    environment: &Environment,
) -> Result<(SessionOptions, bool), CliError> {
    let own = BranchStrategy::Branch {
        branch: format!("cofferdam/{name}")
            .parse()
            .map_err(|error| misnamed(&error))?,
        base: arguments.strategy.base.clone(),
    };
    let sandbox = arguments.sandbox.or(&Defaults::read(environment)?);
    let contained = making::contained(&arguments.strategy, &sandbox, environment, own)?;
    let names_image = sandbox.image.is_some();
    let making = making::session(sandbox, environment)?;
    let mut options = SessionOptions::new(environment.directory.clone(), contained);
    making.put_into(&mut options);
    options.name = Some(arguments.name);
    Ok((options, names_image))
}

fn told(record: &Record) -> Made<'_> {
    Made {
        id: record.id.to_string(),
        name: record.name.as_str(),
        branch: record.branch_text(),
        base: record.base.as_str(),
        mode: record.mode.as_str(),
        image: record.image.as_deref(),
        network: network(record),
        repository: record.repository.to_string_lossy().into_owned(),
    }
}

fn render(record: &Record, colour: bool) -> String {
    let name = &record.name;
    let image = record.image.as_deref();
    let image = image.map(|image| format!(", image {}", printable_line(image)));
    // Whoever had not thought of it would take what is there for the sandbox's.
    let was_there = match (&record.branch, record.branch_is_ours) {
        (Some(_), false) => format!(" (which was there already, at {})", record.base.short()),
        _ => String::new(),
    };
    format!(
        "{} {name} on {}{was_there}, mode {}, network {}{}\n{} cofferdam shell {name}\n",
        paint("created:", style::GOOD, colour),
        printable_line(&record.branch_text()),
        record.mode.as_str(),
        network(record),
        image.unwrap_or_default(),
        paint("next:", style::HINT, colour),
    )
}

/// What it may reach, in the words of `--network`.
pub(super) fn network(record: &Record) -> &'static str {
    let kind = record.network.as_ref().map(Reach::kind);
    kind.unwrap_or(NetworkKind::None).as_str()
}

pub(super) fn misnamed(error: &NameError) -> CliError {
    let hint = match error {
        NameError::Sandbox { slug } if !slug.is_empty() => format!(
            "it has {} characters: shorten it, for example to `cofferdam create {}`",
            slug.len(),
            slug[..slug.len().min(20)].trim_end_matches('-')
        ),
        _ => "use letters and digits, for example `cofferdam create fix-17`".to_owned(),
    };
    CliError::Failed {
        message: error.to_string(),
        hint,
    }
}

/// What it says of a set-up that failed.
pub(super) const SETUP_FAILED: &str = "Setup Command Failed";

/// With the step that failed before it, and the next one after it where that is another than that of a run.
pub(super) fn explain(error: RunError, name: &Slug) -> CliError {
    let step = step(&error.kind);
    let error = with_hint(error, name);
    match step {
        Some(step) => CliError::Unmade {
            step,
            error: Box::new(error),
        },
        None => error,
    }
}

/// Which step of making a sandbox it was, in the words of the fourth document's diagram. Names have texts of their own.
fn step(kind: &RunErrorKind) -> Option<&'static str> {
    Some(match kind {
        RunErrorKind::Plan(
            PlanError::BranchBarred { .. }
            | PlanError::BranchMade(_)
            | PlanError::BranchTaken(_)
            | PlanError::BranchHeld { .. }
            | PlanError::CheckedOut { .. },
        ) => "Git Branch Creation Failed",
        RunErrorKind::Vault(_)
        | RunErrorKind::Tree(_)
        | RunErrorKind::Worktree(_)
        | RunErrorKind::Copy(_)
        | RunErrorKind::Prepare { .. } => "Source Code Copy Failed",
        RunErrorKind::Sandbox(_) => "Container Provisioning Failed",
        // Those on the host are no part of it.
        RunErrorKind::Hook(hook)
            if !matches!(
                hook.point,
                HookPoint::WorktreeReady | HookPoint::HostSandboxReady
            ) =>
        {
            SETUP_FAILED
        }
        _ => return None,
    })
}

fn with_hint(error: RunError, name: &Slug) -> CliError {
    let hint = match &error.kind {
        RunErrorKind::Plan(PlanError::NameTaken(_)) => format!(
            "see how it is with `cofferdam status {name}`, or take another name: `cofferdam create {name}-2`"
        ),
        RunErrorKind::Plan(PlanError::CheckedOut { .. }) => format!(
            "leave out `--branch`, and it works on `cofferdam/{name}`, which starts where you are; or name another branch"
        ),
        RunErrorKind::Hook(hook)
            if error.kept.lives_on && hook.point != HookPoint::SandboxReady =>
        {
            format!(
                "it is kept for a look: `cofferdam shell {name}`; then `cofferdam start {name}` sets it up again, and \
             `cofferdam delete --force {name}` ends it"
            )
        }
        RunErrorKind::Hook(_) if error.kept.lives_on => format!(
            "it is kept for a look: `cofferdam shell {name}`; then `cofferdam delete --force {name}`"
        ),
        _ => return CliError::Run(error),
    };
    CliError::Program {
        error: Box::new(error),
        hint,
    }
}
