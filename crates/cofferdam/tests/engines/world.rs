//! What every test of the engines needs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cofferdam::home::Home;
use cofferdam::names::{SandboxId, Slug};
use cofferdam::sandbox::engine::{self, Engine, EngineOptions, Kind, Surroundings};
use cofferdam::sandbox::{
    Access, BindMountProvider, ExecRequest, Execution, Exit, Handle, Lifetime, Mount, MountSource,
    Network, Sandbox, SandboxError, SandboxSpec,
};
use cofferdam::wall::rules::Sources;
use cofferdam::wall::{Origin, Rule, WallSpec};
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
    pub(crate) engine: Engine,
}

impl World {
    pub(crate) fn of(kind: Kind) -> Self {
        let place = tempfile::tempdir().unwrap();
        let mut options = EngineOptions::new(place.path().join("engine"), around());
        options.image = IMAGE.to_owned();
        Self {
            engine: Engine::new(kind, options),
            place,
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
        self.engine.create(spec, &CancellationToken::new()).await
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
            let limit = Duration::from_secs(120);
            tokio::time::timeout(limit, body)
                .await
                .expect("a test ends within two minutes");
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

/// Whether this machine has the engine.
pub(crate) async fn has(kind: Kind) -> Result<(), String> {
    engine::probe(kind, &around())
        .await
        .map(drop)
        .map_err(|error| error.to_string())
}
