//! Writes the sandboxes' network logs: one thread for all of them, so that no disk delays a connection.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use jiff::Timestamp;

use crate::gateway::rate::Rate;
use crate::log::{Entry, Event};

/// Entries of all sandboxes that wait for the disk.
const QUEUE: usize = 8192;
/// Entries of one sandbox at once, and for each second after that.
const BURST: f64 = 1000.0;
const EACH_SECOND: f64 = 200.0;
/// The size of a log at which it gets its last line.
const LARGEST: u64 = 64 << 20;

/// Where entries are handed in; none ends the writing.
#[derive(Debug, Clone)]
pub(super) struct Journals(SyncSender<Option<Line>>);

/// The writing thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: SyncSender<Option<Line>>,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Waits until everything that is queued is written.
    pub(super) fn finish(self) {
        // Fails if the thread is gone, which then has nothing to write.
        _ = self.queue.send(None);
        _ = self.thread.join();
    }
}

/// The log of one sandbox.
#[derive(Debug)]
pub(super) struct Journal {
    queue: SyncSender<Option<Line>>,
    log: Arc<Log>,
    rate: Mutex<Rate>,
    /// Entries left out since the last [`Event::Gap`].
    left_out: AtomicU64,
}

#[derive(Debug)]
struct Line {
    log: Arc<Log>,
    entry: Box<Entry>,
}

#[derive(Debug)]
struct Log {
    file: File,
    size: AtomicU64,
    /// The last write stopped in the middle of a line.
    torn: AtomicBool,
    full: AtomicBool,
}

pub(super) fn start() -> io::Result<(Journals, Writer)> {
    let (queue, lines) = sync_channel(QUEUE);
    let thread = std::thread::Builder::new()
        .name("journal".to_owned())
        .spawn(move || write_all(&lines))?;
    let writer = Writer {
        queue: queue.clone(),
        thread,
    };
    Ok((Journals(queue), writer))
}

impl Journals {
    /// The journal of a sandbox, whose log is open for appending.
    pub(super) fn open(&self, log: OwnedFd) -> io::Result<Journal> {
        let file = File::from(log);
        let size = file.metadata()?.len();
        Ok(Journal {
            queue: self.0.clone(),
            log: Arc::new(Log {
                file,
                size: AtomicU64::new(size),
                torn: AtomicBool::new(false),
                full: AtomicBool::new(size >= LARGEST),
            }),
            rate: Mutex::new(Rate::new(BURST, EACH_SECOND, Instant::now())),
            left_out: AtomicU64::new(0),
        })
    }
}

impl Journal {
    /// Queues an entry; never waits. What does not fit is counted instead.
    pub(super) fn write(&self, entry: Entry) {
        if self.log.full.load(Ordering::Relaxed) {
            return;
        }
        let fits = self
            .rate
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(Instant::now());
        if !fits {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.tell_gap();
        if !self.queue(entry) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn tell_gap(&self) {
        let count = self.left_out.swap(0, Ordering::Relaxed);
        if count > 0 && !self.queue(gap(count, "too many entries")) {
            self.left_out.fetch_add(count, Ordering::Relaxed);
        }
    }

    fn queue(&self, entry: Entry) -> bool {
        let line = Line {
            log: Arc::clone(&self.log),
            entry: Box::new(entry),
        };
        self.queue.try_send(Some(line)).is_ok()
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.tell_gap();
    }
}

fn gap(count: u64, reason: &str) -> Entry {
    let mut entry = Entry::new(Timestamp::now(), Event::Gap);
    entry.count = Some(count);
    entry.reason = Some(reason.to_owned());
    entry
}

fn write_all(lines: &Receiver<Option<Line>>) {
    while let Ok(Some(line)) = lines.recv() {
        // A full disk costs entries, nothing else.
        _ = line.log.append(&line.entry);
    }
}

impl Log {
    fn append(&self, entry: &Entry) -> io::Result<()> {
        if self.full.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(256);
        if self.torn.load(Ordering::Relaxed) {
            bytes.push(b'\n');
        }
        serde_json::to_writer(&mut bytes, entry)?;
        bytes.push(b'\n');
        let size = self.size.load(Ordering::Relaxed);
        if size + bytes.len() as u64 > LARGEST {
            bytes.clear();
            serde_json::to_writer(
                &mut bytes,
                &gap(1, "the log is full: nothing more is written"),
            )?;
            bytes.push(b'\n');
            self.full.store(true, Ordering::Relaxed);
        }
        // One write a line, so that readers see whole lines.
        let written = (&self.file).write(&bytes)?;
        self.size.fetch_add(written as u64, Ordering::Relaxed);
        self.torn.store(written < bytes.len(), Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_says_so_once() {
        let mut file = tempfile::tempfile().unwrap();
        let log = Log {
            file: file.try_clone().unwrap(),
            size: AtomicU64::new(LARGEST - 100),
            torn: AtomicBool::new(true),
            full: AtomicBool::new(false),
        };
        for _ in 0..5 {
            let entry = Entry::new(Timestamp::now(), Event::Lookup);
            log.append(&entry).unwrap();
        }
        let mut text = String::new();
        std::io::Seek::rewind(&mut file).unwrap();
        std::io::Read::read_to_string(&mut file, &mut text).unwrap();
        // After half a line a new one is begun.
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].is_empty() && lines[1].contains("lookup"));
        assert!(lines[2].contains("the log is full"));
    }

    #[test]
    fn what_was_left_out_is_counted_and_lines_are_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = File::options().append(true).open(file.path()).unwrap();
        let (journals, writer) = start().unwrap();
        let journal = journals.open(log.into()).unwrap();
        journal.rate.lock().unwrap().left = 2.0;
        let entry = || Entry::new(Timestamp::now(), Event::Lookup);
        for _ in 0..10 {
            journal.write(entry());
        }
        drop((journal, journals));
        writer.finish();
        let text = std::fs::read_to_string(file.path()).unwrap();
        let entries: Vec<Entry> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(entries.len(), 3, "{text}");
        assert_eq!(entries[2].event, Event::Gap);
        // The seconds that the loop took are worth an entry or none.
        assert_eq!(entries[2].count, Some(8));
    }
}
