//! Talking to an engine: what is asked of its API, and what its answers mean for users. Only this file, [`super::version`] and
//! [`super::profile`] name `bollard`.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bollard::Docker as Api;
use bollard::errors::Error as ApiError;
use bollard::models::ImageInspect;
use bollard::query_parameters::{
    CreateContainerOptions, CreateImageOptions, RemoveContainerOptions, RemoveImageOptions,
    StartContainerOptions,
};
use futures_util::StreamExt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use super::Kind;
use super::about::About;
use super::annotations::{self, Annotated};
use super::ask::{self, Way};
use super::find::Endpoint;
use super::image::{Chosen, Image};
use super::labels::{HOLDER, ROLE};
use super::profile::Body;
use super::unreachable::{unanswered, unreachable};
use super::users::Users;
use super::version::{self, Greeting, Version};
use crate::sandbox::{Limits, SandboxError, limits};
use crate::text::hex;

/// How long an engine may take for one answer, in seconds. Making a container on a machine that is busy takes seconds.
const ANSWER: u64 = 60;
/// Podman's own questions. By Docker's it gives no list at all for good where one container that matches is half removed: one that
/// ended while another one joined it has no files any more, and stays until that other one is removed (4.3). Its own list has both,
/// but waits for whatever Podman is at with each of them.
const LIBPOD: &str = "/v4.0.0/libpod";
const MOVED: u16 = 301;
const BAD_REQUEST: u16 = 400;
const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;

/// An engine that answers.
#[derive(Debug, Clone)]
pub(super) struct Client {
    api: Api,
    /// In which version of its API it is asked.
    version: Version,
    greeting: Arc<Greeting>,
    about: Arc<OnceCell<About>>,
    pub(super) endpoint: Endpoint,
    /// Whose it is, and who began to listen there: the kernel's word.
    owner: u32,
    process: rustix::process::Pid,
}

/// A container of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Container {
    /// Its first process, as the host numbers it; none where it does not run.
    pub(super) process: Option<i64>,
    pub(super) problem: Option<String>,
    /// By the engine's own pause.
    pub(super) paused: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Listed {
    #[serde(rename = "Id")]
    pub(super) id: String,
    #[serde(rename = "Labels", default, deserialize_with = "or_none")]
    pub(super) labels: HashMap<String, String>,
}

/// Podman has `null` where there is none.
fn or_none<'de, D: Deserializer<'de>>(from: D) -> Result<HashMap<String, String>, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

#[derive(Debug, Deserialize)]
struct Inspected {
    #[serde(rename = "State")]
    state: State,
}

/// What is mounted in a container.
#[derive(Debug, Deserialize)]
struct Mounted {
    #[serde(rename = "Mounts", default)]
    mounts: Vec<Source>,
}

#[derive(Debug, Deserialize)]
struct Source {
    #[serde(rename = "Source")]
    source: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct State {
    #[serde(rename = "Pid", default)]
    pid: i64,
    #[serde(rename = "Error", default)]
    error: String,
    #[serde(rename = "Paused", default)]
    paused: bool,
}

impl Client {
    /// Sees whether the caller may use it, and agrees with it on a version of its API. Refuses one that is too old.
    pub(super) async fn connect(endpoint: Endpoint) -> Result<Self, SandboxError> {
        // By hand first: the library tells neither why it could not connect nor where.
        let stream = UnixStream::connect(&endpoint.socket)
            .map_err(|error| unreachable(&endpoint, &error))?;
        let owner = rustix::net::sockopt::socket_peercred(&stream)
            .map_err(|errno| unreachable(&endpoint, &errno.into()))?;
        let greeting = ask::greet(&endpoint.socket).await;
        let greeting = greeting.map_err(|error| unanswered(&endpoint, &error))?;
        let floor = if version::is_beyond(greeting.api) {
            floor(&endpoint).await?
        } else {
            None
        };
        let version = version::agreed(endpoint.kind, &greeting, floor)?;
        let socket = endpoint.socket.to_string_lossy();
        let api = Api::connect_with_unix(&socket, ANSWER, &version::of_client(version))
            .map_err(|error| unanswered(&endpoint, &error))?;
        Ok(Self {
            api: version::said_by(api, version),
            version,
            greeting: Arc::new(greeting),
            about: Arc::default(),
            endpoint,
            owner: owner.uid.as_raw(),
            process: owner.pid,
        })
    }

    /// Whose it is. Refuses one with which a sandbox could not be kept apart.
    pub(super) fn users(&self) -> Result<Users, SandboxError> {
        let (kind, owner) = (self.kind(), self.owner);
        if owner == 0 {
            return Ok(Users::Machine);
        }
        let place = self.endpoint.socket.display();
        if owner != rustix::process::geteuid().as_raw() {
            return Err(SandboxError::Unsupported {
                what: format!("{kind} at {place} is user {owner}'s, and not yours"),
                hint: format!("use one of yours, or be user {owner}"),
            });
        }
        Ok(match kind {
            Kind::Docker => Users::Mapped,
            Kind::Podman => Users::Kept,
        })
    }

    /// Who began to listen at its socket.
    pub(super) fn process(&self) -> rustix::process::Pid {
        self.process
    }

    pub(super) fn kind(&self) -> Kind {
        self.endpoint.kind
    }

    /// What it said first.
    pub(super) fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// What it says of itself: asked once, and not before somebody wants to know, because Podman takes its time.
    pub(super) async fn about(&self) -> Result<&About, SandboxError> {
        let ask = async || {
            let path = self.path("/info");
            let about = ask::get::<About>(&self.endpoint.socket, &path).await;
            let about = about.map_err(|error| unanswered(&self.endpoint, &error))?;
            about.ok_or_else(|| unanswered(&self.endpoint, &"it does not say what it is"))
        };
        self.about.get_or_try_init(ask).await
    }

    /// Refuses an engine whose containers run on another machine, or without a filter.
    pub(super) async fn can_have_sandboxes(&self) -> Result<(), SandboxError> {
        let ours = rustix::system::uname();
        let ours = ours.release().to_string_lossy();
        let about = self.about().await?;
        about.is_on(&ours, self.kind())?;
        about.keeps_users(self.kind())?;
        about.filters(self.kind(), self.users()?)
    }

    /// What it is, and in which version of its API it is asked.
    pub(super) fn spoken(&self) -> (Kind, Version) {
        (self.kind(), self.version)
    }

    /// Refuses a directory of the engine's own.
    pub(super) async fn may_have(&self, directory: &Path) -> Result<(), SandboxError> {
        self.about().await?.is_elsewhere(directory, self.kind())
    }

    /// Refuses limits that it would drop.
    pub(super) async fn can_limit(&self, limits: &Limits) -> Result<(), SandboxError> {
        self.about().await?;
        self.is_known_to_limit(limits)
    }

    /// The same without asking it: where it has not said yet what it is, nothing is refused.
    pub(super) fn is_known_to_limit(&self, limits: &Limits) -> Result<(), SandboxError> {
        let Some(about) = self.about.get() else {
            return Ok(());
        };
        about.can_limit(limits, self.kind(), self.users()?, limits::has_swap())
    }

    /// Where something is asked of it.
    pub(super) fn path(&self, rest: &str) -> String {
        version::path(self.version, rest)
    }

    /// The first of these images that is there.
    pub(super) async fn first_image(&self, names: &[String]) -> Result<Chosen, SandboxError> {
        for name in names {
            if let Some(found) = self.inspect_image(name).await? {
                let config = found.config.unwrap_or_default();
                return Ok(Chosen {
                    name: name.clone(),
                    id: found.id.or_else(|| Some(name.clone())),
                    variables: config.env.unwrap_or_default(),
                    volumes: config.volumes.unwrap_or_default(),
                });
            }
        }
        let kind = self.kind();
        let last = names.last().map_or("", String::as_str);
        Err(SandboxError::Unsupported {
            what: format!("{kind} has no image `{last}`"),
            hint: match last {
                // Nobody named it.
                super::IMAGE if names.len() > 1 => format!(
                    "build one with all tools with `cofferdam build-base --sandbox {}`, or get this one with `{} pull {last}`, \
                     or name another with `--image`",
                    kind.name(),
                    kind.name()
                ),
                _ if is_of_ours(last) => {
                    format!(
                        "build it with `cofferdam build-base --sandbox {}`",
                        kind.name()
                    )
                }
                _ if is_of_a_repository(last) => format!(
                    "build it with `cofferdam build --sandbox {}` in its repository",
                    kind.name()
                ),
                _ => format!("get it with `{} pull {last}`", kind.name()),
            },
        })
    }

    pub(super) async fn find_image(&self, name: &str) -> Result<Option<Image>, SandboxError> {
        Ok(self.inspect_image(name).await?.map(|found| Image {
            id: found.id.unwrap_or_default(),
            size: found
                .size
                .and_then(|size| size.try_into().ok())
                .unwrap_or_default(),
            labels: found
                .config
                .and_then(|config| config.labels)
                .unwrap_or_default()
                .into_iter()
                .collect(),
        }))
    }

    async fn inspect_image(&self, name: &str) -> Result<Option<ImageInspect>, SandboxError> {
        match self.api.inspect_image(name).await {
            Err(error) if status(&error) == Some(NOT_FOUND) => Ok(None),
            Err(error) if is_no_name(&error) => Err(SandboxError::Unsupported {
                what: format!("`{name}` is no name of an image"),
                hint: format!(
                    "one is like debian:bookworm-slim, in small letters; `{} images` lists those that are there",
                    self.kind().name()
                ),
            }),
            Err(error) => Err(self.failed("look at the image", &error)),
            Ok(found) => Ok(Some(found)),
        }
    }

    /// False where there is none.
    pub(super) async fn remove_image(&self, name: &str) -> Result<bool, SandboxError> {
        let removed = self
            .api
            .remove_image(name, None::<RemoveImageOptions>, None)
            .await;
        match removed {
            Err(error) if status(&error) == Some(NOT_FOUND) => Ok(false),
            Err(error) if status(&error) == Some(CONFLICT) => Err(SandboxError::Unsupported {
                what: format!("the image `{name}` is used: {}", said(&error)),
                hint:
                    "see which sandboxes use it with `cofferdam list --all-repos`, and delete them first"
                        .to_owned(),
            }),
            Err(error) => Err(self.failed("remove the image", &error)),
            Ok(_) => Ok(true),
        }
    }

    /// The id of an image without a file in it, which is made unless it is there: whatever else has its name is none. By its name one
    /// engine would look for it at a registry.
    pub(super) async fn empty_image(&self, name: &str) -> Result<String, SandboxError> {
        let found = self.inspect_image(name).await?;
        if let Some(id) = found.filter(is_empty).and_then(|found| found.id) {
            return Ok(id);
        }
        let options = CreateImageOptions {
            from_src: Some("-".to_owned()),
            // With its tag: Podman 4.3 takes none by itself.
            repo: Some(name.to_owned()),
            ..CreateImageOptions::default()
        };
        let body = bollard::body_full(NOTHING.to_vec().into());
        let mut made = Box::pin(self.api.create_image(Some(options), Some(body), None));
        while let Some(step) = made.next().await {
            step.map_err(|error| self.failed("make an image", &error))?;
        }
        let made = self.inspect_image(name).await?;
        made.and_then(|made| made.id).ok_or_else(|| {
            SandboxError::Start(format!("{} has lost an image that it made", self.kind()))
        })
    }

    /// It gets the first of these names that nobody has.
    pub(super) async fn create(
        &self,
        names: &[String],
        body: &Body,
    ) -> Result<String, SandboxError> {
        let create = async |name: &str| {
            let options = CreateContainerOptions {
                name: Some(name.to_owned()),
                ..CreateContainerOptions::default()
            };
            self.api.create_container(Some(options), body.clone()).await
        };
        let (mut names, what) = (names.iter().peekable(), "make a container");
        while let Some(name) = names.next() {
            match create(name).await {
                Err(error) if is_taken(&error) && names.peek().is_some() => {}
                made => {
                    let made = made.map_err(|error| self.failed(what, &error))?;
                    if let Err(error) = self.has_no_orders(&made.id).await {
                        let _ = self.remove(&made.id).await;
                        return Err(error);
                    }
                    return Ok(made.id);
                }
            }
        }
        let kind = self.kind();
        Err(SandboxError::Start(format!(
            "{kind} cannot {what}: it has no name"
        )))
    }

    pub(super) async fn start(&self, id: &str) -> Result<(), SandboxError> {
        let started = self.api.start_container(id, None::<StartContainerOptions>);
        let started = started.await;
        started.map_err(|error| match lacks_network(&said(&error)) {
            Some(what) => SandboxError::Unsupported {
                what: format!(
                    "{} cannot give the sandbox a network of its own: {what}",
                    self.kind()
                ),
                hint: "leave out `--network open`: a sandbox behind the wall needs nothing of that"
                    .to_owned(),
            },
            None => self.failed("start a container", &error),
        })
    }

    /// As [`Self::create`], by Podman's own API, which can leave out the volumes of an image: one that is never started.
    pub(super) async fn create_without_volumes(
        &self,
        body: &serde_json::Value,
    ) -> Result<String, SandboxError> {
        #[derive(Deserialize)]
        struct Made {
            #[serde(rename = "Id")]
            id: String,
        }
        let path = format!("{LIBPOD}/containers/create");
        let made = ask::send::<Made>(&self.endpoint.socket, &path, body).await;
        let made = made.map_err(|error| self.broken("make a container", &error))?;
        Ok(made.id)
    }

    /// Refuses a container that was given annotations of its image: to a runtime, and to what else an engine starts for it, they are
    /// orders. Podman left off giving them on in 4.5.1.
    async fn has_no_orders(&self, id: &str) -> Result<(), SandboxError> {
        if self.kind() != Kind::Podman
            || !annotations::are_given_on(self.greeting.version.as_deref())
        {
            return Ok(());
        }
        let path = format!("{LIBPOD}/containers/{id}/json");
        let found = ask::get::<Annotated>(&self.endpoint.socket, &path).await;
        let found = found.map_err(|error| self.broken("look at a container", &error))?;
        annotations::check(found)
    }

    /// What of the engine's answer `T` has. None where there is no such container, or one that is half removed.
    pub(super) async fn inspect<T: DeserializeOwned>(
        &self,
        id: &str,
    ) -> Result<Option<T>, SandboxError> {
        let path = self.path(&format!("/containers/{id}/json"));
        match ask::get::<T>(&self.endpoint.socket, &path).await {
            Err(error) if ask::is_half_removed(&error) => Ok(None),
            found => found.map_err(|error| self.broken("look at a container", &error)),
        }
    }

    /// What this path is in a container that was not started.
    pub(super) async fn way(&self, id: &str, path: &str) -> Result<Way, SandboxError> {
        let path = ask::encoded(path);
        let path = self.path(&format!("/containers/{id}/archive?path={path}"));
        let found = ask::way(&self.endpoint.socket, &path).await;
        found.map_err(|error| self.broken("look at an image's files", &error))
    }

    /// Whether a container meets its maker below one of these places of ours. What is written on it anybody may write, and an engine
    /// writes what its image has too.
    pub(super) async fn meets_below(
        &self,
        id: &str,
        places: &[PathBuf],
    ) -> Result<bool, SandboxError> {
        let path = self.path(&format!("/containers/{id}/json"));
        let found = match ask::get::<Mounted>(&self.endpoint.socket, &path).await {
            // It has no files and never runs again: then its labels decide.
            Err(error) if ask::is_half_removed(&error) => return Ok(true),
            found => found.map_err(|error| self.broken("look at a container", &error))?,
        };
        let sources = found.into_iter().flat_map(|found| found.mounts);
        let mut sources = sources.filter_map(|one| one.source);
        Ok(sources.any(|source| places.iter().any(|place| source.starts_with(place))))
    }

    /// None where there is no such container.
    pub(super) async fn look(&self, id: &str) -> Result<Option<Container>, SandboxError> {
        let found = self.inspect::<Inspected>(id).await?;
        Ok(found.map(|Inspected { state }| Container {
            process: Some(state.pid).filter(|&pid| pid > 0),
            problem: Some(state.error).filter(|error| !error.is_empty()),
            paused: state.paused,
        }))
    }

    /// The containers that have all of these labels, running or not: those first that have joined another.
    pub(super) async fn labelled(&self, labels: &[String]) -> Result<Vec<String>, SandboxError> {
        let found = self.listed(labels).await?;
        Ok(found.into_iter().map(|one| one.id).collect())
    }

    /// The same, with all their labels.
    pub(super) async fn listed(&self, labels: &[String]) -> Result<Vec<Listed>, SandboxError> {
        let filters = serde_json::json!({ "label": labels }).to_string();
        let filters = ask::encoded(&filters);
        let query = format!("/containers/json?all=true&filters={filters}");
        let otherwise = (self.kind() == Kind::Podman).then(|| format!("{LIBPOD}{query}"));
        let (socket, path) = (&self.endpoint.socket, self.path(&query));
        let found = ask::list::<Listed>(socket, &path, otherwise.as_deref()).await;
        let mut found = found.map_err(|error| self.broken("list its containers", &error))?;
        // What an engine does not filter is not ours.
        let has_all = |one: &Listed| {
            labels.iter().all(|label| {
                label.split_once('=').is_some_and(|(name, value)| {
                    one.labels.get(name).is_some_and(|own| own == value)
                })
            })
        };
        found.retain(has_all);
        found.sort_by_key(|one| one.labels.get(ROLE).is_some_and(|role| role == HOLDER));
        Ok(found)
    }

    /// Lets it go on after the engine's own pause.
    pub(super) async fn unpause(&self, id: &str) -> Result<(), SandboxError> {
        let done = self.api.unpause_container(id).await;
        done.map_err(|error| self.failed("let a container go on", &error))
    }

    /// Ends it where it runs. It is no error where it is gone, or about to go.
    pub(super) async fn remove(&self, id: &str) -> Result<(), SandboxError> {
        let options = RemoveContainerOptions {
            v: true,
            force: true,
            link: false,
        };
        match self.api.remove_container(id, Some(options)).await {
            Err(error) if matches!(status(&error), Some(NOT_FOUND | CONFLICT)) => Ok(()),
            other => other.map_err(|error| self.failed("remove a container", &error)),
        }
    }

    fn broken(&self, what: &str, error: &io::Error) -> SandboxError {
        let kind = self.kind();
        SandboxError::Start(format!("{kind} cannot {what}: {error}"))
    }

    fn failed(&self, what: &str, error: &ApiError) -> SandboxError {
        let (kind, said) = (self.kind(), said(error));
        SandboxError::Start(format!("{kind} cannot {what}: {said}"))
    }
}

/// The oldest version that an engine takes, where it says so.
async fn floor(endpoint: &Endpoint) -> Result<Option<Version>, SandboxError> {
    #[derive(Deserialize)]
    struct Said {
        #[serde(rename = "MinAPIVersion")]
        floor: Option<String>,
    }
    let said = ask::get::<Said>(&endpoint.socket, "/version").await;
    let said = said.map_err(|error| unanswered(endpoint, &error))?;
    let floor = said.and_then(|said| said.floor);
    Ok(floor.map(|floor| version::numbers(&floor)))
}

/// The end of an archive.
const NOTHING: [u8; 1024] = [0; 1024];

/// Whether an image has neither files nor settings: of those an engine would do some for each container.
fn is_empty(image: &ImageInspect) -> bool {
    let nothing = format!("sha256:{}", hex(&Sha256::digest(NOTHING)));
    let layers = image
        .root_fs
        .as_ref()
        .and_then(|root| root.layers.as_deref());
    let config = image.config.clone().unwrap_or_default();
    let none = |list: &Option<Vec<String>>| list.as_ref().is_none_or(Vec::is_empty);
    layers == Some(&[nothing])
        && [
            &config.env,
            &config.entrypoint,
            &config.cmd,
            &config.volumes,
            &config.on_build,
        ]
        .into_iter()
        .all(none)
        && config.labels.is_none_or(|labels| labels.is_empty())
        && config.user.is_none_or(|user| user.is_empty())
}

/// Whether `build-base` makes images of this name.
fn is_of_ours(name: &str) -> bool {
    name.split_once(':').map_or(name, |(name, _)| name) == crate::names::BASE_IMAGE
}

/// Whether `build` makes images of this name: see [`crate::names::RepoPath::image`].
fn is_of_a_repository(name: &str) -> bool {
    let name = name.strip_suffix(":latest").unwrap_or_default();
    let rest = name.strip_prefix("cofferdam-").unwrap_or_default();
    let hash = rest.rsplit_once('-').map_or("", |(_, hash)| hash);
    hash.len() == 8 && hash.bytes().all(|one| one.is_ascii_hexdigit())
}

fn status(error: &ApiError) -> Option<u16> {
    match error {
        ApiError::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

/// Podman 4.3 has no status of its own for it, and other words while the one that has the name is just being removed.
fn is_taken(error: &ApiError) -> bool {
    let words = ["already in use", "is in use: container already exists"];
    status(error) == Some(CONFLICT) || words.iter().any(|words| said(error).contains(words))
}

/// Docker has a status for it, Podman 4.3 has not; where the name makes another path, a router of either sends elsewhere.
fn is_no_name(error: &ApiError) -> bool {
    let said = said(error);
    matches!(status(error), Some(BAD_REQUEST | MOVED))
        || said.contains("invalid reference format")
        || said.contains("must be lowercase")
}

/// What an ordinary user's engine needs for a network of its own, and has not, by what it says when it starts a container.
fn lacks_network(said: &str) -> Option<String> {
    if said.contains("/dev/net/tun") {
        return Some("your user may not open /dev/net/tun".to_owned());
    }
    let programs = ["slirp4netns", "pasta"];
    let missing = |program: &&str| said.contains(&format!("could not find {program}"));
    let program = programs.into_iter().find(missing)?;
    Some(format!("the program {program} is not installed"))
}

fn said(error: &ApiError) -> String {
    let text = match error {
        ApiError::DockerResponseServerError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    crate::text::printable_line(&text)
}

#[cfg(test)]
mod tests {
    use super::{is_of_a_repository, lacks_network};

    #[test]
    fn images_of_repositories_are_known_by_their_names() {
        assert!(is_of_a_repository("cofferdam-api-server-0123abcd:latest"));
        for other in [
            "debian:bookworm-slim",
            "cofferdam-base:latest",
            "cofferdam-api-server-0123abcd:2",
            "x-0123abcd:latest",
        ] {
            assert!(!is_of_a_repository(other), "{other}");
        }
    }

    /// In the words of Podman 4.3, and of later ones about pasta.
    #[test]
    fn what_a_network_of_an_ordinary_users_engine_lacks_is_named() {
        for (said, wanted) in [
            (
                r#"/usr/bin/slirp4netns failed: "open(\"/dev/net/tun\"): Permission denied\nchild failed(1)\n""#,
                Some("your user may not open /dev/net/tun"),
            ),
            (
                "pasta failed with exit code 1: Failed to open() /dev/net/tun: Permission denied",
                Some("your user may not open /dev/net/tun"),
            ),
            (
                r#"could not find slirp4netns, the network namespace can't be configured: exec: "slirp4netns": executable file not found in $PATH"#,
                Some("the program slirp4netns is not installed"),
            ),
            (
                r#"could not find pasta, the network namespace can't be configured: exec: "pasta": executable file not found in $PATH"#,
                Some("the program pasta is not installed"),
            ),
            ("the disk is on fire", None),
        ] {
            assert_eq!(lacks_network(said).as_deref(), wanted, "{said}");
        }
    }
}
