//! Reads a pack once: into the state directory, so that refused work is not lost, and into
//! `index-pack`, which checks it in the quarantine.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::pipe::PipeFlags;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use super::quarantine::{Quarantine, keep_text};
use super::{Gate, GateError, Limits, Refusal, known, whose};
use crate::fsx::{Context, FileError};
use crate::git::GitError;
use crate::process::Input;

/// Fsck messages that git only notes but that no commit made by git has.
const STRICT: &str = "--strict=badFilemode=error";

/// What there is too much of, in a refusal.
pub(super) const PACK_BYTES: &str = "bytes in the pack";

/// Feeds `pack` to `index-pack` and to the file `spool`. Returns the name of the pack.
pub(super) async fn index(
    gate: &Gate,
    quarantine: &Quarantine,
    pack: Input,
    spool: &Path,
    cancel: &CancellationToken,
) -> Result<String, GateError> {
    match indexed(gate, quarantine, pack, Some(spool), STRICT, cancel).await {
        Err(GateError::Refused {
            why: Refusal::Pack { reason },
            pack,
        }) if known::may_be_old(&reason) => {
            // Git looks at such a file as soon as a new tree names it, whoever made it.
            let Some(old) = known::listed(gate, quarantine, cancel).await? else {
                let why = Refusal::Pack { reason };
                return Err(GateError::Refused { why, pack });
            };
            let again = File::open(spool).context("read", spool)?;
            let strict = format!("{STRICT},skiplist={old}");
            let again = Input::Fd(again.into());
            indexed(gate, quarantine, again, None, &strict, cancel).await
        }
        done => done,
    }
}

/// `spool`: where the pack is kept as it comes.
async fn indexed(
    gate: &Gate,
    quarantine: &Quarantine,
    pack: Input,
    spool: Option<&Path>,
    strict: &str,
    cancel: &CancellationToken,
) -> Result<String, GateError> {
    let limits = &gate.limits;
    let path = quarantine.pack_dir();
    let path = spool.unwrap_or(&path);
    let (read_end, write_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .context("make a pipe for", path)
        .map_err(GateError::File)?;
    let running = quarantine
        .command(&gate.repo)
        .work_tree(&quarantine.pack_dir())
        .config("pack.threads=2")
        .config("core.packedGitWindowSize=64m")
        .config("core.packedGitLimit=1g")
        .config("core.deltaBaseCacheLimit=96m")
        .args(["index-pack", strict, "--fix-thin", "--stdin"])
        .arg(format!("--keep={}", keep_text(gate.id)))
        .arg(format!("--max-input-size={}", limits.pack_bytes))
        .input(Input::Fd(read_end))
        .limit(limits.time)
        .answers(&[1, 128])
        .start()?;
    running.limit_memory(limits.memory);
    let created = |spool: &Path| {
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(spool)
            .context("create", spool)
    };
    let spooled = spool.map(created).transpose()?;
    let copy = tokio::time::timeout(limits.time, copy(pack, spooled, write_end, limits, path));
    let copy = async {
        tokio::select! {
            () = cancel.cancelled() => Err(GateError::Cancelled),
            done = copy => done.unwrap_or(Err(GateError::TimedOut(limits.time))),
        }
    };
    let (copied, done) = tokio::join!(copy, running.finish(cancel));
    copied?;
    let done = done.map_err(|error| whose::refuse_if_theirs(error.into()))?;
    if !done.exit.success() {
        let text = String::from_utf8_lossy(&done.stderr);
        if whose::lacks_something(&text) {
            return Err(GateError::Git(GitError::Failed {
                command: "index-pack".into(),
                exit: done.exit,
                stderr: crate::text::printable_line(text.trim_end()),
            }));
        }
        return Err(GateError::refused(Refusal::Pack {
            reason: reason(&text),
        }));
    }
    let text = String::from_utf8_lossy(&done.stdout);
    // Before this line it may name `.gitmodules` blobs that are not in the pack: such an entry is
    // refused by the rules unless it is the base's own.
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("keep\t").or(line.strip_prefix("pack\t")));
    match name {
        Some(name) if name.parse::<crate::git::Oid>().is_ok() => Ok(name.to_owned()),
        _ => Err(GateError::Git(GitError::Output {
            command: "index-pack".into(),
            what: "it does not name the pack".into(),
        })),
    }
}

/// What git said, in a few lines a person can use.
fn reason(stderr: &str) -> String {
    let said: Vec<&str> = stderr
        .lines()
        .map(|line| {
            line.trim_start_matches("fatal: ")
                .trim_start_matches("error: ")
                .trim()
        })
        .filter(|line| !line.is_empty())
        .collect();
    let known = [
        (
            "hasDotgit",
            "a directory in it has an entry that is `.git` in some form",
        ),
        ("hasDotdot", "a directory in it has an entry `..`"),
        ("hasDot:", "a directory in it has an entry `.`"),
        ("emptyName", "a directory in it has an entry without a name"),
        (
            "fullPathname",
            "a directory in it has an entry with a `/` in its name",
        ),
        (
            "duplicateEntries",
            "a directory in it has two entries of one name",
        ),
        (
            "badFilemode",
            "a directory in it has an entry with a mode that git does not know",
        ),
        ("gitmodules", "it has a hostile or broken `.gitmodules`"),
        (
            "did not receive expected object",
            "it refers to an object that the sandbox was never given",
        ),
        (
            "unresolved delta",
            "it is incomplete: a base object is missing",
        ),
        ("early EOF", "it is cut off"),
        ("exceeds maximum allowed size", "it is larger than allowed"),
    ];
    let text = said.join("; ");
    let hint = known
        .iter()
        .find(|(word, _)| text.contains(word))
        .map(|(_, hint)| *hint);
    let text: String = crate::text::printable(&text.replace(['\n', '\t'], " "))
        .chars()
        .take(500)
        .collect();
    match hint {
        Some(hint) => format!("{hint} ({text})"),
        None if text.is_empty() => "git gave no reason".to_owned(),
        None => text,
    }
}

/// Copies the pack to both, where it is to be kept. A reader that went away ends nothing: the rest is still kept.
async fn copy(
    pack: Input,
    mut spool: Option<File>,
    checker: OwnedFd,
    limits: &Limits,
    path: &Path,
) -> Result<(), GateError> {
    let failed = |action: &'static str| {
        move |source: std::io::Error| GateError::File(FileError::new(action, path, source))
    };
    let mut checker =
        Some(pipe::Sender::from_owned_fd(checker).map_err(failed("make a pipe for"))?);
    let mut source: Box<dyn AsyncRead + Send + Unpin> = match pack {
        Input::Nothing => Box::new(tokio::io::empty()),
        Input::Bytes(bytes) => Box::new(std::io::Cursor::new(bytes)),
        Input::Fd(fd) => reader(fd).map_err(failed("read the pack for"))?,
    };
    let mut chunk = vec![0u8; 64 << 10];
    let mut total = 0u64;
    loop {
        let got = source
            .read(&mut chunk)
            .await
            .map_err(failed("read the pack for"))?;
        if got == 0 {
            return Ok(());
        }
        total += got as u64;
        if total > limits.pack_bytes {
            let (what, limit) = (PACK_BYTES, limits.pack_bytes);
            return Err(GateError::refused(Refusal::TooMuch { what, limit }));
        }
        if let Some(spool) = &mut spool {
            spool.write_all(&chunk[..got]).map_err(failed("write"))?;
        }
        if let Some(to) = &mut checker
            && to.write_all(&chunk[..got]).await.is_err()
        {
            checker = None;
        }
    }
}

fn reader(fd: OwnedFd) -> std::io::Result<Box<dyn AsyncRead + Send + Unpin>> {
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode);
    if kind == rustix::fs::FileType::Fifo {
        return Ok(Box::new(pipe::Receiver::from_owned_fd(fd)?));
    }
    Ok(Box::new(tokio::fs::File::from_std(File::from(fd))))
}
