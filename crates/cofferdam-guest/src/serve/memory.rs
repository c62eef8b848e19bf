//! What the processes of the sandbox use.

use std::io;

/// So many processes are looked at: more than a sandbox may have by default.
const MOST: usize = 8192;

/// Bytes: of each process what it has for itself, as proc(5) tells it in `statm`. The guest itself is not counted.
pub(super) fn used() -> io::Result<u64> {
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    let mut pages = 0;
    for entry in std::fs::read_dir("/proc")?.flatten().take(MOST) {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.parse::<u32>().ok());
        if number.is_none_or(|number| number == 1) {
            continue;
        }
        // It may have ended just now.
        if let Ok(text) = std::fs::read_to_string(entry.path().join("statm")) {
            pages += own(&text).unwrap_or(0);
        }
    }
    Ok(pages * page)
}

/// Pages in memory, without those that are of files.
fn own(statm: &str) -> Option<u64> {
    let mut numbers = statm.split_ascii_whitespace().skip(1);
    let resident: u64 = numbers.next()?.parse().ok()?;
    let shared: u64 = numbers.next()?.parse().ok()?;
    Some(resident.saturating_sub(shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_files_is_shared() {
        assert_eq!(own("1000 300 120 4 0 200 0\n"), Some(180));
        assert_eq!(own("0 0 0 0 0 0 0\n"), Some(0));
        assert_eq!(own("7"), None);
    }
}
