//! Whether the agent has a key or a login, asked before anything is made.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::envfile::Withheld;
use super::event::Notice;
use super::options::RunOptions;
use super::plan::error::PlanError;
use crate::agent::Access;

/// An agent that cannot be let in does not start; one that perhaps can is told of.
pub(super) fn check(
    options: &RunOptions,
    top: &Path,
    environment: &BTreeMap<OsString, OsString>,
    withheld: &Withheld,
    logged_in: bool,
) -> Result<Option<Notice>, PlanError> {
    let agent = options.task.agent.as_ref();
    let notice = |keys: &'static [&'static str], why: &str| {
        Some(Notice::NoKey {
            agent: agent.name().to_owned(),
            variables: keys.iter().map(|&key| key.to_owned()).collect(),
            why: why.to_owned(),
        })
    };
    // Who gives one by name, an empty one too, has said that they know.
    let given = |keys: &[&str]| {
        let mut keys = keys.iter();
        keys.any(|key| options.session.environment.contains_key(OsStr::new(key)))
    };
    match agent.access(environment, logged_in) {
        Access::Unknown | Access::Login | Access::Variable(_) => Ok(None),
        Access::Perhaps { keys, .. } | Access::Missing { keys } if given(keys) => Ok(None),
        Access::Perhaps { keys, why } => Ok(notice(keys, why)),
        Access::Missing { keys } if !options.session.hooks.sandbox_ready.is_empty() => {
            Ok(notice(keys, "a hook in the sandbox may log it in"))
        }
        Access::Missing { keys } => Err(match withheld.key(keys) {
            Some((why, variable)) => PlanError::KeyWithheld {
                agent: agent.name().to_owned(),
                variable: variable.to_owned(),
                why,
                top: top.to_owned(),
            },
            None => PlanError::NoAccess {
                agent: agent.name().to_owned(),
                keys,
                login: agent.login().map(|login| login.path),
                program: agent
                    .program()
                    .map(|program| program.name.to_string_lossy().into_owned()),
            },
        }),
    }
}
