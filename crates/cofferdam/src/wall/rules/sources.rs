//! The sources, and their order.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cofferdam_wall::{Rule, defaults};

use super::loaded::Loaded;
use super::problem::Problem;
use crate::config::{self, Config, approvals};
use crate::home::Home;
use crate::names::{RepoPath, SandboxId};
use crate::wall::allowed::{self, Scope};

/// The places that together make one sandbox's rules. Read anew whenever a policy is made.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Cofferdam's own directory.
    pub home: Home,
    /// Whose `allow --repo` rules count.
    pub repository: Option<RepoPath>,
    /// Whose `allow --sandbox` rules count.
    pub sandbox: Option<SandboxId>,
    /// From the command that started the sandbox.
    pub flags: Vec<Rule>,
}

impl Sources {
    /// Reads all sources. What is malformed is left out and named; a config that cannot be read
    /// contributes nothing, and the built-in list does not step in for it.
    pub fn load(&self) -> Loaded {
        let mut loaded = Loaded::default();
        base(&mut loaded, &self.home, self.repository.as_ref());
        let scopes = [
            Some(Scope::Global),
            self.repository.clone().map(Scope::Repository),
            self.sandbox.map(Scope::Sandbox),
        ];
        for scope in scopes.into_iter().flatten() {
            allowed::read_into(&mut loaded, &self.home, &scope);
        }
        for rule in &self.flags {
            loaded.push(rule.clone(), None, None);
        }
        loaded.settle();
        loaded
    }
}

/// The config's list, or the built-in one where there is none; and what of the repository's own was approved.
fn base(loaded: &mut Loaded, home: &Home, repository: Option<&RepoPath>) {
    let own = match config::load(home) {
        Ok(own) => own,
        Err(error) => {
            loaded.problems.push(error.into());
            // What the repository adds counts all the same: it was approved by itself.
            return of_repository(loaded, home, &Config::default(), repository);
        }
    };
    match &own.allow {
        Some(found) => {
            let file: Arc<Path> = home.config().into();
            for one in found {
                loaded.push(one.rule.clone(), Some(&file), Some(one.line));
            }
        }
        None => match defaults::rules() {
            Ok(rules) => rules
                .into_iter()
                .for_each(|rule| loaded.push(rule, None, None)),
            Err(error) => loaded.problems.push(error.into()),
        },
    }
    of_repository(loaded, home, &own, repository);
}

fn of_repository(loaded: &mut Loaded, home: &Home, own: &Config, repository: Option<&RepoPath>) {
    let Some(repository) = repository else {
        return;
    };
    let top = repository.as_path();
    let found = match config::load_repository(top) {
        Ok(found) if found.allow.is_some() => found,
        Ok(_) => return,
        Err(error) => return loaded.problems.push(Problem::OfRepository(error)),
    };
    let approved = match approvals::of(home, repository) {
        Ok(approved) => approved,
        Err(error) => return loaded.problems.push(error.into()),
    };
    let file: Arc<Path> = config::path_in(top).into();
    for one in config::sift(found, own, &approved, &|_| BTreeMap::new())
        .granted
        .allow
        .into_iter()
        .flatten()
    {
        loaded.push(one.rule, Some(&file), Some(one.line));
    }
}
