//! The guest as process 1 of namespaces that somebody else made: a container's. It makes no view and no wall. It takes
//! its set-up from the host, gives up every privilege that it was started with, and serves as any other init does.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use cofferdam_guest::protocol::{Agent, Lifetime, Network, Seen, Setup, WALL_SOCKETS};

use crate::as_root;
use crate::channel::Channel;
use crate::idmap::{self, Maps};
use crate::serve::{self, Own, Resident};
use crate::sys;
use crate::tree::{Refusal, shown};
use crate::unasked;

/// Serves until the end. `socket`: a path below a directory of the host's, which is mounted read-only inside; a host
/// process listens there. Without one it is this process's standard input. The exit code.
pub(crate) fn run(socket: Option<&Path>) -> i32 {
    let Ok(mut channel) = connect(socket) else {
        return 2;
    };
    let Ok((setup, fds)) = channel.read_setup() else {
        return 2;
    };
    match set_up(&setup, fds) {
        Ok((own, sockets)) => {
            serve::run(channel.into_socket(), &setup, sockets, own).map_or(1, |()| 0)
        }
        Err(refusal) => {
            let _ = channel.send(&refusal.into());
            1
        }
    }
}

/// The same, by who is root there and is to be somebody else: `ids` are a user's and a group's. In a user namespace of its own, and
/// executed again in it: else what `/proc` shows of this process would belong to that root, who the agent is. Without the right to
/// map root (`CAP_SETFCAP`) the kernel refuses.
pub(crate) fn run_as(socket: Option<&Path>, ids: impl Iterator<Item = OsString>) -> i32 {
    let mut ids = ids.map(|id| id.to_str().and_then(|id| id.parse().ok()));
    let (Some(socket), Some(Some(uid)), Some(Some(gid))) = (socket, ids.next(), ids.next()) else {
        return 2;
    };
    let Err(error) = execute_as((uid, gid), socket) else {
        return 2;
    };
    let Ok(mut channel) = connect(Some(socket)) else {
        return 2;
    };
    let what = format!("cannot make a user namespace of its own: {error}");
    let _ = channel.send(&Refusal::Broken(what).into());
    1
}

fn execute_as(ids: (u32, u32), socket: &Path) -> io::Result<()> {
    let own = sys::own_ids();
    sys::own_users()?;
    idmap::write_maps(1, &Maps::single(ids, own), true)?;
    // Only who has just made one may.
    sys::drop_bounding_set()?;
    let guest = sys::c_string(b"/proc/self/exe")?;
    let arguments = [b"guest", b"init".as_slice(), socket.as_os_str().as_bytes()];
    let arguments = arguments.map(sys::c_string);
    let arguments: Vec<_> = arguments.into_iter().collect::<io::Result<_>>()?;
    let error = sys::execute(&guest, &arguments, &[]);
    Err(error)
}

pub(crate) fn connect(socket: Option<&Path>) -> io::Result<Channel> {
    let inherited = sys::take_standard_input()?;
    // Nothing that arrives later may become a standard descriptor.
    sys::install_fd(1, 0)?;
    let Some(path) = socket else {
        return Ok(Channel::new(inherited));
    };
    drop(inherited);
    let stream = OwnedFd::from(UnixStream::connect(path)?);
    // Whoever gives the set-up has no number here: everybody inside has one.
    match sys::peer(stream.as_fd())? {
        0 => Ok(Channel::new(stream)),
        _ => Err(io::Error::from_raw_os_error(libc::EPERM)),
    }
}

/// What its server has, and the sockets of the wall, which whoever holds the network made.
fn set_up(setup: &Setup, mut fds: Vec<OwnedFd>) -> Result<(Own, Vec<OwnedFd>), Refusal> {
    let step = |what: &'static str| {
        move |error: io::Error| Refusal::Broken(format!("cannot {what}: {error}"))
    };
    let given = |what: &str| {
        Err(Refusal::Broken(format!(
            "{what}: where something else made the namespaces it is not the guest's to make"
        )))
    };
    if std::process::id() != 1 {
        return Err(Refusal::Broken("it is not process 1".to_owned()));
    }
    // It is read to know whom to stop: one of other namespaces would name others.
    let itself = fs::read_link("/proc/self");
    if !is_the_kernels() || !itself.is_ok_and(|itself| itself == Path::new("1")) {
        return Err(Refusal::Broken(
            "/proc is not that of its own processes".to_owned(),
        ));
    }
    if !setup.mounts.is_empty() {
        return given("a mount");
    }
    let sockets = match setup.network {
        Network::Wall if fds.len() < WALL_SOCKETS => return given("a wall"),
        Network::Wall => fds.drain(..WALL_SOCKETS).collect(),
        Network::None | Network::Open => Vec::new(),
    };
    for seen in &setup.seen {
        look(seen)?;
    }
    if let Some(expected) = &setup.expected {
        unasked::refuse(&setup.seen, expected)?;
    }
    let listener = match setup.root {
        true if fds.is_empty() => return given("a root without a way to it"),
        true => Some(fds.remove(0)),
        false => None,
    };
    let resident = resident(setup.lifetime, fds)?;
    // It keeps what this process gives up from here on.
    let root = listener.map(|listener| as_root::begin(setup, listener));
    let root = root.transpose().map_err(step("leave a root behind"))?;
    match sys::drop_bounding_set() {
        // An engine has started it without the right to do so: then no new privileges does what is to be done.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) && !setup.root => {}
        other => other.map_err(step("drop capabilities"))?,
    }
    if let Agent::Separate { uid, gid } = setup.agent {
        sys::drop_groups().map_err(step("drop groups"))?;
        sys::become_ids(uid, gid).map_err(step("take the agent's ids"))?;
    }
    let (uid, gid) = sys::own_ids();
    if uid == 0 || gid == 0 {
        return Err(Refusal::Broken(
            "it would run as user 0: it needs the agent's ids".to_owned(),
        ));
    }
    // An engine may have made it the leader of one already.
    match sys::new_session() {
        Err(error) if error.raw_os_error() != Some(libc::EPERM) => {
            return Err(step("start a session")(error));
        }
        _ => {}
    }
    sys::set_umask(0o022);
    sys::process_option(libc::PR_SET_NO_NEW_PRIVS, 1).map_err(step("refuse new privileges"))?;
    sys::clear_capabilities().map_err(step("drop capabilities"))?;
    // The agent has this process's uid: it must not be able to trace or read it.
    sys::process_option(libc::PR_SET_DUMPABLE, 0).map_err(step("refuse to be traced"))?;
    // Control groups belong to whoever made the namespaces: it stops by signals.
    let own = Own {
        resident,
        root,
        ..Own::default()
    };
    Ok((own, sockets))
}

/// Whether `/proc` is what the kernel tells, and no directory of an image.
fn is_the_kernels() -> bool {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let there = sys::open_at(libc::AT_FDCWD, c"/proc", flags, 0);
    let found = there.and_then(|there| sys::file_system(there.as_fd()));
    found.is_ok_and(|found| found == sys::PROC)
}

/// Whether an engine shows what it was asked to show. By now nobody else works in here.
fn look(seen: &Seen) -> Result<(), Refusal> {
    let target = shown(&seen.target);
    let wrong =
        |what: String| Refusal::Broken(format!("{target} is not what was mounted there: {what}"));
    let looked = || {
        let root = sys::open_at(libc::AT_FDCWD, c"/", libc::O_PATH, 0)?;
        let path = sys::c_string(&seen.target)?;
        let there = sys::open_inside(root.as_fd(), &path)?;
        let found = sys::name_at(there.as_fd(), c"")?;
        Ok((found, sys::is_read_only(there.as_fd())?))
    };
    let (found, read_only) = looked().map_err(|error: io::Error| wrong(error.to_string()))?;
    if seen
        .file
        .is_some_and(|file| file != (found.device, found.inode))
    {
        return Err(wrong("another file is there".to_owned()));
    }
    if found.begins == Some(false) {
        return Err(wrong("no mount begins there".to_owned()));
    }
    if !seen.writable && !read_only {
        return Err(wrong("it can be written".to_owned()));
    }
    if seen.writable && read_only {
        return Err(wrong("it cannot be written".to_owned()));
    }
    Ok(())
}

/// What a sandbox that outlives its maker has. Nobody is to be told that it stays.
fn resident(lifetime: Lifetime, fds: Vec<OwnedFd>) -> Result<Option<Resident>, Refusal> {
    let resident = match lifetime {
        Lifetime::WithConnection if fds.is_empty() => return Ok(None),
        Lifetime::WithConnection => None,
        Lifetime::UntilEnded => Resident::new(fds, None),
    };
    resident.map(Some).ok_or_else(|| {
        Refusal::Broken("the set-up came with other descriptors than it takes".to_owned())
    })
}
