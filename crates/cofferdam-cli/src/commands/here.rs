//! What a command means by where it was started: the repository there, one of its sandboxes, the rules that count.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cofferdam::git::discovery::Start;
use cofferdam::git::{Repository, RepositoryError};
use cofferdam::names::{RepoPath, SandboxId};
use cofferdam::registry;
use cofferdam::session::manage::{ManageError, SandboxRef};
use cofferdam::wall::rules::Sources;
use cofferdam::wall::sources_of;

use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;

/// No name of a sandbox has a slash, or is made of dots.
pub(super) fn is_path(text: &OsStr) -> bool {
    text.as_bytes().contains(&b'/') || text == "." || text == ".."
}

/// Whether it cannot be the name of a branch or of a sandbox.
pub(super) fn is_plainly_a_path(text: &str) -> bool {
    text == "."
        || text == ".."
        || ["/", "./", "../"]
            .iter()
            .any(|begin| text.starts_with(begin))
}

/// The repository that the command works in.
pub(super) async fn repository(
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<Repository, ManageError> {
    repository_at(&environment.directory, environment, interrupt).await
}

/// The repository that a directory is in.
pub(super) async fn repository_at(
    directory: &Path,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<Repository, ManageError> {
    let workspaces = registry::workspaces(&environment.home)?;
    let start = Start::find(directory, &workspaces)?;
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
    Ok(rules_of(name, repository, environment)?.1)
}

/// A sandbox of the repository, and where its rules come from.
pub(super) fn rules_of(
    name: &str,
    repository: &RepoPath,
    environment: &Environment,
) -> Result<(SandboxId, Sources), CliError> {
    let home = &environment.home;
    let record = registry::find(home, repository, name)
        .map_err(ManageError::from)?
        .record;
    match sources_of(home, &record) {
        Some(sources) => Ok((record.id, sources)),
        None => Err(CliError::Failed {
            message: format!("sandbox `{}` has no rules", record.name),
            hint: "it was started with `--network none` or `--network open`".to_owned(),
        }),
    }
}

/// The sandbox `name` of the repository that the command works in.
pub(super) fn target(name: String, environment: &Environment, interrupt: &Interrupt) -> SandboxRef {
    SandboxRef {
        home: environment.home.clone(),
        git: environment.git.clone(),
        repository: environment.directory.clone(),
        caller_home: environment.user_home.clone(),
        name,
        cancel: interrupt.cancel.clone(),
    }
}
