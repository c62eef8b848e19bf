//! A unified diff on the files of a sandbox: all of it, or nothing where it does not fit. Git applies it to the files that it names, in a jail that has nothing
//! else.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_guest::protocol::files::is_plain;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{Session, SessionError};
use crate::fsx::{self, Context, FileError, beneath};
use crate::names::SandboxId;
use crate::sandbox::browse::{Content, Kind, Peek, Sight};
use crate::sandbox::change::FileChange;
use crate::sandbox::native::jail::{self, JailOutput, JailRequest};
use crate::sandbox::{Access, Limits, Mount, MountSource};

/// So many files may one name, and so many bytes may each of them have.
const MOST: usize = 500;
const LARGEST: u64 = 16 << 20;
/// And so many all of them.
const ALL: u64 = 64 << 20;
/// Bytes of the patch itself.
const LONGEST: usize = 16 << 20;
const LIMIT: Duration = Duration::from_secs(30);
/// In the state directory, with a number.
const PLACE: &str = "patch-";
const FILES: &str = "/patch";
const ANSWER: usize = 4 << 20;
const RECOUNT: &str = "--recount";

/// Why nothing was changed, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// The sandbox cannot be worked in.
    #[error(transparent)]
    Session(#[from] Box<SessionError>),
    /// What is to be there could not be read or written on the host.
    #[error(transparent)]
    File(#[from] FileError),
    /// What is wrong with it, in git's words mostly. Nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// Others were changed.
    #[error("cannot change {}: {source}", path.display())]
    Changed {
        /// The path inside.
        path: PathBuf,
        /// What the system said inside.
        source: std::io::Error,
    },
}

impl From<SessionError> for PatchError {
    fn from(error: SessionError) -> Self {
        Self::Session(Box::new(error))
    }
}

/// A file as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
struct File {
    mode: u32,
    content: Vec<u8>,
}

impl Session {
    /// Applies a patch as `git diff` prints them, with paths below the top of the repository behind `a/` and `b/`. Returns those that it
    /// changed. Files are looked at before and changed after: what programs inside change in that moment is lost.
    pub async fn apply_patch(&self, patch: &[u8]) -> Result<Vec<PathBuf>, PatchError> {
        if patch.len() > LONGEST {
            let what = format!("the patch has more than {LONGEST} bytes");
            return Err(PatchError::Refused(what));
        }
        let _alone = self.alone_with_files().await?;
        // What a dead one left.
        let state = self.directory();
        for left in fs::read_dir(&state).context("list", &state)?.flatten() {
            if left.file_name().as_bytes().starts_with(PLACE.as_bytes()) {
                fsx::remove_tree_or_file(&left.path())?;
            }
        }
        let number =
            SandboxId::random().context("get random numbers", Path::new("/dev/urandom"))?;
        let place = self.directory().join(format!("{PLACE}{number}"));
        let done = Box::pin(self.patched(patch, &place)).await;
        fsx::remove_tree_or_file(&place)?;
        done
    }

    async fn patched(&self, patch: &[u8], place: &Path) -> Result<Vec<PathBuf>, PatchError> {
        if let Some(part) = goes_in_by_its_number(patch) {
            let part = String::from_utf8_lossy(part);
            let what = format!(
                "the part `{part}` has no line that is there: add a line before or behind what it adds"
            );
            return Err(PatchError::Refused(what));
        }
        fsx::private_dir(place)?;
        // Who counts the lines of a part wrong has its lines counted; git takes files without a line `diff --git` for lines then.
        let (told, counts) = match self.git_apply(patch, place, &["--numstat", "-z"]).await {
            Err(PatchError::Refused(why)) if why.contains("corrupt patch") => {
                let how = [RECOUNT, "--numstat", "-z"];
                let told = self.git_apply(patch, place, &how).await;
                (told.map_err(|_| PatchError::Refused(why))?, Some(RECOUNT))
            }
            told => (told?, None),
        };
        let mut names = named(&told).ok_or_else(|| {
            PatchError::Refused("git does not say which files it names".to_owned())
        })?;
        names.extend(taken_from(patch));
        names.sort();
        names.dedup();
        if names.is_empty() || names.len() > MOST {
            let what = format!("it names {} files; 1 to {MOST} go at a time", names.len());
            return Err(PatchError::Refused(what));
        }
        let top = self.workdir()?;
        let mut read = 0;
        let mut straight = BTreeSet::new();
        let mut before: BTreeMap<PathBuf, Option<File>> = BTreeMap::new();
        for name in names {
            let shown = String::from_utf8_lossy(&name).into_owned();
            let is_git = |part: &[u8]| part.eq_ignore_ascii_case(b".git");
            if !is_plain(&name) || name.split(|&byte| byte == b'/').any(is_git) {
                let what = format!("the path `{shown}` leads out of the repository");
                return Err(PatchError::Refused(what));
            }
            let path = PathBuf::from(OsStr::from_bytes(&name));
            for above in path.ancestors().skip(1) {
                // What is below one that is there is made, or was looked at.
                if straight.contains(above) || self.is_straight(&top.join(above), &shown).await? {
                    straight.insert(above.to_owned());
                    break;
                }
            }
            let file = self.file(&top.join(&path), &shown).await?;
            if let Some(File { mode, content }) = &file {
                read += content.len() as u64;
                if read > ALL {
                    let what = format!("the files that it names have more than {ALL} bytes");
                    return Err(PatchError::Refused(what));
                }
                let to = place.join(&path);
                if let Some(parent) = to.parent() {
                    fs::create_dir_all(parent).context("create", parent)?;
                }
                fsx::write_with_mode(&to, content, mode | 0o600)?;
            }
            before.insert(path, file);
        }
        // Git takes a part that ends without a line around it for the end of the file, unless it is told not to.
        let how = counts.into_iter().chain(["--apply", "--unidiff-zero"]);
        let how: Vec<&str> = how.collect();
        self.git_apply(patch, place, &how).await?;
        let mut changed: Vec<(PathBuf, Option<File>)> = Vec::new();
        for (path, was) in before {
            let is = after(place, &path)?;
            // Git knows no mode but whether it is executable.
            let is = is.map(|file| File {
                mode: was.as_ref().map_or(0o644, |was| was.mode & !0o111) | (file.mode & 0o111),
                ..file
            });
            if is != was {
                changed.push((path, is));
            }
        }
        let places: Vec<PathBuf> = changed.iter().map(|(path, _)| top.join(path)).collect();
        let changes: Vec<FileChange<'_>> = changed
            .iter()
            .zip(&places)
            .map(|((_, file), path)| match file {
                Some(file) => FileChange::Write {
                    path,
                    mode: file.mode,
                    content: &file.content,
                },
                None => FileChange::Remove { path },
            })
            .collect();
        let done = self.change_files(&changes).await?;
        for ((path, _), done) in changed.iter().zip(done) {
            done.map_err(|source| PatchError::Changed {
                path: path.clone(),
                source,
            })?;
        }
        Ok(changed.into_iter().map(|(path, _)| path).collect())
    }

    /// Whether something is there; that no link leads there, as none is followed to what is changed.
    async fn is_straight(&self, path: &Path, shown: &str) -> Result<bool, PatchError> {
        let (mut is_there, mut real) = (false, None);
        let mut hear = |sight| {
            match sight {
                Sight::Thing(_) => is_there = true,
                Sight::At(path) => real = Some(path),
                _ => {}
            }
            ControlFlow::Continue(())
        };
        self.browse(&Peek::at(path), &mut hear).await?;
        if is_there && real.is_some_and(|real| Path::new(OsStr::from_bytes(&real)) != path) {
            let what = format!("`{shown}`: a directory on the way is a link");
            return Err(PatchError::Refused(what));
        }
        Ok(is_there)
    }

    /// `None`: there is none.
    async fn file(&self, path: &Path, shown: &str) -> Result<Option<File>, PatchError> {
        let place = Peek::at(path).unfollowed().with_content(Content {
            offset: 0,
            length: LARGEST,
            largest: LARGEST,
        });
        let (mut thing, mut content, mut unread) = (None, Vec::new(), None);
        let mut hear = |sight| {
            match sight {
                Sight::Thing(one) => thing = Some(one),
                Sight::Part(bytes) => content.extend(bytes),
                Sight::Unread { error, .. } => unread = Some(error),
                Sight::Target(_) | Sight::At(_) => {}
            }
            ControlFlow::Continue(())
        };
        self.browse(&place, &mut hear).await?;
        let refused = |why: String| Err(PatchError::Refused(format!("`{shown}`: {why}")));
        match (thing, unread) {
            (None, Some(libc::ENOENT | libc::ENOTDIR)) => Ok(None),
            (_, Some(number)) => refused(std::io::Error::from_raw_os_error(number).to_string()),
            (Some(thing), None) if thing.kind == Kind::File && thing.size <= LARGEST => {
                Ok(Some(File {
                    mode: thing.mode,
                    content,
                }))
            }
            (Some(thing), None) if thing.kind == Kind::File => {
                refused(format!("it has more than {LARGEST} bytes"))
            }
            _ => refused("it is there, and no file".to_owned()),
        }
    }

    async fn git_apply(
        &self,
        patch: &[u8],
        place: &Path,
        how: &[&str],
    ) -> Result<Vec<u8>, PatchError> {
        let words = ["git", "apply", "--whitespace=nowarn"];
        let words = words.iter().chain(how).copied();
        let request = JailRequest {
            mounts: vec![Mount {
                source: MountSource::Path(place.to_owned()),
                target: FILES.into(),
                access: Access::ReadWrite,
            }],
            arguments: words.map(Into::into).collect(),
            environment: [("GIT_CONFIG_NOSYSTEM", "1"), ("LC_ALL", "C")]
                .map(|(name, value)| (name.into(), value.into()))
                .into(),
            directory: FILES.into(),
            stdin: patch.to_vec(),
            stdout: JailOutput::Capture(ANSWER),
            limits: Limits {
                processes: Some(64),
                ..Limits::default()
            },
            timeout: LIMIT,
        };
        let done = jail::run(request, &self.caller.cancel).await;
        let done = done.map_err(|source| self.failed(source))?;
        if done.exit.success() {
            return Ok(done.stdout);
        }
        let said = String::from_utf8_lossy(&done.stderr_tail);
        let said: Vec<&str> = said
            .lines()
            .map(|line| line.strip_prefix("error: ").unwrap_or(line))
            // An option that nobody here can give.
            .map(|line| line.split(" (allow with ").next().unwrap_or(line))
            .collect();
        Err(PatchError::Refused(said.join("; ")))
    }
}

/// A part that says by nothing but a number where it belongs.
fn goes_in_by_its_number(patch: &[u8]) -> Option<&[u8]> {
    let lines = patch.split(|&byte| byte == b'\n');
    let mut parts = lines.filter(|line| line.starts_with(b"@@ -"));
    parts.find(|part| {
        let old = part[4..].split(|&byte| byte == b' ').next();
        // Of a file that is made, or is empty, there are none.
        old.is_some_and(|old| old != b"0,0" && old.ends_with(b",0"))
    })
}

/// Where files come from that get another name or a copy: git tells only where they go to.
fn taken_from(patch: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let lines = patch.split(|&byte| byte == b'\n');
    lines.filter_map(|line| {
        let from = [&b"rename from "[..], b"copy from "];
        let name = from.iter().find_map(|word| line.strip_prefix(*word))?;
        Some(name.strip_suffix(b"\r").unwrap_or(name).to_vec())
    })
}

/// Of `git apply --numstat -z`: two numbers and a path.
fn named(told: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    let mut words = told.split(|&byte| byte == 0);
    while let Some(word) = words.next().filter(|word| !word.is_empty()) {
        let name = word.splitn(3, |&byte| byte == b'\t').nth(2)?;
        names.push(name.to_vec());
    }
    Some(names)
}

/// What git made of it. `None`: it is gone.
fn after(place: &Path, path: &Path) -> Result<Option<File>, PatchError> {
    let failed = |errno: Errno| FileError::new("read", place.join(path), errno.into());
    let root = beneath::root(place).map_err(failed)?;
    let opened = match beneath::open(root, path, OFlags::RDONLY) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(Errno::LOOP) => None,
        opened => Some(fs::File::from(opened.map_err(failed)?)),
    };
    let found = opened
        .as_ref()
        .and_then(|file| file.metadata().ok())
        .filter(fs::Metadata::is_file);
    let (Some(file), Some(found)) = (opened, found) else {
        let what = format!("it makes `{}`, which is no file", path.display());
        return Err(PatchError::Refused(what));
    };
    let mut content = Vec::new();
    let read = file.take(LARGEST + 1).read_to_end(&mut content);
    read.context("read", &place.join(path))?;
    if content.len() as u64 > LARGEST {
        let what = format!("`{}` has more than {LARGEST} bytes", path.display());
        return Err(PatchError::Refused(what));
    }
    let mode = found.permissions().mode() & 0o777;
    Ok(Some(File { mode, content }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_of_one_that_gets_another_are_known() {
        let told = b"1\t2\ta b\x000\t0\tnew\0-\t-\tbin\0";
        assert_eq!(named(told).unwrap(), [&b"a b"[..], b"new", b"bin"]);
        let patch = b"rename from a b\r\nrename to c\ncopy from d\n+rename from e\n";
        let from: Vec<_> = taken_from(patch).collect();
        assert_eq!(from, [&b"a b"[..], b"d"]);
        assert_eq!(named(b"").unwrap(), [b""; 0]);
        assert_eq!(named(b"1\t2\0"), None);
    }
}
