//! The end of a login through a browser: it comes back to this machine, and the program that waits for it is in a sandbox. As long as
//! the command runs one request is carried there, and nothing else comes in.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use cofferdam::session::Session;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::ui::output;

/// Where Codex has its browser come back to.
pub(super) const PORT: u16 = 1455;
const PATH: &str = "/auth/callback";
/// Of a request's head, and of what a program inside answers.
const MOST: u64 = 64 << 10;
const HEADERS: usize = 64;
/// How long a browser may take to ask, and a program inside to answer.
const ASKING: Duration = Duration::from_secs(5);
const ANSWERING: Duration = Duration::from_secs(60);
/// A program may send its browser on to a page of its own: so often that is done for it.
const REDIRECTS: usize = 3;

/// Listens on this machine's loopback.
#[derive(Debug)]
pub(super) struct Callback {
    listener: TcpListener,
    /// Where this machine has that address.
    other: Option<TcpListener>,
}

impl Callback {
    /// An error where somebody else listens there.
    pub(super) async fn listen() -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))).await?;
        let other = match TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, PORT))).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            other => other.ok(),
        };
        Ok(Self { listener, other })
    }

    /// Carries one request to the sandbox, whatever comes of it; all others are refused. Returns once that was done.
    pub(super) async fn carry(self, session: &Session) {
        // Once is once: from here on nobody listens.
        let (mut browser, target) = self.wanted().await;
        let carried = tokio::time::timeout(ANSWERING, carried(session, target)).await;
        // Whatever the program says: who asks here learns nothing of what is inside.
        let name = session.name();
        let text = format!(
            "What came back was passed on: see what the program in the sandbox {name} says of it."
        );
        say(&mut browser, "200 OK", &text).await;
        let why = match carried {
            Ok(Ok(())) => return,
            Ok(Err(why)) => why,
            Err(_) => "it gave no answer".to_owned(),
        };
        output::note(&format!(
            "note: a login came back, and did not get into {name}: {why}\r\n"
        ));
    }

    /// Who asks for what a login ends with, and what for.
    async fn wanted(self) -> (TcpStream, String) {
        loop {
            let Ok(mut browser) = self.next().await else {
                // Descriptors may be free again.
                tokio::time::sleep(ASKING).await;
                continue;
            };
            match tokio::time::timeout(ASKING, asked(&mut browser)).await {
                Ok(Some(target)) => return (browser, target),
                _ => say(&mut browser, "404 Not Found", "There is nothing here.").await,
            }
        }
    }

    async fn next(&self) -> io::Result<TcpStream> {
        let other = async {
            match &self.other {
                Some(other) => other.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = self.listener.accept() => accepted,
            accepted = other => accepted,
        }
        .map(|(stream, _)| stream)
    }
}

/// What is asked for, where it is what a login ends with.
async fn asked(browser: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let mut some = [0; 4096];
        let read = browser.read(&mut some).await.ok()?;
        head.extend_from_slice(&some[..read]);
        if read == 0 || head.len() as u64 > MOST {
            return None;
        }
    }
    wanted(&head)
}

fn wanted(head: &[u8]) -> Option<String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(head).ok()?;
    let target = request.path?;
    let path = target.split('?').next();
    let mut hosts = request
        .headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("host"));
    let host = std::str::from_utf8(hosts.next()?.value).ok()?;
    // A page of anybody's may have its own name stand for this address.
    let is_here = ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|name| host == format!("{name}:{PORT}"));
    let is_wanted = request.method == Some("GET")
        && path == Some(PATH)
        && is_here
        && hosts.next().is_none()
        && request.headers.iter().all(is_of_a_visit);
    is_wanted.then(|| target.to_owned())
}

/// A browser says of what a page of anybody's asks for that nobody visits it.
fn is_of_a_visit(header: &httparse::Header<'_>) -> bool {
    let is = |name: &str| header.name.eq_ignore_ascii_case(name);
    if is("sec-fetch-mode") {
        return header.value == b"navigate";
    }
    if is("sec-fetch-dest") {
        return header.value == b"document";
    }
    !is("transfer-encoding")
}

/// Asks the program inside for that, and for what it sends its browser on to. What it says is for no browser of the host's: only
/// whether it took it.
async fn carried(session: &Session, mut target: String) -> Result<(), String> {
    for _ in 0..=REDIRECTS {
        let answer = fetched(session, &target).await?;
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response.parse(&answer);
        let Some(code) = parsed.ok().and(response.code) else {
            return Err("it answered something that is no HTTP".to_owned());
        };
        match code {
            200..300 => return Ok(()),
            300..400 => match next(response.headers) {
                Some(next) => target = next,
                // To a page of somebody else's.
                None => return Ok(()),
            },
            _ => return Err(format!("it answered with {code}")),
        }
    }
    Ok(())
}

/// Where at the same server the answer sends.
fn next(headers: &[httparse::Header<'_>]) -> Option<String> {
    let mut headers = headers.iter();
    let location = headers.find(|header| header.name.eq_ignore_ascii_case("location"))?;
    let location = std::str::from_utf8(location.value).ok()?;
    let own = ["localhost", "127.0.0.1"].map(|name| format!("http://{name}:{PORT}"));
    let path = own
        .iter()
        .find_map(|own| location.strip_prefix(own))
        .unwrap_or(location);
    let is_path = path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|byte| byte.is_ascii_graphic());
    is_path.then(|| path.to_owned())
}

async fn fetched(session: &Session, target: &str) -> Result<Vec<u8>, String> {
    let connected = session.connect(PORT).await;
    let mut server = connected.map_err(|error| error.to_string())?;
    let request =
        format!("GET {target} HTTP/1.1\r\nHost: localhost:{PORT}\r\nConnection: close\r\n\r\n");
    let lost = |error: io::Error| format!("its connection was lost: {error}");
    server
        .input
        .write_all(request.as_bytes())
        .await
        .map_err(lost)?;
    let mut answer = Vec::new();
    // Some servers leave it open.
    let mut output = server.output.take(MOST);
    while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
        let mut some = [0; 4096];
        match output.read(&mut some).await {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&some[..read]),
            Err(error) => return Err(lost(error)),
        }
    }
    Ok(answer)
}

async fn say(browser: &mut TcpStream, status: &str, text: &str) {
    let text = format!("{text}\n");
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    // It may not wait for it.
    let _ = tokio::time::timeout(ASKING, browser.write_all(answer.as_bytes())).await;
    let _ = browser.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_login_comes_in() {
        let ask = |line: &str, headers: &str| {
            wanted(format!("{line} HTTP/1.1\r\n{headers}\r\n").as_bytes())
        };
        let here = "Host: localhost:1455\r\n";
        let good = ask("GET /auth/callback?code=a&state=b", here);
        assert_eq!(good.as_deref(), Some("/auth/callback?code=a&state=b"));
        assert!(ask("GET /auth/callback", "Host: 127.0.0.1:1455\r\n").is_some());
        for line in [
            "POST /auth/callback",
            "GET /",
            "GET /auth/callback/x",
            "GET /auth/callbackx?code=a",
            "GET http://localhost:1455/auth/callback",
            "CONNECT /auth/callback",
        ] {
            assert_eq!(ask(line, here), None, "{line}");
        }
        for headers in [
            "",
            "Host: evil.test:1455\r\n",
            "Host: localhost\r\n",
            "Host: localhost:1455\r\nHost: localhost:1455\r\n",
            "Host: localhost:1455\r\nTransfer-Encoding: chunked\r\n",
            "Host: localhost:1455\r\nSec-Fetch-Mode: no-cors\r\n",
            "Host: localhost:1455\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n",
        ] {
            assert_eq!(ask("GET /auth/callback?code=a", headers), None, "{headers}");
        }
        assert_eq!(wanted(b"\x16\x03\x01 nonsense\r\n\r\n"), None);
    }

    #[test]
    fn it_is_sent_on_within_its_server_alone() {
        let to = |value: &str| {
            next(&[httparse::Header {
                name: "Location",
                value: value.as_bytes(),
            }])
        };
        assert_eq!(to("/success?x=1").as_deref(), Some("/success?x=1"));
        assert_eq!(
            to("http://localhost:1455/success").as_deref(),
            Some("/success")
        );
        for elsewhere in [
            "https://evil.test/",
            "//evil.test/",
            "http://localhost:1455@evil.test/",
            "/a b",
            "/a\r\nX: y",
        ] {
            assert_eq!(to(elsewhere), None, "{elsewhere}");
        }
    }
}
