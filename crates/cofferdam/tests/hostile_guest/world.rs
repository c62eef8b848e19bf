//! A sandbox that pretends, and what must be so after each run with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Env, command, run};
use async_trait::async_trait;
use cofferdam::sandbox::{
    Abilities, Ability, BindMountProvider, BoxRead, BoxWrite, ExecRequest, Execution, Exit,
    IsolatedProvider, IsolatedSandbox, MountSource, NetworkKind, Sandbox, SandboxError,
    SandboxSpec,
};
use cofferdam::session::manage;
use cofferdam::{RunError, RunReport};
use tokio_util::sync::CancellationToken;

/// No scenario may take longer, collecting included.
pub(crate) const LIMIT: Duration = Duration::from_secs(25);

/// What a program in the sandbox pretends to do.
#[derive(Debug, Clone)]
pub(crate) struct Pretence {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) end: End,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Exit(Exit),
    /// It never says that it has ended.
    Never,
    /// The sandbox breaks down.
    Gone,
}

impl Pretence {
    pub(crate) fn says(stdout: impl Into<Vec<u8>>) -> Self {
        Self {
            stdout: stdout.into(),
            stderr: Vec::new(),
            end: End::Exit(Exit::Code(0)),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Run {
    pretence: Pretence,
    taken: bool,
}

#[async_trait]
impl Execution for Run {
    fn take_stdin(&mut self) -> Option<BoxWrite> {
        Some(Box::new(tokio::io::sink()))
    }

    fn take_stdout(&mut self) -> Option<BoxRead> {
        self.taken = true;
        Some(Box::new(std::io::Cursor::new(self.pretence.stdout.clone())))
    }

    fn take_stderr(&mut self) -> Option<BoxRead> {
        Some(Box::new(std::io::Cursor::new(self.pretence.stderr.clone())))
    }

    async fn wait(&mut self) -> Result<Exit, SandboxError> {
        match self.pretence.end {
            End::Exit(exit) => Ok(exit),
            End::Never => std::future::pending().await,
            End::Gone => Err(SandboxError::Gone("it exploded".into())),
        }
    }

    async fn kill(&mut self, _signal: i32) -> Result<(), SandboxError> {
        match self.pretence.end {
            // Not even that is answered.
            End::Never => std::future::pending().await,
            _ => Ok(()),
        }
    }
}

/// A program's name and arguments to what it pretends.
pub(crate) type Script = Arc<dyn Fn(&ExecRequest) -> Pretence + Send + Sync>;

/// What the agent does to its git directory.
pub(crate) type Spite = Arc<dyn Fn(&Path) + Send + Sync>;

/// A sandbox that only pretends, with or without files of its own.
#[derive(Clone)]
pub(crate) struct Hostile {
    pub(crate) script: Script,
    pub(crate) spite: Spite,
    /// `close` is never answered.
    pub(crate) stays: bool,
    pub(crate) git: PathBuf,
}

impl std::fmt::Debug for Hostile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hostile")
    }
}

impl Hostile {
    pub(crate) fn new(script: impl Fn(&ExecRequest) -> Pretence + Send + Sync + 'static) -> Self {
        Self {
            script: Arc::new(script),
            spite: Arc::new(|_| {}),
            stays: false,
            git: PathBuf::new(),
        }
    }

    pub(crate) fn spiteful(spite: impl Fn(&Path) + Send + Sync + 'static) -> Self {
        Self {
            spite: Arc::new(spite),
            ..Self::new(|_| Pretence::says("done\n"))
        }
    }
}

#[async_trait]
impl Sandbox for Hostile {
    async fn exec(&self, request: ExecRequest) -> Result<Box<dyn Execution>, SandboxError> {
        if self.git.is_dir() {
            (self.spite)(&self.git);
        }
        Ok(Box::new(Run {
            pretence: (self.script)(&request),
            taken: false,
        }))
    }

    async fn close(&self) -> Result<(), SandboxError> {
        if self.stays {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

#[async_trait]
impl IsolatedSandbox for Hostile {
    async fn copy_in(&self, _source: &Path, _target: &Path) -> Result<(), SandboxError> {
        Ok(())
    }
}

#[async_trait]
impl BindMountProvider for Hostile {
    fn name(&self) -> &'static str {
        "hostile"
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            networks: &[NetworkKind::None],
            others: &[Ability::Layers],
        }
    }

    async fn create(
        &self,
        spec: &SandboxSpec,
        _cancel: &CancellationToken,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        let git = spec.mounts.iter().find_map(|mount| match &mount.source {
            MountSource::Path(path) if path.ends_with("git") => Some(path.clone()),
            _ => None,
        });
        Ok(Arc::new(Self {
            git: git.unwrap(),
            ..self.clone()
        }))
    }
}

#[async_trait]
impl IsolatedProvider for Hostile {
    fn name(&self) -> &'static str {
        "hostile"
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            networks: &[NetworkKind::None],
            others: &[Ability::Git],
        }
    }

    async fn create(
        &self,
        _spec: &SandboxSpec,
        _cancel: &CancellationToken,
    ) -> Result<Arc<dyn IsolatedSandbox>, SandboxError> {
        Ok(Arc::new(self.clone()))
    }
}

/// A repository with another branch that no sandbox ever sees.
pub(crate) fn env() -> Env {
    let env = Env::new();
    env.git(&["checkout", "-qb", "secret"]);
    env.write("secret.txt", "secret\n");
    env.commit_all("secret");
    env.git(&["checkout", "-q", "main"]);
    env
}

/// Runs it, and then `gc`, and checks that both ended in time and moved nothing.
#[track_caller]
pub(crate) fn survives(
    env: &Env,
    sandbox: impl Into<cofferdam::sandbox::Contained>,
    what: &str,
) -> Result<RunReport, RunError> {
    let before = users_refs(env);
    let mut options = env.with(sandbox, command(&["/bin/true"]));
    options.task.idle_timeout = Duration::from_millis(200);
    options.task.completion_grace = Duration::from_millis(200);
    options.session.timeouts.collect = Duration::from_secs(5);
    let began = Instant::now();
    let result = run(options);
    assert!(
        began.elapsed() < LIMIT,
        "{what}: it took {:?}",
        began.elapsed()
    );
    assert_eq!(users_refs(env), before, "{what}: {result:?}");
    env.git(&["fsck", "--full", "--strict", "--no-dangling"]);
    result
}

/// `gc` ends too, moves nothing, and what it cannot bring home it names; `delete` ends it.
#[track_caller]
pub(crate) fn is_cleaned_up(env: &Env, what: &str) {
    let before = users_refs(env);
    let cancel = CancellationToken::new();
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let git = cofferdam::git::Git::new("git");
        let user = env.dir.path().join("user");
        manage::gc(
            &env.home,
            &git,
            Some(&env.repo),
            Some(&user),
            cofferdam::session::manage::GcOptions::default(),
            &|_| (),
            &cancel,
        )
        .await
        .unwrap();
        let list = manage::list(&env.home, &git, Some(&env.repo), Some(&user), &cancel);
        for one in list.await.unwrap() {
            let target = manage::SandboxRef {
                home: env.home.clone(),
                git: git.clone(),
                repository: env.repo.clone(),
                caller_home: Some(user.clone()),
                name: one.name.to_string(),
                cancel: cancel.clone(),
            };
            let mut options = manage::DeleteOptions::forced();
            options.purge = true;
            manage::delete(&target, options)
                .await
                .unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    });
    assert!(
        began.elapsed() < LIMIT,
        "{what}: it took {:?}",
        began.elapsed()
    );
    assert_eq!(users_refs(env), before, "{what}");
    env.assert_no_state();
}

pub(crate) fn users_refs(env: &Env) -> Vec<String> {
    let refs = env.refs();
    refs.lines()
        .filter(|line| !line.starts_with("refs/cofferdam/"))
        .map(str::to_owned)
        .collect()
}
