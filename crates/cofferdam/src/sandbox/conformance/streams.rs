//! Standard input, output and error.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::trial::{Trial, exit_of, finish, script, start};
use super::{Failure, Outcome, ensure};
use crate::sandbox::{BoxWrite, Execution, Exit};

fn input_of(run: &mut dyn Execution) -> Result<BoxWrite, Failure> {
    let missing = || Failure("a program that was to have an input has none".to_owned());
    run.take_stdin().ok_or_else(missing)
}

pub(super) async fn input_output_and_error_are_apart(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    let mut request = script("cat; echo wrong >&2; exit 7");
    request.stdin = true;
    let mut run = sandbox.exec(request).await?;
    let mut input = input_of(&mut *run)?;
    input.write_all(b"given\n").await?;
    drop(input);
    let done = finish(run).await?;
    ensure!(
        (done.exit, &*done.out, &*done.err) == (Exit::Code(7), "given\n", "wrong\n"),
        "{done:?}"
    );
    // Without one it reads the end of a file.
    let done = finish(start(&*sandbox, "cat; echo end").await?).await?;
    ensure!(done.out == "end\n", "without an input: {done:?}");
    Ok(Outcome::Passed)
}

pub(super) async fn much_goes_through_unchanged(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    const BYTES: usize = 4 << 20;
    let sandbox = trial.any().await?;
    let mut request = script("cat");
    request.stdin = true;
    let mut run = sandbox.exec(request).await?;
    let mut input = input_of(&mut *run)?;
    // Every byte there is, and no two pages alike.
    let given: Vec<u8> = (0..BYTES)
        .map(|at| (at ^ (at >> 8)).to_le_bytes()[0])
        .collect();
    let mut output = (run.take_stdout()).ok_or_else(|| Failure("no output".to_owned()))?;
    let mut seen = Vec::new();
    let writing = async {
        let written = input.write_all(&given).await;
        drop(input);
        written
    };
    let both = async { tokio::join!(writing, output.read_to_end(&mut seen)) };
    let done = tokio::time::timeout(Duration::from_secs(60), both).await;
    let (written, read) = done.map_err(|_| Failure("4 MiB never came through".to_owned()))?;
    written?;
    read?;
    ensure!(
        seen == given,
        "of 4 MiB {} bytes came through, or others",
        seen.len()
    );
    let exit = exit_of(&mut *run).await?;
    ensure!(exit == Exit::Code(0), "{exit:?}");
    Ok(Outcome::Passed)
}

pub(super) async fn an_input_that_ends_is_heard_of(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    let mut request = script("cat >/dev/null; echo heard; exit 4");
    request.stdin = true;
    let mut run = sandbox.exec(request).await?;
    let mut input = input_of(&mut *run)?;
    input.shutdown().await?;
    drop(input);
    let done = finish(run).await?;
    ensure!(
        done.exit == Exit::Code(4) && done.out == "heard\n",
        "{done:?}"
    );
    Ok(Outcome::Passed)
}

pub(super) async fn a_reader_that_went_away_is_noticed(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    let mut run = start(&*sandbox, "while echo more; do :; done 2>/dev/null; exit 6").await?;
    drop(run.take_stdout());
    drop(run.take_stderr());
    let exit = exit_of(&mut *run).await?;
    // By the signal, or by the error where a shell ignores it.
    ensure!(
        matches!(exit, Exit::Signal(13) | Exit::Code(6)),
        "one whose reader went away: {exit:?}"
    );
    Ok(Outcome::Passed)
}
