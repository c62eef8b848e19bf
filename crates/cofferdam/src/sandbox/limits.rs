//! The limits of a sandbox's processes, so that all of them together leave the machine what it needs.

use std::fs;

use cofferdam_guest::protocol::ProcessLimits;

use crate::sandbox::{Limits, SandboxError};
use crate::size::{LEAST_MEMORY, written};

/// What programs are written for: the soft limit nearly everywhere.
const FEWEST_FILES: u64 = 1024;
/// The kernel counts no smaller part.
const LEAST_CPUS: f64 = 0.01;
/// Threads count as processes.
const FEWEST_PROCESSES: u64 = 256;

/// Refuses what bounds nothing: an engine takes nought for no limit.
pub(in crate::sandbox) fn check(limits: &Limits) -> Result<(), SandboxError> {
    let nought = |limit: Option<u64>| limit == Some(0);
    let no_cpus = |cpus: f64| !cpus.is_finite() || cpus < LEAST_CPUS;
    let what = match limits {
        _ if nought(limits.processes) => "processes to none".to_owned(),
        _ if nought(limits.memory) => "memory to none".to_owned(),
        Limits {
            memory: Some(bytes @ ..LEAST_MEMORY),
            ..
        } => format!("memory to {bytes} bytes"),
        _ if nought(limits.open_files) => "open files to none".to_owned(),
        Limits {
            cpus: Some(cpus), ..
        } if no_cpus(*cpus) => format!("CPUs to {cpus}"),
        _ => return Ok(()),
    };
    Err(SandboxError::Unsupported {
        what: format!("cannot limit {what}"),
        hint: format!(
            "a limit is 1 or more, of CPUs 0.01 or more, of memory {} or more; without a limit, leave it out",
            written(LEAST_MEMORY)
        ),
    })
}

/// How many open files the machine has room for; none where it does not say.
pub(in crate::sandbox) fn file_table() -> Option<u64> {
    let text = fs::read_to_string("/proc/sys/fs/file-max").ok()?;
    text.trim().parse().ok()
}

/// Whether what memory has no room for goes elsewhere.
pub(in crate::sandbox) fn has_swap() -> bool {
    fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() > 1)
}

/// Where every process with every file it may open would take more than half of the machine's table, each gets
/// fewer files, and then there are fewer processes.
pub(in crate::sandbox) fn of(
    limits: &Limits,
    file_size: Option<u64>,
    table: Option<u64>,
) -> ProcessLimits {
    let (mut processes, mut open_files) = (limits.processes, limits.open_files);
    if let (Some(most), Some(files), Some(table)) = (&mut processes, &mut open_files, table) {
        let room = table / 2;
        let fits = |files: u64, processes: u64| files.saturating_mul(processes) <= room;
        if !fits(*files, *most) {
            *files = (room / *most).clamp(FEWEST_FILES.min(*files), *files);
        }
        if !fits(*files, *most) {
            *most = (room / *files).clamp(FEWEST_PROCESSES.min(*most), *most);
        }
    }
    ProcessLimits {
        processes,
        open_files,
        file_size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_of_all_processes_are_half_of_the_table_at_most() {
        let of = |processes, open_files, table| {
            let limits = Limits {
                processes,
                open_files,
                ..Limits::default()
            };
            let of = of(&limits, None, table);
            (of.processes, of.open_files)
        };
        let (many, files) = (Some(4096), Some(65_536));
        for (table, expected) in [
            (None, (many, files)),
            (Some(u64::MAX), (many, files)),
            (Some(4096 * 65_536 * 2), (many, files)),
            (Some(4096 * 65_536), (many, Some(32_768))),
            (Some(4096 * 1024 * 2), (many, Some(1024))),
            (Some(2_466_170), (Some(1204), Some(1024))),
            // A small machine: what programs need at least.
            (Some(100_000), (Some(256), Some(1024))),
        ] {
            assert_eq!(of(many, files, table), expected, "{table:?}");
        }
        // Narrower ones stay as they were asked for.
        assert_eq!(of(Some(20), Some(50), Some(1)), (Some(20), Some(50)));
        assert_eq!(of(None, files, Some(1)), (None, files));
    }
}
