//! Writes the sandboxes' network logs: one thread for all of them, so that no disk delays a connection.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use jiff::Timestamp;

use crate::gateway::rate::Rate;
use crate::log::{Entry, Event, Verdict};

/// Entries of all sandboxes that wait for the disk. Those that say what was refused or looked up have a half.
const QUEUE: usize = 8192;
/// Entries of one sandbox at once, and for each second after that.
const BURST: f64 = 1000.0;
const EACH_SECOND: f64 = 200.0;
/// The size of a log at which it gets its last line.
const LARGEST: u64 = 64 << 20;
/// What is left of it for what got out, whatever else happened before.
const LAST: u64 = LARGEST / 4;

/// What an entry is about. A program can make any number of refusals, and they must not hide what got out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// A connection that was allowed, its end, a change of the rules.
    Out,
    Other,
}

impl Weight {
    fn of(entry: &Entry) -> Self {
        match (entry.event, entry.verdict) {
            (Event::Connect, Some(Verdict::Allowed))
            | (Event::Close | Event::Rules | Event::Sandbox, _) => Self::Out,
            _ => Self::Other,
        }
    }
}

/// Where entries are handed in; none ends the writing.
#[derive(Debug, Clone)]
pub(super) struct Journals {
    queue: SyncSender<Option<Line>>,
    waiting: Arc<AtomicUsize>,
}

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
    /// Of all sandboxes.
    waiting: Arc<AtomicUsize>,
    log: Arc<Log>,
    /// By [`Weight`].
    out: Mutex<Rate>,
    other: Mutex<Rate>,
    /// Entries left out since the last [`Event::Gap`].
    left_out: AtomicU64,
}

#[derive(Debug)]
struct Line {
    _waiting: Option<Waiting>,
    log: Arc<Log>,
    entry: Box<Entry>,
}

/// An entry in the queue that is not about what got out.
#[derive(Debug)]
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }

    fn is_too_much(&self) -> bool {
        self.0.load(Ordering::Relaxed) > QUEUE / 2
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Log {
    file: File,
    size: AtomicU64,
    /// The last write stopped in the middle of a line.
    torn: AtomicBool,
    full: AtomicBool,
    /// Only what got out is written from now on.
    narrow: AtomicBool,
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
    let waiting = Arc::default();
    Ok((Journals { queue, waiting }, writer))
}

impl Journals {
    /// The journal of a sandbox, whose log is open for appending.
    pub(super) fn open(&self, log: OwnedFd) -> io::Result<Journal> {
        let file = File::from(log);
        let size = file.metadata()?.len();
        Ok(Journal {
            queue: self.queue.clone(),
            waiting: Arc::clone(&self.waiting),
            log: Arc::new(Log {
                file,
                size: AtomicU64::new(size),
                torn: AtomicBool::new(false),
                full: AtomicBool::new(size >= LARGEST),
                narrow: AtomicBool::new(size >= LARGEST - LAST),
            }),
            out: Mutex::new(Rate::new(BURST, EACH_SECOND, Instant::now())),
            other: Mutex::new(Rate::new(BURST, EACH_SECOND, Instant::now())),
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
        let rate = match Weight::of(&entry) {
            Weight::Out => &self.out,
            Weight::Other if self.log.narrow.load(Ordering::Relaxed) => return,
            Weight::Other => &self.other,
        };
        let fits = rate
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
        let other = Weight::of(&entry) == Weight::Other;
        let waiting = other.then(|| Waiting::new(&self.waiting));
        if waiting.as_ref().is_some_and(Waiting::is_too_much) {
            return false;
        }
        let line = Line {
            _waiting: waiting,
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
        let other = Weight::of(entry) == Weight::Other;
        let narrow = self.narrow.load(Ordering::Relaxed);
        // Gaps in what got out are told to the end.
        if self.full.load(Ordering::Relaxed) || (other && narrow && entry.event != Event::Gap) {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(256);
        if self.torn.load(Ordering::Relaxed) {
            bytes.push(b'\n');
        }
        serde_json::to_writer(&mut bytes, entry)?;
        bytes.push(b'\n');
        let after = self.size.load(Ordering::Relaxed) + bytes.len() as u64;
        let last = if after > LARGEST {
            self.full.store(true, Ordering::Relaxed);
            Some("the log is full: nothing more is written")
        } else if other && !narrow && after > LARGEST - LAST {
            self.narrow.store(true, Ordering::Relaxed);
            Some("the log is nearly full: only connections that are allowed and rules are written")
        } else {
            None
        };
        if let Some(reason) = last {
            bytes.clear();
            serde_json::to_writer(&mut bytes, &gap(1, reason))?;
            bytes.push(b'\n');
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
            narrow: AtomicBool::new(false),
        };
        for _ in 0..5 {
            let entry = Entry::new(Timestamp::now(), Event::Close);
            log.append(&entry).unwrap();
        }
        let mut text = String::new();
        std::io::Seek::rewind(&mut file).unwrap();
        std::io::Read::read_to_string(&mut file, &mut text).unwrap();
        // After half a line a new one is begun.
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].is_empty() && lines[1].contains("close"));
        assert!(lines[2].contains("the log is full"));
    }

    // Attack: a flood of refusals in front of the connection that should not be seen.
    #[test]
    fn what_got_out_is_told_however_much_was_refused_before() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = File::options().append(true).open(file.path()).unwrap();
        let (journals, writer) = start().unwrap();
        let journal = journals.open(log.into()).unwrap();
        let entry = |event, verdict| {
            let mut entry = Entry::new(Timestamp::now(), event);
            entry.verdict = Some(verdict);
            entry
        };
        let told = |size| {
            journal.log.size.store(size, Ordering::Relaxed);
            for _ in 0..5000 {
                journal.write(entry(Event::Connect, Verdict::Refused));
                journal.write(entry(Event::Lookup, Verdict::Allowed));
                journal.write(entry(Event::Packet, Verdict::Refused));
            }
            journal.write(entry(Event::Connect, Verdict::Allowed));
            journal.write(entry(Event::Close, Verdict::Allowed));
            journal.write(entry(Event::Rules, Verdict::Allowed));
        };
        told(0);
        told(LARGEST - LAST);
        drop((journal, journals));
        writer.finish();
        let text = std::fs::read_to_string(file.path()).unwrap();
        let entries = text
            .lines()
            .map(|line| serde_json::from_str::<Entry>(line).unwrap());
        let entries: Vec<_> = entries.collect();
        let out = entries
            .iter()
            .filter(|entry| Weight::of(entry) == Weight::Out);
        let events: Vec<_> = out.map(|entry| entry.event).collect();
        let three = [Event::Connect, Event::Close, Event::Rules];
        assert_eq!(events, [three, three].concat());
        assert!(text.contains("nearly full"), "{}", text.len());
    }

    #[test]
    fn what_was_left_out_is_counted_and_lines_are_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = File::options().append(true).open(file.path()).unwrap();
        let (journals, writer) = start().unwrap();
        let journal = journals.open(log.into()).unwrap();
        journal.other.lock().unwrap().left = 2.0;
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
