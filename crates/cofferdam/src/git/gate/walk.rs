//! The one walk over every new commit: who its parents are and what it changes against each of
//! them. Read as a stream: neither a long subject nor many paths fill the memory.

use std::collections::{BTreeMap, HashSet};

use rustix::pipe::PipeFlags;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use super::objects;
use super::quarantine::Quarantine;
use super::{Gate, GateError, Limits, Refusal};
use crate::fsx::{Context, FileError};
use crate::git::CommitLine;
use crate::git::{GitError, Oid};
use crate::process::Sink;

/// More than this of a commit's subject is nobody's subject.
const SUBJECT: usize = 400;
/// A header is `<id> <parents>\n<subject>`; so many parents fit into it, more are refused.
const HEADER: usize = 64 << 10;
const PARENTS: usize = 1000;

/// What one side of a change is: mode and object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub mode: u32,
    pub id: Oid,
}

/// Everything new between the base and the tip.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Oldest first.
    pub commits: Vec<CommitLine>,
    /// Whether a new commit has the base as a parent. Then the tip descends from the base: the
    /// commits listed are exactly those the tip has and the base has not.
    pub descends: bool,
    /// For each changed path every state it has in some commit (`None`: it is gone).
    pub changes: BTreeMap<Vec<u8>, Vec<Option<Entry>>>,
}

pub(super) async fn walk(
    gate: &Gate,
    quarantine: &Quarantine,
    tip: &Oid,
    cancel: &CancellationToken,
) -> Result<History, GateError> {
    let objects = gate.repo.objects();
    let (read_end, write_end) =
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC).context("make a pipe for", &objects)?;
    let running = quarantine
        .command(&gate.repo)
        // Every one of these options undoes a setting that would hide something: the repository's
        // configuration decides nothing here.
        .config("log.showRoot=true")
        .args([
            "log",
            "--raw",
            "-z",
            "--diff-merges=separate",
            "-r",
            "--root",
            "--no-renames",
        ])
        .args([
            "--ignore-submodules=none",
            "--no-ext-diff",
            "--no-textconv",
            "--no-show-signature",
        ])
        .args([
            "--no-notes",
            "--no-mailmap",
            "--no-decorate",
            "--no-color",
            "--encoding=UTF-8",
        ])
        .args([
            "--no-abbrev",
            "--no-relative",
            "-O/dev/null",
            "--format=%H %P%n%s",
        ])
        .arg(tip.as_str())
        .args(gate.given().map(|given| format!("^{given}")))
        .arg("--")
        .output(Sink::Fd(write_end))
        .limit(gate.limits.time)
        .answers(&[128])
        .start()?;
    running.limit_memory(gate.limits.memory);
    let parse = async {
        tokio::select! {
            () = cancel.cancelled() => Err(GateError::Cancelled),
            done = tokio::time::timeout(gate.limits.time, read(gate, read_end)) => {
                done.unwrap_or(Err(GateError::TimedOut(gate.limits.time)))
            }
        }
    };
    // When the reader stops early its end of the pipe is closed and git ends by SIGPIPE.
    let (parsed, done) = tokio::join!(parse, running.finish(cancel));
    let mut history = parsed?;
    let done = done?;
    if !done.exit.success() {
        let stderr = crate::text::printable(&String::from_utf8_lossy(&done.stderr));
        return Err(GitError::Failed {
            command: "log".into(),
            exit: done.exit,
            stderr,
        }
        .into());
    }
    history.commits.reverse();
    Ok(history)
}

async fn read(gate: &Gate, from: std::os::fd::OwnedFd) -> Result<History, GateError> {
    let objects = gate.repo.objects();
    let failed = |source| GateError::File(FileError::new("read the walk over", &objects, source));
    let mut from = pipe::Receiver::from_owned_fd(from).map_err(failed)?;
    let mut parser = Parser::new(&gate.base, &gate.limits);
    let mut chunk = vec![0u8; 64 << 10];
    loop {
        let got = from.read(&mut chunk).await.map_err(failed)?;
        if got == 0 {
            break;
        }
        parser.feed(&chunk[..got])?;
    }
    parser.end()
}

#[derive(Debug)]
enum Expect {
    HeaderOrChange,
    Path(Option<Entry>),
}

/// Splits the stream at its zero bytes; git's own output has them nowhere else.
#[derive(Debug)]
struct Parser<'a> {
    base: &'a Oid,
    limits: &'a Limits,
    token: Vec<u8>,
    expect: Expect,
    seen: HashSet<Oid>,
    path_bytes: u64,
    states: u64,
    history: History,
}

impl<'a> Parser<'a> {
    fn new(base: &'a Oid, limits: &'a Limits) -> Self {
        Self {
            base,
            limits,
            token: Vec::new(),
            expect: Expect::HeaderOrChange,
            seen: HashSet::new(),
            path_bytes: 0,
            states: 0,
            history: History::default(),
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), GateError> {
        for (number, part) in bytes.split(|&b| b == 0).enumerate() {
            if number > 0 {
                let token = std::mem::take(&mut self.token);
                self.token(&token)?;
            }
            let room = HEADER.saturating_sub(self.token.len());
            self.token.extend_from_slice(&part[..part.len().min(room)]);
        }
        Ok(())
    }

    fn end(self) -> Result<History, GateError> {
        match self.expect {
            Expect::HeaderOrChange if self.token.is_empty() => Ok(self.history),
            _ => Err(odd("it is cut off")),
        }
    }

    fn token(&mut self, token: &[u8]) -> Result<(), GateError> {
        match std::mem::replace(&mut self.expect, Expect::HeaderOrChange) {
            Expect::Path(entry) => self.change(token, entry),
            Expect::HeaderOrChange => {
                let token = token.strip_prefix(b"\n").unwrap_or(token);
                match token.first() {
                    None => Ok(()),
                    Some(b':') => {
                        self.expect = Expect::Path(parse_raw(token)?);
                        Ok(())
                    }
                    Some(_) => self.header(token),
                }
            }
        }
    }

    fn header(&mut self, token: &[u8]) -> Result<(), GateError> {
        let end = token
            .iter()
            .position(|&b| b == b'\n')
            .unwrap_or(token.len());
        let mut ids = token[..end]
            .split(|&b| b == b' ')
            .filter(|part| !part.is_empty());
        let id = ids
            .next()
            .and_then(oid)
            .ok_or_else(|| odd("a commit without an id"))?;
        if ids.clone().count() > PARENTS {
            let (what, limit) = ("parents of one commit", PARENTS as u64);
            return Err(GateError::refused(Refusal::TooMuch { what, limit }));
        }
        for parent in ids {
            let parent = oid(parent).ok_or_else(|| odd("a parent that is no id"))?;
            self.history.descends |= parent == *self.base;
        }
        // A merge is listed once for each parent.
        if !self.seen.insert(id.clone()) {
            return Ok(());
        }
        if self.history.commits.len() as u64 >= self.limits.commits {
            let (what, limit) = ("new commits", self.limits.commits);
            return Err(GateError::refused(Refusal::TooMuch { what, limit }));
        }
        let subject = token.get(end + 1..).unwrap_or_default();
        let subject: String = String::from_utf8_lossy(subject)
            .chars()
            .take(SUBJECT)
            .collect();
        self.history.commits.push(CommitLine { id, subject });
        Ok(())
    }

    fn change(&mut self, path: &[u8], entry: Option<Entry>) -> Result<(), GateError> {
        let states = if let Some(states) = self.history.changes.get_mut(path) {
            states
        } else {
            self.path_bytes += path.len() as u64;
            if self.history.changes.len() as u64 >= self.limits.paths
                || self.path_bytes > self.limits.paths.saturating_mul(200)
            {
                let (what, limit) = ("changed paths", self.limits.paths);
                return Err(GateError::refused(Refusal::TooMuch { what, limit }));
            }
            self.history.changes.entry(path.to_owned()).or_default()
        };
        // A merge lists the same change against each parent.
        if states.last() != Some(&entry) {
            states.push(entry);
            self.states += 1;
        }
        if self.states > self.limits.changes {
            let (what, limit) = ("changes of files", self.limits.changes);
            return Err(GateError::refused(Refusal::TooMuch { what, limit }));
        }
        Ok(())
    }
}

/// `:<old mode> <new mode> <old id> <new id> <letter>` to the new side.
fn parse_raw(token: &[u8]) -> Result<Option<Entry>, GateError> {
    let fields: Vec<&[u8]> = token.split(|&b| b == b' ').collect();
    let [_, mode, _, id, _letter] = fields[..] else {
        return Err(odd("a change of another form"));
    };
    let mode = std::str::from_utf8(mode)
        .ok()
        .and_then(|text| u32::from_str_radix(text, 8).ok());
    let (Some(mode), Some(id)) = (mode, oid(id)) else {
        return Err(odd("a change of another form"));
    };
    Ok((mode != 0).then_some(Entry { mode, id }))
}

fn oid(bytes: &[u8]) -> Option<Oid> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

fn odd(what: &str) -> GateError {
    objects::odd("log", what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What git lists of a pack's commits holds names and subjects of a sandbox's choosing: no bytes of it do more
    /// than be refused, and no bound is passed.
    #[test]
    fn fuzz_commits_of_a_pack() {
        let limits = Limits {
            commits: 3,
            paths: 4,
            changes: 6,
            ..Limits::default()
        };
        let id = |digit: &str| digit.repeat(40);
        let base: Oid = id("a").parse().unwrap();
        let change = |letter: &str, path: &str| {
            let (old, new) = (id("0"), id("c"));
            format!(":000000 100644 {old} {new} {letter}\0{path}\0")
        };
        let commit = |digit: &str, parents: &str| format!("{} {parents}\nsubject\0", id(digit));
        let whole = |text: String| text.into_bytes();
        let two = commit("d", &id("a")) + &change("A", "src/a") + "\0" + &commit("e", &id("d"));
        let seeds = [
            whole(commit("d", &id("a")) + &change("A", "file")),
            whole(two + &change("M", "src/a") + &change("A", "src/b")),
            whole(commit("e", &format!("{} {}", id("a"), id("d")))),
        ];
        let read = |bytes: &[u8], most: usize| {
            let mut parser = Parser::new(&base, &limits);
            bytes.chunks(most).try_for_each(|part| parser.feed(part))?;
            parser.end()
        };
        for seed in &seeds {
            assert!(read(seed, 7).is_ok_and(|history| history.descends));
        }
        cofferdam_lab::fuzz::mutate("commits of a pack", &seeds, |bytes| {
            let (all, parts) = (read(bytes, usize::MAX), read(bytes, 5));
            assert_eq!(all.is_ok(), parts.is_ok(), "by the size of its parts");
            if let (Ok(all), Ok(parts)) = (all, parts) {
                assert!(all.commits.len() <= 3 && all.changes.len() <= 4);
                assert_eq!(all.changes, parts.changes);
            }
        });
    }
}
