//! Where host git may start to look for a repository. Below a directory that an agent can write, git would
//! find whatever repository the agent made there and obey its configuration: so the way up is walked here
//! first, without git, and ends at a `.git` that no agent could have made.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::nested;
use super::repository_error::RepositoryError;
use crate::fsx;
use crate::names::{RepoPath, Slug};

/// A longer configuration is read by git alone.
const CONFIG_LIMIT: u64 = 256 << 10;
/// A longer `.git` file is none.
const POINTER_LIMIT: u64 = 64 << 10;

/// A host directory that an agent writes, or wrote without having been collected since.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The sandbox of that agent.
    pub sandbox: Slug,
    /// The host's directory that is the agent's working directory.
    pub directory: PathBuf,
    /// Git directories in it that were there before the agent, as [`nested::scan`] names them: read-only
    /// inside, and what they lie in cannot be moved there.
    pub nested_before: Vec<PathBuf>,
    /// It is no checkout, and nothing in it is ours: its `.git` may be the agent's too.
    pub is_beside: bool,
    /// Its command still runs.
    pub in_use: bool,
}

impl Workspace {
    /// Whether the agent can have made what is at `path`, which is below the directory.
    fn writes(&self, path: &Path) -> bool {
        let own = [".git", ".cofferdam"].map(Path::new);
        let mounted = !self.is_beside && own.iter().any(|name| path.starts_with(name));
        let read_only = self.nested_before.iter().any(|nested| {
            let bare = nested.parent().filter(|_| !nested::is_dot_git(nested));
            path.starts_with(bare.unwrap_or(nested))
        });
        !mounted && !read_only
    }
}

/// Every directory that agents write now, or until their work is collected.
#[derive(Debug, Clone, Default)]
pub struct Workspaces(Vec<Workspace>);

impl Workspaces {
    /// The set of these, in any order.
    pub fn new(all: Vec<Workspace>) -> Self {
        Self(all)
    }

    /// The workspace whose agent can have made what is at `path`, which is absolute and without symlinks.
    fn writer(&self, path: &Path) -> Option<&Workspace> {
        self.0.iter().find(|workspace| {
            below(path, &workspace.directory).is_some_and(|below| workspace.writes(below))
        })
    }
}

/// A directory from which git may look for a repository: going up from it, the first one was not made by an
/// agent.
#[derive(Debug, Clone)]
pub struct Start(PathBuf);

impl Start {
    /// `path`, where git may look from there.
    pub fn find(path: &Path, workspaces: &Workspaces) -> Result<Self, RepositoryError> {
        let from = resolved(path)?;
        if workspaces.0.is_empty() {
            return Ok(Self(from));
        }
        // From the top, and not from further down: nothing that an agent makes meanwhile is in between.
        match Self::top(&from, workspaces)? {
            Some(top) => Ok(Self(top)),
            // Nothing was there, and by the time git looks there may be.
            None if workspaces.writer(&from).is_some() => {
                Err(RepositoryError::NotARepository { path: from })
            }
            None => Ok(Self(from)),
        }
    }

    /// The top of the checkout around `from`, as far as it can be told without git.
    fn top(from: &Path, workspaces: &Workspaces) -> Result<Option<PathBuf>, RepositoryError> {
        let refuse = |path: &Path| match workspaces.writer(path) {
            None => Ok(()),
            Some(writer) => Err(RepositoryError::AgentsOwn {
                path: path.to_owned(),
                sandbox: writer.sandbox.clone(),
                workspace: writer.directory.clone(),
                in_use: writer.in_use,
            }),
        };
        for above in from.ancestors() {
            let dot_git = above.join(".git");
            let Ok(found) = dot_git.symlink_metadata() else {
                continue;
            };
            refuse(&dot_git)?;
            // Git goes by an empty one.
            if found.is_dir() && dot_git.join("HEAD").symlink_metadata().is_err() {
                continue;
            }
            for directory in behind(above, &dot_git) {
                refuse(&directory)?;
            }
            return Ok(Some(above.to_owned()));
        }
        Ok(None)
    }

    /// The directory itself, absolute.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// An absolute path without symlinks, of a directory that can be read.
fn resolved(path: &Path) -> Result<PathBuf, RepositoryError> {
    let found = path.canonicalize();
    let read = found.and_then(|path| path.read_dir().map(|_| path));
    read.map_err(|source| RepositoryError::Path {
        path: path.to_owned(),
        source,
    })
}

/// The top of the checkout around `path`, for whom it is enough to know which one that is: no git is asked whether it can be
/// used. `None`: only git can say, because there is none, somebody else owns it, or its files may be elsewhere.
pub fn checkout_around(
    path: &Path,
    workspaces: &Workspaces,
) -> Result<Option<RepoPath>, RepositoryError> {
    let from = resolved(path)?;
    let Some(top) = Start::top(&from, workspaces)? else {
        return Ok(None);
    };
    let own = rustix::process::geteuid().as_raw();
    let is_own = |path: &Path| {
        path.symlink_metadata()
            .is_ok_and(|found| found.uid() == own)
    };
    if !is_own(&top) || !is_own(&top.join(".git")) {
        return Ok(None);
    }
    // Its files may be elsewhere, says git's configuration then.
    let says_where = |path: &Path| {
        ["config", "config.worktree"].iter().any(|name| {
            let text = fsx::read_bounded(&path.join(name), CONFIG_LIMIT);
            match text {
                Ok(text) => text
                    .to_ascii_lowercase()
                    .windows(8)
                    .any(|word| word == b"worktree"),
                Err(error) => !error.is_not_found(),
            }
        })
    };
    if behind(&top, &top.join(".git"))
        .iter()
        .any(|path| path.is_dir() && says_where(path))
    {
        return Ok(None);
    }
    let found = RepoPath::resolve(&top);
    Ok(Some(found.map_err(|source| RepositoryError::Path {
        path: top,
        source,
    })?))
}

/// The directories that a `.git` leads to: its target, and what that shares with others.
fn behind(top: &Path, dot_git: &Path) -> Vec<PathBuf> {
    let pointed = |file: &Path, prefix: &[u8], from: &Path| {
        let text = fsx::read_bounded(file, POINTER_LIMIT).ok()?;
        let target = from.join(target(&text, prefix)?);
        Some(target.canonicalize().unwrap_or(target))
    };
    let target = dot_git.canonicalize().ok();
    let directory = match &target {
        Some(target) if target.is_file() => pointed(target, b"gitdir: ", top),
        other => other.clone(),
    };
    let shared = directory
        .as_ref()
        .and_then(|directory| pointed(&directory.join("commondir"), b"", directory));
    target.into_iter().chain(directory).chain(shared).collect()
}

/// The directory that all checkouts of the repository at `top` share, as git finds it. `None`: there is no checkout.
pub fn shared(top: &Path) -> Option<PathBuf> {
    let dot_git = top.join(".git");
    dot_git.symlink_metadata().ok()?;
    behind(top, &dot_git).pop()
}

/// Where a repository is, whichever of its checkouts `top` is: its main one, or what they share where there is none.
pub fn main(top: &RepoPath) -> RepoPath {
    let behind = behind(top.as_path(), &top.as_path().join(".git"));
    let main = match &behind[..] {
        [.., own, shared] if own.parent() == Some(&shared.join("worktrees")) => {
            let checkout = shared.parent().filter(|_| shared.ends_with(".git"));
            checkout.or(Some(shared))
        }
        _ => None,
    };
    let main = main.and_then(|main| RepoPath::resolve(main).ok());
    main.unwrap_or_else(|| top.clone())
}

/// Where the checkouts are that share this directory, as far as it says so: the main one's, and those of linked worktrees.
pub fn checkouts(shared: &Path) -> Vec<PathBuf> {
    let of = |dot_git: &Path| dot_git.parent()?.canonicalize().ok();
    let linked = shared.join("worktrees").read_dir();
    let linked = linked.into_iter().flatten().flatten().filter_map(|entry| {
        let text = fsx::read_bounded(&entry.path().join("gitdir"), POINTER_LIMIT).ok()?;
        // Relative to that directory where git was told to write it so.
        of(&entry.path().join(target(&text, b"")?))
    });
    let main = shared.ends_with(".git").then(|| of(shared)).flatten();
    main.into_iter().chain(linked).collect()
}

/// Where git goes that reads this in a file of its own: it leaves out line ends behind the path, and nothing else, and
/// for it a path ends at a NUL.
pub(super) fn target<'t>(text: &'t [u8], prefix: &[u8]) -> Option<&'t Path> {
    let mut path = text.strip_prefix(prefix)?;
    while let [rest @ .., b'\n' | b'\r'] = path {
        path = rest;
    }
    let end = path
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(path.len());
    Some(Path::new(std::ffi::OsStr::from_bytes(&path[..end])))
}

/// Where `path` is below `directory`, by whatever name: a bind mount gives a directory a second one. Both are absolute
/// and without symlinks.
fn below<'p>(path: &'p Path, directory: &Path) -> Option<&'p Path> {
    let itself = identity(directory);
    let found = path
        .ancestors()
        .find(|above| *above == directory || same(identity(above), itself));
    found.and_then(|above| path.strip_prefix(above).ok())
}

/// Whether `path` is that directory or below it, as [`below`].
pub fn is_in(path: &Path, directory: &Path) -> bool {
    below(path, directory).is_some()
}

/// Whether both are one directory, by whatever names.
pub fn is_one(one: &Path, other: &Path) -> bool {
    one == other || same(identity(one), identity(other))
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = path.symlink_metadata().ok()?;
    Some((found.dev(), found.ino()))
}

fn same(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> bool {
    one.is_some() && one == other
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_repository_is_at_its_main_checkout_or_at_what_its_checkouts_share() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let write = |path: &str, text: &str| {
            let path = top.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            crate::fsx::write_private(&path, text.as_bytes()).unwrap();
        };
        write("main/.git/HEAD", "x");
        write("bare/HEAD", "x");
        write("main/.git/modules/sub/HEAD", "x");
        write("main/sub/.git", "gitdir: ../.git/modules/sub\n");
        for (checkout, shared) in [("one", "main/.git"), ("two", "bare")] {
            let own = format!("{shared}/worktrees/{checkout}");
            write(&format!("{own}/commondir"), "../..\n");
            write(&format!("{checkout}/.git"), &format!("gitdir: ../{own}\n"));
        }
        for (checkout, want) in [
            ("main", "main"),
            ("one", "main"),
            ("two", "bare"),
            ("main/sub", "main/sub"),
        ] {
            let found = main(&RepoPath::resolve(&top.join(checkout)).unwrap());
            assert_eq!(found.as_path(), top.join(want), "{checkout}");
        }
    }

    #[test]
    fn only_what_no_agent_made_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let repository = |name: &str| {
            fs::create_dir_all(top.join(name).join(".git")).unwrap();
            crate::fsx::write_private(&top.join(name).join(".git/HEAD"), b"x").unwrap();
        };
        for name in ["w", "w/own", "w/made", "w/.cofferdam/worktrees/x", "beside"] {
            repository(name);
        }
        fs::create_dir_all(top.join("w/plain/deep")).unwrap();
        fs::create_dir_all(top.join("w/empty/.git")).unwrap();
        fs::create_dir_all(top.join("w/own/src")).unwrap();
        fs::create_dir_all(top.join("w/separate")).unwrap();
        fs::create_dir_all(top.join("pointer")).unwrap();
        let pointer = format!("gitdir: {}\n", top.join("w/separate").display());
        crate::fsx::write_private(&top.join("pointer/.git"), pointer.as_bytes()).unwrap();
        let at_work = |in_use| {
            Workspaces::new(vec![Workspace {
                sandbox: Slug::from_text("s").unwrap(),
                directory: top.join("w"),
                nested_before: vec!["own/.git".into()],
                is_beside: false,
                in_use,
            }])
        };
        let check = |name: &str, want: Option<&str>| {
            let found = Start::find(&top.join(name), &at_work(true));
            let found = found.ok().map(|start| start.0);
            assert_eq!(found, want.map(|want| top.join(want)), "{name}");
        };
        check("w", Some("w"));
        check("w/plain/deep", Some("w"));
        check("w/own/src", Some("w/own"));
        check("w/.cofferdam/worktrees/x", Some("w/.cofferdam/worktrees/x"));
        check("beside", Some("beside"));
        check("w/made", None);
        check("w/empty", None);
        check("pointer", None);
        let error = Start::find(&top.join("w/made"), &at_work(false)).unwrap_err();
        assert!(
            matches!(error, RepositoryError::AgentsOwn { in_use: false, .. }),
            "{error}"
        );
        // In a directory that is no checkout the one at its top may be the agent's as well.
        let beside = Workspaces::new(vec![Workspace {
            is_beside: true,
            ..at_work(true).0.remove(0)
        }]);
        assert!(Start::find(&top.join("w/plain"), &beside).is_err());
        // The control: where no agent works, git is asked right there.
        let found = Start::find(&top.join("w/made"), &Workspaces::default()).unwrap();
        assert_eq!(found.path(), top.join("w/made"));
    }

    #[test]
    fn a_directory_is_itself_by_another_name() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("a/deep")).unwrap();
        fs::create_dir_all(top.join("b/deep")).unwrap();
        let other = |name: &str| {
            Path::new("/proc/self/root").join(top.join(name).strip_prefix("/").unwrap())
        };
        assert!(is_one(&other("a"), &top.join("a")));
        assert!(!is_one(&other("b"), &top.join("a")));
        assert!(is_in(&other("a/deep"), &top.join("a")));
        assert!(!is_in(&other("b/deep"), &top.join("a")));
        assert!(!is_in(&top.join("a"), &top.join("a/deep")));
        assert!(!is_one(&top.join("gone"), &top.join("also-gone")));
    }

    #[test]
    fn a_pointer_leads_where_git_goes() {
        let leads = |text: &[u8]| {
            target(text, b"gitdir: ").map(|path| path.as_os_str().as_bytes().to_vec())
        };
        assert_eq!(leads(b"gitdir: /a b\r\n\n").unwrap(), b"/a b");
        // A directory of that name may be there where the one without the blank is not.
        assert_eq!(leads(b"gitdir: /a \n").unwrap(), b"/a ");
        assert_eq!(leads(b"gitdir: /a\0/missing\n").unwrap(), b"/a");
        assert_eq!(leads(b"gitdir /a\n"), None);
    }
}
