//! The file in which refusals are noted, where somebody has provided one.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A file that has grown so far, in bytes, is left as it is: whoever refuses to understand shall not fill a disk.
const LARGEST: u64 = 1 << 20;

/// Adds the line in one write to a regular file that is there already. Never waits, and follows no link.
pub(super) fn append(path: &Path, line: &str) -> io::Result<()> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let mut options = File::options();
    let mut file = options.append(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.len() > LARGEST {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    file.write_all(line.as_bytes())
}

/// Seconds since 1970; none before.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::disallowed_methods,
        reason = "tests write files and start programs"
    )]

    use super::*;

    #[test]
    fn only_a_file_that_is_there_is_written() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("log");
        assert!(append(&file, "a\n").is_err(), "it is not made");
        std::fs::write(&file, "").unwrap();
        append(&file, "a\n").unwrap();
        append(&file, "b\n").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "a\nb\n");

        let link = place.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(append(&link, "c\n").is_err());
        let pipe = place.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        assert!(append(&pipe, "c\n").is_err(), "nobody reads it");
        let reader = File::options().read(true).write(true).open(&pipe).unwrap();
        assert!(append(&pipe, "c\n").is_err(), "somebody could read it");
        drop(reader);
        assert!(append(place.path(), "c\n").is_err());

        File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_len(LARGEST + 1)
            .unwrap();
        assert!(append(&file, "c\n").is_err());
    }
}
