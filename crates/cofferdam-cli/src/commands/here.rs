//! What a command means by where it was started: the repository there, one of its sandboxes, the rules that count.

use cofferdam::git::discovery::Start;
use cofferdam::git::{Repository, RepositoryError};
use cofferdam::registry;
use cofferdam::session::manage::{ManageError, Target};
use cofferdam::wall::rules::Sources;
use cofferdam::wall::sources_of;

use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;

/// The repository that the command works in.
pub(super) async fn repository(
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<Repository, ManageError> {
    let workspaces = registry::workspaces(&environment.home)?;
    let start = Start::find(&environment.directory, &workspaces)?;
    let found = Repository::discover(
        &environment.git,
        &start,
        environment.user_home.as_deref(),
        &interrupt.cancel,
    );
    Ok(found.await?)
}

/// Where the rules come from: of a sandbox, of this repository, or of no repository in particular.
pub(super) async fn sources(
    sandbox: Option<&str>,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<Sources, CliError> {
    let home = environment.home.clone();
    let found = match repository(environment, interrupt).await {
        Err(ManageError::Repository(RepositoryError::NotARepository { .. }))
            if sandbox.is_none() =>
        {
            None
        }
        found => Some(found?.top),
    };
    let (Some(name), Some(repository)) = (sandbox, &found) else {
        return Ok(Sources {
            home,
            repository: found,
            sandbox: None,
            flags: Vec::new(),
        });
    };
    let entry = registry::find(&home, repository, name).map_err(ManageError::from)?;
    sources_of(&home, &entry.record).ok_or_else(|| CliError::Failed {
        message: format!("sandbox `{}` has no rules", entry.record.name),
        hint: "it was started with `--network none` or `--network open`".to_owned(),
    })
}

/// The sandbox `name` of the repository that the command works in.
pub(super) fn target(name: String, environment: &Environment, interrupt: &Interrupt) -> Target {
    Target {
        home: environment.home.clone(),
        git: environment.git.clone(),
        repository: environment.directory.clone(),
        caller_home: environment.user_home.clone(),
        name,
        cancel: interrupt.cancel.clone(),
    }
}
