//! The root of a container, where the host wants one: a child that process 1 leaves behind before it becomes the agent. Nobody inside
//! can ask it for anything: it listens at a socket of the host's, to processes that have no number here. Each connection has a server of its
//! own, as the agent's programs have one in process 1, and with it ends all that it started: process 1 has no right over that, and
//! nothing of it would stand still with the rest.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use cofferdam_guest::protocol::{self, AsRoot, GREETING, PROTOCOL, Setup};

use crate::channel::Channel;
use crate::serve::{self, Own, processes};
use crate::sys;

/// CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID and SETUID, a bit for each: all that its programs may have. The container was made with
/// SETPCAP beside them, by which the others are dropped here and all of them in process 1.
const CAPABILITIES: u32 = 0xdb;
/// All that its programs find of variables, but for those that name a file of ours: the agent's may lead to what an agent has written.
const VARIABLES: [(&str, &str); 6] = [
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("HOME", "/root"),
    ("USER", "root"),
    ("LOGNAME", "root"),
    ("SHELL", "/bin/sh"),
    ("LANG", "C.UTF-8"),
];
/// Where files of ours are: below a name that is no other container's.
const OURS: &[u8] = b"/.cofferdam-";
/// Connections that wait to be accepted.
const BACKLOG: i32 = 16;
/// How long what was killed may take to end.
const ENDING: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// Its process, once it listens. `setup`: the sandbox's, whose limits are those of its programs.
pub(crate) fn begin(setup: &Setup, listener: OwnedFd) -> io::Result<i32> {
    sys::listen(listener.as_fd(), BACKLOG)?;
    let (hear, tell) = sys::pipe()?;
    let pid = sys::fork_into(0)?;
    if pid == 0 {
        // It ends with process 1 at the latest.
        let _ = listen(setup, listener, tell);
        sys::exit(1);
    }
    drop(tell);
    File::from(hear).read_exact(&mut [0])?;
    Ok(pid)
}

fn listen(setup: &Setup, listener: OwnedFd, tell: OwnedFd) -> io::Result<Infallible> {
    let null = File::open("/dev/null")?.into();
    let [null, listener, tell] = sys::keep_only([null, listener, tell])?;
    sys::new_session()?;
    sys::set_umask(0o022);
    sys::process_option(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    sys::keep_capabilities(CAPABILITIES)?;
    sys::process_option(libc::PR_SET_DUMPABLE, 0)?;
    sys::process_option(libc::PR_SET_CHILD_SUBREAPER, 1)?;
    let mut signals = File::from(sys::signal_descriptor(&[libc::SIGCHLD])?);
    sys::write_byte(tell.as_fd())?;
    // Nothing that arrives later may become a standard descriptor.
    std::mem::forget(tell);
    sys::install_fd(null.as_raw_fd(), 2)?;
    let listener = UnixListener::from(listener);
    let mut servers = BTreeSet::new();
    loop {
        let waits = [listener.as_raw_fd(), signals.as_raw_fd()].map(sys::Wait::read);
        let ready = sys::wait_for(&waits, None)?;
        if ready[1] {
            // Only the wake-up matters.
            let _ = signals.read(&mut [0; 1024])?;
            reap(&mut servers);
        }
        if !ready[0] {
            continue;
        }
        let Ok((stream, _)) = listener.accept() else {
            // Descriptors or memory have run out, which passes.
            std::thread::sleep(LOOK);
            continue;
        };
        // Everybody inside has a number here.
        if !matches!(sys::peer(stream.as_fd()), Ok(0)) {
            continue;
        }
        match sys::fork_into(0) {
            Ok(0) => {
                std::mem::forget(listener);
                sys::install_fd(null.as_raw_fd(), 1)?;
                sys::exit(i32::from(answer(setup, stream).is_err()));
            }
            Ok(pid) => {
                servers.insert(pid);
            }
            // There are as many processes as there may be: whoever asks hears that this is the end of it.
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// What a server leaves that was killed is this process's to end.
fn reap(servers: &mut BTreeSet<i32>) {
    while let Ok(Some((pid, _))) = sys::wait(-1, false) {
        servers.remove(&pid);
    }
    let own = std::process::id().cast_signed();
    for child in processes::children(own) {
        if !servers.contains(&child) {
            for one in processes::family(child) {
                end(one.pid);
            }
        }
    }
}

fn answer(setup: &Setup, mut stream: UnixStream) -> io::Result<()> {
    sys::process_option(libc::PR_SET_CHILD_SUBREAPER, 1)?;
    let mut theirs = [0; GREETING];
    stream.read_exact(&mut theirs)?;
    stream.write_all(&protocol::greeting(PROTOCOL))?;
    if protocol::greeted(theirs) != Some(PROTOCOL) {
        return Ok(());
    }
    let mut channel = Channel::new(stream.into());
    let (AsRoot { files_of }, _) = channel.read_with_fds()?;
    let text = |(name, value): (&str, &str)| (name.into(), value.into());
    let of_ours = |(_, value): &&(_, Vec<u8>)| value.starts_with(OURS);
    let setup = Setup {
        environment: (setup.environment.iter().filter(of_ours).cloned())
            .chain(VARIABLES.map(text))
            .collect(),
        workdir: b"/".to_vec(),
        ..setup.clone()
    };
    let own = Own {
        files_of: Some(files_of),
        ..Own::default()
    };
    let served = serve::run(channel.into_socket(), &setup, Vec::new(), own);
    end_all()?;
    served
}

/// Kills what is left of what was started.
fn end_all() -> io::Result<()> {
    let own = std::process::id().cast_signed();
    let until = Instant::now() + ENDING;
    loop {
        // What is orphaned becomes a child of this process.
        for one in processes::family(own) {
            if one.pid != own && one.is_there() {
                end(one.pid);
            }
        }
        loop {
            match sys::wait(-1, false) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // There is none any more.
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if Instant::now() > until {
            return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
        }
        std::thread::sleep(LOOK);
    }
}

/// Whoever it has become: this root has no right over others' processes, but may become any of them.
fn end(pid: i32) {
    let refused = sys::kill(pid, libc::SIGKILL);
    if !matches!(&refused, Err(error) if error.raw_os_error() == Some(libc::EPERM)) {
        return;
    }
    let Some(user) = processes::user(pid) else {
        return;
    };
    if let Ok(0) = sys::fork_into(0) {
        let done = sys::become_ids(user, 0).and_then(|()| sys::kill(pid, libc::SIGKILL));
        sys::exit(i32::from(done.is_err()));
    }
}
