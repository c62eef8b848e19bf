//! Images of an engine: found, built and removed.
//!
//! A build's programs are root of their containers, with what an engine gives those, so their network is one behind our wall: the
//! namespace of a sandbox in which nothing runs.

use std::collections::BTreeMap;

use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use super::ask::{self, encoded};
use super::client::Client;
use super::holding::IMAGE as EMPTY;
use super::image::{Chosen, Image};
use super::inside::Inside;
use super::labels::{of_home, of_no_repository};
use super::make::{self, Up};
use super::places::{self, meeting, wall_meeting};
use super::rendezvous::Rendezvous;
use super::{Engine, Kind};
use crate::embedded;
use crate::fsx;
use crate::names::SandboxId;
use crate::sandbox::guest::GuestSandbox;
use crate::sandbox::{ExecRequest, Network, Sandbox, SandboxError, SandboxSpec};
use crate::text::{printable_line, without_colours};
use crate::wall::WallSpec;

/// What our guest's file may have, in bytes.
const LARGEST: u64 = 256 << 20;

/// What an image is built from.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Recipe {
    /// A tar archive with a `Dockerfile`: all that the build can read of this machine.
    pub context: Vec<u8>,
    /// `NAME:TAG`.
    pub name: String,
    /// The stage to build; without it the last one.
    pub target: Option<String>,
    /// Of the `ARG`s that the Dockerfile has.
    pub arguments: BTreeMap<String, String>,
    /// What it is marked with, by their names.
    pub labels: BTreeMap<String, String>,
    /// No step is taken from an earlier build.
    pub anew: bool,
}

/// Why an image was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The engine did not do its part.
    #[error(transparent)]
    Engine(#[from] SandboxError),
    /// In the engine's words: a step that failed, an image that cannot be had.
    #[error("the build failed: {0}")]
    Failed(String),
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
}

/// A network behind a wall, for the programs of a build.
#[derive(Debug)]
pub struct BuildNetwork {
    sandbox: GuestSandbox,
    /// As the engine takes it: a part of a query.
    choice: String,
    /// Who joins a network gets its files by their names.
    _files: Rendezvous,
}

impl BuildNetwork {
    /// Ends it.
    pub async fn close(self) -> Result<(), SandboxError> {
        self.sandbox.close().await
    }
}

impl Engine {
    /// None where the engine has none of that name.
    pub async fn image(&self, name: &str) -> Result<Option<Image>, SandboxError> {
        self.reach.client().await?.find_image(name).await
    }

    /// False where there is none of that name. One that a container uses stays, and is an error.
    pub async fn remove_image(&self, name: &str) -> Result<bool, SandboxError> {
        self.reach.client().await?.remove_image(name).await
    }

    /// Programs of a build reach what `wall` names, and nothing else. Tried by a step of a build: engines have taken what they did
    /// not understand for the machine's own network.
    pub async fn build_network(
        &self,
        wall: WallSpec,
        cancel: &CancellationToken,
    ) -> Result<BuildNetwork, SandboxError> {
        let client = self.reach.client().await?;
        client.can_have_sandboxes().await?;
        // What cannot be taken away now is by a later one.
        let _ = self.clear(client).await;
        let empty = Chosen::empty(client.empty_image(EMPTY).await?);
        let id = wall.sandbox;
        let hostname = format!("cofferdam-build-{}", id.short());
        let mut spec = SandboxSpec::new(id, wall.name.clone(), hostname, "/");
        spec.network = Network::Wall(Box::new(wall));
        let made = make::come_up(&self.reach, client, &empty, &spec, None, cancel);
        let Up {
            sandbox,
            rendezvous: files,
            inside,
            made,
        } = Box::pin(made).await?;
        let proven = async {
            let gone = || SandboxError::Start("its container is gone again".to_owned());
            let container = made.containers.first().ok_or_else(gone)?;
            let process = client
                .look(container)
                .await?
                .and_then(|found| found.process);
            let choice = network_choice(client.kind(), container, process.ok_or_else(gone)?);
            let guest = (&sandbox, &inside);
            self.prove(client, guest, &choice, id, cancel).await?;
            Ok(choice)
        };
        match proven.await {
            Ok(choice) => Ok(BuildNetwork {
                sandbox,
                choice,
                _files: files,
            }),
            Err(error) => {
                // Why there is no network counts, not how it went.
                let _ = sandbox.close().await;
                Err(error)
            }
        }
    }

    /// Of a build whose engine went away containers may be left that nobody will start: whoever made them is not there to meet them.
    async fn clear(&self, client: &Client) -> Result<(), SandboxError> {
        let options = &self.reach.options;
        let (name, value) = of_home(options);
        let places = places::real(options, [places::meetings(options)]);
        for one in client.listed(&[format!("{name}={value}")]).await? {
            let Some(id) = of_no_repository(&one.labels) else {
                continue;
            };
            let meetings = [meeting(options, &id), wall_meeting(options, &id)];
            if meetings.iter().any(|one| one.symlink_metadata().is_ok()) {
                continue;
            }
            let found = client.look(&one.id).await?;
            let ended = found.is_some_and(|one| one.process.is_none());
            if ended && client.meets_below(&one.id, &places).await? {
                client.remove(&one.id).await?;
            }
        }
        Ok(())
    }

    /// A step of a build has the sandbox's network.
    async fn prove(
        &self,
        client: &Client,
        (sandbox, inside): (&GuestSandbox, &Inside),
        choice: &str,
        id: SandboxId,
        cancel: &CancellationToken,
    ) -> Result<(), SandboxError> {
        let failed = |error: &dyn std::fmt::Display| SandboxError::Start(error.to_string());
        let mut run = sandbox
            .exec(ExecRequest::new([inside.guest().as_str(), "network"]))
            .await?;
        let mut ours = String::new();
        if let Some(said) = run.take_stderr() {
            let read = said.take(256).read_to_string(&mut ours).await;
            read.map_err(|error| failed(&error))?;
        }
        run.wait().await?;
        let guest =
            embedded::guest_file(&self.reach.options.home).map_err(|error| failed(&error))?;
        let guest = fsx::read_bounded(&guest, LARGEST).map_err(|error| failed(&error))?;
        let name = format!("cofferdam-network-{}:1", id.short());
        let dockerfile = "FROM scratch\nCOPY guest once /\nRUN [\"/guest\", \"network\"]\n";
        let mut archive = tar::Builder::new(Vec::new());
        let once = id.to_string();
        let files = [
            ("Dockerfile", dockerfile.as_bytes(), 0o644),
            ("guest", &guest, 0o755),
            // No engine has this step done already.
            ("once", once.as_bytes(), 0o644),
        ];
        for (path, bytes, mode) in files {
            let mut header = tar::Header::new_gnu();
            header.set_mode(mode);
            header.set_size(bytes.len() as u64);
            let packed = archive.append_data(&mut header, path, bytes);
            packed.map_err(|error| failed(&error))?;
        }
        let recipe = Recipe {
            context: archive.into_inner().map_err(|error| failed(&error))?,
            name: name.clone(),
            anew: true,
            ..Recipe::default()
        };
        let mut theirs = Vec::new();
        let said = |line: &str| {
            if line.starts_with("net:[") {
                theirs.push(line.to_owned());
            }
        };
        let tried = steps(client, recipe, choice, cancel, said).await;
        // It is there for nothing else.
        let _ = client.remove_image(&name).await;
        match tried {
            Err(BuildError::Engine(error)) => return Err(error),
            Err(BuildError::Cancelled) => return Err(SandboxError::Cancelled),
            Err(BuildError::Failed(reason)) => {
                return Err(SandboxError::Start(format!(
                    "{} cannot give a build its network: {reason}",
                    client.kind()
                )));
            }
            Ok(()) => {}
        }
        if ours.starts_with("net:[") && theirs == [ours.trim_end()] {
            return Ok(());
        }
        Err(SandboxError::Unsupported {
            what: format!(
                "{} gives the steps of a build another network than the one behind the wall",
                client.kind()
            ),
            hint: "use another version of it, or the other engine".to_owned(),
        })
    }

    /// `said` gets each line of the build as it comes, printable. Cancelled, the engine stops building.
    pub async fn build(
        &self,
        recipe: Recipe,
        network: &BuildNetwork,
        cancel: &CancellationToken,
        said: impl FnMut(&str) + Send,
    ) -> Result<Image, BuildError> {
        let client = self.reach.client().await?;
        let name = recipe.name.clone();
        let mut said = said;
        let again = recipe.clone();
        match steps(client, recipe, &network.choice, cancel, &mut said).await {
            // An engine looks through all images for a step that is done already, and fails where one of them is removed meanwhile.
            Err(BuildError::Failed(why)) if LOST.iter().any(|lost| why.contains(lost)) => {
                steps(client, again, &network.choice, cancel, said).await?;
            }
            built => built?,
        }
        let built = client.find_image(&name).await?;
        built.ok_or_else(|| {
            BuildError::Failed(format!("it ended, and {} has no such image", client.kind()))
        })
    }
}

/// What Docker (20.10) and Podman (4.3) say then.
const LOST: [&str; 2] = [
    "unable to find image \"sha256:",
    "checking if cached image exists from a previous build: ",
];

/// As an engine takes the network of a build's steps: that of a container, whose first process this is.
fn network_choice(kind: Kind, container: &str, process: i64) -> String {
    match kind {
        Kind::Docker => format!("networkmode=container%3A{container}"),
        // What it does not know is the machine's network to it (4.3).
        Kind::Podman => {
            let options = serde_json::json!([
                {"Name": "network", "Host": false, "Path": format!("/proc/{process}/ns/net")}
            ]);
            format!("nsoptions={}", encoded(&options.to_string()))
        }
    }
}

/// What an engine says of a step.
#[derive(Debug, Default, Deserialize)]
struct Step {
    stream: Option<String>,
    error: Option<String>,
    status: Option<String>,
    progress: Option<String>,
}

async fn steps(
    client: &Client,
    recipe: Recipe,
    network: &str,
    cancel: &CancellationToken,
    mut said: impl FnMut(&str),
) -> Result<(), BuildError> {
    let json = |map: &BTreeMap<String, String>| encoded(&serde_json::json!(map).to_string());
    let path = client.path(&format!(
        "/build?t={}&target={}&buildargs={}&labels={}&nocache={}&rm=1&forcerm=1&{network}",
        encoded(&recipe.name),
        encoded(recipe.target.as_deref().unwrap_or_default()),
        json(&recipe.arguments),
        json(&recipe.labels),
        u8::from(recipe.anew),
    ));
    let mut lines = Lines::default();
    let mut problem = None;
    let each = |line: &[u8]| {
        // What is no step says nothing.
        let step: Step = serde_json::from_slice(line).unwrap_or_default();
        if let Some(error) = step.error {
            lines.end(&mut said);
            problem.get_or_insert(error);
        }
        if let Some(text) = step.stream {
            lines.push(&text, &mut said);
        }
        if let (Some(status), None) = (step.status, step.progress) {
            lines.end(&mut said);
            lines.push(&format!("{status}\n"), &mut said);
        }
    };
    let posted = ask::post(&client.endpoint.socket, &path, recipe.context, each);
    let posted = tokio::select! {
        posted = posted => posted,
        () = cancel.cancelled() => return Err(BuildError::Cancelled),
    };
    lines.end(&mut said);
    let failed = |text: &str| BuildError::Failed(printable_line(&without_colours(text.trim())));
    if let Some(problem) = problem {
        return Err(failed(&problem));
    }
    posted.map_err(|error| failed(&format!("{}: {error}", client.kind())))
}

/// What comes in pieces, by the line.
#[derive(Debug, Default)]
struct Lines(String);

/// What is kept of a line that does not end, in bytes.
const LONGEST: usize = 4096;

impl Lines {
    fn push(&mut self, text: &str, said: &mut impl FnMut(&str)) {
        for piece in text.split_inclusive(['\n', '\r']) {
            let room = LONGEST.saturating_sub(self.0.len());
            self.0.extend(piece.chars().take(room));
            if piece.ends_with(['\n', '\r']) {
                self.end(said);
            }
        }
    }

    fn end(&mut self, said: &mut impl FnMut(&str)) {
        let line = std::mem::take(&mut self.0);
        let line = line.trim_end();
        if !line.is_empty() {
            said(&printable_line(&without_colours(line)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_pieces() {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        let mut said = |line: &str| seen.push(line.to_owned());
        for piece in [
            "Step 1",
            "/2 : FROM x\n --",
            "-> 1\n\n",
            "50%\r100%\r\n",
            "the \u{1b}[31mend",
        ] {
            lines.push(piece, &mut said);
        }
        lines.push(&"x".repeat(10_000), &mut said);
        lines.end(&mut said);
        assert_eq!(seen[..4], ["Step 1/2 : FROM x", " ---> 1", "50%", "100%"]);
        assert_eq!(seen[4], format!("the end{}", "x".repeat(LONGEST - 12)));
    }
}
