//! Starts a sandbox's supervisor: a process of its own, that outlives who starts it.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use cofferdam_wall::control::{self, PROTOCOL};
use cofferdam_wall::supervisor::{self as protocol, Answer, Beginning, Behind, Heard};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::net::UnixStream;

use super::error::SupervisorError;
use super::found::{Status, Supervisor, exchange, status_of};
use crate::detached;
use crate::embedded;
use crate::fsx::{self, Context, lock};
use crate::home::Home;
use crate::names::SandboxId;
use crate::wall::change::right;
use crate::wall::gateway;
use crate::wall::registration::HandedOver;

/// For the first answer: a gateway may have to be started first.
const LIMIT: Duration = Duration::from_secs(15);
/// One who only looks at the lock has it for a moment.
const LOOKERS: Duration = Duration::from_millis(40);

/// Starts the supervisor of a sandbox, which has the lock from then on for as long as it lives, and returns when it
/// answers. `lock` is the state directory's, taken or to be taken; `init` is a pidfd of the sandbox's init; `wall` is
/// its place behind the wall, with the list of rules written before. Without a gateway the status says so, and
/// why. Bounded: 15 s.
pub async fn start(
    home: &Home,
    sandbox: SandboxId,
    lock: OwnedFd,
    init: OwnedFd,
    wall: Option<HandedOver>,
) -> Result<(Supervisor, Status), SupervisorError> {
    let path = home.sandbox(sandbox);
    let supervisor = Supervisor::at(&path)?;
    let supervisor =
        supervisor.ok_or_else(|| SupervisorError::file("open", &path, Errno::NOENT))?;
    let lock = File::from(lock);
    if !lock::wait_for(&lock, &path.join("lock"), LOOKERS).await? {
        return Err(SupervisorError::Taken);
    }
    let beginning = Beginning {
        sandbox: sandbox.to_string(),
        behind: wall.as_ref().map(|wall| behind(home, wall)).transpose()?,
    };
    let frame = control::encode(&beginning)?;
    if wall.is_some() {
        fsx::private_dir(&home.allowed())?;
    }
    let mut stream = spawn(&supervisor, home)?;
    let mut along: Vec<BorrowedFd<'_>> =
        vec![lock.as_fd(), init.as_fd(), supervisor.directory.as_fd()];
    if let Some(wall) = &wall {
        let sockets = &wall.sockets;
        along.extend([
            sockets.connections.as_fd(),
            sockets.proxy.as_fd(),
            sockets.lookups.as_fd(),
            sockets.packets.as_fd(),
            wall.log.as_fd(),
        ]);
        along.extend(wall.connection.as_ref().map(AsFd::as_fd));
    }
    let begun = async {
        let (first, rest) = frame.split_at(frame.len().min(1));
        gateway::wire::send(&stream, first, &along).await?;
        exchange(&mut stream, rest).await
    };
    let heard = match tokio::time::timeout(LIMIT, begun).await {
        Ok(Ok(heard)) => heard,
        Ok(Err(SupervisorError::Ended)) => return Err(SupervisorError::Start(last_words(&path))),
        Ok(Err(error)) => return Err(error),
        Err(_) => return Err(SupervisorError::Silent(LIMIT.as_secs())),
    };
    if let Heard::Ours(Answer::Refused(why)) = heard {
        return Err(SupervisorError::Start(crate::text::printable(&why)));
    }
    Ok((supervisor, status_of(heard)?))
}

fn behind(home: &Home, wall: &HandedOver) -> Result<Behind, SupervisorError> {
    Ok(Behind {
        gateway: home.gateway(PROTOCOL).as_os_str().as_bytes().to_vec(),
        changes: right::lock_file(home).as_os_str().as_bytes().to_vec(),
        run_as: gateway::run_as().map_err(SupervisorError::Start)?,
        epoch: wall.connection.is_some().then_some(wall.epoch),
    })
}

/// Its standard input is the other end of what is returned.
fn spawn(supervisor: &Supervisor, home: &Home) -> Result<UnixStream, SupervisorError> {
    let failed =
        |what: &str, error: std::io::Error| SupervisorError::Start(format!("{what}: {error}"));
    let executable = embedded::gateway(&home.programs())
        .map_err(|error| failed("cannot make an executable memory file", error))?;
    let path = supervisor.path.join(protocol::ERRORS);
    let errors = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(&path)
        .and_then(|file| file.set_len(0).map(|()| file))
        .context("open", &path)?;
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(std::io::Error::from)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the supervisor outlives its starter and every bound: no Invocation"
    )]
    let mut command = Command::new(&executable.path);
    command
        .arg0(protocol::NAME)
        .arg(protocol::ROLE)
        .env_clear()
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(errors);
    detached::start(command).map_err(|error| failed("its program does not start", error))?;
    let ours = std::os::unix::net::UnixStream::from(ours);
    ours.set_nonblocking(true)?;
    Ok(UnixStream::from_std(ours)?)
}

/// What it said before it ended.
fn last_words(state_directory: &Path) -> String {
    let said = fsx::read_bounded(&state_directory.join(protocol::ERRORS), 64 << 10);
    let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
    let line = said.lines().rev().find(|line| !line.trim().is_empty());
    crate::text::printable(line.unwrap_or("it ended at once"))
}
