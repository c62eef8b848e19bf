//! `sandbox-create`.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cofferdam::names::Slug;
use cofferdam::registry;
use cofferdam::session::manage::ManageError;
use cofferdam::session::{Event, EventSink, HookPoint, PlanError, RunError, RunErrorKind, Session};
use cofferdam::text::{printable, printable_line};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::server::{Asked, Server};
use super::tool::{Call, Effect};
use crate::commands::{create, here, keep_ready};
use crate::error::CliError;
use crate::ui::table::fit;

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
    /// What the set-up printed that ran first
    setup: Option<String>,
    /// What is to be known of it
    notes: Vec<String>,
}

/// What is said while one is made.
#[derive(Debug, Default)]
struct Heard {
    setup: Option<String>,
    notes: Vec<String>,
}

/// Characters of what a set-up printed, its last ones, and so many notes.
const PRINTED: usize = 2000;
const NOTES: usize = 20;
/// Characters of a note.
const NOTE: usize = 1000;

impl Heard {
    fn hear(&mut self, event: &Event) {
        match event {
            Event::HookFinished {
                point: HookPoint::Setup,
                output,
                ..
            } => {
                let more = output.chars().count().saturating_sub(PRINTED);
                let last: String = output.chars().skip(more).collect();
                self.setup = Some(printable(&last));
            }
            Event::Notice(notice) if self.notes.len() < NOTES => {
                self.notes
                    .push(fit(&printable_line(&notice.to_string()), NOTE));
            }
            _ => {}
        }
    }
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
            committed(base, &server, &asked).await?;
        }
        not_there(&name, &server, &asked).await?;
        let options = create::unattended(&name, self.base, server.environment()).await?;
        let heard = Arc::new(Mutex::new(Heard::default()));
        let mut caller = server.caller(&asked);
        let hears = Arc::clone(&heard);
        caller.events = EventSink::new(move |event| lock(&hears).hear(event));
        let made = Box::pin(Session::create(&caller, &options)).await;
        let session = made.map_err(|error| explain(error, &name))?;
        let record = session.record();
        keep_ready::after_living(record);
        let Heard { setup, notes } = std::mem::take(&mut *lock(&heard));
        Ok(Made {
            name: record.name.to_string(),
            branch: record.branch_text(),
            base: record.base.to_string(),
            directory: session.workdir()?.to_string_lossy().into_owned(),
            provider: record.provider.clone(),
            image: record.image.clone(),
            network: create::network(record).to_owned(),
            setup,
            notes,
        })
    }
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is not on a branch, or was deleted, is nobody's to look at but the person's, whatever it is called: what is not there and what is
/// nobody's have one answer.
async fn committed(base: &str, server: &Server, asked: &Asked) -> Result<(), Failure> {
    let repository = here::repository(server.environment(), server.interrupt()).await;
    let repository = repository.map_err(CliError::from)?;
    let failed = |error| Failure::from(CliError::from(ManageError::from(error)));
    let found = repository.resolve(base, &asked.cancel).await;
    let is_in_sight = match found.map_err(failed)? {
        Some(commit) => {
            let in_sight = repository.is_in_sight(&commit, &asked.cancel).await;
            in_sight.map_err(failed)?
        }
        None => false,
    };
    if is_in_sight {
        return Ok(());
    }
    Err(Failure::new(
        format!(
            "`{}` is no branch, no tag and no commit of one",
            printable_line(base)
        ),
        "Leave `base` out, and it is what is checked out now.",
    ))
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
            format!(
                "{}: the setup of sandbox '{name}' failed: {}",
                create::SETUP_FAILED,
                error.kind
            ),
            format!(
                "The sandbox is kept as it is: `sandbox-exec` runs programs in it, to find out why. Tell the person you work for; they can \
                 set it up again with `cofferdam start {name}`, or end it with `cofferdam delete --force {name}`."
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
        if let Some(setup) = self.setup.as_ref().filter(|setup| !setup.is_empty()) {
            writeln!(f, "Its set-up printed:\n{}", setup.trim_end())?;
        }
        for note in &self.notes {
            writeln!(f, "[note: {note}]")?;
        }
        writeln!(
            f,
            "For the person you work for: `cofferdam diff {name}`, `cofferdam merge {name}`, `cofferdam delete {name}`."
        )
    }
}
