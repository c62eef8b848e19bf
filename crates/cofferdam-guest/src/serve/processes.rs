//! The processes of the sandbox, as `/proc` tells them.

use std::collections::BTreeSet;
use std::fs;
use std::io;

/// One process. Its number alone may be another's by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) pid: i32,
    /// When it was started, as the kernel counts.
    start: u64,
}

impl Id {
    pub(crate) fn is_there(self) -> bool {
        stat(self.pid).is_some_and(|process| process.start == self.start)
    }
}

/// How often each of a process's threads was let run.
pub(crate) type Turns = Vec<(i32, u64)>;

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    parent: i32,
    session: i32,
    state: u8,
    /// 0 where the kernel does not say.
    threads: u64,
    start: u64,
}

impl Process {
    pub(crate) fn id(&self) -> Id {
        let (pid, start) = (self.pid, self.start);
        Id { pid, start }
    }

    /// It runs no more, and is only not waited for yet. Its first thread may end before others do.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X') && self.threads <= 1
    }

    /// In the order of their numbers. It is the same as long as none of them runs.
    pub(crate) fn turns(&self) -> Turns {
        if self.threads == 1 {
            return vec![(self.pid, turns(&format!("/proc/{}", self.pid)))];
        }
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid));
        let threads = threads.into_iter().flatten().flatten();
        let mut found: Vec<_> = threads
            .filter_map(|thread| {
                let number = thread.file_name().to_str()?.parse().ok()?;
                Some((number, turns(thread.path().to_str()?)))
            })
            .collect();
        found.sort_unstable();
        found
    }

    /// It was stopped by a signal.
    pub(crate) fn is_asleep(&self) -> bool {
        self.state == b'T'
    }

    /// Every thread has stopped, or waits in vfork(2) for a child that has: such a thread cannot be
    /// interrupted, and runs no instruction before its child does.
    pub(crate) fn has_stopped(&self, all: &[Self]) -> bool {
        let stopped = |state: u8| matches!(state, b'T' | b't' | b'Z' | b'X');
        if self.has_ended() || (self.threads == 1 && stopped(self.state)) {
            return true;
        }
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.pid)) else {
            return true;
        };
        threads.flatten().all(|thread| {
            let Ok(stat) = fs::read(thread.path().join("stat")) else {
                return true;
            };
            let Some(thread) = parse_stat(self.pid, &stat) else {
                return false;
            };
            let waits_for_child = || {
                thread.state == b'D'
                    && all
                        .iter()
                        .any(|child| child.parent == self.pid && stopped(child.state))
            };
            stopped(thread.state) || waits_for_child()
        })
    }
}

/// Every process of the sandbox but this one.
pub(crate) fn all() -> io::Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if pid == 1 {
            continue;
        }
        found.extend(stat(pid));
    }
    Ok(found)
}

fn stat(pid: i32) -> Option<Process> {
    parse_stat(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// How often a thread was given a processor. Where the kernel does not count that, how often it has given one back.
fn turns(thread: &str) -> u64 {
    let counted = fs::read_to_string(format!("{thread}/schedstat")).ok();
    let counted = counted.and_then(|text| text.split_ascii_whitespace().nth(2)?.parse().ok());
    if let Some(counted @ 1..) = counted {
        return counted;
    }
    let status = fs::read(format!("{thread}/status")).unwrap_or_default();
    let given = ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"].map(|name| {
        let given = value(&status, name).and_then(|given| given.parse().ok());
        given.unwrap_or(0u64)
    });
    given[0].saturating_add(given[1])
}

/// `/proc/<pid>/stat`, whose second field is a name that may hold anything.
fn parse_stat(pid: i32, stat: &[u8]) -> Option<Process> {
    let after = stat.iter().rposition(|&b| b == b')')?;
    let mut fields = std::str::from_utf8(&stat[after + 1..])
        .ok()?
        .split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let threads = fields.nth(13).and_then(|number| number.parse().ok());
    let start = fields.nth(1).and_then(|number| number.parse().ok());
    Some(Process {
        pid,
        parent,
        session,
        state,
        threads: threads.unwrap_or_default(),
        start: start.unwrap_or_default(),
    })
}

/// A program, its descendants and its session's members, as far as they are there.
pub(crate) fn family(leader: i32) -> BTreeSet<Id> {
    let all = all().unwrap_or_default();
    let family = family_in(&all, leader);
    let of_it = all.iter().filter(|process| family.contains(&process.pid));
    of_it.map(Process::id).collect()
}

/// The same by their numbers, among these.
pub(super) fn family_in(all: &[Process], leader: i32) -> BTreeSet<i32> {
    let mut family = BTreeSet::from([leader]);
    loop {
        let before = family.len();
        for process in all {
            if process.session == leader || family.contains(&process.parent) {
                family.insert(process.pid);
            }
        }
        if family.len() == before {
            return family;
        }
    }
}

/// The numbers of its children.
pub(crate) fn children(of: i32) -> Vec<i32> {
    let all = all().unwrap_or_default();
    let children = all.iter().filter(|process| process.parent == of);
    children.map(|process| process.pid).collect()
}

/// Whose it is: its real user's id.
pub(crate) fn user(pid: i32) -> Option<u32> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    let ids = value(&status, "Uid:")?;
    ids.split_ascii_whitespace().next()?.parse().ok()
}

/// The processes that trace a thread of it. Of each thread by itself: one that has ended is kept from its process, and
/// with it the process from its parent, until who traces it was told.
pub(crate) fn tracers(pid: i32) -> BTreeSet<Id> {
    let tracers = threads(pid, "status");
    let tracers = tracers
        .iter()
        .filter_map(|status| field(status, "TracerPid:"));
    // It is a thread as well.
    let process = |thread: i32| {
        let status = fs::read(format!("/proc/{thread}/status")).ok()?;
        field(&status, "Tgid:")
    };
    let others = |pid: &i32| *pid > 1;
    tracers
        .filter(others)
        .filter_map(process)
        .filter(others)
        .filter_map(stat)
        .map(|process| process.id())
        .collect()
}

/// Whether a signal waits for this thread, or for its process, that it does not keep back.
pub(crate) fn has_signal(thread: i32) -> bool {
    let Ok(status) = fs::read(format!("/proc/{thread}/status")) else {
        return false;
    };
    let signals = |name| value(&status, name).and_then(|set| u64::from_str_radix(set, 16).ok());
    let waiting = ["SigPnd:", "ShdPnd:"].map(|name| signals(name).unwrap_or(0));
    let kept_back = signals("SigBlk:").unwrap_or(0);
    (waiting[0] | waiting[1]) & !kept_back != 0
}

/// A file of each of its threads.
fn threads(pid: i32, file: &str) -> Vec<Vec<u8>> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    threads
        .flatten()
        .filter_map(|thread| fs::read(thread.path().join(file)).ok())
        .collect()
}

/// A number in `/proc/<pid>/status`.
fn field(status: &[u8], name: &str) -> Option<i32> {
    value(status, name)?.parse().ok()
}

/// Its first line is a name that may hold anything but a line's end.
fn value<'a>(status: &'a [u8], name: &str) -> Option<&'a str> {
    let mut lines = status.split(|&byte| byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(name.as_bytes()))?;
    Some(std::str::from_utf8(value).ok()?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process chooses its name, and with that nothing else of what is read about it.
    #[test]
    fn fuzz_process_names() {
        let seeds = ["true", "a) Z 1 1 1 (b", "x y\n7 (", ") S 1 2 3\0"];
        let seeds = seeds.map(|name| name.as_bytes().to_vec());
        cofferdam_lab::fuzz::mutate("process names", &seeds, |name| {
            let stat = [b"7 (", name, b") S 5 6 9 0 -1 4194560\n"].concat();
            let found = parse_stat(7, &stat).unwrap();
            assert_eq!((found.parent, found.session, found.state), (5, 9, b'S'));
            _ = parse_stat(7, name);
        });
    }
}
