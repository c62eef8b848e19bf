//! What `scripts/bench` times of sandboxes in containers, by library call. Each subcommand prints numbers, one on each line: see
//! the script for what they mean.
#![expect(clippy::print_stdout, reason = "its output is the result")]

use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, BufWriter, PipeReader, PipeWriter, Read, Write};
use std::num::NonZeroU32;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use cofferdam::agent::Command;
use cofferdam::home::Home;
use cofferdam::names::{SandboxId, Slug};
use cofferdam::sandbox::engine::{Engine, EngineOptions, Kind, Surroundings};
use cofferdam::sandbox::{
    BindMount, BindMountProvider, BranchStrategy, ExecRequest, Lifetime, Network, Sandbox,
    SandboxSpec, TerminalSize,
};
use cofferdam::session::living::{self, Named};
use cofferdam::session::{Caller, Event, EventSink, Session, SessionExec, SessionOptions, Task};
use cofferdam::wall::WallSpec;
use cofferdam::wall::gateway_process;
use cofferdam::wall::rules::Sources;
use cofferdam::wall::supervisor::Supervisor;
use cofferdam_guest::protocol::files::{self, Entry, Known};
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// So many programs stand still, in ours and in the rival.
const PROCESSES: usize = 100;

const USAGE: &str = "usage: bench_engine docker|podman create|ready|steps|steps-ready|exec|terminal|pause|resume SOCKET IMAGE N
                    docker|podman in|out SOCKET IMAGE DIR N | session|session-ready|memory|crowd SOCKET IMAGE REPO N";
/// Anybody may write there in the image.
const INSIDE: &str = "/data";
/// Bytes of one file that comes out.
const LARGEST: u64 = 1 << 30;
/// Until nothing of its making goes on.
const SETTLED: Duration = Duration::from_secs(3);

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(bench(std::env::args().skip(1).collect()))
}

async fn bench(words: Vec<String>) -> Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [kind, what, socket, image, ref source @ .., count] = words[..] else {
        return Err(USAGE.into());
    };
    let kind = Kind::named(kind).ok_or(USAGE)?;
    let room = tempfile::Builder::new()
        .prefix("cofferdam-bench-engine.")
        .tempdir()?;
    let way = match what.strip_prefix("steps") {
        Some(_) => Some(Way::to(socket.into(), room.path().join("engine.sock"))?),
        None => None,
    };
    let socket = way.as_ref().map_or(Path::new(socket), |way| &way.socket);
    let host = Some(format!("unix://{}", socket.display()).into());
    let around = match kind {
        Kind::Docker => Surroundings {
            docker_host: host,
            ..Surroundings::default()
        },
        Kind::Podman => Surroundings {
            container_host: host,
            ..Surroundings::default()
        },
    };
    let mut options = EngineOptions::new(room.path().join("engines"), around);
    options.image = Some(image.to_owned());
    let bench = Bench {
        engine: Engine::new(kind, options),
        home: Home::new(room.path().join("home")),
        room: room.path(),
    };
    let count = count.parse()?;
    match (what, source) {
        ("create", []) => bench.create(count, false).await,
        ("ready", []) => bench.create(count, true).await,
        ("steps" | "steps-ready", []) => {
            let way = way.ok_or(USAGE)?;
            bench.steps(&way, count, what == "steps-ready").await
        }
        ("in", [directory]) => bench.copy(Path::new(directory), count, false).await,
        ("out", [directory]) => bench.copy(Path::new(directory), count, true).await,
        ("session", [repo]) => bench.session(Path::new(repo), count, false).await,
        ("session-ready", [repo]) => bench.session(Path::new(repo), count, true).await,
        ("memory", [repo]) => bench.memory(Path::new(repo), count).await,
        ("crowd", [repo]) => bench.crowd(Path::new(repo), count).await,
        ("exec", []) => bench.exec(count).await,
        ("inside", [repo]) => bench.inside(Path::new(repo), count).await,
        ("iterate", [repo]) => bench.iterate(Path::new(repo), count).await,
        ("terminal", []) => {
            let size = TerminalSize {
                columns: 80,
                rows: 24,
            };
            bench.terminal(count, size).await
        }
        ("pause", []) => bench.pause(count, true).await,
        ("resume", []) => bench.pause(count, false).await,
        _ => Err(USAGE.into()),
    }
}

/// A sandbox that stays, and what of it is ours.
struct Alone {
    caller: Caller,
    name: String,
    processes: [u32; 2],
}

struct Bench<'a> {
    engine: Engine,
    home: Home,
    room: &'a Path,
}

impl Bench<'_> {
    async fn made(&self) -> Result<Arc<dyn Sandbox>> {
        let id = SandboxId::random()?;
        let slug = Slug::from_text("bench")?;
        let mut spec = SandboxSpec::new(id, slug.clone(), "bench", "/");
        spec.network = Network::Wall(Box::new(WallSpec {
            home: self.home.clone(),
            sandbox: id,
            name: slug,
            sources: Sources {
                home: self.home.clone(),
                repository: None,
                sandbox: Some(id),
                flags: Vec::new(),
            },
        }));
        let place = self.room.join(id.short());
        std::fs::create_dir(&place)?;
        std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        spec.lifetime = Lifetime::UntilRemoved {
            state: place.clone(),
        };
        spec.place = Some(place);
        let sandbox = self.engine.create(&spec, &CancellationToken::new()).await?;
        sandbox.stay().await?;
        Ok(sandbox)
    }

    /// From the call until the first program's first word. `ready`: a part of it waited before the call.
    async fn create(&self, count: usize, ready: bool) -> Result<()> {
        for _ in 0..count {
            if ready {
                self.engine.keep_ready().await?;
            }
            let began = Instant::now();
            let sandbox = self.made().await?;
            heard(&*sandbox, None).await?;
            print(began.elapsed());
            sandbox.close().await?;
        }
        Ok(())
    }

    /// What of [`Self::create`] takes how long: for each question to the engine when it began, and how long it took, and when what is
    /// ours was done; in milliseconds since the call.
    async fn steps(&self, way: &Way, count: usize, ready: bool) -> Result<()> {
        for _ in 0..count {
            if ready {
                self.engine.keep_ready().await?;
            }
            way.asked()?.clear();
            let began = Instant::now();
            let sandbox = self.made().await?;
            let made = began.elapsed();
            heard(&*sandbox, None).await?;
            let heard = began.elapsed();
            let mut lines: Vec<(Duration, String)> = Vec::new();
            for asked in way.asked()?.iter() {
                let begin = asked.began.duration_since(began);
                let took = match asked.answered {
                    Some(answered) => format!("{:7.1}", millis(answered - asked.began)),
                    None => "      -".to_owned(),
                };
                lines.push((begin, format!("{took}  {}", asked.what)));
            }
            lines.push((made, "         it stands, and stays".to_owned()));
            lines.push((
                heard,
                "         first program's first word, and its end".to_owned(),
            ));
            lines.sort();
            for (when, line) in lines {
                println!("{:7.1} {line}", millis(when));
            }
            println!();
            sandbox.close().await?;
        }
        Ok(())
    }

    /// `true`, until its end is known.
    async fn exec(&self, count: usize) -> Result<()> {
        let sandbox = self.made().await?;
        for _ in 0..count {
            let began = Instant::now();
            let mut run = sandbox.exec(ExecRequest::new(["true"])).await?;
            if !run.wait().await?.success() {
                return Err("`true` failed".into());
            }
            print(began.elapsed());
        }
        Ok(sandbox.close().await?)
    }

    /// Until a program's first word on a terminal of its own.
    async fn terminal(&self, count: usize, size: TerminalSize) -> Result<()> {
        let sandbox = self.made().await?;
        for _ in 0..count {
            let began = Instant::now();
            heard(&*sandbox, Some(size)).await?;
            print(began.elapsed());
        }
        Ok(sandbox.close().await?)
    }

    /// The files of a directory into a new one inside, or out of it again.
    async fn copy(&self, source: &Path, count: usize, out: bool) -> Result<()> {
        let sandbox = self.made().await?;
        let wanted = files_below(source)?;
        for number in 0..count {
            let inside = Path::new(INSIDE).join(number.to_string());
            let outside = source.with_file_name(format!("out-{number}"));
            let began = Instant::now();
            put(&*sandbox, source, &inside).await?;
            let mut taken = began.elapsed();
            if out {
                let began = Instant::now();
                take(&*sandbox, &inside, &outside).await?;
                taken = began.elapsed();
                let found = files_below(&outside)?;
                if found != wanted {
                    return Err(format!("{found} files came out, not {wanted}").into());
                }
                std::fs::remove_dir_all(&outside)?;
            }
            print(taken);
            let inside = inside.into_os_string();
            let mut run = sandbox
                .exec(ExecRequest::new([
                    &*OsString::from("rm"),
                    "-rf".as_ref(),
                    &inside,
                ]))
                .await?;
            run.wait().await?;
        }
        Ok(sandbox.close().await?)
    }

    /// Its caller, and what its sandbox of this number is to be.
    fn session_of(&self, repo: &Path, number: usize) -> Result<(Caller, SessionOptions)> {
        let mut caller = Caller::new(self.home.clone());
        caller.user_home = Some(self.room.to_owned());
        let path = "/usr/local/bin:/usr/bin:/bin";
        caller.environment.insert("PATH".into(), path.into());
        let process = std::process::id();
        let branch = format!("bench/session-{process}-{number}").parse()?;
        let strategy = BranchStrategy::Branch { branch, base: None };
        let sandbox = BindMount::or_layers(self.engine.clone(), strategy);
        Ok((caller, SessionOptions::new(repo, sandbox)))
    }

    /// A sandbox on a branch of its own with the repository's files, until its first program's first word.
    async fn session(&self, repo: &Path, count: usize, ready: bool) -> Result<()> {
        for number in 0..count {
            if ready {
                self.engine.keep_ready().await?;
            }
            let (caller, options) = self.session_of(repo, number)?;
            let began = Instant::now();
            let session = Session::create(&caller, &options).await?;
            let mut run = session.exec(SessionExec::new(["echo", "x"])).await?;
            let mut out = run.take_stdout().ok_or("no output")?;
            out.read_exact(&mut [0]).await?;
            print(began.elapsed());
            let name = session.name().to_string();
            session.detach();
            let named = Named::find(&caller, repo, &name).await?;
            living::end(&caller, &named, &self.engine).await?;
        }
        Ok(())
    }

    /// `true` in a sandbox that lives on, until its end is heard.
    async fn inside(&self, repo: &Path, count: usize) -> Result<()> {
        let (caller, options) = self.session_of(repo, 0)?;
        let session = Session::create(&caller, &options).await?;
        for _ in 0..count {
            let began = Instant::now();
            session
                .exec(SessionExec::new(["true"]))
                .await?
                .wait()
                .await?;
            print(began.elapsed());
        }
        self.ended(&caller, repo, session).await
    }

    /// From one start of the agent `true` to the next one, in one run.
    async fn iterate(&self, repo: &Path, count: usize) -> Result<()> {
        let began = Arc::<Mutex<Vec<Instant>>>::default();
        let starts = Arc::clone(&began);
        let (mut caller, options) = self.session_of(repo, 0)?;
        caller.events = EventSink::new(move |event| {
            if let (Event::IterationStarted { .. }, Ok(mut starts)) = (event, starts.lock()) {
                starts.push(Instant::now());
            }
        });
        let session = Session::create(&caller, &options).await?;
        let mut task = Task::new(Arc::new(Command::new(["true"])?));
        task.max_iterations = NonZeroU32::try_from(u32::try_from(count)? + 1)?;
        session.agent(&task).await?;
        let began = began.lock().map_err(|_| "a note was cut short")?.clone();
        for pair in began.windows(2) {
            print(pair[1] - pair[0]);
        }
        self.ended(&caller, repo, session).await
    }

    async fn ended(&self, caller: &Caller, repo: &Path, session: Session) -> Result<()> {
        let name = session.name().to_string();
        session.detach();
        let named = Named::find(caller, repo, &name).await?;
        Ok(living::end(caller, &named, &self.engine).await?)
    }

    /// One that nobody looks at any more: its guest and its supervisor.
    async fn left_alone(&self, repo: &Path, number: usize) -> Result<Alone> {
        let (caller, options) = self.session_of(repo, number)?;
        let session = Session::create(&caller, &options).await?;
        let state = caller.home.sandbox(session.id());
        let found = Supervisor::connect(&state).await?.ok_or("no supervisor")?;
        let guest = session.process().ok_or("no guest")?;
        let name = session.name().to_string();
        session.detach();
        Ok(Alone {
            caller,
            name,
            processes: [guest, found.1.process],
        })
    }

    async fn over(&self, repo: &Path, alone: Alone) -> Result<()> {
        let named = Named::find(&alone.caller, repo, &alone.name).await?;
        Ok(living::end(&alone.caller, &named, &self.engine).await?)
    }

    /// Proportional set sizes of its guest and its supervisor together, in KiB.
    async fn memory(&self, repo: &Path, count: usize) -> Result<()> {
        for number in 0..count {
            let alone = Box::pin(self.left_alone(repo, number)).await?;
            tokio::time::sleep(SETTLED).await;
            println!("{}", together(&alone.processes)?);
            Box::pin(self.over(repo, alone)).await?;
        }
        Ok(())
    }

    /// The same of so many that are idle at once and of the gateway that they have in common: the share of one.
    async fn crowd(&self, repo: &Path, count: usize) -> Result<()> {
        let mut all = Vec::new();
        for number in 0..count {
            all.push(Box::pin(self.left_alone(repo, number)).await?);
        }
        let mut processes: Vec<u32> = all.iter().flat_map(|one| one.processes).collect();
        processes.push(gateway_process(&self.home)?.ok_or("no gateway")?);
        tokio::time::sleep(SETTLED).await;
        println!("{}", together(&processes)? / count as u64);
        for alone in all {
            Box::pin(self.over(repo, alone)).await?;
        }
        Ok(())
    }

    async fn pause(&self, count: usize, pause: bool) -> Result<()> {
        let sandbox = self.made().await?;
        let line = format!("for n in $(seq {PROCESSES}); do sleep 1000 & done; echo all; wait");
        let mut program = sandbox.exec(ExecRequest::new(["sh", "-c", &line])).await?;
        let mut out = program.take_stdout().ok_or("no output")?;
        out.read_exact(&mut [0; 4]).await?;
        for _ in 0..count {
            let began = Instant::now();
            sandbox.pause().await?;
            if pause {
                print(began.elapsed());
            }
            let began = Instant::now();
            sandbox.resume().await?;
            if !pause {
                print(began.elapsed());
            }
        }
        Ok(sandbox.close().await?)
    }
}

/// A way to the engine that notes what goes by.
struct Way {
    socket: PathBuf,
    asked: Arc<Mutex<Vec<Asked>>>,
}

struct Asked {
    what: String,
    began: Instant,
    answered: Option<Instant>,
}

impl Way {
    fn to(engine: PathBuf, socket: PathBuf) -> Result<Self> {
        let listener = UnixListener::bind(&socket)?;
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let notes = Arc::clone(&asked);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                // Who is not carried says itself that nobody answers.
                let _ = client.and_then(|client| carry(client, &engine, &notes));
            }
        });
        Ok(Self { socket, asked })
    }

    fn asked(&self) -> Result<MutexGuard<'_, Vec<Asked>>> {
        self.asked.lock().map_err(|_| "a note was cut short".into())
    }
}

/// One connection. What an answer begins with is when it was given.
fn carry(client: UnixStream, engine: &Path, notes: &Arc<Mutex<Vec<Asked>>>) -> std::io::Result<()> {
    let engine = UnixStream::connect(engine)?;
    let (there, back) = (engine.try_clone()?, client.try_clone()?);
    let (asking, answering) = (Arc::clone(notes), Arc::clone(notes));
    let own: Arc<Mutex<String>> = Arc::default();
    let theirs = Arc::clone(&own);
    std::thread::spawn(move || {
        pass(client, there, |bytes| {
            let line = bytes
                .split(|&byte| byte == b'\r')
                .next()
                .unwrap_or_default();
            let line = String::from_utf8_lossy(line);
            let Some(what) = line.strip_suffix(" HTTP/1.1") else {
                return;
            };
            if let (Ok(mut own), Ok(mut asked)) = (own.lock(), asking.lock()) {
                what.clone_into(&mut own);
                asked.push(Asked {
                    what: what.to_owned(),
                    began: Instant::now(),
                    answered: None,
                });
            }
        });
    });
    std::thread::spawn(move || {
        pass(engine, back, |_| {
            if let (Ok(own), Ok(mut asked)) = (theirs.lock(), answering.lock()) {
                let waits = |one: &&mut Asked| one.what == *own && one.answered.is_none();
                if let Some(one) = asked.iter_mut().find(waits) {
                    one.answered = Some(Instant::now());
                }
            }
        });
    });
    Ok(())
}

/// Until either side ends; `seen` has each part first.
fn pass(mut from: UnixStream, mut to: UnixStream, mut seen: impl FnMut(&[u8])) {
    let mut part = [0; 1 << 13];
    while let Ok(read @ 1..) = from.read(&mut part) {
        seen(&part[..read]);
        if to.write_all(&part[..read]).is_err() {
            break;
        }
    }
    // It may have ended by itself.
    let _ = to.shutdown(std::net::Shutdown::Write);
}

fn millis(taken: Duration) -> f64 {
    taken.as_secs_f64() * 1000.0
}

/// What is below a directory of this machine, into one of the sandbox's.
async fn put(sandbox: &dyn Sandbox, from: &Path, to: &Path) -> Result<()> {
    let (entries, into) = std::io::pipe()?;
    let (nobody_asks, known) = std::io::pipe()?;
    let from = from.to_owned();
    let sent = tokio::task::spawn_blocking(move || send(&from, into));
    let read = tokio::task::spawn_blocking(move || {
        std::io::copy(&mut BufReader::new(nobody_asks), &mut std::io::sink())
    });
    sandbox
        .unpack(to, false, entries.into(), known.into())
        .await?;
    sent.await??;
    read.await??;
    Ok(())
}

fn send(top: &Path, to: PipeWriter) -> std::io::Result<()> {
    let mut to = BufWriter::with_capacity(1 << 16, to);
    let mut waiting = vec![PathBuf::new()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(top.join(&directory))? {
            let entry = entry?;
            let below = directory.join(entry.file_name());
            let path = below.as_os_str().as_encoded_bytes().to_vec();
            let found = entry.metadata()?;
            if found.is_dir() {
                files::write(&mut to, &Entry::Directory { path, mode: 0o755 })?;
                waiting.push(below);
            } else {
                let (mode, size) = (0o644, found.len());
                files::write(&mut to, &Entry::File { path, mode, size })?;
                std::io::copy(&mut File::open(entry.path())?, &mut to)?;
            }
        }
    }
    files::write(&mut to, &Entry::End { left: 0 })?;
    to.flush()
}

/// All that is below a directory of the sandbox, into a new one of this machine.
async fn take(sandbox: &dyn Sandbox, from: &Path, to: &Path) -> Result<()> {
    let (known, mut into) = std::io::pipe()?;
    files::write(&mut into, &Known::End)?;
    drop(into);
    let (changes, from_inside) = std::io::pipe()?;
    let to = to.to_owned();
    let kept = tokio::task::spawn_blocking(move || keep(changes, &to));
    sandbox
        .snapshot(from, LARGEST, known.into(), from_inside.into())
        .await?;
    Ok(kept.await??)
}

fn keep(from: PipeReader, to: &Path) -> std::io::Result<()> {
    let mut from = BufReader::with_capacity(1 << 16, from);
    loop {
        match files::read(&mut from)? {
            Entry::File { path, size, .. } => {
                let path = to.join(String::from_utf8_lossy(&path).as_ref());
                if let Some(parent) = path.parent() {
                    std::fs::create_dir_all(parent)?;
                }
                let mut file = File::create(path)?;
                std::io::copy(&mut (&mut from).take(size), &mut file)?;
            }
            Entry::End { .. } => return Ok(()),
            _ => {}
        }
    }
}

fn files_below(directory: &Path) -> std::io::Result<usize> {
    let mut found = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        found += if entry.file_type()?.is_dir() {
            files_below(&entry.path())?
        } else {
            1
        };
    }
    Ok(found)
}

fn together(processes: &[u32]) -> Result<u64> {
    processes.iter().map(|one| kib(*one)).sum()
}

fn kib(process: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no size")?.parse()?)
}

async fn heard(sandbox: &dyn Sandbox, terminal: Option<TerminalSize>) -> Result<()> {
    let mut request = ExecRequest::new(["echo", "x"]);
    request.terminal = terminal;
    let mut run = sandbox.exec(request).await?;
    let mut byte = [0];
    // Whoever lets it go hangs up.
    let mut terminal = run.take_terminal();
    if let Some(terminal) = &mut terminal {
        terminal.output.read_exact(&mut byte).await?;
    } else if let Some(mut stdout) = run.take_stdout() {
        stdout.read_exact(&mut byte).await?;
    }
    if !run.wait().await?.success() {
        return Err("`echo` failed".into());
    }
    Ok(())
}

fn print(taken: Duration) {
    println!("{}", taken.as_micros());
}
