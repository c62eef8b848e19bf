//! What the wall refuses, told while the run goes on: each destination once, as the network log gets it.

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use super::emitter::Emitter;
use super::event::{Event, Notice};
use crate::home::Home;
use crate::names::SandboxId;
use crate::wall::log::{self, Reader};

/// So many destinations are told one by one: a program can ask for any number.
const MOST: usize = 20;
/// How often the log is looked at.
const PAUSE: Duration = Duration::from_millis(200);

/// The refusals of one run so far.
#[derive(Debug)]
pub(super) struct Refusals {
    log: PathBuf,
    reader: Option<Reader>,
    told: HashSet<String>,
    more: bool,
}

impl Refusals {
    pub(super) fn of(home: &Home, sandbox: SandboxId) -> Self {
        Self {
            log: home.network_log(sandbox),
            reader: None,
            told: HashSet::new(),
            more: false,
        }
    }

    /// What was refused until now is told to nobody.
    pub(super) fn since_now(home: &Home, sandbox: SandboxId) -> Self {
        let mut refusals = Self::of(home, sandbox);
        refusals.reader = Reader::at_end(&refusals.log).ok();
        refusals
    }

    /// Tells what comes, for as long as it is polled.
    pub(super) async fn follow(&mut self, events: &Emitter) -> Infallible {
        loop {
            self.tell(events);
            if self.more {
                return std::future::pending().await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Tells what came since the last call. A log that is not there (no wall) or cannot be read tells nothing: the
    /// summary of the run has what was refused.
    pub(super) fn tell(&mut self, events: &Emitter) {
        if self.more {
            return;
        }
        if self.reader.is_none() {
            self.reader = Reader::open(&self.log).ok();
        }
        let Some(reader) = &mut self.reader else {
            return;
        };
        let (told, more) = (&mut self.told, &mut self.more);
        // An error is the end of the news.
        let _ = reader.read(|line| {
            let Some(refused) = log::refused(line).filter(|_| !*more) else {
                return;
            };
            if told.contains(&refused.what) {
                return;
            }
            if told.len() == MOST {
                *more = true;
                events.notice(Notice::MoreRefused { told: MOST });
                return;
            }
            told.insert(refused.what.clone());
            events.emit(&Event::Refused {
                what: refused.what,
                reason: refused.reason,
                opens: refused.opens,
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    use cofferdam_wall::log::{Entry, Event as EntryEvent, Verdict};
    use jiff::Timestamp;

    use super::*;
    use crate::fsx;
    use crate::session::event::EventSink;
    use crate::session::options::{LogLimits, RunLog};

    fn refused(name: &str, port: Option<u16>) -> String {
        let mut entry = Entry::new(Timestamp::UNIX_EPOCH, EntryEvent::Connect);
        entry.verdict = Some(Verdict::Refused);
        entry.name = Some(name.to_owned());
        entry.port = port;
        entry.reason = Some(format!("no rule names {name}"));
        serde_json::to_string(&entry).unwrap() + "\n"
    }

    #[test]
    fn each_destination_is_told_once_and_not_without_end() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path().join("home"));
        let id = SandboxId::random().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = EventSink::new({
            let seen = Arc::clone(&seen);
            move |event| {
                let text = match event {
                    Event::Refused { what, .. } => what.clone(),
                    Event::Notice(Notice::MoreRefused { told }) => format!("more than {told}"),
                    other => format!("{other:?}"),
                };
                seen.lock().unwrap().push(text);
            }
        });
        let log = (&RunLog::None, LogLimits::default());
        let events = Emitter::open(sink, log, Path::new("/nowhere"), "log").unwrap();
        events.announce(Vec::new);
        let mut refusals = Refusals::of(&home, id);
        let mut news = || {
            refusals.tell(&events);
            std::mem::take(&mut *seen.lock().unwrap())
        };
        // Before there is a wall, and with one of which nothing has come.
        assert!(news().is_empty());
        let mut text = String::new();
        let mut write = |more: &str| {
            text.push_str(more);
            fsx::private_dir(&home.network_logs()).unwrap();
            let path = home.network_log(id);
            let file = std::fs::File::options()
                .append(true)
                .create(true)
                .open(path);
            std::io::Write::write_all(&mut file.unwrap(), more.as_bytes()).unwrap();
        };
        write(&refused("a.test", None));
        assert_eq!(news(), ["a.test"]);
        write(&(refused("a.test", None) + &refused("a.test", Some(443)) + "junk\n{\"half"));
        assert_eq!(news(), ["a.test:443"]);
        assert!(news().is_empty());
        write("\":1}\n");
        let many: String = (0..100)
            .map(|n| refused(&format!("n{n}.test"), None))
            .collect();
        write(&many);
        let told = news();
        assert_eq!(told.len(), MOST - 2 + 1, "{told:?}");
        assert_eq!(told.last().unwrap(), "more than 20");
        write(&refused("late.test", None));
        assert!(news().is_empty());
    }
}
