//! A parent that no descendant escapes: this program again, as child subreaper of one command. It
//! tells which processes outlive the command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions};

/// How long something may outlive a killed command. What survives survives for good: this only has to be
/// more than a busy machine needs to end processes.
pub(crate) const AFTERLIFE: Duration = Duration::from_secs(15);
/// A command that runs longer hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs as a program of its own where the environment says so; as a test it does nothing.
#[test]
fn helper() {
    let Some(plan) = std::env::var_os("COFFERDAM_CHAOS_PLAN") else {
        return;
    };
    let plan = PathBuf::from(plan);
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let text = fs::read(&plan).unwrap();
    let arguments: Vec<&std::ffi::OsStr> = text
        .split(|&b| b == 0)
        .map(std::os::unix::ffi::OsStrExt::from_bytes)
        .collect();
    let out = fs::File::create(plan.with_extension("stdout")).unwrap();
    let err = fs::File::create(plan.with_extension("stderr")).unwrap();
    let mut command = Command::new(arguments[0]);
    command
        .args(&arguments[1..])
        .env_remove("COFFERDAM_CHAOS_PLAN")
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    #[expect(
        clippy::zombie_processes,
        reason = "the loop below reaps it, and all others"
    )]
    let child = command.spawn().unwrap();
    let pid = Pid::from_child(&child);
    let written = plan.with_extension("pid.new");
    fs::write(&written, pid.as_raw_nonzero().to_string()).unwrap();
    fs::rename(written, plan.with_extension("pid")).unwrap();
    let mut end = None;
    let began = Instant::now();
    let mut survivors = String::new();
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((ended, status))) if ended == pid => {
                let status = status
                    .exit_status()
                    .unwrap_or_else(|| -status.terminating_signal().unwrap());
                end = Some((Instant::now(), status));
            }
            Ok(Some(_)) => {}
            Err(_) => break,
            // The gateway belongs to no one command: it ends when no sandbox is left.
            Ok(None) if end.is_some() && only_gateways_below() => break,
            Ok(None) => {
                let late = end.is_some_and(|(when, _)| when.elapsed() > AFTERLIFE);
                if late || began.elapsed() > LIMIT {
                    survivors = kill_all_below();
                    if end.is_none() {
                        survivors.insert_str(0, "the command hung; ");
                    }
                    break;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
    let status = end.map_or(i32::MIN, |(_, status)| status);
    fs::write(plan.with_extension("end"), format!("{status}\n{survivors}")).unwrap();
}

/// Number, state and command line of the children of a process.
pub(crate) fn children_of(parent: u32) -> Vec<(u32, String, String)> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let mut fields = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let state = fields.next().unwrap_or_default().to_owned();
        if fields.next().and_then(|ppid| ppid.parse().ok()) == Some(parent) {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            children.push((pid, state, line));
        }
    }
    children
}

/// Whether nothing is left below this process that should not be.
fn only_gateways_below() -> bool {
    children_of(std::process::id())
        .iter()
        .all(|(_, _, line)| line.starts_with("cofferdam-gateway "))
}

/// Names and ends every descendant of this process.
fn kill_all_below() -> String {
    let mut named = String::new();
    let mut pending = vec![std::process::id()];
    while let Some(parent) = pending.pop() {
        for (pid, state, line) in children_of(parent) {
            pending.push(pid);
            named.push_str(&format!("{pid} [{state}] {line}; "));
        }
        if parent != std::process::id() {
            let pid = Pid::from_raw(i32::try_from(parent).unwrap()).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    named
}

/// A command under a keeper.
#[derive(Debug)]
pub(crate) struct Kept {
    keeper: Child,
    plan: PathBuf,
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct End {
    /// The exit code, or a negative signal number.
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Kept {
    /// Starts `command` (its program, arguments, environment and directory) under a keeper whose
    /// files begin with `plan`.
    pub(crate) fn start(command: &Command, plan: &Path) -> Self {
        let mut text = command.get_program().as_encoded_bytes().to_vec();
        for argument in command.get_args() {
            text.push(0);
            text.extend_from_slice(argument.as_encoded_bytes());
        }
        fs::write(plan, text).unwrap();
        let mut keeper = Command::new(std::env::current_exe().unwrap());
        keeper
            .args([
                "--exact",
                "keeper::helper",
                "--nocapture",
                "--test-threads=1",
            ])
            .env_clear()
            .env("COFFERDAM_CHAOS_PLAN", plan)
            .current_dir(command.get_current_dir().unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit());
        for (key, value) in command.get_envs() {
            if let Some(value) = value {
                keeper.env(key, value);
            }
        }
        Self {
            keeper: keeper.spawn().unwrap(),
            plan: plan.to_owned(),
        }
    }

    /// The command's own process.
    pub(crate) fn pid(&self) -> Pid {
        let path = self.plan.with_extension("pid");
        let began = Instant::now();
        loop {
            if let Ok(text) = fs::read_to_string(&path) {
                return Pid::from_raw(text.parse().unwrap()).unwrap();
            }
            assert!(began.elapsed() < LIMIT, "it never started");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.keeper.try_wait().unwrap().is_some()
    }

    pub(crate) fn stderr_so_far(&self) -> String {
        fs::read(self.plan.with_extension("stderr"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    pub(crate) fn stdout_so_far(&self) -> String {
        fs::read(self.plan.with_extension("stdout"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Waits until `check` holds for what it has said on either stream.
    #[track_caller]
    pub(crate) fn wait_until_said(&mut self, word: &str) {
        let began = Instant::now();
        loop {
            if self.stderr_so_far().contains(word) || self.stdout_so_far().contains(word) {
                return;
            }
            assert!(
                !self.has_ended() && began.elapsed() < LIMIT,
                "`{word}` was never said: {}",
                self.stderr_so_far()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for the end; a process that outlives the command fails the test.
    #[track_caller]
    pub(crate) fn finish(mut self) -> End {
        self.keeper.wait().unwrap();
        let text = fs::read_to_string(self.plan.with_extension("end")).expect("the keeper ended");
        let (status, survivors) = text.split_once('\n').unwrap();
        let end = End {
            status: status.parse().unwrap(),
            stdout: self.stdout_so_far(),
            stderr: self.stderr_so_far(),
        };
        assert_eq!(survivors, "", "these outlived it\n{}", end.stderr);
        end
    }
}
