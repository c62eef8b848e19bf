//! The file of a run log, bounded: what an agent prints is its own choice, and a disk is not. The
//! beginning and the end of a run stay, and a line says how much is left out between them.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::options::LogLimits;
use crate::fsx::{Context, FileError};
use crate::git::{discovery, own_files};
use crate::registry::{Record, Strategy, belongs};

/// Where a line end is looked for, so that no line is cut: longer lines are.
const LINE: u64 = 64 << 10;

/// `<branch>[-<name>].log`, without separators and in lower case.
pub(super) fn file_name(record: &Record, name: Option<&str>) -> String {
    let mut text = match &record.strategy {
        // A temporary branch is one of many: its target says more.
        Strategy::MergeToHead { target } => format!("{target}-{}", record.name),
        _ => record.branch_text(),
    };
    if let (Some(name), Strategy::Head | Strategy::Branch) = (name, &record.strategy) {
        text.push('-');
        text.push_str(name);
    }
    let safe: String = text
        .to_lowercase()
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '-'
            }
        })
        .take(120)
        .collect();
    format!("{}.log", safe.trim_start_matches('.'))
}

/// The log that the run of that sandbox wrote, unless it was told another place. Runs without a name share those of
/// their branch.
pub fn run_log(record: &Record) -> Option<PathBuf> {
    let top = belongs::checkout(record);
    let top = top.as_ref().unwrap_or(&record.repository);
    let shared = record.common_dir.clone().or_else(|| discovery::shared(top));
    let shared = shared.filter(|shared| shared.ends_with(".git"));
    let main = shared.as_deref().and_then(Path::parent);
    // Earlier versions kept those of a linked checkout in that one.
    let places = main.into_iter().chain([top.as_path()]);
    let names = [
        file_name(record, Some(record.name.as_str())),
        file_name(record, None),
    ];
    let mut all = places.flat_map(|place| {
        let logs = place.join(own_files::DIRECTORY).join("logs");
        names.clone().map(|name| logs.join(name))
    });
    all.find(|path| path.symlink_metadata().is_ok_and(|found| found.is_file()))
}

/// A log that is open for appending.
#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    limits: LogLimits,
    /// Only a regular file can be cut.
    is_file: bool,
    /// Where this run begins in the file.
    start: u64,
    /// Bytes of this run in the file.
    length: u64,
    gap: Option<Gap>,
}

/// Where the file says that something is left out.
#[derive(Debug, Clone, Copy)]
struct Gap {
    /// From the run's start.
    at: u64,
    /// Length of the line that says so.
    line: u64,
    left_out: u64,
}

impl LogFile {
    pub(super) fn open(path: &Path, limits: LogLimits) -> Result<Self, FileError> {
        let file = std::fs::OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .context("open the run log", path)?;
        Self::of(file, path, limits)
    }

    /// One that is open already, for reading too.
    pub(super) fn of(file: File, path: &Path, limits: LogLimits) -> Result<Self, FileError> {
        let found = file.metadata().context("look at", path)?;
        Ok(Self {
            is_file: found.is_file(),
            start: found.len(),
            file,
            limits,
            length: 0,
            gap: None,
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        if self.is_file && self.length > self.limits.largest() {
            self.cut()?;
        }
        Ok(())
    }

    /// Leaves out the middle. It is done rarely, and then much of it at once.
    fn cut(&mut self) -> io::Result<()> {
        let end = self.file.metadata()?.len();
        if end < self.start + self.length {
            // Another run in the same file has cut it: what is ours begins anew.
            self.start = end;
            self.length = 0;
            self.gap = None;
            return Ok(());
        }
        let gap = match self.gap {
            Some(gap) => gap,
            None => Gap {
                at: self.last_line_end(self.start + self.limits.head)? - self.start,
                line: 0,
                left_out: 0,
            },
        };
        let mut tail = vec![0; usize::try_from(self.limits.tail).unwrap_or(usize::MAX)];
        let from = end - self.limits.tail;
        self.file.read_exact_at(&mut tail, from)?;
        let first = tail.iter().position(|&byte| byte == b'\n');
        let skipped = first
            .filter(|&at| (at as u64) < LINE)
            .map_or(0, |at| at + 1);
        let left_out = gap.left_out + (from + skipped as u64) - (self.start + gap.at) - gap.line;
        let line = format!("--- {left_out} bytes are left out here ---\n");
        self.file.set_len(self.start + gap.at)?;
        let kept = [line.as_bytes(), &tail[skipped..]].concat();
        self.file.write_all(&kept)?;
        self.length = gap.at + kept.len() as u64;
        self.gap = Some(Gap {
            line: line.len() as u64,
            left_out,
            ..gap
        });
        Ok(())
    }

    /// The last line end at or before `at`, or `at` itself in an endless line.
    fn last_line_end(&self, at: u64) -> io::Result<u64> {
        let from = at.saturating_sub(LINE).max(self.start);
        let mut bytes = vec![0; usize::try_from(at - from).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, from)?;
        let end = bytes.iter().rposition(|&byte| byte == b'\n');
        Ok(end.map_or(at, |end| from + end as u64 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LogLimits = LogLimits {
        head: 1000,
        tail: 1000,
        file: u64::MAX,
    };

    fn write(lines: impl Iterator<Item = String>, before: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        crate::fsx::write_private(&path, before.as_bytes()).unwrap();
        let mut log = LogFile::open(&path, LIMITS).unwrap();
        for line in lines {
            log.write(line.as_bytes()).unwrap();
            let size = path.metadata().unwrap().len();
            assert!(size <= before.len() as u64 + LIMITS.largest() + 1000);
        }
        std::fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn beginning_and_end_stay_and_the_gap_is_told() {
        let text = write((0..100_000).map(|n| format!("line {n}\n")), "earlier\n");
        assert!(text.starts_with("earlier\nline 0\nline 1\n"), "{text}");
        assert!(text.ends_with("line 99998\nline 99999\n"), "{text}");
        let (head, rest) = text.split_once("--- ").unwrap();
        let (count, tail) = rest.split_once(" bytes are left out here ---\n").unwrap();
        assert!(head.ends_with('\n') && tail.starts_with("line "), "{text}");
        let all: usize = (0..100_000).map(|n| format!("line {n}\n").len()).sum();
        let kept = head.len() - "earlier\n".len() + tail.len();
        assert_eq!(count.parse::<usize>().unwrap() + kept, all);
    }

    #[test]
    fn what_fits_is_whole_and_a_line_without_end_is_cut() {
        let text = write((0..10).map(|n| format!("line {n}\n")), "");
        assert_eq!(text.lines().count(), 10);
        let text = write((0..1000).map(|_| "x".repeat(100)), "");
        assert!(text.contains("bytes are left out here"), "{text}");
    }
}
