//! `sandbox-list`.

use std::fmt;
use std::ops::ControlFlow;

use cofferdam::session::manage::State;
use cofferdam::session::{living, manage};
use cofferdam::text::printable_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::page::{self, Page};
use super::server::{Asked, Server};
use super::tool::{Call, Effect};
use crate::error::CliError;

/// Sandboxes of one answer, and bytes that tell of one more than its branch.
const MOST: usize = 500;
const AROUND: usize = 300;

/// The sandboxes of this repository
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// Of so many of the first ones nothing is told: `next` of an answer that was cut
    offset: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Listed {
    sandboxes: Vec<One>,
    /// The `offset` to ask with for what follows; nothing where this is the end
    next: Option<usize>,
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
    /// Programs that run in the background, by the ids that `sandbox-output` and `sandbox-kill` know
    programs: Vec<String>,
    /// Bytes that it has in memory
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
        let (mut page, mut sandboxes) = (Page::new(self.offset, MOST), Vec::new());
        for one in found {
            match page.takes(one.branch.len() + AROUND) {
                ControlFlow::Continue(true) => {}
                ControlFlow::Continue(false) => continue,
                ControlFlow::Break(()) => break,
            }
            let lives = matches!(one.state, State::Active | State::Paused);
            let running = if lives {
                living::running(home, one.id).unwrap_or_default()
            } else {
                Vec::new()
            };
            sandboxes.push(One {
                name: one.name.to_string(),
                state: one.state.to_string(),
                branch: printable_line(&one.branch),
                ahead: one.ahead,
                provider: one.provider,
                yours: one.owns_files && one.lives_on,
                programs: running.iter().map(ToString::to_string).collect(),
                memory: one.memory,
                created: one.created.to_string(),
            });
        }
        let next = page.next();
        Ok(Listed { sandboxes, next })
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sandboxes.is_empty() {
            return writeln!(f, "There are no sandboxes; `sandbox-create` makes one.");
        }
        for one in &self.sandboxes {
            let ahead = match one.ahead.unwrap_or(0) {
                1 => "1 commit".to_owned(),
                count => format!("{count} commits"),
            };
            write!(
                f,
                "{}: {}, {}, {ahead} ahead",
                one.name, one.state, one.branch
            )?;
            if !one.programs.is_empty() {
                write!(f, ", runs in the background: {}", one.programs.join(" "))?;
            }
            writeln!(f)?;
        }
        f.write_str(&page::more(self.next))
    }
}
