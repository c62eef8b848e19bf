//! What before-refs hold, against what came after: which files of the user's an agent committed, and
//! whether the refs are still needed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, OFlags};
use rustix::io::Errno;
use sha2::Digest;
use tokio_util::sync::CancellationToken;

use super::refs::{Listed, RefError, Transaction};
use super::{GitError, ObjectFormat, Oid, Repository, before};
use crate::fsx::{self, beneath};
use crate::names::SandboxId;

/// More than this is not read again to save a ref.
const MOST_BYTES: u64 = 256 << 20;
/// A larger list of refs is git's to read.
const MOST_PACKED: u64 = 16 << 20;

/// Mode and blob of each path at which the user's files were not HEAD's; `None`: it was deleted.
type Recorded = BTreeMap<PathBuf, Option<(u32, String)>>;

/// One before-ref.
#[derive(Debug)]
struct Before {
    reference: String,
    commit: Oid,
    recorded: Recorded,
}

/// What the before-refs of sandbox `id` recorded, the newest last.
async fn read(
    repo: &Repository,
    id: SandboxId,
    cancel: &CancellationToken,
) -> Result<Vec<Before>, GitError> {
    // Most runs have none, and asking git costs a process.
    if !may_have_one(&repo.common_dir, &before::reference(id)) {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for Listed { reference, id } in before::references(repo, id, cancel).await? {
        let done = repo
            .command()
            .args(["diff-tree", "-r", "-z", "--raw", "--no-renames"])
            .args(["--no-abbrev", "--ignore-submodules=none"])
            .args([&format!("{id}^1"), id.as_str()])
            .run(cancel)
            .await?;
        let recorded = parse(&done.stdout).ok_or_else(|| GitError::Output {
            command: "diff-tree".into(),
            what: "a change of another form".into(),
        })?;
        all.push(Before {
            reference,
            commit: id,
            recorded,
        });
    }
    Ok(all)
}

/// Whether a ref whose name begins with `first` may be there.
fn may_have_one(common_dir: &Path, first: &str) -> bool {
    let Some((directory, name)) = first.rsplit_once('/') else {
        return true;
    };
    let begins = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name().as_bytes().starts_with(name.as_bytes()))
    };
    let loose = std::fs::read_dir(common_dir.join(directory));
    if loose.is_ok_and(|mut entries| entries.any(begins)) || common_dir.join("reftable").exists() {
        return true;
    }
    match fsx::read_bounded(&common_dir.join("packed-refs"), MOST_PACKED) {
        Ok(packed) => String::from_utf8_lossy(&packed).contains(first),
        Err(error) => !error.is_not_found(),
    }
}

/// `:<mode> <mode> <id> <id> <letter>` NUL path NUL …
fn parse(output: &[u8]) -> Option<Recorded> {
    let mut recorded = Recorded::new();
    let mut fields = output.split(|&b| b == 0);
    while let Some(line) = fields.next().filter(|line| !line.is_empty()) {
        let path = PathBuf::from(OsStr::from_bytes(fields.next()?));
        let mut words = std::str::from_utf8(line).ok()?.split(' ').skip(1);
        let mode = u32::from_str_radix(words.next()?, 8).ok()?;
        let id = words.nth(1)?.to_owned();
        recorded.insert(path, (mode != 0).then_some((mode, id)));
    }
    Some(recorded)
}

/// What an agent took of the user's.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    /// Below the top.
    pub paths: Vec<PathBuf>,
    /// Where the first of them is as it was.
    pub reference: Option<String>,
}

/// Of `changed` after the commit `begins`, the paths that were the user's uncommitted work in the checkout of sandbox `id` when an agent
/// began there. What was committed since, by whomever, was not any more.
pub async fn taken(
    repo: &Repository,
    id: SandboxId,
    begins: &Oid,
    changed: &[PathBuf],
    cancel: &CancellationToken,
) -> Result<Taken, GitError> {
    let mut taken = Taken::default();
    for before in read(repo, id, cancel).await?.into_iter().rev() {
        let recorded = |path: &&PathBuf| before.recorded.contains_key(*path);
        let mut own: Vec<&PathBuf> = changed.iter().filter(recorded).collect();
        own.retain(|path| !taken.paths.contains(path));
        if own.is_empty() {
            continue;
        }
        let checked_out = format!("{}^1", before.commit);
        if let Some(checked_out) = repo.resolve(&checked_out, cancel).await?
            && checked_out != *begins
        {
            let since = repo.changed_files(&checked_out, begins, cancel).await?;
            let since: BTreeSet<PathBuf> = since.into_iter().collect();
            own.retain(|path| !since.contains(path.as_path()));
        }
        if !own.is_empty() {
            taken.reference.get_or_insert(before.reference);
            taken.paths.extend(own.into_iter().cloned());
        }
    }
    Ok(taken)
}

/// Deletes the before-refs of sandbox `id` where every file is still as it was recorded, and none of them was
/// committed (`taken`): then nothing was lost, and old refs do not pile up. Else they stay: each that has files which are not
/// as it says, with those.
/// Nothing may write to the checkout any more.
pub async fn drop_untouched(
    repo: &Repository,
    id: SandboxId,
    taken: bool,
    cancel: &CancellationToken,
) -> Result<Vec<(String, Vec<PathBuf>)>, RefError> {
    let mut changed = Vec::new();
    for before in read(repo, id, cancel).await? {
        let (top, format) = (repo.top.as_path().to_owned(), repo.format);
        let Before {
            reference,
            commit,
            recorded,
        } = before;
        let look = tokio::task::spawn_blocking(move || compare(&top, &recorded, format));
        let Ok(Some(differs)) = look.await else {
            continue;
        };
        if differs.is_empty() && !taken {
            let delete = Transaction::new("cofferdam: untouched").delete(&reference, &commit);
            delete.commit(repo, cancel).await?;
        }
        if !differs.is_empty() {
            changed.push((reference, differs));
        }
    }
    Ok(changed)
}

/// What is not as it was recorded. `None` where that cannot be told of each file, and none is known to have
/// changed.
fn compare(top: &Path, recorded: &Recorded, format: ObjectFormat) -> Option<Vec<PathBuf>> {
    let root = beneath::root(top).ok()?;
    let (mut room, mut unknown) = (MOST_BYTES, false);
    let mut changed = Vec::new();
    for (path, state) in recorded {
        let same = match state {
            None => is_gone(&root, path),
            Some((mode, id)) => is_same(&root, path, *mode, id, format, &mut room),
        };
        match same {
            Ok(true) => {}
            Ok(false) | Err(Errno::NOENT | Errno::NOTDIR) => changed.push(path.clone()),
            Err(_) => unknown = true,
        }
    }
    (!unknown || !changed.is_empty()).then_some(changed)
}

fn is_gone(root: &impl AsFd, path: &Path) -> Result<bool, Errno> {
    match look(root, path) {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(true),
        Err(error) => Err(error),
        Ok(_) => Ok(false),
    }
}

/// The directory that `path` is in, its last name, and what lies there.
fn look<'a>(
    root: &impl AsFd,
    path: &'a Path,
) -> Result<(OwnedFd, &'a OsStr, rustix::fs::Stat), Errno> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let parent = beneath::directory(root, path.parent().unwrap_or(Path::new("")))?;
    let found = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((parent, name, found))
}

/// The tree may be an agent's: no symlink is followed, nothing that blocks is read.
fn is_same(
    root: &impl AsFd,
    path: &Path,
    mode: u32,
    id: &str,
    format: ObjectFormat,
    room: &mut u64,
) -> Result<bool, Errno> {
    let (parent, name, found) = look(root, path)?;
    let content: Box<dyn Read> = match (FileType::from_raw_mode(found.st_mode), mode) {
        (FileType::Symlink, 0o120_000) => {
            let target = rustix::fs::readlinkat(&parent, name, Vec::new())?;
            Box::new(std::io::Cursor::new(target.into_bytes()))
        }
        (FileType::RegularFile, 0o100_644 | 0o100_755)
            if (found.st_mode & 0o100 != 0) == (mode == 0o100_755) =>
        {
            Box::new(File::from(beneath::open(
                &parent,
                Path::new(name),
                OFlags::RDONLY,
            )?))
        }
        _ => return Ok(false),
    };
    let size = u64::try_from(found.st_size).unwrap_or(u64::MAX);
    *room = room.checked_sub(size).ok_or(Errno::FBIG)?;
    Ok(match format {
        ObjectFormat::Sha1 => blob_id::<sha1::Sha1>(content, size),
        ObjectFormat::Sha256 => blob_id::<sha2::Sha256>(content, size),
    }
    .is_some_and(|found| found == id))
}

/// `None` where the content is not as long as it should be.
fn blob_id<D: Digest>(content: impl Read, size: u64) -> Option<String> {
    let mut digest = D::new();
    digest.update(format!("blob {size}\0"));
    let mut content = content.take(size + 1);
    let mut chunk = vec![0; 64 << 10];
    let mut seen = 0;
    loop {
        let got = content.read(&mut chunk).ok()?;
        if got == 0 {
            break;
        }
        seen += got as u64;
        digest.update(&chunk[..got]);
    }
    (seen == size).then(|| super::hex::hex(&digest.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn any_difference_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        let file = |mode, id: &str| Some((mode, id.to_owned()));
        // The ids of "x\n" and of "target", as git makes them.
        let (x, link) = (
            "587be6b4c3f93f93c489c0111bba5596147a26cb",
            "1de565933b05f74c75ff9a6520af5f9f8a5a2f1d",
        );
        crate::fsx::write_with_mode(&top.join("f"), b"x\n", 0o644).unwrap();
        symlink("target", top.join("l")).unwrap();
        let check = |path: &str, state: Option<(u32, String)>| {
            let recorded = Recorded::from([(PathBuf::from(path), state)]);
            compare(top, &recorded, ObjectFormat::Sha1) == Some(Vec::new())
        };
        assert!(check("f", file(0o100_644, x)));
        assert!(check("l", file(0o120_000, link)));
        assert!(check("gone", None) && check("f/below", None));
        assert!(!check("f", None) && !check("gone", file(0o100_644, x)));
        assert!(!check("f", file(0o100_755, x)) && !check("f", file(0o120_000, x)));
        assert!(!check("f", file(0o100_644, link)));
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(top.join("f"), mode).unwrap();
        assert!(check("f", file(0o100_755, x)));
        // A link to the same content is not the file.
        std::fs::rename(top.join("f"), top.join("moved")).unwrap();
        symlink("moved", top.join("f")).unwrap();
        assert!(!check("f", file(0o100_755, x)));
    }
}
