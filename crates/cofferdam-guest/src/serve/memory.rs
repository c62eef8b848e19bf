//! What the processes of the sandbox use.

use std::io;

/// So many processes are looked at: more than a sandbox may have by default.
const MOST: usize = 8192;

/// Bytes: of each process what it has for itself or shares as memory, as proc(5) tells it in `status`. The guest itself is not counted.
pub(super) fn used() -> io::Result<u64> {
    let mut all = 0;
    for entry in std::fs::read_dir("/proc")?.flatten().take(MOST) {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.parse::<u32>().ok());
        if number.is_none_or(|number| number == 1) {
            continue;
        }
        // It may have ended just now.
        if let Ok(text) = std::fs::read_to_string(entry.path().join("status")) {
            all += own(&text);
        }
    }
    Ok(all * 1024)
}

/// In units of 1,024 bytes, without what is of files. A process of the kernel's, or one that has just ended, has none.
fn own(status: &str) -> u64 {
    let lines = status.lines().filter_map(|line| {
        let rest = line
            .strip_prefix("RssAnon:")
            .or_else(|| line.strip_prefix("RssShmem:"));
        rest?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    lines.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_files_is_shared() {
        let status = "Name:\tx\nVmRSS:\t    900 kB\nRssAnon:\t     180 kB\nRssFile:\t     700 kB\nRssShmem:\t      20 kB\n";
        assert_eq!(own(status), 200);
        assert_eq!(own("Name:\tRssAnon: 5 kB\nState:\tZ (zombie)\n"), 0);
    }
}
