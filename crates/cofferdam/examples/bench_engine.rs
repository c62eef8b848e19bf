//! What `scripts/bench` times of sandboxes in containers, by library call. Each subcommand prints numbers, one on each line: see
//! the script for what they mean.
#![expect(clippy::print_stdout, reason = "its output is the result")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam::home::Home;
use cofferdam::names::{SandboxId, Slug};
use cofferdam::sandbox::engine::{Engine, EngineOptions, Kind, Surroundings};
use cofferdam::sandbox::{
    BindMountProvider, ExecRequest, Lifetime, Network, Sandbox, SandboxSpec, TerminalSize,
};
use cofferdam::wall::WallSpec;
use cofferdam::wall::rules::Sources;
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str =
    "usage: bench_engine docker|podman create|ready|exec|terminal|pause|resume SOCKET IMAGE N";

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(bench(std::env::args().skip(1).collect()))
}

async fn bench(words: Vec<String>) -> Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [kind, what, socket, image, count] = words[..] else {
        return Err(USAGE.into());
    };
    let kind = Kind::named(kind).ok_or(USAGE)?;
    let room = tempfile::Builder::new()
        .prefix("cofferdam-bench-engine.")
        .tempdir()?;
    let host = Some(format!("unix://{socket}").into());
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
    match what {
        "create" => bench.create(count, false).await,
        "ready" => bench.create(count, true).await,
        "exec" => bench.exec(count, None).await,
        "terminal" => {
            bench
                .exec(
                    count,
                    Some(TerminalSize {
                        columns: 80,
                        rows: 24,
                    }),
                )
                .await
        }
        "pause" => bench.pause(count, true).await,
        "resume" => bench.pause(count, false).await,
        _ => Err(USAGE.into()),
    }
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
        Ok(self.engine.create(&spec, &CancellationToken::new()).await?)
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

    /// Until a program's first word; without a terminal until its end is known.
    async fn exec(&self, count: usize, terminal: Option<TerminalSize>) -> Result<()> {
        let sandbox = self.made().await?;
        for _ in 0..count {
            let began = Instant::now();
            heard(&*sandbox, terminal).await?;
            print(began.elapsed());
        }
        Ok(sandbox.close().await?)
    }

    async fn pause(&self, count: usize, pause: bool) -> Result<()> {
        let sandbox = self.made().await?;
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
