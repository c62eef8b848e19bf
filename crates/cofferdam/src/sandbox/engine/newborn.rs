//! A container from its making until its guest was met.

use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::client::Client;
use super::guest_file::GuestFile;
use super::profile::Body;
use super::rendezvous::Rendezvous;
use crate::sandbox::SandboxError;
use crate::sandbox::guest::{Process, start_error};

/// How often a container is looked at that does not come.
const LOOK: Duration = Duration::from_millis(500);

/// A container that is there, and is removed unless it is kept.
pub(super) struct Newborn<'a> {
    client: &'a Client,
    id: String,
    kept: bool,
}

impl<'a> Newborn<'a> {
    /// It gets the first of `names` that nobody has. Whoever gives up meanwhile leaves nothing: what the engine has begun it
    /// ends, and then it is removed.
    pub(super) async fn create(
        client: &'a Client,
        names: Vec<String>,
        body: Body,
    ) -> Result<Self, SandboxError> {
        let maker = client.clone();
        let making = Box::pin(async move { maker.create(&names, &body).await });
        Self::when_made(client, making).await
    }

    /// By [`Client::create_without_volumes`].
    pub(super) async fn create_without_volumes(
        client: &'a Client,
        body: serde_json::Value,
    ) -> Result<Self, SandboxError> {
        let maker = client.clone();
        let making = async move { maker.create_without_volumes(&body).await };
        Self::when_made(client, making).await
    }

    async fn when_made(
        client: &'a Client,
        making: impl Future<Output = Result<String, SandboxError>> + Send + 'static,
    ) -> Result<Self, SandboxError> {
        let (told, made) = oneshot::channel();
        let maker = client.clone();
        tokio::spawn(async move {
            let created = making.await;
            if let Err(Ok(id)) = told.send(created) {
                let _ = maker.remove(&id).await;
            }
        });
        let made = made.await;
        let id = made.map_err(|_| SandboxError::Start("its maker was stopped".to_owned()))??;
        Ok(Self {
            client,
            id,
            kept: false,
        })
    }

    /// One that somebody else has made.
    pub(super) fn existing(client: &'a Client, id: String) -> Self {
        Self {
            client,
            id,
            kept: false,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// It ends when its guest does: it has done what it was for, or it is a sandbox.
    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Newborn<'_> {
    fn drop(&mut self) {
        // Only where the future was dropped, or something failed.
        if !self.kept {
            let (client, id) = (self.client.clone(), std::mem::take(&mut self.id));
            tokio::spawn(async move { client.remove(&id).await });
        }
    }
}

/// Between two steps of an engine.
pub(super) fn go_on(cancel: &CancellationToken) -> Result<(), SandboxError> {
    if cancel.is_cancelled() {
        return Err(SandboxError::Cancelled);
    }
    Ok(())
}

/// The guest of this container, and no other: programs inside could find the way too, but none runs before it was met. `guest`: what its
/// process 1 has to run, because an image may have led the engine to another program.
pub(super) async fn meet(
    client: &Client,
    rendezvous: &Rendezvous,
    id: &str,
    guest: &GuestFile,
) -> Result<(UnixStream, Process), SandboxError> {
    let ended = || SandboxError::Start("its container ended before it was ready".to_owned());
    let stream = loop {
        match tokio::time::timeout(LOOK, rendezvous.accept()).await {
            Ok(met) => break met.map_err(start_error)?,
            Err(_) => match client.look(id).await? {
                Some(one) if one.process.is_some() => {}
                Some(one) => return Err(one.problem.map_or_else(ended, SandboxError::Start)),
                None => return Err(ended()),
            },
        }
    };
    let theirs = stream.peer_cred().map_err(start_error)?.pid();
    let process = Process::of(&stream)?;
    let container = client.look(id).await?.ok_or_else(ended)?;
    let somebody_else = || {
        let what = "somebody else came in its container's place";
        SandboxError::Start(what.to_owned())
    };
    let theirs = theirs.ok_or_else(somebody_else)?;
    if Some(i64::from(theirs)) != container.process {
        return Err(somebody_else());
    }
    // It has not gone meanwhile and left its number: `process` holds it.
    if guest.runs_in(theirs)? == Some(false) {
        return Err(somebody_else());
    }
    Ok((stream, process))
}

pub(super) fn short(id: &str) -> &str {
    &id[..8.min(id.len())]
}
