//! One try of one check: its sandboxes, and their end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use super::{Failure, Subject, ensure};
use crate::fsx;
use crate::names::{SandboxId, Slug};
use crate::sandbox::{
    Access, ExecRequest, Execution, Exit, Handle, Lifetime, Mount, MountSource, Sandbox,
    SandboxError, SandboxSpec,
};

/// Whatever is to come comes sooner.
const SOON: Duration = Duration::from_secs(30);

pub(super) struct Trial<'a> {
    pub(super) subject: &'a Subject,
    pub(super) place: PathBuf,
    made: Mutex<Vec<Made>>,
}

enum Made {
    Here(Arc<dyn Sandbox>),
    Lives(Handle),
}

impl<'a> Trial<'a> {
    pub(super) fn begin(subject: &'a Subject, name: &str) -> Result<Self, Failure> {
        let place = subject.place.join(name);
        fs::create_dir_all(&place)?;
        // Whoever the agent is may go through.
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755))?;
        Ok(Self {
            subject,
            place,
            made: Mutex::default(),
        })
    }

    /// Ends all sandboxes; with them goes the place, where nothing is wrong.
    pub(super) async fn end(self, well: bool) -> Result<(), Failure> {
        let made = self.made.into_inner().unwrap_or_default();
        let mut ended = Ok(());
        for one in made {
            let done = match one {
                Made::Here(sandbox) => sandbox.close().await,
                Made::Lives(handle) => self.subject.provider.remove(&handle).await,
            };
            ended = ended.and(done);
        }
        ended.map_err(|error| Failure(format!("a sandbox did not end: {error}")))?;
        if well {
            fsx::remove_tree(&self.place).map_err(|error| Failure(error.to_string()))?;
        }
        Ok(())
    }

    pub(super) fn spec(&self) -> Result<SandboxSpec, Failure> {
        let id = SandboxId::random()?;
        let slug = Slug::from_text("conformance").map_err(|error| Failure(error.to_string()))?;
        let mut spec = SandboxSpec::new(id, slug, "conformance", "/");
        spec.limits = self.subject.limits.clone();
        Ok(spec)
    }

    pub(super) async fn create(&self, spec: &SandboxSpec) -> Result<Arc<dyn Sandbox>, Failure> {
        let sandbox = self.try_to_create(spec).await?;
        if spec.lifetime == Lifetime::WithMaker {
            self.note(Made::Here(Arc::clone(&sandbox)));
        } else {
            sandbox.stay().await?;
        }
        Ok(sandbox)
    }

    /// Its maker's end is the caller's doing.
    pub(super) async fn try_to_create(
        &self,
        spec: &SandboxSpec,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        let cancel = CancellationToken::new();
        self.subject.provider.create(spec, &cancel).await
    }

    /// One of which nothing is asked.
    pub(super) async fn any(&self) -> Result<Arc<dyn Sandbox>, Failure> {
        self.create(&self.spec()?).await
    }

    /// What makes one that outlives its maker, and where it is found.
    pub(super) fn living(&self) -> Result<(SandboxSpec, Handle), Failure> {
        let mut spec = self.spec()?;
        let state = self.directory(&format!("state-{}", spec.id))?;
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700))?;
        spec.lifetime = Lifetime::UntilRemoved {
            state: state.clone(),
        };
        let handle = Handle { id: spec.id, state };
        self.note(Made::Lives(handle.clone()));
        Ok((spec, handle))
    }

    fn note(&self, made: Made) {
        if let Ok(mut all) = self.made.lock() {
            all.push(made);
        }
    }

    /// A directory of this check's on the host.
    pub(super) fn directory(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.place.join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// With a directory of the host's at `/workspace`, in which programs start.
    pub(super) fn with_workspace(&self, spec: &mut SandboxSpec) -> Result<PathBuf, Failure> {
        let shared = self.directory("workspace")?;
        spec.mounts
            .push(mount(&shared, "/workspace", Access::ReadWrite));
        spec.workdir = "/workspace".into();
        Ok(shared)
    }
}

pub(super) fn mount(
    source: impl Into<PathBuf>,
    target: impl Into<PathBuf>,
    access: Access,
) -> Mount {
    Mount {
        source: MountSource::Path(source.into()),
        target: target.into(),
        access,
    }
}

pub(super) fn script(text: &str) -> ExecRequest {
    ExecRequest::new(["sh", "-c", text])
}

pub(super) async fn start(
    sandbox: &dyn Sandbox,
    text: &str,
) -> Result<Box<dyn Execution>, Failure> {
    Ok(sandbox.exec(script(text)).await?)
}

/// What became of a program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) exit: Exit,
    pub(super) out: String,
    pub(super) err: String,
}

pub(super) async fn finish(mut run: Box<dyn Execution>) -> Result<Done, Failure> {
    let missing = || Failure("a program has no output".to_owned());
    let mut stdout = run.take_stdout().ok_or_else(missing)?;
    let mut stderr = run.take_stderr().ok_or_else(missing)?;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let both = async { tokio::join!(stdout.read_to_end(&mut out), stderr.read_to_end(&mut err)) };
    let read = tokio::time::timeout(SOON, both).await;
    let (first, second) = read.map_err(|_| Failure("a program did not end".to_owned()))?;
    first.and(second)?;
    Ok(Done {
        exit: exit_of(&mut *run).await?,
        out: String::from_utf8_lossy(&out).into(),
        err: String::from_utf8_lossy(&err).into(),
    })
}

/// It comes soon.
pub(super) async fn exit_of(run: &mut dyn Execution) -> Result<Exit, Failure> {
    let waited = tokio::time::timeout(SOON, run.wait()).await;
    Ok(waited.map_err(|_| Failure("a program did not end".to_owned()))??)
}

/// What a script printed, which has to succeed.
pub(super) async fn ok(sandbox: &dyn Sandbox, text: &str) -> Result<String, Failure> {
    let done = finish(start(sandbox, text).await?).await?;
    ensure!(done.exit.success(), "`{text}` went wrong: {done:?}");
    Ok(done.out)
}

/// Tries each of the scripts, none of which may succeed.
pub(super) async fn refused(sandbox: &dyn Sandbox, scripts: &[&str]) -> Result<(), Failure> {
    for text in scripts {
        let done = finish(start(sandbox, text).await?).await?;
        ensure!(!done.exit.success(), "`{text}` went through: {done:?}");
    }
    Ok(())
}

/// Waits until something holds.
pub(super) async fn eventually(
    what: &str,
    mut holds: impl FnMut() -> bool + Send,
) -> Result<(), Failure> {
    let begin = Instant::now();
    while !holds() {
        ensure!(begin.elapsed() < SOON, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Writes to a file in the working directory, again and again.
pub(super) const BEAT: &str = "while :; do echo beat >>beat; sleep 0.02; done";

/// Whether somebody goes on with [`BEAT`] in `directory`. Takes a while.
pub(super) async fn beats(directory: &Path) -> bool {
    let length = || fs::metadata(directory.join("beat")).map_or(0, |found| found.len());
    let before = length();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(400) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if length() != before {
            return true;
        }
    }
    false
}

/// Waits for the first of them.
pub(super) async fn first_beat(directory: &Path) -> Result<(), Failure> {
    let file = directory.join("beat");
    eventually("a program inside writes to a mount", || file.exists()).await
}

/// Writes a file that everybody may read.
pub(super) fn put(path: &Path, text: &str) -> Result<(), Failure> {
    let written = fsx::write_with_mode(path, text.as_bytes(), 0o644);
    written.map_err(|error| Failure(error.to_string()))
}
