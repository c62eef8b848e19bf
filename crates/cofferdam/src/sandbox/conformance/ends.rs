//! How a sandbox ends, and what stays of it.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::trial::{BEAT, Trial, beats, eventually, first_beat, ok, start};
use super::{Failure, Outcome, ensure};
use crate::sandbox::{ExecRequest, SandboxError};

pub(super) async fn closing_ends_everything(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let mut spec = trial.spec()?;
    let shared = trial.with_workspace(&mut spec)?;
    let sandbox = trial.create(&spec).await?;
    // One that nobody's signals reach but the kernel's.
    let text =
        format!("trap '' HUP TERM INT; setsid sh -c \"trap '' HUP TERM INT; {BEAT}\" & sleep 1000");
    let mut run = start(&*sandbox, &text).await?;
    first_beat(&shared).await?;
    ensure!(beats(&shared).await, "a program inside does not go on");
    sandbox.close().await?;
    ensure!(!beats(&shared).await, "a program goes on after its sandbox");
    let ended = tokio::time::timeout(Duration::from_secs(10), run.wait()).await;
    ensure!(
        ended.is_ok(),
        "nobody says how a program of a closed sandbox ended"
    );
    let after = sandbox.exec(ExecRequest::new(["true"])).await;
    ensure!(after.is_err(), "a closed sandbox runs a program");
    Ok(Outcome::Passed)
}

pub(super) async fn one_ends_with_its_maker(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let mut spec = trial.spec()?;
    let shared = trial.with_workspace(&mut spec)?;
    let sandbox = trial.try_to_create(&spec).await?;
    let text = format!("setsid sh -c '{BEAT}' >/dev/null 2>&1 &");
    ok(&*sandbox, &text).await?;
    first_beat(&shared).await?;
    drop(sandbox);
    let mut before = u64::MAX;
    eventually("a sandbox ends whose maker forgot it", || {
        let now = shared
            .join("beat")
            .metadata()
            .map_or(0, |found| found.len());
        std::thread::sleep(Duration::from_millis(200));
        std::mem::replace(&mut before, now) == now
    })
    .await?;
    ensure!(!beats(&shared).await, "a program goes on after its maker");
    Ok(Outcome::Passed)
}

pub(super) async fn closing_twice_is_no_error(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    sandbox.close().await?;
    sandbox.close().await?;
    Ok(Outcome::Passed)
}

pub(super) async fn one_that_is_cancelled_leaves_nothing(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    for after in [0, 1, 5, 20, 80, 200] {
        let (mut spec, handle) = trial.living()?;
        trial.with_workspace(&mut spec)?;
        let cancel = CancellationToken::new();
        let cancelling = async {
            tokio::time::sleep(Duration::from_millis(after)).await;
            cancel.cancel();
        };
        let creating = trial.subject.provider.create(&spec, &cancel);
        let (made, ()) = tokio::join!(creating, cancelling);
        match made {
            // It was there before.
            Ok(sandbox) => sandbox.close().await?,
            Err(SandboxError::Cancelled) => {}
            Err(error) => {
                return Err(Failure(format!("cancelled after {after} ms: {error}")));
            }
        }
        trial.subject.provider.remove(&handle).await?;
        match trial.subject.provider.open(&handle).await {
            Err(SandboxError::NotRunning) => {}
            other => {
                return Err(Failure(format!(
                    "cancelled after {after} ms it is {other:?}"
                )));
            }
        }
    }
    Ok(Outcome::Passed)
}

pub(super) async fn two_know_nothing_of_each_other(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let (first, second) = (trial.any().await?, trial.any().await?);
    let mut run = start(
        &*first,
        "echo mine >/tmp/mine; echo mine >/dev/shm/mine; exec sleep 86463",
    )
    .await?;
    // `ours-`: where a file is, whatever a command line says of it.
    let look = "cd /; for one in tmp/* dev/shm/*; do echo ours-$one; done; \
        for one in /proc/[0-9]*; do tr '\\0' ' ' <$one/cmdline; done 2>/dev/null; true";
    let (in_tmp, in_memory, program) = ("ours-tmp/mine", "ours-dev/shm/mine", "sleep 86463");
    // While a program takes the place of another it has no command line.
    let mut own = String::new();
    for _ in 0..500 {
        own = ok(&*first, look).await?;
        if [in_tmp, in_memory, program]
            .iter()
            .all(|one| own.contains(one))
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for one in [in_tmp, in_memory, program] {
        ensure!(own.contains(one), "one does not see its own {one}: {own}");
    }
    let other = ok(&*second, look).await?;
    ensure!(
        ![in_tmp, in_memory, program]
            .iter()
            .any(|one| other.contains(one)),
        "one sees the other's: {other}"
    );
    let _ = run.kill(9).await;
    first.close().await?;
    ok(&*second, "true").await?;
    Ok(Outcome::Passed)
}
