//! Objects as `cat-file` tells them.

use std::collections::HashMap;

use tokio_util::sync::CancellationToken;

use super::quarantine::Quarantine;
use super::{Gate, GateError};
use crate::git::{GitError, Oid};
use crate::process::{Input, Sink};

/// Kind and size of each object that exists.
pub(super) async fn objects<'a>(
    gate: &Gate,
    quarantine: &Quarantine,
    ids: impl Iterator<Item = &'a Oid>,
    cancel: &CancellationToken,
) -> Result<HashMap<Oid, (String, u64)>, GateError> {
    let input = lines(ids);
    if input.is_empty() {
        return Ok(HashMap::new());
    }
    let done = quarantine
        .command(&gate.repo)
        .args([
            "cat-file",
            "--batch-check=%(objectname) %(objecttype) %(objectsize)",
            "--buffer",
        ])
        .input(Input::Bytes(input))
        .limit(gate.limits.time)
        .output(Sink::Capture(1 << 30))
        .run(cancel)
        .await?;
    let text = String::from_utf8_lossy(&done.stdout);
    Ok(text
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let id = words.next()?.parse().ok()?;
            let kind = words.next()?.to_owned();
            Some((id, (kind, words.next()?.parse().ok()?)))
        })
        .collect())
}

pub(super) fn lines<'a>(ids: impl Iterator<Item = &'a Oid>) -> Vec<u8> {
    ids.flat_map(|id| [id.as_str().as_bytes(), b"\n"].concat())
        .collect()
}

/// `<id> <kind> <size>\n<bytes>\n` …
pub(super) fn parse_batch(mut rest: &[u8]) -> Option<HashMap<Oid, &[u8]>> {
    let mut found = HashMap::new();
    while !rest.is_empty() {
        let end = rest.iter().position(|&b| b == b'\n')?;
        let line = std::str::from_utf8(&rest[..end]).ok()?;
        let mut words = line.split(' ');
        let id: Oid = words.next()?.parse().ok()?;
        let size: usize = words.nth(1)?.parse().ok()?;
        let content = rest.get(end + 1..end + 1 + size)?;
        rest = rest.get(end + 1 + size + 1..)?;
        found.insert(id, content);
    }
    Some(found)
}

/// What this command of git said is not what it says.
pub(super) fn odd(command: &str, what: &str) -> GateError {
    GateError::Git(GitError::Output {
        command: command.into(),
        what: what.into(),
    })
}
