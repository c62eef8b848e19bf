//! `sandbox-list`.

use std::fmt;

use cofferdam::session::manage;
use cofferdam::text::printable_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::server::{Asked, Server};
use super::tool::{Call, Effect};
use crate::error::CliError;

/// The sandboxes of this repository
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct List {}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Listed {
    sandboxes: Vec<One>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct One {
    name: String,
    /// active, paused, stopped, creating, failed-setup, missing
    state: String,
    branch: String,
    /// How many commits its branch is ahead of what is checked out
    ahead: Option<u64>,
    /// native, docker or podman
    provider: String,
    /// Whether the tools change its files: a person may have made one that works in their checkout
    yours: bool,
    /// Bytes of memory that its programs use
    memory: Option<u64>,
    /// When it was made
    created: String,
}

impl Call for List {
    const NAME: &'static str = "sandbox-list";
    const TITLE: &'static str = "List sandboxes";
    const DESCRIPTION: &'static str =
        "Names the sandboxes of this repository, with their states and branches.";
    const EFFECT: Effect = Effect::Reads;
    type Told = Listed;

    async fn call(self, server: Server, asked: Asked) -> Result<Listed, Failure> {
        let environment = server.environment();
        let (home, user) = (&environment.home, environment.user_home.as_deref());
        let top = Some(environment.directory.as_path());
        let listed = manage::list(home, &environment.git, top, user, &asked.cancel).await;
        let mut found = listed.map_err(CliError::from)?;
        // Who does not answer is listed as silent.
        manage::ask(home, &mut found).await;
        let sandboxes = found.into_iter().map(|one| One {
            name: one.name.to_string(),
            state: one.state.to_string(),
            branch: printable_line(&one.branch),
            ahead: one.ahead,
            provider: one.provider,
            yours: one.owns_files && one.lives_on,
            memory: one.memory,
            created: one.created.to_string(),
        });
        Ok(Listed {
            sandboxes: sandboxes.collect(),
        })
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sandboxes.is_empty() {
            return writeln!(f, "There are no sandboxes; `sandbox-create` makes one.");
        }
        for one in &self.sandboxes {
            let ahead = one.ahead.unwrap_or(0);
            writeln!(
                f,
                "{}: {}, {}, {ahead} commits ahead",
                one.name, one.state, one.branch
            )?;
        }
        Ok(())
    }
}
