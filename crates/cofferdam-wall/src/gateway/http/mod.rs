//! HTTP in the clear: every request is read, compared with the place that policy named, and written anew.
//!
//! - [`carry`]: a connection to one place. [`Requests`]: one place or many, as a proxy has them.
//! - [`framing`], [`screen`]: no request reaches the HTTP library that two programs could read differently.
//! - [`authority`]: whom a request is for. [`forward`]: the server's side. [`answer`]: our own responses.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, OnceLock};

use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version, header};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio_util::sync::CancellationToken;

use self::answer::Body;
use self::authority::{Asked, Authority, Malformed};
use self::forward::Upstream;
use self::framing::{Dirty, Framing};
use self::limits::{BETWEEN, MAX_HEADERS, MAX_LIST, MAX_RESETS, MAX_STREAMS, PREFACE, TWO};
pub(crate) use self::limits::{HEAD_TIME, IDLE};
use self::screen::Screen;
use super::door::{Door, Objection};
use super::stream::{Abort, Client, Ending};
use super::wanted::Wanted;
use crate::log::Via;
use crate::{HostName, Kind};

pub(crate) mod answer;
pub(crate) mod authority;
mod forward;
mod framing;
mod greeting;
mod limits;
pub(crate) mod screen;

#[cfg(test)]
mod tests;

/// Carries a connection that may talk to `place` and to nobody else. The server is dialled when the first
/// acceptable request has come.
pub(crate) async fn carry<S, D>(client: S, wanted: &HostName, port: u16, door: D, via: Via)
where
    S: AsyncRead + AsyncWrite + Abort + Unpin + Send + 'static,
    D: Door,
{
    let only = Authority {
        wanted: Wanted::Name(wanted.clone()),
        port,
    };
    let requests = Requests::new(Some(only.clone()), door.clone(), via);
    // Nothing to tell anybody: what was refused is logged, and a connection that breaks is over.
    let client = Ending::new(client, requests.over.clone());
    let Ok((client, two)) = sniff(client).await else {
        return;
    };
    let idle = client.idle(IDLE);
    if two {
        // Heads in pieces wait inside the library: what one connection may have of them is taken at once.
        let mut share = door.budget().share();
        if let Err(spent) = share.set(TWO) {
            return requests.object(Some(&only), &spent.to_string(), None);
        }
        tokio::select! {
            () = serve_two(client, requests.clone()) => {}
            () = idle => {}
            () = requests.over.cancelled() => {}
        }
        return;
    }
    let screen = Screen::new(client, HEAD_TIME, door.budget());
    let dirty = screen.dirty();
    let service = requests.clone();
    let connection = one().serve_connection(
        TokioIo::new(screen),
        service_fn(move |request| {
            let requests = service.clone();
            async move { Ok::<_, Infallible>(requests.answer(request).await) }
        }),
    );
    let ended = tokio::select! {
        ended = connection => ended,
        () = idle => Ok(()),
        () = requests.over.cancelled() => Ok(()),
    };
    tell_unread(&dirty, &ended, Some(&only), &door, via);
}

/// Logs a request that was not in order or could not be read; `to` is whom it was to, where that is known.
pub(crate) fn tell_unread<D: Door>(
    dirty: &OnceLock<Dirty>,
    ended: &hyper::Result<()>,
    to: Option<&Authority>,
    door: &D,
    via: Via,
) {
    let reason = match (dirty.get(), ended) {
        (Some(dirty), _) => dirty.to_string(),
        (None, Err(error)) if error.is_parse() => "the request cannot be read".to_owned(),
        _ => return,
    };
    door.refused(&Objection {
        to: to.map(|to| (&to.wanted, to.port)),
        via,
        is_request: true,
        reason: &reason,
        opens: None,
    });
}

/// The HTTP/1 server, strict and bounded.
pub(crate) fn one() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(BETWEEN)
        .max_headers(MAX_HEADERS)
        .max_buf_size(Framing::MAX_HEAD * 2);
    builder
}

async fn serve_two<S, D>(client: Client<S>, requests: Requests<D>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    D: Door,
{
    let service = service_fn(move |request| {
        let requests = requests.clone();
        async move { Ok::<_, Infallible>(requests.answer(request).await) }
    });
    let _ = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_RESETS)
        .max_header_list_size(MAX_LIST)
        .serve_connection(TokioIo::new(client), service)
        .await;
}

/// Reads until it is clear which version is spoken.
async fn sniff<S: AsyncRead + Unpin>(mut client: S) -> io::Result<(Client<S>, bool)> {
    let mut kept = Vec::with_capacity(PREFACE.len());
    let read = async {
        while kept.len() < PREFACE.len() && PREFACE.starts_with(&kept) {
            let mut piece = [0; PREFACE.len()];
            let count = client.read(&mut piece[kept.len()..]).await?;
            if count == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            let end = kept.len() + count;
            kept.extend_from_slice(&piece[kept.len()..end]);
        }
        Ok::<_, io::Error>(())
    };
    tokio::time::timeout(HEAD_TIME, read).await??;
    let two = kept == PREFACE;
    Ok((Client::new(kept, client), two))
}

/// The requests of one client connection: checked one by one.
#[derive(Debug, Clone)]
pub(crate) struct Requests<D> {
    /// The one place they may be for; none in a proxy, where each is decided on its own.
    only: Option<Authority>,
    door: D,
    via: Via,
    upstream: Arc<Upstream<D>>,
    /// The connection must end: a rule has gone.
    pub(crate) over: CancellationToken,
}

impl<D: Door> Requests<D> {
    pub(crate) fn new(only: Option<Authority>, door: D, via: Via) -> Self {
        let over = CancellationToken::new();
        Self {
            only,
            upstream: Arc::new(Upstream::new(door.clone(), via, over.clone())),
            door,
            via,
            over,
        }
    }

    /// The response to one request, whatever is in it.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let version = request.version();
        let (head, body) = request.into_parts();
        let asked = authority::asked(&head);
        let request = Request::from_parts(head, body);
        let asked = match asked {
            Ok(asked) => asked,
            Err(malformed) => return self.malformed(version, &malformed),
        };
        if let Some(response) = self.refuse(version, &asked) {
            return response;
        }
        let to = asked.authority;
        if wants_upgrade(request.headers()) {
            let why = "upgrades are not carried where requests are checked";
            let opens = format!("{to} plain");
            let text = format!(
                "cofferdam: {why}: a websocket to {to} needs a plain rule\n\
                 to allow it, on the host: cofferdam allow '{opens}'\n"
            );
            self.object(Some(&to), why, Some(&opens));
            return answer::text(version, StatusCode::NOT_IMPLEMENTED, text);
        }
        self.upstream.carry(&to, request).await
    }

    /// The response to a request that policy does not let through.
    fn refuse(&self, version: Version, asked: &Asked) -> Option<Response<Body>> {
        let to = &asked.authority;
        if let Some(only) = &self.only {
            if to == only {
                return None;
            }
            let why = format!("this connection is to {only}");
            let opens = self.door.opening_rule(&to.wanted, to.port);
            self.object(Some(to), &why, opens.as_deref());
            return Some(answer::refused(version, to, &why, opens.as_deref()));
        }
        if !asked.absolute {
            let why = "this port is the sandbox's proxy (CONNECT, http:// requests and SOCKS5), not a web server: set it as a proxy, or use no proxy at all";
            self.object(None, why, None);
            return Some(answer::bad_request(version, why));
        }
        match self.door.decide(&to.wanted, to.port, self.via) {
            Err(closed) => Some(answer::closed(version, to, &closed)),
            Ok(Kind::Tls) => {
                let why = "its rule says tls: use https, which goes through CONNECT";
                self.object(Some(to), why, None);
                Some(answer::refused(version, to, why, None))
            }
            Ok(Kind::Http | Kind::Plain) => None,
        }
    }

    fn object(&self, to: Option<&Authority>, reason: &str, opens: Option<&str>) {
        self.door.refused(&Objection {
            to: to.map(|to| (&to.wanted, to.port)),
            via: self.via,
            is_request: true,
            reason,
            opens,
        });
    }

    fn malformed(&self, version: Version, malformed: &Malformed) -> Response<Body> {
        let why = malformed.to_string();
        self.object(self.only.as_ref(), &why, None);
        answer::bad_request(version, &why)
    }
}

/// Whether the client asks for another protocol. An offer of HTTP/2 may be left unanswered (RFC 9110, 7.8),
/// and some clients make it with every request.
fn wants_upgrade(headers: &header::HeaderMap) -> bool {
    headers
        .get_all(header::UPGRADE)
        .iter()
        .any(|value| !value.as_bytes().eq_ignore_ascii_case(b"h2c"))
}
