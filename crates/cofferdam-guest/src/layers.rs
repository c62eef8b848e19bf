//! Overlays: directories that lie over one another (docs/decisions/0012-layers.md).

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use cofferdam_guest::protocol::{Lifetime, UPPER, WORK};

use crate::sys::{self, ATTR_NODEV, ATTR_NOSUID, TreeKind};
use crate::tree::{Refusal, mount_error};

/// Where the mounts below an overlay are for a moment: a file system of ours.
const ROOM: &[(&CStr, &CStr)] = &[(c"mode", c"0700"), (c"size", c"64k")];
/// The directory of the changes there.
const CHANGES: &str = "u";
/// The kernel's own directory beside the changes, and its mark there of an overlay that did not wait for the disk: where that
/// is, the kernel mounts no other one.
const KERNELS: &str = "work";
const MARK: [&str; 2] = ["incompat", "incompat/volatile"];

/// Which attributes the kernel keeps in an overlay's directories. One directory of changes has one family all its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// `user.overlay.*`: all that an ordinary user may have.
    User,
    /// `trusted.overlay.*`: directories of the layers can be renamed.
    Trusted,
}

/// What lies over one another, as detached mounts.
#[derive(Debug)]
struct Layers {
    /// The first hides those behind it.
    lower: Vec<OwnedFd>,
    upper: Option<OwnedFd>,
    lifetime: Lifetime,
}

/// Of directories that are the caller's own, by whoever has their ids.
pub(crate) fn of_caller(
    lower: &[Vec<u8>],
    upper: Option<&[u8]>,
    lifetime: Lifetime,
) -> Result<OwnedFd, Refusal> {
    let layers = callers(lower, upper, lifetime)?;
    mount(&layers, Family::User).map_err(|error| refused(&error))
}

/// The same where others have this mount namespace too.
pub(crate) fn of_caller_apart(
    lower: &[Vec<u8>],
    upper: Option<&[u8]>,
    lifetime: Lifetime,
) -> Result<OwnedFd, Refusal> {
    let layers = callers(lower, upper, lifetime)?;
    mount_apart(&layers, None).map_err(|error| refused(&error))
}

fn callers(lower: &[Vec<u8>], upper: Option<&[u8]>, lifetime: Lifetime) -> Result<Layers, Refusal> {
    let open = |path: &[u8]| {
        sys::c_string(path)
            .and_then(|path| sys::clone_tree(libc::AT_FDCWD, &path, &TreeKind::Exact))
            .map_err(|error| mount_error(path, &error))
    };
    Ok(Layers {
        lower: lower
            .iter()
            .map(|path| open(path))
            .collect::<Result<_, _>>()?,
        upper: upper.map(open).transpose()?,
        lifetime,
    })
}

/// Of directories of root's, for a sandbox with other ids: they are mapped by `prepare`.
pub(crate) fn of_root(
    lower: &[Vec<u8>],
    upper: Option<&[u8]>,
    lifetime: Lifetime,
    ids: (u32, u32),
    mut prepare: impl FnMut(&[u8]) -> Result<OwnedFd, Refusal>,
) -> Result<OwnedFd, Refusal> {
    let layers = Layers {
        lower: lower
            .iter()
            .map(|path| prepare(path))
            .collect::<Result<_, _>>()?,
        upper: upper.map(prepare).transpose()?,
        lifetime,
    };
    mount_apart(&layers, Some(ids)).map_err(|error| refused(&error))
}

fn refused(error: &io::Error) -> Refusal {
    Refusal::Unsupported {
        what: format!("cannot lay directories over one another (overlayfs): {error}"),
        hint: "use `--mode bind`, or a kernel and file system that can: see `cofferdam doctor`"
            .to_owned(),
    }
}

/// Mounts an overlay that is not attached anywhere yet. The caller has a mount namespace of its own, with all
/// capabilities in it. No name of the host is in the mount's options: what is mounted is at names of ours for a moment.
fn mount(layers: &Layers, family: Family) -> io::Result<OwnedFd> {
    let here = sys::open_at(libc::AT_FDCWD, c".", libc::O_PATH | libc::O_DIRECTORY, 0)?;
    let slash = sys::open_at(libc::AT_FDCWD, c"/", libc::O_PATH, 0)?;
    let room = sys::new_filesystem(c"tmpfs", ROOM, ATTR_NOSUID | ATTR_NODEV)?;
    // Paths still resolve in what is below it.
    sys::attach(room.as_fd(), slash.as_fd())?;
    sys::change_directory(room.as_fd())?;
    let made = overlay(layers, family);
    let left = sys::unmount_here();
    sys::change_directory(here.as_fd())?;
    left?;
    made
}

/// In the current directory, which is empty.
fn overlay(layers: &Layers, family: Family) -> io::Result<OwnedFd> {
    let show = |tree: &OwnedFd, name: &str| {
        let name = sys::c_string(name.as_bytes())?;
        sys::make_directory(libc::AT_FDCWD, &name, 0o700)?;
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let place = sys::open_at(libc::AT_FDCWD, &name, flags, 0)?;
        sys::attach(tree.as_fd(), place.as_fd())
    };
    let mut names = Vec::new();
    for (number, tree) in layers.lower.iter().enumerate() {
        let name = number.to_string();
        show(tree, &name)?;
        names.push(name);
    }
    let text = |text: String| sys::c_string(text.as_bytes());
    // The end of any other one waits until the whole file system is on the disk, whoever wrote there.
    let volatile = layers.lifetime == Lifetime::WithConnection;
    let mut options: Vec<(&CStr, CString)> = vec![(c"lowerdir", text(names.join(":"))?)];
    if let Some(tree) = &layers.upper {
        show(tree, CHANGES)?;
        options.push((c"upperdir", text(format!("{CHANGES}/{UPPER}"))?));
        options.push((c"workdir", text(format!("{CHANGES}/{WORK}"))?));
        forget_mark()?;
        if volatile {
            options.push((c"volatile", CString::default()));
        }
    }
    match family {
        Family::User => options.push((c"userxattr", CString::default())),
        Family::Trusted => {
            let redirect = if layers.upper.is_some() {
                c"on"
            } else {
                c"follow"
            };
            options.push((c"redirect_dir", redirect.to_owned()));
            // Half a file in the upper directory would not be what its name says.
            options.push((c"metacopy", c"off".to_owned()));
        }
    }
    let options: Vec<(&CStr, &CStr)> = options
        .iter()
        .map(|(key, value)| (*key, value.as_c_str()))
        .collect();
    let made = sys::new_filesystem(c"overlay", &options, ATTR_NOSUID | ATTR_NODEV)?;
    // Where it may not write there, the kernel mounts read-only without a word.
    if layers.upper.is_some() && sys::is_read_only(made.as_fd())? {
        return Err(io::Error::from_raw_os_error(libc::EROFS));
    }
    if layers.upper.is_some() {
        open_up_kernels(volatile)?;
    }
    Ok(made)
}

/// What ended with its maker may be mounted again. Where the machine ended with it, its files are as any others that nobody
/// waited for.
fn forget_mark() -> io::Result<()> {
    match fs::remove_dir_all(format!("{CHANGES}/{WORK}/{KERNELS}/{}", MARK[0])) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The kernel makes directories there that their owner may not even remove.
fn open_up_kernels(marked: bool) -> io::Result<()> {
    let open_up = |path: &str| {
        let path = sys::c_string(format!("{CHANGES}/{WORK}/{KERNELS}/{path}").as_bytes())?;
        sys::change_mode_of(&path, 0o700)
    };
    open_up("")?;
    if marked {
        MARK.iter().try_for_each(|path| open_up(path))?;
    }
    Ok(())
}

/// The same for a caller whose mount namespace is not theirs alone, and is left as it is: a child does it in one of its own.
/// `ids`: root does it as the user whose ids the mounts are mapped to.
fn mount_apart(layers: &Layers, ids: Option<(u32, u32)>) -> io::Result<OwnedFd> {
    let family = if ids.is_some() {
        Family::Trusted
    } else {
        Family::User
    };
    let (read, write) = sys::pipe()?;
    // What the child opens is open here too.
    let pid = sys::fork_into(libc::CLONE_NEWNS | libc::CLONE_FILES)?;
    if pid == 0 {
        let made = sys::make_mounts_private()
            .and_then(|()| ids.map_or(Ok(()), |(uid, gid)| sys::act_on_files_as(uid, gid)))
            .and_then(|()| mount(layers, family));
        let answer = match &made {
            Ok(overlay) => overlay.as_raw_fd(),
            Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
        };
        // What is closed here would be closed there.
        let mut answers = ManuallyDrop::new(File::from(write));
        let _ = answers.write_all(&answer.to_ne_bytes());
        sys::exit(0);
    }
    let mut answer = [0; 4];
    sys::wait(pid, true)?;
    drop(write);
    File::from(read).read_exact(&mut answer)?;
    match i32::from_ne_bytes(answer) {
        // The child has made it and has ended: nobody else knows it.
        made if made >= 0 => Ok(sys::adopt(made)),
        errno => Err(io::Error::from_raw_os_error(-errno)),
    }
}
