//! How many processes of a control group the kernel has killed because there was no memory left for them.

use std::fs;
use std::path::Path;

/// Where version 2 says it, and version 1.
const SAYS: [&str; 2] = ["memory.events", "memory.oom_control"];

/// Of this group, a directory of its memory controller. Nothing where it does not say, or is gone.
pub(in crate::sandbox) fn of(group: &Path) -> Option<u64> {
    SAYS.iter()
        .find_map(|file| count(&fs::read_to_string(group.join(file)).ok()?))
}

/// Of the group that a process is in, if that is one of its own: `name` is part of its path. `groups`: its `/proc/PID/cgroup`;
/// `mounts`: where the machine has its controllers, as `/proc/self/mounts` says it.
pub(in crate::sandbox) fn of_process(groups: &str, mounts: &str, name: &str) -> Option<u64> {
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

fn count(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let number = lines.find_map(|line| line.strip_prefix("oom_kill "))?;
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_say_it_and_neither_of_another_group() {
        let top = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = top.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            crate::fsx::write_private(&path, text.as_bytes()).unwrap();
        };
        write(
            "two/a/box-1/memory.events",
            "low 0\nmax 9\noom 2\noom_kill 3\noom_group_kill 7\n",
        );
        write(
            "one/b/box-1/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n",
        );
        write(
            "one/b/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 6\n",
        );
        // Before Linux 4.13.
        write(
            "one/c/box-1/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\n",
        );
        let at = top.path().display();
        let mounts = format!(
            "tmpfs {at} tmpfs rw 0 0\ncgroup2 {at}/two cgroup2 rw,nsdelegate 0 0\n\
             cgroup {at}/one cgroup rw,cpu 0 0\ncgroup {at}/one cgroup rw,memory 0 0\n"
        );
        let found = |groups: &str| of_process(groups, &mounts, "box-1");
        assert_eq!(found("0::/a/box-1\n"), Some(3));
        assert_eq!(found("7:cpu:/b/box-1\n5:memory:/b/box-1\n0::/\n"), Some(5));
        for none in [
            "5:memory:/b\n",
            "7:cpu:/b/box-1\n",
            "5:memory:/c/box-1\n",
            "0::/gone/box-1\n",
            "",
        ] {
            assert_eq!(found(none), None, "{none}");
        }
    }
}
