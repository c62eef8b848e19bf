//! Sandboxes that outlive their makers.

use std::time::{Duration, Instant};

use super::trial::{Trial, eventually, finish, ok, script, start};
use super::{Failure, Outcome, ensure};
use crate::sandbox::{Detached, ExecRequest, Exit, SandboxError};

pub(super) async fn one_that_lives_on_is_found_again(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let (spec, handle) = trial.living()?;
    let provider = &trial.subject.provider;
    let sandbox = trial.create(&spec).await?;
    ok(&*sandbox, "echo kept >/tmp/kept").await?;
    drop(sandbox);
    for _ in 0..3 {
        let sandbox = provider.open(&handle).await?;
        ensure!(
            ok(&*sandbox, "cat /tmp/kept").await? == "kept\n",
            "what lay in it is gone"
        );
    }
    // Two at once.
    let (first, second) = (provider.open(&handle).await?, provider.open(&handle).await?);
    let (one, other) = tokio::join!(
        ok(&*first, "sleep 0.2; echo one"),
        ok(&*second, "sleep 0.2; echo other")
    );
    ensure!(
        one? == "one\n" && other? == "other\n",
        "two users get each other's output"
    );
    Ok(Outcome::Passed)
}

/// Nobody has been told of it yet, so nobody would end it.
pub(super) async fn until_it_stays_it_ends_with_its_maker(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let (spec, handle) = trial.living()?;
    let sandbox = trial.try_to_create(&spec).await?;
    ok(&*sandbox, "true").await?;
    drop(sandbox);
    let provider = &trial.subject.provider;
    let began = Instant::now();
    while !matches!(provider.open(&handle).await, Err(SandboxError::NotRunning)) {
        ensure!(
            began.elapsed() < Duration::from_secs(10),
            "one that was never told to stay goes on without its maker"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(Outcome::Passed)
}

pub(super) async fn programs_survive_who_started_them(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let (spec, handle) = trial.living()?;
    let provider = &trial.subject.provider;
    let (output, end) = (trial.place.join("output"), trial.place.join("end"));
    let sandbox = trial.create(&spec).await?;
    let mut request = script("echo first; sleep 0.5; echo second; exit 3");
    request.detached = Some(Detached {
        output: output.clone(),
        end: end.clone(),
    });
    sandbox.exec(request).await?;
    // One that nobody detached ends with its starter.
    drop(start(&*sandbox, "exec sleep 86464").await?);
    drop(sandbox);
    let mut exit = None;
    eventually("a detached program ends", || {
        exit = std::fs::read(&end)
            .ok()
            .and_then(|text| Detached::read_end(&text));
        exit.is_some()
    })
    .await?;
    ensure!(exit == Some(Exit::Code(3)), "it ended with {exit:?}");
    let said = std::fs::read(&output)?;
    ensure!(said == b"first\nsecond\n", "it printed {said:?}");
    let sandbox = provider.open(&handle).await?;
    let look = "for one in /proc/[0-9]*; do tr '\\0' ' ' <$one/cmdline; done 2>/dev/null; true";
    let seen = ok(&*sandbox, look).await?;
    ensure!(
        !seen.contains("sleep 86464"),
        "one that was not detached goes on"
    );
    Ok(Outcome::Passed)
}

pub(super) async fn programs_are_listed_and_signalled(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let (spec, handle) = trial.living()?;
    let provider = &trial.subject.provider;
    let sandbox = trial.create(&spec).await?;
    let idle = sandbox.memory().await?;
    ensure!(idle == 0, "no program runs, and {idle} bytes are used");
    let mut run = sandbox.exec(ExecRequest::new(["sleep", "86465"])).await?;
    let other = provider.open(&handle).await?;
    let used = other.memory().await?;
    ensure!(
        (1..100_000_000).contains(&used),
        "a program that sleeps uses {used} bytes"
    );
    let listed = other.programs().await?;
    let running = listed.iter().find(|one| one.exit.is_none());
    let Some(one) = running.filter(|one| one.arguments.iter().any(|word| word == "86465")) else {
        return Err(Failure(format!(
            "a program that runs is not listed: {listed:?}"
        )));
    };
    ensure!(
        run.number() == Some(one.number) && one.awaited && !one.detached,
        "it is listed as {one:?}"
    );
    ensure!(
        other.status().await?.programs == 1,
        "one program runs, and others are counted"
    );
    other.signal(one.number, 15).await?;
    let exit = run.wait().await?;
    ensure!(
        exit == Exit::Signal(15),
        "after SIGTERM from elsewhere: {exit:?}"
    );
    match other.signal(1 << 40, 15).await {
        Err(SandboxError::NoProgram(_)) => Ok(Outcome::Passed),
        done => Err(Failure(format!(
            "a signal to a program that never was: {done:?}"
        ))),
    }
}

pub(super) async fn one_is_made_once(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let (spec, handle) = trial.living()?;
    let sandbox = trial.create(&spec).await?;
    match trial.try_to_create(&spec).await {
        Err(SandboxError::Running) => {}
        other => return Err(Failure(format!("made for the second time: {other:?}"))),
    }
    ok(&*sandbox, "true").await?;
    ok(&*trial.subject.provider.open(&handle).await?, "true").await?;
    Ok(Outcome::Passed)
}

pub(super) async fn what_is_gone_is_not_running(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let (spec, handle) = trial.living()?;
    let provider = &trial.subject.provider;
    // Nothing was ever there.
    provider.remove(&handle).await?;
    let sandbox = trial.create(&spec).await?;
    let mut run = start(&*sandbox, "exec sleep 1000").await?;
    provider.remove(&handle).await?;
    let ended = tokio::time::timeout(std::time::Duration::from_secs(10), run.wait()).await;
    ensure!(
        ended.is_ok(),
        "nobody says how a program of a removed sandbox ended"
    );
    match provider.open(&handle).await {
        Err(SandboxError::NotRunning) => {}
        other => return Err(Failure(format!("one that is gone: {other:?}"))),
    }
    provider.remove(&handle).await?;
    // And it can be made again.
    let sandbox = trial.create(&spec).await?;
    let done = finish(start(&*sandbox, "ls /tmp").await?).await?;
    ensure!(done.exit.success(), "one that was made again: {done:?}");
    Ok(Outcome::Passed)
}
