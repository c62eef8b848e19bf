//! `sandbox-create`.

use std::fmt;

use cofferdam::names::Slug;
use cofferdam::registry;
use cofferdam::session::manage::ManageError;
use cofferdam::session::{PlanError, RunError, RunErrorKind, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::server::{Asked, Server};
use super::tool::{Call, Effect};
use crate::commands::{create, here, keep_ready};
use crate::error::CliError;

/// Make a sandbox
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Create {
    /// What it is for, in a few words. It becomes its name: small letters, digits and dashes.
    name: String,
    /// The commit to begin with: a branch, a tag or an id. What is checked out now unless given.
    base: Option<String>,
}

/// What was made.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Made {
    /// By which the other tools know it
    name: String,
    /// Where each change is a commit
    branch: String,
    /// The commit that it began with
    base: String,
    /// The top of the repository inside, where programs start and from which relative paths go
    directory: String,
    /// Where it is: native, docker or podman
    provider: String,
    /// Of its container
    image: Option<String>,
    /// What it may reach: none, allowlist or open
    network: String,
}

impl Call for Create {
    const NAME: &'static str = "sandbox-create";
    const TITLE: &'static str = "Make a sandbox";
    const DESCRIPTION: &'static str = "Makes a sandbox with the files of a commit of this repository, and a branch for what is changed \
        in it. It stays until the person you work for deletes it. What they have not committed is not in it.";
    const EFFECT: Effect = Effect::Adds;
    type Told = Made;

    async fn call(self, server: Server, asked: Asked) -> Result<Made, Failure> {
        let name = Slug::sandbox_name(&self.name).map_err(|error| {
            Failure::new(
                error.to_string(),
                "Choose a short name of letters and digits, such as fix-17.",
            )
        })?;
        if let Some(base) = &self.base {
            committed(base)?;
        }
        not_there(&name, &server, &asked).await?;
        let options = create::unattended(&name, self.base, server.environment()).await?;
        let caller = server.caller(&asked);
        let made = Box::pin(Session::create(&caller, &options));
        let made = asked.patiently("making the sandbox", made).await;
        let session = made.map_err(|error| explain(error, &name))?;
        let record = session.record();
        keep_ready::after_living(record);
        Ok(Made {
            name: record.name.to_string(),
            branch: record.branch_text(),
            base: record.base.to_string(),
            directory: session.workdir()?.to_string_lossy().into_owned(),
            provider: record.provider.clone(),
            image: record.image.clone(),
            network: create::network(record).to_owned(),
        })
    }
}

/// What is not on a branch, or was deleted, is nobody's to look at but the person's.
fn committed(base: &str) -> Result<(), Failure> {
    let name = base.strip_prefix("refs/").unwrap_or(base);
    let is_hidden = ["stash", "cofferdam/"]
        .iter()
        .any(|place| base.starts_with("refs/") && name.starts_with(place));
    if is_hidden || base.contains("@{") || base == "stash" || base.starts_with("stash^") {
        return Err(Failure::new(
            format!("`{base}` is no branch, no tag and no id of a commit"),
            "Leave `base` out, and it is what is checked out now.",
        ));
    }
    Ok(())
}

/// A person who names a branch of theirs wants to go on with it. An agent that happens to hit one must not.
async fn not_there(name: &Slug, server: &Server, asked: &Asked) -> Result<(), Failure> {
    let repository = here::repository(server.environment(), server.interrupt()).await;
    let repository = repository.map_err(CliError::from)?;
    let branch = format!("refs/heads/cofferdam/{name}");
    let there = repository.resolve(&branch, &asked.cancel).await;
    if there
        .map_err(ManageError::from)
        .map_err(CliError::from)?
        .is_none()
    {
        return Ok(());
    }
    let taken = registry::find(&server.environment().home, &repository.top, name.as_str());
    if taken.is_ok() {
        // Whose it is, is said by who makes it.
        return Ok(());
    }
    Err(Failure::new(
        format!("the branch cofferdam/{name} is there already, and no sandbox is on it"),
        format!(
            "Choose another name. Or ask the person you work for whether it may go: `git branch -m cofferdam/{name} OTHER-NAME`."
        ),
    ))
}

fn explain(error: RunError, name: &Slug) -> Failure {
    match &error.kind {
        RunErrorKind::Plan(taken @ PlanError::NameTaken(_)) => Failure::new(
            taken.to_string(),
            "`sandbox-list` tells whose work is in it; go on in it with the other tools where it is yours.",
        ),
        RunErrorKind::Hook(_) if error.kept.lives_on => Failure::new(
            format!("the setup of sandbox '{name}' failed: {}", error.kind),
            format!(
                "The sandbox is kept as it is: `sandbox-exec` runs programs in it, to find out why. Tell the person you work for; they can \
                 end it with `cofferdam delete --force {name}`."
            ),
        ),
        _ => create::explain(error, name).into(),
    }
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, branch, .. } = self;
        writeln!(f, "Made the sandbox {name}, on the branch {branch}.")?;
        writeln!(
            f,
            "The repository is at {}; relative paths are below it.",
            self.directory
        )?;
        let network = match self.network.as_str() {
            "none" => "It has no network.",
            "allowlist" => "It reaches only what its rules allow; what is refused fails at once.",
            _ => "It reaches the network of this machine.",
        };
        writeln!(f, "{network}")?;
        writeln!(
            f,
            "For the person you work for: `cofferdam diff {name}`, `cofferdam merge {name}`, `cofferdam delete {name}`."
        )
    }
}
