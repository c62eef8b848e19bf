//! Logins of agents in a sandbox in which a person lives: they find there what is kept, and what they or an agent's program made of it is
//! kept when they leave.

use std::sync::Arc;

use super::{Session, SessionError};
use crate::agent::{self, AGENTS, AgentOptions, AgentProvider};
use crate::session::login::{self, First, Login, LoginError};

/// Logins that programs inside have: the agents whose they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoginsTaken {
    /// None was kept for these before.
    pub first: Vec<String>,
    /// Those of these are not kept: their user has forgotten one ([`forget_login`](crate::session::forget_login)), and has given none
    /// since.
    pub forgotten: Vec<String>,
}

impl Session {
    /// Copies in the logins that are kept, where the sandbox has none or older ones.
    pub async fn give_logins(&self) -> Result<(), SessionError> {
        for agent in agents() {
            let (home, cancel) = (&self.caller.home, &self.caller.cancel);
            let given = match Login::kept(home, agent.as_ref()) {
                Ok(Some(login)) => login.give_where_older(self.sandbox(), cancel).await,
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            given.map_err(|source| self.no_login(source))?;
            let beside = login::give_beside(home, agent.as_ref(), self.sandbox(), cancel);
            beside.await.map_err(|source| self.no_login(source))?;
        }
        Ok(())
    }

    /// Keeps renewed logins, and the first one of an agent for which none is kept.
    pub async fn take_logins(&self) -> Result<LoginsTaken, SessionError> {
        let mut all = LoginsTaken::default();
        for agent in agents() {
            let (home, cancel) = (&self.caller.home, &self.caller.cancel);
            let (sandbox, nothing) = (self.sandbox(), std::collections::BTreeMap::new());
            let taken = match Login::kept(home, agent.as_ref()) {
                Ok(Some(login)) => login
                    .take_back(sandbox, &nothing, cancel)
                    .await
                    .map(|_| First::Nothing),
                Ok(None) => login::keep_first(home, agent.as_ref(), sandbox, cancel).await,
                Err(error) => Err(error),
            };
            let name = || agent.name().to_owned();
            match taken.map_err(|source| self.no_login(source))? {
                First::Nothing => {}
                First::Kept => all.first.push(name()),
                First::Forgotten => all.forgotten.push(name()),
            }
        }
        Ok(all)
    }

    fn no_login(&self, source: LoginError) -> SessionError {
        let name = self.name().to_string();
        SessionError::Login { name, source }
    }
}

/// Those whose programs keep a login in a file.
fn agents() -> impl Iterator<Item = Arc<dyn AgentProvider>> {
    let known = AGENTS
        .iter()
        .filter_map(|kind| agent::by_name(kind.name, AgentOptions::default()).ok());
    known.filter(|agent| agent.login().is_some())
}
