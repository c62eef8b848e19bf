//! The servers of the internet: at every address the same, each writes down who came and what for.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HOST, LOCATION};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio_rustls::LazyConfigAcceptor;

use super::world::{Visit, World, locked};
use super::{port, tls};

#[derive(Debug, Clone, Copy)]
enum Trade {
    Http,
    Tls,
    Banner,
    Echo,
}

pub(crate) fn start(world: Arc<World>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let secure = tls::server()?;
    let listeners = runtime.block_on(async {
        let mut listeners = Vec::new();
        for (ports, trade) in [
            (&port::HTTP[..], Trade::Http),
            (&port::TLS, Trade::Tls),
            (&port::BANNER, Trade::Banner),
            (&port::ECHO, Trade::Echo),
        ] {
            for port in ports {
                let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port)).await?;
                listeners.push((listener, trade));
            }
        }
        io::Result::Ok(listeners)
    })?;
    std::thread::spawn(move || {
        runtime.block_on(async move {
            let mut servers = tokio::task::JoinSet::new();
            for (listener, trade) in listeners {
                servers.spawn(accept(
                    listener,
                    trade,
                    Arc::clone(&secure),
                    Arc::clone(&world),
                ));
            }
            servers.join_all().await;
        });
    });
    Ok(())
}

async fn accept(listener: TcpListener, trade: Trade, secure: Arc<ServerConfig>, world: Arc<World>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let secure = Arc::clone(&secure);
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            // A visitor who leaves early is no failure of ours.
            let _ = serve(stream, trade, secure, world).await;
        });
    }
}

async fn serve(
    mut stream: TcpStream,
    trade: Trade,
    secure: Arc<ServerConfig>,
    world: Arc<World>,
) -> io::Result<()> {
    let local = stream.local_addr()?;
    let at = SocketAddr::new(local.ip().to_canonical(), local.port());
    note(&world, at, "connection");
    match trade {
        Trade::Http => requests(stream, at, world).await,
        Trade::Tls => {
            // Written down before the certificate is sent: a hello alone is a visit.
            let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
            let name = start.client_hello().server_name().map(str::to_owned);
            note(&world, at, &format!("tls {}", name.unwrap_or_default()));
            requests(start.into_stream(secure).await?, at, world).await
        }
        Trade::Banner => {
            stream
                .write_all(format!("SSH-2.0-lab {at}\r\n").as_bytes())
                .await?;
            repeat(stream, at, world).await
        }
        Trade::Echo => repeat(stream, at, world).await,
    }
}

async fn repeat(mut stream: TcpStream, at: SocketAddr, world: Arc<World>) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 14];
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        note(&world, at, &String::from_utf8_lossy(&buffer[..length]));
        stream.write_all(&buffer[..length]).await?;
    }
}

async fn requests<S>(stream: S, at: SocketAddr, world: Arc<World>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let service = service_fn(move |request| {
        let answer = answer(&request, at, &world);
        async move { Ok::<_, Infallible>(answer) }
    });
    auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await
        .map_err(io::Error::other)
}

/// What was asked, as JSON; or the redirection that was asked for.
fn answer(request: &Request<Incoming>, at: SocketAddr, world: &World) -> Response<Full<Bytes>> {
    let header = |name| {
        let value = request.headers().get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let host = header(HOST)
        .or_else(|| request.uri().authority().map(ToString::to_string))
        .unwrap_or_default();
    let seen = format!("{} {} host={host}", request.method(), request.uri());
    note(
        world,
        at,
        &format!("request {seen} {:?}", request.headers()),
    );
    let body = serde_json::json!({
        "at": at,
        "method": request.method().as_str(),
        "uri": request.uri().to_string(),
        "host": host,
        "version": format!("{:?}", request.version()),
    });
    let mut response = Response::new(Full::from(body.to_string()));
    if let (Some("/redirect"), Some(to)) = (
        Some(request.uri().path()),
        request.uri().query().and_then(|to| to.parse().ok()),
    ) {
        *response.status_mut() = StatusCode::FOUND;
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

fn note(world: &World, at: SocketAddr, what: &str) {
    let what = what.chars().take(4096).collect();
    locked(&world.visits).push(Visit { at, what });
}
