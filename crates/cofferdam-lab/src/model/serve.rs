//! The server's side of HTTP: reads a request whole, sends an answer in its pieces.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::sync::mpsc;

use super::answer::{Answer, End};
use super::request::Request;
use super::stage::Stage;

/// The largest request: 64 MiB.
const LIMIT: usize = 64 << 20;

type Body = UnsyncBoxBody<Bytes, io::Error>;

pub(super) async fn serve(listener: TcpListener, stage: Arc<Stage>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    while let Ok((connection, _)) = listener.accept().await {
        let stage = stage.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| one(request, stage.clone()));
            let connection = TokioIo::new(connection);
            // A program that leaves in the middle is a normal end.
            let _ = http1::Builder::new()
                .serve_connection(connection, service)
                .await;
        });
    }
}

async fn one(
    request: hyper::Request<Incoming>,
    stage: Arc<Stage>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let bytes = match Limited::new(body, LIMIT).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    let headers = head.headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), value)
    });
    let request = Request {
        method: head.method.to_string(),
        path: head.uri.to_string(),
        headers: headers.collect(),
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
    };
    Ok(match stage.answer(&request) {
        Answer::Whole {
            status,
            retry_after,
            body,
        } => {
            let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
            let mut response = Response::new(body.boxed_unsync());
            *response.status_mut() =
                StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            if let Some(seconds) = retry_after {
                headers.insert(RETRY_AFTER, seconds.into());
            }
            response
        }
        Answer::Stream { events, pause, end } => {
            let (sender, receiver) = mpsc::channel(1);
            tokio::spawn(send(events, pause, end, sender, stage));
            let frames = stream::unfold(receiver, async |mut receiver| {
                let frame = receiver.recv().await?;
                Some((frame, receiver))
            });
            let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            response
        }
    })
}

type Piece = Result<Frame<Bytes>, io::Error>;

/// Sends the events, until the program leaves.
async fn send(
    events: Vec<Value>,
    pause: Duration,
    end: End,
    sender: mpsc::Sender<Piece>,
    stage: Arc<Stage>,
) {
    for event in events {
        // Some programs read no stream whose events have names that they do not expect.
        let kind = event["type"].as_str();
        let kind = kind.map_or_else(String::new, |kind| format!("event: {kind}\n"));
        let event = event
            .as_str()
            .map_or_else(|| event.to_string(), str::to_owned);
        let text = format!("{kind}data: {event}\n\n");
        if sender.send(Ok(Frame::data(text.into()))).await.is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
    match end {
        End::Proper => {}
        End::Cut => {
            let _ = sender
                .send(Err(io::ErrorKind::ConnectionReset.into()))
                .await;
        }
        End::Hang => {
            stage.note(|seen| seen.hanging += 1);
            sender.closed().await;
            stage.note(|seen| seen.left += 1);
        }
    }
}
