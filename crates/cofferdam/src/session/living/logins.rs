//! Logins of agents in a sandbox in which a person lives: they find there what is kept, and what they or an agent's program made of it is
//! kept when they leave.

use std::sync::Arc;

use super::{Session, SessionError};
use crate::agent::{self, AGENTS, AgentOptions, AgentProvider};
use crate::session::login::{self, Login, LoginError};

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

    /// Keeps renewed logins, and the first one of an agent for which none is kept. Returns the agents whose first one it was.
    pub async fn take_logins(&self) -> Result<Vec<String>, SessionError> {
        let mut first = Vec::new();
        for agent in agents() {
            let (home, cancel) = (&self.caller.home, &self.caller.cancel);
            let (sandbox, nothing) = (self.sandbox(), std::collections::BTreeMap::new());
            let taken = match Login::kept(home, agent.as_ref()) {
                Ok(Some(login)) => login
                    .take_back(sandbox, &nothing, cancel)
                    .await
                    .map(|_| false),
                Ok(None) => login::keep_first(home, agent.as_ref(), sandbox, cancel).await,
                Err(error) => Err(error),
            };
            if taken.map_err(|source| self.no_login(source))? {
                first.push(agent.name().to_owned());
            }
        }
        Ok(first)
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
