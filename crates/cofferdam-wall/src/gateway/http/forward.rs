//! One request to its server and the response back: both written anew, no byte of the client's framing
//! passes through.

use http_body_util::Either;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::{PathAndQuery, Scheme, Uri};
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::answer::{self, Body};
use super::authority::Authority;
use super::framing::Framing;
use super::greeting::Greeting;
use super::limits::{HEAD_TIME, MAX_LIST, MAX_STREAMS};
use crate::Kind;
use crate::gateway::door::{Closed, Door, Way};
use crate::gateway::failure::Failure;
use crate::gateway::flows::Flow;
use crate::gateway::stream::{Counted, Ending};
use crate::log::Via;

/// The server of one client connection: dialled for the first request, kept for the next ones to the same
/// place, shared with nobody.
#[derive(Debug)]
pub(crate) struct Upstream<D> {
    door: D,
    via: Via,
    open: Mutex<Option<Open>>,
    /// Cancelled when the rule of an open connection goes: the client's connection ends as well.
    over: CancellationToken,
}

#[derive(Debug)]
struct Open {
    to: Authority,
    sender: Sender,
    _driver: AbortOnDropHandle<()>,
}

#[derive(Debug)]
enum Sender {
    One(http1::SendRequest<Incoming>),
    Two(http2::SendRequest<Incoming>),
}

impl Open {
    async fn ready(&mut self) -> bool {
        match &mut self.sender {
            Sender::One(sender) => sender.ready().await.is_ok(),
            Sender::Two(sender) => sender.ready().await.is_ok(),
        }
    }
}

impl<D: Door> Upstream<D> {
    pub(crate) fn new(door: D, via: Via, over: CancellationToken) -> Self {
        Self {
            door,
            via,
            open: Mutex::new(None),
            over,
        }
    }

    /// Sends a request that was checked, and gives what came of it.
    pub(crate) async fn carry(&self, to: &Authority, request: Request<Incoming>) -> Response<Body> {
        let version = request.version();
        let (head, body) = request.into_parts();
        let Some(head) = outgoing(head, to) else {
            return answer::bad_request(version, "the target of the request is no path");
        };
        match self.send(to, Request::from_parts(head, body)).await {
            Ok(response) => returning(version, to, response),
            Err(closed) => answer::closed(version, to, &closed),
        }
    }

    async fn send(
        &self,
        to: &Authority,
        mut request: Request<Incoming>,
    ) -> Result<Response<Incoming>, Closed> {
        let two = request.version() == Version::HTTP_2;
        loop {
            let mut open = self.open.lock().await;
            let reused = match &mut *open {
                Some(kept) if kept.to == *to => kept.ready().await,
                _ => false,
            };
            if !reused {
                // The old one ends before the new one begins.
                *open = None;
            }
            let kept = match &mut *open {
                Some(kept) => kept,
                None => open.insert(self.dial(to, two).await?),
            };
            let sent = match &mut kept.sender {
                // One request after the other: the lock is free again with the head of the response.
                Sender::One(sender) => sender.try_send_request(request).await,
                Sender::Two(sender) => {
                    let mut sender = sender.clone();
                    drop(open);
                    sender.try_send_request(request).await
                }
            };
            match sent {
                Ok(response) => return Ok(response),
                // A server may close a kept connection at any time. What it has not seen goes over a new one.
                Err(mut failure) => match failure.take_message() {
                    Some(unsent) if reused => request = unsent,
                    _ => return Err(Closed::Failed(Failure::new(words(failure.error())))),
                },
            }
        }
    }

    async fn dial(&self, to: &Authority, two: bool) -> Result<Open, Closed> {
        let Way { stream, kind, flow } = self.door.dial(&to.wanted, to.port, self.via).await?;
        if kind == Kind::Tls {
            return Err(Closed::Refused {
                reason: "its rule says tls, and this is a request in the clear".to_owned(),
                opens: None,
            });
        }
        // Small pieces go at once. Fails if the connection is gone already.
        _ = stream.set_nodelay(true);
        let stream = Counted {
            inner: Ending::new(stream, flow.end.clone()),
            sent: flow.sent.clone(),
            received: flow.received.clone(),
        };
        let failed = |error: hyper::Error| Closed::Failed(Failure::new(words(&error)));
        let over = self.over.clone();
        let (sender, driver) = if two {
            let (stream, greeting) = Greeting::new(stream);
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(MAX_STREAMS)
                .max_header_list_size(MAX_LIST)
                .handshake(TokioIo::new(stream))
                .await
                .map_err(failed)?;
            let driver = AbortOnDropHandle::new(tokio::spawn(drive(connection, flow, over)));
            if !matches!(timeout(HEAD_TIME, greeting).await, Ok(Ok(()))) {
                let why = "the server does not speak HTTP/2".to_owned();
                return Err(Closed::Failed(Failure::new(why)));
            }
            (Sender::Two(sender), driver)
        } else {
            let (sender, connection) = http1::Builder::new()
                .max_buf_size(Framing::MAX_HEAD * 2)
                .handshake(TokioIo::new(stream))
                .await
                .map_err(failed)?;
            (
                Sender::One(sender),
                AbortOnDropHandle::new(tokio::spawn(drive(connection, flow, over))),
            )
        };
        Ok(Open {
            to: to.clone(),
            sender,
            _driver: driver,
        })
    }
}

/// Moves the bytes of a connection until it ends or its rule goes. The books close with it.
async fn drive(connection: impl Future, flow: Flow, over: CancellationToken) {
    tokio::select! {
        biased;
        () = flow.end.cancelled() => over.cancel(),
        _ = connection => {}
    }
}

/// The head of the request as the server gets it; none if it has no path.
fn outgoing(mut head: Parts, to: &Authority) -> Option<Parts> {
    let two = head.version == Version::HTTP_2;
    let path = head.uri.path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    let trailers = head.headers.get(header::TE).cloned();
    strip(&mut head.headers);
    head.headers.remove(header::HOST);
    let host = to.to_host();
    let uri = if two {
        // gRPC asks for its trailers by this (RFC 9113, 8.2.2: the one value allowed).
        if trailers.is_some_and(|te| te.as_bytes() == b"trailers") {
            let te = HeaderValue::from_static("trailers");
            head.headers.insert(header::TE, te);
        }
        Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(host)
            .path_and_query(path)
            .build()
            .ok()?
    } else {
        let host = HeaderValue::from_str(&host).ok()?;
        head.headers.insert(header::HOST, host);
        head.version = Version::HTTP_11;
        Uri::builder().path_and_query(path).build().ok()?
    };
    head.uri = uri;
    Some(head)
}

/// The response as the client gets it. A redirect is its own business.
fn returning(version: Version, to: &Authority, response: Response<Incoming>) -> Response<Body> {
    if response.status().is_informational() {
        // No upgrade was asked for: what follows would be a connection that nobody looks into.
        let why = "the server changes the protocol unasked".to_owned();
        return answer::failed(version, to, &Failure::new(why));
    }
    let (mut head, body) = response.into_parts();
    strip(&mut head.headers);
    head.extensions.clear();
    if version != Version::HTTP_2 {
        head.version = Version::HTTP_11;
    }
    Response::from_parts(head, Either::Left(body))
}

/// Takes out what is between two neighbours only (RFC 9110, 7.6.1).
fn strip(headers: &mut HeaderMap) {
    const NEIGHBOURS: [&str; 8] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "proxy-authenticate",
        "te",
        "transfer-encoding",
        "upgrade",
    ];
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // Its absence would change where the body ends, or whose request it is.
        .filter(|name| *name != header::CONTENT_LENGTH && *name != header::HOST)
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in NEIGHBOURS {
        headers.remove(name);
    }
}

/// The innermost cause: the outer ones only repeat that there is one.
fn words(error: &hyper::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
