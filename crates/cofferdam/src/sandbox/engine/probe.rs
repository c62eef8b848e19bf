//! Which engines this machine has, for `cofferdam doctor`.

use std::path::PathBuf;

use super::about::Lack;
use super::client::Client;
use super::find::endpoint;
use super::{Kind, Surroundings, make};
use crate::sandbox::SandboxError;

/// An engine that answers, and can have sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it says of itself.
    pub version: String,
    /// Of its API.
    pub api: (usize, usize),
    /// Where it answers.
    pub socket: PathBuf,
    /// What named the socket, where something did: a variable, a context.
    pub named_by: Option<String>,
    /// Whether it is its user's own.
    pub rootless: bool,
    /// Why sandboxes of the caller's have no layers there, where they have none.
    pub no_layers: Option<String>,
    /// What its sandboxes do without.
    pub lacks: Vec<Lack>,
    /// What else is worth to know, one sentence fragment each.
    pub notes: Vec<String>,
}

/// Looks for an engine and asks it. The error says what is wrong with it and what to do.
pub async fn probe(kind: Kind, around: &Surroundings) -> Result<Found, SandboxError> {
    let client = Client::connect(endpoint(kind, around)?).await?;
    let users = client.users()?;
    client.can_have_sandboxes().await?;
    let (about, greeting) = (client.about().await?, client.greeting());
    Ok(Found {
        version: greeting.version.clone().unwrap_or_default(),
        api: greeting.api,
        socket: client.endpoint.socket.clone(),
        named_by: client.endpoint.from.name(),
        rootless: users.rootless(),
        no_layers: make::can_lay(&client).err().map(|why| why.to_string()),
        lacks: about.lacks(kind, users),
        notes: about.notes(),
    })
}
