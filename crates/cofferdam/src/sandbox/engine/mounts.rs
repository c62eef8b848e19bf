//! A sandbox's mounts, as an engine is told them. An engine takes names and looks them up itself, a moment later and as root: so
//! each file is looked at here first, and the guest sees before anything else whether it is what is there.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cofferdam_guest::protocol::Seen;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::kind::Kind;
use crate::sandbox::{Access, Mount, MountSource, SandboxError};

/// One bind mount.
#[derive(Debug)]
pub(super) struct Bind {
    /// The host's, by its real path.
    pub(super) source: PathBuf,
    pub(super) target: PathBuf,
    pub(super) writable: bool,
    pub(super) is_directory: bool,
    file: (u64, u64),
    opened: OwnedFd,
    /// It is in an overlay of an ordinary user's.
    laid: bool,
}

/// Directories that lie over one another, mounted.
#[derive(Debug)]
pub(super) struct Laid {
    pub(super) place: PathBuf,
    /// What is mounted there, where it is only as the engine sees it.
    pub(super) root: Option<OwnedFd>,
}

impl Bind {
    /// A host path, which may be of any user that the caller is or trusts.
    pub(super) fn of(source: &Path, target: &Path, access: Access) -> Result<Self, SandboxError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(source, flags, Mode::empty());
        Self::opened(
            opened.map_err(|errno| broken(source, errno))?,
            source,
            target,
            access,
        )
    }

    fn opened(
        opened: OwnedFd,
        shown: &Path,
        target: &Path,
        access: Access,
    ) -> Result<Self, SandboxError> {
        let found = rustix::fs::fstat(&opened).map_err(|errno| broken(shown, errno))?;
        let kind = FileType::from_raw_mode(found.st_mode);
        // A mounted socket can be connected to even where the mount is read-only.
        if !matches!(kind, FileType::Directory | FileType::RegularFile) {
            return Err(SandboxError::Unsupported {
                what: format!(
                    "cannot mount {}: it is no directory or regular file",
                    shown.display()
                ),
                hint: "name the directory or file itself, not a symlink to it".to_owned(),
            });
        }
        let number = std::os::fd::AsRawFd::as_raw_fd(&opened);
        let source = std::fs::read_link(format!("/proc/self/fd/{number}"));
        let source = source.map_err(|error| SandboxError::Start(error.to_string()))?;
        for path in [source.as_path(), target] {
            if path.to_str().is_none() {
                return Err(SandboxError::Unsupported {
                    what: format!(
                        "an engine cannot mount {}: its name is no UTF-8",
                        crate::text::printable_line(&path.to_string_lossy())
                    ),
                    hint: "rename it, or use `--sandbox native`".to_owned(),
                });
            }
        }
        Ok(Self {
            source,
            target: target.to_owned(),
            writable: access == Access::ReadWrite,
            is_directory: kind == FileType::Directory,
            file: (found.st_dev, found.st_ino),
            opened,
            laid: false,
        })
    }

    fn laid(laid: &Laid, target: &Path, access: Access) -> Result<Self, SandboxError> {
        let Some(root) = &laid.root else {
            return Self::of(&laid.place, target, access);
        };
        let root = root
            .try_clone()
            .map_err(|error| SandboxError::Start(error.to_string()))?;
        Ok(Self::opened(root, &laid.place, target, access)?.in_overlay(laid.place.clone()))
    }

    /// `source`: its path where the overlay is.
    fn in_overlay(self, source: PathBuf) -> Self {
        Self {
            source,
            laid: true,
            ..self
        }
    }

    /// What the guest is to find.
    pub(super) fn seen(&self) -> Seen {
        Seen {
            target: self.target.as_os_str().as_bytes().to_vec(),
            file: Some(self.file),
            writable: self.writable,
            asks: self.laid && self.writable,
        }
    }
}

/// Whether the engine takes these paths for what they are.
pub(super) fn can_be_told(kind: Kind, binds: &[Bind]) -> Result<(), SandboxError> {
    for path in binds.iter().flat_map(|bind| [&bind.source, &bind.target]) {
        let text = path.to_string_lossy();
        if text.contains(kind.never_in_paths()) {
            return Err(SandboxError::Unsupported {
                what: format!(
                    "{kind} cannot mount {}: it takes a comma, a quotation mark or a line break in a name for its own",
                    crate::text::printable_line(&text)
                ),
                hint: "rename it, or use `--sandbox native`".to_owned(),
            });
        }
    }
    Ok(())
}

fn broken(path: &Path, errno: Errno) -> SandboxError {
    SandboxError::Start(format!("cannot mount {}: {errno}", path.display()))
}

/// In the order of a sandbox's mounts; those over which a later one lies are left out. `nothing`: an empty directory
/// that nobody can write. `layered`: what lies over one another, as it is mounted already.
pub(super) fn plan(
    mounts: &[Mount],
    nothing: &Path,
    layered: &[Laid],
) -> Result<Vec<Bind>, SandboxError> {
    let mut layered = layered.iter();
    let mut binds: Vec<Bind> = Vec::new();
    for mount in mounts {
        let bind = match &mount.source {
            MountSource::Path(path) => Bind::of(path, &mount.target, mount.access)?,
            MountSource::Nothing => Bind::of(nothing, &mount.target, Access::ReadOnly)?,
            MountSource::Target => again(&binds, mount)?,
            MountSource::Layers { .. } => {
                let laid = layered.next().ok_or_else(no_layers)?;
                Bind::laid(laid, &mount.target, mount.access)?
            }
        };
        point(&binds, &bind)?;
        // An engine sorts mounts by their depth, so what this one hides must not be told.
        binds.retain(|one| !one.target.starts_with(&bind.target));
        binds.push(bind);
    }
    Ok(binds)
}

pub(super) fn no_layers() -> SandboxError {
    SandboxError::Unsupported {
        what: "layers in containers of root's engine are root's alone".to_owned(),
        hint: "use `--mode bind` or `--mode copy`, an engine of your own, or `--sandbox native`"
            .to_owned(),
    }
}

/// The mount that shows what is at a place, with the rest of the way.
fn below<'a, 'b>(binds: &'a [Bind], target: &'b Path) -> Option<(&'a Bind, &'b Path)> {
    let mut showing = binds
        .iter()
        .filter_map(|bind| Some((bind, target.strip_prefix(&bind.target).ok()?)));
    let first = showing.next()?;
    // The nearest; of the same place there is only one.
    Some(showing.fold(first, |best, next| {
        if next.1.as_os_str().len() < best.1.as_os_str().len() {
            next
        } else {
            best
        }
    }))
}

/// What an earlier mount shows at the target already. Somebody may be writing there, so no symlink is followed.
fn again(binds: &[Bind], mount: &Mount) -> Result<Bind, SandboxError> {
    let Some((bind, rest)) = below(binds, &mount.target) else {
        return Err(SandboxError::Start(format!(
            "cannot mount at {}: nothing is mounted there",
            mount.target.display()
        )));
    };
    let opened = open_below(bind.opened.as_fd(), rest);
    let opened = opened.map_err(|errno| broken(&mount.target, errno))?;
    let again = Bind::opened(opened, &mount.target, &mount.target, mount.access)?;
    Ok(if bind.laid {
        again.in_overlay(bind.source.join(rest))
    } else {
        again
    })
}

fn open_below(directory: impl AsFd, rest: &Path) -> Result<OwnedFd, Errno> {
    let rest = if rest.as_os_str().is_empty() {
        Path::new(".")
    } else {
        rest
    };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(directory, rest, flags, Mode::empty(), how)
}

/// An engine makes what is missing below a mount in the host's directory, as root: so nothing may be missing.
fn point(binds: &[Bind], bind: &Bind) -> Result<(), SandboxError> {
    let Some((parent, rest)) = below(binds, &bind.target) else {
        return Ok(());
    };
    if rest.as_os_str().is_empty() {
        return Ok(());
    }
    let refused = |what: &str| SandboxError::Unsupported {
        what: format!("cannot mount at {}: {what}", bind.target.display()),
        hint: "make it, or mount something else there".to_owned(),
    };
    let there = match open_below(parent.opened.as_fd(), rest) {
        Err(Errno::NOENT | Errno::NOTDIR) => {
            return Err(refused(
                "it does not exist in the host directory that is mounted there",
            ));
        }
        Err(Errno::LOOP) => return Err(refused("a symlink is on its path")),
        other => other.map_err(|errno| broken(&bind.target, errno))?,
    };
    let found = rustix::fs::fstat(&there).map_err(|errno| broken(&bind.target, errno))?;
    let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    if is_directory != bind.is_directory {
        let kind = if bind.is_directory {
            "a directory"
        } else {
            "a file"
        };
        return Err(refused(&format!("it is not {kind} there")));
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn mount(source: MountSource, target: &str, access: Access) -> Mount {
        Mount {
            source,
            target: target.into(),
            access,
        }
    }

    fn shown(binds: &[Bind], below: &Path) -> Vec<(String, String, bool)> {
        let of = |bind: &Bind| {
            let source = bind.source.strip_prefix(below).unwrap().to_str().unwrap();
            let target = bind.target.to_str().unwrap().to_owned();
            (source.to_owned(), target, bind.writable)
        };
        binds.iter().map(of).collect()
    }

    #[test]
    fn what_is_shown_again_comes_from_the_nearest_mount() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("tree/libs/sub")).unwrap();
        fs::create_dir_all(top.join("tree/libs/hidden")).unwrap();
        fs::create_dir_all(top.join("other/deep")).unwrap();
        fs::create_dir_all(top.join("nothing")).unwrap();
        fs::write(top.join("tree/.git"), "x").unwrap();
        fs::write(top.join("pointer"), "x").unwrap();
        let path = |name: &str| MountSource::Path(top.join(name));
        let (rw, ro) = (Access::ReadWrite, Access::ReadOnly);
        let mounts = [
            mount(path("tree"), "/w", rw),
            mount(path("pointer"), "/w/.git", ro),
            mount(MountSource::Target, "/w/libs", rw),
            mount(MountSource::Target, "/w/libs/sub", rw),
            mount(MountSource::Target, "/w/libs/hidden", rw),
            mount(MountSource::Target, "/w/libs", ro),
            mount(path("other"), "/w/libs/sub", rw),
            mount(MountSource::Target, "/w/libs/sub/deep", ro),
            mount(MountSource::Nothing, "/elsewhere", ro),
        ];
        let got = plan(&mounts, &top.join("nothing"), &[]).unwrap();
        let expected = [
            ("tree", "/w", true),
            ("pointer", "/w/.git", false),
            ("tree/libs", "/w/libs", false),
            ("other", "/w/libs/sub", true),
            ("other/deep", "/w/libs/sub/deep", false),
            ("nothing", "/elsewhere", false),
        ];
        let expected =
            expected.map(|(source, target, rw)| (source.to_owned(), target.to_owned(), rw));
        assert_eq!(shown(&got, &top), expected);
    }

    #[test]
    fn nothing_is_made_and_no_link_followed_below_a_mount() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("tree/real")).unwrap();
        symlink("/etc", top.join("tree/link")).unwrap();
        fs::write(top.join("tree/file"), "x").unwrap();
        let nothing = top.join("tree/real");
        let refused = |source: MountSource, target: &str| {
            let tree = MountSource::Path(top.join("tree"));
            let mounts = [
                mount(tree, "/w", Access::ReadWrite),
                mount(source, target, Access::ReadOnly),
            ];
            plan(&mounts, &nothing, &[]).unwrap_err().to_string()
        };
        let real = || MountSource::Path(top.join("tree/real"));
        assert!(refused(real(), "/w/missing").contains("does not exist"));
        assert!(refused(real(), "/w/link/x").contains("symlink"));
        assert!(refused(real(), "/w/file").contains("not a directory"));
        assert!(refused(MountSource::Target, "/w/link").contains("/w/link"));
        assert!(refused(MountSource::Target, "/w/link/passwd").contains("/w/link"));
        assert!(refused(MountSource::Target, "/x").contains("nothing is mounted"));
        let link = MountSource::Path(top.join("tree/link"));
        assert!(refused(link, "/x").contains("no directory or regular file"));
        let layers = MountSource::Layers {
            lower: vec![top.clone()],
            upper: None,
        };
        assert!(refused(layers, "/x").contains("layers"));
    }
}
