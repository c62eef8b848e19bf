//! Starting one program as the agent.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

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
    /// says so, in the control group if there is one. The pipe tells how it went: see [`outcome`].
    pub(crate) fn start(
        &self,
        fds: &[OwnedFd],
        terminal: bool,
        limits: ProcessLimits,
        filter: &[libc::sock_filter],
        group: Option<BorrowedFd<'_>>,
    ) -> io::Result<(i32, OwnedFd)> {
        let (read, write) = sys::pipe()?;
        let pid = match group {
            Some(group) => sys::fork_within(group, 0)?,
            None => sys::fork_into(0)?,
        };
        if pid == 0 {
            let (step, error) = self.become_it(fds, terminal, limits, filter);
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            let mut message = [step_code(step), 0, 0, 0, 0];
            message[1..].copy_from_slice(&errno.to_le_bytes());
            let _ = io::Write::write_all(&mut std::fs::File::from(write), &message);
            sys::exit(127);
        }
        Ok((pid, read))
    }

    fn become_it(
        &self,
        fds: &[OwnedFd],
        terminal: bool,
        limits: ProcessLimits,
        filter: &[libc::sock_filter],
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
        if let Err(error) = apply(limits) {
            return (ExecStep::Limits, error);
        }
        // Last: nothing after it but the program itself.
        if let Err(error) = sys::install_filter(filter) {
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

/// How the start went, from the pipe of [`Program::start`] when it can be read: `None` where the
/// program runs (or was killed before it could).
pub(crate) fn outcome(pipe: OwnedFd) -> Option<(ExecStep, i32)> {
    let mut message = [0u8; 5];
    std::fs::File::from(pipe).read_exact(&mut message).ok()?;
    let step = match message[0] {
        0 => ExecStep::Process,
        1 => ExecStep::Directory,
        2 => ExecStep::Limits,
        3 => ExecStep::Filter,
        _ => ExecStep::Program,
    };
    Some((
        step,
        i32::from_le_bytes([message[1], message[2], message[3], message[4]]),
    ))
}
