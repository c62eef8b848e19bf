//! The way to an engine, which is gone when something is first asked of it: who only speaks with a guest needs no engine.

use tokio::sync::OnceCell;

use super::client::Client;
use super::find::{self, Endpoint};
use super::{EngineOptions, Kind};
use crate::sandbox::SandboxError;

#[derive(Debug)]
pub(super) struct Reach {
    kind: Kind,
    pub(super) options: EngineOptions,
    /// Where a sandbox of it was made.
    endpoint: Option<Endpoint>,
    client: OnceCell<Client>,
}

impl Reach {
    /// `endpoint`: without one it is looked for.
    pub(super) fn new(kind: Kind, options: EngineOptions, endpoint: Option<Endpoint>) -> Self {
        Self {
            kind,
            options,
            endpoint,
            client: OnceCell::new(),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) async fn client(&self) -> Result<&Client, SandboxError> {
        let connect = async || {
            let endpoint = match &self.endpoint {
                Some(endpoint) => endpoint.clone(),
                None => find::endpoint(self.kind, &self.options.around)?,
            };
            Client::connect(endpoint).await
        };
        self.client.get_or_try_init(connect).await
    }
}
