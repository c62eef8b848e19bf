//! What `bollard` cannot ask or read: Podman has states of containers that Docker's API does not name, and a list with one of them
//! would be no list; it takes a build's network in a way of its own; and Docker's runtimes have a kind since 23.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{HeaderMap, SERVER};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;

use super::version::{self, Greeting};

/// How long an answer may take, and be.
const PATIENCE: Duration = Duration::from_secs(60);
const LONGEST: usize = 64 << 20;
/// How long a list is asked for again, and how long after each time.
const LISTINGS: Duration = Duration::from_secs(3);
const BETWEEN_LISTINGS: Duration = Duration::from_millis(50);
/// In Podman's answer then.
const GONE: &str = "container not known";
/// The same of one that was removed between two looks of Podman's own.
const REMOVED: &str = "does not exist in database";

/// Of Podman's container that is half removed: one that ended while another one joined it has no files any more, and nobody can look at it.
/// It stays until that other one is removed.
pub(super) fn is_half_removed(error: &io::Error) -> bool {
    let said = error.to_string();
    [GONE, REMOVED].iter().any(|words| said.contains(words))
}

/// What every engine answers, in whatever version it is asked, and cheaply: no program is started for it.
pub(super) async fn greet(socket: &Path) -> io::Result<Greeting> {
    let (_, headers, _) = bounded(socket, "/_ping").await?;
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let no_engine = || io::Error::other("whoever listens there is no container engine");
    let api = text("api-version").ok_or_else(no_engine)?;
    // `Docker/20.10.24 (linux)`, `Libpod/4.3.1 (linux)`.
    let server = text(SERVER.as_str()).and_then(|server| server.split(['/', ' ']).nth(1));
    Ok(Greeting {
        api: version::numbers(api),
        version: server.map(crate::text::printable_line),
    })
}

/// `path`: with its query. None where there is no such thing.
pub(super) async fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> io::Result<Option<T>> {
    let (status, _, body) = bounded(socket, path).await?;
    match status {
        StatusCode::NOT_FOUND => Ok(None),
        status if status.is_success() => serde_json::from_slice(&body)
            .map(Some)
            .map_err(io::Error::other),
        status => {
            let said = refusal(&body);
            Err(io::Error::other(format!("{status}: {said}")))
        }
    }
}

/// What a path is in a container that does not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Way {
    Absent,
    Directory,
    /// Nothing that a path leads through.
    End,
    /// A link, and where it leads in the container, by way of all others.
    Leads(String),
}

/// `path`: that of the question, which ends with the one asked about. Nothing of it is started or sent.
pub(super) async fn way(socket: &Path, path: &str) -> io::Result<Way> {
    #[derive(Deserialize)]
    struct Stat {
        mode: u32,
        #[serde(rename = "linkTarget", default)]
        leads: String,
    }
    /// As Go numbers kinds of files.
    const LINK: u32 = 1 << 27;
    const DIRECTORY: u32 = 1 << 31;
    let asked = tokio::time::timeout(PATIENCE, ask(Method::HEAD, socket, path)).await;
    let (status, headers, _) = asked.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    // Podman (4.3) has one with the status that there is none, where a link leads nowhere.
    let Some(stat) = headers.get("x-docker-container-path-stat") else {
        return match status {
            StatusCode::NOT_FOUND => Ok(Way::Absent),
            status => Err(io::Error::other(format!(
                "{status}, where it was asked what is at a path"
            ))),
        };
    };
    let stat = stat.to_str().ok().and_then(crate::text::base64);
    let stat = stat.and_then(|text| serde_json::from_slice::<Stat>(&text).ok());
    let stat = stat.ok_or_else(|| io::Error::other("what is at a path cannot be read"))?;
    Ok(if stat.mode & LINK != 0 {
        Way::Leads(crate::text::printable_line(&stat.leads))
    } else if stat.mode & DIRECTORY != 0 {
        Way::Directory
    } else {
        Way::End
    })
}

/// Sends something, and gives the answer; the error has the engine's own words where it refuses.
pub(super) async fn send<T: DeserializeOwned>(
    socket: &Path,
    path: &str,
    what: &serde_json::Value,
) -> io::Result<T> {
    let body = Full::new(Bytes::from(what.to_string()));
    let asked = ask_with(Method::POST, socket, path, body);
    let answered = tokio::time::timeout(PATIENCE, asked).await;
    let (status, _, body) = answered.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    if !status.is_success() {
        return Err(io::Error::other(refusal(&body)));
    }
    serde_json::from_slice(&body).map_err(io::Error::other)
}

/// A list of containers. Podman (4.3) gives none where one goes, whosever it is, while the list is made: then it is asked again, and
/// at last by another path, where there is one.
pub(super) async fn list<T: DeserializeOwned>(
    socket: &Path,
    path: &str,
    otherwise: Option<&str>,
) -> io::Result<Vec<T>> {
    let began = Instant::now();
    loop {
        match get(socket, path).await {
            Err(error) if is_half_removed(&error) => {
                if began.elapsed() >= LISTINGS {
                    let Some(otherwise) = otherwise else {
                        return Err(error);
                    };
                    return get(socket, otherwise).await.map(Option::unwrap_or_default);
                }
            }
            listed => return listed.map(Option::unwrap_or_default),
        }
        tokio::time::sleep(BETWEEN_LISTINGS).await;
    }
}

/// Sends an archive, and gives each line of the answer as it comes. Whoever drops the future stops what was asked. The error has the
/// engine's own words where it refuses.
pub(super) async fn post(
    socket: &Path,
    path: &str,
    archive: Vec<u8>,
    mut each: impl FnMut(&[u8]),
) -> io::Result<()> {
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let request = Request::post(path)
        .header("host", "engine")
        .header("content-type", "application/x-tar");
    let request = request
        .body(Full::new(Bytes::from(archive)))
        .map_err(io::Error::other)?;
    let answered = async {
        let mut answer = sender
            .send_request(request)
            .await
            .map_err(io::Error::other)?;
        let status = answer.status();
        let mut rest = Vec::new();
        while let Some(frame) = answer.frame().await {
            let Ok(data) = frame.map_err(io::Error::other)?.into_data() else {
                continue;
            };
            rest.extend_from_slice(&data);
            while let (true, Some(end)) = (
                status.is_success(),
                rest.iter().position(|&byte| byte == b'\n'),
            ) {
                each(&rest[..end]);
                rest.drain(..=end);
            }
            if rest.len() > LONGEST {
                return Err(io::Error::other("its answer has no end"));
            }
        }
        if status.is_success() {
            each(&rest);
            return Ok(());
        }
        Err(io::Error::other(refusal(&rest)))
    };
    // The connection is no task of its own: it ends with this future.
    tokio::select! {
        answered = answered => answered,
        broken = connection => match broken {
            Err(error) => Err(io::Error::other(error)),
            Ok(()) => Err(io::ErrorKind::UnexpectedEof.into()),
        },
    }
}

/// What an engine says where it does not do what it was asked.
fn refusal(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Said {
        message: String,
    }
    let said = serde_json::from_slice(body).map_or_else(
        |_| String::from_utf8_lossy(body).into_owned(),
        |said: Said| said.message,
    );
    crate::text::printable_line(said.trim())
}

async fn bounded(socket: &Path, path: &str) -> io::Result<(StatusCode, HeaderMap, Bytes)> {
    let asked = tokio::time::timeout(PATIENCE, ask(Method::GET, socket, path)).await;
    asked.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

async fn ask(
    method: Method,
    socket: &Path,
    path: &str,
) -> io::Result<(StatusCode, HeaderMap, Bytes)> {
    ask_with(method, socket, path, Full::default()).await
}

async fn ask_with(
    method: Method,
    socket: &Path,
    path: &str,
    body: Full<Bytes>,
) -> io::Result<(StatusCode, HeaderMap, Bytes)> {
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path);
    let request = request
        .header("host", "engine")
        .header("content-type", "application/json");
    let request = request.body(body).map_err(io::Error::other)?;
    let answered = async {
        let answer = sender
            .send_request(request)
            .await
            .map_err(io::Error::other)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = Limited::new(answer.into_body(), LONGEST);
        let body = body.collect().await.map_err(io::Error::other)?;
        Ok((status, headers, body.to_bytes()))
    };
    let answered = answered.await;
    connection.abort();
    answered
}

/// A value in a query.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// What is listed at a socket that gives these answers, each to one question.
    async fn listed(answers: &'static [(u16, &'static str)]) -> io::Result<Vec<u8>> {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = std::thread::spawn(move || {
            for (status, body) in answers {
                let (mut client, _) = listener.accept().unwrap();
                assert!(client.read(&mut [0; 1 << 12]).unwrap() > 0);
                let length = body.len();
                let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\n\r\n");
                client
                    .write_all(format!("{head}{body}").as_bytes())
                    .unwrap();
            }
        });
        let found = list(&socket, "/v1.41/containers/json", Some("/v4.0.0/libpod/x")).await;
        server.join().unwrap();
        found
    }

    #[tokio::test]
    async fn a_list_is_asked_for_again_where_a_container_went_meanwhile() {
        const WENT: (u16, &str) = (
            500,
            r#"{"message":"getting container from store \"92a2\": container not known"}"#,
        );
        let found = listed(&[WENT, WENT, (200, "[7]")]).await;
        assert_eq!(found.unwrap(), [7]);
        let found = listed(&[(500, r#"{"message":"the disk is on fire"}"#)]).await;
        assert!(found.unwrap_err().to_string().contains("on fire"));
    }

    /// One that is half removed is in the way for good.
    #[tokio::test]
    async fn a_list_that_is_never_given_is_asked_for_by_another_way() {
        const WENT: &str =
            r#"{"message":"getting container from store \"92a2\": container not known"}"#;
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (mut client, mut asked) = (client.unwrap(), [0; 1 << 12]);
                let read = client.read(&mut asked).unwrap();
                let other = String::from_utf8_lossy(&asked[..read]).starts_with("GET /other ");
                let (status, body) = if other { (200, "[7]") } else { (500, WENT) };
                let length = body.len();
                let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\n\r\n");
                client
                    .write_all(format!("{head}{body}").as_bytes())
                    .unwrap();
            }
        });
        let found: Vec<u8> = list(&socket, "/usual", Some("/other")).await.unwrap();
        assert_eq!(found, [7]);
        let refused = list::<u8>(&socket, "/usual", None).await.unwrap_err();
        assert!(refused.to_string().contains(GONE), "{refused}");
    }
}
