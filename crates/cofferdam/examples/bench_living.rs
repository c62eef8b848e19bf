//! What `scripts/bench` times of sandboxes that live on. Each subcommand prints numbers, one on each line: see the
//! script for what they mean.
#![expect(clippy::print_stdout, reason = "its output is the result")]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cofferdam::agent::{
    self, AgentCommand, AgentError, AgentOptions, AgentProvider, AgentRequest, ClaudeCode, Command,
    StreamParser,
};
use cofferdam::home::Home;
use cofferdam::sandbox::native::{Native, NativeOptions};
use cofferdam::sandbox::{BindMount, BranchStrategy, Exit};
use cofferdam::session::living::{self, Named};
use cofferdam::session::manage::{self, DeleteOptions, SandboxRef};
use cofferdam::session::{
    Caller, Event, EventSink, NetworkOptions, PromptSource, RunLog, RunOptions, Session,
    SessionExec, SessionOptions, Task, Watcher,
};
use cofferdam::wall::gateway_process;
use cofferdam::wall::supervisor::Supervisor;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: bench_living exec REPO N | spawn N | create REPO N | run REPO N | iterate REPO N | stream|stream-memory REPO MIB | pause|resume|resume-walled REPO N | \
                     freeze|thaw N | pause-of HOME REPO N | collect|collect-layer REPO N | crowd REPO N | memory REPO N [COFFERDAM] | wakeups REPO SECONDS [COFFERDAM]\n\
                     with the command that watches it: of one that works in the checkout";
/// The word by which the command watches.
const WATCH: &str = "watch-checkout";
/// So many processes stand still and go on.
const PROCESSES: usize = 100;
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
    let room = tempfile::Builder::new()
        .prefix("cofferdam-bench-living.")
        .tempdir()?;
    match words[..] {
        ["spawn", count] => spawn(count.parse()?),
        ["freeze", count] => freezer(count.parse()?, true),
        ["thaw", count] => freezer(count.parse()?, false),
        ["pause-of", home, repo, count] => pause_of(Path::new(home), repo, count.parse()?).await,
        [what, repo, count, ref watcher @ ..] if watcher.len() <= 1 => {
            let mut caller = caller(room.path())?;
            caller.watcher = watcher.first().map(|command| watched_by(command, &caller));
            let bench = Bench {
                caller,
                repo: Path::new(repo).canonicalize()?,
            };
            let count = count.parse()?;
            match what {
                "exec" => Box::pin(bench.exec(count)).await,
                "iterate" => Box::pin(bench.iterate(count)).await,
                "stream" => Box::pin(bench.stream(count, false)).await,
                "stream-memory" => Box::pin(bench.stream(count, true)).await,
                "stream-file" => stream_file(&bench.repo, count),
                "create" => Box::pin(bench.create(count)).await,
                "run" => Box::pin(bench.run(count)).await,
                "pause" => Box::pin(bench.pause(count, true, NetworkOptions::None)).await,
                "resume" => Box::pin(bench.pause(count, false, NetworkOptions::None)).await,
                "resume-walled" => {
                    Box::pin(bench.pause(count, false, NetworkOptions::default())).await
                }
                "collect" => Box::pin(bench.collect(count, false)).await,
                "collect-layer" => Box::pin(bench.collect(count, true)).await,
                "crowd" => Box::pin(bench.crowd(count)).await,
                "memory" => Box::pin(bench.memory(count)).await,
                "wakeups" => Box::pin(bench.wakeups(count as u64)).await,
                _ => Err(USAGE.into()),
            }
        }
        _ => Err(USAGE.into()),
    }
}

fn print(taken: Duration) {
    println!("{}", taken.as_micros());
}

fn caller(room: &Path) -> Result<Caller> {
    let user = room.join("user");
    std::fs::create_dir(&user)?;
    let mut caller = Caller::new(Home::new(user.join(".cofferdam")));
    caller.user_home = Some(user);
    caller
        .environment
        .insert("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
    Ok(caller)
}

/// Of a sandbox `one` that somebody else made.
async fn pause_of(home: &Path, repo: &str, count: usize) -> Result<()> {
    let caller = Caller::new(Home::new(home.to_owned()));
    let named = Named::find(&caller, &Path::new(repo).canonicalize()?, "one").await?;
    let session = Session::open(&caller, named, &native()).await?;
    for _ in 0..count {
        let began = Instant::now();
        session.pause().await?;
        session.resume().await?;
        print(began.elapsed());
    }
    session.detach();
    Ok(())
}

/// As the command has itself started.
fn watched_by(command: &str, caller: &Caller) -> Watcher {
    let mut watcher = Watcher::new(command);
    watcher.arguments = vec![WATCH.into()];
    watcher.environment.clone_from(&caller.environment);
    let home = caller.home.path().as_os_str().to_owned();
    watcher.environment.insert("COFFERDAM_HOME".into(), home);
    watcher
}

/// An agent whose program prints a file, read as Claude Code's is.
#[derive(Debug)]
struct Streaming(ClaudeCode);

impl AgentProvider for Streaming {
    fn name(&self) -> &'static str {
        "streaming"
    }

    fn environment(&self) -> &[&str] {
        &[]
    }

    fn command(&self, _request: &AgentRequest) -> std::result::Result<AgentCommand, AgentError> {
        Ok(AgentCommand {
            arguments: vec!["cat".into(), "/tmp/stream".into()],
            stdin: None,
            environment: BTreeMap::new(),
        })
    }

    fn parser(&self, request: &AgentRequest, signals: &[String]) -> Box<dyn StreamParser> {
        self.0.parser(request, signals)
    }
}

/// An event of an agent, and how often it stands in so many mebibytes.
fn events(mebibytes: usize) -> (String, usize) {
    let words = "It looks at a file and says what it has seen there. ".repeat(6);
    let line = format!(
        "{{\"type\":\"assistant\",\"message\":{{\"id\":\"m\",\"content\":[{{\"type\":\"text\",\"text\":\"{words}\"}}],\
         \"usage\":{{\"input_tokens\":1,\"output_tokens\":2}}}}}}"
    );
    let count = (mebibytes << 20) / (line.len() + 1);
    (line, count)
}

/// The same beside the repository, for others.
fn stream_file(repo: &Path, mebibytes: usize) -> Result<()> {
    let (line, count) = events(mebibytes);
    let file = std::fs::File::create(repo.with_extension("stream"))?;
    let mut file = std::io::BufWriter::new(file);
    for _ in 0..count {
        writeln!(file, "{line}")?;
    }
    Ok(file.flush()?)
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Bench {
    caller: Caller,
    repo: PathBuf,
}

impl Bench {
    fn options(&self, name: &str, network: NetworkOptions) -> Result<SessionOptions> {
        let strategy = BranchStrategy::Branch {
            branch: format!("bench/{name}").parse()?,
            base: None,
        };
        let mut options = if self.caller.watcher.is_some() {
            SessionOptions::new(&self.repo, BindMount::new(native(), BranchStrategy::Head))
        } else {
            SessionOptions::new(&self.repo, BindMount::or_layers(native(), strategy))
        };
        options.name = Some(name.to_owned());
        options.network = network;
        Ok(options)
    }

    async fn made(&self, name: &str) -> Result<Session> {
        self.made_behind(name, NetworkOptions::None).await
    }

    async fn made_behind(&self, name: &str, network: NetworkOptions) -> Result<Session> {
        let options = self.options(name, network)?;
        Ok(Session::create(&self.caller, &options).await?)
    }

    async fn deleted(&self, session: Session) -> Result<()> {
        let name = session.name().to_string();
        drop(session);
        let named = Named::find(&self.caller, &self.repo, &name).await?;
        living::end(&self.caller, &named, &native()).await?;
        let target = SandboxRef {
            home: self.caller.home.clone(),
            git: self.caller.git.clone(),
            repository: self.repo.clone(),
            caller_home: self.caller.user_home.clone(),
            name,
            cancel: self.caller.cancel.clone(),
        };
        let mut options = DeleteOptions::forced();
        options.purge = true;
        manage::delete(&target, options).await?;
        Ok(())
    }

    async fn exec(&self, count: usize) -> Result<()> {
        let session = self.made("exec").await?;
        for _ in 0..count {
            let began = Instant::now();
            let mut program = session.exec(SessionExec::new(["true"])).await?;
            let exit = program.wait().await?;
            print(began.elapsed());
            if exit != Exit::Code(0) {
                return Err(format!("`true` ended with {exit}").into());
            }
        }
        self.deleted(session).await
    }

    /// Each from the start of one iteration to that of the next.
    async fn iterate(&self, count: usize) -> Result<()> {
        let began: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let mut caller = self.caller.clone();
        let starts = Arc::clone(&began);
        caller.events = EventSink::new(move |event| {
            if let Event::IterationStarted { .. } = event {
                lock(&starts).push(Instant::now());
            }
        });
        let options = self.options("iterate", NetworkOptions::None)?;
        let session = Session::create(&caller, &options).await?;
        let mut task = Task::new(Arc::new(Command::new(["true"])?));
        task.max_iterations = NonZeroU32::try_from(u32::try_from(count)? + 1)?;
        session.agent(&task).await?;
        for pair in lock(&began).windows(2) {
            if let [one, next] = pair {
                print(*next - *one);
            }
        }
        self.deleted(session).await
    }

    /// So many mebibytes of an agent's events, which a program prints: the time, or the most memory that this process had, in KiB.
    async fn stream(&self, mebibytes: usize, memory: bool) -> Result<()> {
        let options = self.options("stream", NetworkOptions::None)?;
        let session = Session::create(&self.caller, &options).await?;
        let (line, count) = events(mebibytes);
        let script = format!("yes '{line}' | head -n {count} > /tmp/stream");
        let mut made = session
            .exec(SessionExec::new(["sh", "-c", &script]))
            .await?;
        made.wait().await?;
        let agent = Streaming(ClaudeCode::new(AgentOptions::default()));
        let mut task = Task::new(Arc::new(agent));
        task.prompt = PromptSource::Inline("x".to_owned());
        let began = Instant::now();
        session.agent(&task).await?;
        if memory {
            let status = std::fs::read_to_string("/proc/self/status")?;
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let peak = peak.and_then(|peak| peak.split_whitespace().next());
            println!("{}", peak.ok_or("the kernel does not say it")?);
        } else {
            print(began.elapsed());
        }
        self.deleted(session).await
    }

    async fn create(&self, count: usize) -> Result<()> {
        for number in 0..count {
            let options = self.options(&format!("create-{number}"), NetworkOptions::default())?;
            let began = Instant::now();
            let session = Session::create(&self.caller, &options).await?;
            print(began.elapsed());
            self.deleted(session).await?;
        }
        Ok(())
    }

    /// A run of its own until its sandbox is ready.
    async fn run(&self, count: usize) -> Result<()> {
        for number in 0..count {
            let session = self.options(&format!("run-{number}"), NetworkOptions::default())?;
            let agent = AgentOptions::with_arguments(["true"]);
            let mut task = Task::new(agent::by_name("command", agent)?);
            task.log = RunLog::None;
            let ready = Arc::new(Mutex::new(None));
            let mut caller = self.caller.clone();
            let seen = ready.clone();
            caller.events = EventSink::new(move |event| {
                if let (Event::SandboxReady { .. }, Ok(mut seen)) = (event, seen.lock()) {
                    seen.get_or_insert_with(Instant::now);
                }
            });
            let began = Instant::now();
            cofferdam::run(RunOptions {
                caller,
                session,
                task,
            })
            .await?;
            let ready = ready.lock().ok().and_then(|ready| *ready);
            print(ready.ok_or("no sandbox was ready")?.duration_since(began));
        }
        Ok(())
    }

    async fn pause(&self, count: usize, timed: bool, network: NetworkOptions) -> Result<()> {
        let session = self.made_behind("pause", network).await?;
        let line = format!("for n in $(seq {PROCESSES}); do sleep 1000 & done; echo all; wait");
        let mut program = session.exec(SessionExec::new(["sh", "-c", &line])).await?;
        let mut out = program.take_stdout().ok_or("no output")?;
        tokio::io::AsyncReadExt::read_exact(&mut out, &mut [0; 4]).await?;
        for _ in 0..count {
            let began = Instant::now();
            session.pause().await?;
            let paused = began.elapsed();
            let began = Instant::now();
            session.resume().await?;
            print(if timed { paused } else { began.elapsed() });
        }
        self.deleted(session).await
    }

    async fn collect(&self, count: usize, layered: bool) -> Result<()> {
        let mut options = self.options("collect", NetworkOptions::None)?;
        if !layered {
            let branch = "bench/collect".parse()?;
            let strategy = BranchStrategy::Branch { branch, base: None };
            options.sandbox = BindMount::new(native(), strategy).into();
        }
        let session = Session::create(&self.caller, &options).await?;
        for number in 0..count {
            // Ten files, wherever they lie.
            let line = if layered {
                format!(
                    "git ls-files | awk 'NR % 7 == 0' | head -n 10 | while read -r file; do echo {number} > \"$file\"; done; \
                     git commit -qam {number}"
                )
            } else {
                format!(
                    "echo {number} > new-{number}; git add new-{number}; git commit -qm {number}"
                )
            };
            let mut program = session.exec(SessionExec::new(["sh", "-c", &line])).await?;
            program.wait().await?;
            let began = Instant::now();
            let home = session.collect().await?;
            print(began.elapsed());
            if home.commits.len() != 1 {
                return Err(format!("{} commits came home", home.commits.len()).into());
            }
        }
        self.deleted(session).await
    }

    /// The processes of a sandbox behind its wall that nobody looks at any more: guest and supervisor, and what watches the checkout
    /// that it works in.
    async fn left_alone(&self, name: &str) -> Result<Vec<u32>> {
        let options = self.options(name, NetworkOptions::default())?;
        let session = Session::create(&self.caller, &options).await?;
        let state = self.caller.home.sandbox(session.id());
        let found = Supervisor::connect(&state).await?.ok_or("no supervisor")?;
        let guest = session.process().ok_or("no guest")?;
        let mut processes = vec![guest, found.1.process];
        if self.caller.watcher.is_some() {
            processes.push(watching(&session.id().to_string())?);
        }
        session.detach();
        Ok(processes)
    }

    /// The same of one that nobody has looked at for some seconds.
    async fn idle(&self, name: &str) -> Result<Vec<u32>> {
        let processes = Box::pin(self.left_alone(name)).await?;
        tokio::time::sleep(SETTLED).await;
        Ok(processes)
    }

    async fn over(&self, name: &str) -> Result<()> {
        let named = Named::find(&self.caller, &self.repo, name).await?;
        let session = Session::open(&self.caller, named, &native()).await?;
        self.deleted(session).await
    }

    /// Proportional set sizes of all together, in KiB.
    async fn memory(&self, count: usize) -> Result<()> {
        for number in 0..count {
            let name = format!("memory-{number}");
            let all = self.idle(&name).await?;
            println!("{}", together(&all)?);
            Box::pin(self.over(&name)).await?;
        }
        Ok(())
    }

    /// The same of so many that are idle at once and of the gateway that they have in common: the share of one.
    async fn crowd(&self, count: usize) -> Result<()> {
        let names: Vec<String> = (0..count).map(|number| format!("crowd-{number}")).collect();
        let mut all = Vec::new();
        for name in &names {
            all.extend(Box::pin(self.left_alone(name)).await?);
        }
        all.push(gateway_process(&self.caller.home)?.ok_or("no gateway")?);
        tokio::time::sleep(SETTLED).await;
        println!("{}", together(&all)? / count as u64);
        for name in &names {
            Box::pin(self.over(name)).await?;
        }
        Ok(())
    }

    /// How often all together were woken in so many seconds.
    async fn wakeups(&self, seconds: u64) -> Result<()> {
        let all = self.idle("wakeups").await?;
        let woken = || all.iter().map(|one| slept(*one)).sum::<Result<u64>>();
        let before = woken()?;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        println!("{}", woken()? - before);
        Box::pin(self.over("wakeups")).await
    }
}

fn native() -> Native {
    Native::new(NativeOptions::default())
}

/// How often it went to sleep by itself, in all its life.
fn slept(process: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = (text.lines()).find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    Ok(line.ok_or("no count")?.trim().parse()?)
}

/// What watches the checkout of this sandbox.
fn watching(id: &str) -> Result<u32> {
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
        if words.contains(&WATCH.as_bytes()) && words.contains(&id.as_bytes()) {
            return Ok(entry.file_name().to_string_lossy().parse()?);
        }
    }
    Err("nobody watches".into())
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

/// fork and exec of the host's own `true`.
#[expect(clippy::disallowed_methods, reason = "the rival")]
fn spawn(count: usize) -> Result<()> {
    for _ in 0..count {
        let began = Instant::now();
        std::process::Command::new("true").status()?;
        print(began.elapsed());
    }
    Ok(())
}

/// The kernel's freezer, by hand: until it says that all stand still, or go on. The one that a sandbox has; that of
/// version 1 only where there is no other.
#[expect(clippy::disallowed_methods, reason = "the rival")]
fn freezer(count: usize, timed: bool) -> Result<()> {
    let name = format!("cofferdam-bench-{}", std::process::id());
    let group = [
        Path::new("/sys/fs/cgroup/unified"),
        Path::new("/sys/fs/cgroup/freezer"),
        Path::new("/sys/fs/cgroup"),
    ]
    .into_iter()
    .map(|top| top.join(&name))
    .find(|group| std::fs::create_dir(group).is_ok())
    .ok_or("no freezer to write")?;
    let is_first = group.join("freezer.state").exists();
    let mut programs = Vec::new();
    for _ in 0..PROCESSES {
        let program = std::process::Command::new("sleep").arg("1000").spawn()?;
        std::fs::write(group.join("cgroup.procs"), program.id().to_string())?;
        programs.push(program);
    }
    let set = |frozen: bool| -> Result<Duration> {
        let (file, asked, told) = match (is_first, frozen) {
            (true, true) => ("freezer.state", "FROZEN", "FROZEN"),
            (true, false) => ("freezer.state", "THAWED", "THAWED"),
            (false, true) => ("cgroup.freeze", "1", "frozen 1"),
            (false, false) => ("cgroup.freeze", "0", "frozen 0"),
        };
        let says = group.join(if is_first { file } else { "cgroup.events" });
        let began = Instant::now();
        std::fs::write(group.join(file), asked)?;
        while !std::fs::read_to_string(&says)?.contains(told) {}
        Ok(began.elapsed())
    };
    for _ in 0..count {
        let (frozen, thawed) = (set(true)?, set(false)?);
        print(if timed { frozen } else { thawed });
    }
    for mut program in programs {
        program.kill()?;
        program.wait()?;
    }
    std::fs::remove_dir(group)?;
    Ok(())
}
