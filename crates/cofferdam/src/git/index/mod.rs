//! The index handed in with a private clone: the entries of the source commit's tree, with what
//! the host's index knows of the files, so that the first `git status` inside reads no file that
//! did not change.

pub(super) mod cached;
pub mod format;
#[cfg(test)]
mod fuzz;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use self::format::{Entry, FormatError, GITLINK, Index, Rewrite, Stat, is_masked, parse, write};
use super::command::GitError;
use super::hex::{from_hex, hex};
use super::scratch::{CheckOutError, Scratch, UserRules};
use super::{ObjectFormat, Oid, Repository, own_files};
use crate::fsx::beneath;
use crate::fsx::{self, FileError};

/// A larger index than this is not looked at.
const LIMIT: u64 = 2 << 30;
/// Nor one larger than this that a sandbox wrote.
const HOSTILE_LIMIT: u64 = 512 << 20;

/// Why no index could be made.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// An index that is there cannot be understood.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// It could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Git could not make one.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// Whose the files are, as seen inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl Owner {
    /// The user `agent`.
    pub const AGENT: Self = Self {
        uid: 1000,
        gid: 1000,
    };
}

/// What goes into the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedIn {
    /// The index file.
    pub bytes: Vec<u8>,
    /// Paths of submodules, relative to the top; read-only inside.
    pub gitlinks: Vec<PathBuf>,
    /// Those of the hidden paths that are tracked, or have a file tracked below them. Of a submodule the history
    /// has no content.
    pub hidden: Vec<PathBuf>,
}

/// Builds the index for `tip` out of the index of `repo`'s working tree, which may have anything
/// staged, be split, sparse, in conflict or missing. What is `hidden` inside, and Cofferdam's own
/// directory, must not look deleted there: git is told to leave it alone. `scratch`: a private
/// directory that is made where it is needed, and removed.
pub async fn build(
    repo: &Repository,
    tip: &Oid,
    owner: Owner,
    hidden: &[PathBuf],
    scratch: &Path,
    cancel: &CancellationToken,
) -> Result<HandedIn, IndexError> {
    let done = build_in(repo, tip, owner, hidden, scratch, cancel).await;
    fsx::remove_tree(scratch)?;
    done
}

async fn build_in(
    repo: &Repository,
    tip: &Oid,
    owner: Owner,
    hidden: &[PathBuf],
    scratch: &Path,
    cancel: &CancellationToken,
) -> Result<HandedIn, IndexError> {
    let tree = repo.tree_of(tip, cancel).await?;
    let tree = from_hex(tree.as_str()).unwrap_or_default();
    let (host, format) = (repo.git_dir.join("index"), repo.format);
    let read = {
        let (tree, masked) = (tree.clone(), masked(hidden));
        move || read_host(&host, format, owner, masked, &tree)
    };
    let (bytes, finish) = match tokio::task::spawn_blocking(read).await {
        Ok(Ok(Host::HandedIn(done))) => return Ok(done),
        Ok(Ok(Host::Other(bytes, finish))) => (bytes, finish),
        Ok(Err(error)) => return Err(error.into()),
        Err(error) => return Err(FileError::new("read", &repo.git_dir, error.into()).into()),
    };
    let Ok(index) = parse(&bytes, repo.format) else {
        // What is not understood here is left to git.
        return from_tree(repo, tip, scratch, &[], finish, cancel).await;
    };
    let plain = !index.sparse
        && index.shared.is_none()
        && index.entries.iter().all(|entry| entry.stage == 0);
    if !plain {
        return from_tree(repo, tip, scratch, &bytes, finish, cancel).await;
    }
    let added_by_intent = index.entries.iter().any(|entry| entry.intent_to_add);
    if !added_by_intent && index.root_tree(repo.format) == Some(&tree[..]) {
        let trees = index.trees;
        return Ok(finish.write(index.entries, trees));
    }
    // git must see the same bytes: the user may be staging something right now.
    fsx::private_dir(scratch)?;
    let copy = scratch.join("index");
    fsx::write_private(&copy, &bytes)?;
    let done = repo
        .command()
        .env("GIT_INDEX_FILE", &copy)
        .args([
            "diff-index",
            "--cached",
            "--raw",
            "-z",
            "--no-renames",
            "--no-abbrev",
        ])
        .args(["--ignore-submodules=none", tip.as_str(), "--"])
        .run(cancel)
        .await?;
    let changes = first_sides(&done.stdout).ok_or_else(|| GitError::Output {
        command: "diff-index".into(),
        what: "a line in an unknown form".into(),
    })?;
    Ok(finish.write(replace(index.entries, changes), None))
}

/// What no sandbox sees: Cofferdam's own directory first, then what is hidden from this one.
fn masked(hidden: &[PathBuf]) -> Vec<Vec<u8>> {
    let own = Path::new(own_files::DIRECTORY);
    let all = std::iter::once(own).chain(hidden.iter().map(PathBuf::as_path));
    all.map(|path| path.as_os_str().as_bytes().to_vec())
        .collect()
}

/// The host's index as it was found.
enum Host {
    /// Nothing was staged: it is ready.
    HandedIn(HandedIn),
    /// It must be taken apart.
    Other(Vec<u8>, Finish),
}

/// Reads the index and, where it lists exactly the tree's files, makes the one to hand in of it.
fn read_host(
    host: &Path,
    format: ObjectFormat,
    owner: Owner,
    masked: Vec<Vec<u8>>,
    tree: &[u8],
) -> Result<Host, FileError> {
    let mut bytes = match fsx::read_bounded(host, LIMIT) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(error),
    };
    let age = fs::symlink_metadata(host).map_or(0, |found| found.mtime());
    let rewrite = Rewrite {
        uid: owner.uid,
        gid: owner.gid,
        forget_from: age,
        tree,
        masked: &masked,
    };
    Ok(match format::rewrite(&mut bytes, format, rewrite) {
        Some(gitlinks) => Host::HandedIn(HandedIn {
            bytes,
            gitlinks: gitlinks
                .into_iter()
                .map(|path| OsString::from_vec(path).into())
                .collect(),
            hidden: Vec::new(),
        }),
        None => Host::Other(
            bytes,
            Finish {
                owner,
                age,
                format,
                masked,
            },
        ),
    })
}

/// Mode and raw id of a path in the tree; `None` where the tree does not have it.
pub(super) type TreeSide = Option<(u32, Vec<u8>)>;

/// What the first of two trees has: `:<its mode> <mode> <its id> <id> <status>` NUL path NUL …
pub(super) fn first_sides(output: &[u8]) -> Option<BTreeMap<Vec<u8>, TreeSide>> {
    let mut changes = BTreeMap::new();
    let mut fields = output.split(|&b| b == 0);
    while let Some(line) = fields.next().filter(|line| !line.is_empty()) {
        let path = fields.next()?;
        let mut words = std::str::from_utf8(line.strip_prefix(b":")?)
            .ok()?
            .split(' ');
        let mode = u32::from_str_radix(words.next()?, 8).ok()?;
        let oid = from_hex(words.nth(1)?)?;
        changes.insert(path.to_owned(), (mode != 0).then_some((mode, oid)));
    }
    Some(changes)
}

/// Puts the tree's side in place of what was staged. Both inputs are in git's order.
pub(super) fn replace(
    entries: Vec<Entry<'_>>,
    changes: BTreeMap<Vec<u8>, TreeSide>,
) -> Vec<Entry<'_>> {
    let mut out = Vec::with_capacity(entries.len() + changes.len());
    let mut changes = changes.into_iter().peekable();
    let from_tree = |path: Vec<u8>, (mode, oid): (u32, Vec<u8>)| Entry {
        path: path.into(),
        stat: Stat::default(),
        mode,
        oid: oid.into(),
        stage: 0,
        assume_valid: false,
        skip_worktree: false,
        intent_to_add: false,
    };
    for entry in entries {
        let mut replaced = false;
        while let Some((path, side)) = changes.next_if(|(path, _)| **path <= *entry.path) {
            replaced |= path == *entry.path;
            out.extend(side.map(|side| from_tree(path, side)));
        }
        // What is only intended to be added is not in the tree, and not in git's answer.
        if !replaced && !entry.intent_to_add {
            out.push(entry);
        }
    }
    out.extend(changes.filter_map(|(path, side)| Some(from_tree(path, side?))));
    out
}

/// Lets git make the index from the tree, then adds what the host's index (`bytes`, and the shared
/// one where it is split) knows of files with the same content.
async fn from_tree(
    repo: &Repository,
    tip: &Oid,
    scratch: &Path,
    bytes: &[u8],
    finish: Finish,
    cancel: &CancellationToken,
) -> Result<HandedIn, IndexError> {
    fsx::private_dir(scratch)?;
    let made = scratch.join("index");
    repo.command()
        .env("GIT_INDEX_FILE", &made)
        .config("core.splitIndex=false")
        .config("index.sparse=false")
        .config("index.version=2")
        .args(["read-tree", tip.as_str()])
        .run(cancel)
        .await?;
    let made = fsx::read_bounded(&made, LIMIT)?;
    let mut made = parse(&made, repo.format)?;
    let host = parse(bytes, repo.format).unwrap_or_default();
    let shared_bytes = shared_index(repo, &host);
    let shared = parse(&shared_bytes, repo.format).unwrap_or_default();
    let mut known = HashMap::new();
    for entry in shared.entries.iter().chain(&host.entries) {
        // In a split index an entry without a path replaces one of the shared index; in a sparse
        // one, a directory stands for its files.
        if entry.stage == 0 && !entry.path.is_empty() && !entry.intent_to_add {
            known.insert(&*entry.path, entry);
        }
    }
    let outside: Vec<&[u8]> = host
        .entries
        .iter()
        .filter(|entry| host.sparse && entry.path.ends_with(b"/"))
        .map(|entry| &*entry.path)
        .collect();
    for entry in &mut made.entries {
        if let Some(found) = known.get(&*entry.path) {
            entry.skip_worktree = found.skip_worktree;
            entry.assume_valid = found.assume_valid;
            if found.oid == entry.oid && found.mode == entry.mode {
                entry.stat = found.stat;
            }
        } else {
            let at = outside.partition_point(|directory| *directory <= &*entry.path);
            entry.skip_worktree = at > 0 && entry.path.starts_with(outside[at - 1]);
        }
    }
    let trees = made.trees;
    Ok(finish.write(made.entries, trees))
}

fn shared_index(repo: &Repository, host: &Index<'_>) -> Vec<u8> {
    let Some(base) = host.shared else {
        return Vec::new();
    };
    let path = repo.git_dir.join(format!("sharedindex.{}", hex(base)));
    fsx::read_bounded(&path, LIMIT).unwrap_or_default()
}

/// The last step: what must not travel is taken out of the entries.
#[derive(Debug)]
struct Finish {
    owner: Owner,
    /// When the host's index was written, in seconds.
    age: i64,
    format: ObjectFormat,
    masked: Vec<Vec<u8>>,
}

impl Finish {
    fn write(self, mut entries: Vec<Entry<'_>>, trees: Option<&[u8]>) -> HandedIn {
        let mut gitlinks = Vec::new();
        let mut hidden = BTreeSet::new();
        for entry in &mut entries {
            if i64::from(entry.stat.mtime[0]) >= self.age {
                // The file changed in the second in which the index was written, or later: git
                // compares its content, and would stop doing so with a younger index.
                entry.stat = Stat::default();
            }
            entry.stat.uid = self.owner.uid;
            entry.stat.gid = self.owner.gid;
            let inside = std::slice::from_ref;
            if let Some(at) =
                (self.masked.iter()).position(|one| is_masked(&entry.path, inside(one)))
            {
                entry.skip_worktree = true;
                if entry.mode != GITLINK {
                    hidden.insert(at);
                }
            }
            if entry.mode == GITLINK {
                gitlinks.push(PathBuf::from(OsStr::from_bytes(&entry.path)));
            }
        }
        HandedIn {
            bytes: write(&entries, trees, self.format),
            gitlinks,
            // The first is Cofferdam's own.
            hidden: (hidden.into_iter().skip_while(|&at| at == 0))
                .map(|at| PathBuf::from(OsStr::from_bytes(&self.masked[at])))
                .collect(),
        }
    }
}

/// The index at `path`, which fits files that nobody has changed, without what is `hidden` or Cofferdam's own.
pub fn of_layers(
    path: &Path,
    format: ObjectFormat,
    owner: Owner,
    hidden: &[PathBuf],
) -> Result<HandedIn, IndexError> {
    let bytes = fsx::read_bounded(path, LIMIT)?;
    let index = parse(&bytes, format)?;
    let finish = Finish {
        owner,
        age: i64::MAX,
        format,
        masked: masked(hidden),
    };
    Ok(finish.write(index.entries, index.trees))
}

/// The size of the file `index` in a directory and its end, where git writes a sum of all that is before; none where it cannot be
/// read, or is no file. A sandbox's may be anything, and who lies there hides work of their own.
pub fn summed(directory: &Path) -> Option<(u64, [u8; 32])> {
    let root = beneath::root(directory).ok()?;
    let file = beneath::open(root, Path::new("index"), OFlags::RDONLY).ok()?;
    let file = std::fs::File::from(file);
    let found = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut end = [0; 32];
    let at = found.len().checked_sub(32)?;
    file.read_exact_at(&mut end, at).ok()?;
    Some((found.len(), end))
}

/// The index in `git_dir`, which a sandbox's git wrote, without what makes git pass over a file: no flag but of what is `hidden`,
/// and nothing known of the files `changed`. `sparse`: where the files are, of which some may never have been there; those keep
/// the flag that says so. `None`: it is not one list of files.
pub fn without_flags(
    git_dir: &Path,
    format: ObjectFormat,
    hidden: &[PathBuf],
    changed: &BTreeSet<&Path>,
    sparse: Option<&Path>,
) -> Option<Vec<u8>> {
    let files = sparse.map(beneath::root).transpose().ok()?;
    let is_absent = |path: &[u8]| {
        files.as_ref().is_some_and(|files| {
            let there = beneath::open(files, Path::new(OsStr::from_bytes(path)), OFlags::RDONLY);
            matches!(there, Err(Errno::NOENT | Errno::NOTDIR))
        })
    };
    let root = beneath::root(git_dir).ok()?;
    // A file that is as old as its index may have changed since in the same second (gitformat-index(5), racy git), and nobody would see it
    // by an index that is written now.
    let written = rustix::fs::statat(&root, "index", AtFlags::SYMLINK_NOFOLLOW);
    let written = written.ok()?.st_mtime;
    let bytes = beneath::read(root, Path::new("index"), HOSTILE_LIMIT).ok()??;
    let index = parse(&bytes, format).ok()?;
    if index.sparse || index.shared.is_some() {
        return None;
    }
    let (mut entries, masked) = (index.entries, masked(hidden));
    for entry in &mut entries {
        entry.assume_valid = false;
        entry.skip_worktree =
            entry.skip_worktree && (is_masked(&entry.path, &masked) || is_absent(&entry.path));
        let is_racy = i64::from(entry.stat.mtime[0]) >= written;
        if is_racy || changed.contains(Path::new(OsStr::from_bytes(&entry.path))) {
            entry.stat = Stat::default();
        }
    }
    // The cache of tree ids is the sandbox's word too.
    Some(write(&entries, None, format))
}

/// Writes the tree of `tip` into the empty directory `target`, out of objects alone, and makes the
/// index that goes with it: the work of a *copy* sandbox. No filter runs. `scratch`: a private
/// directory that is made and removed.
pub async fn write_tree(
    repo: &Repository,
    tip: &Oid,
    target: &Path,
    owner: Owner,
    rules: UserRules<'_>,
    scratch: &Path,
    cancel: &CancellationToken,
) -> Result<HandedIn, IndexError> {
    fsx::private_dir(scratch)?;
    let index = scratch.join("index");
    let git_dir = Scratch::create(scratch.join("git"), repo, tip, rules)?;
    let done = git_dir
        .check_out(tip, target, &index, None, None, cancel)
        .await;
    let bytes = match done {
        Ok(()) => fsx::read_bounded(&index, LIMIT),
        Err(error) => {
            fsx::remove_tree(scratch)?;
            return Err(match error {
                CheckOutError::File(error) => error.into(),
                CheckOutError::Git(error) => error.into(),
            });
        }
    };
    fsx::remove_tree(scratch)?;
    let bytes = bytes?;
    let index = parse(&bytes, repo.format)?;
    // Nobody else has seen these files, so none of them can have changed since git looked.
    let finish = Finish {
        owner,
        age: i64::MAX,
        format: repo.format,
        masked: masked(&[]),
    };
    Ok(finish.write(index.entries, index.trees))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, intent_to_add: bool) -> Entry<'_> {
        Entry {
            path: path.as_bytes().into(),
            stat: Stat {
                size: 7,
                ..Stat::default()
            },
            mode: 0o100_644,
            oid: vec![1; 20].into(),
            stage: 0,
            assume_valid: false,
            skip_worktree: false,
            intent_to_add,
        }
    }

    #[test]
    fn staged_changes_are_taken_back() {
        let entries = vec![
            entry("added", false),
            entry("changed", false),
            entry("intended", true),
            entry("same", false),
        ];
        let zero = "0".repeat(40);
        let two = "02".repeat(20);
        let raw = format!(
            ":000000 100644 {zero} {two} A\0added\0:100755 100644 {two} {zero} M\0changed\0\
             :100644 000000 {two} {zero} D\0deleted\0:120000 000000 {two} {zero} D\0zzz\0"
        );
        let out = replace(entries, first_sides(raw.as_bytes()).unwrap());
        let got: Vec<_> = out
            .iter()
            .map(|entry| {
                (
                    std::str::from_utf8(&entry.path).unwrap(),
                    entry.mode,
                    entry.oid[0],
                )
            })
            .collect();
        let want = [
            ("changed", 0o100_755, 2),
            ("deleted", 0o100_644, 2),
            ("same", 0o100_644, 1),
            ("zzz", 0o120_000, 2),
        ];
        assert_eq!(got, want);
    }
}
