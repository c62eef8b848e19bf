//! `sandbox-kill`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changed::{self, Changed};
use super::failure::Failure;
use super::output;
use super::server::{Asked, Server};
use super::tool::{Call, Effect};

const TERM: i32 = 15;
const KILL: i32 = 9;

/// End a program that runs in the background
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Kill {
    /// The sandbox's name
    sandbox: String,
    /// The program, as `sandbox-exec` named it
    id: String,
    /// Whether it is not asked to end first (SIGTERM), but killed with all that it started (SIGKILL)
    #[serde(default)]
    force: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Told {
    /// Whether it had ended before
    had_ended: bool,
    /// What it had changed
    #[serde(flatten)]
    changed: Changed,
    /// Whether it could not but end.
    #[serde(skip)]
    forced: bool,
}

impl Call for Kill {
    const NAME: &'static str = "sandbox-kill";
    const TITLE: &'static str = "End a program";
    const DESCRIPTION: &'static str = "Ends a program that `sandbox-exec` left running in the background, and makes what it changed a commit.";
    const EFFECT: Effect = Effect::Changes;
    type Told = Told;

    async fn call(self, server: Server, asked: Asked) -> Result<Told, Failure> {
        let program = output::find(&server, &self.sandbox, &self.id, &asked).await?;
        let session = server.to_change(&self.sandbox, &asked).await?;
        let had_ended =
            output::exit(&program)?.is_some() || program.id.start != session.starts()?;
        if !had_ended {
            let signal = if self.force { KILL } else { TERM };
            session.signal(program.id.number, signal).await?;
        }
        let changed = changed::record(&session, Self::NAME).await;
        Ok(Told {
            had_ended,
            changed,
            forced: self.force,
        })
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.had_ended {
            f.write_str("It had ended already.\n")?;
        } else if self.forced {
            f.write_str("The signal was sent; `sandbox-output` tells how it ended.\n")?;
        } else {
            f.write_str(
                "The signal was sent; `sandbox-output` tells how it ended. If it goes on, `force` ends it.\n",
            )?;
        }
        self.changed.fmt(f)
    }
}
