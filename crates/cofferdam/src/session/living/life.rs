//! How a living sandbox is, and its way between running, paused and stopped.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::condition::Condition;
use super::{Named, Session, SessionError, anew, detached, has_uncollected};
use crate::fsx::lock;
use crate::git::refs_at::{RefsAt, names_of};
use crate::registry::{self, Owned, Reach};
use crate::sandbox::{
    BindMountProvider, Examined, Handle, Lifetime, Mount, Sandbox, SandboxError, SandboxSpec,
    Stopping, examined,
};
use crate::session::Caller;
use crate::session::configured::effective;
use crate::session::emitter::Emitter;
use crate::session::extra::Beside;
use crate::session::form::Form;
use crate::session::manage::nothing_is_taken_out;
use crate::session::mode_reason::ModeReason;
use crate::session::on_shelf::Unpushed;
use crate::session::only_there::uncommitted_there;
use crate::session::plan::error::PlanError;
use crate::session::sync::SyncMode;
use crate::session::unpushed::unpushed as unpushed_of;
use crate::session::{as_root, guard, network, place, prepare, push, watched};
use crate::wall::change::Change;
use crate::wall::supervisor::{self, Compiled, Supervisor, Wall};

/// Who only looks at a lock has it for a moment, and a supervisor that ends for not much longer.
const LOOKERS: Duration = Duration::from_secs(2);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a look at what is not home may take.
const LOOKED: Duration = Duration::from_secs(5);

/// Asks the sandbox itself; the record does not know. A sandbox that does not answer is an error, never a guess.
pub async fn condition(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> Result<Condition, SessionError> {
    named.check(provider)?;
    let asked = ask(provider, &named.handle(caller)).await;
    asked.map_err(|source| SessionError::sandbox(named.record.name.to_string(), source))
}

/// Whether it has commits that are not home, as its files say; its programs go on meanwhile. `None`: that cannot be told
/// now. Bounded: 5 s.
pub async fn uncollected(caller: &Caller, named: &Named) -> Option<bool> {
    let (home, record) = (&caller.home, &named.record);
    let looked = async {
        let repo = named.repository(caller).await.ok()?;
        let names = names_of(record.id, record.branch.as_ref());
        let refs = RefsAt::read(repo, names, &caller.cancel).await.ok()?;
        has_uncollected(home, repo, record, &refs, &caller.cancel).await
    };
    tokio::time::timeout(LOOKED, looked).await.ok().flatten()
}

/// What is committed on its branch on the shelf alone: see [`Unpushed`]. Bounded: 10 s, and git that looks for its repository.
pub async fn unpushed(caller: &Caller, named: &Named) -> Option<Unpushed> {
    let repo = named.repository(caller).await.ok()?;
    unpushed_of(&caller.home, repo, &named.record, &caller.cancel).await
}

/// How many files of a dev sandbox's branch are on the shelf in no commit; nothing where it lives in the checkout, or nobody can tell.
/// Bounded: 10 s.
pub async fn uncommitted_on_shelf(caller: &Caller, named: &Named) -> Option<usize> {
    uncommitted_there(caller, &named.record).await
}

/// As [`condition`], of whichever sandbox it is.
async fn ask(provider: &dyn BindMountProvider, handle: &Handle) -> Result<Condition, SandboxError> {
    match opened(provider, handle).await? {
        Some(sandbox) => condition_of(sandbox.as_ref()).await,
        None => Ok(Condition::Stopped),
    }
}

/// The same, and what its programs use: nothing where it is stopped, or an older version started it.
pub(in crate::session) async fn ask_with_memory(
    provider: &dyn BindMountProvider,
    handle: &Handle,
) -> Result<(Condition, Option<u64>), SandboxError> {
    match opened(provider, handle).await? {
        Some(sandbox) => {
            let condition = condition_of(sandbox.as_ref()).await?;
            let memory = match sandbox.group_memory() {
                Some(all) => Some(all.used),
                None => sandbox.memory().await.ok(),
            };
            Ok((condition, memory))
        }
        None => Ok((Condition::Stopped, None)),
    }
}

/// `None`: it is stopped.
async fn opened(
    provider: &dyn BindMountProvider,
    handle: &Handle,
) -> Result<Option<Arc<dyn Sandbox>>, SandboxError> {
    match provider.open(handle).await {
        Ok(sandbox) => Ok(Some(sandbox)),
        Err(SandboxError::NotRunning) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn condition_of(sandbox: &dyn Sandbox) -> Result<Condition, SandboxError> {
    Ok(if sandbox.status().await?.paused {
        Condition::Paused
    } else {
        Condition::Running
    })
}

impl Session {
    /// As [`unpushed`].
    pub async fn unpushed(&self) -> Option<Unpushed> {
        unpushed(&self.caller, &self.named).await
    }

    /// Stops every program inside until [`Session::resume`]; their memory stays. Idempotent.
    pub async fn pause(&self) -> Result<(), SessionError> {
        match self.sandbox.pause().await {
            Ok(()) => Ok(()),
            Err(source) => Err(SessionError::NotPaused {
                name: self.name().to_string(),
                now: self.now().await,
                source,
            }),
        }
    }

    /// How it is; `None`: that cannot be told.
    async fn now(&self) -> Option<Condition> {
        match condition_of(self.sandbox.as_ref()).await {
            Ok(now) => Some(now),
            Err(SandboxError::NotRunning | SandboxError::Gone(_)) => Some(Condition::Stopped),
            Err(_) => None,
        }
    }

    /// Lets the programs go on. Rules that were changed meanwhile are in force before their first instruction; where they
    /// cannot be read it stays paused. Idempotent. Bounded: 30 s.
    pub async fn resume(&self) -> Result<(), SessionError> {
        if let Some(spec) = self.wall_spec() {
            let walled = |source| self.walled(source);
            let change = Change::begin(&self.caller.home).await.map_err(walled)?;
            let compiled = supervisor::write_rules(&change, &spec).await;
            if let Compiled::Kept(problems) = compiled.map_err(walled)? {
                let name = self.name().to_string();
                return Err(SessionError::Rules { name, problems });
            }
            let unkept = |source| self.unkept(source);
            let reloaded = Supervisor::reload_at(&self.directory(), &change).await;
            reloaded.map_err(unkept)?;
        }
        match self.sandbox.resume().await {
            Ok(()) => Ok(()),
            Err(source) => Err(SessionError::NotResumed {
                name: self.name().to_string(),
                now: self.now().await,
                source,
            }),
        }
    }

    /// How its place behind the wall is kept; `None`: nobody keeps it, or it is of another version.
    pub async fn wall(&self) -> Result<Option<Wall>, SessionError> {
        let found = Supervisor::connect(&self.directory()).await;
        let found = found.map_err(|source| self.unkept(source))?;
        Ok(found.and_then(|(_, status)| status.wall))
    }

    /// What keeps it apart from the host now, by the kernel and by whoever provides it: see
    /// [`crate::sandbox::Held::Broken`].
    pub async fn examine(
        &self,
        provider: &dyn BindMountProvider,
    ) -> Result<Vec<Examined>, SessionError> {
        let own_network = !self.is_open();
        let process = self.process();
        let mut all = process.map_or_else(Vec::new, |pid| examined::process(pid, own_network));
        let told = provider.examine(&self.named.handle(&self.caller)).await;
        all.extend(told.map_err(|source| self.failed(source))?);
        Ok(all)
    }

    /// Interfaces that lead out of it and that nobody gave it here: somebody joined another network to it by hand.
    pub fn joined(&self) -> BTreeSet<String> {
        let process = self.process().filter(|_| !self.is_open());
        process.map_or_else(BTreeSet::new, examined::ways_out)
    }

    fn is_open(&self) -> bool {
        matches!(self.record().network, Some(Reach::Open))
    }

    /// How its programs are stopped when it is paused.
    pub async fn stopping(&self) -> Result<Stopping, SessionError> {
        let status = self.sandbox.status().await;
        Ok(status.map_err(|source| self.failed(source))?.stopping)
    }

    /// Whether it runs or is paused.
    pub async fn condition(&self) -> Result<Condition, SessionError> {
        let now = condition_of(self.sandbox.as_ref()).await;
        now.map_err(|source| self.failed(source))
    }
}

/// The programs first: what they still say is carried as long as they live.
pub(super) async fn halt(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> Result<(), SessionError> {
    let name = || named.record.name.to_string();
    let handle = named.handle(caller);
    let removed = provider.remove(&handle).await;
    removed.map_err(|source| SessionError::sandbox(name(), source))?;
    let ended = Supervisor::end(&handle.state).await;
    ended.map_err(|source| SessionError::Supervisor {
        name: name(),
        source,
    })
}

/// As [`halt`], and nobody is told that it was unasked. Callers that keep the sandbox call
/// [`supervisor::forget_end`] afterwards.
pub(super) async fn halt_as_asked(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> Result<(), SessionError> {
    let directory = caller.home.sandbox(named.record.id);
    supervisor::expect_end(&directory);
    let halted = halt(caller, named, provider).await;
    if halted.is_err() && goes_on(provider, &named.handle(caller)).await {
        supervisor::expect_no_end(&directory);
    }
    halted
}

async fn goes_on(provider: &dyn BindMountProvider, handle: &Handle) -> bool {
    matches!(
        ask(provider, handle).await,
        Ok(Condition::Running | Condition::Paused)
    )
}

/// As [`halt`], of one that was stopped when this command asked, before it had the turn. `false`: somebody has started it since.
pub(super) async fn halt_stopped(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> Result<bool, SessionError> {
    if condition(caller, named, provider).await? != Condition::Stopped {
        return Ok(false);
    }
    // What a killed one left does not write either.
    halt(caller, named, provider).await?;
    Ok(true)
}

/// Whether [`start`] has what it makes the sandbox from. Before it is ended to be made anew.
pub fn can_start(caller: &Caller, named: &Named) -> Result<(), SessionError> {
    named.check_files(caller)?;
    form_of(caller, named).map(drop)
}

fn form_of(caller: &Caller, named: &Named) -> Result<Form, SessionError> {
    let name = || named.record.name.to_string();
    match Form::read(&caller.home.sandbox(named.record.id)) {
        Ok(form) => Ok(form),
        Err(registry::RegistryError::File(error)) if error.is_not_found() => {
            Err(SessionError::Unfinished { name: name() })
        }
        Err(error) => Err(error.into()),
    }
}

/// Makes the sandbox anew from its files, and syncs it: where that fails ([`SessionError::Sync`]) it runs all the same. Bounded: 60 s,
/// but for the commands of `on_sync`.
pub async fn start(
    caller: &Caller,
    mut named: Named,
    provider: &dyn BindMountProvider,
) -> Result<Session, SessionError> {
    named.check(provider)?;
    named.check_files(caller)?;
    let repository = named.repository(caller).await?;
    let mut turn = turn(caller, &named).await?;
    let name = || named.record.name.to_string();
    let directory = caller.home.sandbox(named.record.id);
    match condition(caller, &named, provider).await? {
        Condition::Stopped => {}
        Condition::Running | Condition::Paused => {
            return Err(SessionError::Running { name: name() });
        }
    }
    let form = form_of(caller, &named)?.next();
    // What a killed one left: a supervisor without its sandbox, control groups.
    halt(caller, &named, provider).await?;
    supervisor::forget_end(&directory)?;
    nothing_is_taken_out(&directory)?;
    if !watched::has_ended(&directory).await? {
        return Err(SessionError::Busy { name: name() });
    }
    let lock = hold(&directory, &named)?;
    detached::name_earlier(&directory)?;
    // Its programs are named by the start, also those of one that is killed before it is whole.
    form.write(&turn)?;
    let top = repository.top.clone();
    let config = effective(caller, named.located.top()).await.config;
    let mut mounts = anew::mounts(caller, repository, &mut turn, &form, &config).await?;
    let record = turn.record.clone();
    if record.dev.is_some() {
        // Of this version.
        mounts.retain(|mount| !guard::is_ours(mount) && !push::is_ours(mount));
        mounts.extend(guard::mounts(&caller.home, &directory)?);
        mounts.extend(push::mounts(&caller.home, &directory)?);
    }
    mounts.extend(Box::pin(beside(caller, &named)).await?);
    let spec = SandboxSpec {
        id: record.id,
        slug: record.name.clone(),
        hostname: form.hostname(),
        named: record.dev.is_some(),
        workdir: form.workdir(),
        mounts,
        environment: std::collections::BTreeMap::new(),
        search_first: (record.dev.as_ref()).map(|_| guard::DIRECTORY.into()),
        search_path: caller
            .environment
            .get(std::ffi::OsStr::new("PATH"))
            .cloned(),
        caller_home: caller.user_home.clone(),
        programs: prepare::programs(None),
        unseen: registry::unseen(&caller.home, top.as_path(), caller.user_home.as_deref())?,
        repository: Some(repository.top.clone()),
        image: record.image.clone(),
        limits: form.limits(),
        root: as_root::can_be(record.dev.is_some(), provider.abilities())
            && as_root::is_wanted(&config),
        network: network::of_a_record(&caller.home, &record),
        lifetime: Lifetime::UntilRemoved {
            state: directory.clone(),
        },
        place: Some(directory.clone()),
    };
    place::check_mounts(&spec.mounts, &caller.home)?;
    let made = provider.create(&spec, &caller.cancel).await;
    let sandbox = made.map_err(|source| SessionError::sandbox(name(), source))?;
    if let Err(source) = sandbox.stay().await {
        let _ = sandbox.close().await;
        return Err(SessionError::sandbox(name(), source));
    }
    named.record = record;
    let session = Session {
        caller: caller.clone(),
        named,
        // That is when it was started.
        killed_before: 0,
        sandbox,
        abilities: provider.abilities(),
        why_mode: ModeReason::Made,
        still: Arc::default(),
    };
    if let Err(error) = session.settle(lock).await {
        // Nothing runs that nobody keeps.
        let _ = session.shut_down().await;
        return Err(error);
    }
    if let Err(error) = session.see_watched().await {
        let _ = session.shut_down().await;
        return Err(error);
    }
    session.bring(SyncMode::IfChanged).await?;
    drop(turn);
    Ok(session)
}

/// Has it made from another image of its provider's, from its next start on.
pub async fn make_from(
    caller: &Caller,
    named: &mut Named,
    image: &str,
) -> Result<(), SessionError> {
    let mut turn = turn(caller, named).await?;
    turn.record.image = Some(image.to_owned());
    turn.save()?;
    named.record = turn.record.clone();
    Ok(())
}

/// What it sees beside its files: looked at as when it was made.
async fn beside(caller: &Caller, named: &Named) -> Result<Vec<Mount>, SessionError> {
    let record = &named.record;
    let state = caller.home.sandbox(record.id);
    let beside = Beside {
        caller,
        repository: named.repository(caller).await?,
        id: record.id,
        hidden: &record.hidden,
    };
    let home = caller.home.agent_home(record.id);
    let events = Emitter::sink(caller.events.clone());
    let mounts = beside.mounts::<SessionError>(&record.mounts, &state, Some(&home), &events);
    mounts.await.map_err(|error| match error {
        SessionError::Plan(PlanError::Mount(source)) => SessionError::Mount {
            name: record.name.to_string(),
            source,
        },
        error => error,
    })
}

/// The lock of a sandbox that is being started: whoever opens it then waits for the supervisor, and starts none.
fn hold(directory: &Path, named: &Named) -> Result<File, SessionError> {
    let path = directory.join("lock");
    let lock = lock::open(&path)?;
    if lock::hold_within(&lock, &path, LOOKERS)? {
        return Ok(lock);
    }
    Err(SessionError::Busy {
        name: named.record.name.to_string(),
    })
}

impl Session {
    /// That it is stopped, and whether somebody asked for that: for who lost contact with it. What its supervisor knows stands when
    /// nobody listens there any more. Bounded: 5 s, and one answer's limit.
    pub async fn stopped(&self) -> SessionError {
        let (directory, until) = (self.directory(), Instant::now() + LOOKED);
        while Instant::now() < until && matches!(Supervisor::connect(&directory).await, Ok(Some(_)))
        {
            tokio::time::sleep(PAUSE).await;
        }
        SessionError::Stopped {
            name: self.name().to_string(),
            unasked: self.named.ended_unasked(&self.caller),
        }
    }

    /// Ends every program, and nobody is told that it was unasked.
    pub(super) async fn shut_down(&self) -> Result<(), SandboxError> {
        let directory = self.directory();
        supervisor::expect_end(&directory);
        let closed = self.sandbox.close().await;
        if closed.is_err() && self.condition().await.is_ok() {
            supervisor::expect_no_end(&directory);
            return closed;
        }
        if Supervisor::end(&directory).await.is_ok() {
            let _ = supervisor::forget_end(&directory);
        }
        closed
    }

    /// Hands the place of a sandbox that was just made to a supervisor.
    pub(super) async fn settle(&self, lock: File) -> Result<(), SessionError> {
        let walled = |source| self.walled(source);
        let place = match (self.wall_spec(), self.sandbox.wall()) {
            (Some(spec), Some(registration)) => {
                let change = Change::begin(&self.caller.home).await.map_err(walled)?;
                supervisor::begin_rules(&change, &spec)
                    .await
                    .map_err(walled)?;
                Some(registration.hand_over().await.map_err(walled)?)
            }
            _ => None,
        };
        let started = self.start_keeper(place, lock).await;
        started.map_err(|source| self.unkept(source))
    }
}

/// The right to change what a sandbox's record says, which one command at a time has.
pub(super) async fn turn(caller: &Caller, named: &Named) -> Result<Owned, SessionError> {
    let turn = Owned::turn(&caller.home, &named.record, &caller.cancel).await?;
    let name = || named.record.name.to_string();
    let turn = turn.ok_or_else(|| SessionError::Busy { name: name() })?;
    if !turn.record.lives_on() {
        return Err(SessionError::Ended { name: name() });
    }
    Ok(turn)
}
