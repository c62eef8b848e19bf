//! Bringing home the commits of a sandbox that goes on living.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::frozen::Frozen;
use super::life::{halt_stopped, turn};
use super::{Named, Session, SessionError};
use crate::git::land::Landing;
use crate::git::{CommitLine, Identity, Oid, Repository, identity};
use crate::names::SandboxId;
use crate::registry::{Owned, Record};
use crate::sandbox::{BindMountProvider, SandboxError};
use crate::session::check_plan::CheckPlan;
use crate::session::checks::{Checks, FailedCheck};
use crate::session::collect::{Collected, Collector, Reaches, Source};
use crate::session::configured::effective;
use crate::session::emitter::Emitter;
use crate::session::event::{Event, EventSink, Notice};
use crate::session::judge::{Judge, Judging};
use crate::session::options::Caller;
use crate::session::report::Beside;
use crate::session::{guard, protect, shared, watched};

/// So often one may be started just when it was seen to be stopped.
pub(super) const TRIES: u32 = 3;

/// What one collecting brought home.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Collection {
    /// Where the commits are now.
    pub landing: Landing,
    /// Those that are new, newest last.
    pub commits: Vec<CommitLine>,
    /// Commits that are not on the branch.
    pub beside: Vec<Beside>,
    /// Files that were the user's uncommitted work, and that were committed inside (`head` alone).
    pub taken: Vec<PathBuf>,
    /// What the gate noticed and let pass, and whatever else was to be said, in words.
    pub notes: Vec<String>,
    /// What a check of the configuration that failed has printed: both streams as they came, of very much its beginning and its end.
    pub failed_check: Option<String>,
    /// What of the commits' trees the gate did not let in. As it is: sanitise before showing.
    pub refused_paths: Vec<PathBuf>,
    /// The sandbox could not be stopped for the moment it takes, and was ended.
    pub ended: bool,
    /// How long its programs stood still for it; nothing where none ran.
    pub still: Duration,
    /// The commit that is checked out inside, if it is no older one.
    pub(super) checkout: Option<Oid>,
}

impl Collection {
    fn ended(mut self) -> Self {
        self.ended = true;
        self
    }
}

impl Session {
    /// Brings home what is committed inside: every program is stopped for the moment it takes, the commits pass the
    /// gate, and the sandbox's own branch moves. Bounded by [`Caller::collect_limit`] and [`Caller::cancel`]; then the programs
    /// go on.
    pub async fn collect(&self) -> Result<Collection, SessionError> {
        self.bring_home(Reaches::WhileItLives).await
    }

    /// As [`Self::collect`], for whoever is about to look at the commits: under `head` they are kept beside what is checked
    /// out, which stays where it is.
    pub async fn look(&self) -> Result<Collection, SessionError> {
        self.bring_home(Reaches::ToBeSeen).await
    }

    async fn bring_home(&self, reaches: Reaches) -> Result<Collection, SessionError> {
        let named = &self.named;
        // While nothing stands still for it.
        named.repository(&self.caller).await?;
        let mut turn = turn(&self.caller, named).await?;
        let frozen = match Frozen::begin(self).await {
            Ok(frozen) => frozen,
            // Programs that wake each other are not waited for: their work is kept, they are not.
            Err(SandboxError::Restless) => {
                let closed = self.shut_down().await;
                closed.map_err(|source| self.failed(source))?;
                let gathered = gather(&self.caller, named, &mut turn, (reaches, None)).await;
                return gathered.map(Collection::ended).map_err(SessionError::ended);
            }
            Err(source) => return Err(self.failed(source)),
        };
        let gathered = gather(&self.caller, named, &mut turn, (reaches, Some(&frozen)));
        let mut gathered = gathered.await;
        let went_on = frozen.go_on().await;
        if let Ok(collection) = &mut gathered {
            went_on.map_err(|source| self.failed(source))?;
            collection.still = frozen.still();
        }
        gathered
    }
}

/// Brings home what is committed in a sandbox, whether it runs or not.
pub async fn collect(
    caller: &Caller,
    named: Named,
    provider: &dyn BindMountProvider,
) -> Result<Collection, SessionError> {
    bring_home(caller, named, provider, Reaches::WhileItLives).await
}

/// As [`collect`], for whoever is about to look at the commits: see [`Session::look`].
pub async fn look(
    caller: &Caller,
    named: Named,
    provider: &dyn BindMountProvider,
) -> Result<Collection, SessionError> {
    bring_home(caller, named, provider, Reaches::ToBeSeen).await
}

async fn bring_home(
    caller: &Caller,
    named: Named,
    provider: &dyn BindMountProvider,
    reaches: Reaches,
) -> Result<Collection, SessionError> {
    for _ in 0..TRIES {
        match Session::open_unwatched(caller, named.clone(), provider).await {
            Ok(session) => return session.bring_home(reaches).await,
            Err(SessionError::Stopped { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut turn = turn(caller, &named).await?;
        // Nothing starts it now.
        if halt_stopped(caller, &named, provider).await? {
            return gather(caller, &named, &mut turn, (reaches, None)).await;
        }
    }
    let name = named.record.name.to_string();
    Err(SessionError::Busy { name })
}

/// Whether a private copy holds work that is in no commit; one that cannot be asked does. Nothing of the sandbox runs
/// meanwhile.
pub(super) async fn holds_uncommitted(caller: &Caller, named: &Named, turn: &Owned) -> bool {
    let (author, events) = (Identity::fallback(), Emitter::silent());
    let Ok(repository) = named.repository(caller).await else {
        return true;
    };
    collector(caller, repository, &author, &events)
        .copy_is_dirty(turn)
        .await
}

/// From one that goes on.
pub(super) fn collector<'a>(
    caller: &'a Caller,
    repo: &'a Repository,
    author: &'a Identity,
    events: &'a Emitter,
) -> Collector<'a> {
    Collector {
        reaches: Reaches::WhileItLives,
        home: &caller.home,
        repo,
        author,
        events,
        limit: caller.collect_limit,
        cancel: &caller.cancel,
        judge: None,
    }
}

/// Nothing of the sandbox runs until its commits are received; with the sandbox, where it is open, it goes on while they are checked.
pub(super) async fn gather(
    caller: &Caller,
    named: &Named,
    turn: &mut Owned,
    (reaches, frozen): (Reaches, Option<&Frozen>),
) -> Result<Collection, SessionError> {
    let user = caller.user_home.as_deref();
    let repository = named.repository(caller).await?;
    let config = identity::user_config(repository, user, &caller.cancel).await?;
    let fallback = Identity::fallback();
    let told = Told::default();
    let events = Emitter::sink(told.beside(&caller.events));
    let author = config.identity.as_ref().unwrap_or(&fallback);
    let plan = bring_up(caller, named, turn).await?;
    let failed = FailedCheck::default();
    let mut checked = caller.clone();
    checked.events = failed.beside(&told.beside(&caller.events));
    let judge = Resuming {
        checks: Checks::new(checked),
        frozen: frozen.filter(|_| !plan.is_nothing()),
    };
    // Whoever only looks waits for no checks.
    let moves = reaches == Reaches::WhileItLives;
    let judging = moves.then(|| Judging::by(&judge));
    let collector = Collector {
        reaches,
        judge: judging.as_ref(),
        ..collector(caller, repository, author, &events)
    };
    let collected = Box::pin(collector.collect(turn, Source::State)).await;
    let collected = collected.map_err(|source| SessionError::Collect {
        name: named.record.name.to_string(),
        ended: false,
        source,
    })?;
    turn.record.took_work |= !collected.taken.paths.is_empty();
    if let Some(reference) = collected.taken.reference.clone() {
        events.notice(Notice::UncommittedTaken { reference });
    }
    if let Some(tip) = &collected.tip
        && is_on_branch(&collected.landing, &turn.record)
    {
        turn.record.landed = Some(tip.clone());
        turn.record.landed_at = Some(Timestamp::now());
    }
    // Who looks for its commits later finds those too that are not on its branch.
    match &collected.landing {
        Landing::Nothing => {}
        Landing::Landed { .. } => turn.record.outcome = None,
        Landing::Kept { .. } | Landing::Refused { .. } => {
            turn.record.outcome = Some(collected.clone().into_outcome());
        }
    }
    turn.save()?;
    let mut notes = told.lines(&collected, named.record.id);
    if let Some(from) = &collected.switched {
        let own = turn.record.branch_text();
        notes.push(format!(
            "the sandbox left its branch for {from}: what it has there is on {own} here"
        ));
    }
    let state = turn.directory();
    notes.extend(watched::seen(state));
    if watched::is_shared(&turn.record) {
        let workspace = turn.record.workspace(&caller.home);
        let steering = config.steering.in_tree(repository, user, &workspace);
        let since = protect::steering_since(state, steering);
        if !since.is_empty() {
            notes.push(format!(
                "your git runs or obeys {} by now, where the sandbox may write until its next start: look at it, then `cofferdam restart {}`",
                shared::named(&since),
                turn.record.name
            ));
        }
    }
    let refused = guard::refused(state);
    notes.extend(
        refused
            .into_iter()
            .map(|line| format!("its git refused: {line}")),
    );
    guard::forget(state);
    Ok(Collection {
        landing: collected.landing,
        commits: collected.commits,
        beside: collected.beside,
        taken: collected.taken.paths,
        notes,
        failed_check: failed.output(),
        refused_paths: collected.refused_paths,
        ended: false,
        still: Duration::ZERO,
        checkout: collected.checkout,
    })
}

/// What nobody may change is what the configuration says by now, and what it said before; so is whether commits are to be checked.
/// Returns how.
pub(super) async fn bring_up(
    caller: &Caller,
    named: &Named,
    turn: &mut Owned,
) -> Result<CheckPlan, SessionError> {
    let found = effective(caller, named.located.top()).await;
    let top = named.located.top().as_path();
    let record = &mut turn.record;
    let all = protect::by_now(&record.protected, &found.config, top);
    let plan = CheckPlan::of(&found);
    let is_checked = record.checked || !plan.is_nothing();
    if all.len() > record.protected.len() || is_checked != record.checked {
        (record.protected, record.checked) = (all, is_checked);
        turn.save()?;
    }
    Ok(plan)
}

/// Checks take as long as they take: the sandbox goes on meanwhile.
#[derive(Debug)]
struct Resuming<'a> {
    checks: Checks,
    /// One that stands still for what takes long.
    frozen: Option<&'a Frozen>,
}

#[async_trait]
impl Judge for Resuming<'_> {
    async fn judge(
        &self,
        repo: &Repository,
        record: &Record,
        trusted: &Oid,
        tip: &Oid,
    ) -> Result<(), String> {
        if let Some(frozen) = self.frozen {
            frozen.go_on().await.map_err(|error| error.to_string())?;
        }
        self.checks.judge(repo, record, trusted, tip).await
    }
}

/// What collecting says on its way, for whoever does not listen meanwhile.
#[derive(Debug, Default)]
struct Told(Arc<Mutex<Vec<Notice>>>);

impl Told {
    /// A sink that hears it too.
    fn beside(&self, sink: &EventSink) -> EventSink {
        let (told, sink) = (Arc::clone(&self.0), sink.clone());
        EventSink::new(move |event| {
            if let Event::Notice(notice) = event {
                let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                told.push(notice.clone());
            }
            sink.emit(event);
        })
    }

    /// What of it is in no other field of a [`Collection`].
    fn lines(&self, collected: &Collected, id: SandboxId) -> Vec<String> {
        let elsewhere = collected.beside_in_words(id);
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = told.iter().filter_map(|notice| match notice {
            // In other words.
            Notice::BranchSwitched { .. } => None,
            notice => Some(notice.to_string()),
        });
        lines.filter(|line| !elsewhere.contains(line)).collect()
    }
}

/// Whether its own branch moved. Where that was not possible it is tried again the next time.
fn is_on_branch(landing: &Landing, record: &Record) -> bool {
    match landing {
        Landing::Landed { .. } => true,
        Landing::Kept { reference, .. } => {
            (record.branch.as_ref()).is_some_and(|branch| branch.as_str() == reference)
        }
        Landing::Nothing | Landing::Refused { .. } => false,
    }
}
