//! What was copied in, and by what is seen that nothing has changed: a digest of everything (S1-65 to S1-67).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cofferdam_guest::protocol::files::{self, Print};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::items::{Content, Item, Wanted, shown_inside};
use crate::config::SyncHook;
use crate::text::hex;

/// Changes with the encoding.
const HEADER: &[u8] = b"cofferdam sync 1\0";
/// A file that was changed so shortly before it was read may be changed again with the same times.
const RECENT: i64 = 2;

/// SHA-256.
pub type Sum = [u8; 32];

/// What a sandbox has, as it was brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// By places inside, without the first slash.
    pub entries: BTreeMap<PathBuf, Entry>,
}

impl Manifest {
    /// The same, by which files that are seen now, and that are the same ones, are known again without being read; none where all are.
    pub fn refreshed(&self, seen: &Self) -> Option<Self> {
        let mut refreshed = self.clone();
        for (path, entry) in &mut refreshed.entries {
            let seen = seen.entries.get(path).filter(|seen| seen.sum == entry.sum);
            if let Some(stamp) = seen.and_then(|seen| seen.stamp) {
                entry.stamp = Some(stamp);
            }
        }
        (refreshed != *self).then_some(refreshed)
    }

    /// What is at `path` is not what was to be there: at most what it was by `known`. One that was there is remembered, as long as
    /// nothing has taken its place.
    pub(super) fn not_brought(&mut self, path: &Path, known: &Self) {
        self.entries.remove(path);
        if let Some(was) = known.entries.get(path) {
            let was = Entry {
                stamp: None,
                inside: None,
                ..was.clone()
            };
            self.entries.insert(path.to_owned(), was);
        }
    }

    /// As bytes that [`Self::read`] understands.
    pub fn write(&self) -> io::Result<Vec<u8>> {
        let mut bytes = HEADER.to_vec();
        for (path, entry) in &self.entries {
            files::write(&mut bytes, &(path.as_os_str().as_bytes(), entry))?;
        }
        Ok(bytes)
    }

    /// None where the bytes are another version's, or cut short: then nothing is known.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(HEADER)?;
        let mut entries = BTreeMap::new();
        while !rest.is_empty() {
            let (path, entry): (Vec<u8>, Entry) = files::read(&mut rest).ok()?;
            entries.insert(OsString::from_vec(path).into(), entry);
        }
        Some(Self { entries })
    }
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its permissions, as `chmod(2)` takes them.
    pub mode: u32,
    /// A digest of its content.
    pub sum: Sum,
    /// Of the source when it was read; none where it is a text of ours, or may have changed since.
    pub stamp: Option<Stamp>,
    /// Of the file inside, as [`Print`] has it.
    pub inside: Option<(u64, u64, i64, i64)>,
}

/// By what a file of this machine is seen to be unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }

    /// Where it tells of every later change.
    pub(super) fn if_old(self) -> Option<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let now = i64::try_from(now.as_secs()).ok()?;
        (self.modified.0.max(self.changed.0) + RECENT < now).then_some(self)
    }
}

impl Entry {
    pub(super) fn print(&self) -> Option<Print> {
        let (inode, size, seconds, nanoseconds) = self.inside?;
        Some(Print {
            inode,
            size,
            seconds,
            nanoseconds,
            content: None,
        })
    }

    pub(super) fn set_print(&mut self, print: Print) {
        self.inside = Some((print.inode, print.size, print.seconds, print.nanoseconds));
    }
}

/// The digest of one item without bringing it; of a file that is as it was it is known.
pub(super) fn entry(item: &Item, known: Option<&Entry>) -> Result<Entry, String> {
    let (sum, stamp) = match &item.content {
        Content::Text(text) => (Sha256::digest(text).into(), None),
        Content::File { tree, path } => {
            let mut file = tree.file(path)?;
            let stamp = Stamp::of(&file).map_err(|error| error.to_string())?;
            match known {
                Some(known) if known.stamp == Some(stamp) => (known.sum, Some(stamp)),
                _ => {
                    let sum = sum(&mut file).map_err(|error| error.to_string())?;
                    (sum, stamp.if_old())
                }
            }
        }
    };
    Ok(Entry {
        mode: item.mode,
        sum,
        stamp,
        inside: known.and_then(|known| known.inside),
    })
}

fn sum(file: &mut File) -> io::Result<Sum> {
    let (mut hash, mut part) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        match file.read(&mut part)? {
            0 => return Ok(hash.finalize().into()),
            read => hash.update(&part[..read]),
        }
    }
}

/// Over all that a sync brings: files with their places, modes and owners, and the commands after it. `variables`: of these too, whatever
/// file shells read; `rules`: of the wall, as texts.
pub fn digest(
    manifest: &Manifest,
    others: &[((u32, u32), &Manifest)],
    hooks: &[&SyncHook],
    variables: &BTreeMap<OsString, OsString>,
    rules: &[String],
) -> String {
    let mut hash = Sha256::new();
    hash.update(HEADER);
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    let mut files = |owner: &[u8], manifest: &Manifest| {
        part(&(manifest.entries.len() as u64).to_le_bytes());
        for (path, entry) in &manifest.entries {
            part(path.as_os_str().as_bytes());
            part(&entry.mode.to_le_bytes());
            part(owner);
            part(&entry.sum);
        }
    };
    files(b"agent:agent", manifest);
    for ((uid, gid), manifest) in others {
        files(format!("{uid}:{gid}").as_bytes(), manifest);
    }
    part(&(hooks.len() as u64).to_le_bytes());
    for hook in hooks {
        part(hook.command.as_bytes());
        part(hook.label().as_bytes());
        part(&[u8::from(hook.root)]);
    }
    part(&(variables.len() as u64).to_le_bytes());
    for (name, value) in variables {
        part(name.as_bytes());
        part(value.as_bytes());
    }
    let mut rules: Vec<&String> = rules.iter().collect();
    rules.sort();
    for rule in rules {
        part(rule.as_bytes());
    }
    hex(&hash.finalize())
}

/// What the wanted files are, read as far as that is not known; what cannot be read is left out and named.
pub fn of(wanted: &mut Wanted, known: &Manifest) -> Manifest {
    let mut manifest = Manifest::default();
    let items: Vec<(PathBuf, Item)> = std::mem::take(&mut wanted.items).into_iter().collect();
    for (path, item) in items {
        match entry(&item, known.entries.get(&path)) {
            Ok(entry) => {
                manifest.entries.insert(path.clone(), entry);
                wanted.items.insert(path, item);
            }
            Err(reason) => wanted.complaints.push(super::Complaint {
                item: shown_inside(&path),
                reason,
            }),
        }
    }
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(command: &str, name: Option<&str>, root: bool) -> SyncHook {
        SyncHook {
            command: command.to_owned(),
            name: name.map(str::to_owned),
            root,
        }
    }

    fn one(path: &str, mode: u32, sum: u8) -> Manifest {
        let entry = Entry {
            mode,
            sum: [sum; 32],
            stamp: None,
            inside: None,
        };
        Manifest {
            entries: [(path.into(), entry)].into(),
        }
    }

    // covers: S1-65, S1-67, S1-112, S1-113
    #[test]
    fn everything_that_is_brought_is_in_the_digest_and_nothing_else() {
        let usual = hook("make", None, false);
        let with =
            |manifest: &Manifest, hooks: &[&SyncHook], said: &[(&str, &str)], rules: &[&str]| {
                let rules: Vec<String> = rules.iter().map(|&rule| rule.to_owned()).collect();
                let said = said
                    .iter()
                    .map(|&(name, value)| (name.into(), value.into()));
                digest(manifest, &[], hooks, &said.collect(), &rules)
            };
        let of = |manifest: &Manifest, hooks: &[&SyncHook], rules: &[&str]| {
            with(manifest, hooks, &[("A", "b")], rules)
        };
        let base = || of(&one("a", 0o644, 1), &[&usual], &["x", "y"]);
        // As another program counts it. Another one is no SHA-256, or another encoding: everything is synced once more.
        assert_eq!(
            base(),
            "1b45373c0618128a066e38c16f9373dfe79013cd40d628112e64409bfc4acdbc"
        );
        // Where a file lies, and in which order rules stand, is no difference.
        let mut stamped = one("a", 0o644, 1);
        stamped.entries.get_mut(Path::new("a")).unwrap().inside = Some((1, 2, 3, 4));
        assert_eq!(of(&stamped, &[&usual], &["y", "x"]), base());
        let named = hook("make", Some("name"), false);
        let root = hook("make", None, true);
        let other = hook("made", None, false);
        let file = one("a", 0o644, 1);
        let all = [
            base(),
            of(&one("b", 0o644, 1), &[&usual], &["x", "y"]),
            of(&one("a", 0o755, 1), &[&usual], &["x", "y"]),
            of(&one("a", 0o644, 2), &[&usual], &["x", "y"]),
            of(&Manifest::default(), &[&usual], &["x", "y"]),
            of(&file, &[&named], &["x", "y"]),
            of(&file, &[&root], &["x", "y"]),
            of(&file, &[&other], &["x", "y"]),
            of(&file, &[&usual, &usual], &["x", "y"]),
            of(&file, &[], &["x", "y"]),
            of(&file, &[&usual], &["x"]),
            of(&file, &[&usual], &["xy"]),
            with(&file, &[&usual], &[("A", "c")], &["x", "y"]),
            with(&file, &[&usual], &[("B", "b")], &["x", "y"]),
            with(&file, &[&usual], &[("Ab", "")], &["x", "y"]),
            with(&file, &[&usual], &[], &["x", "y"]),
            with(&file, &[&usual], &[], &["A", "b", "x", "y"]),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        // What was too young to be known again is known by now; what is another one is not.
        let mut old = one("a", 0o644, 1);
        let stamp = Stamp {
            device: 1,
            inode: 2,
            size: 3,
            modified: (4, 5),
            changed: (6, 7),
        };
        old.entries.get_mut(Path::new("a")).unwrap().stamp = Some(stamp);
        let known = stamped.refreshed(&old).unwrap();
        let entry = &known.entries[Path::new("a")];
        assert_eq!(
            (entry.stamp, entry.inside),
            (Some(stamp), Some((1, 2, 3, 4)))
        );
        assert_eq!(known.refreshed(&old), None);
        assert_eq!(known.refreshed(&stamped), None);
        assert_eq!(one("a", 0o644, 2).refreshed(&old), None);
        let read = Manifest::read(&stamped.write().unwrap()).unwrap();
        assert_eq!(read, stamped);
        assert_eq!(Manifest::read(b"another version"), None);
    }
}
