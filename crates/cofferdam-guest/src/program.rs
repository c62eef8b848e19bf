//! Starting one program as the agent.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use cofferdam_guest::protocol::{ExecStep, ProcessLimits};

use crate::{pools, sys};

/// What to run; made before the fork, so that the child only makes system calls.
#[derive(Debug)]
pub(crate) struct Program {
    /// Tried in order.
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    directory: CString,
}

/// What every program is held by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds<'a> {
    pub(crate) limits: ProcessLimits,
    pub(crate) filter: &'a [libc::sock_filter],
    /// In its place where somebody answers for renames.
    pub(crate) asking: Option<&'a [libc::sock_filter]>,
}

/// What is told while a program is started.
#[derive(Debug)]
pub(crate) enum Told {
    /// Nothing that is new.
    Nothing,
    /// Its renames are asked about here.
    Listener(OwnedFd),
    /// It runs, or was killed before it could.
    Runs,
    Failed(ExecStep, i32),
    /// It has handed over what did not arrive, because descriptors have run out here.
    Lost,
}

impl Program {
    /// Of the environment the second part adds to the first.
    pub(crate) fn new(
        arguments: &[Vec<u8>],
        environment: [&[(Vec<u8>, Vec<u8>)]; 2],
        directory: &[u8],
    ) -> io::Result<Self> {
        let environment: BTreeMap<&[u8], &[u8]> = environment
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_slice(), value.as_slice()))
            .collect();
        let name = arguments.first().map(Vec::as_slice).unwrap_or_default();
        let path = environment.get(&b"PATH"[..]);
        let path = path.map_or(&b"/usr/local/bin:/usr/bin:/bin"[..], |path| *path);
        let candidates = if name.is_empty() {
            Vec::new()
        } else if name.contains(&b'/') {
            vec![sys::c_string(name)?]
        } else {
            path.split(|&b| b == b':')
                // An empty entry would be the current directory: never searched.
                .filter(|entry| !entry.is_empty())
                .map(|entry| sys::c_string(&[entry, b"/", name].concat()))
                .collect::<io::Result<_>>()?
        };
        Ok(Self {
            candidates,
            arguments: arguments
                .iter()
                .map(|a| sys::c_string(a))
                .collect::<io::Result<_>>()?,
            environment: environment
                .iter()
                .map(|(key, value)| sys::c_string(&[*key, &b"="[..], value].concat()))
                .collect::<io::Result<_>>()?,
            directory: sys::c_string(directory)?,
        })
    }

    /// Forks and executes, with these as its standard descriptors, which are its controlling terminal where `terminal`
    /// says so, in the control group if there is one. The socket tells how it went: see [`told`].
    pub(crate) fn start(
        &self,
        fds: &[OwnedFd],
        terminal: bool,
        bounds: Bounds<'_>,
        group: Option<BorrowedFd<'_>>,
    ) -> io::Result<(i32, OwnedFd)> {
        let (read, write) = sys::socket_pair()?;
        let pid = match group {
            Some(group) => sys::fork_within(group, 0)?,
            None => sys::fork_into(0)?,
        };
        if pid == 0 {
            let (step, error) = self.become_it(fds, terminal, bounds, write.as_fd());
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            let mut message = [step_code(step), 0, 0, 0, 0];
            message[1..].copy_from_slice(&errno.to_le_bytes());
            let _ = sys::write_all(write.as_fd(), &message);
            sys::exit(127);
        }
        Ok((pid, read))
    }

    fn become_it(
        &self,
        fds: &[OwnedFd],
        terminal: bool,
        bounds: Bounds<'_>,
        tell: BorrowedFd<'_>,
    ) -> (ExecStep, io::Error) {
        let prepared = (|| {
            sys::new_session()?;
            sys::reset_signals();
            for (fd, target) in fds.iter().zip(0..) {
                sys::install_fd(fd.as_raw_fd(), target)?;
            }
            sys::close_on_exec_from(3);
            if terminal {
                sys::take_terminal(0)?;
            }
            Ok(())
        })();
        if let Err(error) = prepared {
            return (ExecStep::Process, error);
        }
        if let Err(error) = sys::enter_directory(&self.directory) {
            return (ExecStep::Directory, error);
        }
        if let Err(error) = apply(bounds.limits) {
            return (ExecStep::Limits, error);
        }
        // Last: nothing after it but the program itself.
        if let Err(error) = install(bounds, tell) {
            return (ExecStep::Filter, error);
        }
        (ExecStep::Program, self.execute())
    }

    /// As execvp(3): goes on to the next candidate where there is none here, and gives a file without
    /// a format of its own to the shell.
    fn execute(&self) -> io::Error {
        let mut last = io::Error::from_raw_os_error(libc::ENOENT);
        for candidate in &self.candidates {
            let error = sys::execute(candidate, &self.arguments, &self.environment);
            match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                Some(libc::EACCES) => last = error,
                Some(libc::ENOEXEC) => {
                    let rest = self.arguments.iter().skip(1).cloned();
                    let arguments: Vec<CString> = [c"sh".to_owned(), candidate.clone()]
                        .into_iter()
                        .chain(rest)
                        .collect();
                    return sys::execute(c"/bin/sh", &arguments, &self.environment);
                }
                _ => return error,
            }
        }
        last
    }
}

/// The listener goes to whoever is told, and closes here with the program's execution.
fn install(bounds: Bounds<'_>, tell: BorrowedFd<'_>) -> io::Result<()> {
    let Some(asking) = bounds.asking else {
        return sys::install_filter(bounds.filter);
    };
    match sys::install_listener(asking) {
        Ok(listener) => sys::send_with(tell, &[LISTENER], &[listener]).map(drop),
        // Somebody around the sandbox has one: renames are then as the kernel makes them.
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            sys::install_filter(bounds.filter)
        }
        Err(error) => Err(error),
    }
}

/// Gives this process the limits and the filter of a program.
pub(crate) fn confine(limits: ProcessLimits, filter: &[libc::sock_filter]) -> io::Result<()> {
    apply(limits)?;
    sys::install_filter(filter)
}

fn apply(limits: ProcessLimits) -> io::Result<()> {
    let bound = |resource, value: Option<u64>| {
        let Some(value) = value else { return Ok(()) };
        let value = value.min(sys::hard_limit(resource)?);
        sys::set_limit(resource, value, value)
    };
    sys::set_limit(libc::RLIMIT_CORE, 0, 0)?;
    pools::bound()?;
    bound(libc::RLIMIT_NOFILE, limits.open_files)?;
    bound(libc::RLIMIT_FSIZE, limits.file_size)?;
    // The init itself counts.
    bound(
        libc::RLIMIT_NPROC,
        limits.processes.map(|n| n.saturating_add(1)),
    )
}

fn step_code(step: ExecStep) -> u8 {
    match step {
        ExecStep::Process => 0,
        ExecStep::Directory => 1,
        ExecStep::Limits => 2,
        ExecStep::Filter => 3,
        ExecStep::Program => 4,
    }
}

/// A message that a listener comes with, in the place of a step.
const LISTENER: u8 = 5;

/// How the start goes, from the socket of [`Program::start`] when it can be read. Does not wait.
pub(crate) fn told(socket: BorrowedFd<'_>) -> Told {
    let mut message = [0u8; 5];
    let (got, fds) = match sys::receive(socket, &mut message, libc::MSG_DONTWAIT) {
        Ok(got) => got,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Told::Nothing,
        Err(_) => return Told::Runs,
    };
    let step = match message[0] {
        _ if got == 0 => return Told::Runs,
        0 => ExecStep::Process,
        1 => ExecStep::Directory,
        2 => ExecStep::Limits,
        LISTENER => return fds.into_iter().next().map_or(Told::Lost, Told::Listener),
        3 => ExecStep::Filter,
        _ => ExecStep::Program,
    };
    let errno = [message[1], message[2], message[3], message[4]];
    Told::Failed(step, i32::from_le_bytes(errno))
}
