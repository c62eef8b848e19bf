//! A socket that answers as an engine of another time would: it takes the versions of its API that it says, and no others. In front of
//! a real engine it passes on what it takes, in a version of the real one's; without one it has an answer for what is asked first.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use crate::containers::SURROUNDINGS;
use crate::environment::{Done, TestEnvironment, finish};

/// The real engine.
#[derive(Debug, Clone)]
struct Real {
    socket: PathBuf,
    /// As [`Played::window`]: one of another machine may take others.
    window: (u32, u32),
}

impl Real {
    fn at(socket: PathBuf) -> Self {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream
            .write_all(b"GET /version HTTP/1.0\r\nHost: x\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, said) = answer.split_once("\r\n\r\n").unwrap();
        let said: serde_json::Value = serde_json::from_str(said).unwrap();
        let minor = |name: &str| {
            let version = said[name].as_str().unwrap();
            version.strip_prefix("1.").unwrap().parse().unwrap()
        };
        let window = (minor("MinAPIVersion"), minor("ApiVersion"));
        Self { socket, window }
    }
}

/// Which one it plays.
#[derive(Debug, Clone)]
pub(crate) struct Played {
    /// `Docker/29.0.0 (linux)`
    pub(crate) server: &'static str,
    /// The oldest and the newest minor version of its API that it takes.
    pub(crate) window: (u32, u32),
    /// What it says of itself; of no meaning in front of a real one.
    pub(crate) info: String,
    /// The real engine's socket.
    pub(crate) real: Option<PathBuf>,
}

/// One that nothing is wrong with.
pub(crate) fn docker(server: &'static str, window: (u32, u32)) -> Played {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let info = serde_json::json!({
        "KernelVersion": kernel.trim(),
        "CgroupVersion": "2",
        "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin"],
        "MemoryLimit": true, "SwapLimit": true, "PidsLimit": true, "CpuCfsQuota": true,
        "RuncCommit": {"ID": "v1.3.3-0-gd842d771"},
        "Runtimes": {"runc": {"path": "runc"}},
    });
    Played {
        server,
        window,
        info: info.to_string(),
        real: None,
    }
}

/// Ends with its socket, which goes when it is dropped.
pub(crate) struct FakeEngine {
    place: tempfile::TempDir,
    asked: Arc<Mutex<Vec<String>>>,
}

impl FakeEngine {
    pub(crate) fn new(played: Played) -> Self {
        let place = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(place.path().join("s")).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&asked);
        let real = played.real.clone().map(Real::at);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (played, real) = (played.clone(), real.clone());
                let asked = Arc::clone(&theirs);
                // Who goes away in the middle is no error here.
                std::thread::spawn(move || serve(client, &played, real.as_ref(), &asked));
            }
        });
        Self { place, asked }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.place.path().join("s")
    }

    /// The words of what was asked so far: `GET /v1.44/info`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Nobody is there any more, and nothing at its place.
    pub(crate) fn goes(self) {
        self.place.close().unwrap();
    }

    /// `cofferdam` for which this is the engine of its name.
    #[track_caller]
    pub(crate) fn cofferdam(
        &self,
        environment: &TestEnvironment,
        engine: &str,
        words: &[&str],
    ) -> Done {
        with_engine(environment, engine, &self.socket(), words)
    }
}

/// `cofferdam` with the engine at this place.
#[track_caller]
pub(crate) fn with_engine(
    environment: &TestEnvironment,
    engine: &str,
    socket: &Path,
    words: &[&str],
) -> Done {
    let mut command = environment.command(words);
    let [docker, podman] = SURROUNDINGS;
    let variable = if engine == "docker" { docker } else { podman };
    command.env(variable, format!("unix://{}", socket.display()));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().unwrap())
}

/// The beginning of a request, and what came with it.
fn head(client: &mut UnixStream) -> Option<(String, Vec<u8>)> {
    let (mut bytes, mut part) = (Vec::new(), [0; 1 << 12]);
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let body = bytes.split_off(end + 4);
            return Some((String::from_utf8(bytes).unwrap(), body));
        }
        let read = client.read(&mut part).ok().filter(|&read| read > 0)?;
        bytes.extend_from_slice(&part[..read]);
    }
}

/// Podman's own API.
pub(crate) const OF_PODMAN: &str = "/v4.0.0/libpod/";

fn serve(
    mut client: UnixStream,
    played: &Played,
    real: Option<&Real>,
    asked: &Mutex<Vec<String>>,
) -> Option<()> {
    let (head, body) = head(&mut client)?;
    let mut words = head.lines().next()?.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    asked.lock().unwrap().push(format!("{method} {path}"));
    let version = path
        .strip_prefix("/v1.")
        .and_then(|rest| rest.split_once('/'));
    let (status, answer) = match version {
        None if path == "/_ping" => (200, "OK".to_owned()),
        None if path == "/version" => {
            let (oldest, newest) = played.window;
            let said = serde_json::json!({"ApiVersion": format!("1.{newest}"), "MinAPIVersion": format!("1.{oldest}")});
            (200, said.to_string())
        }
        Some((minor, rest)) => match refusal(minor.parse().unwrap(), played.window) {
            Some(refusal) => (400, said(&refusal)),
            None => match real {
                Some(real) => return pass_on(client, real, &head, minor, &body),
                None => canned(method, rest, played),
            },
        },
        // What Podman has beside that, in versions of its own.
        None if path.starts_with(OF_PODMAN) && real.is_some() => {
            return pass_on(client, real?, &head, "", &body);
        }
        // A real one takes it for its newest version, and the test would not see it.
        None => (400, said("this was asked in no version")),
    };
    // Who is not read to the end does not hear.
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.parse::<usize>().unwrap())
    });
    let left = length.unwrap_or(0).saturating_sub(body.len());
    std::io::copy(&mut (&client).take(left as u64), &mut std::io::sink()).ok()?;
    let api = played.window.1;
    let answer = format!(
        "HTTP/1.1 {status} x\r\nApi-Version: 1.{api}\r\nServer: {}\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{answer}",
        played.server,
        answer.len()
    );
    client.write_all(answer.as_bytes()).ok()
}

/// As the engines say it.
fn refusal(minor: u32, (oldest, newest): (u32, u32)) -> Option<String> {
    if minor < oldest {
        return Some(format!(
            "client version 1.{minor} is too old. Minimum supported API version is 1.{oldest}, please upgrade your client to a newer version"
        ));
    }
    (minor > newest).then(|| {
        format!("client version 1.{minor} is too new. Maximum supported API version is 1.{newest}")
    })
}

fn said(message: &str) -> String {
    serde_json::json!({ "message": message }).to_string()
}

fn canned(method: &str, path: &str, played: &Played) -> (u16, String) {
    let path = path.split('?').next().unwrap();
    match (method, path) {
        ("GET", "info") => (200, played.info.clone()),
        ("GET", path) if path.starts_with("images/") => {
            (200, r#"{"Id":"sha256:1","Config":{"Env":[]}}"#.to_owned())
        }
        // It goes wrong where most has been made, and cannot be looked at then.
        ("POST", "containers/create") | ("GET", "containers/json") => {
            (500, said("the disk is on fire"))
        }
        _ => (404, said("no such thing")),
    }
}

/// To the real engine, in a version that it takes, with whatever follows on the same connection.
fn pass_on(client: UnixStream, real: &Real, head: &str, minor: &str, body: &[u8]) -> Option<()> {
    let mut engine = UnixStream::connect(&real.socket).ok()?;
    let (oldest, newest) = real.window;
    let taken = minor.parse().unwrap_or(newest).clamp(oldest, newest);
    // One request a connection: the next one is looked at as well.
    let (first, rest) = head.split_once("\r\n")?;
    let first = first.replacen(&format!("/v1.{minor}/"), &format!("/v1.{taken}/"), 1);
    let rest: String = rest
        .lines()
        .filter(|line| !line.to_ascii_lowercase().starts_with("connection:"))
        .map(|line| format!("{line}\r\n"))
        .collect();
    let head = format!("{first}\r\nConnection: close\r\n{rest}");
    engine.write_all(head.as_bytes()).ok()?;
    engine.write_all(body).ok()?;
    let (mut from, mut to) = (client.try_clone().ok()?, engine.try_clone().ok()?);
    std::thread::spawn(move || std::io::copy(&mut from, &mut to));
    let mut client = client;
    let done = std::io::copy(&mut engine, &mut client);
    let _ = client.shutdown(Shutdown::Both);
    done.ok().map(drop)
}
