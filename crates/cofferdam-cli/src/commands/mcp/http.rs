//! The same server over HTTP, for whoever knows a word that is in a file of the user's alone, on this machine's loopback.

use std::convert::Infallible;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use cofferdam::fsx::{self, Destination, FileError};
use cofferdam::text::printable_path;
use http_body_util::{BodyExt, Full};
use hyper::header::{AUTHORIZATION, CONNECTION, HeaderValue, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{HeaderMap, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rustix::fs::OFlags;
use tokio::net::TcpListener;

use super::handler::Handler;
use super::seats::Seats;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;
use crate::ui::shell::shell_word;

/// In Cofferdam's own directory, where nobody says another one.
const TOKEN: &str = "mcp-token";
/// Bytes of a token's file, and of a token that is made.
const LONGEST: u64 = 4096;
const RANDOM: usize = 32;
const SHORTEST: usize = 16;
/// For the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// After an error of the listener's: descriptors may be free again.
const PAUSE: Duration = Duration::from_millis(100);

/// What clients have to know.
#[derive(Debug)]
pub(super) struct Token {
    word: String,
    file: PathBuf,
}

/// Of `file`; without one it is Cofferdam's own. Either is made where it is missing.
pub(super) fn token(file: Option<&Path>, environment: &Environment) -> Result<Token, CliError> {
    let own = environment.home.path().join(TOKEN);
    let path = file.map_or(own, |file| environment.directory.join(file));
    let is_missing = path.symlink_metadata().is_err();
    if is_missing && (file.is_none() || path.parent().is_some_and(Path::is_dir)) {
        let mut bytes = [0; RANDOM];
        let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        got.map_err(|errno| FileError::new("read", "/dev/urandom", errno.into()))?;
        let word: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let line = format!("{word}\n");
        if file.is_some() {
            Destination::find(&path)?.write(line.as_bytes(), 0o600)?;
        } else {
            fsx::private_dir(environment.home.path())?;
            // Somebody else's that came first counts.
            fsx::write_new(&path, line.as_bytes())?;
        }
    }
    let word = shell_word(&path);
    let parent = path.parent().filter(|parent| !parent.is_dir());
    let first = parent.map_or_else(String::new, |parent| {
        format!("mkdir -p {} && ", shell_word(parent))
    });
    let make = format!(
        "make it, with one long random word that only you can read: `{first}(umask 077; head -c 32 /dev/urandom | base64 -w0 | tr -d '+/=' > {word})`"
    );
    let shown = printable_path(&path);
    // Whoever puts another file there meanwhile changes nothing.
    let waits_for_nobody = OFlags::NONBLOCK.bits().cast_signed();
    let opened = File::options()
        .read(true)
        .custom_flags(waits_for_nobody)
        .open(&path);
    let file = opened.map_err(|error| CliError::Failed {
        message: FileError::new("read", &path, error).to_string(),
        hint: make.clone(),
    })?;
    let found = file.metadata();
    let found = found.map_err(|error| FileError::new("look at", &path, error))?;
    let mut text = Vec::new();
    let read = file.take(LONGEST).read_to_end(&mut text);
    read.map_err(|error| FileError::new("read", &path, error))?;
    if found.mode() & 0o077 != 0 || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(CliError::Failed {
            message: format!("others can read the token in {shown}"),
            hint: format!("it is to be yours, and for you alone: `chmod 600 {word}`"),
        });
    }
    let word = String::from_utf8(text).unwrap_or_default();
    let word = word.trim();
    if word.len() < SHORTEST || !word.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(CliError::Failed {
            message: format!(
                "{shown} has no token: it is one word of {SHORTEST} characters or more"
            ),
            hint: make,
        });
    }
    Ok(Token {
        word: word.to_owned(),
        file: path,
    })
}

pub(super) async fn serve(
    handler: Handler,
    address: SocketAddr,
    token: &Token,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    if !address.ip().is_loopback() {
        return Err(CliError::Misused {
            message: format!("{address} can be reached from other machines"),
            hint: format!(
                "name one of this machine's loopback: `--http 127.0.0.1:{}`",
                address.port()
            ),
        });
    }
    let listening = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        std::io::Result::Ok((listener, address))
    };
    let (listener, address) = listening.await.map_err(|error| CliError::Failed {
        message: format!("cannot listen at {address}: {error}"),
        hint: "name another port, or 0 for any that is free".to_owned(),
    })?;
    let mut config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(["localhost", "127.0.0.1", "::1"])
        .enforce_origin_validation();
    config.cancellation_token = interrupt.cancel.child_token();
    let served = handler.clone();
    let service = StreamableHttpService::new(
        move || Ok(served.clone()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    output::note(&format!(
        "http://{address}/ serves {}, to clients that send `Authorization: Bearer` and the word in {}\nuntil Ctrl-C\n",
        handler.whose(),
        printable_path(&token.file)
    ));
    let word: Arc<str> = token.word.as_str().into();
    let mut seats = Seats::new();
    loop {
        let accepted = tokio::select! {
            () = interrupt.cancel.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (service, word) = (service.clone(), Arc::clone(&word));
        let guest = seats.come(&interrupt.cancel);
        tokio::spawn(async move {
            let answer = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
                let service = service.clone();
                let refused = if !is_known(request.headers(), &word) {
                    Some(unknown())
                } else if !guest.is_seated() {
                    Some(full())
                } else {
                    None
                };
                async move {
                    Ok::<_, Infallible>(match refused {
                        Some(refused) => refused,
                        None => service.handle(request).await,
                    })
                }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .serve_connection(TokioIo::new(stream), answer);
            tokio::select! {
                _ = connection => {}
                () = guest.leave.cancelled() => {}
            }
        });
    }
    handler.end().await;
    Ok(interrupt.code().map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// Takes as long for a word that is nearly right.
fn is_known(headers: &HeaderMap, word: &str) -> bool {
    let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let given = given.and_then(|value| value.strip_prefix(b"Bearer "));
    let given = given.unwrap_or_default();
    let differ = given
        .iter()
        .zip(word.as_bytes())
        .fold(0, |differ, (one, other)| differ | (one ^ other));
    given.len() == word.len() && differ == 0
}

type Answer = Response<http_body_util::combinators::BoxBody<hyper::body::Bytes, Infallible>>;

/// An answer that ends the connection.
fn refusal(status: StatusCode, text: &'static str) -> Answer {
    let mut response = Response::new(Full::from(text).boxed());
    *response.status_mut() = status;
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

fn full() -> Answer {
    refusal(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many clients are connected\n",
    )
}

fn unknown() -> Answer {
    let mut response = refusal(
        StatusCode::UNAUTHORIZED,
        "the word of `Authorization: Bearer` is missing or another one\n",
    );
    let bearer = HeaderValue::from_static("Bearer");
    response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
    response
}
