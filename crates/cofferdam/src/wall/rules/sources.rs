//! The sources, and their order.

use std::path::Path;
use std::sync::Arc;

use cofferdam_wall::{Rule, defaults};

use super::loaded::Loaded;
use crate::config::{self, Config};
use crate::home::Home;
use crate::names::{RepoPath, SandboxId};
use crate::wall::allowed::{self, Scope};

/// The places that together make one sandbox's rules. Read anew whenever a policy is made.
#[derive(Debug, Clone)]
pub struct Sources {
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
        base(&mut loaded, &self.home);
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

/// The config's list, or the built-in one where there is none.
fn base(loaded: &mut Loaded, home: &Home) {
    match config::load(home) {
        Ok(Config { allow: Some(found) }) => {
            let file: Arc<Path> = home.config().into();
            for one in found {
                loaded.push(one.rule, Some(&file), Some(one.line));
            }
        }
        Ok(Config { allow: None }) => match defaults::rules() {
            Ok(rules) => rules
                .into_iter()
                .for_each(|rule| loaded.push(rule, None, None)),
            Err(error) => loaded.problems.push(error.into()),
        },
        Err(error) => loaded.problems.push(error.into()),
    }
}
