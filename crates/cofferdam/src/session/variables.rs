//! Which variables an agent gets: those that it declares, those of `.cofferdam/.env`, and what was given by name.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::envfile::{self, EnvFile, EnvFileError, NotTrusted, Withheld};
use super::located::{LocateError, Located};
use super::options::{Caller, RunOptions};
use crate::git::repository::RepositoryError;
use crate::git::{GitError, Repository, status};
use crate::names::RepoPath;
use crate::registry::RegistryError;

/// Why nobody can say which variables there are.
#[derive(Debug, thiserror::Error)]
pub enum VariablesError {
    /// `.cofferdam/.env` cannot be used.
    #[error(transparent)]
    EnvFile(#[from] EnvFileError),
    /// Git could not say whose file it is.
    #[error(transparent)]
    Git(#[from] GitError),
    /// What is known of sandboxes cannot be read.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The repository cannot be worked in.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
}

impl From<LocateError> for VariablesError {
    fn from(error: LocateError) -> Self {
        match error {
            LocateError::Registry(error) => Self::Registry(error),
            LocateError::Repository(error) => Self::Repository(error),
        }
    }
}

/// The agent's declared names and those of `.cofferdam/.env`, then what the caller gave. Also what the
/// file wanted and did not get.
pub(super) async fn of_a_run(
    options: &RunOptions,
    repository: &Repository,
) -> Result<(BTreeMap<OsString, OsString>, Withheld), VariablesError> {
    let declared = options.task.agent.environment();
    let (file, mut withheld) = trusted(repository, &options.caller.cancel).await?;
    let mut environment = configured(&options.caller, &repository.top).await;
    environment.extend(file.resolve(&options.caller.environment, declared));
    environment.extend(options.session.environment.clone());
    // What the agent gets from the caller anyway, or was given by name, is no loss.
    let told = &options.session.environment;
    let unset = |name: &String| !environment.contains_key(OsStr::new(name));
    withheld
        .callers
        .retain(|name| unset(name) && !declared.contains(&name.as_str()));
    withheld
        .steering
        .retain(|name| !told.contains_key(OsStr::new(name)));
    Ok((environment, withheld))
}

/// What a program that declares no names gets in a sandbox that was given these.
pub(super) async fn of_a_session(
    caller: &Caller,
    given: &BTreeMap<OsString, OsString>,
    located: &Located,
) -> Result<(BTreeMap<OsString, OsString>, Withheld), VariablesError> {
    let file = EnvFile::read(located.top().as_path())?;
    let (file, mut withheld) = if file.needs_trust() {
        as_trusted(file, located.repository(caller).await?, &caller.cancel).await?
    } else {
        (file, Withheld::default())
    };
    let mut environment = configured(caller, located.top()).await;
    environment.extend(file.resolve(&caller.environment, &[]));
    environment.extend(given.clone());
    let unset = |name: &String| !environment.contains_key(OsStr::new(name));
    withheld.callers.retain(unset);
    withheld.steering.retain(unset);
    Ok((environment, withheld))
}

/// Those of `env` in the configuration. What is wrong there is told when the sandbox is synced.
async fn configured(caller: &Caller, top: &RepoPath) -> BTreeMap<OsString, OsString> {
    let config = super::configured::effective(caller, top).await.config;
    crate::sync::variables(&config, &caller.environment)
}

/// What an agent that declares these names would have in a run in `repository` without options, and what the
/// file wanted and did not get.
pub async fn variables(
    repository: &Repository,
    caller: &BTreeMap<OsString, OsString>,
    declared: &[&str],
    cancel: &CancellationToken,
) -> Result<(BTreeMap<OsString, OsString>, Withheld), VariablesError> {
    let (file, withheld) = trusted(repository, cancel).await?;
    Ok((file.resolve(caller, declared), withheld))
}

/// Whether `git add` would take the file.
pub async fn env_file_is_exposed(
    repository: &Repository,
    cancel: &CancellationToken,
) -> Result<bool, VariablesError> {
    Ok(status::is_addable(repository, Path::new(envfile::PATH), cancel).await?)
}

/// The file, and what it wanted and did not get: one that came with the repository gives literal values only, or
/// any repository could name the user's secrets, and none of those that say where secrets go.
async fn trusted(
    repository: &Repository,
    cancel: &CancellationToken,
) -> Result<(EnvFile, Withheld), VariablesError> {
    let file = EnvFile::read(repository.top.as_path())?;
    as_trusted(file, repository, cancel).await
}

async fn as_trusted(
    mut file: EnvFile,
    repository: &Repository,
    cancel: &CancellationToken,
) -> Result<(EnvFile, Withheld), VariablesError> {
    if !file.needs_trust() {
        return Ok((file, Withheld::default()));
    }
    let withheld = match not_trusted(repository, cancel).await? {
        Some(why) => file.distrust(why),
        None => Withheld::default(),
    };
    Ok((file, withheld))
}

/// Why `.cofferdam/.env` may be the repository's; `None`: it is a plain file that git does not track. Behind a
/// symlink, or with its directory a submodule, the repository may have had a hand in it.
async fn not_trusted(
    repository: &Repository,
    cancel: &CancellationToken,
) -> Result<Option<NotTrusted>, VariablesError> {
    let path = Path::new(envfile::PATH);
    let plain = repository.top.as_path().join(path);
    let linked = !plain.canonicalize().is_ok_and(|real| real == plain);
    let parent = path.parent().unwrap_or(path);
    let tracked = status::in_index(repository, &[parent, path], cancel).await?;
    let has = |path: &Path| tracked.iter().any(|entry| entry == path);
    Ok(if linked || has(parent) {
        Some(NotTrusted::Linked)
    } else if has(path) {
        Some(NotTrusted::Tracked)
    } else {
        None
    })
}
