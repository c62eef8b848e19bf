//! The end of a living sandbox's programs; its files stay, and the agent's home.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::life::{halt, turn};
use super::{Named, SessionError};
use crate::sandbox::{BindMountProvider, Listed, Sandbox, SandboxError};
use crate::session::layers;
use crate::session::options::Caller;

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
/// It has the sandbox's turn all the time: who started it again in between would have that one ended.
pub async fn stop_within(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
    grace: Duration,
) -> Result<(), SessionError> {
    named.check(provider)?;
    let turn = turn(caller, named).await?;
    if !grace.is_zero() {
        let asked = async {
            let sandbox = provider.open(&named.handle(caller)).await?;
            ask_to_end(sandbox.as_ref()).await
        };
        tokio::select! {
            () = caller.cancel.cancelled() => {}
            () = tokio::time::sleep(grace) => {}
            // One that cannot be asked is ended all the same.
            _ = asked => {}
        }
    }
    halt(caller, named, provider).await?;
    layers::has_ended(turn.directory())?;
    drop(turn);
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
