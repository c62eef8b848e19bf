//! The proxy port of a sandbox, for programs that want one: SOCKS5, CONNECT, and requests with a whole
//! `http://` address. It opens nothing that the transparent way does not.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use self::socks::{Reply, SocksError};
use super::copy::{both_ways, both_ways_compared, reset_on_close};
use super::door::{Closed, Door, Objection, Way};
use super::failure::Failure;
use super::hello::{self, Named};
use super::hello_error::HelloError;
use super::http::answer::{self, Body};
use super::http::authority::Authority;
use super::http::screen::Screen;
use super::http::{self, Requests};
use super::stream::Client;
use super::wanted::Wanted;
use crate::Kind;
use crate::log::Via;

mod socks;

#[cfg(test)]
mod tests;

/// For a SOCKS5 handshake to be complete.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Serves one connection to the proxy port until it ends.
pub(crate) async fn serve<D: Door>(client: TcpStream, door: D) {
    // Small pieces go at once. Fails if the connection is gone already.
    _ = client.set_nodelay(true);
    let mut first = [0];
    let peeked = tokio::time::timeout(HANDSHAKE, client.peek(&mut first)).await;
    let Ok(Ok(1)) = peeked else {
        return;
    };
    // Nothing to tell anybody: what was refused is logged, and a connection that breaks is over.
    let _ = if first == [socks::VERSION] {
        socks5(client, door).await
    } else {
        web(client, door).await
    };
}

async fn socks5<D: Door>(mut client: TcpStream, door: D) -> io::Result<()> {
    let request = socks::request(&mut client);
    let (wanted, port) = match tokio::time::timeout(HANDSHAKE, request).await? {
        Ok(asked) => asked,
        Err(SocksError::Io(error)) => return Err(error),
        Err(answered @ SocksError::Answered(_)) => {
            unreadable(&door, Via::Socks5, &answered.to_string());
            return client.shutdown().await;
        }
    };
    let to = Authority { wanted, port };
    match Tunnel::open(&to, &door, Via::Socks5).await {
        Ok(tunnel) => {
            socks::reply(&mut client, Reply::Succeeded).await?;
            tunnel.carry(client, Vec::new(), door).await
        }
        Err(closed) => {
            let reply = match closed {
                Closed::Refused { .. } => Reply::NotAllowed,
                Closed::Failed(_) => Reply::HostUnreachable,
            };
            socks::reply(&mut client, reply).await?;
            client.shutdown().await
        }
    }
}

/// HTTP to the proxy. A CONNECT is the last request of its connection.
async fn web<D: Door>(client: TcpStream, door: D) -> io::Result<()> {
    let requests = Requests::new(None, door.clone(), Via::Http);
    let connect = Arc::new(Mutex::new(None));
    let client = Client::new(Vec::new(), client);
    let idle = client.idle(http::IDLE);
    let service = {
        let (requests, connect, door) = (requests.clone(), Arc::clone(&connect), door.clone());
        service_fn(move |request| {
            let (requests, connect) = (requests.clone(), Arc::clone(&connect));
            let door = door.clone();
            // To get the stream back from the server, its future must be one that may move.
            Box::pin(async move {
                let response = if request.method() == Method::CONNECT {
                    accept(&request, &door, &connect).await
                } else {
                    requests.answer(request).await
                };
                Ok::<_, Infallible>(response)
            })
        })
    };
    let screen = Screen::new(client, http::HEAD_TIME, door.budget());
    let dirty = screen.dirty();
    let mut connection = http::one().serve_connection(TokioIo::new(screen), service);
    let ended = tokio::select! {
        ended = poll_fn(|context| connection.poll_without_shutdown(context)) => ended,
        () = idle => return Ok(()),
        () = requests.over.cancelled() => Ok(()),
    };
    http::tell_unread(&dirty, &ended, None, &door, Via::Http);
    ended.map_err(io::Error::other)?;
    let parts = connection.into_parts();
    let (unseen, client) = parts.io.into_inner().into_parts();
    let (unread, mut client) = client.into_parts();
    if requests.over.is_cancelled() {
        reset_on_close(&client);
        return Ok(());
    }
    let tunnel = connect
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    match tunnel {
        // What the client sent before it had its answer.
        Some(tunnel) => {
            let kept = [&parts.read_buf[..], &unseen, &unread].concat();
            tunnel.carry(client, kept, door).await
        }
        None => client.shutdown().await,
    }
}

/// Decides about a CONNECT. After a 200 the tunnel is in `connect`.
async fn accept<D: Door>(
    request: &Request<Incoming>,
    door: &D,
    connect: &Mutex<Option<Tunnel>>,
) -> Response<Body> {
    let version = request.version();
    let target = request.uri().authority().map_or("", |text| text.as_str());
    let to = match Authority::parse(target, None) {
        Ok(to) if request.uri().scheme().is_none() => to,
        read => {
            let why = read.map_or_else(
                |error| error.to_string(),
                |_| "CONNECT takes HOST:PORT".to_owned(),
            );
            unreadable(door, Via::Connect, &why);
            return answer::bad_request(version, &why);
        }
    };
    match Tunnel::open(&to, door, Via::Connect).await {
        Ok(tunnel) => {
            *connect.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
            let mut response = answer::text(version, StatusCode::OK, String::new());
            response.headers_mut().clear();
            response
        }
        Err(closed) => answer::closed(version, &to, &closed),
    }
}

/// A connection through the proxy that policy allows: dialled already where nothing in it is looked at.
#[derive(Debug)]
struct Tunnel {
    to: Authority,
    via: Via,
    kind: Kind,
    way: Option<Way>,
}

impl Tunnel {
    async fn open<D: Door>(to: &Authority, door: &D, via: Via) -> Result<Self, Closed> {
        let kind = door.decide(&to.wanted, to.port, via)?;
        let way = match kind {
            Kind::Plain => Some(dial(to, kind, door, via).await?),
            Kind::Tls | Kind::Http => None,
        };
        Ok(Self {
            to: to.clone(),
            via,
            kind,
            way,
        })
    }

    async fn carry<D: Door>(self, mut client: TcpStream, kept: Vec<u8>, door: D) -> io::Result<()> {
        let Self { to, via, kind, way } = self;
        match (way, kind, &to.wanted) {
            (Some(way), ..) => copy(client, &kept, way).await,
            (None, Kind::Http, Wanted::Name(name)) => {
                http::carry(Client::new(kept, client), name, to.port, door, via).await;
                Ok(())
            }
            (None, Kind::Tls, Wanted::Name(name)) => {
                let Named { hello, retry } =
                    match hello::read(&mut client, &kept, name, door.budget()).await {
                        Ok(named) => named,
                        Err(HelloError::Ended(error)) => return Err(error),
                        Err(refused) => {
                            object(&door, &to, via, &refused.to_string());
                            return Ok(());
                        }
                    };
                match dial(&to, kind, &door, via).await {
                    Ok(mut way) => {
                        first(&mut way, &hello).await?;
                        match both_ways_compared(client, way.stream, &way.flow, retry).await {
                            Ok(()) => Ok(()),
                            Err(HelloError::Ended(error)) => Err(error),
                            Err(refused) => {
                                object(&door, &to, via, &refused.to_string());
                                Ok(())
                            }
                        }
                    }
                    // Logged by whoever dialled; TLS has no place for a reason.
                    Err(_) => Ok(()),
                }
            }
            (None, ..) => {
                object(&door, &to, via, &HelloError::NoName.to_string());
                Ok(())
            }
        }
    }
}

/// Dials what was decided about. A rule that changed in between is no longer that decision.
async fn dial<D: Door>(to: &Authority, kind: Kind, door: &D, via: Via) -> Result<Way, Closed> {
    let way = door.dial(&to.wanted, to.port, via).await?;
    if way.kind == kind {
        Ok(way)
    } else {
        Err(Closed::Failed(Failure::new(
            "its rule changed just now: try again".to_owned(),
        )))
    }
}

/// Logs that it cannot be read where a connection is to go.
fn unreadable(door: &impl Door, via: Via, reason: &str) {
    door.refused(&Objection {
        to: None,
        via,
        is_request: false,
        reason,
        opens: None,
    });
}

fn object(door: &impl Door, to: &Authority, via: Via, reason: &str) {
    door.refused(&Objection {
        to: Some((&to.wanted, to.port)),
        via,
        is_request: false,
        reason,
        opens: None,
    });
}

/// Both directions, until both have ended or the rule goes; `kept` was read before.
async fn copy(client: TcpStream, kept: &[u8], mut way: Way) -> io::Result<()> {
    first(&mut way, kept).await?;
    both_ways(client, way.stream, &way.flow).await;
    Ok(())
}

/// Sends the server what was read before it was dialled; an error if the rule goes meanwhile.
async fn first(way: &mut Way, bytes: &[u8]) -> io::Result<()> {
    let flow = &way.flow;
    tokio::select! {
        biased;
        () = flow.end.cancelled() => return Err(io::ErrorKind::ConnectionAborted.into()),
        written = way.stream.write_all(bytes) => written?,
    }
    flow.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    Ok(())
}
