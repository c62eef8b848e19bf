//! Which variables an agent gets: those that it declares, those of `.cofferdam/.env`, and what was given by name.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::envfile::{self, EnvFile, Withheld};
use super::options::RunOptions;
use super::report::RunErrorKind;
use crate::git::Repository;

/// The agent's declared names and those of `.cofferdam/.env`, then what the caller gave. Also what the
/// file wanted and did not get.
pub(super) async fn of_a_run(
    options: &RunOptions,
    repository: &Repository,
) -> Result<(BTreeMap<OsString, OsString>, Withheld), RunErrorKind> {
    let declared = options.agent.environment();
    let (file, mut withheld) = trusted(repository, &options.cancel).await?;
    let mut environment = file.resolve(&options.caller_environment, declared);
    environment.extend(options.environment.clone());
    // What the agent gets from the caller anyway, or was given by name, is no loss.
    let told = &options.environment;
    let unset = |name: &String| !environment.contains_key(OsStr::new(name));
    withheld
        .callers
        .retain(|name| unset(name) && !declared.contains(&name.as_str()));
    withheld
        .steering
        .retain(|name| !told.contains_key(OsStr::new(name)));
    Ok((environment, withheld))
}

/// What an agent that declares these names would have in a run in `repository` without options.
pub async fn variables(
    repository: &Repository,
    caller: &BTreeMap<OsString, OsString>,
    declared: &[&str],
    cancel: &CancellationToken,
) -> Result<BTreeMap<OsString, OsString>, RunErrorKind> {
    let (file, _) = trusted(repository, cancel).await?;
    Ok(file.resolve(caller, declared))
}

/// The file, and what it wanted and did not get: one that came with the repository gives literal values only, or
/// any repository could name the user's secrets, and none of those that say where secrets go.
async fn trusted(
    repository: &Repository,
    cancel: &CancellationToken,
) -> Result<(EnvFile, Withheld), RunErrorKind> {
    let mut file = EnvFile::read(repository.top.as_path())?;
    let mut withheld = Withheld::default();
    if file.needs_trust() && !is_the_users_own(repository, cancel).await? {
        withheld = file.distrust();
    }
    Ok((file, withheld))
}

/// Whether `.cofferdam/.env` is a plain file that git does not track. Behind a symlink, or with its
/// directory a submodule, the repository may have had a hand in it.
async fn is_the_users_own(
    repository: &Repository,
    cancel: &CancellationToken,
) -> Result<bool, RunErrorKind> {
    let path = Path::new(envfile::PATH);
    let plain = repository.top.as_path().join(path);
    if !plain.canonicalize().is_ok_and(|real| real == plain) {
        return Ok(false);
    }
    let parent = path.parent().unwrap_or(path);
    let tracked = repository
        .command_in_tree()
        .args(["ls-files", "-z", "--"])
        .args([parent, path])
        .run(cancel)
        .await?;
    let mut entries = tracked.stdout.split(|&byte| byte == 0);
    Ok(!entries.any(|entry| {
        let entry = Path::new(OsStr::from_bytes(entry));
        entry == parent || entry == path
    }))
}
