//! What a client is told when its request is not carried: one status and a short text that says what to do.

use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode, Version};

use super::authority::Authority;
use crate::gateway::door::Closed;
use crate::gateway::failure::Failure;

/// A server's body as it comes, or a text of ours.
pub(crate) type Body = Either<Incoming, Full<Bytes>>;

/// A text. HTTP/1 connections end after it: what follows a refused request is not worth reading.
pub(crate) fn text(version: Version, status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Either::Right(Full::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, plain);
    if version != Version::HTTP_2 {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

pub(crate) fn bad_request(version: Version, why: &str) -> Response<Body> {
    text(
        version,
        StatusCode::BAD_REQUEST,
        format!("cofferdam: {why}\n"),
    )
}

/// 403, with the command that would open it.
pub(crate) fn refused(
    version: Version,
    to: &Authority,
    why: &str,
    opens: Option<&str>,
) -> Response<Body> {
    let mut body = format!("cofferdam: {to} is refused: {why}\n");
    if let Some(rule) = opens {
        body.push_str("to allow it, on the host: cofferdam allow ");
        body.push_str(rule);
        body.push('\n');
    }
    text(version, StatusCode::FORBIDDEN, body)
}

pub(crate) fn closed(version: Version, to: &Authority, closed: &Closed) -> Response<Body> {
    match closed {
        Closed::Refused { reason, opens } => refused(version, to, reason, opens.as_deref()),
        Closed::Failed(failure) => failed(version, to, failure),
    }
}

/// 502: allowed, and could not be done. 504: not in time.
pub(crate) fn failed(version: Version, to: &Authority, failure: &Failure) -> Response<Body> {
    let why = &failure.reason;
    let body = format!("cofferdam: {to} is allowed, and could not be reached: {why}\n");
    let status = if failure.late {
        StatusCode::GATEWAY_TIMEOUT
    } else {
        StatusCode::BAD_GATEWAY
    };
    text(version, status, body)
}
