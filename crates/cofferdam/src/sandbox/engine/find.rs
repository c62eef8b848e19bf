//! Where an engine is, as its own command would find it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::Kind;
use crate::fsx;
use crate::sandbox::SandboxError;
use crate::text::hex;

/// What a context's description may have.
const LIMIT: u64 = 1 << 20;

/// What of the caller's surroundings says where engines are. The caller reads them.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// `DOCKER_HOST`.
    pub docker_host: Option<OsString>,
    /// `DOCKER_CONTEXT`.
    pub docker_context: Option<OsString>,
    /// `DOCKER_CONFIG`; without it `~/.docker`.
    pub docker_config: Option<PathBuf>,
    /// `CONTAINER_HOST`.
    pub container_host: Option<OsString>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime: Option<PathBuf>,
    /// The caller's home directory.
    pub home: Option<PathBuf>,
}

/// An engine's socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) kind: Kind,
    pub(super) socket: PathBuf,
    pub(super) from: From,
}

/// What named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum From {
    Variable(&'static str),
    Context(String),
    /// The machine's.
    Usual,
    /// The caller's own.
    Rootless,
    /// A sandbox that was made there.
    Record,
}

#[derive(Debug, Deserialize)]
struct Settings {
    #[serde(rename = "currentContext")]
    current: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Context {
    #[serde(rename = "Endpoints")]
    endpoints: Endpoints,
}

#[derive(Debug, Deserialize)]
struct Endpoints {
    docker: DockerEndpoint,
}

#[derive(Debug, Deserialize)]
struct DockerEndpoint {
    #[serde(rename = "Host")]
    host: String,
}

impl From {
    /// In words, where the caller chose it.
    pub(super) fn name(&self) -> Option<String> {
        match self {
            Self::Variable(name) => Some((*name).to_owned()),
            Self::Context(name) => Some(format!("the context `{name}`")),
            Self::Usual | Self::Rootless | Self::Record => None,
        }
    }
}

/// In the order of the engine's own command: the variable, the context, the usual places. Whether somebody answers there is
/// another question.
pub(super) fn endpoint(kind: Kind, around: &Surroundings) -> Result<Endpoint, SandboxError> {
    let variable = match kind {
        Kind::Docker => &around.docker_host,
        Kind::Podman => &around.container_host,
    };
    let at = |socket, from| Endpoint { kind, socket, from };
    if let Some(host) = variable.as_ref().filter(|host| !host.is_empty()) {
        let name = kind.variable();
        let socket = local(kind, &host.to_string_lossy(), name)?;
        return Ok(at(socket, From::Variable(name)));
    }
    if kind == Kind::Docker
        && let Some((name, host)) = context(around)?
    {
        let socket = local(kind, &host, &format!("the context `{name}`"))?;
        return Ok(at(socket, From::Context(name)));
    }
    let (own, usual) = kind.sockets();
    let user = rustix::process::geteuid();
    // Where a session of theirs would have it: who came by `su` or `sudo` has no variable that says so.
    let runtime = match &around.runtime {
        Some(runtime) => runtime.clone(),
        None => PathBuf::from(format!("/run/user/{}", user.as_raw())),
    };
    let (own, usual) = (runtime.join(own), PathBuf::from(usual));
    if !user.is_root() && is_own(kind, state(&own), state(&usual)) {
        return Ok(at(own, From::Rootless));
    }
    Ok(at(usual, From::Usual))
}

/// A socket, as far as a look tells: whether somebody answers there is another question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    /// The caller may not connect.
    Closed,
    Open,
}

fn state(socket: &Path) -> State {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    if socket.symlink_metadata().is_err() {
        return State::Absent;
    }
    match accessat(CWD, socket, Access::WRITE_OK, AtFlags::EACCESS) {
        Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => State::Closed,
        _ => State::Open,
    }
}

/// Whether an ordinary user's engine is their own. Their Podman is, where they have one; but their Docker is the machine's, unless
/// there is none for them.
fn is_own(kind: Kind, own: State, usual: State) -> bool {
    match (kind, own) {
        (_, State::Absent) => false,
        (Kind::Podman, _) => true,
        (Kind::Docker, _) => usual != State::Open,
    }
}

/// The context that is chosen, with its host; none where it is the default one.
fn context(around: &Surroundings) -> Result<Option<(String, String)>, SandboxError> {
    let own = around.home.as_ref().map(|home| home.join(".docker"));
    let Some(directory) = around.docker_config.clone().or(own) else {
        return Ok(None);
    };
    let named = around.docker_context.as_ref();
    let name = match named.filter(|name| !name.is_empty()) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => match read::<Settings>(&directory.join("config.json")) {
            Ok(settings) => settings.current.unwrap_or_default(),
            // Docker's own command goes on with the default one, and says so.
            Err(_) => String::new(),
        },
    };
    if name.is_empty() || name == "default" {
        return Ok(None);
    }
    let digest = hex(&Sha256::digest(name.as_bytes()));
    let file = directory
        .join("contexts/meta")
        .join(digest)
        .join("meta.json");
    let context: Context = read(&file).map_err(|error| SandboxError::Unsupported {
        what: format!("Docker's context `{name}` cannot be read: {error}"),
        hint: "see `docker context ls`, or choose one with `docker context use default`".to_owned(),
    })?;
    Ok(Some((name, context.endpoints.docker.host)))
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> io::Result<T> {
    let bytes = fsx::read_bounded(path, LIMIT).map_err(io::Error::other)?;
    serde_json::from_slice(&bytes).map_err(io::Error::other)
}

/// The socket on this machine that a host is.
fn local(kind: Kind, host: &str, named_by: &str) -> Result<PathBuf, SandboxError> {
    let path = host.strip_prefix("unix://").map(Path::new);
    if let Some(path) = path.filter(|path| path.is_absolute()) {
        return Ok(path.to_owned());
    }
    Err(SandboxError::Unsupported {
        what: format!(
            "{named_by} names the {kind} engine `{}`, which is not on this machine",
            host.escape_debug()
        ),
        hint: format!(
            "use one of this machine: unset {} or give it a socket, as in `unix://{}`",
            kind.variable(),
            kind.sockets().1
        ),
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files")]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Surroundings) {
        let home = tempfile::tempdir().unwrap();
        let around = Surroundings {
            home: Some(home.path().to_owned()),
            ..Surroundings::default()
        };
        (home, around)
    }

    fn with_context(home: &Path, name: &str, host: &str) {
        let digest = hex(&Sha256::digest(name));
        let place = home.join(".docker/contexts/meta").join(digest);
        std::fs::create_dir_all(&place).unwrap();
        let text = format!(
            r#"{{"Name":"{name}","Metadata":{{}},"Endpoints":{{"docker":{{"Host":"{host}","SkipTLSVerify":false}}}}}}"#
        );
        std::fs::write(place.join("meta.json"), text).unwrap();
    }

    #[test]
    fn the_variable_comes_before_the_context_and_that_before_the_usual_place() {
        let (home, mut around) = home();
        let found = |around: &Surroundings| endpoint(Kind::Docker, around).unwrap();
        assert_eq!(found(&around).from, From::Usual);
        with_context(home.path(), "mine", "unix:///run/mine.sock");
        assert_eq!(found(&around).from, From::Usual);
        let settings = home.path().join(".docker/config.json");
        std::fs::write(&settings, r#"{"auths":{},"currentContext":"mine"}"#).unwrap();
        let mine = found(&around);
        assert_eq!(mine.from, From::Context("mine".to_owned()));
        assert_eq!(mine.socket, Path::new("/run/mine.sock"));
        around.docker_context = Some("default".into());
        assert_eq!(found(&around).from, From::Usual);
        around.docker_host = Some("unix:///run/that.sock".into());
        let that = found(&around);
        assert_eq!(that.from, From::Variable("DOCKER_HOST"));
        assert_eq!(that.socket, Path::new("/run/that.sock"));
        // Podman has neither.
        let other = endpoint(Kind::Podman, &around).unwrap();
        assert_eq!(other.from, From::Usual);
    }

    #[test]
    fn whose_engine_an_ordinary_user_has() {
        use State::{Absent, Closed, Open};
        for (own, usual, docker, podman) in [
            (Absent, Absent, false, false),
            (Absent, Closed, false, false),
            (Absent, Open, false, false),
            (Open, Absent, true, true),
            // Not in its group: that one would only refuse.
            (Open, Closed, true, true),
            (Open, Open, false, true),
        ] {
            let found = [Kind::Docker, Kind::Podman].map(|kind| is_own(kind, own, usual));
            assert_eq!(
                found,
                [docker, podman],
                "own {own:?}, the machine's {usual:?}"
            );
        }
    }

    #[test]
    fn a_socket_is_seen_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("docker.sock");
        assert_eq!(state(&socket), State::Absent);
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(state(&socket), State::Open);
        if rustix::process::geteuid().is_root() {
            return cofferdam_lab::skip!("root may connect wherever it likes");
        }
        let closed = std::os::unix::fs::PermissionsExt::from_mode(0o400);
        std::fs::set_permissions(&socket, closed).unwrap();
        assert_eq!(state(&socket), State::Closed);
        // And the whole way: one in the runtime directory, where the machine has none that is open.
        std::fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let around = Surroundings {
            runtime: Some(place.path().to_owned()),
            ..Surroundings::default()
        };
        let found = endpoint(Kind::Docker, &around).unwrap();
        let machines = state(Path::new(Kind::Docker.sockets().1)) == State::Open;
        assert_eq!(found.from == From::Usual, machines);
    }

    #[test]
    fn an_engine_elsewhere_is_refused_by_name() {
        let (home, mut around) = home();
        let refused = |around: &Surroundings| match endpoint(Kind::Docker, around) {
            Err(SandboxError::Unsupported { what, .. }) => what,
            other => panic!("{other:?}"),
        };
        for host in [
            "tcp://10.0.0.7:2375",
            "ssh://u@box",
            "unix://run/x",
            "garbage",
        ] {
            around.docker_host = Some(host.into());
            let what = refused(&around);
            assert!(
                what.contains(host) && what.contains("DOCKER_HOST"),
                "{what}"
            );
        }
        around.docker_host = None;
        with_context(home.path(), "far", "tcp://10.0.0.7:2375");
        around.docker_context = Some("far".into());
        assert!(refused(&around).contains("the context `far`"));
        around.docker_context = Some("none".into());
        assert!(refused(&around).contains("context `none` cannot be read"));
    }
}
