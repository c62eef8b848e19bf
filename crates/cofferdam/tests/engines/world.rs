//! What every test of the engines needs.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam::home::Home;
use cofferdam::names::{SandboxId, Slug};
use cofferdam::sandbox::docker::Docker;
use cofferdam::sandbox::engine::{self, Engine, EngineOptions, Kind, Surroundings};
use cofferdam::sandbox::podman::Podman;
use cofferdam::sandbox::{
    Access, BindMountProvider, ExecRequest, Execution, Exit, Handle, Lifetime, Mount, MountSource,
    Network, Sandbox, SandboxError, SandboxSpec,
};
use cofferdam::wall::rules::Sources;
use cofferdam::wall::{Origin, Rule, WallSpec};
use cofferdam_lab::{sample, skip};
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

/// An image with a shell and nothing else.
pub(crate) const IMAGE: &str = "busybox:latest";

pub(crate) fn around() -> Surroundings {
    Surroundings {
        docker_host: std::env::var_os("DOCKER_HOST"),
        container_host: std::env::var_os("CONTAINER_HOST"),
        ..Surroundings::default()
    }
}

/// An engine with a place of this test's own.
pub(crate) struct World {
    place: tempfile::TempDir,
    pub(crate) kind: Kind,
    pub(crate) engine: Engine,
}

/// A test for each engine that this machine has, and for Docker once more as an ordinary user of its group.
macro_rules! each {
    ($(#[$meta:meta])* async fn $name:ident($world:ident: World) $body:block) => {
        mod $name {
            use super::*;

            async fn check($world: World) $body

            #[test]
            fn docker() {
                let test = concat!(module_path!(), "::docker");
                if $crate::world::is_there(Kind::Docker) {
                    $crate::world::run_async(check(World::of(Kind::Docker)));
                    $crate::world::repeat_in_the_group_docker(test);
                }
            }

            #[test]
            fn podman() {
                if $crate::world::is_there(Kind::Podman) {
                    $crate::world::run_async(check(World::of(Kind::Podman)));
                }
            }
        }
    };
}

pub(crate) use each;

/// Whether this machine has the engine; that it does not is said.
pub(crate) fn is_there(kind: Kind) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    match runtime.block_on(engine::probe(kind, &around())) {
        Ok(_) => true,
        Err(why) => {
            skip!("{why}");
            false
        }
    }
}

/// The engine's own command, as whoever runs the test.
#[track_caller]
pub(crate) fn engine(kind: Kind, words: &[&str]) -> String {
    try_engine(kind, words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// As [`engine`]; the error is what it said.
pub(crate) fn try_engine(kind: Kind, words: &[&str]) -> Result<String, String> {
    // Podman's own command would work beside its service, and leaves something wherever it is started.
    let remote: &[&str] = if kind == Kind::Podman {
        &["--remote"]
    } else {
        &[]
    };
    let mut command = Command::new(kind.name());
    let scratch = tempfile::tempdir().unwrap();
    command
        .args(remote)
        .args(words)
        .env("TMPDIR", scratch.path());
    if std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        command.env("XDG_RUNTIME_DIR", scratch.path());
    }
    let done = command.output().unwrap();
    if done.status.success() {
        return Ok(String::from_utf8(done.stdout).unwrap());
    }
    Err(String::from_utf8_lossy(&done.stderr).into_owned())
}

/// Of these one is tried as a member of Docker's group in a run of the whole suite.
const SHARE: u64 = 2;

/// Root's tests run once more for who is in the group of Docker's socket: to them an engine gives what its files are theirs by.
pub(crate) fn repeat_in_the_group_docker(test: &str) {
    let (_, test) = test.split_once("::").unwrap();
    if !rustix::process::geteuid().is_root() || sample::leaves_out(test, SHARE) {
        return;
    }
    let socket = around().docker_host.map_or_else(
        || PathBuf::from("/var/run/docker.sock"),
        |host| host.to_str().unwrap().trim_start_matches("unix://").into(),
    );
    let group = socket.metadata().unwrap().gid().to_string();
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (program, copy) = (std::env::current_exe().unwrap(), dir.path().join("engines"));
    fs::copy(&program, &copy).unwrap();
    let id = (10_000 + std::process::id() % 50_000).to_string();
    let own = dir.path().join("own");
    fs::create_dir(&own).unwrap();
    let number: u32 = id.parse().unwrap();
    std::os::unix::fs::chown(&own, Some(number), Some(number)).unwrap();
    let done = Command::new("setpriv")
        .args([
            "--reuid",
            &id,
            "--regid",
            &id,
            "--groups",
            &group,
            "--inh-caps=-all",
        ])
        .arg(&copy)
        .args(["--exact", test, "--nocapture"])
        .env("TMPDIR", &own)
        .env("HOME", &own)
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success() && text.contains("1 passed"),
        "in the group of Docker's socket: {text}{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

impl World {
    pub(crate) fn of(kind: Kind) -> Self {
        let place = tempfile::tempdir().unwrap();
        let engine = engine_at(kind, place.path().join("engine"), IMAGE);
        Self {
            place,
            kind,
            engine,
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The engine's place.
    pub(crate) fn home(&self) -> PathBuf {
        self.place.path().join("engine")
    }

    /// The same engine, by its own name.
    pub(crate) fn provider(&self) -> Arc<dyn BindMountProvider> {
        let options = options(self.place.path().join("engine"), IMAGE);
        match self.kind {
            Kind::Docker => Arc::new(Docker::new(options)),
            Kind::Podman => Arc::new(Podman::new(options)),
        }
    }

    /// The same engine with another runtime.
    pub(crate) fn with_runtime(&self, name: &str) -> Engine {
        let mut options = options(self.place.path().join("engine"), IMAGE);
        options.runtime = Some(name.to_owned());
        Engine::new(self.kind, options)
    }

    /// The same engine with another image.
    pub(crate) fn with_image(&self, image: &str) -> Engine {
        engine_at(self.kind, self.place.path().join("engine"), image)
    }

    #[expect(clippy::unused_self, reason = "an engine may have another name for it")]
    pub(crate) fn image(&self) -> &'static str {
        IMAGE
    }

    /// One that would start what must not be started, as `user`.
    pub(crate) fn hostile_image(&self, user: &str) -> String {
        let user = format!("USER {user}");
        let changes = [
            "ENTRYPOINT [\"touch\", \"/ran\"]",
            "CMD [\"/never\"]",
            user.as_str(),
            "ENV OF_THE_IMAGE=yes",
            "VOLUME /data",
            "WORKDIR /nowhere",
            "HEALTHCHECK --interval=1s CMD touch /tmp/ran-by-the-engine",
        ];
        let [others @ .., check] = changes;
        if self.kind == Kind::Docker {
            return self.image_with(&changes, "hostile");
        }
        // Of Podman's images only those that are built in Docker's form have health checks.
        let name = self.image_with(&others, "hostile");
        let place = self.directory("checked");
        let file = place.join("Dockerfile");
        fs::write(&file, format!("FROM {name}\n{check}\n")).unwrap();
        let words = ["build", "--format", "docker", "--tag", &name, "--file"];
        let words = [
            &words[..],
            &[file.to_str().unwrap(), place.to_str().unwrap()],
        ]
        .concat();
        engine(self.kind, &words);
        name
    }

    /// The files of [`IMAGE`] with other settings, and `name` in its own.
    pub(crate) fn image_with(&self, changes: &[&str], name: &str) -> String {
        let name = format!("cofferdam-test-{name}-{}", std::process::id());
        let archive = self.place.path().join("image.tar");
        let made = engine(self.kind, &["create", IMAGE, "true"]);
        engine(
            self.kind,
            &["export", "-o", archive.to_str().unwrap(), made.trim()],
        );
        engine(self.kind, &["rm", made.trim()]);
        let mut words = vec!["import"];
        for change in changes {
            words.extend(["--change", change]);
        }
        words.extend([archive.to_str().unwrap(), name.as_str()]);
        engine(self.kind, &words);
        name
    }

    /// How many containers the engine has of this sandbox.
    pub(crate) fn containers(&self, spec: &SandboxSpec) -> usize {
        let label = format!("label=io.cofferdam.id={}", spec.id);
        engine(self.kind, &["ps", "-a", "-q", "--filter", &label])
            .lines()
            .count()
    }

    pub(crate) async fn eventually(&self, what: &str, mut check: impl FnMut() -> bool) {
        let began = Instant::now();
        while !check() {
            assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A directory of the test's.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let path = self.place.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    pub(crate) fn living(&self) -> (SandboxSpec, Handle) {
        let state = self.directory("state");
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
        let mut spec = spec();
        spec.lifetime = Lifetime::UntilRemoved {
            state: state.clone(),
        };
        let handle = Handle { id: spec.id, state };
        (spec, handle)
    }

    pub(crate) async fn create(
        &self,
        spec: &SandboxSpec,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        let sandbox = self.engine.create(spec, &CancellationToken::new()).await?;
        if spec.lifetime != Lifetime::WithMaker {
            sandbox.stay().await?;
        }
        Ok(sandbox)
    }

    /// A wall whose gateway is this test's alone.
    pub(crate) fn wall(&self, spec: &SandboxSpec, rules: &[&str]) -> Network {
        let home = Home::new(self.place.path().join("home"));
        let flags = rules
            .iter()
            .map(|rule| Rule::parse(rule, Origin::Flag).unwrap())
            .collect();
        Network::Wall(Box::new(WallSpec {
            home: home.clone(),
            sandbox: spec.id,
            name: spec.slug.clone(),
            sources: Sources {
                home,
                repository: None,
                sandbox: Some(spec.id),
                flags,
            },
        }))
    }

    /// What is left below the engine's place.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for part in ["meet", "mounts"] {
            let entries = fs::read_dir(self.place.path().join("engine").join(part));
            let names = entries.into_iter().flatten().flatten();
            left.extend(names.map(|entry| entry.path().display().to_string()));
        }
        left
    }
}

pub(crate) fn spec() -> SandboxSpec {
    let (id, slug) = (SandboxId::random(), Slug::from_text("test"));
    let mut spec = SandboxSpec::new(id.unwrap(), slug.unwrap(), "cofferdam-test", "/");
    spec.limits.open_files = Some(1024);
    spec.limits.processes = Some(256);
    spec
}

pub(crate) fn run_async(body: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            let limit = Duration::from_secs(180);
            tokio::time::timeout(limit, body)
                .await
                .expect("a test ends within three minutes");
        });
}

pub(crate) async fn finish(mut run: Box<dyn Execution>) -> (Exit, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (mut stdout, mut stderr) = (run.take_stdout().unwrap(), run.take_stderr().unwrap());
    let (a, b) = tokio::join!(stdout.read_to_end(&mut out), stderr.read_to_end(&mut err));
    a.unwrap();
    b.unwrap();
    let exit = run.wait().await.unwrap();
    (
        exit,
        String::from_utf8_lossy(&out).into(),
        String::from_utf8_lossy(&err).into(),
    )
}

/// Standard output of a script that must succeed.
pub(crate) async fn ok(sandbox: &dyn Sandbox, script: &str) -> String {
    let request = ExecRequest::new(["sh", "-c", script]);
    let (exit, out, err) = finish(sandbox.exec(request).await.unwrap()).await;
    assert!(exit.success(), "{script}: {exit}: {out}{err}");
    out
}

pub(crate) fn mount(source: impl Into<PathBuf>, target: &str, access: Access) -> Mount {
    Mount {
        source: MountSource::Path(source.into()),
        target: target.into(),
        access,
    }
}

fn engine_at(kind: Kind, home: PathBuf, image: &str) -> Engine {
    Engine::new(kind, options(home, image))
}

fn options(home: PathBuf, image: &str) -> EngineOptions {
    let mut options = EngineOptions::new(home, around());
    options.image = Some(image.to_owned());
    options
}
