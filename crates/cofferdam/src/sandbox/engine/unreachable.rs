//! Why nobody answers where an engine should be, and what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::Kind;
use super::find::{Endpoint, From};
use crate::sandbox::SandboxError;

/// By what the kernel says.
pub(super) fn unreachable(endpoint: &Endpoint, error: &io::Error) -> SandboxError {
    let (kind, place) = (endpoint.kind, named(endpoint));
    let root = rustix::process::geteuid().is_root();
    let start = kind.start(root);
    let (what, hint) = match error.kind() {
        io::ErrorKind::NotFound => (
            format!("{kind} is not there: nothing is at {place}"),
            match installed(kind) {
                Some(_) => format!("start it with `{start}`"),
                None => format!("install {kind}, then start it with `{start}`"),
            },
        ),
        io::ErrorKind::ConnectionRefused => (
            format!("{kind} does not run: nobody listens at {place}"),
            format!("start it with `{start}`"),
        ),
        io::ErrorKind::PermissionDenied => (
            format!("you may not use {kind}: {place} is closed to you"),
            match kind {
                Kind::Docker => {
                    "join its group with `sudo usermod -aG docker \"$USER\"` and log in again; who is in it is root on this machine"
                        .to_owned()
                }
                Kind::Podman => format!("start one of your own with `{}`", kind.start(false)),
            },
        ),
        _ => (
            format!("{kind} cannot be reached at {place}: {error}"),
            format!("start it with `{start}`"),
        ),
    };
    let hint = match elsewhere(endpoint) {
        Some(served) if error.kind() != io::ErrorKind::PermissionDenied => served,
        _ => hint,
    };
    SandboxError::NoEngine { what, hint }
}

/// What to do where the caller has named another socket than the one that the machine's service has. `None`: they have not.
fn elsewhere(endpoint: &Endpoint) -> Option<String> {
    let From::Variable(name) = endpoint.from else {
        return None;
    };
    let (own, usual) = endpoint.kind.sockets();
    let socket = &endpoint.socket;
    let is_own = socket.starts_with("/run/user") && socket.ends_with(own);
    // `/var/run` is `/run`.
    let is_usual = [Some(usual), usual.strip_prefix("/var")]
        .into_iter()
        .flatten()
        .any(|usual| socket == Path::new(usual));
    (!is_own && !is_usual).then(|| {
        format!(
            "{name} names that socket: start what serves it, or `unset {name}` for the usual one"
        )
    })
}

/// Somebody does, but not as an engine.
pub(super) fn unanswered(endpoint: &Endpoint, error: &dyn fmt::Display) -> SandboxError {
    let kind = endpoint.kind;
    SandboxError::NoEngine {
        what: format!(
            "{kind} does not answer at {}: {}",
            named(endpoint),
            crate::text::printable_line(&error.to_string())
        ),
        hint: format!("see whether `{} info` works", kind.name()),
    }
}

fn named(endpoint: &Endpoint) -> String {
    let by = endpoint.from.name();
    let by = by.map_or_else(String::new, |by| format!(" ({by} names it)"));
    format!("{}{by}", endpoint.socket.display())
}

/// The engine's command in the usual places.
fn installed(kind: Kind) -> Option<PathBuf> {
    ["/usr/bin", "/usr/local/bin", "/bin"]
        .iter()
        .map(|place| PathBuf::from(place).join(kind.name()))
        .find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One sentence that names the engine and the place, and the next step.
    #[test]
    fn each_reason_has_its_sentence() {
        let told = |kind, from, error: io::ErrorKind| {
            let endpoint = Endpoint {
                kind,
                socket: PathBuf::from("/run/x.sock"),
                from,
            };
            match unreachable(&endpoint, &error.into()) {
                SandboxError::NoEngine { what, hint } => (what, hint),
                other => panic!("{other}"),
            }
        };
        for (kind, name) in [(Kind::Docker, "Docker"), (Kind::Podman, "Podman")] {
            for (error, begin) in [
                (
                    io::ErrorKind::NotFound,
                    format!("{name} is not there: nothing is at /run/x.sock"),
                ),
                (
                    io::ErrorKind::ConnectionRefused,
                    format!("{name} does not run: nobody listens at /run/x.sock"),
                ),
                (
                    io::ErrorKind::PermissionDenied,
                    format!("you may not use {name}: /run/x.sock is closed to you"),
                ),
                (
                    io::ErrorKind::TimedOut,
                    format!("{name} cannot be reached at /run/x.sock: "),
                ),
            ] {
                let (what, hint) = told(kind, From::Usual, error);
                assert!(what.starts_with(&begin), "{what}");
                assert!(hint.contains('`') && !what.contains('\n'), "{hint}");
            }
        }
        let (what, _) = told(
            Kind::Docker,
            From::Variable("DOCKER_HOST"),
            io::ErrorKind::NotFound,
        );
        assert!(
            what.ends_with("at /run/x.sock (DOCKER_HOST names it)"),
            "{what}"
        );
        for (socket, is_served) in [("/run/x.sock", true), ("/run/docker.sock", false)] {
            let endpoint = Endpoint {
                kind: Kind::Docker,
                socket: PathBuf::from(socket),
                from: From::Variable("DOCKER_HOST"),
            };
            let hint = elsewhere(&endpoint).unwrap_or_default();
            assert_eq!(hint.contains("`unset DOCKER_HOST`"), is_served, "{socket}");
        }
        let (_, hint) = told(Kind::Docker, From::Usual, io::ErrorKind::PermissionDenied);
        assert!(hint.contains("usermod -aG docker"), "{hint}");
    }
}
