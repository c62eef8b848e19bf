//! The end of a living sandbox's programs; its files stay, and the agent's home.

use std::pin::pin;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::life::{halt_as_asked, turn};
use super::{Named, SessionError};
use crate::registry::Owned;
use crate::sandbox::{BindMountProvider, Listed, Sandbox, SandboxError};
use crate::session::layers;
use crate::session::options::Caller;
use crate::wall::supervisor;

/// Interactive shells ignore a request to end; so long after it they are told that their terminal is gone.
const HANG_UP: Duration = Duration::from_secs(1);
/// Between two looks at what still runs.
const PAUSE: Duration = Duration::from_millis(20);

/// Ends every program at once. Idempotent. Bounded: 30 s.
pub async fn stop(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> Result<(), SessionError> {
    stop_within(caller, named, provider, Duration::ZERO).await
}

/// As [`stop`], with a while for the programs to end by themselves: those that the host has started get SIGTERM, and
/// where one has a terminal, SIGHUP a second later. What runs after `grace`, or when [`Caller::cancel`] comes, is ended
/// at once; so is a sandbox that is paused, where nothing can hear a signal. Bounded: `grace` and 30 s.
///
/// It has the sandbox's turn all the time but the first: who started it again in between would have that one ended.
pub async fn stop_within(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
    grace: Duration,
) -> Result<(), SessionError> {
    named.check(provider)?;
    let turn = turn_to_end(caller, named, provider, grace).await?;
    halt_as_asked(caller, named, provider).await?;
    layers::has_ended(turn.directory())?;
    supervisor::forget_end(turn.directory())?;
    drop(turn);
    Ok(())
}

/// How long a sandbox may take to say what runs in it.
const ASKED: Duration = Duration::from_secs(2);

/// How many programs run in it, for whoever is about to end them; 0 where that cannot be told. Bounded: 2 s.
pub async fn programs_running(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> u32 {
    let asked = async {
        let sandbox = provider.open(&named.handle(caller)).await?;
        Ok::<_, SandboxError>(sandbox.status().await?.programs)
    };
    let asked = tokio::time::timeout(ASKED, asked).await;
    asked.map_or(0, Result::unwrap_or_default)
}

/// The sandbox's turn, when its programs have ended or had `grace` for it. Whoever has the turn before may be waiting for one of them,
/// such as a command of `on_sync`: so they are told to end meanwhile, and killed after that. Bounded: `grace` and 30 s.
pub(super) async fn turn_to_end(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
    grace: Duration,
) -> Result<Owned, SessionError> {
    // A cancel cuts the grace short, not the wait for what it ends.
    let patient = Caller {
        cancel: caller.abandon.clone(),
        ..caller.clone()
    };
    let waiting = async {
        loop {
            match turn(&patient, named).await {
                Err(SessionError::Busy { .. }) if !caller.abandon.is_cancelled() => {}
                done => return done,
            }
        }
    };
    let mut asked = pin!(asked_to_end(caller, named, provider, grace));
    tokio::select! {
        biased;
        turn = waiting => {
            let turn = turn?;
            asked.await;
            return Ok(turn);
        }
        () = &mut asked => {}
    }
    let killing = async {
        loop {
            // It may be gone by now.
            let _ = kill(caller, named, provider).await;
            tokio::time::sleep(HANG_UP).await;
        }
    };
    tokio::select! {
        turn = turn(&patient, named) => turn,
        never = killing => never,
    }
}

/// Returns when none of its programs runs any more, or they had `grace`. One that cannot be asked is ended all the same.
async fn asked_to_end(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
    grace: Duration,
) {
    if grace.is_zero() {
        return;
    }
    let asked = async {
        let sandbox = provider.open(&named.handle(caller)).await?;
        ask_to_end(sandbox.as_ref()).await
    };
    tokio::select! {
        () = caller.cancel.cancelled() => {}
        () = tokio::time::sleep(grace) => {}
        _ = asked => {}
    }
}

async fn kill(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> Result<(), SandboxError> {
    let sandbox = provider.open(&named.handle(caller)).await?;
    for one in sandbox
        .programs()
        .await?
        .iter()
        .filter(|one| one.exit.is_none())
    {
        send(sandbox.as_ref(), one, Signal::KILL).await?;
    }
    Ok(())
}

/// Returns when none of them runs any more.
async fn ask_to_end(sandbox: &dyn Sandbox) -> Result<(), SandboxError> {
    if sandbox.status().await?.paused {
        return Ok(());
    }
    let mut asked: Vec<u64> = Vec::new();
    let hang_up = Instant::now() + HANG_UP;
    let mut hung_up = false;
    loop {
        let programs = sandbox.programs().await?;
        let running: Vec<&Listed> = programs.iter().filter(|one| one.exit.is_none()).collect();
        if running.is_empty() {
            return Ok(());
        }
        for one in &running {
            // Also those that somebody starts meanwhile.
            if !asked.contains(&one.number) {
                send(sandbox, one, Signal::TERM).await?;
                asked.push(one.number);
            }
        }
        if !hung_up && Instant::now() >= hang_up {
            hung_up = true;
            for one in running.iter().filter(|one| one.terminal) {
                send(sandbox, one, Signal::HUP).await?;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn send(sandbox: &dyn Sandbox, one: &Listed, signal: Signal) -> Result<(), SandboxError> {
    match sandbox.signal(one.number, signal.as_raw()).await {
        Err(SandboxError::NoProgram(_)) => Ok(()),
        done => done,
    }
}
