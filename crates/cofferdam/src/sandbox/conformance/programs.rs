//! Programs: what they get, and how they end.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::trial::{Trial, exit_of, finish, ok, script, start};
use super::{Failure, Outcome, ensure};
use crate::sandbox::{ExecRequest, Exit, ProgramFault, SandboxError};

pub(super) async fn exits_are_told_apart(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    for (text, expected) in [
        ("exit 0", Exit::Code(0)),
        ("exit 3", Exit::Code(3)),
        ("exit 255", Exit::Code(255)),
        ("kill -TERM $$", Exit::Signal(15)),
        ("kill -KILL $$", Exit::Signal(9)),
    ] {
        let done = finish(start(&*sandbox, text).await?).await?;
        ensure!(done.exit == expected, "`{text}`: {done:?}");
    }
    Ok(Outcome::Passed)
}

pub(super) async fn a_program_that_cannot_run_is_an_error_at_once(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    ok(&*sandbox, "cd /tmp && echo text >text && chmod 0644 text").await?;
    for (program, expected) in [
        ("no-such-program", ProgramFault::Missing),
        ("/no/such/program", ProgramFault::Missing),
        ("/tmp/text", ProgramFault::Forbidden),
        ("/tmp", ProgramFault::Forbidden),
    ] {
        match sandbox.exec(ExecRequest::new([program])).await {
            Err(SandboxError::Program { fault, .. }) if fault == expected => {}
            other => return Err(Failure(format!("`{program}`: {other:?}"))),
        }
    }
    let mut request = ExecRequest::new(["true"]);
    request.directory = Some("/no/such/directory".into());
    match sandbox.exec(request).await {
        Err(SandboxError::Program {
            fault: ProgramFault::Directory,
            ..
        }) => Ok(Outcome::Passed),
        other => Err(Failure(format!(
            "in a directory that is not there: {other:?}"
        ))),
    }
}

pub(super) async fn arguments_arrive_as_they_are(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    let odd: [&[u8]; 7] = [
        b"",
        b" two words ",
        b"'\"`$HOME\\",
        b"line\nline",
        b"*",
        b"-n",
        b"\xff\xfe not UTF-8",
    ];
    let mut request = script("for one; do printf '%s|' \"$one\"; done | od -An -v -tx1");
    request.arguments.push("sh".into());
    let given = odd.map(|one| OsString::from_vec(one.to_vec()));
    request.arguments.extend(given);
    let done = finish(sandbox.exec(request).await?).await?;
    let seen: String = done.out.split_whitespace().collect();
    let expected = odd.iter().flat_map(|one| one.iter().chain(b"|"));
    let expected: String = expected.map(|byte| format!("{byte:02x}")).collect();
    ensure!(
        seen == expected,
        "seven arguments arrived as {seen}, and should as {expected}"
    );
    Ok(Outcome::Passed)
}

/// Every program has these, and often they are the same everywhere.
const USUAL: [&str; 12] = [
    "PATH", "HOME", "PWD", "OLDPWD", "SHLVL", "_", "TERM", "LANG", "SHELL", "USER", "LOGNAME", "TZ",
];

pub(super) async fn the_environment_is_what_was_given(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let mut spec = trial.spec()?;
    let of_all = ("OF_ALL".into(), "two words\nand a line".into());
    spec.environment
        .extend([of_all, ("BOTH".into(), "all".into())]);
    let sandbox = trial.create(&spec).await?;
    let mut request = script("printf '%s|' \"$OF_ALL\" \"$BOTH\" \"$OF_ONE\"");
    let of_one = ("OF_ONE".into(), "one".into());
    request
        .environment
        .extend([of_one, ("BOTH".into(), "one".into())]);
    let seen = finish(sandbox.exec(request).await?).await?.out;
    ensure!(
        seen == "two words\nand a line|one|one|",
        "the environment that was given is {seen:?} inside"
    );
    let seen = ok(&*sandbox, "env").await?;
    ensure!(
        seen.contains("OF_ALL=") && !seen.contains("OF_ONE="),
        "what one program got the next one has: {seen}"
    );
    for (name, value) in &trial.subject.environment {
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        let line = format!("{name}={value}");
        let usual = USUAL.contains(&&*name);
        ensure!(
            usual || value.is_empty() || !seen.lines().any(|seen| seen == line),
            "the host's variable `{name}` is inside"
        );
    }
    Ok(Outcome::Passed)
}

pub(super) async fn a_program_starts_where_it_is_told(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let mut spec = trial.spec()?;
    spec.workdir = "/tmp".into();
    let sandbox = trial.create(&spec).await?;
    ensure!(
        ok(&*sandbox, "pwd; mkdir -p '/tmp/a b'").await? == "/tmp\n",
        "a program does not start in the sandbox's working directory"
    );
    let mut request = script("pwd");
    request.directory = Some("/tmp/a b".into());
    let seen = finish(sandbox.exec(request).await?).await?.out;
    ensure!(seen == "/tmp/a b\n", "a program starts in {seen:?}");
    Ok(Outcome::Passed)
}

pub(super) async fn signals_reach_the_group(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    let mut run = start(&*sandbox, "sleep 1000").await?;
    run.kill(15).await?;
    let exit = exit_of(&mut *run).await?;
    ensure!(exit == Exit::Signal(15), "after SIGTERM: {exit:?}");
    // Its children get it too: nobody holds its output any more.
    let text = "trap 'exit 8' TERM; sh -c 'echo ready; exec sleep 1000' & wait";
    let mut run = start(&*sandbox, text).await?;
    let mut stdout = (run.take_stdout()).ok_or_else(|| Failure("no output".to_owned()))?;
    let mut ready = [0u8; 6];
    tokio::io::AsyncReadExt::read_exact(&mut stdout, &mut ready).await?;
    run.kill(15).await?;
    let exit = exit_of(&mut *run).await?;
    ensure!(exit == Exit::Code(8), "one that traps SIGTERM: {exit:?}");
    let mut rest = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut stdout, &mut rest);
    let ended = tokio::time::timeout(std::time::Duration::from_secs(10), read).await;
    ensure!(ended.is_ok(), "a child of it never heard of SIGTERM");
    // One that ignores it.
    let text = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    let mut run = start(&*sandbox, text).await?;
    let mut stdout = (run.take_stdout()).ok_or_else(|| Failure("no output".to_owned()))?;
    tokio::io::AsyncReadExt::read_exact(&mut stdout, &mut ready).await?;
    run.kill(15).await?;
    run.kill(9).await?;
    let exit = exit_of(&mut *run).await?;
    ensure!(exit == Exit::Signal(9), "after SIGKILL: {exit:?}");
    Ok(Outcome::Passed)
}

pub(super) async fn many_run_at_once(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    const MANY: usize = 20;
    let sandbox = trial.any().await?;
    let mut runs = Vec::new();
    for number in 0..MANY {
        let text = format!("sleep 0.2; echo {number}; exit {number}");
        runs.push(start(&*sandbox, &text).await?);
    }
    for (number, run) in runs.into_iter().enumerate() {
        let done = finish(run).await?;
        let code = i32::try_from(number).unwrap_or_default();
        ensure!(
            done.exit == Exit::Code(code) && done.out == format!("{number}\n"),
            "program {number} of {MANY}: {done:?}"
        );
    }
    Ok(Outcome::Passed)
}

pub(super) async fn what_was_left_running_keeps_nobody_waiting(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    let mut run = start(&*sandbox, "sleep 1000 & exit 5").await?;
    let exit = exit_of(&mut *run).await?;
    ensure!(
        exit == Exit::Code(5),
        "one that left a program behind: {exit:?}"
    );
    Ok(Outcome::Passed)
}
