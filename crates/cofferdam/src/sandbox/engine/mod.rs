//! Docker and Podman: sandboxes in containers, through the Engine API.
//!
//! Process 1 of a container is our guest, mounted from the host, and everything that is asked of a sandbox is asked of it
//! ([`guest`](super::guest)). Here is what is the engine's: where it is ([`find`]), what it is asked ([`client`]), what a container
//! is ([`profile`], [`mounts`]), how one comes up ([`make`]) and ends ([`life`]). docs/decisions/0013-engines.md.

mod about;
mod annotations;
mod as_root;
mod ask;
mod astray;
mod attached;
mod build;
mod client;
mod environment;
mod etc;
mod examine;
mod filter;
mod find;
mod guest_file;
mod holder;
mod holding;
mod image;
mod inside;
mod kind;
mod labels;
mod life;
mod make;
mod mounts;
mod named;
mod namespaces;
mod newborn;
mod places;
mod probe;
mod profile;
mod reach;
mod ready;
mod record;
mod rehearse;
mod rendezvous;
mod runtime;
mod shown;
mod unreachable;
mod users;
mod version;
mod whose;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

pub use about::Lack;
pub use build::{BuildError, BuildNetwork, Recipe};
pub use find::Surroundings;
pub use image::Image;
pub use kind::Kind;
pub use named::{Docker, Podman};
pub use probe::{Found, probe};

use reach::Reach;

use crate::names::{BASE_IMAGE, RepoPath};

use super::{
    Abilities, Ability, BindMountProvider, Examined, Handle, Limits, NetworkKind, Sandbox,
    SandboxError, SandboxSpec, limits,
};

/// How containers are made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EngineOptions {
    /// A directory of the caller's for what containers are given; made where it is missing, 0700.
    pub home: PathBuf,
    /// What of the caller's environment counts.
    pub around: Surroundings,
    /// Any image that the engine has. Nothing of ours has to be in it. Without one it is the first that is there: the
    /// repository's, [the base](crate::names::BASE_IMAGE), [`IMAGE`].
    pub image: Option<String>,
    /// Another runtime than the engine's own for the agent's container, by the name that the engine has it under.
    pub runtime: Option<String>,
    /// How long a sandbox may take to come up.
    pub ready_limit: Duration,
}

impl EngineOptions {
    /// `home` is Cofferdam's own directory; what is not said here is as its default says.
    pub fn new(home: impl Into<PathBuf>, around: Surroundings) -> Self {
        Self {
            home: home.into(),
            around,
            image: None,
            runtime: None,
            ready_limit: Duration::from_secs(60),
        }
    }
}

impl EngineOptions {
    /// Those that a sandbox may have, the first that is there before the others.
    fn images(&self, repository: Option<&RepoPath>) -> Vec<String> {
        if let Some(image) = &self.image {
            return vec![image.clone()];
        }
        let own = repository.map(RepoPath::image);
        let base = format!("{BASE_IMAGE}:latest");
        own.into_iter().chain([base, IMAGE.to_owned()]).collect()
    }
}

/// The image that is used where nobody names one and none of ours was built.
pub const IMAGE: &str = "debian:bookworm-slim";

const ABILITIES: [Ability; 8] = [
    Ability::Mount,
    Ability::Pause,
    Ability::Terminal,
    Ability::Outlive,
    Ability::Files,
    Ability::Ports,
    Ability::Layers,
    Ability::Root,
];

/// One engine as a provider. Cheap to clone; it connects when it is first needed.
#[derive(Debug, Clone)]
pub struct Engine {
    reach: Arc<Reach>,
    /// Whether there is anything that it could have made.
    began: bool,
}

impl Engine {
    /// Nothing is looked for or started yet.
    pub fn new(kind: Kind, options: EngineOptions) -> Self {
        Self {
            reach: Arc::new(Reach::new(kind, options, None)),
            began: true,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.reach.kind()
    }

    /// Has a part of the next sandbox with a wall wait for it, where the engine can and none does: that one then starts in about
    /// half the time. It waits for a quarter of an hour, as a process that sleeps. Bounded by what the engine takes.
    pub async fn keep_ready(&self) -> Result<(), SandboxError> {
        ready::keep(&self.reach).await
    }

    /// The engine that made a sandbox, whatever the caller's surroundings say now. `place`: the sandbox's
    /// [`SandboxSpec::place`].
    pub fn recorded(kind: Kind, place: &Path) -> Result<Self, SandboxError> {
        let read = record::read(kind, place)?;
        // Whoever made it came to its end before.
        let began = read.is_some();
        let (options, endpoint) = read.map_or_else(
            || (EngineOptions::new(place, Surroundings::default()), None),
            |(options, endpoint)| (options, Some(endpoint)),
        );
        Ok(Self {
            reach: Arc::new(Reach::new(kind, options, endpoint).at(place)),
            began,
        })
    }

    /// The command line of the engine that would make a sandbox's container, without making it: word by word. Behind a wall its network
    /// is that of another container, which has no name yet.
    pub async fn command(&self, spec: &SandboxSpec) -> Result<Vec<String>, SandboxError> {
        limits::check(&spec.limits)?;
        let client = self.reach.client().await?;
        let images = match &spec.image {
            Some(image) => vec![image.clone()],
            None => self.reach.options.images(spec.repository.as_ref()),
        };
        let image = client.first_image(&images).await?;
        make::show(&self.reach, client, &image, spec).await
    }

    /// The same of one that was made, as it was started last. `place`: its [`SandboxSpec::place`]. `None`: nothing was, or by an
    /// earlier build.
    pub fn command_of(place: &Path) -> Result<Option<Vec<String>>, SandboxError> {
        let made = record::whose(place)?.made;
        Ok(made
            .map(|made| made.command)
            .filter(|words| !words.is_empty()))
    }

    fn remember(
        &self,
        client: &client::Client,
        image: &str,
        spec: &SandboxSpec,
        place: &Path,
        made: Option<&record::Made>,
    ) -> Result<(), SandboxError> {
        let repository = spec.repository.as_ref().map(RepoPath::as_path);
        let options = &self.reach.options;
        record::write(place, &client.endpoint, options, image, repository, made)
    }
}

#[async_trait]
impl BindMountProvider for Engine {
    fn name(&self) -> &str {
        self.reach.kind().name()
    }

    fn check_limits(&self, limits: &Limits) -> Result<(), SandboxError> {
        limits::check(limits)?;
        let asked = self.reach.asked();
        asked.map_or(Ok(()), |client| client.is_known_to_limit(limits))
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            networks: &[NetworkKind::None, NetworkKind::Allowlist, NetworkKind::Open],
            // Whose the engine is says whether there are layers, and it is asked when they are tried.
            others: &ABILITIES,
        }
    }

    async fn check(&self, repository: &RepoPath) -> Result<Option<String>, SandboxError> {
        let (client, options) = (self.reach.client().await?, &self.reach.options);
        client.users()?;
        let images = options.images(Some(repository));
        let (here, image) = tokio::join!(client.can_have_sandboxes(), client.first_image(&images));
        let image = here.and(image)?;
        if let Some(runtime) = &options.runtime {
            runtime::check(client, runtime).await?;
        }
        Ok(Some(image.name))
    }

    async fn pinned(&self, image: &str) -> Result<Option<String>, SandboxError> {
        let found = self.reach.client().await?.find_image(image).await?;
        Ok(found.map(|found| found.id).filter(|id| !id.is_empty()))
    }

    async fn try_layers(
        &self,
        place: &Path,
        cancel: &CancellationToken,
    ) -> Result<(), SandboxError> {
        make::can_lay(self.reach.client().await?)?;
        rehearse::layers(&self.reach, place, cancel).await
    }

    async fn create(
        &self,
        spec: &SandboxSpec,
        cancel: &CancellationToken,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        limits::check(&spec.limits)?;
        let client = self.reach.client().await?;
        let options = &self.reach.options;
        let images = match &spec.image {
            Some(image) => vec![image.clone()],
            None => options.images(spec.repository.as_ref()),
        };
        let (here, image) = tokio::join!(client.can_have_sandboxes(), client.first_image(&images));
        let image = here.and(image)?;
        if let Some(place) = &spec.place {
            // The same one whenever it is started again.
            self.remember(client, &image.name, spec, place, None)?;
        }
        if let Some(runtime) = &options.runtime {
            runtime::check(client, runtime).await?;
        }
        let making = make::make(&self.reach, client, &image, spec, cancel);
        let (sandbox, made) = Box::pin(making).await?;
        if let Some(place) = &spec.place
            && let Err(error) = self.remember(client, &image.name, spec, place, Some(&made))
        {
            // Nothing runs of which is not known what it is.
            let _ = sandbox.close().await;
            return Err(error);
        }
        Ok(Arc::new(sandbox))
    }

    async fn open(&self, handle: &Handle) -> Result<Arc<dyn Sandbox>, SandboxError> {
        if !self.began {
            return Err(SandboxError::NotRunning);
        }
        Ok(Arc::new(life::open(&self.reach, handle).await?))
    }

    async fn examine(&self, handle: &Handle) -> Result<Vec<Examined>, SandboxError> {
        examine::examine(&self.reach, handle).await
    }

    async fn open_as_root(
        &self,
        handle: &Handle,
        files_of: (u32, u32),
    ) -> Result<Box<dyn Sandbox>, SandboxError> {
        let opened = as_root::open(&self.reach, handle, files_of);
        Ok(Box::new(Box::pin(opened).await?))
    }

    async fn remove(&self, handle: &Handle) -> Result<(), SandboxError> {
        if !self.began {
            return Ok(());
        }
        life::remove(&self.reach, handle).await
    }

    async fn let_go(&self, handle: &Handle) -> Result<Option<String>, SandboxError> {
        if !self.began {
            return Ok(None);
        }
        life::let_go(&self.reach, handle).await
    }
}
