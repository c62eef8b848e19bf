//! `cofferdam show-run`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use cofferdam::registry::{DevSandbox, Record};
use cofferdam::sandbox::BranchStrategy;
use cofferdam::sandbox::engine::{Engine, Kind};
use cofferdam::session::{self, Caller, SessionOptions, dev as library};

use super::defaults::Defaults;
use super::dev::{self, Which};
use super::making::{self, DevOptions, Sandbox, Strategy};
use super::{here, living};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;
use crate::ui::shell::shell_word;

/// Print the engine's command that would make the container of a checkout's dev sandbox, and run nothing
///
/// Of one that is there it is the command of its last start. Cofferdam asks the engine itself, by its API: this is for reading, with
/// every mount, right and limit of the container. As any start it first brings home what a command that died has left.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The checkout; without it the one that you stand in
    #[arg(value_name = "PATH")]
    path: Option<OsString>,

    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    options: DevOptions,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let Arguments {
        path,
        which,
        options,
    } = arguments;
    let there = dev::there(path.as_deref(), environment)?;
    let environment = there.as_ref().unwrap_or(environment);
    let caller = living::caller(environment, interrupt);
    let repository = here::repository(environment, interrupt).await?;
    let of = DevSandbox {
        branch: which.branch,
    };
    let workdir = library::workdir(&repository.top, &of);
    // Nobody makes or ends one meanwhile.
    let turn = dev::turn(&caller, &repository.top).await?;
    let words = if let Some(record) = library::find(&caller, &repository.top, &of)? {
        dev::refuse_options(&record, &options, environment)?;
        of_one_that_is_there(&record, environment)?
    } else {
        Box::pin(of_one_that_would_be(of, options, &caller, environment)).await?
    };
    drop(turn);
    let words: Vec<String> = words.iter().map(shell_word).collect();
    let (first, rest) = words.split_at(words.len().min(2));
    output::data(&format!(
        "{} \\\n  {}\n",
        first.join(" "),
        rest.join(" \\\n  ")
    ))?;
    output::note(&format!("its programs start in {}\n", shell_word(&workdir)));
    if words.iter().any(|word| word.ends_with(":HOLDER")) {
        output::note(
            "HOLDER is a container that makes the network and the wall before, and has nothing else\n",
        );
    }
    Ok(ExitCode::SUCCESS)
}

async fn of_one_that_would_be(
    of: DevSandbox,
    options: DevOptions,
    caller: &Caller,
    environment: &Environment,
) -> Result<Vec<String>, CliError> {
    let defaults = Defaults::read(environment)?;
    let sandbox = Sandbox::from(options).or(&defaults);
    let Some(engine) = making::engine(&sandbox, environment)? else {
        return Err(native(
            "it would be native, and no engine is asked to run one",
        ));
    };
    let head = Strategy {
        head: true,
        ..Strategy::default()
    };
    let contained = making::contained(&head, &sandbox, environment, BranchStrategy::Head)?;
    let mut asked = SessionOptions::new(environment.directory.clone(), contained);
    making::session(sandbox, environment)?.put_into(&mut asked);
    asked.dev = Some(of);
    Ok(Box::pin(session::show_run(caller, asked, engine)).await?)
}

fn of_one_that_is_there(
    record: &Record,
    environment: &Environment,
) -> Result<Vec<String>, CliError> {
    let name = &record.name;
    if Kind::named(&record.provider).is_none() {
        return Err(native(&format!("{name} is native, and no engine runs it")));
    }
    let words = Engine::command_of(&environment.home.sandbox(record.id));
    let words = words.map_err(|error| CliError::Failed {
        message: error.to_string(),
        hint: format!("see `cofferdam status {name}`"),
    })?;
    words.ok_or_else(|| CliError::Failed {
        message: format!("it is not known any more what {name} was made with"),
        hint: format!("start it again: `cofferdam restart {name}`"),
    })
}

fn native(message: &str) -> CliError {
    CliError::Failed {
        message: message.to_owned(),
        hint: "see what it would be in a container: `cofferdam show-run --sandbox docker`, where there is no dev sandbox yet; what one has is in `cofferdam status .`".to_owned(),
    }
}
