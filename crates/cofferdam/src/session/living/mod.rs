//! A sandbox that lives until it is deleted: made once, found by any process of its user, used as often as wanted. Its
//! programs, its place behind the wall and its files are kept by its guest and its supervisor
//! (docs/decisions/0011-a-sandbox-that-lives-on.md); a [`Session`] is one process's way to it.

mod agent;
mod anew;
mod changes;
mod collect;
mod condition;
mod create;
mod detached;
pub(super) mod error;
mod exec;
mod files;
mod follow;
mod frozen;
mod keep;
mod life;
mod listening;
mod logins;
mod patch;
mod ports;
mod record;
mod refused;
mod remove;
mod rest;
mod revive;
mod set_up;
mod stop;
mod sync;
mod uncollected;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

pub use changes::changes;
pub use collect::{Collection, collect, look};
pub use condition::Condition;
pub use detached::{Program, left_running, running};
pub use error::SessionError;
pub use exec::{ProgramId, SessionExec};
pub use files::AloneWithFiles;
pub use follow::Followed;
pub(super) use life::ask_with_memory;
pub use life::{
    can_start, condition, make_from, start, uncollected, uncommitted_on_shelf, unpushed,
};
pub use logins::LoginsTaken;
pub use patch::PatchError;
pub use ports::{Forwarded, leads_into, publish};
pub use refused::{RefusedSince, refused_during};
pub use remove::{end, end_for_good, end_if_safe};
pub use rest::rest;
pub use set_up::{can_be_set_up_again, why_setup_failed};
pub use stop::{programs_running, stop, stop_within};
pub(super) use uncollected::has_uncollected;

use super::dev;
use super::located::Located;
use super::mode_reason::ModeReason;
use super::options::Caller;
use super::shells::agent_home;
use super::watched;
use crate::git::Repository;

use crate::home::Home;
use crate::names::{BranchName, SandboxId, Slug};
use crate::registry::{
    self, DevSandbox, Entry, Lifetime, Phase, Record, RegistryError, Setup, belongs,
};
use crate::sandbox::{
    self, Abilities, Ability, BindMountProvider, Handle, Sandbox, SandboxError, killed,
};
use crate::wall::supervisor::{self, SupervisorError};

/// A living sandbox, as one process has it open. Dropping it leaves the sandbox alive.
///
/// ```no_run
/// # async fn example(home: std::path::PathBuf, repository: std::path::PathBuf) -> Result<(), Box<dyn std::error::Error>> {
/// use cofferdam::home::Home;
/// use cofferdam::sandbox::native::{Native, NativeOptions};
/// use cofferdam::sandbox::{BindMount, BranchStrategy};
/// use cofferdam::session::{Caller, Session, SessionExec, SessionOptions};
///
/// // Made once.
/// let caller = Caller::new(Home::new(home));
/// let strategy = BranchStrategy::Branch { branch: "work".parse()?, base: None };
/// let sandbox = BindMount::new(Native::new(NativeOptions::default()), strategy);
/// let mut options = SessionOptions::new(repository, sandbox);
/// options.name = Some("my-sandbox".to_owned());
/// let session = Session::create(&caller, &options).await?;
/// let mut program = session.exec(SessionExec::new(["make", "test"])).await?;
/// program.wait().await?;
/// session.collect().await?;
/// session.detach();
/// # Ok(())
/// # }
/// ```
///
/// Found again by whatever process comes later. Creating, one agent and closing is what [`run`](crate::run) does in one:
///
/// ```no_run
/// # async fn example(caller: cofferdam::session::Caller, repository: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
/// use cofferdam::agent::{self, AgentOptions};
/// use cofferdam::sandbox::native::Native;
/// use cofferdam::session::living::Named;
/// use cofferdam::session::{PromptSource, Session, Task};
///
/// let named = Named::find(&caller, repository, "my-sandbox").await?;
/// let session = Session::open(&caller, named, &Native::default()).await?;
/// let mut task = Task::new(agent::by_name("claude-code", AgentOptions::default())?);
/// task.prompt = PromptSource::Inline("make the tests pass".into());
/// let report = session.agent(&task).await?;
/// println!("{}", report.landing);
/// session.close(&Native::default()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Session {
    caller: Caller,
    named: Named,
    sandbox: Arc<dyn Sandbox>,
    /// Of [`Sandbox::group_memory`], those killed when the session began.
    killed_before: u64,
    /// Of its provider.
    abilities: Abilities,
    /// As it was made, unless this process made it.
    why_mode: ModeReason,
    /// Of whoever has its programs stand still by this session.
    still: Arc<tokio::sync::Mutex<()>>,
}

/// One living sandbox, as a command names it.
#[derive(Debug, Clone)]
pub struct Named {
    pub(super) located: Located,
    pub(super) record: Record,
}

/// The checkout that a sandbox was made from: it belongs there, whichever one of its repository is `here`, as long as it is
/// there.
async fn made_from(
    caller: &Caller,
    here: Located,
    record: &Record,
) -> Result<Located, SessionError> {
    if here.top().as_path() == record.repository || !belongs::is_where_it_was_made(record) {
        return Ok(here);
    }
    Ok(Located::around(caller, &record.repository).await?)
}

impl Named {
    /// The sandbox of the repository around `directory` that is called `name`. An error where it is none that lives on.
    pub async fn find(caller: &Caller, directory: &Path, name: &str) -> Result<Self, SessionError> {
        let here = Located::around(caller, directory).await?;
        let found = match registry::find(&caller.home, here.top(), name) {
            // Where git finds no repository there is no sandbox of it either.
            Err(error @ RegistryError::Unknown { .. }) => {
                here.repository(caller).await?;
                return Err(error.into());
            }
            found => found?,
        };
        let Entry { record, in_use } = found;
        if record.phase == Phase::Stopped {
            let name = record.name.to_string();
            return Err(SessionError::Ended { name });
        }
        if record.lifetime != Lifetime::UntilDeleted {
            let name = record.name.to_string();
            return Err(match record.setup {
                Setup::Making if in_use => SessionError::Making { name },
                Setup::Making => SessionError::Unfinished { name },
                Setup::Done | Setup::Failed => SessionError::OfARun { name },
            });
        }
        if !record.lives_on() {
            let name = record.name.to_string();
            return Err(SessionError::Ended { name });
        }
        let located = made_from(caller, here, &record).await?;
        Ok(Self { located, record })
    }

    /// The repository that its work comes home to.
    pub(super) async fn repository(&self, caller: &Caller) -> Result<&Repository, SessionError> {
        Ok(self.located.repository(caller).await?)
    }

    /// The dev sandbox of the checkout around `directory`, or of a branch of it.
    pub async fn dev(
        caller: &Caller,
        directory: &Path,
        branch: Option<&BranchName>,
    ) -> Result<Self, SessionError> {
        let here = Located::around(caller, directory).await?;
        let of = DevSandbox {
            branch: branch.cloned(),
        };
        let Some(record) = dev::find(caller, here.top(), &of)? else {
            let repository = here.repository(caller).await?.top.as_path().to_owned();
            return Err(SessionError::NoDev { repository, of });
        };
        Self::find(caller, directory, &record.id.to_string()).await
    }

    /// When it ended, where no command stopped it: its first process was killed, its container removed, its engine ended. `None`
    /// also where nobody was there to see it.
    pub fn ended_unasked(&self, caller: &Caller) -> Option<Timestamp> {
        supervisor::ended_unasked(&caller.home.sandbox(self.record.id))
    }

    /// By which people call it.
    pub fn name(&self) -> &Slug {
        &self.record.name
    }

    /// By which it is known; never given twice.
    pub fn id(&self) -> SandboxId {
        self.record.id
    }

    /// What is known of it, as it was last written.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Whether its files are where they were: somebody may have removed the worktree.
    pub(super) fn check_files(&self, caller: &Caller) -> Result<(), SessionError> {
        if self.record.has_files(&caller.home) {
            return Ok(());
        }
        let name = self.record.name.to_string();
        let path = self.record.workspace(&caller.home);
        Err(SessionError::Missing { name, path })
    }

    pub(super) fn handle(&self, caller: &Caller) -> Handle {
        handle(&caller.home, self.record.id)
    }

    /// Who made it, where that is one of this crate's providers.
    pub fn provider(&self, caller: &Caller) -> Result<Arc<dyn BindMountProvider>, SessionError> {
        let place = caller.home.sandbox(self.record.id);
        sandbox::provider_of(&self.record.provider, &place).map_err(|source| {
            SessionError::Sandbox {
                name: self.record.name.to_string(),
                source,
            }
        })
    }

    pub(super) fn check(&self, provider: &dyn BindMountProvider) -> Result<(), SessionError> {
        if self.record.provider == provider.name() {
            return Ok(());
        }
        Err(SessionError::OtherProvider {
            name: self.record.name.to_string(),
            provider: self.record.provider.clone(),
        })
    }
}

pub(super) fn handle(home: &Home, id: SandboxId) -> Handle {
    Handle {
        id,
        state: home.sandbox(id),
    }
}

impl Session {
    /// Opens one that runs, and has its place behind the wall kept again where nobody does, and its checkout watched. Bounded: 80 s.
    pub async fn open(
        caller: &Caller,
        named: Named,
        provider: &dyn BindMountProvider,
    ) -> Result<Self, SessionError> {
        let session = Self::open_unwatched(caller, named, provider).await?;
        session.see_watched().await?;
        Ok(session)
    }

    /// As [`Self::open`], for who starts nothing in it: what stands still can be collected from.
    async fn open_unwatched(
        caller: &Caller,
        named: Named,
        provider: &dyn BindMountProvider,
    ) -> Result<Self, SessionError> {
        named.check(provider)?;
        let name = named.record.name.to_string();
        let sandbox = match provider.open(&named.handle(caller)).await {
            Ok(sandbox) => sandbox,
            Err(SandboxError::NotRunning) => {
                let unasked = named.ended_unasked(caller);
                return Err(SessionError::Stopped { name, unasked });
            }
            Err(source) => return Err(SessionError::sandbox(name, source)),
        };
        let session = Self {
            caller: caller.clone(),
            named,
            killed_before: killed(sandbox.group_memory()),
            sandbox,
            abilities: provider.abilities(),
            why_mode: ModeReason::Made,
            still: Arc::default(),
        };
        session.keep().await?;
        Ok(session)
    }

    /// By which people call it.
    pub fn name(&self) -> &Slug {
        self.named.name()
    }

    /// By which it is known; never given twice.
    pub fn id(&self) -> SandboxId {
        self.named.id()
    }

    /// What it is known by, without the sandbox open.
    pub fn named(&self) -> &Named {
        &self.named
    }

    /// As it was when the session began: collecting writes a newer one.
    pub fn record(&self) -> &Record {
        self.named.record()
    }

    /// The sandbox's first process as this machine numbers it, where it has one here.
    pub fn process(&self) -> Option<u32> {
        sandbox::number(self.sandbox.process()?)
    }

    /// Of [`Sandbox::group_memory`], those killed since this session began.
    pub fn killed_for_memory(&self) -> u64 {
        killed(self.sandbox.group_memory()).saturating_sub(self.killed_before)
    }

    /// The sandbox itself, for what its provider's trait offers.
    pub fn sandbox(&self) -> &dyn Sandbox {
        self.sandbox.as_ref()
    }

    /// Leaves it alive. As dropping it.
    pub fn detach(self) {}

    fn directory(&self) -> PathBuf {
        self.caller.home.sandbox(self.id())
    }

    /// Refuses what its provider cannot do, before anything is done.
    fn require(&self, ability: Ability) -> Result<(), SessionError> {
        let able = self.abilities.require(&self.record().provider, ability);
        able.map_err(|source| self.failed(source))
    }

    /// Has the checkout watched where it is shared and nobody does. Bounded: 60 s.
    async fn see_watched(&self) -> Result<(), SessionError> {
        if !watched::is_shared(self.record()) {
            return Ok(());
        }
        let seen = Box::pin(watched::see_to_it(&self.caller, self.record())).await;
        seen.map_err(|source| SessionError::Unwatched {
            name: self.name().to_string(),
            source,
        })
    }

    fn failed(&self, source: SandboxError) -> SessionError {
        let name = self.name().to_string();
        match SessionError::sandbox(name, source) {
            SessionError::Stopped { name, .. } => {
                let unasked = self.named.ended_unasked(&self.caller);
                SessionError::Stopped { name, unasked }
            }
            error => error,
        }
    }

    /// What is wrong with its supervisor.
    fn unkept(&self, source: SupervisorError) -> SessionError {
        let name = self.name().to_string();
        SessionError::Supervisor { name, source }
    }
}
