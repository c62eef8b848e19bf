//! Which version of its API an engine is asked in. An engine refuses what is older than its own floor (Docker 29: 1.44) and newer
//! than itself, and what is asked without a version it takes for its newest.

use bollard::{API_DEFAULT_VERSION, ClientVersion, Docker as Api};
use hyper::Request;

use super::Kind;
use crate::sandbox::SandboxError;

/// Major and minor.
pub(super) type Version = (usize, usize);

/// What an engine says before anything is agreed.
#[derive(Debug)]
pub(super) struct Greeting {
    /// The newest of its API.
    pub(super) api: Version,
    /// Its own version.
    pub(super) version: Option<String>,
}

/// The oldest API that has what is asked here: Docker 20.10, Podman 4.3.
const OLDEST: Version = (1, 41);
/// Podman says so of versions before it too, and is asked which it is.
const OLDEST_PODMAN: [u64; 3] = [4, 3, 0];
/// The newest that we know, because `bollard` does.
const NEWEST: Version = (
    API_DEFAULT_VERSION.major_version,
    API_DEFAULT_VERSION.minor_version,
);

/// The newest that both know. `floor`: the oldest that the engine takes, where that is known.
pub(super) fn agreed(
    kind: Kind,
    greeting: &Greeting,
    floor: Option<Version>,
) -> Result<Version, SandboxError> {
    let theirs = greeting.api;
    let named = match &greeting.version {
        Some(version) => format!("{kind} {version}"),
        None => kind.to_string(),
    };
    if theirs < OLDEST {
        return Err(SandboxError::Unsupported {
            what: format!(
                "{named} is too old: its API is {}, and {} is needed",
                text(theirs),
                text(OLDEST)
            ),
            hint: match kind {
                Kind::Docker => "install Docker 20.10 or newer".to_owned(),
                Kind::Podman => "install Podman 4.3 or newer".to_owned(),
            },
        });
    }
    let release = greeting.version.as_deref().and_then(release);
    if kind == Kind::Podman && release.is_some_and(|release| release < OLDEST_PODMAN) {
        return Err(SandboxError::Unsupported {
            what: format!("{named} is too old"),
            hint: "install Podman 4.3 or newer".to_owned(),
        });
    }
    let version = theirs.min(NEWEST);
    if let Some(floor) = floor.filter(|floor| *floor > version) {
        return Err(SandboxError::Unsupported {
            what: format!(
                "{named} is too new: it takes no API older than {}, and {} is the newest that this cofferdam knows",
                text(floor),
                text(NEWEST)
            ),
            hint: "install a newer cofferdam".to_owned(),
        });
    }
    Ok(version)
}

/// The numbers of `4.3.1-rhel`; one that is not there is 0. `None`: it begins with none.
pub(super) fn release(version: &str) -> Option<[u64; 3]> {
    let mut numbers = version.split(['.', '-']).map_while(|one| one.parse().ok());
    let first = numbers.next()?;
    let mut next = || numbers.next().unwrap_or(0);
    Some([first, next(), next()])
}

/// Whether an engine may have a floor that we do not reach. Only then it is worth to ask which.
pub(super) fn is_beyond(theirs: Version) -> bool {
    theirs > NEWEST
}

/// `1.41`; what is no version is older than all.
pub(super) fn numbers(text: &str) -> Version {
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    let number = |text: &str| text.parse().unwrap_or_default();
    (number(major), number(minor))
}

/// Where something of that version is asked.
pub(super) fn path(version: Version, rest: &str) -> String {
    format!("/v{}{rest}", text(version))
}

/// For `bollard` to be made with.
pub(super) fn of_client(version: Version) -> ClientVersion {
    ClientVersion {
        major_version: version.0,
        minor_version: version.1,
    }
}

/// `bollard` (0.21) leaves the version that it was made with out of what it asks.
pub(super) fn said_by(api: Api, version: Version) -> Api {
    api.with_request_modifier(move |request| versioned(request, version))
}

fn versioned<T>(mut request: Request<T>, version: Version) -> Request<T> {
    let mut parts = request.uri().clone().into_parts();
    let asked = request.uri().path_and_query();
    let asked = asked.map_or_else(|| "/".to_owned(), ToString::to_string);
    parts.path_and_query = path(version, &asked).parse().ok();
    // Else the engine takes it for its newest, as it would without us.
    if let Ok(uri) = hyper::Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    request
}

fn text((major, minor): Version) -> String {
    format!("{major}.{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_that_both_know() {
        let beyond = (NEWEST.0, NEWEST.1 + 7);
        for (theirs, floor, want) in [
            ((1, 41), Some((1, 12)), Ok((1, 41))),
            ((1, 44), None, Ok((1, 44))),
            // Docker 29.
            ((1, 52), Some((1, 44)), Ok((1, 52))),
            (beyond, None, Ok(NEWEST)),
            (beyond, Some(NEWEST), Ok(NEWEST)),
            (beyond, Some(beyond), Err("too new")),
            (
                (1, 40),
                None,
                Err("Docker 1.2.3 is too old: its API is 1.40"),
            ),
            ((0, 0), None, Err("too old")),
        ] {
            let greeting = Greeting {
                api: theirs,
                version: Some("1.2.3".to_owned()),
            };
            match (agreed(Kind::Docker, &greeting, floor), want) {
                (Ok(found), Ok(want)) => assert_eq!(found, want, "{theirs:?}"),
                (Err(error), Err(want)) => {
                    assert!(error.to_string().contains(want), "{theirs:?}: {error}");
                }
                (found, want) => panic!("{theirs:?}: {found:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn podman_from_its_oldest_to_the_newest() {
        let of = |api| {
            let version = Some("x".to_owned());
            agreed(Kind::Podman, &Greeting { api, version }, None)
        };
        assert_eq!(of((1, 41)).unwrap(), (1, 41));
        // Podman 5.
        assert_eq!(of((1, 44)).unwrap(), (1, 44));
        let SandboxError::Unsupported { what, hint } = of((1, 40)).unwrap_err() else {
            panic!("another error");
        };
        assert_eq!(
            what,
            "Podman x is too old: its API is 1.40, and 1.41 is needed"
        );
        assert_eq!(hint, "install Podman 4.3 or newer");
        // One before it says the same of its API.
        let of = |version: &str| {
            let version = Some(version.to_owned());
            let api = (1, 41);
            agreed(Kind::Podman, &Greeting { api, version }, None)
                .map_err(|error| error.to_string())
        };
        for new in ["4.3.1", "4.3.0-rc1", "5.0.0", "10.1", "x"] {
            assert_eq!(of(new), Ok((1, 41)), "{new}");
        }
        for old in ["4.2.1", "3.9.9"] {
            assert!(
                of(old)
                    .unwrap_err()
                    .contains(&format!("Podman {old} is too old"))
            );
        }
    }

    #[test]
    fn what_bollard_asks_has_the_version() {
        for (from, to) in [
            (
                "unix://2f73/images/a:b/json",
                "unix://2f73/v1.44/images/a:b/json",
            ),
            (
                "unix://2f73/containers/create?name=x%20y",
                "unix://2f73/v1.44/containers/create?name=x%20y",
            ),
        ] {
            let request = Request::get(from).body(()).unwrap();
            assert_eq!(versioned(request, (1, 44)).uri().to_string(), to);
        }
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(numbers("1.41"), (1, 41));
        assert_eq!(numbers("2"), (2, 0));
        assert_eq!(numbers("x"), (0, 0));
        assert!(is_beyond((2, 0)) && !is_beyond(NEWEST));
    }
}
