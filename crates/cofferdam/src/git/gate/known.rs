//! What git finds wrong in files of the user's own. It looks at each `.gitmodules` and `.gitattributes` that a new tree names, also
//! where the file has been there for years; refused for that, nothing could ever land on top of it. Only what is new is the sandbox's.

use std::collections::BTreeSet;

use tokio_util::sync::CancellationToken;

use super::names::fold;
use super::objects::odd;
use super::quarantine::Quarantine;
use super::{Gate, GateError};
use crate::fsx;
use crate::git::Oid;

/// In the quarantine, and as git finds it from where it is started: a whole path may have characters that end it there.
const LIST: &str = "known";
const FROM_PACKS: &str = "../known";

/// Whether what git said of a pack may be about such a file.
pub(super) fn may_be_old(reason: &str) -> bool {
    ["gitmodules", "gitattributes"]
        .iter()
        .any(|kind| reason.contains(kind))
}

/// A list of such files that the user's commits have, as `index-pack` takes it; `None`: they have none.
pub(super) async fn listed(
    gate: &Gate,
    quarantine: &Quarantine,
    cancel: &CancellationToken,
) -> Result<Option<&'static str>, GateError> {
    let mut blobs = BTreeSet::new();
    for commit in gate.given() {
        let done = quarantine
            .command(&gate.repo)
            .args(["ls-tree", "-r", "-z", "--full-tree", commit.as_str()])
            .limit(gate.limits.time)
            .run(cancel)
            .await?;
        let entries = done.stdout.split(|&byte| byte == 0);
        for entry in entries.filter(|entry| !entry.is_empty()) {
            blobs.extend(of_its_own_kind(entry)?);
        }
    }
    if blobs.is_empty() {
        return Ok(None);
    }
    let lines: String = blobs.iter().map(|blob| format!("{blob}\n")).collect();
    let list = quarantine.pack_dir().with_file_name(LIST);
    fsx::write_private(&list, lines.as_bytes())?;
    Ok(Some(FROM_PACKS))
}

/// The file of `<mode> <type> <id>\t<path>`, where git would look at it.
fn of_its_own_kind(entry: &[u8]) -> Result<Option<Oid>, GateError> {
    let mut halves = entry.splitn(2, |&byte| byte == b'\t');
    let (Some(head), Some(path)) = (halves.next(), halves.next()) else {
        return Err(odd("ls-tree", "a line without a tab"));
    };
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    if ![".gitmodules", ".gitattributes"].contains(&fold(name).as_str()) {
        return Ok(None);
    }
    let id = head.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    let id = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok());
    let id = id.ok_or_else(|| odd("ls-tree", "a line of another form"))?;
    Ok(Some(id))
}
