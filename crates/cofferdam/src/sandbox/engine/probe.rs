//! Which engines this machine has, for `cofferdam doctor`.

use std::path::PathBuf;

use super::client::Client;
use super::find::endpoint;
use super::{Kind, Surroundings};
use crate::sandbox::SandboxError;

/// An engine that answers, and can have sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub version: String,
    /// Of its API.
    pub api: (usize, usize),
    pub socket: PathBuf,
    /// What named the socket, where something did: a variable, a context.
    pub named_by: Option<String>,
    pub rootless: bool,
    /// What its sandboxes do without, one sentence fragment each.
    pub lacks: Vec<String>,
}

/// Looks for an engine and asks it. The error says what is wrong with it and what to do.
pub async fn probe(kind: Kind, around: &Surroundings) -> Result<Found, SandboxError> {
    let client = Client::connect(endpoint(kind, around)?)?;
    client.users()?;
    let about = client.about().await?;
    let mut lacks = Vec::new();
    // Rootless engines limit nothing without delegated control groups of version 2.
    if about.rootless && about.control_groups == Some(1) {
        lacks.push("limits of memory, CPUs and processes (control groups of version 1)".to_owned());
        lacks.push("its own freezer: sandboxes are paused by signals".to_owned());
    }
    let named_by = client.endpoint.from.name();
    Ok(Found {
        version: about.version,
        api: about.api,
        socket: client.endpoint.socket.clone(),
        named_by,
        rootless: about.rootless,
        lacks,
    })
}
