//! A network log for people: a row for each thing that was asked, with what became of it.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::net::IpAddr;

use cofferdam::text::printable_line;
use cofferdam::wall::log::{Entry, EntryEvent, Verdict};
use jiff::Timestamp;

use super::table::{self, fit};
use super::{human, opening};

/// So many rows are shown, the newest ones.
const ROWS: usize = 20_000;
const HEAD: [&str; 7] = [
    "TIME (UTC)",
    "VERDICT",
    "WHAT",
    "SENT",
    "RECEIVED",
    "COUNT",
    "WHY",
];

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    at: Timestamp,
    verdict: &'static str,
    what: String,
    sent: Option<u64>,
    received: Option<u64>,
    count: u64,
    why: String,
}

/// The rows of a log that is read to its end.
#[derive(Debug)]
pub(crate) struct Traffic {
    /// Each refused thing once, and nothing else.
    refused: bool,
    rows: VecDeque<Row>,
    dropped: usize,
    /// Open connections: at which place in the order of all rows they stand.
    open: HashMap<u64, usize>,
    /// Where refused things stand.
    known: HashMap<(String, String), usize>,
}

impl Row {
    /// None for entries that say nothing to a person.
    pub(crate) fn new(entry: &Entry) -> Option<Self> {
        let verdict = match (entry.event, entry.verdict) {
            (EntryEvent::Sandbox, _) => return None,
            (EntryEvent::Rules, _) => "rules",
            (EntryEvent::Gap, _) => "left out",
            (EntryEvent::Close, _) => "closed",
            (_, Some(Verdict::Allowed)) => "allowed",
            (_, Some(Verdict::Refused)) => "refused",
            (_, Some(Verdict::Failed)) => "failed",
            (_, None) => "-",
        };
        Some(Self {
            at: entry.at,
            verdict,
            what: what(entry),
            sent: entry.sent,
            received: entry.received,
            count: entry.count.unwrap_or(1),
            why: why(entry),
        })
    }

    fn cells(&self) -> Vec<String> {
        let bytes = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), human::count);
        vec![
            self.at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
            self.verdict.to_owned(),
            self.what.clone(),
            bytes(self.sent),
            bytes(self.received),
            human::count(self.count),
            self.why.clone(),
        ]
    }
}

impl Traffic {
    pub(crate) fn new(refused: bool) -> Self {
        Self {
            refused,
            rows: VecDeque::new(),
            dropped: 0,
            open: HashMap::new(),
            known: HashMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether it is of what was refused alone.
    pub(crate) fn of_refused(&self) -> bool {
        self.refused
    }

    /// The end of a connection is told with its beginning.
    pub(crate) fn add(&mut self, entry: &Entry) {
        let Some(row) = Row::new(entry) else { return };
        if self.refused {
            if entry.verdict == Some(Verdict::Refused) {
                self.count(row);
            }
            return;
        }
        if entry.event == EntryEvent::Close
            && let Some(at) = entry.id.and_then(|id| self.open.remove(&id))
            && let Some(begin) = self.at(at)
        {
            begin.sent = row.sent;
            begin.received = row.received;
            if entry.reason.is_some() {
                begin.why = row.why;
            }
            return;
        }
        let at = self.push(row);
        if let (EntryEvent::Connect, Some(id)) = (entry.event, entry.id) {
            self.open.insert(id, at);
        }
    }

    pub(crate) fn render(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        if self.refused {
            // A thing that was asked for again stands where its newest time belongs.
            rows.sort_by_key(|row| row.at);
        }
        let rows: Vec<Vec<String>> = rows.into_iter().map(Row::cells).collect();
        let mut out = String::new();
        if self.dropped > 0 {
            let dropped = human::plural(self.dropped, "older row");
            let _ = writeln!(out, "({dropped} left out; `--json` has all)");
        }
        out + &table::render(&HEAD, &rows)
    }

    /// A thing that was refused before is counted.
    fn count(&mut self, row: Row) {
        let key = (row.what.clone(), row.why.clone());
        if let Some(&at) = self.known.get(&key)
            && let Some(known) = self.at(at)
        {
            known.count = known.count.saturating_add(row.count);
            known.at = row.at;
            return;
        }
        let at = self.push(row);
        self.known.insert(key, at);
    }

    /// Gives the place of the row among all that there were.
    fn push(&mut self, row: Row) -> usize {
        if self.rows.len() == ROWS {
            self.rows.pop_front();
            self.dropped += 1;
            let dropped = self.dropped;
            self.known.retain(|_, at| *at >= dropped);
            self.open.retain(|_, at| *at >= dropped);
        }
        self.rows.push_back(row);
        self.dropped + self.rows.len() - 1
    }

    fn at(&mut self, at: usize) -> Option<&mut Row> {
        self.rows.get_mut(at.checked_sub(self.dropped)?)
    }
}

/// A row on a line of its own, while others are still to come.
pub(crate) fn line(row: &Row) -> String {
    let mut cells = row.cells();
    let why = cells.pop().unwrap_or_default();
    let [at, verdict, what, sent, received, count] = cells.as_slice() else {
        return String::new();
    };
    let mut line = format!("{at}  {verdict:<8}  {}", fit(what, 120));
    if row.sent.is_some() || row.received.is_some() {
        let _ = write!(line, "  {sent} sent, {received} received");
    }
    if row.count != 1 {
        let _ = write!(line, "  {count} times");
    }
    if !why.is_empty() {
        let _ = write!(line, "  {}", printable_line(&why));
    }
    line.push('\n');
    line
}

fn what(entry: &Entry) -> String {
    let host = match (&entry.name, entry.address) {
        (Some(name), _) => name.clone(),
        (None, Some(IpAddr::V6(v6))) if entry.port.is_some() => format!("[{v6}]"),
        (None, Some(address)) => address.to_string(),
        (None, None) => "-".to_owned(),
    };
    let mut what = match entry.port {
        Some(port) => format!("{host}:{port}"),
        None => host,
    };
    if let Some(protocol) = entry.protocol.as_deref().filter(|name| *name != "tcp") {
        let _ = write!(what, " {protocol}");
    }
    match entry.event {
        EntryEvent::Lookup => what.push_str(" (lookup)"),
        EntryEvent::Request => what.push_str(" (request)"),
        _ => {}
    }
    fit(&what, 300)
}

fn why(entry: &Entry) -> String {
    let mut why = String::new();
    if let Some(reason) = &entry.reason {
        why.push_str(reason);
    } else if let Some(rule) = &entry.rule {
        why.push_str(rule);
        if let Some(origin) = entry.origin {
            let _ = write!(why, " ({origin})");
        }
    }
    if let Some(agent) = entry.opens.as_deref().and_then(opening::not_needed) {
        let _ = write!(why, "; {agent} does not need it");
    }
    if let Some(command) = entry.opens.as_deref().and_then(opening::offer) {
        let _ = write!(why, "; open with: {command}");
    }
    fit(&why, 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a sandbox asked for is no bait, whatever an older gateway wrote beside it.
    #[test]
    fn no_command_opens_what_is_around_this_machine() {
        let shown = |opens: &str| {
            let mut entry = Entry::new(Timestamp::UNIX_EPOCH, EntryEvent::Connect);
            entry.verdict = Some(Verdict::Refused);
            entry.reason = Some("no rule names it".to_owned());
            entry.opens = Some(opens.to_owned());
            line(&Row::new(&entry).unwrap())
        };
        for opens in [
            "files.test:443",
            "203.0.113.9:22",
            "host.cofferdam.internal:80",
        ] {
            let command = format!("no rule names it; open with: cofferdam allow {opens}\n");
            assert!(shown(opens).ends_with(&command), "{opens}");
        }
        for opens in [
            "10.0.0.1:22",
            "192.168.0.1:80",
            "169.254.1.1:80",
            "100.64.0.1:80",
            "127.0.0.1:80",
            "[fd00::1]:80",
            "[fe80::1]:80",
        ] {
            assert!(shown(opens).ends_with("  no rule names it\n"), "{opens}");
        }
        let unneeded = "no rule names it; codex does not need it\n";
        assert!(shown("ab.chatgpt.com:443").ends_with(unneeded));
    }
}
