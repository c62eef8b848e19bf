//! Which repository a call is about: the one that the server was started in, or one that the client names and the user's own
//! configuration lists. Never the one that a client happens to stand in.

use std::fmt;
use std::path::{Path, PathBuf};

use cofferdam::config::{self, Config};
use cofferdam::git::RepositoryError;
use cofferdam::session::manage::ManageError;
use cofferdam::text::printable_path;
use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::failure::{Failure, THEIRS};
use super::server::Server;
use crate::commands::here;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;

/// What each tool takes more where the client names the repository.
const NAME: &str = "repository";
const DESCRIPTION: &str = "The repository that the sandboxes are of: the absolute path of its top, or of a directory in it";

/// So many of those that may be named are told.
const MOST: usize = 20;

/// Whose sandboxes a server's tools are about.
#[derive(Debug, Clone)]
pub(super) enum Serves {
    One(Server),
    /// The one that it was started in, once that has a commit.
    Unborn(Box<Elsewhere>),
    /// Those of `mcp.repositories`, as it is when a tool is called.
    Listed(Box<Elsewhere>),
}

/// Where a server is started that knows no repository yet.
#[derive(Debug, Clone)]
pub(super) struct Elsewhere {
    environment: Environment,
    interrupt: Interrupt,
}

impl Elsewhere {
    fn new(environment: &Environment, interrupt: &Interrupt) -> Self {
        Self {
            environment: environment.clone(),
            interrupt: interrupt.clone(),
        }
    }

    /// Of the repository that this is in.
    async fn server(&self) -> Result<Server, Failure> {
        let found = here::repository(&self.environment, &self.interrupt).await;
        let found = found.map_err(CliError::from)?;
        Ok(Server::new(&self.environment, &self.interrupt, found.top))
    }
}

impl Serves {
    /// By where the server is started.
    pub(super) async fn here(
        environment: &Environment,
        interrupt: &Interrupt,
    ) -> Result<Self, CliError> {
        let not_here = match here::repository(environment, interrupt).await {
            Ok(found) => return Ok(Self::One(Server::new(environment, interrupt, found.top))),
            Err(ManageError::Repository(RepositoryError::Unborn { .. })) => {
                return Ok(Self::Unborn(Box::new(Elsewhere::new(
                    environment,
                    interrupt,
                ))));
            }
            Err(error @ ManageError::Repository(RepositoryError::NotARepository { .. })) => error,
            Err(error) => return Err(error.into()),
        };
        let own = own(environment)?;
        if own.mcp_repositories.is_empty() {
            return Err(CliError::Failed {
                message: not_here.to_string(),
                hint: "start it in a repository, or with `cofferdam -C DIR mcp`; or list in `mcp.repositories` of your config.yaml \
                       which ones clients may name"
                    .to_owned(),
            });
        }
        Ok(Self::Listed(Box::new(Elsewhere::new(
            environment,
            interrupt,
        ))))
    }

    /// What a tool takes, with the repository where that is to be named.
    pub(super) fn with_name(&self, schema: &JsonObject) -> JsonObject {
        let mut schema = schema.clone();
        if matches!(self, Self::One(_) | Self::Unborn(_)) {
            return schema;
        }
        let property = json!({"type": "string", "description": DESCRIPTION});
        let properties = schema.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.insert(NAME.to_owned(), property);
        }
        let required = schema.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            required.push(NAME.into());
        }
        schema
    }

    /// Whom a call is for; its name of a repository is taken out of its arguments.
    pub(super) async fn of(&self, arguments: &mut JsonObject) -> Result<Server, Failure> {
        let Elsewhere {
            environment,
            interrupt,
        } = match self {
            Self::One(server) => return Ok(server.clone()),
            Self::Unborn(elsewhere) => return elsewhere.server().await,
            Self::Listed(elsewhere) => elsewhere.as_ref(),
        };
        let listed = listed(environment)?;
        let Some(Value::String(named)) = arguments.remove(NAME) else {
            return Err(Failure::new(
                "`repository` is to be given: this server is of no repository in particular",
                format!(
                    "It is the absolute path of one of these, or of one in it: {}.",
                    in_words(&listed)
                ),
            ));
        };
        let unlisted = || {
            Failure::new(
                format!("the repository {named} is not among those that may be named"),
                format!(
                    "Those are: {}. {THEIRS}add its path to `mcp.repositories` in {}.",
                    in_words(&listed),
                    environment.home.config().display()
                ),
            )
        };
        // What is there, behind all links; nobody hears whether anything is anywhere else.
        let place = Path::new(&named);
        let place = if place.is_absolute() {
            place.canonicalize().ok()
        } else {
            None
        };
        let is_listed = |path: &Path| listed.iter().any(|one| path.starts_with(one));
        let place = place
            .filter(|place| is_listed(place))
            .ok_or_else(unlisted)?;
        let there = environment.at(place);
        let found = here::repository(&there, interrupt).await;
        let found = found.map_err(CliError::from)?;
        // A directory that leads to another repository is that one.
        let git = found.common_dir.canonicalize().ok();
        if !is_listed(found.top.as_path()) || !git.is_some_and(|git| is_listed(&git)) {
            return Err(unlisted());
        }
        let top = there.at(found.top.as_path().to_owned());
        Ok(Server::new(&top, interrupt, found.top))
    }
}

impl fmt::Display for Serves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(server) => f.write_str(&printable_path(server.top())),
            Self::Unborn(elsewhere) => {
                f.write_str(&printable_path(&elsewhere.environment.directory))
            }
            Self::Listed(_) => f.write_str("the repositories of `mcp.repositories`"),
        }
    }
}

/// The user's own configuration, as it is now.
fn own(environment: &Environment) -> Result<Config, CliError> {
    config::load(&environment.home).map_err(|error| CliError::Failed {
        message: error.to_string(),
        hint: "`cofferdam config check` says what is wrong with it".to_owned(),
    })
}

/// The first of them.
fn in_words(listed: &[PathBuf]) -> String {
    let first = listed.iter().take(MOST).map(|path| printable_path(path));
    let mut words: Vec<String> = first.collect();
    match listed.len().saturating_sub(MOST) {
        0 if listed.is_empty() => words.push("none that is there".to_owned()),
        0 => {}
        more => words.push(format!("{more} more")),
    }
    words.join(", ")
}

/// As they are now, behind all links.
fn listed(environment: &Environment) -> Result<Vec<PathBuf>, Failure> {
    let own = own(environment)?;
    let paths = own.mcp_repositories.iter().filter_map(|one| {
        let path = match (one.value.strip_prefix("~/"), &environment.user_home) {
            (Some(rest), Some(home)) => home.join(rest),
            (Some(_), None) => return None,
            (None, _) => PathBuf::from(&one.value),
        };
        path.canonicalize().ok()
    });
    Ok(paths.collect())
}
