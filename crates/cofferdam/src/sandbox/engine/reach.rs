//! The way to an engine, which is gone when something is first asked of it: who only speaks with a guest needs no engine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::OnceCell;

use super::client::Client;
use super::find::{self, Endpoint};
use super::whose::Whose;
use super::{EngineOptions, Kind};
use crate::sandbox::{Handle, SandboxError};

/// The kernel answers at once.
const LISTENS: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Reach {
    kind: Kind,
    pub(super) options: EngineOptions,
    /// Where a sandbox of it was made.
    endpoint: Option<Endpoint>,
    /// Where what is known of that sandbox is; else in its state directory.
    place: Option<PathBuf>,
    client: OnceCell<Client>,
}

impl Reach {
    /// `endpoint`: without one it is looked for.
    pub(super) fn new(kind: Kind, options: EngineOptions, endpoint: Option<Endpoint>) -> Self {
        Self {
            kind,
            options,
            endpoint,
            place: None,
            client: OnceCell::new(),
        }
    }

    /// As [`Self::new`], of the sandbox that has this place.
    pub(super) fn at(self, place: &Path) -> Self {
        Self {
            place: Some(place.to_owned()),
            ..self
        }
    }

    /// Which containers are this sandbox's.
    pub(super) fn whose(&self, handle: &Handle) -> Result<Whose, SandboxError> {
        Whose::recorded(&self.options, handle.id, self.place(handle))
    }

    pub(super) fn place<'a>(&'a self, handle: &'a Handle) -> &'a Path {
        self.place.as_deref().unwrap_or(&handle.state)
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

    /// Where something was asked of it already.
    pub(super) fn asked(&self) -> Option<&Client> {
        self.client.get()
    }

    /// Whether somebody listens where the engine was, whatever they answer: it may be one again.
    pub(super) async fn is_listened_at(&self) -> bool {
        let Some(endpoint) = &self.endpoint else {
            return false;
        };
        let connecting = UnixStream::connect(&endpoint.socket);
        // Who has no room for one more listens.
        let connected = tokio::time::timeout(LISTENS, connecting).await;
        connected.map_or(true, |stream| stream.is_ok())
    }
}
