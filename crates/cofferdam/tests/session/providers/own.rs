//! The providers themselves: one that mounts and one whose sandboxes have files of their own, each with a fault if that is
//! wanted. Both keep a diary and let the embedded one do the work.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cofferdam::git::private_clone::INSIDE_VAULT;
use cofferdam::sandbox::{
    Abilities, Ability, Access, BindMountProvider, BoxRead, BoxWrite, ExecRequest, Execution, Exit,
    Handle, IsolatedProvider, IsolatedSandbox, Mount, MountSource, NetworkKind, Sandbox,
    SandboxError, SandboxSpec,
};
use tokio_util::sync::CancellationToken;

use crate::support::provider;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    FailCreate,
    HangCreate,
    PanicExec,
    HangExec,
    HangWait,
    HangClose,
    FailClose,
    /// Its programs' streams never end.
    HangRead,
    FailCopy,
    HangCopy,
    /// Nothing of its work can be brought out.
    FailPack,
    /// The same, and its isolated sandboxes end with their maker.
    LoseWork,
    /// Its files can neither be looked at nor changed from outside.
    NoFiles,
    /// It cannot stop its programs for a while.
    NoPause,
    /// It has no terminals to give.
    NoTerminal,
    /// Its sandboxes end with whoever made them.
    NoOutlive,
}

/// Where a sandbox's files are here, and which directory that is inside.
type Files = (Arc<tempfile::TempDir>, PathBuf);

/// A provider that mounts: it keeps a diary and lets the embedded one do the work.
#[derive(Debug, Clone)]
pub(super) struct Own {
    pub(super) native: Arc<dyn BindMountProvider>,
    fault: Fault,
    pub(super) diary: Arc<Mutex<Vec<String>>>,
    /// Those of its sandboxes that have their own, which stay as long as it does.
    pub(super) files: Arc<Mutex<Vec<Files>>>,
}

impl Own {
    pub(super) fn new(fault: Fault) -> Self {
        let (native, diary) = (provider(), Arc::default());
        Self {
            native,
            fault,
            diary,
            files: Arc::default(),
        }
    }

    fn note(&self, text: impl Into<String>) {
        self.diary.lock().unwrap().push(text.into());
    }

    fn watched(&self, inner: Arc<dyn Sandbox>) -> Watched {
        let own = self.clone();
        Watched { own, inner }
    }

    async fn begin(&self, spec: &SandboxSpec) -> Result<(), SandboxError> {
        self.note(format!("create in {}", spec.workdir.display()));
        match self.fault {
            Fault::FailCreate => Err(SandboxError::Start("no room today".into())),
            Fault::HangCreate => std::future::pending().await,
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl BindMountProvider for Own {
    fn name(&self) -> &'static str {
        "own"
    }

    fn abilities(&self) -> Abilities {
        let others: &[Ability] = match self.fault {
            Fault::NoPause => &[Ability::Mount, Ability::Outlive],
            Fault::NoOutlive => &[Ability::Mount, Ability::Pause, Ability::Terminal],
            Fault::NoTerminal => &[Ability::Mount, Ability::Outlive, Ability::Pause],
            _ => return self.native.abilities(),
        };
        let networks = self.native.abilities().networks;
        Abilities { networks, others }
    }

    async fn create(
        &self,
        spec: &SandboxSpec,
        cancel: &CancellationToken,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        self.begin(spec).await?;
        let inner = self.native.create(spec, cancel).await?;
        Ok(Arc::new(self.watched(inner)))
    }

    async fn open(&self, handle: &Handle) -> Result<Arc<dyn Sandbox>, SandboxError> {
        self.note("open");
        let inner = self.native.open(handle).await?;
        Ok(Arc::new(self.watched(inner)))
    }

    async fn remove(&self, handle: &Handle) -> Result<(), SandboxError> {
        self.note("remove");
        self.native.remove(handle).await
    }
}

#[derive(Debug)]
struct Watched {
    own: Own,
    inner: Arc<dyn Sandbox>,
}

#[async_trait]
impl Sandbox for Watched {
    async fn exec(&self, request: ExecRequest) -> Result<Box<dyn Execution>, SandboxError> {
        let program = request.arguments[0].to_string_lossy().into_owned();
        self.own.note(format!("exec {program}"));
        match self.own.fault {
            Fault::HangExec => std::future::pending().await,
            Fault::FailPack | Fault::LoseWork
                if request.arguments.iter().any(|word| packs(word)) =>
            {
                return Err(SandboxError::Gone("the wire was cut".into()));
            }
            Fault::PanicExec => return Err(SandboxError::Gone("it fell over".into())),
            _ => {}
        }
        let (own, inner) = (self.own.clone(), self.inner.exec(request).await?);
        Ok(Box::new(Program { own, inner }))
    }

    async fn close(&self) -> Result<(), SandboxError> {
        self.own.note("close");
        let closed = self.inner.close().await;
        match self.own.fault {
            Fault::HangClose => std::future::pending().await,
            Fault::FailClose => Err(SandboxError::TimedOut(10)),
            _ => closed,
        }
    }

    async fn stay(&self) -> Result<(), SandboxError> {
        self.inner.stay().await
    }

    fn process(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.inner.process()
    }
}

fn packs(word: &std::ffi::OsStr) -> bool {
    word.to_string_lossy().contains("pack-objects")
}

#[derive(Debug)]
struct Program {
    own: Own,
    inner: Box<dyn Execution>,
}

#[async_trait]
impl Execution for Program {
    fn take_stdin(&mut self) -> Option<BoxWrite> {
        self.inner.take_stdin()
    }

    fn take_stdout(&mut self) -> Option<BoxRead> {
        if self.own.fault == Fault::HangRead {
            let (ours, theirs) = tokio::io::duplex(64);
            std::mem::forget(theirs);
            return Some(Box::new(ours));
        }
        self.inner.take_stdout()
    }

    fn take_stderr(&mut self) -> Option<BoxRead> {
        self.inner.take_stderr()
    }

    async fn wait(&mut self) -> Result<Exit, SandboxError> {
        if self.own.fault == Fault::HangWait {
            std::future::pending::<()>().await;
        }
        self.inner.wait().await
    }

    async fn kill(&mut self, signal: i32) -> Result<(), SandboxError> {
        self.own.note(format!("kill {signal}"));
        self.inner.kill(signal).await
    }
}

/// A provider whose sandboxes have files of their own: here below a directory of its own, which
/// could as well be on another machine.
#[derive(Debug)]
pub(super) struct Apart(pub(super) Own);

#[async_trait]
impl IsolatedProvider for Apart {
    fn name(&self) -> &'static str {
        "apart"
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            networks: &[NetworkKind::None],
            others: match self.0.fault {
                Fault::LoseWork => &[Ability::Git],
                _ => &[Ability::Outlive, Ability::Git],
            },
        }
    }

    async fn create(
        &self,
        spec: &SandboxSpec,
        cancel: &CancellationToken,
    ) -> Result<Arc<dyn IsolatedSandbox>, SandboxError> {
        assert!(spec.mounts.is_empty());
        self.0.begin(spec).await?;
        let files = tempfile::tempdir().map_err(|error| SandboxError::Start(error.to_string()))?;
        let mut own = spec.clone();
        for (name, target) in [
            ("work", spec.workdir.as_path()),
            ("vault", Path::new(INSIDE_VAULT)),
        ] {
            let source = files.path().join(name);
            std::fs::create_dir(&source).map_err(|error| SandboxError::Start(error.to_string()))?;
            own.mounts.push(Mount {
                source: MountSource::Path(source),
                target: target.to_owned(),
                access: Access::ReadWrite,
            });
        }
        let inner = self.0.native.create(&own, cancel).await?;
        let (files, workdir) = (Arc::new(files), spec.workdir.clone());
        let there = (files.clone(), workdir.clone());
        self.0.files.lock().unwrap().push(there);
        Ok(Arc::new(Island {
            watched: self.0.watched(inner),
            files,
            workdir,
        }))
    }

    /// The only one that there is.
    async fn open(&self, handle: &Handle) -> Result<Arc<dyn IsolatedSandbox>, SandboxError> {
        let inner = self.0.native.open(handle).await?;
        let (files, workdir) = self.0.files.lock().unwrap()[0].clone();
        Ok(Arc::new(Island {
            watched: self.0.watched(inner),
            files,
            workdir,
        }))
    }

    async fn remove(&self, handle: &Handle) -> Result<(), SandboxError> {
        self.0.native.remove(handle).await
    }
}

#[derive(Debug)]
struct Island {
    watched: Watched,
    files: Arc<tempfile::TempDir>,
    workdir: PathBuf,
}

#[async_trait]
impl Sandbox for Island {
    async fn exec(&self, request: ExecRequest) -> Result<Box<dyn Execution>, SandboxError> {
        self.watched.exec(request).await
    }

    async fn close(&self) -> Result<(), SandboxError> {
        self.watched.close().await
    }

    async fn stay(&self) -> Result<(), SandboxError> {
        self.watched.stay().await
    }

    async fn deliver(&self, parcels: OwnedFd, receipts: OwnedFd) -> Result<(), SandboxError> {
        self.reaches_files()?;
        self.watched.own.note("deliver");
        self.watched.inner.deliver(parcels, receipts).await
    }

    async fn browse(&self, question: OwnedFd, seen: OwnedFd) -> Result<(), SandboxError> {
        self.reaches_files()?;
        self.watched.own.note("browse");
        self.watched.inner.browse(question, seen).await
    }
}

impl Island {
    fn reaches_files(&self) -> Result<(), SandboxError> {
        match self.watched.own.fault {
            Fault::NoFiles => Err(SandboxError::Unable {
                who: "the island".to_owned(),
                ability: Ability::Files,
            }),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl IsolatedSandbox for Island {
    async fn copy_in(&self, source: &Path, target: &Path) -> Result<(), SandboxError> {
        match self.watched.own.fault {
            Fault::FailCopy => return Err(SandboxError::Gone("the wire was cut".into())),
            Fault::HangCopy => std::future::pending().await,
            _ => {}
        }
        let place = if let Ok(rest) = target.strip_prefix(&self.workdir) {
            self.files.path().join("work").join(rest)
        } else if let Ok(rest) = target.strip_prefix(INSIDE_VAULT) {
            self.files.path().join("vault").join(rest)
        } else {
            panic!("{} is not for us", target.display());
        };
        std::fs::create_dir_all(&place).unwrap();
        let done = std::process::Command::new("cp")
            .arg("-a")
            .arg("--")
            .arg(source.join("."))
            .arg(&place)
            .status();
        assert!(done.unwrap().success());
        Ok(())
    }
}
