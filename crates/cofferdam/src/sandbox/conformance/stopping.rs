//! Sandboxes that stand still.

use super::trial::{BEAT, Trial, beats, eventually, first_beat, ok, start};
use super::{Failure, Outcome, ensure};
use crate::sandbox::{ExecRequest, SandboxError};

pub(super) async fn what_is_paused_stands_still(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let (mut spec, handle) = trial.living()?;
    let shared = trial.with_workspace(&mut spec)?;
    let provider = &trial.subject.provider;
    let sandbox = trial.create(&spec).await?;
    let mut run = start(&*sandbox, &format!("kept=in-memory; {BEAT}")).await?;
    first_beat(&shared).await?;
    // Whoever asks for it: the other sees it.
    let other = provider.open(&handle).await?;
    other.pause().await?;
    other.pause().await?;
    ensure!(
        sandbox.status().await?.paused,
        "it does not say that it is paused"
    );
    ensure!(
        !beats(&shared).await,
        "a program of a paused sandbox goes on"
    );
    match sandbox.exec(ExecRequest::new(["true"])).await {
        Err(SandboxError::Paused) => {}
        other => return Err(Failure(format!("a program of a paused sandbox: {other:?}"))),
    }
    // It stays so when nobody is there.
    drop(other);
    ensure!(
        !beats(&shared).await,
        "it goes on when who paused it has gone"
    );
    sandbox.resume().await?;
    sandbox.resume().await?;
    ensure!(beats(&shared).await, "a resumed program does not go on");
    ensure!(
        !sandbox.status().await?.paused,
        "it says that it is paused after it was resumed"
    );
    ok(&*sandbox, "true").await?;
    run.kill(9).await?;
    run.wait().await?;
    // One that is paused ends like any other.
    sandbox.pause().await?;
    provider.remove(&handle).await?;
    Ok(Outcome::Passed)
}

pub(super) async fn what_is_frozen_goes_on_when_nobody_holds_it(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let (mut spec, handle) = trial.living()?;
    let shared = trial.with_workspace(&mut spec)?;
    let provider = &trial.subject.provider;
    let sandbox = trial.create(&spec).await?;
    let _run = start(&*sandbox, BEAT).await?;
    first_beat(&shared).await?;
    sandbox.freeze().await?;
    ensure!(
        !beats(&shared).await,
        "a program of a frozen sandbox goes on"
    );
    let other = provider.open(&handle).await?;
    ensure!(
        other.status().await?.frozen,
        "it does not say that it is frozen"
    );
    match other.exec(ExecRequest::new(["true"])).await {
        Err(SandboxError::Frozen) => {}
        done => return Err(Failure(format!("a program of a frozen sandbox: {done:?}"))),
    }
    sandbox.thaw().await?;
    ensure!(beats(&shared).await, "a thawed program does not go on");
    // Who holds it may be killed.
    other.freeze().await?;
    ensure!(
        !beats(&shared).await,
        "a program of a frozen sandbox goes on"
    );
    drop(other);
    let length = || {
        shared
            .join("beat")
            .metadata()
            .map_or(0, |found| found.len())
    };
    let before = length();
    eventually("it goes on when nobody holds it", || length() != before).await?;
    // Paused and frozen: it goes on when neither holds.
    sandbox.freeze().await?;
    sandbox.pause().await?;
    sandbox.thaw().await?;
    ensure!(
        !beats(&shared).await,
        "one that is paused goes on when it is thawed"
    );
    sandbox.resume().await?;
    ensure!(
        beats(&shared).await,
        "one that neither holds does not go on"
    );
    Ok(Outcome::Passed)
}

pub(super) async fn what_somebody_has_to_watch_stands_still_unwatched(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let (mut spec, handle) = trial.living()?;
    let shared = trial.with_workspace(&mut spec)?;
    let provider = &trial.subject.provider;
    let sandbox = trial.create(&spec).await?;
    let _run = start(&*sandbox, BEAT).await?;
    first_beat(&shared).await?;
    // Until somebody asks for it nobody has to.
    let (one, other) = (provider.open(&handle).await?, provider.open(&handle).await?);
    drop(provider.open(&handle).await?);
    ensure!(
        beats(&shared).await,
        "one that nobody watches does not go on"
    );
    one.watch().await?;
    one.watch().await?;
    other.watch().await?;
    drop(one);
    ensure!(
        beats(&shared).await,
        "it does not go on when one of two watchers is gone"
    );
    drop(other);
    let stands = async || !beats(&shared).await;
    ensure!(
        stands().await || stands().await,
        "a program goes on that nobody watches"
    );
    match sandbox.exec(ExecRequest::new(["true"])).await {
        Err(SandboxError::Unwatched) => {}
        done => return Err(Failure(format!("a program that nobody watches: {done:?}"))),
    }
    // Neither of these is a way round.
    sandbox.freeze().await?;
    sandbox.thaw().await?;
    sandbox.pause().await?;
    sandbox.resume().await?;
    ensure!(
        stands().await,
        "one that is resumed goes on though nobody watches it"
    );
    let again = provider.open(&handle).await?;
    again.watch().await?;
    ensure!(
        beats(&shared).await,
        "one that is watched again does not go on"
    );
    // Paused meanwhile: it goes on when it is resumed.
    sandbox.pause().await?;
    drop(again);
    let again = provider.open(&handle).await?;
    again.watch().await?;
    ensure!(
        stands().await,
        "one that is paused goes on because somebody watches it"
    );
    sandbox.resume().await?;
    ensure!(beats(&shared).await, "a resumed program does not go on");
    ok(&*sandbox, "true").await?;
    Ok(Outcome::Passed)
}
