//! The processes of the sandbox, as `/proc` tells them.

use std::collections::BTreeSet;
use std::fs;
use std::io;

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    parent: i32,
    session: i32,
    state: u8,
    /// 0 where the kernel does not say.
    threads: u64,
}

impl Process {
    /// It was stopped by a signal.
    pub(crate) fn is_asleep(&self) -> bool {
        self.state == b'T'
    }

    /// Every thread has stopped, or waits in vfork(2) for a child that has: such a thread cannot be
    /// interrupted, and runs no instruction before its child does.
    pub(crate) fn has_stopped(&self, all: &[Self]) -> bool {
        let stopped = |state: u8| matches!(state, b'T' | b't' | b'Z' | b'X');
        if matches!(self.state, b'Z' | b'X') || (self.threads == 1 && stopped(self.state)) {
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
        let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else {
            continue;
        };
        found.extend(parse_stat(pid, &stat));
    }
    Ok(found)
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
    Some(Process {
        pid,
        parent,
        session,
        state,
        threads: threads.unwrap_or_default(),
    })
}

/// A program's descendants and its session's members.
pub(crate) fn family(leader: i32) -> BTreeSet<i32> {
    let all = all().unwrap_or_default();
    let mut family = BTreeSet::from([leader]);
    loop {
        let before = family.len();
        for process in &all {
            if process.session == leader || family.contains(&process.parent) {
                family.insert(process.pid);
            }
        }
        if family.len() == before {
            break;
        }
    }
    if !all.iter().any(|p| p.pid == leader) {
        family.remove(&leader);
    }
    family
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
