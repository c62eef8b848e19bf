//! For tests: a door with a real policy that dials real servers on loopback.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::budget::Budget;
use super::door::{Closed, Door, Objection, Way};
use super::failure::Failure;
use super::flows::Flow;
use super::wanted::Wanted;
use crate::log::Via;
use crate::{Allowed, Destination, Kind, Origin, Policy, Protocol, Refusal, Rule};

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Both ends of a connection.
pub(crate) async fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap());
    let (near, accepted) = tokio::join!(near, listener.accept());
    (near.unwrap(), accepted.unwrap().0)
}

#[derive(Debug, Clone)]
pub(crate) struct Lab(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    policy: Policy,
    servers: Mutex<HashMap<String, SocketAddr>>,
    refused: Mutex<Vec<String>>,
    opens: Mutex<Vec<(bool, Option<String>)>>,
    late: Mutex<Vec<String>>,
    dialled: Mutex<Vec<String>>,
    budget: Budget,
    end: CancellationToken,
    sent: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
}

impl Lab {
    pub(crate) fn new(rules: &[&str]) -> Self {
        let rules = rules.iter().map(|text| Rule::parse(text, Origin::Flag));
        let policy = Policy::compile(rules.collect::<Result<_, _>>().unwrap()).unwrap();
        Self(Arc::new(Inner {
            policy,
            servers: Mutex::default(),
            refused: Mutex::default(),
            opens: Mutex::default(),
            late: Mutex::default(),
            dialled: Mutex::default(),
            budget: Budget::default(),
            end: CancellationToken::new(),
            sent: Arc::default(),
            received: Arc::default(),
        }))
    }

    /// Puts a server where `to` (`HOST:PORT`) leads.
    pub(crate) fn serve(&self, to: &str, server: SocketAddr) {
        self.0.servers.lock().unwrap().insert(to.to_owned(), server);
    }

    /// What is at `to` does not answer in time.
    pub(crate) fn hesitate(&self, to: &str) {
        self.0.late.lock().unwrap().push(to.to_owned());
    }

    pub(crate) fn refused(&self) -> Vec<String> {
        self.0.refused.lock().unwrap().clone()
    }

    pub(crate) fn dialled(&self) -> Vec<String> {
        self.0.dialled.lock().unwrap().clone()
    }

    /// The rules of all open connections go.
    pub(crate) fn end(&self) {
        self.0.end.cancel();
    }

    pub(crate) fn bytes(&self) -> (u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (load(&self.0.sent), load(&self.0.received))
    }

    fn ask(&self, wanted: &Wanted, port: u16) -> Result<Allowed<'_>, Refusal> {
        let destination = match wanted {
            Wanted::Name(name) => Destination::Name(name),
            Wanted::Address(address) => Destination::Address(*address),
        };
        self.0.policy.decide(&crate::Request {
            destination,
            port,
            protocol: Protocol::Tcp,
        })
    }

    /// Of every objection: whether it was to one request, and the rule that would open it.
    pub(crate) fn opens(&self) -> Vec<(bool, Option<String>)> {
        self.0.opens.lock().unwrap().clone()
    }

    fn note(&self, wanted: &Wanted, port: u16, why: &str) {
        let what = format!("{}: {why}", text(wanted, port));
        self.0.refused.lock().unwrap().push(what);
    }
}

fn text(wanted: &Wanted, port: u16) -> String {
    match wanted {
        Wanted::Name(name) => format!("{name}:{port}"),
        Wanted::Address(address) => SocketAddr::new(*address, port).to_string(),
    }
}

impl Door for Lab {
    fn decide(&self, wanted: &Wanted, port: u16, _: Via) -> Result<Kind, Closed> {
        match self.ask(wanted, port) {
            Ok(allowed) => Ok(allowed.kind),
            Err(refusal) => {
                self.note(wanted, port, &refusal.to_string());
                Err(Closed::Refused {
                    reason: refusal.to_string(),
                    opens: refusal.opening_rule(),
                })
            }
        }
    }

    async fn dial(&self, wanted: &Wanted, port: u16, via: Via) -> Result<Way, Closed> {
        let kind = self.decide(wanted, port, via)?;
        let to = text(wanted, port);
        self.0.dialled.lock().unwrap().push(to.clone());
        if self.0.late.lock().unwrap().contains(&to) {
            return Err(Closed::Failed(Failure::late("no answer".to_owned())));
        }
        let server = self.0.servers.lock().unwrap().get(&to).copied();
        let server =
            server.ok_or_else(|| Closed::Failed(Failure::new("no such name".to_owned())))?;
        let stream = TcpStream::connect(server).await;
        Ok(Way {
            stream: stream.map_err(|error| Closed::Failed(Failure::new(error.to_string())))?,
            kind,
            flow: Flow {
                end: self.0.end.child_token(),
                sent: Arc::clone(&self.0.sent),
                received: Arc::clone(&self.0.received),
                entry: None,
            },
        })
    }

    fn budget(&self) -> &Budget {
        &self.0.budget
    }

    fn opening_rule(&self, wanted: &Wanted, port: u16) -> Option<String> {
        self.ask(wanted, port).err()?.opening_rule()
    }

    fn refused(&self, objection: &Objection<'_>) {
        match objection.to {
            Some((wanted, port)) => self.note(wanted, port, objection.reason),
            None => self
                .0
                .refused
                .lock()
                .unwrap()
                .push(objection.reason.to_owned()),
        }
        let opens = objection.opens.map(str::to_owned);
        self.0
            .opens
            .lock()
            .unwrap()
            .push((objection.is_request, opens));
    }
}

/// Requests as a web server saw them: `METHOD HOST PATH BODY`.
pub(crate) type Seen = Arc<Mutex<Vec<String>>>;

/// A web server of either version that tells what it saw: by path `/redirect`, `/drip` (a piece, and the end
/// of the body only after `release`), `/trailers`; otherwise the headers of the request.
pub(crate) async fn web(two: bool, release: CancellationToken) -> (SocketAddr, Seen) {
    let seen = Seen::default();
    let saw = Arc::clone(&seen);
    let address = accept(move |stream| {
        let (saw, release) = (Arc::clone(&saw), release.clone());
        async move {
            let service =
                service_fn(move |request| respond(request, Arc::clone(&saw), release.clone()));
            let io = TokioIo::new(stream);
            let _ = if two {
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(io, service)
                    .await
            } else {
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(io, service)
                    .await
            };
        }
    })
    .await;
    (address, seen)
}

type Reply = UnsyncBoxBody<Bytes, Infallible>;

async fn respond(
    request: Request<Incoming>,
    saw: Seen,
    release: CancellationToken,
) -> Result<Response<Reply>, hyper::Error> {
    let (head, body) = request.into_parts();
    let host = match head.uri.authority() {
        Some(authority) => authority.to_string(),
        None => head.headers["host"].to_str().unwrap().to_owned(),
    };
    let body = String::from_utf8_lossy(&body.collect().await?.to_bytes()).into_owned();
    let line = format!("{} {host} {} {body}", head.method, head.uri.path());
    saw.lock().unwrap().push(line.trim_end().to_owned());
    let headers = Full::from(format!("{:?}\n", head.headers)).boxed_unsync();
    let mut response = Response::new(headers);
    match head.uri.path() {
        "/redirect" => {
            *response.status_mut() = hyper::StatusCode::FOUND;
            let to = HeaderValue::from_static("http://denied.test/");
            response.headers_mut().insert("location", to);
        }
        "/drip" => *response.body_mut() = pieces(release).boxed_unsync(),
        "/trailers" => {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            let with = Full::from("body").with_trailers(async move { Some(Ok(trailers)) });
            *response.body_mut() = with.boxed_unsync();
        }
        _ => {}
    }
    Ok(response)
}

/// A piece at once, another one after `release`.
fn pieces(release: CancellationToken) -> Pieces {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _ = sender.send(Bytes::from("first")).await;
        release.cancelled().await;
        let _ = sender.send(Bytes::from("last")).await;
    });
    Pieces(receiver)
}

struct Pieces(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// A server of anything that says `greeting` at once, then gives back what it gets. Tells what it got.
pub(crate) async fn echo(greeting: &'static str) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let got = Arc::<Mutex<Vec<u8>>>::default();
    let gets = Arc::clone(&got);
    let address = accept(move |mut stream| {
        let gets = Arc::clone(&gets);
        async move {
            let _ = stream.write_all(greeting.as_bytes()).await;
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut piece).await {
                gets.lock().unwrap().extend_from_slice(&piece[..count]);
                let _ = stream.write_all(&piece[..count]).await;
            }
        }
    })
    .await;
    (address, got)
}

/// A listener on loopback that gives each connection to `serve`.
pub(crate) async fn accept<F, S>(serve: S) -> SocketAddr
where
    S: Fn(TcpStream) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// A client of what listens at this address.
pub(crate) struct Program(pub(crate) TcpStream);

impl Program {
    pub(crate) async fn connect(to: SocketAddr) -> Self {
        Self(TcpStream::connect(to).await.unwrap())
    }

    pub(crate) async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads until `end` has come.
    pub(crate) async fn until(&mut self, end: &str) -> String {
        let mut all = Vec::new();
        let read = async {
            while !all.ends_with(end.as_bytes()) {
                all.push(self.0.read_u8().await.unwrap());
            }
        };
        let done = tokio::time::timeout(LIMIT, read).await;
        let all = String::from_utf8_lossy(&all).into_owned();
        assert!(done.is_ok(), "{end:?} did not come, but: {all}");
        all
    }

    /// Reads so many bytes.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<u8> {
        let mut all = vec![0; count];
        let read = tokio::time::timeout(LIMIT, self.0.read_exact(&mut all)).await;
        read.unwrap().unwrap();
        all
    }

    /// Reads until the connection ends; whether that is a reset.
    pub(crate) async fn is_reset(&mut self) -> bool {
        let mut all = Vec::new();
        let read = tokio::time::timeout(LIMIT, self.0.read_to_end(&mut all)).await;
        matches!(read, Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionReset)
    }

    /// Reads until the connection ends.
    pub(crate) async fn rest(&mut self) -> String {
        let mut all = Vec::new();
        // A reset is an end as well.
        let read = self.0.read_to_end(&mut all);
        let done = tokio::time::timeout(LIMIT, read).await;
        let all = String::from_utf8_lossy(&all).into_owned();
        assert!(done.is_ok(), "the connection did not end after: {all}");
        all
    }
}

/// A client hello with these bytes as its server name; without, none.
pub(crate) fn client_hello(name: Option<&[u8]>) -> Vec<u8> {
    let long = |content: &[u8]| {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&length[..], content].concat()
    };
    let mut extensions = [&[0, 10][..], &long(&[0, 2, 0, 29])].concat();
    if let Some(name) = name {
        let names = long(&[&[0][..], &long(name)].concat());
        extensions.extend([&[0, 0][..], &long(&names)].concat());
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend(long(&extensions));
    let message = [&[1, 0][..], &long(&body)].concat();
    [&[22, 3, 1][..], &long(&message)].concat()
}

/// The head of a server's hello, as far as it is looked at; or of its request for another client hello.
pub(crate) fn server_hello(retry: bool) -> Vec<u8> {
    const RETRY: &str = "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c";
    let random: Vec<u8> = (0..64)
        .step_by(2)
        .map(|at| u8::from_str_radix(&RETRY[at..at + 2], 16).unwrap())
        .map(|byte| if retry { byte } else { !byte })
        .collect();
    let rest = [0, 0x13, 1, 0, 0, 0];
    let message = [&[2, 0, 0, 40, 3, 3], &random[..], &rest].concat();
    [&[22, 3, 3, 0, 44], &message[..]].concat()
}
