//! `sandbox-ports`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::server::{Asked, Server};
use super::tool::{Call, Effect};

/// Which ports servers in a sandbox listen on
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ports {
    /// The sandbox's name
    sandbox: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Told {
    name: String,
    ports: Vec<u16>,
}

impl Call for Ports {
    const NAME: &'static str = "sandbox-ports";
    const TITLE: &'static str = "List ports";
    const DESCRIPTION: &'static str = "Tells on which TCP ports servers in a sandbox listen, and how the person you work for reaches them.";
    const EFFECT: Effect = Effect::Reads;
    type Told = Told;

    async fn call(self, server: Server, asked: Asked) -> Result<Told, Failure> {
        let session = server.to_read(&self.sandbox, &asked).await?;
        Ok(Told {
            name: session.name().to_string(),
            ports: session.listening().await?,
        })
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        if self.ports.is_empty() {
            return writeln!(f, "[nothing in {name} listens on a TCP port]");
        }
        for port in &self.ports {
            writeln!(
                f,
                "{port}: for the person you work for, `cofferdam forward {name} {port}`"
            )?;
        }
        Ok(())
    }
}
