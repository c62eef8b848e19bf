//! The index file (gitformat-index(5)): versions 2, 3 and 4 in, 2 or 3 out; SHA-1 and SHA-256.
//! Pure functions over bytes; nothing here panics or allocates more than the input's size explains.

use std::borrow::Cow;

use sha2::Digest;

use crate::git::ObjectFormat;

/// The bytes are no index, or one of a kind that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the index cannot be read: {0}")]
pub struct FormatError(pub(super) &'static str);

/// What `stat` said when git last looked: ctime (s, ns), mtime (s, ns), dev, ino, uid, gid, size.
/// All zeros: never looked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stat {
    /// Last change of the inode: seconds since 1970, and nanoseconds.
    pub ctime: [u32; 2],
    /// Last change of the content: seconds since 1970, and nanoseconds.
    pub mtime: [u32; 2],
    /// The device, its lower 32 bits.
    pub dev: u32,
    /// The inode, its lower 32 bits.
    pub ino: u32,
    /// Whose it is.
    pub uid: u32,
    /// The group whose it is.
    pub gid: u32,
    /// In bytes, the lower 32 bits.
    pub size: u32,
}

/// One path of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Below the top, with `/` between its parts.
    pub path: Cow<'a, [u8]>,
    /// What was known of the file.
    pub stat: Stat,
    /// Type and rights, as git has them: octal 100644, 100755, 120000, 160000.
    pub mode: u32,
    /// Raw.
    pub oid: Cow<'a, [u8]>,
    /// 0, or 1 to 3 in a conflict.
    pub stage: u8,
    /// Git takes it for unchanged (`--assume-unchanged`).
    pub assume_valid: bool,
    /// It is not to be in the working tree (sparse checkouts).
    pub skip_worktree: bool,
    /// It was announced with `git add -N`, and has no content yet.
    pub intent_to_add: bool,
}

/// The mode of a gitlink: a submodule's commit.
pub const GITLINK: u32 = 0o160_000;
/// The mode of a directory in a sparse index.
const TREE: u32 = 0o040_000;

/// An index file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index<'a> {
    /// In the order of their paths.
    pub entries: Vec<Entry<'a>>,
    /// The cache of tree ids, as it is in the file.
    pub trees: Option<&'a [u8]>,
    /// Whole directories stand for their files.
    pub sparse: bool,
    /// Raw id in the name of the shared index that this one is based on.
    pub shared: Option<&'a [u8]>,
}

impl Index<'_> {
    /// The tree that the entries add up to, where the file says so.
    pub fn root_tree(&self, format: ObjectFormat) -> Option<&[u8]> {
        root_tree(self.trees?, format)
    }
}

fn raw_len(format: ObjectFormat) -> usize {
    format.hex_len() / 2
}

/// A position in the file.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], FormatError> {
        let end = self
            .at
            .checked_add(count)
            .ok_or(FormatError("it is too large"))?;
        let taken = self
            .bytes
            .get(self.at..end)
            .ok_or(FormatError("it is cut off"))?;
        self.at = end;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, FormatError> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&mut self) -> Result<u32, FormatError> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn until_nul(&mut self) -> Result<&'a [u8], FormatError> {
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        let end = rest
            .iter()
            .position(|&b| b == 0)
            .ok_or(FormatError("a path does not end"))?;
        self.at += end + 1;
        Ok(&rest[..end])
    }

    /// The variable-width number of version 4 (the same as offsets in packs).
    fn varint(&mut self) -> Result<usize, FormatError> {
        let mut value = 0usize;
        loop {
            let byte = self.take(1)?[0];
            value = value
                .checked_shl(7)
                .filter(|_| value <= usize::MAX >> 7)
                .ok_or(FormatError("a number is too large"))?
                + usize::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            value = value
                .checked_add(1)
                .ok_or(FormatError("a number is too large"))?;
        }
    }
}

/// Parses an index file. Its checksum is not looked at, as git itself does not.
pub fn parse(bytes: &[u8], format: ObjectFormat) -> Result<Index<'_>, FormatError> {
    let hash = raw_len(format);
    let body = bytes
        .len()
        .checked_sub(hash)
        .ok_or(FormatError("it is cut off"))?;
    let mut cursor = Cursor {
        bytes: &bytes[..body],
        at: 0,
    };
    if cursor.take(4)? != b"DIRC" {
        return Err(FormatError("it has no signature"));
    }
    let version = cursor.u32()?;
    if !(2..=4).contains(&version) {
        return Err(FormatError("its version is unknown"));
    }
    let count = cursor.u32()? as usize;
    // An entry takes more bytes than this, so a lying count allocates nothing.
    let mut entries: Vec<Entry<'_>> = Vec::with_capacity(count.min(body / (hash + 43)));
    for _ in 0..count {
        let previous = match (version, entries.last()) {
            (4, Some(entry)) => &entry.path,
            _ => &Cow::Borrowed(&[][..]),
        };
        let entry = parse_entry(&mut cursor, version, hash, previous)?;
        entries.push(entry);
    }
    let mut index = Index {
        entries,
        ..Index::default()
    };
    while cursor.at < body {
        let signature = cursor.take(4)?;
        let size = cursor.u32()? as usize;
        let content = cursor.take(size)?;
        match signature {
            b"TREE" => index.trees = Some(content),
            b"sdir" => index.sparse = true,
            b"link" => {
                let base = content.get(..hash).ok_or(FormatError("it is cut off"))?;
                index.shared = base.iter().any(|&b| b != 0).then_some(base);
            }
            [first, ..] if first.is_ascii_uppercase() => {}
            _ => return Err(FormatError("it has an unknown extension")),
        }
    }
    index.sparse |= index.entries.iter().any(|entry| entry.mode == TREE);
    Ok(index)
}

fn parse_entry<'a>(
    cursor: &mut Cursor<'a>,
    version: u32,
    hash: usize,
    previous: &Cow<'a, [u8]>,
) -> Result<Entry<'a>, FormatError> {
    let start = cursor.at;
    let mut word = || cursor.u32();
    let (ctime, mtime) = ([word()?, word()?], [word()?, word()?]);
    let (dev, ino, mode) = (word()?, word()?, word()?);
    let (uid, gid, size) = (word()?, word()?, word()?);
    let oid = Cow::Borrowed(cursor.take(hash)?);
    let flags = cursor.u16()?;
    let extended = if flags & 0x4000 == 0 {
        0
    } else if version == 2 {
        return Err(FormatError("an entry has flags of a later version"));
    } else {
        cursor.u16()?
    };
    let path = if version == 4 {
        let strip = cursor.varint()?;
        let keep = previous
            .len()
            .checked_sub(strip)
            .ok_or(FormatError("a path is too short"))?;
        let suffix = cursor.until_nul()?;
        if keep == 0 {
            Cow::Borrowed(suffix)
        } else {
            let mut path = Vec::with_capacity(keep + suffix.len());
            path.extend_from_slice(&previous[..keep]);
            path.extend_from_slice(suffix);
            // Paths are bounded by the system; without this, few bytes could ask for very many.
            if path.len() > 1 << 16 {
                return Err(FormatError("a path is too long"));
            }
            Cow::Owned(path)
        }
    } else {
        let known = usize::from(flags & 0x0fff);
        let path = if known < 0x0fff {
            let path = cursor.take(known)?;
            if path.contains(&0) {
                return Err(FormatError("a path has a NUL"));
            }
            path
        } else {
            let path = cursor.until_nul()?;
            cursor.at -= 1;
            path
        };
        // One to eight NULs, up to a multiple of eight.
        let length = cursor.at - start;
        cursor.take(8 - length % 8)?;
        Cow::Borrowed(path)
    };
    Ok(Entry {
        path,
        stat: Stat {
            ctime,
            mtime,
            dev,
            ino,
            uid,
            gid,
            size,
        },
        mode,
        oid,
        stage: ((flags >> 12) & 3) as u8,
        assume_valid: flags & 0x8000 != 0,
        skip_worktree: extended & 0x4000 != 0,
        intent_to_add: extended & 0x2000 != 0,
    })
}

/// Writes an index of version 2, or 3 where an entry needs it. `entries` are in git's order.
pub fn write(entries: &[Entry<'_>], trees: Option<&[u8]>, format: ObjectFormat) -> Vec<u8> {
    let is_extended = |entry: &Entry<'_>| entry.skip_worktree || entry.intent_to_add;
    let version: u32 = if entries.iter().any(is_extended) {
        3
    } else {
        2
    };
    let paths: usize = entries.iter().map(|entry| entry.path.len() + 84).sum();
    let mut out = Vec::with_capacity(paths + trees.map_or(0, <[u8]>::len) + 64);
    out.extend_from_slice(b"DIRC");
    out.extend_from_slice(&version.to_be_bytes());
    out.extend_from_slice(
        &u32::try_from(entries.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes(),
    );
    for entry in entries {
        let start = out.len();
        let stat = &entry.stat;
        for word in [
            stat.ctime[0],
            stat.ctime[1],
            stat.mtime[0],
            stat.mtime[1],
            stat.dev,
            stat.ino,
            entry.mode,
            stat.uid,
            stat.gid,
            stat.size,
        ] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(&entry.oid);
        let length = u16::try_from(entry.path.len())
            .unwrap_or(u16::MAX)
            .min(0x0fff);
        let flags = length
            | u16::from(entry.stage & 3) << 12
            | if is_extended(entry) { 0x4000 } else { 0 }
            | if entry.assume_valid { 0x8000 } else { 0 };
        out.extend_from_slice(&flags.to_be_bytes());
        if is_extended(entry) {
            let extended = if entry.skip_worktree { 0x4000u16 } else { 0 }
                | if entry.intent_to_add { 0x2000 } else { 0 };
            out.extend_from_slice(&extended.to_be_bytes());
        }
        out.extend_from_slice(&entry.path);
        let padding = 8 - (out.len() - start) % 8;
        out.extend_from_slice(&[0; 8][..padding]);
    }
    if let Some(trees) = trees {
        out.extend_from_slice(b"TREE");
        out.extend_from_slice(&u32::try_from(trees.len()).unwrap_or(u32::MAX).to_be_bytes());
        out.extend_from_slice(trees);
    }
    close(&mut out, format);
    out
}

/// Puts the checksum at the end.
fn close(out: &mut Vec<u8>, format: ObjectFormat) {
    match format {
        ObjectFormat::Sha1 => out.extend_from_slice(&sha1::Sha1::digest(&*out)),
        ObjectFormat::Sha256 => out.extend_from_slice(&sha2::Sha256::digest(&*out)),
    }
}

/// What [`rewrite`] changes and looks for.
#[derive(Debug, Clone, Copy)]
pub struct Rewrite<'a> {
    /// Whose the files are, as seen inside.
    pub uid: u32,
    /// The group whose they are, as seen inside.
    pub gid: u32,
    /// Seconds: what is known of files that changed then or later is forgotten.
    pub forget_from: i64,
    /// The raw id of the tree that the entries must add up to.
    pub tree: &'a [u8],
    /// No entry may be one of these or lie below one.
    pub masked: &'a [Vec<u8>],
}

/// Whether `path` is one of `masked` or lies below one.
pub fn is_masked(path: &[u8], masked: &[Vec<u8>]) -> bool {
    masked.iter().any(|one| {
        path.strip_prefix(one.as_slice())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    })
}

/// Changes an index where it lies, without taking it apart: with hundreds of thousands of files
/// that is several times faster. Returns the paths of its gitlinks, relative to the top.
///
/// `None`: it is damaged, of another version than 2 or 3, or not a plain list of the tree's files.
/// Then its entries may have been changed, as they would be again, but all are still there.
pub fn rewrite(bytes: &mut Vec<u8>, format: ObjectFormat, to: Rewrite<'_>) -> Option<Vec<Vec<u8>>> {
    let hash = raw_len(format);
    let body = bytes.len().checked_sub(hash)?;
    let version = word(bytes, 4)?;
    if !bytes.starts_with(b"DIRC") || !(2..=3).contains(&version) {
        return None;
    }
    let mut gitlinks = Vec::new();
    let mut at = 12;
    for _ in 0..word(bytes, 8)? {
        // Ten words of stat data and the mode, the id, flags, the path, and NULs.
        let entry = bytes.get_mut(at..body)?;
        let flags_at = 40 + hash;
        let flags = u16::from_be_bytes(entry.get(flags_at..flags_at + 2)?.try_into().ok()?);
        let mut path_at = flags_at + 2;
        if flags & 0x4000 != 0 {
            let extended = u16::from_be_bytes(entry.get(path_at..path_at + 2)?.try_into().ok()?);
            path_at += 2;
            // Not in the tree yet, or a flag of a later version.
            if version == 2 || extended & !0x4000 != 0 {
                return None;
            }
        }
        let known = usize::from(flags & 0x0fff);
        let length = if known < 0x0fff {
            known
        } else {
            entry.get(path_at..)?.iter().position(|&b| b == 0)?
        };
        let path = entry.get(path_at..path_at + length)?;
        let mode = word(entry, 24)?;
        if flags & 0x3000 != 0 || mode == TREE || is_masked(path, to.masked) || path.contains(&0) {
            return None;
        }
        if mode == GITLINK {
            gitlinks.push(path.to_owned());
        }
        if i64::from(word(entry, 8)?) >= to.forget_from {
            entry[..24].fill(0);
            entry[36..40].fill(0);
        }
        entry[28..32].copy_from_slice(&to.uid.to_be_bytes());
        entry[32..36].copy_from_slice(&to.gid.to_be_bytes());
        let end = path_at + length;
        at += end + 8 - end % 8;
    }
    let end = at;
    let mut trees = None;
    while at < body {
        let size = word(bytes, at + 4)? as usize;
        let content = at + 8..(at + 8).checked_add(size).filter(|&end| end <= body)?;
        match &bytes[at..at + 4] {
            b"TREE" => trees = Some(at..content.end),
            // Half an index, or one with directories in place of files.
            b"link" | b"sdir" => return None,
            [first, ..] if first.is_ascii_uppercase() => {}
            _ => return None,
        }
        at = content.end;
    }
    let trees = trees?;
    if root_tree(&bytes[trees.start + 8..trees.end], format) != Some(to.tree) {
        return None;
    }
    let length = trees.len();
    bytes.copy_within(trees, end);
    bytes.truncate(end + length);
    close(bytes, format);
    Some(gitlinks)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

/// The root's id in the content of the extension `TREE`, where it is valid.
fn root_tree(trees: &[u8], format: ObjectFormat) -> Option<&[u8]> {
    let rest = trees.strip_prefix(b"\0")?;
    let end = rest.iter().position(|&b| b == b'\n')?;
    // A negative count marks a tree that is not valid any more.
    if !rest[..end].first()?.is_ascii_digit() {
        return None;
    }
    rest.get(end + 1..)?.get(..raw_len(format))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries(hash: usize) -> impl Strategy<Value = Vec<Entry<'static>>> {
        let entry = (
            prop::collection::vec(1u8..=255, 1..300),
            prop::array::uniform9(any::<u32>()),
            prop::sample::select(vec![0o100_644, 0o100_755, 0o120_000, GITLINK]),
            prop::collection::vec(any::<u8>(), hash),
            0u8..4,
            any::<[bool; 3]>(),
        )
            .prop_map(|(path, stat, mode, oid, stage, flags)| Entry {
                path: path.into(),
                stat: Stat {
                    ctime: [stat[0], stat[1]],
                    mtime: [stat[2], stat[3]],
                    dev: stat[4],
                    ino: stat[5],
                    uid: stat[6],
                    gid: stat[7],
                    size: stat[8],
                },
                mode,
                oid: oid.into(),
                stage,
                assume_valid: flags[0],
                skip_worktree: flags[1],
                intent_to_add: flags[2],
            });
        prop::collection::vec(entry, 0..20)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(entries in entries(20), trees: Option<Vec<u8>>) {
            let bytes = write(&entries, trees.as_deref(), ObjectFormat::Sha1);
            let index = parse(&bytes, ObjectFormat::Sha1).unwrap();
            prop_assert_eq!(&index.entries, &entries);
            prop_assert_eq!(index.trees, trees.as_deref());
            for cut in 0..bytes.len().min(400) {
                let _ = parse(&bytes[..cut], ObjectFormat::Sha1);
            }
        }

        #[test]
        fn sha256_too(entries in entries(32)) {
            let bytes = write(&entries, None, ObjectFormat::Sha256);
            prop_assert_eq!(parse(&bytes, ObjectFormat::Sha256).unwrap().entries, entries);
        }

        #[test]
        fn noise_never_panics(
            version in 2u32..5, count: u32, noise in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            let mut bytes = b"DIRC".to_vec();
            bytes.extend_from_slice(&version.to_be_bytes());
            bytes.extend_from_slice(&count.to_be_bytes());
            bytes.extend_from_slice(&noise);
            let _ = parse(&bytes, ObjectFormat::Sha1);
            let _ = parse(&noise, ObjectFormat::Sha256);
        }
    }

    proptest! {
        #[test]
        fn rewriting_is_taking_apart_and_writing(
            mut entries in entries(20), mtime in 0u32..4, rest in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            for (number, entry) in (0u32..).zip(&mut entries) {
                entry.stage = 0;
                entry.intent_to_add = false;
                entry.stat.mtime[0] = number % 4;
            }
            let tree = [7u8; 20];
            let trees = [&b"\x0012 0\n"[..], &tree, &rest].concat();
            let mut bytes = write(&entries, Some(&trees), ObjectFormat::Sha1);
            // What git wrote behind it is left out.
            let hash = bytes.split_off(bytes.len() - 20);
            bytes.extend_from_slice(b"UNTR\0\0\0\x03abc");
            bytes.extend_from_slice(&hash);
            let to = Rewrite {
                uid: 1, gid: 2, forget_from: mtime.into(), tree: &tree, masked: &[b".cofferdam".to_vec()],
            };
            let found = rewrite(&mut bytes, ObjectFormat::Sha1, to);
            let mut gitlinks = Vec::new();
            for entry in &mut entries {
                if entry.stat.mtime[0] >= mtime {
                    entry.stat = Stat::default();
                }
                (entry.stat.uid, entry.stat.gid) = (1, 2);
                if entry.mode == GITLINK {
                    gitlinks.push(entry.path.to_vec());
                }
            }
            prop_assert_eq!(found, Some(gitlinks));
            prop_assert!(bytes == write(&entries, Some(&trees), ObjectFormat::Sha1));
        }

        #[test]
        fn what_is_not_rewritten_keeps_its_entries(entries in entries(20), cut: u16, noise: Vec<u8>) {
            let to = Rewrite {
                uid: 1, gid: 2, forget_from: 0, tree: &[7; 20], masked: &[b"x".to_vec()],
            };
            let bytes = write(&entries, None, ObjectFormat::Sha1);
            let mut whole = bytes.clone();
            prop_assert_eq!(rewrite(&mut whole, ObjectFormat::Sha1, to), None);
            prop_assert_eq!(whole.len(), bytes.len());
            let read = parse(&whole, ObjectFormat::Sha1).unwrap();
            for (read, entry) in read.entries.iter().zip(&entries) {
                prop_assert_eq!((&read.path, &read.oid, read.stage), (&entry.path, &entry.oid, entry.stage));
            }
            let mut part = bytes[..bytes.len().min(cut.into())].to_vec();
            prop_assert_eq!(rewrite(&mut part, ObjectFormat::Sha1, to), None);
            let mut noise = [&b"DIRC\0\0\0\x02\0\0\0\x05"[..], &noise].concat();
            prop_assert_eq!(rewrite(&mut noise, ObjectFormat::Sha1, to), None);
        }
    }

    #[test]
    fn a_path_of_4095_bytes_and_more() {
        for length in [4094, 4095, 4096, 5000] {
            let entry = Entry {
                path: vec![b'x'; length].into(),
                stat: Stat::default(),
                mode: 0o100_644,
                oid: vec![1; 20].into(),
                stage: 0,
                assume_valid: false,
                skip_worktree: false,
                intent_to_add: false,
            };
            let bytes = write(std::slice::from_ref(&entry), None, ObjectFormat::Sha1);
            assert_eq!(parse(&bytes, ObjectFormat::Sha1).unwrap().entries, [entry]);
        }
    }
}
