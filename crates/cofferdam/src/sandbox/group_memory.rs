//! What a control group says of the memory of a sandbox: what is in use, what may be, and whom the kernel has killed for it.

use std::fs;
use std::path::Path;

/// From here on version 1 means that there is no limit: it says the largest number of pages.
const NO_LIMIT: u64 = 1 << 60;

/// The memory of a sandbox, as the kernel counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupMemory {
    /// Bytes in use, those of files in memory (`/tmp`) too, and without copies of what is on a disk.
    pub used: u64,
    /// Bytes that it may use. Nothing where nothing limits it but the machine.
    pub limit: Option<u64>,
    /// How many processes the kernel has killed since the sandbox was started, because its limit of memory, or the machine's
    /// memory, was used up. Nothing before Linux 4.13.
    pub killed: Option<u64>,
}

impl GroupMemory {
    /// Bytes that are left below its limit. Nothing where it has none.
    pub fn left(&self) -> Option<u64> {
        Some(self.limit?.saturating_sub(self.used))
    }
}

/// Those that the kernel has killed, as far as somebody counts.
pub(crate) fn killed(memory: Option<GroupMemory>) -> u64 {
    memory.and_then(|memory| memory.killed).unwrap_or_default()
}

/// Of this group, a directory of its memory controller. Nothing where it does not say, or is gone.
pub(in crate::sandbox) fn of(group: &Path) -> Option<GroupMemory> {
    let number = |file: &str| -> Option<u64> {
        fs::read_to_string(group.join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    // Where version 2 says it, and version 1.
    let (used, limit, events, prefix) = match number("memory.current") {
        Some(used) => (used, number("memory.max"), "memory.events", ""),
        None => (
            number("memory.usage_in_bytes")?,
            number("memory.limit_in_bytes").filter(|limit| *limit < NO_LIMIT),
            "memory.oom_control",
            "total_",
        ),
    };
    let held = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let copies =
        ["active_file", "inactive_file"].map(|kind| value(&held, &format!("{prefix}{kind}")));
    let copies: u64 = copies.into_iter().flatten().sum();
    let events = fs::read_to_string(group.join(events)).unwrap_or_default();
    Some(GroupMemory {
        used: used.saturating_sub(copies),
        limit,
        killed: value(&events, "oom_kill"),
    })
}

/// Of the group that a process is in, if that is one of its own: `name` is part of its path. `groups`: its `/proc/PID/cgroup`;
/// `mounts`: where the machine has its controllers, as `/proc/self/mounts` says it.
pub(in crate::sandbox) fn of_process(
    groups: &str,
    mounts: &str,
    name: &str,
) -> Option<GroupMemory> {
    groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_memory = |all: &str| all.split(',').any(|one| one == "memory");
        if !(controllers.is_empty() || is_memory(controllers)) || !path.contains(name) {
            return None;
        }
        mounts.lines().find_map(|mount| {
            let fields: Vec<&str> = mount.split(' ').collect();
            let [_, point, kind, options, ..] = fields[..] else {
                return None;
            };
            let has_it = match kind {
                "cgroup2" => controllers.is_empty(),
                "cgroup" => is_memory(controllers) && is_memory(options),
                _ => false,
            };
            has_it.then(|| of(&Path::new(point).join(path.trim_start_matches('/'))))?
        })
    })
}

/// The number behind `key` in lines of a word and a number each.
fn value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (word, number) = line.split_once(' ')?;
        (word == key).then(|| number.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_say_it_and_neither_of_another_group() {
        let top = tempfile::tempdir().unwrap();
        let write = |group: &str, files: &[(&str, &str)]| {
            for (file, text) in files {
                let path = top.path().join(group).join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                crate::fsx::write_private(&path, text.as_bytes()).unwrap();
            }
        };
        let two = [
            ("memory.current", "1000\n"),
            ("memory.max", "4096\n"),
            (
                "memory.stat",
                "anon 5\nfile 700\nactive_file 100\ninactive_file 200\n",
            ),
            (
                "memory.events",
                "low 0\nmax 9\noom 2\noom_kill 3\noom_group_kill 7\n",
            ),
        ];
        write("two/a/box-1", &two);
        let one = |used: &'static str, events: &'static str| {
            [
                ("memory.usage_in_bytes", used),
                ("memory.limit_in_bytes", "9223372036854771712\n"),
                // Those without the word are not its children's.
                (
                    "memory.stat",
                    "active_file 1\ntotal_active_file 30\ntotal_inactive_file 10\n",
                ),
                ("memory.oom_control", events),
            ]
        };
        write(
            "one/b/box-1",
            &one("540\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"),
        );
        write("one/b", &one("99\n", "oom_kill 6\n"));
        // Before Linux 4.13.
        write(
            "one/c/box-1",
            &one("40\n", "oom_kill_disable 0\nunder_oom 0\n"),
        );
        let at = top.path().display();
        let mounts = format!(
            "tmpfs {at} tmpfs rw 0 0\ncgroup2 {at}/two cgroup2 rw,nsdelegate 0 0\n\
             cgroup {at}/one cgroup rw,cpu 0 0\ncgroup {at}/one cgroup rw,memory 0 0\n"
        );
        let found = |groups: &str| of_process(groups, &mounts, "box-1");
        let says = |used, limit, killed| {
            Some(GroupMemory {
                used,
                limit,
                killed,
            })
        };
        assert_eq!(found("0::/a/box-1\n"), says(700, Some(4096), Some(3)));
        assert_eq!(
            found("0::/a/box-1\n").and_then(|one| one.left()),
            Some(3396)
        );
        let first = found("7:cpu:/b/box-1\n5:memory:/b/box-1\n0::/\n");
        assert_eq!(first, says(500, None, Some(5)));
        assert_eq!(first.and_then(|one| one.left()), None);
        assert_eq!(found("5:memory:/c/box-1\n"), says(0, None, None));
        for none in ["5:memory:/b\n", "7:cpu:/b/box-1\n", "0::/gone/box-1\n", ""] {
            assert_eq!(found(none), None, "{none}");
        }
    }
}
