//! Takes tasks and does them; and the other side of that, for the test.

#![expect(
    clippy::disallowed_methods,
    reason = "the probe reports the environment that it was given"
)]

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::race::Race;
use super::task::{Outcome, Step, Task};
use super::{escape, netlink, packets, query, scan, stream};

/// No task takes longer.
const LIMIT: Duration = Duration::from_mins(1);

/// A running probe, as its test sees it.
#[derive(Debug, Clone)]
pub struct Probe {
    socket: PathBuf,
}

impl Probe {
    /// The one that listens, or soon will, at `socket`.
    pub fn at(socket: PathBuf) -> Self {
        Self { socket }
    }

    pub fn is_up(&self) -> bool {
        UnixStream::connect(&self.socket).is_ok()
    }

    /// Has a task done. Errors are those of reaching the probe, not of the task.
    pub fn ask(&self, task: &Task) -> io::Result<Outcome> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(LIMIT))?;
        let mut line = serde_json::to_vec(task)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    }
}

/// Plays the probe where the arguments say so: `--probe serve SOCKET`, `--probe do …`, `--probe race …`.
pub fn role(arguments: &[OsString]) -> Option<ExitCode> {
    let texts: Vec<&str> = arguments
        .iter()
        .map(|argument| argument.to_str().unwrap_or_default())
        .collect();
    let result = match texts.as_slice() {
        ["--probe", "serve", socket] => serve(Path::new(socket)),
        ["--probe", "do", file, tasks @ ..] => do_some(Path::new(file), tasks),
        ["--probe", "race", words @ ..] => Race::read(words).map(|race| race.run()),
        ["--probe", "flush"] => netlink::flush_rules(),
        ["--probe", ..] => Err(io::Error::other(
            "serve SOCKET, do FILE TASK…, race ADDRESS NAME NONCE, or flush",
        )),
        _ => return None,
    };
    Some(match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "probe: {error}");
            ExitCode::FAILURE
        }
    })
}

/// One outcome a line, for each task in turn.
fn do_some(file: &Path, tasks: &[&str]) -> io::Result<()> {
    let mut file = fs::File::create(file)?;
    for task in tasks {
        let outcome = timed(serde_json::from_str(task)?, &Shared::default());
        writeln!(file, "{}", serde_json::to_string(&outcome)?)?;
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Held {
    connections: HashMap<String, TcpStream>,
    hits: HashMap<u16, u64>,
}

type Shared = Arc<Mutex<Held>>;

fn serve(socket: &Path) -> io::Result<()> {
    let _ = fs::remove_file(socket);
    let listener = UnixListener::bind(socket)?;
    let shared = Shared::default();
    for stream in listener.incoming().flatten() {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || attend(stream, &shared));
    }
    Ok(())
}

fn attend(stream: UnixStream, shared: &Shared) -> io::Result<()> {
    let mut writer = stream.try_clone()?;
    for line in BufReader::new(stream).lines() {
        let task: Task = serde_json::from_str(&line?)?;
        let last = task == Task::Exit;
        let outcome = timed(task, shared);
        let mut line = serde_json::to_vec(&outcome)?;
        line.push(b'\n');
        writer.write_all(&line)?;
        if last {
            rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            )?;
        }
    }
    Ok(())
}

fn timed(task: Task, shared: &Shared) -> Outcome {
    let start = Instant::now();
    let mut outcome = attempt(task, shared);
    outcome.millis = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    outcome
}

fn attempt(task: Task, shared: &Shared) -> Outcome {
    let mut outcome = Outcome::default();
    let result = match task {
        Task::Lookup { name } => (name.as_str(), 0).to_socket_addrs().map(|found| {
            outcome.found = found.map(|address| address.ip().to_string()).collect();
        }),
        Task::Query {
            server,
            tcp,
            name,
            kind,
            class,
        } => query::ask(&server, tcp, &name, kind, class).map(|(code, records)| {
            outcome.heard = code.to_string();
            outcome.found = records;
        }),
        Task::Tcp { to, steps } => stream::connect(&to)
            .and_then(|mut stream| stream::walk(&mut stream, &steps, &mut outcome.heard)),
        Task::Https { to, name } => stream::https(&to, &name).map(|answer| outcome.heard = answer),
        Task::Open { key, to } => stream::connect(&to).map(|stream| {
            lock(shared).connections.insert(key, stream);
        }),
        Task::Talk { key, say } => talk(shared, &key, say, &mut outcome.heard),
        Task::Udp { to, payload } => packets::udp(&to, &payload),
        Task::Ping { to, payload, raw } => packets::ping(&to, &payload, raw),
        Task::Socket {
            domain,
            kind,
            protocol,
        } => packets::open(domain, kind, protocol),
        Task::Raw { to, payload } => packets::raw(&to, &payload),
        Task::Scan {
            address,
            first,
            last,
        } => scan::ports(&address, first, last).map(|open| outcome.found = open),
        Task::UnixSockets { below } => {
            outcome.found = scan::unix_sockets(&below);
            Ok(())
        }
        Task::Escape => {
            outcome.found = escape::attempt_all();
            Ok(())
        }
        Task::Listen { port } => listen(port, shared),
        Task::Hits { port } => {
            let hits = lock(shared).hits.get(&port).copied().unwrap_or(0);
            outcome.heard = hits.to_string();
            Ok(())
        }
        Task::Read { path } => fs::read_to_string(path).map(|text| outcome.heard = text),
        Task::Interfaces => scan::interfaces().map(|names| outcome.found = names),
        Task::Environment => {
            outcome.found = std::env::vars_os()
                .map(|(name, value)| format!("{}={}", name.display(), value.display()))
                .collect();
            Ok(())
        }
        Task::Exit => Ok(()),
    };
    outcome.error = result.err().map(|error| error.to_string());
    outcome
}

fn talk(shared: &Shared, key: &str, say: Vec<u8>, heard: &mut String) -> io::Result<()> {
    let stream = lock(shared)
        .connections
        .get(key)
        .map(TcpStream::try_clone)
        .transpose()?;
    let mut stream = stream.ok_or_else(|| io::Error::other("no such connection"))?;
    stream::walk(&mut stream, &[Step::Say(say), Step::Hear], heard)
}

fn listen(port: u16, shared: &Shared) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))?;
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        for _ in listener.incoming().flatten() {
            *lock(&shared).hits.entry(port).or_default() += 1;
        }
    });
    Ok(())
}

fn lock(shared: &Shared) -> std::sync::MutexGuard<'_, Held> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
