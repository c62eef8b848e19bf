//! Bounds.

use std::sync::Arc;

use super::trial::{Trial, finish, ok, start};
use super::{Failure, Outcome, ensure};
use crate::sandbox::{Limits, Sandbox, SandboxSpec};

pub(super) async fn processes_are_bounded(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let mut spec = trial.spec()?;
    spec.limits.processes = Some(40);
    let sandbox = match given(trial, &spec).await? {
        Ok(sandbox) => sandbox,
        Err(why) => return Ok(why),
    };
    let text = "i=0; while [ $i -lt 80 ]; do sleep 100 >/dev/null 2>&1 & i=$((i+1)); done";
    let done = finish(start(&*sandbox, text).await?).await?;
    // A shell ends there, or says so and goes on.
    ensure!(
        done.err.contains("fork") || done.err.contains("unavailable"),
        "of 40 processes at most 80 were started: {done:?}"
    );
    // Another sandbox does not feel it.
    ok(&*trial.any().await?, "true").await?;
    Ok(Outcome::Passed)
}

pub(super) async fn open_files_are_bounded(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let mut spec = trial.spec()?;
    spec.limits.open_files = Some(77);
    let sandbox = match given(trial, &spec).await? {
        Ok(sandbox) => sandbox,
        Err(why) => return Ok(why),
    };
    let seen = ok(&*sandbox, "ulimit -n; ulimit -Hn").await?;
    ensure!(seen == "77\n77\n", "open files of one process: {seen:?}");
    Ok(Outcome::Passed)
}

pub(super) async fn memory_is_bounded(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let mut spec = trial.spec()?;
    spec.limits.memory = Some(64 << 20);
    let sandbox = match given(trial, &spec).await? {
        Ok(sandbox) => sandbox,
        Err(why) => return Ok(why),
    };
    let text = "dd if=/dev/zero of=/dev/null bs=200M count=1 2>/dev/null; echo $?";
    let done = finish(start(&*sandbox, text).await?).await?;
    ensure!(done.out != "0\n", "200 MB fit into 64 MiB");
    // The control: the same with room.
    let sandbox = trial.any().await?;
    ensure!(
        ok(&*sandbox, text).await? == "0\n",
        "200 MB do not fit without a limit either"
    );
    Ok(Outcome::Passed)
}

/// With these limits; where this machine cannot give them, as the provider says, why.
async fn given(
    trial: &Trial<'_>,
    spec: &SandboxSpec,
) -> Result<Result<Arc<dyn Sandbox>, Outcome>, Failure> {
    let checked = trial.subject.provider.check_limits(&spec.limits);
    if let Err(why) = checked {
        return Ok(Err(Outcome::NotTried(why.to_string())));
    }
    match trial.create(spec).await {
        Ok(sandbox) => Ok(Ok(sandbox)),
        Err(failure) if failure.to_string().contains("cannot limit") => {
            Ok(Err(Outcome::NotTried(failure.to_string())))
        }
        Err(failure) => Err(failure),
    }
}

pub(super) async fn what_cannot_be_given_is_refused_before_anything_is_made(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let mut spec = trial.spec()?;
    // Less than any program needs, and more than any machine has.
    spec.limits = Limits {
        cpus: Some(1e9),
        ..spec.limits
    };
    let checked = trial.subject.provider.check_limits(&spec.limits).is_err();
    match trial.try_to_create(&spec).await {
        Ok(sandbox) if !checked => sandbox.close().await?,
        Ok(sandbox) => {
            sandbox.close().await?;
            return Err(Failure("limits that were refused were taken".to_owned()));
        }
        Err(error) => {
            let said = error.to_string();
            ensure!(
                said.contains("cpu") || said.contains("CPU"),
                "the limit is not named: {said}"
            );
        }
    }
    Ok(Outcome::Passed)
}
