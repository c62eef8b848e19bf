//! What is said of a layer beside its files.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use crate::fsx::{self, FileError};
use crate::git::Oid;

const FIRST_LINE: &str = "cofferdam-tree 1";
const NAME: &str = "about";
/// Beside it, once all of the layer is on the disk.
const SYNCED: &str = "synced";
/// Who uses a layer so long after it was made uses it again.
const AGAIN: Duration = Duration::from_mins(1);
const LIMIT: u64 = 16 << 20;

/// What a layer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct About {
    /// The trees of the layers below, the uppermost first.
    pub below: Vec<Oid>,
    /// Of all layers together.
    pub files: u64,
    /// Of this layer alone, about: what its files and directories take.
    pub bytes: u64,
    /// When all files of the layers were changed last, in seconds: git's index has the same.
    pub time: u32,
    /// The boot in which it was written.
    pub boot: String,
}

impl About {
    /// `None`: there is none, it is not to be understood, or a power cut may have come before all of it was on the disk.
    pub(super) fn read(layer: &Path) -> Result<Option<Self>, FileError> {
        Self::read_in(layer, &boot())
    }

    /// In which boot; an empty one is nobody's.
    fn read_in(layer: &Path, boot: &str) -> Result<Option<Self>, FileError> {
        let bytes = match fsx::read_bounded(&layer.join(NAME), LIMIT) {
            Err(error) if error.is_not_found() => return Ok(None),
            read => read?,
        };
        let about = std::str::from_utf8(&bytes).ok().and_then(Self::parse);
        Ok(about.filter(|about| {
            (!boot.is_empty() && about.boot == boot) || layer.join(SYNCED).exists()
        }))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter(|line| !line.is_empty());
        if lines.next() != Some(FIRST_LINE) {
            return None;
        }
        let (mut below, mut files, mut bytes) = (Vec::new(), None, None);
        let (mut time, mut boot) = (None, None);
        for line in lines {
            match line.split_once(' ')? {
                ("below", id) => below.push(id.parse().ok()?),
                ("files", count) => files = Some(count.parse().ok()?),
                ("bytes", count) => bytes = Some(count.parse().ok()?),
                ("time", seconds) => time = Some(seconds.parse().ok()?),
                ("boot", id) => boot = Some(id.to_owned()),
                _ => {}
            }
        }
        Some(Self {
            below,
            files: files?,
            bytes: bytes?,
            time: time?,
            boot: boot?,
        })
    }

    /// The last thing that is written before the layer gets its name.
    pub(super) fn write(&self, layer: &Path) -> Result<(), FileError> {
        let mut text = format!("{FIRST_LINE}\n");
        for below in &self.below {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "below {below}");
        }
        let Self {
            files,
            bytes,
            time,
            boot,
            ..
        } = self;
        let _ = write!(
            text,
            "files {files}\nbytes {bytes}\ntime {time}\nboot {boot}\n"
        );
        fsx::write_private(&layer.join(NAME), text.as_bytes())
    }
}

/// Which boot of the machine this is; empty where it cannot be told, and then no layer is taken that is not on the disk.
pub fn boot() -> String {
    let id = fsx::read_bounded(Path::new("/proc/sys/kernel/random/boot_id"), 100);
    let id = id.unwrap_or_default();
    String::from_utf8_lossy(&id).trim().to_owned()
}

/// A layer that is used again is worth a reboot; nobody waits for the disk. Where this process ends first, the layer is
/// written again after a reboot, or the next one does it.
pub(super) fn sync_in_the_background(layer: &Path) {
    let made = layer
        .join(NAME)
        .metadata()
        .and_then(|found| found.modified());
    let age = made.ok().and_then(|made| made.elapsed().ok());
    if age.is_none_or(|age| age < AGAIN) || layer.join(SYNCED).exists() {
        return;
    }
    let layer = layer.to_owned();
    let work = move || {
        let synced = File::open(&layer).is_ok_and(|file| rustix::fs::syncfs(file).is_ok());
        if synced {
            let _ = fsx::write_private(&layer.join(SYNCED), b"");
        }
    };
    let _ = std::thread::Builder::new().spawn(work);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_until_the_next_boot() {
        let room = tempfile::tempdir().unwrap();
        let id: Oid = "0975d99730fc22ccb726da3cddc09abf450b7f30".parse().unwrap();
        let mut about = About {
            below: vec![id],
            files: 7,
            bytes: 8_192,
            time: 1_700_000_000,
            boot: boot(),
        };
        assert_eq!(About::read(room.path()).unwrap(), None);
        about.write(room.path()).unwrap();
        assert_eq!(About::read(room.path()).unwrap(), Some(about.clone()));
        about.boot = String::new();
        about.write(room.path()).unwrap();
        assert_eq!(About::read_in(room.path(), "").unwrap(), None);
        about.boot = "another".to_owned();
        about.write(room.path()).unwrap();
        assert_eq!(About::read(room.path()).unwrap(), None);
        fsx::write_private(&room.path().join(SYNCED), b"").unwrap();
        assert_eq!(About::read(room.path()).unwrap(), Some(about));
    }
}
