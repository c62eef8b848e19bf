//! What keeps a running sandbox apart from its host, as it is now: read from whoever enforces it, and not from what was asked for.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags, makedev, openat2};
use rustix::io::Errno;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Examined {
    /// A few words: "capabilities".
    pub what: &'static str,
    /// What is there.
    pub found: Held,
}

/// Whether it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// It does: what was seen.
    Holds(String),
    /// It is weaker than it was made: what was seen.
    Broken(String),
    /// Nobody here may see it: why.
    Unknown(String),
}

impl Examined {
    pub(super) fn new(what: &'static str, found: Held) -> Self {
        Self { what, found }
    }

    /// `wrong`: what was seen, where that is not as it should be.
    pub(super) fn of(what: &'static str, wrong: Option<String>, right: impl Into<String>) -> Self {
        let found = wrong.map_or_else(|| Held::Holds(right.into()), Held::Broken);
        Self::new(what, found)
    }
}

/// Of a sandbox's first process, by the kernel. `network`: whether it is to have one of its own.
pub(crate) fn process(pid: u32, network: bool) -> Vec<Examined> {
    let status = match fs::read_to_string(format!("/proc/{pid}/status")) {
        Ok(status) => status,
        Err(error) => {
            let why = Held::Unknown(format!("process {pid}: {error}"));
            return vec![Examined::new("its first process", why)];
        }
    };
    let mut all = vec![ids(&status), capabilities(&status), privileges(&status)];
    let own = ["pid", "mnt", "ipc", "uts", "net"];
    let own = if network { &own[..] } else { &own[..4] };
    all.push(namespaces(pid, own));
    all
}

/// The interfaces by which packets leave the network of this process, as the kernel routes them: one of ours has none. A kernel may
/// have others in every namespace, to which nothing is routed.
pub(crate) fn ways_out(pid: u32) -> BTreeSet<String> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/net/{name}"));
    routed(
        &read("route").unwrap_or_default(),
        &read("ipv6_route").unwrap_or_default(),
    )
}

/// The first word of a line names it, and the last one.
fn routed(of_4: &str, of_6: &str) -> BTreeSet<String> {
    let first = of_4
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().next());
    let last = of_6.lines().map(|line| line.split_whitespace().next_back());
    let names = first.chain(last).flatten().filter(|name| *name != "lo");
    names.map(str::to_owned).collect()
}

/// Of a container's, what its engine or its runtime sees to. Natively these are no questions: the first process has no filter, and its
/// programs do; and its `/proc` is a user namespace's.
pub(super) fn of_a_container(pid: Option<i32>) -> [Examined; 2] {
    [filter(pid), masks(pid)]
}

/// Whether the kernel filters the system calls of a container's first process. `None`: nobody here may see it.
pub(super) fn is_filtered(pid: i32) -> Option<bool> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(has_filter(&status))
}

/// That as a line.
fn filter(pid: Option<i32>) -> Examined {
    let what = "system calls";
    match pid.and_then(is_filtered) {
        Some(filtered) => {
            let wrong = (!filtered).then(|| "no filter is in force".to_owned());
            Examined::of(what, wrong, "filtered")
        }
        None => Examined::new(what, Held::Unknown("it does not run here".to_owned())),
    }
}

/// What of the machine's settings a container's `/proc` keeps from being written, and what from being read: what both engines name.
const READ_ONLY: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];
const HIDDEN: [&str; 4] = ["acpi", "kcore", "keys", "timer_list"];

/// statfs(2)'s number of it.
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// As its programs find it, whatever was mounted there over what.
fn masks(pid: Option<i32>) -> Examined {
    let what = "its /proc";
    let Some(pid) = pid else {
        return Examined::new(what, Held::Unknown("it does not run here".to_owned()));
    };
    match open_places(Path::new(&format!("/proc/{pid}/root"))) {
        Ok(open) => {
            let wrong =
                (!open.is_empty()).then(|| format!("the machine's own: {}", open.join(", ")));
            Examined::of(what, wrong, "masked")
        }
        Err(errno) => {
            let why = Held::Unknown(format!("it cannot be looked at: {errno}"));
            Examined::new(what, why)
        }
    }
}

/// Those that are neither read-only nor hidden, as they are to be, below this root.
fn open_places(root: &Path) -> rustix::io::Result<Vec<&'static str>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags, Mode::empty())?;
    let ways = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let mut open = Vec::new();
    let read_only = READ_ONLY.iter().map(|name| (*name, false));
    for (name, hidden) in read_only.chain(HIDDEN.iter().map(|name| (*name, true))) {
        let place = match openat2(&root, format!("proc/{name}"), flags, Mode::empty(), ways) {
            Ok(place) => place,
            // This kernel has none.
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(errno),
        };
        let found = rustix::fs::fstat(&place)?;
        let how = rustix::fs::fstatvfs(&place)?.f_flag;
        let is_read_only = how.contains(StatVfsMountFlags::RDONLY);
        let is_in_memory = rustix::fs::fstatfs(&place)?.f_type == TMPFS;
        // Engines hide a file behind `/dev/null`, and a directory behind an empty one in memory.
        let closed = match (hidden, FileType::from_raw_mode(found.st_mode)) {
            (true, FileType::CharacterDevice) => found.st_rdev == makedev(1, 3),
            (true, FileType::Directory) => is_read_only && is_in_memory,
            (true, _) => false,
            (false, _) => is_read_only,
        };
        if !closed {
            open.push(name);
        }
    }
    Ok(open)
}

fn has_filter(status: &str) -> bool {
    value(status, "Seccomp") == "2"
}

fn value<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.strip_prefix(':'))
        .unwrap_or_default()
        .trim()
}

fn ids(status: &str) -> Examined {
    let (users, groups) = (value(status, "Uid"), value(status, "Gid"));
    let all: Vec<&str> = (users.split_whitespace())
        .chain(groups.split_whitespace())
        .collect();
    let root = all.is_empty() || all.contains(&"0");
    let seen = format!("user {}", users.split_whitespace().next().unwrap_or("?"));
    let wrong = root.then(|| format!("it is root on this machine: users {users}, groups {groups}"));
    Examined::of("user", wrong, seen)
}

fn capabilities(status: &str) -> Examined {
    let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    let has = |name: &&&str| u64::from_str_radix(value(status, name), 16) != Ok(0);
    let found: Vec<String> = (sets.iter().filter(has))
        .map(|name| format!("{name} {}", value(status, name)))
        .collect();
    let wrong = (!found.is_empty()).then(|| found.join(", "));
    Examined::of("capabilities", wrong, "none")
}

fn privileges(status: &str) -> Examined {
    let refused = value(status, "NoNewPrivs") == "1";
    let wrong = (!refused).then(|| "its programs may gain some by what they start".to_owned());
    Examined::of("new privileges", wrong, "none")
}

fn namespaces(pid: u32, own: &[&str]) -> Examined {
    let mut shared = Vec::new();
    for name in own {
        let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/{name}"));
        match (of(&pid.to_string()), of("self")) {
            (Ok(theirs), Ok(ours)) if theirs == ours => shared.push(*name),
            (Ok(_), Ok(_)) => {}
            (Err(error), _) | (_, Err(error)) => {
                let why = Held::Unknown(format!("the kernel shows them to root alone: {error}"));
                return Examined::new("namespaces", why);
            }
        }
    }
    let wrong =
        (!shared.is_empty()).then(|| format!("shared with the host: {}", shared.join(", ")));
    Examined::of("namespaces", wrong, own.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_out_is_what_is_routed_to() {
        let header = "Iface\tDestination\tGateway\tFlags\n";
        let of_4 =
            format!("{header}eth0\t00000000\t010011AC\t0003\neth0\t000011AC\t00000000\t0001\n");
        let local = "00000000000000000000000000000001 80 00000000000000000000000000000000 00 00000000 80200001       lo\n";
        let of_6 = format!("{local}{}", local.replace("lo", "eth1"));
        assert!(routed(header, local).is_empty());
        assert_eq!(
            routed(&of_4, &of_6),
            BTreeSet::from(["eth0".to_owned(), "eth1".to_owned()])
        );
    }

    #[test]
    fn settings_that_can_be_written_are_named() {
        let root = tempfile::tempdir().unwrap();
        let proc = root.path().join("proc");
        let make = |name: &str| fs::create_dir_all(proc.join(name)).unwrap();
        make("");
        assert_eq!(open_places(root.path()), Ok(vec![]));
        for name in READ_ONLY.iter().chain(&HIDDEN) {
            make(name);
            assert_eq!(open_places(root.path()), Ok(vec![*name]));
            fs::remove_dir(proc.join(name)).unwrap();
        }
        // A hidden file is a device, and no other one is.
        fs::File::create(proc.join("keys")).unwrap();
        assert_eq!(open_places(root.path()), Ok(vec!["keys"]));
        std::os::unix::fs::symlink("keys", proc.join("sys")).unwrap();
        assert_eq!(open_places(root.path()), Err(Errno::LOOP));
    }

    #[test]
    fn this_process_is_no_sandbox() {
        let found = process(std::process::id(), true);
        let broken: Vec<&str> = (found.iter())
            .filter(|one| matches!(one.found, Held::Broken(_)))
            .map(|one| one.what)
            .collect();
        assert!(broken.contains(&"namespaces"), "{found:?}");
        let status =
            "Uid:\t0\t0\t0\t0\nGid:\t5\t5\t5\t5\nCapBnd:\t0000000000000001\nNoNewPrivs:\t0\n";
        for one in [ids(status), capabilities(status), privileges(status)] {
            assert!(matches!(one.found, Held::Broken(_)), "{one:?}");
        }
        for (line, filtered) in [
            ("Seccomp:\t2\nSeccomp_filters:\t1\n", true),
            ("Seccomp:\t0\nSeccomp_filters:\t0\n", false),
            ("Seccomp:\t1\n", false),
            ("Seccomp_filters:\t2\n", false),
        ] {
            assert_eq!(has_filter(line), filtered, "{line}");
        }
        let zero = "0000000000000000";
        let status = format!(
            "Uid:\t7\t7\t7\t7\nGid:\t5\t5\t5\t5\nCapInh:\t{zero}\nCapPrm:\t{zero}\nCapEff:\t{zero}\nCapBnd:\t{zero}\nCapAmb:\t{zero}\n\
             NoNewPrivs:\t1\n"
        );
        for one in [ids(&status), capabilities(&status), privileges(&status)] {
            assert!(matches!(one.found, Held::Holds(_)), "{one:?}");
        }
    }
}
