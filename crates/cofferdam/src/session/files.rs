//! Source in for sandboxes without git. A private copy gets the commit's files, and work comes home from it as from any copy. An
//! isolated one gets them too, then what `--copy` named, and there is a note of both, by which what changed is found when work is
//! collected.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use cofferdam_guest::protocol::files::{self, Known, LONGEST_RULES, is_plain};
use tokio_util::sync::CancellationToken;

use super::error::{RunErrorKind, step};
use super::pipes::{pipe_ends, spool};
use crate::fsx::{self, Context, FileError};
use crate::git::private_clone::PrivateClone;
use crate::git::{self, Repository};
use crate::registry::Owned;
use crate::sandbox::files::send_directory;
use crate::sandbox::{IsolatedSandbox, Sandbox, SandboxError};

/// In the state directory: what the sandbox is told when it is asked what changed.
pub(super) const KNOWN: &str = "known";
/// What a sandbox may say about what was put into it.
const MOST_KNOWN: u64 = 1 << 30;

/// Puts the base commit's files to where they would have been mounted, and what lies in `workspace` beside them.
pub(super) async fn send(
    repo: &Repository,
    owned: &Owned,
    workspace: &Path,
    workdir: &Path,
    sandbox: &dyn IsolatedSandbox,
    cancel: &CancellationToken,
) -> Result<(), RunErrorKind> {
    let state = owned.directory();
    let tracked = spool_for(state, "tree")?;
    let (hidden, mut header) = send_commit(repo, owned, workdir, sandbox, &tracked, cancel).await?;
    header.extend(rules_of_the_user(state)?);
    header.extend(hidden.into_iter().map(|path| Known::Closed {
        path: path.into_os_string().into_encoded_bytes(),
    }));

    let copied = spool_for(state, "copies")?;
    let (entries, into) = pipe_ends()?;
    let (from, known) = pipe_ends()?;
    // The directory for a git directory is there for other sandboxes.
    let wanted = |path: &Path| path != Path::new(".git");
    let (sent, unpacked, spooled) = tokio::join!(
        send_directory(workspace, &wanted, into),
        sandbox.unpack(workdir, false, entries, known),
        spool(from, &copied, MOST_KNOWN),
    );
    unpacked?;
    sent.context("copy", workspace)?;
    check(spooled?)?;
    note(&state.join(KNOWN), &header, &[&tracked, &copied]).map_err(step("note of its files"))?;
    for part in [tracked, copied] {
        fsx::remove_file_if_exists(&part)?;
    }
    Ok(())
}

/// Puts the base commit's files into a private copy. Its clone has the index of them.
pub(super) async fn send_into_copy(
    repo: &Repository,
    owned: &Owned,
    workdir: &Path,
    sandbox: &dyn Sandbox,
    cancel: &CancellationToken,
) -> Result<(), RunErrorKind> {
    let told = spool_for(owned.directory(), "tree")?;
    send_commit(repo, owned, workdir, sandbox, &told, cancel).await?;
    Ok(fsx::remove_file_if_exists(&told)?)
}

/// Puts the base commit's files where they would have been mounted, but for what is hidden, and what the sandbox says of them into `told`.
/// Returns what is hidden, and what is to be known of the rest.
async fn send_commit(
    repo: &Repository,
    owned: &Owned,
    workdir: &Path,
    sandbox: &dyn Sandbox,
    told: &Path,
    cancel: &CancellationToken,
) -> Result<(Vec<PathBuf>, Vec<Known>), RunErrorKind> {
    let hidden = owned.record.hidden.iter().map(|path| path.0.clone());
    let hidden: Vec<PathBuf> = hidden.collect();
    let (entries, into) = pipe_ends()?;
    let (from, known) = pipe_ends()?;
    let (sent, unpacked, spooled) = tokio::join!(
        git::files::send(repo, &owned.record.base, &hidden, into, cancel),
        sandbox.unpack(workdir, true, entries, known),
        spool(from, told, MOST_KNOWN),
    );
    // Who reads has the better reason to stop.
    unpacked?;
    let known = sent?.known;
    check(spooled?)?;
    Ok((hidden, known))
}

fn spool_for(state: &Path, what: &str) -> Result<PathBuf, FileError> {
    let path = state.join(format!("{KNOWN}-{what}"));
    fsx::remove_file_if_exists(&path)?;
    Ok(path)
}

fn check(is_whole: bool) -> Result<(), SandboxError> {
    if is_whole {
        return Ok(());
    }
    Err(SandboxError::Files {
        action: "put files into",
        reason: format!("it says more than {MOST_KNOWN} bytes about them"),
    })
}

/// What the repository leaves out and is in no commit, as a private clone has it. This one no sandbox sees.
fn rules_of_the_user(state: &Path) -> Result<Option<Known>, FileError> {
    let path = PrivateClone::at(state).exclusions();
    match fsx::read_bounded(&path, LONGEST_RULES as u64) {
        Ok(text) => Ok(Some(Known::Rules {
            directory: None,
            text,
        })),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// One note of them all. What the sandbox said is read once, so that it is what it should be.
fn note(to: &Path, header: &[Known], parts: &[&Path]) -> Result<(), std::io::Error> {
    fsx::write_private(to, b"").map_err(|error| error.source)?;
    let file = fs::OpenOptions::new().append(true).open(to)?;
    let mut to = BufWriter::new(file);
    for known in header {
        files::write(&mut to, known)?;
    }
    for part in parts {
        let mut from = BufReader::new(File::open(part)?);
        loop {
            match files::read(&mut from)? {
                known @ Known::Path { .. } if has_plain_path(&known) => {
                    files::write(&mut to, &known)?;
                }
                Known::End => break,
                _ => return Err(std::io::ErrorKind::InvalidData.into()),
            }
        }
    }
    files::write(&mut to, &Known::End)?;
    to.flush()
}

fn has_plain_path(known: &Known) -> bool {
    matches!(known, Known::Path { path, .. } if is_plain(path))
}
