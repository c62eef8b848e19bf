//! Terminals.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::trial::{Trial, eventually, exit_of, ok, script};
use super::{Failure, Outcome, ensure};
use crate::sandbox::{Execution, Exit, Sandbox, Terminal, TerminalSize};

const SIZE: TerminalSize = TerminalSize {
    rows: 33,
    columns: 101,
};

async fn with_terminal(
    sandbox: &dyn Sandbox,
    text: &str,
) -> Result<(Box<dyn Execution>, Terminal), Failure> {
    let mut request = script(text);
    request.terminal = Some(SIZE);
    let mut run = sandbox.exec(request).await?;
    ensure!(
        run.take_stdout().is_none() && run.take_stdin().is_none(),
        "a program with a terminal has other streams too"
    );
    let terminal = run.take_terminal();
    let missing = || Failure("a program that was to have a terminal has none".to_owned());
    Ok((run, terminal.ok_or_else(missing)?))
}

/// Reads until the text has come.
async fn until(terminal: &mut Terminal, text: &str) -> Result<String, Failure> {
    let mut seen = Vec::new();
    let mut chunk = [0u8; 512];
    loop {
        let said = String::from_utf8_lossy(&seen).into_owned();
        if said.contains(text) {
            return Ok(said);
        }
        let read = terminal.output.read(&mut chunk);
        let got = tokio::time::timeout(Duration::from_secs(20), read).await;
        // A terminal ends with an error, or as a file does.
        match got {
            Ok(Ok(bytes)) if bytes > 0 => seen.extend_from_slice(chunk.get(..bytes).unwrap_or(&[])),
            other => return Err(Failure(format!("no {text:?} in {said:?}: {other:?}"))),
        }
    }
}

pub(super) async fn a_terminal_is_one(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    let text = "for fd in 0 1 2; do test -t $fd && printf %s $fd; done; echo; tty; stty size; \
                echo through >/dev/tty; read line; echo got $line; exit 3";
    let (mut run, mut terminal) = with_terminal(&*sandbox, text).await?;
    let said = until(&mut terminal, "through").await?;
    for part in ["012\r\n", "/dev/pts/", "33 101\r\n"] {
        ensure!(said.contains(part), "no {part:?} in {said:?}");
    }
    terminal.input.write_all(b"hello\n").await?;
    until(&mut terminal, "got hello").await?;
    let exit = exit_of(&mut *run).await?;
    ensure!(exit == Exit::Code(3), "{exit:?}");
    Ok(Outcome::Passed)
}

pub(super) async fn a_new_size_is_heard_of(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    let text = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done";
    let (mut run, mut terminal) = with_terminal(&*sandbox, text).await?;
    until(&mut terminal, "ready").await?;
    terminal.size.resize(TerminalSize {
        rows: 7,
        columns: 77,
    })?;
    until(&mut terminal, "7 77").await?;
    run.kill(9).await?;
    exit_of(&mut *run).await?;
    Ok(Outcome::Passed)
}

pub(super) async fn control_characters_are_signals(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    let text = "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.05; done";
    let (mut run, mut terminal) = with_terminal(&*sandbox, text).await?;
    until(&mut terminal, "ready").await?;
    terminal.input.write_all(b"\x03").await?;
    until(&mut terminal, "interrupted").await?;
    let exit = exit_of(&mut *run).await?;
    ensure!(exit == Exit::Code(9), "{exit:?}");
    Ok(Outcome::Passed)
}

pub(super) async fn a_terminal_that_goes_away_hangs_up(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let mut spec = trial.spec()?;
    let shared = trial.with_workspace(&mut spec)?;
    let sandbox = trial.create(&spec).await?;
    let text = "trap 'echo >hung-up; exit 1' HUP; echo ready; while :; do sleep 0.05; done";
    let (mut run, mut terminal) = with_terminal(&*sandbox, text).await?;
    until(&mut terminal, "ready").await?;
    drop(terminal);
    eventually("a program hears that its terminal went away", || {
        shared.join("hung-up").exists()
    })
    .await?;
    exit_of(&mut *run).await?;
    // The sandbox goes on.
    ok(&*sandbox, "true").await?;
    Ok(Outcome::Passed)
}
