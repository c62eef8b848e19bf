//! The sandbox's init: process 1, without a privilege left. It starts programs, reaps what dies,
//! and ends with everything in the sandbox when the host closes the control socket.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use cofferdam_guest::protocol::{
    self, AGENT_ID, ExecStep, Findings, GuestExit, HEAD, Network, Passage, Reply, Request, Setup,
};

use crate::channel::{Arrival, Channel};
use crate::program::{self, Program};
use crate::tree::{Prepared, Refusal};
use crate::{loopback, pools, prove, seccomp, sys, view, wall};

/// Sets the sandbox up and serves it until the end.
pub(crate) fn run(
    channel: &mut Channel,
    setup: &Setup,
    prepared: Vec<Prepared>,
    go: &OwnedFd,
) -> ! {
    let code = match set_up(setup, prepared, go) {
        Ok(sockets) => serve(channel, setup, sockets).map_or(1, |()| 0),
        Err(refusal) => {
            let _ = channel.send(&refusal.into());
            1
        }
    };
    sys::exit(code);
}

/// The sockets of the wall, where the set-up asks for one.
fn set_up(setup: &Setup, prepared: Vec<Prepared>, go: &OwnedFd) -> Result<Vec<OwnedFd>, Refusal> {
    let step = |what: &'static str| {
        move |error: io::Error| Refusal::Broken(format!("cannot {what}: {error}"))
    };
    let mut byte = [0u8; 1];
    let file = go
        .try_clone()
        .map(fs::File::from)
        .map_err(step("wait for the launcher"))?;
    if io::Read::read(&mut &file, &mut byte).map_err(step("wait for the launcher"))? == 0 {
        return Err(Refusal::Broken("the launcher is gone".to_owned()));
    }
    // From here on nothing in the sandbox has the caller's uid 0, not even this process.
    sys::become_ids(AGENT_ID, AGENT_ID).map_err(step("take the agent's ids"))?;
    // After the ids: a change of ids clears it. The launcher may have died before it: look again.
    sys::process_option(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)
        .map_err(step("follow the launcher"))?;
    if sys::poll(&[go.as_raw_fd()], 0).map_err(step("look at the launcher"))?[0] {
        return Err(Refusal::Broken("the launcher is gone".to_owned()));
    }
    sys::new_session().map_err(step("start a session"))?;
    sys::set_umask(0o022);
    if setup.network != Network::Open {
        sys::loopback_up().map_err(step("bring the loopback interface up"))?;
        loopback::count_as_configured()?;
        // The agent's own servers may use any port. Where the host's `/proc` is read-only they use high ones.
        let _ = fs::OpenOptions::new()
            .write(true)
            .open("/proc/sys/net/ipv4/ip_unprivileged_port_start")
            .and_then(|mut file| io::Write::write_all(&mut file, b"0"));
    }
    pools::bound_watches();
    view::enter(setup, prepared)?;
    sys::set_hostname(setup.hostname.as_bytes()).map_err(step("set the host name"))?;
    let sockets = match setup.network {
        Network::Wall => wall::raise()?.into(),
        Network::None | Network::Open => Vec::new(),
    };
    sys::process_option(libc::PR_SET_NO_NEW_PRIVS, 1).map_err(step("refuse new privileges"))?;
    sys::drop_capabilities().map_err(step("drop capabilities"))?;
    if setup.network == Network::Open {
        // Abstract unix sockets belong to the network namespace: behind the host's are its desktop and its
        // services. Best effort: needs Linux 6.12 with Landlock.
        let _ = sys::scope_abstract_sockets();
    }
    // The agent has this process's uid: it must not be able to trace or read it.
    sys::process_option(libc::PR_SET_DUMPABLE, 0).map_err(step("refuse to be traced"))?;
    Ok(sockets)
}

/// With more programs than this, those of which no process is left are forgotten.
const REMEMBERED: usize = 1024;

#[derive(Debug)]
struct Running {
    pid: i32,
    /// Until it is known whether the program was executed.
    starting: Option<OwnedFd>,
    ended: bool,
}

#[derive(Debug)]
struct Init<'a> {
    channel: &'a mut Channel,
    setup: &'a Setup,
    filter: Vec<libc::sock_filter>,
    programs: BTreeMap<u64, Running>,
}

/// Returns when the host has gone or said something that is no request.
fn serve(channel: &mut Channel, setup: &Setup, sockets: Vec<OwnedFd>) -> io::Result<()> {
    let signals = sys::signal_descriptor(&[libc::SIGCHLD])?;
    sys::ignore_signal(libc::SIGPIPE);
    let filter = seccomp::program();
    // No copy stays here: the wall's sockets are the host's alone, and close when it closes them.
    if sockets.is_empty() {
        channel.send(&Reply::Ready)?;
    } else {
        channel.send_with(&Reply::Ready, sockets)?;
    }
    let mut init = Init {
        channel,
        setup,
        filter,
        programs: BTreeMap::new(),
    };
    loop {
        let starting: Vec<(u64, i32)> = init
            .programs
            .iter()
            .filter_map(|(exec, p)| p.starting.as_ref().map(|pipe| (*exec, pipe.as_raw_fd())))
            .collect();
        let mut fds = vec![init.channel.raw(), signals.as_raw_fd()];
        fds.extend(starting.iter().map(|(_, fd)| *fd));
        let ready = sys::poll(&fds, -1)?;
        for ((exec, _), ready) in starting.iter().zip(&ready[2..]) {
            if *ready {
                init.decide(*exec)?;
            }
        }
        if ready[1] {
            drain(&signals);
            init.reap()?;
        }
        if ready[0] {
            if init.channel.fill()? == Arrival::End {
                return Ok(());
            }
            while let Some(request) = init.channel.next().map_err(io::Error::other)? {
                init.answer(request)?;
            }
        }
    }
}

/// Many deaths may be one signal: only the wake-up matters.
fn drain(signals: &OwnedFd) {
    if let Ok(file) = signals.try_clone() {
        let mut buffer = [0u8; 1024];
        let _ = io::Read::read(&mut fs::File::from(file), &mut buffer);
    }
}

impl Init<'_> {
    fn answer(&mut self, request: Request) -> io::Result<()> {
        let (request, done) = match request {
            Request::Exec {
                exec,
                arguments,
                environment,
                directory,
            } => {
                let directory = directory.as_ref().unwrap_or(&self.setup.workdir);
                return self.exec(exec, Program::new(&arguments, &environment, directory));
            }
            Request::Signal {
                request,
                exec,
                signal,
            } => (request, self.signal(exec, signal)),
            Request::Freeze { request } => (request, freeze()),
            Request::Thaw { request } => (request, to_all(libc::SIGCONT)),
            Request::Ping { request } => (request, Ok(())),
            Request::Prove { request, passes } => match self.prove(&passes) {
                Ok(findings) => {
                    return self.channel.send(&Reply::Proved { request, findings });
                }
                Err(error) => (request, Err(error)),
            },
        };
        self.channel.send(&match done {
            Ok(()) => Reply::Done { request },
            Err(error) => Reply::Failed {
                request,
                errno: error.raw_os_error().unwrap_or(libc::EIO),
            },
        })
    }

    /// By a child with a program's privileges, limits and filter.
    fn prove(&mut self, passes: &Passage) -> io::Result<Findings> {
        let (read, write) = sys::pipe()?;
        let child = sys::fork_into(0)?;
        if child == 0 {
            drop(read);
            let confined = program::confine(self.setup.limits, &self.filter);
            let written = confined.and_then(|()| {
                let frame = protocol::encode(&prove::findings(passes)).map_err(io::Error::other)?;
                io::Write::write_all(&mut fs::File::from(write), &frame)
            });
            sys::exit(i32::from(written.is_err()));
        }
        drop(write);
        let mut frame = Vec::new();
        io::Read::read_to_end(&mut fs::File::from(read), &mut frame)?;
        let body = frame.get(HEAD..).unwrap_or_default();
        protocol::decode(body).map_err(io::Error::other)
    }

    fn exec(&mut self, exec: u64, program: io::Result<Program>) -> io::Result<()> {
        let Some(fds) = self.channel.take_fds() else {
            return Err(io::Error::other("an exec without its descriptors"));
        };
        match program.and_then(|p| p.start(&fds, self.setup.limits, &self.filter)) {
            Ok((pid, pipe)) => {
                // A number that is free again belongs to no old program any more.
                self.programs.retain(|_, old| old.pid != pid);
                if self.programs.len() > REMEMBERED {
                    self.programs
                        .retain(|_, old| !old.ended || sys::kill(-old.pid, 0).is_ok());
                }
                let running = Running {
                    pid,
                    starting: Some(pipe),
                    ended: false,
                };
                self.programs.insert(exec, running);
                Ok(())
            }
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                self.channel.send(&Reply::NotStarted {
                    exec,
                    errno,
                    step: ExecStep::Process,
                })
            }
        }
    }

    /// The pipe of a starting program can be read: it runs, or it could not be executed.
    fn decide(&mut self, exec: u64) -> io::Result<()> {
        let Some(running) = self.programs.get_mut(&exec) else {
            return Ok(());
        };
        let Some(pipe) = running.starting.take() else {
            return Ok(());
        };
        match program::outcome(pipe) {
            None => self.channel.send(&Reply::Started { exec }),
            Some((step, errno)) => {
                self.programs.remove(&exec);
                self.channel.send(&Reply::NotStarted { exec, errno, step })
            }
        }
    }

    fn reap(&mut self) -> io::Result<()> {
        loop {
            let (pid, status) = match sys::wait(-1, false) {
                Ok(Some(ended)) => ended,
                Ok(None) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(()),
                Err(error) => return Err(error),
            };
            let found = self.programs.iter().find(|(_, p)| p.pid == pid && !p.ended);
            let Some(exec) = found.map(|(exec, _)| *exec) else {
                continue;
            };
            self.decide(exec)?;
            // Gone by now where it had never started.
            let Some(running) = self.programs.get_mut(&exec) else {
                continue;
            };
            running.ended = true;
            let exit = if libc::WIFSIGNALED(status) {
                GuestExit::Signal(libc::WTERMSIG(status))
            } else {
                GuestExit::Code(libc::WEXITSTATUS(status))
            };
            self.channel.send(&Reply::Exited { exec, exit })?;
        }
    }

    fn signal(&mut self, exec: u64, signal: i32) -> io::Result<()> {
        let Some(pid) = self.programs.get(&exec).map(|p| p.pid) else {
            return Ok(());
        };
        if signal == libc::SIGKILL {
            for process in family(pid) {
                let _ = sys::kill(process, signal);
            }
        }
        match sys::kill(-pid, signal) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            other => other,
        }
    }
}

fn to_all(signal: i32) -> io::Result<()> {
    match sys::kill(-1, signal) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other,
    }
}

/// How often it is looked whether everything has stopped, a millisecond apart.
const LOOKS: usize = 3000;

/// Stops everything; again until it stays so, because a process may wake another.
fn freeze() -> io::Result<()> {
    for _ in 0..LOOKS {
        to_all(libc::SIGSTOP)?;
        let all = processes()?;
        if all.iter().all(|process| has_stopped(process, &all)) {
            return Ok(());
        }
        sys::poll(&[], 1)?;
    }
    Err(io::Error::from_raw_os_error(libc::ETIMEDOUT))
}

/// Every thread has stopped, or waits in vfork(2) for a child that has: such a thread cannot be
/// interrupted, and runs no instruction before its child does.
fn has_stopped(process: &Process, all: &[Process]) -> bool {
    let stopped = |state: u8| matches!(state, b'T' | b't' | b'Z' | b'X');
    if matches!(process.state, b'Z' | b'X') {
        return true;
    }
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", process.pid)) else {
        return true;
    };
    threads.flatten().all(|thread| {
        let Ok(stat) = fs::read(thread.path().join("stat")) else {
            return true;
        };
        let Some(thread) = parse_stat(process.pid, &stat) else {
            return false;
        };
        let waits_for_child = || {
            thread.state == b'D'
                && all
                    .iter()
                    .any(|child| child.parent == process.pid && stopped(child.state))
        };
        stopped(thread.state) || waits_for_child()
    })
}

#[derive(Debug)]
struct Process {
    pid: i32,
    parent: i32,
    session: i32,
    state: u8,
}

/// Every process of the sandbox but this one.
fn processes() -> io::Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if pid == 1 {
            continue;
        }
        let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else {
            continue;
        };
        found.extend(parse_stat(pid, &stat));
    }
    Ok(found)
}

/// `/proc/<pid>/stat`, whose second field is a name that may hold anything.
fn parse_stat(pid: i32, stat: &[u8]) -> Option<Process> {
    let after = stat.iter().rposition(|&b| b == b')')?;
    let mut fields = std::str::from_utf8(&stat[after + 1..])
        .ok()?
        .split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(Process {
        pid,
        parent,
        session,
        state,
    })
}

/// A program's descendants and its session's members.
fn family(leader: i32) -> BTreeSet<i32> {
    let all = processes().unwrap_or_default();
    let mut family = BTreeSet::from([leader]);
    loop {
        let before = family.len();
        for process in &all {
            if process.session == leader || family.contains(&process.parent) {
                family.insert(process.pid);
            }
        }
        if family.len() == before {
            break;
        }
    }
    if !all.iter().any(|p| p.pid == leader) {
        family.remove(&leader);
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process chooses its name, and with that nothing else of what is read about it.
    #[test]
    fn fuzz_process_names() {
        let seeds = ["true", "a) Z 1 1 1 (b", "x y\n7 (", ") S 1 2 3\0"];
        let seeds = seeds.map(|name| name.as_bytes().to_vec());
        cofferdam_lab::fuzz::mutate("process names", &seeds, |name| {
            let stat = [b"7 (", name, b") S 5 6 9 0 -1 4194560\n"].concat();
            let found = parse_stat(7, &stat).unwrap();
            assert_eq!((found.parent, found.session, found.state), (5, 9, b'S'));
            _ = parse_stat(7, name);
        });
    }
}
