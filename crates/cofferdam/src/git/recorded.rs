//! What a before-ref holds, against what came after: which files of the user's an agent committed, and
//! whether the ref is still needed.

use std::collections::BTreeMap;
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

use super::refs::{self, Own, RefError, Transaction};
use super::{GitError, ObjectFormat, Oid, Repository};
use crate::fsx::beneath;
use crate::names::SandboxId;

/// More than this is not read again to save a ref.
const MOST_BYTES: u64 = 256 << 20;

/// Mode and blob of each path at which the user's files were not HEAD's; `None`: it was deleted.
type Recorded = BTreeMap<PathBuf, Option<(u32, String)>>;

/// What the before-ref of sandbox `id` recorded; `None` where there is no such ref.
pub async fn read(
    repo: &Repository,
    id: SandboxId,
    cancel: &CancellationToken,
) -> Result<Option<(Oid, Recorded)>, GitError> {
    let reference = refs::own(id, Own::Before);
    // Most runs have none, and asking git costs a process.
    let tables = repo.common_dir.join("reftable").exists();
    if !tables && !repo.common_dir.join(&reference).exists() {
        return Ok(None);
    }
    let Some(commit) = refs::read(repo, &reference, cancel).await? else {
        return Ok(None);
    };
    let done = repo
        .command()
        .args(["diff-tree", "-r", "-z", "--raw", "--no-renames"])
        .args(["--no-abbrev", "--ignore-submodules=none"])
        .args([&format!("{commit}^1"), commit.as_str()])
        .run(cancel)
        .await?;
    let recorded = parse(&done.stdout).ok_or_else(|| GitError::Output {
        command: "diff-tree".into(),
        what: "a change of another form".into(),
    })?;
    Ok(Some((commit, recorded)))
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

/// Of `changed`, the paths that were the user's uncommitted work when sandbox `id` started.
pub async fn taken(
    repo: &Repository,
    id: SandboxId,
    changed: &[PathBuf],
    cancel: &CancellationToken,
) -> Result<Vec<PathBuf>, GitError> {
    let Some((_, recorded)) = read(repo, id, cancel).await? else {
        return Ok(Vec::new());
    };
    let own = changed.iter().filter(|path| recorded.contains_key(*path));
    Ok(own.cloned().collect())
}

/// Deletes the before-ref of sandbox `id` where every file is still as it was recorded, and none of them was
/// committed (`taken`): then nothing was lost, and old refs do not pile up. Else it stays, and these files are not
/// as they were.
/// Nothing may write to the checkout any more.
pub async fn drop_untouched(
    repo: &Repository,
    id: SandboxId,
    taken: bool,
    cancel: &CancellationToken,
) -> Result<Vec<PathBuf>, RefError> {
    let Some((commit, recorded)) = read(repo, id, cancel).await? else {
        return Ok(Vec::new());
    };
    let (top, format) = (repo.top.as_path().to_owned(), repo.format);
    let look = tokio::task::spawn_blocking(move || compare(&top, &recorded, format));
    let Ok(Some(changed)) = look.await else {
        return Ok(Vec::new());
    };
    if changed.is_empty() && !taken {
        let reference = refs::own(id, Own::Before);
        let delete = Transaction::new("cofferdam: untouched").delete(&reference, &commit);
        delete.commit(repo, cancel).await?;
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
