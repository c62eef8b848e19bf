//! `sandbox-ports`.

use std::fmt;
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::page::{self, Page};
use super::server::{Asked, Server};
use super::tool::{Call, Effect};

/// Ports of one answer, and about so many bytes each.
const MOST: usize = 200;
const BYTES: usize = 100;

/// Which ports servers in a sandbox listen on
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ports {
    /// The sandbox's name
    sandbox: String,
    /// Of so many of the first ones nothing is told: `next` of an answer that was cut
    offset: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Told {
    name: String,
    ports: Vec<u16>,
    /// The `offset` to ask with for what follows; nothing where this is the end
    next: Option<usize>,
}

impl Call for Ports {
    const NAME: &'static str = "sandbox-ports";
    const TITLE: &'static str = "List ports";
    const DESCRIPTION: &'static str = "Tells on which TCP ports servers in a sandbox listen, and how the person you work for reaches them.";
    const EFFECT: Effect = Effect::Reads;
    type Told = Told;

    async fn call(self, server: Server, asked: Asked) -> Result<Told, Failure> {
        let session = server.to_read(&self.sandbox, &asked).await?;
        let mut page = Page::new(self.offset, MOST);
        let mut ports = Vec::new();
        for port in session.listening().await? {
            match page.takes(BYTES) {
                ControlFlow::Continue(true) => ports.push(port),
                ControlFlow::Continue(false) => {}
                ControlFlow::Break(()) => break,
            }
        }
        Ok(Told {
            name: session.name().to_string(),
            ports,
            next: page.next(),
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
        f.write_str(&page::more(self.next))
    }
}
