//! Bounds.

use std::fs;
use std::sync::Arc;

use super::trial::{Trial, finish, ok, start};
use super::{Failure, Outcome, ensure};
use crate::sandbox::{Ability, Limits, Sandbox, SandboxError, SandboxSpec, killed};

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
    if let Some(memory) = sandbox.group_memory() {
        ensure!(
            memory.killed != Some(0),
            "nobody says that the kernel killed it for that"
        );
        ensure!(
            memory.limit == Some(64 << 20),
            "its limit is told as {:?}",
            memory.limit
        );
    }
    // The control: the same with room.
    let sandbox = trial.any().await?;
    ensure!(
        ok(&*sandbox, text).await? == "0\n",
        "200 MB do not fit without a limit either"
    );
    let memory = sandbox.group_memory();
    ensure!(
        killed(memory) == 0,
        "some were killed in one without a limit: {memory:?}"
    );
    Ok(Outcome::Passed)
}

/// By processor time and the clock: whatever else the machine does makes it later, never sooner.
pub(super) async fn cpus_are_bounded(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    // Hundredths of a second of the clock in which a program is given 20 of a processor.
    const BUSY: &str =
        "used() { read -r line </proc/self/stat; set -- $line; used=$((${14} + ${15})); }
        clock() { read -r up rest </proc/uptime; clock=${up%.*}${up#*.}; }
        clock; begin=$clock; used; enough=$((used + 20))
        while [ $used -lt $enough ]; do n=0; while [ $n -lt 500 ]; do n=$((n + 1)); done; used; done
        clock; echo $((clock - begin))";
    let took = async |sandbox: &dyn Sandbox| {
        let said = ok(sandbox, BUSY).await?;
        let number = said.trim().parse::<u64>();
        number.map_err(|_| Failure(format!("no time: {said}")))
    };
    let mut spec = trial.spec()?;
    spec.limits.cpus = Some(0.1);
    let sandbox = match given(trial, &spec).await? {
        Ok(sandbox) => sandbox,
        Err(why) => return Ok(why),
    };
    let bounded = took(&*sandbox).await?;
    ensure!(
        bounded >= 100,
        "of 0.1 CPUs a program had 0.2 s in 0.{bounded:02} s"
    );
    // The control: the same without a bound.
    let sandbox = trial.any().await?;
    for _ in 0..5 {
        if took(&*sandbox).await? < 100 {
            return Ok(Outcome::Passed);
        }
    }
    let why = "this machine is so busy that a program is as slow without a limit";
    Ok(Outcome::InPart(why.to_owned()))
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

/// Of each limit alone: what is no limit, one that every machine could give, and more than any machine has. The first is
/// refused, whoever provides the sandbox: an engine takes nought for no bound at all. The others are refused or given.
pub(super) async fn what_cannot_be_given_is_refused_before_anything_is_made(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let none = Limits {
        processes: None,
        memory: None,
        cpus: None,
        open_files: None,
    };
    let processes = |processes| Limits { processes, ..none };
    let memory = |memory| Limits { memory, ..none };
    let cpus = |cpus| Limits { cpus, ..none };
    let open_files = |open_files| Limits { open_files, ..none };
    // What names it; those that are none; the others.
    let each = [
        (
            "process",
            vec![processes(Some(0))],
            [64, u64::MAX].map(Some).map(processes),
        ),
        (
            "memory",
            vec![memory(Some(0))],
            [64 << 20, u64::MAX].map(Some).map(memory),
        ),
        (
            "cpu",
            [0.0, -1.0, 1e-12, f64::NAN, f64::INFINITY]
                .map(Some)
                .map(cpus)
                .to_vec(),
            [0.5, 1e9].map(Some).map(cpus),
        ),
        (
            "open files",
            vec![open_files(Some(0))],
            [64, u64::MAX].map(Some).map(open_files),
        ),
    ];
    for (name, no_limit, others) in each {
        for limits in no_limit {
            let taken = is_taken(trial, name, &limits).await?;
            ensure!(!taken, "what is no limit was taken for one: {limits:?}");
        }
        for limits in others {
            is_taken(trial, name, &limits).await?;
        }
    }
    Ok(Outcome::Passed)
}

/// Whether there is a sandbox with these limits, in which a program runs; where it was refused that was by `name`, and
/// nothing was made.
async fn is_taken(trial: &Trial<'_>, name: &str, limits: &Limits) -> Result<bool, Failure> {
    let provider = &trial.subject.provider;
    let (mut spec, handle) = if provider.abilities().has(Ability::Outlive) {
        let (spec, handle) = trial.living()?;
        (spec, Some(handle))
    } else {
        (trial.spec()?, None)
    };
    spec.limits = limits.clone();
    let checked = provider.check_limits(limits);
    let error = match trial.try_to_create(&spec).await {
        Ok(sandbox) => {
            let ran = ok(&*sandbox, "true").await;
            sandbox.close().await?;
            ran.map_err(|why| Failure(format!("with {limits:?}: {why}")))?;
            ensure!(checked.is_ok(), "{limits:?} was refused, and then given");
            return Ok(true);
        }
        Err(error) => error,
    };
    let named = |said: &str| said.to_lowercase().contains(name);
    for said in [Some(&error), checked.as_ref().err()].into_iter().flatten() {
        let said = said.to_string();
        ensure!(named(&said), "{limits:?}: no word of {name}: {said}");
    }
    if let Some(handle) = handle {
        let opened = provider.open(&handle).await;
        ensure!(
            matches!(opened, Err(SandboxError::NotRunning)),
            "{limits:?} was refused, and it is {opened:?}"
        );
        let left: Vec<_> = fs::read_dir(&handle.state)?.collect::<Result<_, _>>()?;
        ensure!(left.is_empty(), "{limits:?} was refused, and left {left:?}");
    }
    Ok(false)
}
