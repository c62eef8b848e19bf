//! What a holder is made from, and its container: one that waits for a sandbox is made as one that has it.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::EngineOptions;
use super::client::Client;
use super::filter;
use super::guest_file::GuestFile;
use super::inside::Inside;
use super::mounts::Bind;
use super::newborn::{Newborn, go_on, short};
use super::profile::{self, Body};
use super::rendezvous::Rendezvous;
use crate::names::SandboxId;
use crate::sandbox::{Access, SandboxError};

/// The image with nothing in it. Its content never changes.
pub(super) const IMAGE: &str = "cofferdam-holder:1";

/// The name of every machine behind a wall of Docker's, because who joins a holder has its name, and one that waits knows no sandbox.
pub(super) const GENERIC: &str = "cofferdam";

/// What a holder is made from.
#[derive(Clone)]
pub(super) struct Holding<'a> {
    pub(super) client: &'a Client,
    pub(super) options: &'a EngineOptions,
    pub(super) id: SandboxId,
    /// A joined container shows its holder's.
    pub(super) hostname: &'a str,
    pub(super) labels: HashMap<String, String>,
    pub(super) guest: &'a GuestFile,
    /// A directory for the meeting, of its own.
    pub(super) meeting: &'a Path,
    /// For each step of its guest.
    pub(super) limit: Duration,
    pub(super) cancel: &'a CancellationToken,
}

/// A container with our guest alone, which meets its user in `meeting`. `waits`: until somebody is there.
pub(super) async fn container<'a>(
    of: &Holding<'a>,
    meeting: &Path,
    waits: bool,
) -> Result<Newborn<'a>, SandboxError> {
    let client = of.client;
    let image = client.empty_image(IMAGE).await?;
    let users = client.users()?;
    let inside = Inside::random()?;
    let read_only = Access::ReadOnly;
    let binds = [
        Bind::of(of.guest.path(), Path::new(&inside.guest()), read_only)?,
        Bind::of(meeting, Path::new(&inside.meeting()), read_only)?,
    ];
    let role = if waits { "hold-ready" } else { "hold" };
    let body: Body = profile::holder(
        (users, filter::option(client.kind(), users, of.options)?),
        &image,
        of.hostname,
        of.labels.clone(),
        &binds,
        [
            inside.guest(),
            role.to_owned(),
            Rendezvous::socket(&inside.meeting()),
        ],
    );
    let name = format!("cofferdam-holder-{}", short(&of.id.to_string()));
    let other = format!("cofferdam-holder-{}", of.id);
    go_on(of.cancel)?;
    Newborn::create(client, vec![name, other], body).await
}
