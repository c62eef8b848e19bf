//! Making a sandbox that lives on: the same steps as for a run, and at the end somebody else keeps its place.

use std::sync::Arc;

use super::{Named, Session, set_up};
use crate::git::land::Landing;
use crate::git::own_files;
use crate::git::refs::{RefError, Transaction};
use crate::registry::{Lifetime, Owned, Setup};
use crate::sandbox::{Ability, Contained, SandboxError};
use crate::session::announce;
use crate::session::begun;
use crate::session::collect::left_at;
use crate::session::emitter::Emitter;
use crate::session::error::{RunError, RunErrorKind};
use crate::session::event::Notice;
use crate::session::manage::give_up;
use crate::session::options::{Caller, LogLimits, RunLog, SessionOptions};
use crate::session::plan::{self, PlanError};
use crate::session::prepare::{self, Making, Ready};
use crate::session::report::Kept;
use crate::session::variables;
use crate::session::watched::{self, WatchError};
use crate::wall;

impl Session {
    /// Makes a sandbox that lives until it is deleted, of a provider that mounts its files. On an error nothing of it is
    /// left, unless the error says what: where a hook inside failed, it is kept for a look ([`Setup::Failed`]).
    ///
    /// With [`crate::sandbox::BranchStrategy::Head`] its programs share the user's checkout for as long as it lives, which
    /// [`Caller::watcher`] watches: where that one is gone they stand still until the next command.
    pub async fn create(caller: &Caller, options: &SessionOptions) -> Result<Self, RunError> {
        Box::pin(Self::make(caller, options)).await
    }

    async fn make(caller: &Caller, options: &SessionOptions) -> Result<Self, RunError> {
        let nothing = |kind| RunError {
            kind,
            kept: Box::default(),
        };
        if caller.cancel.is_cancelled() {
            return Err(nothing(RunErrorKind::Cancelled));
        }
        can_live_on(&options.sandbox).map_err(|error| nothing(error.into()))?;
        let (plan, finished) = plan::settled(caller, options).await.map_err(nothing)?;
        if watched::is_shared(&plan.record) && caller.watcher.is_none() {
            return Err(nothing(WatchError::NoWatcher.into()));
        }
        let config_dir = plan.repository.config_dir();
        let log = (&RunLog::None, LogLimits::default());
        let events = Emitter::open(caller.events.clone(), log, &config_dir, "")
            .map_err(|error| nothing(error.into()))?;
        own_files::ignore(&config_dir).map_err(|error| nothing(error.into()))?;
        let resolved = variables::of_a_session(
            caller,
            &options.environment,
            &plan.repository.clone().into(),
        )
        .await;
        let (environment, withheld) = resolved.map_err(|error| nothing(error.into()))?;
        let mut record = plan.record.clone();
        record.setup = Setup::Making;
        let mut owned = begun::begin(&caller.home, record, &plan).map_err(nothing)?;
        if let Err(error) = wall::say_unlogged(&caller.home, &plan.record) {
            // What cannot be removed is no sandbox, and `gc` knows it.
            let _ = owned.forget();
            return Err(nothing(error.into()));
        }
        for text in finished {
            events.notice(Notice::Other { text });
        }
        let announce = |_| announce::of_a_session(options, &plan, &withheld);
        let making = Making {
            caller,
            options,
            plan: &plan,
            events: &events,
            announce: &announce,
            agent: None,
            login: None,
            environment: &environment,
            lives_on: true,
            bare: None,
        };
        let mut ready = None;
        let made = prepare::or_cancel(&making, &mut owned, &mut ready).await;
        events.announce(|| (making.announce)(0));
        let made = match made {
            Ok(_) => making.leave(&mut owned, ready.take(), Setup::Done).await,
            // It is kept for a look.
            Err(RunErrorKind::Hook(error))
                if error.point.is_inside() && !caller.cancel.is_cancelled() =>
            {
                let left = making.leave(&mut owned, ready.take(), Setup::Failed).await;
                if left.is_ok() {
                    set_up::failed(&owned, &error);
                    let kept = Kept {
                        id: Some(plan.record.id),
                        name: Some(plan.record.name.clone()),
                        landing: Some(Landing::Nothing),
                        lives_on: true,
                        ..Kept::default()
                    };
                    return Err(RunError {
                        kind: error.into(),
                        kept: Box::new(kept),
                    });
                }
                Err(error.into())
            }
            Err(kind) => Err(kind),
        };
        match made {
            Ok(session) => Ok(session),
            Err(kind) => {
                let kind = if caller.cancel.is_cancelled() {
                    RunErrorKind::Cancelled
                } else {
                    kind
                };
                if let Some(ready) = ready {
                    let _ = ready.sandbox().close().await;
                }
                let mut kept = Kept {
                    id: Some(plan.record.id),
                    name: Some(plan.record.name.clone()),
                    ..Kept::default()
                };
                // As one whose command died: what hooks may have made comes home, the rest goes. Where that cannot be done
                // now, it is known for one that was never finished.
                owned.record.lifetime = Lifetime::Command;
                owned.record.setup = Setup::Making;
                if let Err(error) = owned.save() {
                    events.notice(Notice::Other {
                        text: error.to_string(),
                    });
                }
                let user = caller.user_home.as_deref();
                let given_up =
                    give_up(&caller.home, &plan.repository, owned, user, &caller.abandon);
                match given_up.await {
                    Ok(landing) => kept.landing = Some(landing),
                    Err(error) => events.notice(Notice::Other {
                        text: error.to_string(),
                    }),
                }
                Err(RunError {
                    kind,
                    kept: Box::new(kept),
                })
            }
        }
    }
}

/// One that lives on is collected from where its files are mounted, while its programs stand still: those of an isolated
/// one are inside.
fn can_live_on(sandbox: &Contained) -> Result<(), SandboxError> {
    if let Contained::Isolated(_) = sandbox {
        return Err(SandboxError::Unable {
            who: format!("the provider `{}`", sandbox.provider_name()),
            ability: Ability::Mount,
        });
    }
    sandbox.require(Ability::Outlive)?;
    sandbox.require(Ability::Pause)
}

impl Making<'_> {
    /// Its branch is there from now on, as where a worktree has it: who looks for it finds it, and nobody takes its name.
    async fn make_branch(&self, owned: &mut Owned) -> Result<(), RunErrorKind> {
        let record = &owned.record;
        let has_one = !record.branch_is_ours || record.worktree.is_some();
        let Some(branch) = record.branch.clone().filter(|_| !has_one) else {
            return Ok(());
        };
        // As after a collecting: what comes home goes on from there.
        left_at(owned.directory(), &record.base)?;
        let made = Transaction::new(format!("cofferdam {}: made", record.id))
            .update(&branch.full(), &record.base, None)
            .commit(&self.plan.repository, &self.caller.cancel)
            .await;
        match made {
            Ok(()) => Ok(()),
            Err(RefError::Git(error)) => Err(error.into()),
            Err(RefError::Moved { detail })
                if self
                    .plan
                    .repository
                    .resolve(&branch.full(), &self.caller.cancel)
                    .await?
                    .is_none() =>
            {
                Err(PlanError::BranchBarred { branch, detail }.into())
            }
            Err(_) => {
                // Then it is somebody else's, and does not go with this sandbox.
                owned.record.branch_is_ours = false;
                owned.save()?;
                Err(PlanError::BranchMade(branch).into())
            }
        }
    }

    /// The sandbox is up and its hooks are through, or one inside failed: from now on it lives by itself.
    async fn leave(
        &self,
        owned: &mut Owned,
        ready: Option<Ready>,
        setup: Setup,
    ) -> Result<Session, RunErrorKind> {
        let Some(Ready::Mounted(sandbox)) = ready else {
            return Err(SandboxError::Start("no sandbox".into()).into());
        };
        // From when its supervisor answers others find it: what they would change waits until the branch is there.
        let alone = owned.alone().await?;
        // First of all, or one that is up would belong to nobody if this process were killed at the branch. Without that it
        // is made by the first commit that comes home.
        let before = (owned.record.lifetime, owned.record.setup);
        owned.record.lifetime = Lifetime::UntilDeleted;
        owned.record.setup = setup;
        owned.save()?;
        let session = Session {
            caller: self.caller.clone(),
            named: Named {
                located: self.plan.repository.clone().into(),
                record: owned.record.clone(),
            },
            // That is when it was started.
            killed_before: 0,
            sandbox,
            abilities: self.options.sandbox.abilities(),
            why_mode: self.plan.why_mode.clone(),
            still: Arc::default(),
        };
        let lock = owned.lock()?;
        // Whoever was killed before has left nothing that runs.
        let stays = session.sandbox.stay().await;
        let made = match stays {
            // Git and the supervisor need nothing of each other.
            Ok(()) => tokio::join!(self.make_branch(owned), session.settle(lock)),
            Err(error) => (Err(error.into()), Ok(())),
        };
        if made.0.is_err() || made.1.is_err() {
            // Nothing runs that the record does not know of.
            let _ = session.shut_down().await;
        }
        drop(alone);
        match made {
            (Ok(()), Ok(())) => Ok(session),
            (Ok(()), Err(error)) => Err(RunErrorKind::Session(Box::new(error))),
            (Err(error), _) => {
                (owned.record.lifetime, owned.record.setup) = before;
                owned.save()?;
                Err(error)
            }
        }
    }
}
