//! `cofferdam volume`: what outlives sandboxes.

use std::io::{IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use cofferdam::fsx::{Destination, FileError};
use cofferdam::git::RepositoryError;
use cofferdam::names::{RepoPath, Slug, VolumeName};
use cofferdam::session::manage::ManageError;
use cofferdam::session::only_there;
use cofferdam::text::printable_line;
use cofferdam::volumes::{self, Purpose, Volume, VolumeError};
use serde::Serialize;

use super::{dev, here, living};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::shell::shell_word;
use crate::ui::style::{self, paint};
use crate::ui::{human, json, output, table};

/// So much of what is only on a shelf is named.
const SHOWN: usize = 5;

/// What outlives sandboxes: logins of agents, the history and the shelf of a repository
///
/// Without a command it prints the names of the volumes that a dev sandbox of this repository has, whether there are any yet
/// or not.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// List those that are there, with who uses them
    List {
        /// A list of objects
        #[arg(long)]
        json: bool,
    },
    /// Show one: how large it is, where it is, who uses it
    Inspect {
        #[arg(value_name = "VOLUME")]
        name: String,
        /// An object
        #[arg(long)]
        json: bool,
    },
    /// Write what is in one as a tar archive
    Export {
        #[arg(value_name = "VOLUME")]
        name: String,
        /// The archive, which must not be there yet; without it standard output
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Remove volumes with all that is in them; one that a sandbox has stays
    Remove {
        #[arg(required = true, value_name = "VOLUME")]
        names: Vec<String>,
        /// Also a shelf with work that is nowhere else
        #[arg(long)]
        force: bool,
    },
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    match &arguments.command {
        None => names(environment, interrupt).await?,
        Some(Command::Remove { names, force }) => {
            return remove(names, *force, environment, interrupt).await;
        }
        Some(command) => {
            // What is in one may be made to take for ever.
            let (command, own) = (command.clone(), environment.clone());
            let done = tokio::task::spawn_blocking(move || act(&command, &own));
            return tokio::select! {
                done = done => done.map_err(|error| CliError::Runtime(error.into()))?,
                () = interrupt.cancel.cancelled() => Err(CliError::Interrupted {
                    code: interrupt.code().unwrap_or(130),
                }),
            };
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn act(command: &Command, environment: &Environment) -> Result<ExitCode, CliError> {
    match command {
        Command::List { json } => list(*json, environment)?,
        Command::Inspect { name, json } => inspect(name, *json, environment)?,
        Command::Export { name, file } => export(name, file.as_deref(), environment)?,
        // It asks git, too.
        Command::Remove { .. } => {}
    }
    Ok(ExitCode::SUCCESS)
}

async fn names(environment: &Environment, interrupt: &Interrupt) -> Result<(), CliError> {
    let top = match here::repository(environment, interrupt).await {
        Ok(repository) => Some(repository.top),
        Err(ManageError::Repository(RepositoryError::NotARepository { .. })) => None,
        Err(error) => return Err(error.into()),
    };
    let home = &environment.home;
    let mut out = String::new();
    for purpose in Purpose::ALL {
        let name = match (&top, purpose.is_of_repository()) {
            (None, true) => continue,
            (top, _) => {
                let top = top.as_ref().map_or(Path::new("/"), |top| top.as_path());
                volumes::named(home, purpose, top)?
            }
        };
        out.push_str(&format!("{name}\n"));
    }
    output::data(&out)?;
    Ok(())
}

/// A volume, as scripts get it.
#[derive(Debug, Serialize)]
struct Told {
    name: VolumeName,
    repository: Option<String>,
    made: jiff::Timestamp,
    path: String,
    used_by: Vec<Slug>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
}

impl Told {
    fn of(volume: &Volume, environment: &Environment) -> Result<Self, CliError> {
        let users = volumes::users(&environment.home, &volume.name)?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Ok(Self {
            name: volume.name.clone(),
            repository: volume.repository.as_deref().map(text),
            made: volume.made,
            path: text(&volume.files()),
            used_by: users.into_iter().map(|record| record.name).collect(),
            bytes: None,
            files: None,
        })
    }

    fn users(&self) -> String {
        let names: Vec<&str> = self.used_by.iter().map(Slug::as_str).collect();
        if names.is_empty() {
            "-".to_owned()
        } else {
            names.join(", ")
        }
    }
}

fn list(as_json: bool, environment: &Environment) -> Result<(), CliError> {
    let all = volumes::list(&environment.home)?;
    let all = all.iter().map(|volume| Told::of(volume, environment));
    let all: Vec<Told> = all.collect::<Result<_, _>>()?;
    if as_json {
        output::data(&json::line(&all)?)?;
        return Ok(());
    }
    if all.is_empty() {
        output::note("no volumes; a dev sandbox makes those that it needs\n");
        return Ok(());
    }
    let rows = all.iter().map(|one| {
        let of = one.repository.clone().unwrap_or_else(|| "all".to_owned());
        vec![one.name.to_string(), one.users(), of]
    });
    let rows: Vec<_> = rows.collect();
    output::data(&table::render(&["VOLUME", "USED BY", "REPOSITORY"], &rows))?;
    Ok(())
}

fn inspect(name: &str, as_json: bool, environment: &Environment) -> Result<(), CliError> {
    let volume = find(name, environment)?;
    let size = volume.size()?;
    let mut told = Told::of(&volume, environment)?;
    (told.bytes, told.files) = (Some(size.bytes), Some(size.files));
    if as_json {
        output::data(&json::line(&told)?)?;
        return Ok(());
    }
    let repository = told.repository.as_deref().unwrap_or("all");
    let files = usize::try_from(size.files).unwrap_or(usize::MAX);
    output::data(&format!(
        "volume:      {}\nrepository:  {}\nmade:        {}\nholds:       {} in {}\nused by:     {}\npath:        {}\n",
        told.name,
        printable_line(repository),
        told.made,
        human::size(size.bytes),
        human::plural(files, "file"),
        told.users(),
        printable_line(&told.path),
    ))?;
    Ok(())
}

fn export(name: &str, file: Option<&Path>, environment: &Environment) -> Result<(), CliError> {
    let volume = find(name, environment)?;
    let Some(file) = file else {
        if stdout().is_terminal() {
            return Err(CliError::Misused {
                message: "an archive is nothing for a terminal".to_owned(),
                hint: format!(
                    "name a file: `cofferdam volume export {} FILE`",
                    volume.name
                ),
            });
        }
        let held = volume.export(stdout().lock())?;
        left_out(held.left_out);
        return Ok(());
    };
    let path = environment.directory.join(file);
    let failed = |error: FileError| {
        if error.link().is_some() {
            return CliError::File(error);
        }
        CliError::Failed {
            message: error.to_string(),
            hint: "name a file that is not there yet, in a directory that you may write".to_owned(),
        }
    };
    let place = Destination::find(&path).map_err(failed)?;
    // There may be logins in it.
    let mut to = place.create_new(0o600).map_err(failed)?;
    let written = volume.export(&to).and_then(|held| {
        let synced = to.flush().and_then(|()| to.sync_all());
        synced.map(|()| held).map_err(|source| VolumeError::Export {
            name: volume.name.clone(),
            source,
        })
    });
    let held = match written {
        Ok(held) => held,
        Err(error) => {
            // Half an archive is none.
            let _ = place.remove();
            return Err(error.into());
        }
    };
    left_out(held.left_out);
    let files = usize::try_from(held.size.files).unwrap_or(usize::MAX);
    output::note(&format!(
        "{} {} into {}: {} in {}\n",
        paint("exported:", style::GOOD, environment.colour.on_stderr()),
        volume.name,
        shell_word(&path),
        human::size(held.size.bytes),
        human::plural(files, "file")
    ));
    Ok(())
}

fn left_out(count: u64) {
    if count > 0 {
        output::note(&format!(
            "note: {count} of what is in it is not in the archive: sockets, pipes, files that are long and have nothing in them, or what was gone meanwhile\n"
        ));
    }
}

async fn remove(
    names: &[String],
    force: bool,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    // Of several all are there, or none goes.
    let found: Vec<Volume> = names
        .iter()
        .map(|name| find(name, environment))
        .collect::<Result<_, _>>()?;
    let caller = living::caller(environment, interrupt);
    let mut turns = Vec::new();
    for volume in &found {
        // Whoever brings a branch to a shelf is at work on it.
        let top = volume.repository.as_deref().map(RepoPath::resolve);
        let is_shelf = Purpose::Shelf.is_called(volume);
        if let Some(Ok(top)) = top
            && is_shelf
        {
            turns.push(dev::turn(&caller, &top).await?);
        }
        // One that a sandbox has stays for that.
        let is_used = !volumes::users(&environment.home, &volume.name)?.is_empty();
        if !force && !is_used && is_shelf {
            let held = only_there(&caller, volume).await;
            if !held.is_empty() {
                return Err(has_work(volume, &held));
            }
        }
    }
    for volume in found {
        let (home, name) = (environment.home.clone(), volume.name.clone());
        let removed = tokio::task::spawn_blocking(move || volumes::remove(&home, &name));
        tokio::select! {
            removed = removed => removed.map_err(|error| CliError::Runtime(error.into()))??,
            () = interrupt.cancel.cancelled() => {
                return Err(CliError::Interrupted {
                    code: interrupt.code().unwrap_or(130),
                });
            }
        }
        output::note(&format!(
            "{} {}\n",
            paint("removed:", style::GOOD, environment.colour.on_stderr()),
            volume.name
        ));
    }
    drop(turns);
    Ok(ExitCode::SUCCESS)
}

fn has_work(volume: &Volume, held: &[String]) -> CliError {
    let name = &volume.name;
    let (shown, rest) = held.split_at(held.len().min(SHOWN));
    let mut shown = shown.join(", ");
    if !rest.is_empty() {
        shown.push_str(&format!(" and {} more", rest.len()));
    }
    CliError::Failed {
        message: format!("{name} has what is nowhere else: {shown}"),
        hint: format!(
            "bring it home with `git push host BRANCH` in `cofferdam shell --branch BRANCH`, or keep it with `cofferdam volume export {name} {name}.tar`; \
             to lose it: `cofferdam volume remove --force {name}`"
        ),
    }
}

fn find(name: &str, environment: &Environment) -> Result<Volume, CliError> {
    let unknown = || CliError::Failed {
        message: format!("there is no volume `{}`", printable_line(name)),
        hint: "see which there are with `cofferdam volume list`".to_owned(),
    };
    let name: VolumeName = name.parse().map_err(|_| unknown())?;
    volumes::find(&environment.home, &name)?.ok_or_else(unknown)
}
