//! Which dev sandbox a command means, by what somebody names: a checkout, a sandbox, or nothing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cofferdam::names::Slug;
use cofferdam::session::living::Named;
use cofferdam::session::{Caller, SessionError};

use super::{Build, Places, Which};
use crate::commands::dev_sandboxes::of_checkout;
use crate::commands::here::{self, is_path, is_plainly_a_path};
use crate::commands::living;
use crate::commands::making::DevOptions;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::from_here::work_in;
use crate::ui::shell::shell_word;

/// What a command line means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::commands) enum Meant {
    /// Sandboxes, by their names.
    Named,
    /// The dev sandbox of the checkout that the command works in.
    Here,
    /// That of the checkout at this path.
    At(String),
}

impl Meant {
    pub(in crate::commands) fn path(&self) -> Option<&OsStr> {
        match self {
            Self::At(path) => Some(OsStr::new(path)),
            Self::Named | Self::Here => None,
        }
    }
}

/// Which of them it is.
pub(in crate::commands) fn meant(
    Places { names, which }: &Places,
    build: &Build,
    options: &DevOptions,
    command: &str,
) -> Result<Meant, CliError> {
    match &names[..] {
        [] => Ok(Meant::Here),
        [path] if is_path(OsStr::new(path)) => Ok(Meant::At(path.clone())),
        _ if which.branch.is_some() || build.build || options.are_given() => {
            Err(CliError::Misused {
                message:
                    "these options are for the dev sandbox of a checkout, and sandboxes are named"
                        .to_owned(),
                hint: format!(
                    "name no sandbox, or the path of a checkout: `cofferdam {command} .`"
                ),
            })
        }
        _ => Ok(Meant::Named),
    }
}

/// The surroundings of a command that names a path; `None` where it names none.
pub(in crate::commands) fn there(
    path: Option<&OsStr>,
    environment: &Environment,
) -> Result<Option<Environment>, CliError> {
    let Some(path) = path else { return Ok(None) };
    let there = environment.at(directory(path, environment)?);
    if there.top() != environment.top() {
        // What is said from here on names commands as they are given here.
        work_in(&there.directory);
    }
    Ok(Some(there))
}

/// A sandbox by its name, or where a path is named the dev sandbox of the checkout there, by its name too, with the surroundings in
/// which that is its name.
pub(in crate::commands) async fn by_path(
    name: String,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<(String, Option<Environment>), CliError> {
    // A branch has slashes too, and names its sandbox, whatever lies at that path.
    if !is_plainly_a_path(&name) {
        return Ok((name, None));
    }
    let there = environment.at(directory(OsStr::new(&name), environment)?);
    if there.top() != environment.top() {
        work_in(&there.directory);
    }
    let caller = living::caller(&there, interrupt);
    let named = Named::dev(&caller, &there.directory, None).await?;
    Ok((named.name().to_string(), Some(there)))
}

/// The sandboxes of a command that does something with those that are there, in `environment` ([`there`]).
pub(in crate::commands) async fn sandboxes(
    places: &Places,
    (meant, command): (&Meant, &str),
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<living::Sandboxes, CliError> {
    if *meant == Meant::Named {
        let names = places.names.clone();
        return Ok(living::Sandboxes { names });
    }
    let caller = living::caller(environment, interrupt);
    let branch = places.which.branch.as_ref();
    let named = match Named::dev(&caller, &environment.directory, branch).await {
        Err(error @ SessionError::NoDev { .. }) if branch.is_none() => {
            let repository = here::repository(environment, interrupt).await?;
            let all = of_checkout(&caller.home, &repository.top)?;
            let names: Vec<Slug> = all.into_iter().map(|record| record.name).collect();
            return Err(match are_here(&names, command) {
                Some(hint) => CliError::Failed {
                    message: error.to_string(),
                    hint,
                },
                None => error.into(),
            });
        }
        named => named?,
    };
    let names = vec![named.id().to_string()];
    Ok(living::Sandboxes { names })
}

/// Which is meant where nobody says.
#[derive(Debug)]
pub(in crate::commands) enum Unsaid {
    /// That of what is checked out, else the only one that there is.
    One(Which),
    /// Any of these, which are of branches; there may be none.
    Any(Vec<Slug>),
}

/// By what there is in the checkout.
pub(in crate::commands) async fn unsaid(
    caller: &Caller,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<Unsaid, CliError> {
    let repository = here::repository(environment, interrupt).await?;
    let all = of_checkout(&caller.home, &repository.top)?;
    if all.iter().any(|record| record.shelf_branch().is_none()) {
        return Ok(Unsaid::One(Which::default()));
    }
    if let [one] = &all[..] {
        let branch = one.shelf_branch().cloned();
        return Ok(Unsaid::One(Which { branch }));
    }
    let names = all.into_iter().map(|record| record.name);
    Ok(Unsaid::Any(names.collect()))
}

/// That these are there, with what means the first of them to a command. `None`: there are none.
pub(in crate::commands) fn are_here(names: &[Slug], command: &str) -> Option<String> {
    let first = names.first()?;
    let all: Vec<&str> = names.iter().map(Slug::as_str).collect();
    let all = match &all[..] {
        [before @ .., last] if !before.is_empty() => {
            format!("{} and {last} are", before.join(", "))
        }
        _ => format!("{first} is"),
    };
    Some(format!("{all} here: `cofferdam {command} {first}`"))
}

/// A directory that somebody names.
pub(in crate::commands) fn directory(
    path: &OsStr,
    environment: &Environment,
) -> Result<PathBuf, CliError> {
    let path = environment.directory.join(Path::new(path));
    let refused = |why: String| CliError::Failed {
        message: format!("{}: {why}", shell_word(&path)),
        hint: "name a directory of a repository, or a sandbox".to_owned(),
    };
    let found = std::fs::canonicalize(&path).map_err(|error| refused(error.to_string()))?;
    if found.is_dir() {
        Ok(found)
    } else {
        Err(refused("it is no directory".to_owned()))
    }
}
