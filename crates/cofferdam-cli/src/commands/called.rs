//! What somebody means by a name that no sandbox has: a branch, or what the dev sandbox of one would be called.

use cofferdam::git::Repository;
use cofferdam::git::refs_at::RefsAt;
use cofferdam::names::BranchName;
use cofferdam::registry::{DevSandbox, RegistryError};
use cofferdam::session::{SessionError, dev};

use super::here;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::shell::branch_option;

/// Where branches are.
const HEADS: &str = "refs/heads/";

/// `error`, and what to give `command` where a dev sandbox is meant by `name`.
pub(super) async fn unknown(
    command: &str,
    name: &str,
    error: SessionError,
    environment: &Environment,
    interrupt: &Interrupt,
) -> CliError {
    // One that works on that branch is named by the error's own hint.
    let is_nobodys = matches!(
        error,
        SessionError::Registry(RegistryError::Unknown {
            on_branch: None,
            ..
        })
    );
    if !is_nobodys {
        return error.into();
    }
    let Ok(repository) = here::repository(environment, interrupt).await else {
        return error.into();
    };
    match meant(name, &repository, interrupt).await {
        Some(DevSandbox { branch: None }) => CliError::Failed {
            message: error.to_string(),
            hint: format!("the dev sandbox of this checkout is meant by `cofferdam {command}`"),
        },
        Some(DevSandbox { branch }) => CliError::Failed {
            message: error.to_string(),
            hint: format!(
                "the dev sandbox of that branch is meant by `cofferdam {command}{}`",
                branch_option(branch.as_ref())
            ),
        },
        None => error.into(),
    }
}

/// `None`: nobody knows.
async fn meant(name: &str, repository: &Repository, interrupt: &Interrupt) -> Option<DevSandbox> {
    let is_called = |of: &DevSandbox| dev::usual_name(of).is_ok_and(|usual| usual.as_str() == name);
    let of_checkout = DevSandbox::default();
    if is_called(&of_checkout) {
        return Some(of_checkout);
    }
    let heads = vec![HEADS.to_owned()];
    let refs = RefsAt::read(repository, heads, &interrupt.cancel)
        .await
        .ok()?;
    let branches = refs
        .below(HEADS)
        .filter_map(|(reference, _)| reference.strip_prefix(HEADS)?.parse::<BranchName>().ok());
    let all: Vec<DevSandbox> = branches
        .map(|branch| DevSandbox {
            branch: Some(branch),
        })
        .collect();
    let is_it = |of: &&DevSandbox| of.branch.as_ref().is_some_and(|one| one.as_str() == name);
    let mut found = all
        .iter()
        .filter(is_it)
        .chain(all.iter().filter(|of| is_called(of)));
    let found = found.next()?;
    // What is checked out has no working tree beside the checkout.
    let is_here = found.branch.as_ref() == repository.head.branch();
    Some(if is_here { of_checkout } else { found.clone() })
}
