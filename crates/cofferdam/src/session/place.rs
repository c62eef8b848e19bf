//! Whether a host directory may be given to a sandbox at all: never one that shows Cofferdam's own home, in
//! which rules, logins and the gateway's socket are, and none that is a whole account or an engine's.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags};

use super::options::{Caller, SessionOptions};
use super::plan::error::PlanError;
use crate::fsx::{self, FileError};
use crate::git::{Repository, worktree};
use crate::home::Home;
use crate::names::BranchName;
use crate::registry::{Mode, Strategy};
use crate::sandbox::Mount;

/// Directories of daemons that do for whoever reaches them what no sandbox may do itself: their state, and
/// where their sockets are.
const DAEMONS: [&str; 7] = [
    "/run",
    "/var/run",
    "/var/lib/docker",
    "/var/lib/containers",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/lib/libvirt",
];
/// The same, of one user: below their home.
const ENGINES: [&str; 2] = [".local/share/containers", ".local/share/docker"];
/// The most of a list of mounts that is read: 4 MiB.
const MOUNTS_LIMIT: u64 = 4 << 20;

/// How a directory lies to Cofferdam's home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overlap {
    /// The home is in it, or is it.
    Holds,
    Within,
}

/// Refuses a repository in whose settings Cofferdam's own files would lie, before anything is written there.
pub(super) fn check_own(caller: &Caller, repository: &Repository) -> Result<(), PlanError> {
    let home = caller.home.path();
    let places = [repository.config_dir(), repository.kept_dir()];
    if places.iter().any(|place| real(place) == real(home)) {
        return Err(PlanError::SharedHome(home.to_owned()));
    }
    Ok(())
}

/// Refuses a workspace that no sandbox may be given, before anything is made.
pub(super) fn check(
    caller: &Caller,
    options: &SessionOptions,
    repository: &Repository,
    mode: Mode,
    strategy: &Strategy,
    branch: Option<&BranchName>,
) -> Result<(), PlanError> {
    let home = caller.home.path();
    for path in &options.copy {
        refuse_home(&repository.top.as_path().join(path), home)?;
    }
    // A private copy holds committed files alone, and lies in the home's own state.
    if mode != Mode::Bind {
        return Ok(());
    }
    let workspace = workspace(repository, strategy, branch);
    refuse_home(&workspace, home)?;
    refuse_account(&workspace, caller.user_home.as_deref())
}

/// The host directory that is mounted.
pub(super) fn workspace(
    repository: &Repository,
    strategy: &Strategy,
    branch: Option<&BranchName>,
) -> PathBuf {
    match (strategy, branch) {
        (Strategy::MergeToHead { .. } | Strategy::Branch, Some(branch)) => {
            worktree::directory(repository).join(worktree::directory_name(branch))
        }
        _ => repository.top.as_path().to_owned(),
    }
}

/// The second lock: whatever a sandbox is about to be given, none of it shows the home. What lies in the
/// home is there for this sandbox.
pub(super) fn check_mounts(mounts: &[Mount], home: &Home) -> Result<(), PlanError> {
    let shown = mounts.iter().flat_map(|mount| mount.source.shows());
    let mut holding = shown.filter(|path| overlap(path, home.path()) == Some(Overlap::Holds));
    match holding.next() {
        None => Ok(()),
        Some(directory) => Err(PlanError::ShowsHome {
            directory: directory.to_owned(),
            home: home.path().to_owned(),
        }),
    }
}

fn refuse_home(directory: &Path, home: &Path) -> Result<(), PlanError> {
    let (directory, home) = (directory.to_owned(), home.to_owned());
    match overlap(&directory, &home) {
        Some(Overlap::Holds) => Err(PlanError::ShowsHome { directory, home }),
        Some(Overlap::Within) => Err(PlanError::InHome { directory, home }),
        None => Ok(()),
    }
}

fn refuse_account(workspace: &Path, caller_home: Option<&Path>) -> Result<(), PlanError> {
    let place = real(workspace);
    let refused = |why| {
        Err(PlanError::RefusedWorkspace {
            directory: workspace.to_owned(),
            why,
        })
    };
    if place == Path::new("/") {
        return refused("it is the whole file system");
    }
    if caller_home.is_some_and(|home| real(home).starts_with(&place)) {
        return refused("your home directory is in it");
    }
    for path in daemons(caller_home).map(|path| real(&path)) {
        // Below `/run` are also directories of users for what is to be gone soon.
        let below = place.starts_with(&path) && path != Path::new("/run");
        if path.starts_with(&place) || below {
            return refused(OF_SERVICES);
        }
    }
    Ok(())
}

/// Why a directory of a daemon's is not given.
pub(super) const OF_SERVICES: &str = "services of this machine keep their files or sockets there";

/// Directories of daemons, those of one user among them.
pub(super) fn daemons(user_home: Option<&Path>) -> impl Iterator<Item = PathBuf> {
    let engines = user_home
        .into_iter()
        .flat_map(|home| ENGINES.map(|name| home.join(name)));
    let all = DAEMONS.map(PathBuf::from).into_iter();
    all.chain(engines)
}

/// Whether one of both is in the other, or is it, by whatever names.
pub(super) fn touch(one: &Path, other: &Path) -> bool {
    overlap(one, other).is_some()
}

/// What is mounted below a directory, which is named without symlinks; one of them.
pub(super) fn mounted_below(directory: &Path) -> Result<Option<PathBuf>, FileError> {
    let mounts = fsx::read_bounded(Path::new("/proc/self/mountinfo"), MOUNTS_LIMIT)?;
    let lines = mounts.split(|&byte| byte == b'\n');
    let points = lines.filter_map(|line| line.split(|&byte| byte == b' ').nth(4));
    let mut below = points
        .map(unescaped)
        .filter(|point| point != directory && point.starts_with(directory));
    Ok(below.next())
}

/// By the paths, by what their directories are (a bind mount gives one a second path), and by where they
/// lie in their file system (so it is with what is above or below a bind mount).
fn overlap(directory: &Path, home: &Path) -> Option<Overlap> {
    let (directory, home) = (real(directory), real(home));
    let itself = identity(&directory);
    if home.starts_with(&directory)
        || (itself.is_some() && home.ancestors().any(|above| identity(above) == itself))
    {
        return Some(Overlap::Holds);
    }
    let itself = identity(&home);
    if directory.starts_with(&home)
        || (itself.is_some() && directory.ancestors().any(|above| identity(above) == itself))
    {
        return Some(Overlap::Within);
    }
    let (directory, home) = (stored(&directory)?, stored(&home)?);
    if directory.0 != home.0 {
        None
    } else if home.1.starts_with(&directory.1) {
        Some(Overlap::Holds)
    } else if directory.1.starts_with(&home.1) {
        Some(Overlap::Within)
    } else {
        None
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = path.symlink_metadata().ok()?;
    Some((found.dev(), found.ino()))
}

/// Without symlinks, and without `..`; what does not exist yet will be made as it is named.
pub(super) fn real(path: &Path) -> PathBuf {
    let Some((mut place, rest)) = path.ancestors().find_map(|above| {
        let place = above.canonicalize().ok()?;
        Some((place, path.strip_prefix(above).ok()?))
    }) else {
        return path.to_owned();
    };
    for part in rest.components() {
        match part {
            Component::ParentDir => {
                place.pop();
            }
            Component::Normal(name) => place.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    place
}

/// The device and the path in its file system, whatever of that is mounted where.
fn stored(path: &Path) -> Option<(Vec<u8>, PathBuf)> {
    let above = path.ancestors().find(|above| above.exists())?;
    let found = rustix::fs::statx(CWD, above, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    let number = found.stx_mnt_id.to_string();
    let mounts = fsx::read_bounded(Path::new("/proc/self/mountinfo"), MOUNTS_LIMIT).ok()?;
    let line = mounts
        .split(|&byte| byte == b'\n')
        .find(|line| line.split(|&byte| byte == b' ').next() == Some(number.as_bytes()))?;
    let mut fields = line.split(|&byte| byte == b' ').skip(2);
    let device = fields.next()?.to_vec();
    let root = unescaped(fields.next()?);
    let point = unescaped(fields.next()?);
    let below = path.strip_prefix(point).ok()?;
    Some((device, root.join(below)))
}

/// As proc_pid_mountinfo(5) writes paths: blanks and backslashes in octal.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .filter(|_| first == b'\\')
            .and_then(|digits| {
                let digits = std::str::from_utf8(digits).ok()?;
                u8::from_str_radix(digits, 8).ok()
            });
        bytes.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{Access, MountSource};
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn homes_in_around_and_beside() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        fs::create_dir_all(top.join("user/repo")).unwrap();
        symlink(top.join("user"), top.join("link")).unwrap();
        let check = |directory: &str, home: &str, want| {
            let found = overlap(&top.join(directory), &top.join(home));
            assert_eq!(found, want, "{directory} {home}");
        };
        // None of these homes exists yet.
        check("user/repo", "user/.cofferdam", None);
        check("user/repo", "user/repo-home", None);
        check("user", "user/.cofferdam", Some(Overlap::Holds));
        check("user", "link/a/b", Some(Overlap::Holds));
        check("link", "user/a", Some(Overlap::Holds));
        check("user/repo", "user/other/../repo/a", Some(Overlap::Holds));
        check("user/repo", "link", Some(Overlap::Within));
        check("user", "link", Some(Overlap::Holds));
        fs::create_dir_all(top.join("user/a/b")).unwrap();
        check("user", "link/a/b", Some(Overlap::Holds));
        check("user/repo", "link/a/b", None);
    }

    #[test]
    fn mounts_that_show_the_home() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("user/.cofferdam"));
        fs::create_dir_all(home.state()).unwrap();
        let show = |path: &Path| {
            let mount = Mount {
                source: MountSource::Path(path.to_owned()),
                target: "/x".into(),
                access: Access::ReadOnly,
            };
            check_mounts(&[mount], &home).is_ok()
        };
        assert!(show(&home.state()));
        for path in home.path().ancestors() {
            assert!(!show(path), "{}", path.display());
        }
    }

    #[test]
    fn whole_accounts_and_engines() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("user");
        fs::create_dir_all(home.join("repo")).unwrap();
        let given = |path: &Path| refuse_account(path, Some(&home)).is_ok();
        assert!(given(&home.join("repo")));
        assert!(given(&dir.path().join("other")));
        assert!(given(Path::new("/run/user/1000/repo")));
        for path in [
            "/",
            "/run",
            "/var/run",
            "/var",
            "/var/lib/docker",
            "/var/lib/docker/volumes/a/_data",
        ] {
            assert!(!given(Path::new(path)), "{path}");
        }
        assert!(!given(&home));
        assert!(!given(dir.path()));
        assert!(!given(&home.join(".local")));
        assert!(!given(&home.join(".local/share/containers/storage")));
    }

    #[test]
    fn escapes_of_the_list_of_mounts() {
        assert_eq!(unescaped(br"/a\040b\134c\0"), Path::new(r"/a b\c\0"));
    }
}
