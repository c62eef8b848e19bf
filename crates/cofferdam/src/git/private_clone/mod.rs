//! A private clone: the sandbox's own git directory, made in constant time and without git.
//!
//! It has one branch, no remotes, stash, reflogs or other refs, and no objects of its own: a
//! read-only alternate shows exactly the history of its tip. Host git never opens it; what the
//! host wants to know of it, it reads as files ([`refs`]).

pub mod reading;
mod refs;
mod tidy;

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

pub use refs::{PrivateHead, PrivateRefs, RefsError, STASH, read_refs};
pub use tidy::{Tidied, tidy};

use super::identity::UserConfig;
use super::vault::Export;
use super::{Identity, ObjectFormat, Oid, Repository};
use crate::fsx::{self, Context, FileError};
use crate::names::BranchName;

/// Where the git directory is mounted inside, unless it lies over the checkout's own `.git`.
pub const INSIDE_GIT_DIR: &str = "/.cofferdam/git";
/// Where [`PrivateClone::vault`] is mounted inside, read-only.
pub const INSIDE_VAULT: &str = "/.cofferdam/vault";

/// The name of [`PrivateClone::git_dir`] in the state directory.
pub const GIT_DIR: &str = "git";
/// The name of a git directory's hooks in it, inside as well.
pub const HOOKS: &str = "hooks";

/// Larger hooks are no scripts.
const HOOK_LIMIT: u64 = 16 << 20;
const EXCLUDE_LIMIT: u64 = 64 << 20;

/// What a private clone is made of.
#[derive(Debug)]
pub struct PrivateCloneSpec<'a> {
    /// The sandbox's state directory; it exists. `git/`, `vault/`, `hooks/` and `pointer` are made
    /// in it.
    pub directory: &'a Path,
    /// The user's repository; nothing in it is changed.
    pub repo: &'a Repository,
    /// The history that goes in.
    pub export: &'a Export,
    /// Checked out inside, at the export's tip. `None`: HEAD is detached there.
    pub branch: Option<&'a BranchName>,
    /// Author of commits made inside.
    pub identity: Option<&'a Identity>,
    /// What of the user's settings goes in.
    pub config: &'a UserConfig,
    /// Whether its git can push to the host: it has a remote `host` then.
    pub pushes: bool,
    /// The index handed in, see [`super::index`].
    pub index: Option<IndexFile<'a>>,
}

/// Where an index comes from.
#[derive(Debug, Clone, Copy)]
pub enum IndexFile<'a> {
    /// These are its content.
    Bytes(&'a [u8]),
    /// A file of the host's, as it is.
    Copy(&'a Path),
}

/// The host paths of a private clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateClone {
    /// Mounted read-write. Hostile as soon as a sandbox has started.
    pub git_dir: PathBuf,
    /// Mounted read-only at [`INSIDE_VAULT`]: `pack/` holds hard links to the export's packs.
    pub vault: PathBuf,
    /// The repository's hooks, to be mounted read-only over `hooks/` of the git directory.
    pub hooks: PathBuf,
    /// A file that points at [`INSIDE_GIT_DIR`], to be mounted read-only over a linked worktree's
    /// own `.git` file.
    pub pointer: PathBuf,
}

impl PrivateClone {
    /// The paths of the private clone in the state directory `directory`, made or not.
    pub fn at(directory: &Path) -> Self {
        Self {
            git_dir: directory.join(GIT_DIR),
            vault: directory.join("vault"),
            hooks: directory.join(HOOKS),
            pointer: directory.join("pointer"),
        }
    }

    /// What it hands in to the sandbox's git, and what that has staged since.
    pub fn index(&self) -> PathBuf {
        self.git_dir.join("index")
    }

    /// What is left out without a line in any commit.
    pub fn exclusions(&self) -> PathBuf {
        self.git_dir.join("info/exclude")
    }

    /// Makes it. HEAD is written last: without it, what is there is no git directory.
    pub fn create(spec: &PrivateCloneSpec<'_>) -> Result<Self, FileError> {
        let clone = Self::at(spec.directory);
        link_packs(&clone.vault, &spec.export.packs)?;
        let git = &clone.git_dir;
        for part in [
            "objects/info",
            "objects/pack",
            "refs/heads",
            "refs/tags",
            "info",
            "hooks",
        ] {
            make_dir(&git.join(part))?;
        }
        let alternate = format!("{INSIDE_VAULT}\n");
        put(&git.join("objects/info/alternates"), alternate.as_bytes())?;
        put(&git.join("config"), configuration(spec).as_bytes())?;
        copy_exclude(spec.repo, git)?;
        if !spec.export.shallow.is_empty() {
            put(&git.join("shallow"), lines(&spec.export.shallow).as_bytes())?;
        }
        make_dir(&clone.hooks)?;
        copy_hooks(spec, &clone.hooks)?;
        let pointer = format!("gitdir: {INSIDE_GIT_DIR}\n");
        fsx::write_with_mode(&clone.pointer, pointer.as_bytes(), 0o444)?;
        match spec.index {
            Some(IndexFile::Bytes(index)) => put(&clone.index(), index)?,
            Some(IndexFile::Copy(from)) => {
                fsx::copy_with_mode(from, &clone.index(), 0o644)?;
            }
            None => {}
        }
        let tip = format!("{}\n", spec.export.tip);
        let head = match spec.branch {
            Some(branch) => {
                let loose = git.join(branch.full());
                if let Some(parent) = loose.parent() {
                    make_dir(parent)?;
                }
                put(&loose, tip.as_bytes())?;
                format!("ref: {}\n", branch.full())
            }
            None => tip,
        };
        put(&git.join("HEAD"), head.as_bytes())?;
        Ok(clone)
    }

    /// Has its git leave `paths` alone where they are not tracked: what lies over a hidden file would be
    /// taken for a new one. For a clone that no sandbox has seen yet.
    pub fn exclude(&self, paths: &[PathBuf]) -> Result<(), FileError> {
        exclude(&self.git_dir, paths)
    }

    /// The same for untracked files of whose name this is the beginning, wherever they are. It has no special characters.
    pub fn exclude_names(&self, beginning: &str) -> Result<(), FileError> {
        add_rules(&self.git_dir, format!("{beginning}*\n").as_bytes())
    }
}

/// The exclusions of a git directory without any other.
pub fn put_rules(git_dir: &Path, rules: &[u8]) -> Result<(), FileError> {
    make_dir(&git_dir.join("info"))?;
    put(&git_dir.join("info/exclude"), rules)
}

fn exclude(git_dir: &Path, paths: &[PathBuf]) -> Result<(), FileError> {
    let mut rules = Vec::new();
    for path in paths {
        rules.push(b'/');
        for &byte in path.as_os_str().as_bytes() {
            // Any other byte stands for itself; a line feed cannot be written there.
            if b"\\*?[ ".contains(&byte) {
                rules.push(b'\\');
            }
            rules.push(byte);
        }
        rules.push(b'\n');
    }
    add_rules(git_dir, &rules)
}

/// Adds lines of `info/exclude`.
fn add_rules(git_dir: &Path, rules: &[u8]) -> Result<(), FileError> {
    if rules.is_empty() {
        return Ok(());
    }
    let file = git_dir.join("info/exclude");
    let mut bytes = match fsx::read_bounded(&file, EXCLUDE_LIMIT) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(error),
    };
    bytes.push(b'\n');
    bytes.extend_from_slice(rules);
    put(&file, &bytes)
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    fsx::write_with_mode(path, bytes, 0o644)
}

/// Open for reading: the directories above are 0700, and the sandbox's uid may be another.
fn make_dir(path: &Path) -> Result<(), FileError> {
    fs::create_dir_all(path).context("create", path)
}

/// Gives the sandbox whose state directory this is a pack of its own that passed the gate: what comes later may refer
/// to what is in it.
pub fn give_back(directory: &Path, pack: &Path) -> Result<(), FileError> {
    let vault = PrivateClone::at(directory).vault;
    link_packs(&vault, std::slice::from_ref(&pack.to_owned()))
}

/// Links the packs, or copies them where they cannot be linked (another file system).
pub fn link_packs(vault: &Path, packs: &[PathBuf]) -> Result<(), FileError> {
    let directory = vault.join("pack");
    make_dir(&directory)?;
    for pack in packs {
        for suffix in ["pack", "rev", "idx"] {
            let from = pack.with_extension(suffix);
            let Some(name) = from.file_name() else {
                continue;
            };
            let to = directory.join(name);
            match fs::hard_link(&from, &to) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // Older git writes no `.rev` files.
                    if suffix != "rev" {
                        return Err(FileError::new("link", from, error));
                    }
                }
                Err(_) => {
                    fs::copy(&from, &to).context("copy", &from)?;
                }
            }
        }
    }
    Ok(())
}

fn lines(oids: &[Oid]) -> String {
    oids.iter().flat_map(|oid| [oid.as_str(), "\n"]).collect()
}

fn configuration(spec: &PrivateCloneSpec<'_>) -> String {
    let mut text = String::new();
    let mut section = |name: &str, settings: &[(&str, &str)]| {
        text.extend(["[", name, "]\n"]);
        for (key, value) in settings {
            text.extend(["\t", key, " = ", &config_value(value), "\n"]);
        }
    };
    let hooks = inside_hooks(spec.config, spec.repo.top.as_path())
        .map(|path| path.to_string_lossy().into_owned());
    let version = match spec.repo.format {
        ObjectFormat::Sha1 => "0",
        ObjectFormat::Sha256 => "1",
    };
    // `checkStat = minimal`: inode, ctime and owner differ between here and there (mounts with
    // mapped ids, copies), and must not make the first `git status` read every file.
    let mut core = vec![
        ("repositoryformatversion", version),
        ("bare", "false"),
        ("logAllRefUpdates", "true"),
        ("checkStat", "minimal"),
    ];
    for (key, value) in &spec.config.comparing {
        core.push((key, value));
    }
    if let Some(hooks) = &hooks {
        core.push(("hooksPath", hooks));
    }
    section("core", &core);
    if spec.repo.format == ObjectFormat::Sha256 {
        section("extensions", &[("objectFormat", "sha256")]);
    }
    if let Some(identity) = spec.identity {
        section(
            "user",
            &[("name", &identity.name), ("email", &identity.email)],
        );
    }
    if spec.pushes {
        // There is nothing to be fetched: what is checked out there is here.
        section(
            "remote \"host\"",
            &[("url", "cofferdam::host"), ("skipFetchAll", "true")],
        );
    }
    // A gc would repack the whole history out of the read-only alternate.
    section("gc", &[("auto", "0")]);
    section("maintenance", &[("auto", "false")]);
    text
}

/// Quoted as git-config(1) reads it. A NUL cannot come out of git's own output.
fn config_value(value: &str) -> String {
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `core.hooksPath` where it lies inside the tree, relative to its top: it is part of the work.
pub fn inside_hooks(config: &UserConfig, top: &Path) -> Option<PathBuf> {
    let path = config.hooks_path.as_deref()?;
    let relative = match path.strip_prefix(top) {
        Ok(relative) => relative,
        Err(_) if path.is_relative() => path,
        Err(_) => return None,
    };
    let mut clean = PathBuf::new();
    for component in relative.components() {
        match component {
            Component::Normal(name) if name.eq_ignore_ascii_case(".git") => return None,
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    (!clean.as_os_str().is_empty() && clean.to_str().is_some()).then_some(clean)
}

/// Copies the hooks that git would run: executable, not a sample, below the names git knows
/// (anything else beside them is for the host).
fn copy_hooks(spec: &PrivateCloneSpec<'_>, to: &Path) -> Result<(), FileError> {
    if inside_hooks(spec.config, spec.repo.top.as_path()).is_some() {
        return Ok(());
    }
    let from = match &spec.config.hooks_path {
        Some(path) => spec.repo.top.as_path().join(path),
        None => spec.repo.common_dir.join("hooks"),
    };
    let Ok(entries) = fs::read_dir(&from) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "sample")
        {
            continue;
        }
        // Links are followed: hooks are often linked to scripts elsewhere.
        let Ok(path) = path.canonicalize() else {
            continue;
        };
        let Ok(found) = fs::metadata(&path) else {
            continue;
        };
        if !found.is_file() || found.mode() & 0o111 == 0 || found.len() > HOOK_LIMIT {
            continue;
        }
        let bytes = fsx::read_bounded(&path, HOOK_LIMIT)?;
        let target = to.join(entry.file_name());
        fsx::write_with_mode(&target, &bytes, 0o555)?;
        fs::set_permissions(&target, fs::Permissions::from_mode(0o555))
            .context("make executable", &target)?;
    }
    Ok(())
}

fn copy_exclude(repo: &Repository, git: &Path) -> Result<(), FileError> {
    let path = repo.common_dir.join("info/exclude");
    match fs::read(&path) {
        Ok(bytes) => put(&git.join("info/exclude"), &bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(FileError::new("read", path, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_for_git() {
        assert_eq!(
            config_value("a \"b\" \\ #;\n"),
            "\"a \\\"b\\\" \\\\ #;\\n\""
        );
    }
}
