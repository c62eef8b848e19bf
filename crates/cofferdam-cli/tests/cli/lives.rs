//! A user with sandboxes that stay, and a terminal of theirs.

use std::io::{Read, Write};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cofferdam::session::Watcher;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::OpenptFlags;
use rustix::termios::{OptionalActions, Termios, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use crate::environment::{Done, TestEnvironment, open_mode};
use crate::mcp_client::Client;

/// What has not come by then does not come.
const LIMIT: Duration = Duration::from_secs(30);

/// Ends its sandboxes with itself.
#[derive(Debug)]
pub(crate) struct Lives(TestEnvironment);

impl Lives {
    pub(crate) fn new() -> Self {
        Self(TestEnvironment::with_repository())
    }

    /// In containers too.
    pub(crate) fn with_engines() -> Self {
        let mut environment = TestEnvironment::with_repository();
        environment.knows_engines();
        Self(environment)
    }

    /// With one sandbox, made with these options.
    #[track_caller]
    pub(crate) fn with(name: &str, options: &[&str]) -> Self {
        let this = Self::new();
        this.create(name, options);
        this
    }

    #[track_caller]
    pub(crate) fn create(&self, name: &str, options: &[&str]) -> Done {
        self.cofferdam(&[&["create", name], options, open_mode(options)].concat())
            .expect_code(0)
    }

    /// `cofferdam exec NAME -- sh -c SCRIPT`.
    #[track_caller]
    pub(crate) fn exec(&self, name: &str, script: &str) -> Done {
        self.cofferdam(&["exec", name, "--", "sh", "-c", script])
    }

    /// What `cofferdam status` says of it.
    #[track_caller]
    pub(crate) fn status(&self, name: &str, field: &str) -> serde_json::Value {
        let done = self.cofferdam(&["status", "--json", name]).expect_code(0);
        let mut told: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
        told[field].take()
    }

    /// What the command starts for a checkout that is to be watched.
    pub(crate) fn watcher(&self) -> Watcher {
        let command = self.0.command(&["watch-checkout"]);
        let words = command.get_args().map(ToOwned::to_owned);
        let known = command.get_envs();
        let known = known.filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        let mut watcher = Watcher::new(command.get_program());
        watcher.arguments = words.collect();
        watcher.environment = known.collect();
        watcher
    }

    /// What watches the checkout of this sandbox.
    #[track_caller]
    pub(crate) fn watches(&self, name: &str) -> Pid {
        let listed = self.listed(name).unwrap();
        let id = listed["id"].as_str().unwrap();
        let is_its = |process: &std::path::Path| {
            let words = std::fs::read(process.join("cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).into_owned();
            words.contains("\0watch-checkout\0") && words.contains(id)
        };
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut processes = processes.map(|one| one.path());
        let directory = processes.find(|process| is_its(process)).unwrap();
        let watcher = directory.file_name().unwrap().to_str().unwrap();
        Pid::from_raw(watcher.parse().unwrap()).unwrap()
    }

    /// Ends that, as `kill -9` does.
    #[track_caller]
    pub(crate) fn kill_watcher(&self, name: &str) {
        let watcher = self.watches(name);
        let directory = std::path::PathBuf::from(format!("/proc/{}", watcher.as_raw_nonzero()));
        kill_process(watcher, Signal::KILL).unwrap();
        // What it holds is free once it has ended, which takes a moment on a busy machine.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let is_there = || {
            let stat = std::fs::read_to_string(directory.join("stat")).unwrap_or_default();
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
        };
        while is_there() {
            assert!(std::time::Instant::now() < until, "it does not end");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// What `list --all-repos --json` says: those of every checkout.
    #[track_caller]
    pub(crate) fn all(&self) -> Vec<serde_json::Value> {
        let done = self
            .cofferdam(&["list", "--all-repos", "--json"])
            .expect_code(0);
        serde_json::from_str(&done.stdout).unwrap()
    }

    /// What `list --json` says of it.
    #[track_caller]
    pub(crate) fn listed(&self, name: &str) -> Option<serde_json::Value> {
        let done = self.cofferdam(&["list", "--json"]).expect_code(0);
        let found: Vec<serde_json::Value> = serde_json::from_str(&done.stdout).unwrap();
        found.into_iter().find(|one| one["name"] == name)
    }

    #[track_caller]
    pub(crate) fn state(&self, name: &str) -> String {
        self.listed(name).unwrap()["state"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// The code with which a shell ends that its terminal left: zsh says the signal's number in its own way.
    #[track_caller]
    pub(crate) fn hung_up(&self, name: &str) -> i32 {
        let zsh = self.exec(name, "command -v zsh").status.success();
        if zsh { 1 } else { 129 }
    }

    /// The command on a terminal of its own.
    #[track_caller]
    pub(crate) fn on_a_terminal(&self, arguments: &[&str]) -> OnTerminal {
        OnTerminal::start(&self.0.command(arguments), (40, 100))
    }

    /// Another program of the user's on one.
    #[track_caller]
    pub(crate) fn program_on_a_terminal(&self, name: &str, arguments: &[&str]) -> OnTerminal {
        OnTerminal::start(self.0.program(name).args(arguments), (40, 100))
    }
}

impl Deref for Lives {
    type Target = TestEnvironment;

    fn deref(&self) -> &TestEnvironment {
        &self.0
    }
}

impl Drop for Lives {
    fn drop(&mut self) {
        let state = self.home().join(".cofferdam/state");
        let left = state.read_dir().into_iter().flatten().flatten();
        for one in left {
            let id = one.file_name().into_string().unwrap_or_default();
            let ended = self
                .command(&["delete", "--force", "--purge", &id])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            drop(ended);
        }
    }
}

impl Client {
    #[track_caller]
    pub(crate) fn start(environment: &TestEnvironment) -> Self {
        Self::with(environment.command(&["mcp"]))
    }
}

/// A command with a terminal as its user has one: it controls the command's session.
#[derive(Debug)]
pub(crate) struct OnTerminal {
    pub(crate) child: Child,
    /// The user's side, as long as they have it open.
    keys: Option<std::fs::File>,
    reader: Option<JoinHandle<()>>,
    closed: Arc<AtomicBool>,
    terminal: OwnedFd,
    sane: Termios,
    before: Vec<u8>,
    shown: Arc<Mutex<Vec<u8>>>,
    seen: usize,
}

fn modes(terminal: &OwnedFd) -> Vec<u8> {
    let Termios {
        input_modes,
        output_modes,
        control_modes,
        local_modes,
        special_codes,
        ..
    } = tcgetattr(terminal).unwrap();
    format!("{input_modes:?} {output_modes:?} {control_modes:?} {local_modes:?} {special_codes:?}")
        .into_bytes()
}

fn size_of((rows, columns): (u16, u16)) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

impl OnTerminal {
    pub(crate) fn start(own: &Command, size: (u16, u16)) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let keys = rustix::pty::openpt(flags).unwrap();
        rustix::pty::grantpt(&keys).unwrap();
        rustix::pty::unlockpt(&keys).unwrap();
        let name = rustix::pty::ptsname(&keys, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
        tcsetwinsize(&terminal, size_of(size)).unwrap();
        let (sane, before) = (tcgetattr(&terminal).unwrap(), modes(&terminal));
        #[expect(
            clippy::disallowed_methods,
            reason = "tests start the command as a shell does"
        )]
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", "--wait"])
            .arg(own.get_program())
            .args(own.get_args())
            .env_clear()
            .envs(
                own.get_envs()
                    .filter_map(|(key, value)| Some((key, value?))),
            )
            .env("COLORTERM", "truecolor")
            .current_dir(own.get_current_dir().unwrap())
            .stdin(terminal.try_clone().unwrap())
            .stdout(terminal.try_clone().unwrap())
            .stderr(terminal.try_clone().unwrap());
        let child = command.spawn().unwrap();
        let keys = std::fs::File::from(keys);
        let shown = Arc::new(Mutex::new(Vec::new()));
        let closed = Arc::new(AtomicBool::new(false));
        let (mut from, to, over) = (keys.try_clone().unwrap(), shown.clone(), closed.clone());
        let reader = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            let moment = Timespec {
                tv_sec: 0,
                tv_nsec: 20_000_000,
            };
            while !over.load(Ordering::Relaxed) {
                let mut ready = [PollFd::new(&from, PollFlags::IN)];
                if !matches!(poll(&mut ready, Some(&moment)), Ok(1..)) {
                    continue;
                }
                match from.read(&mut chunk) {
                    Ok(read @ 1..) => to.lock().unwrap().extend_from_slice(&chunk[..read]),
                    _ => return,
                }
            }
        });
        Self {
            child,
            keys: Some(keys),
            reader: Some(reader),
            closed,
            terminal,
            sane,
            before,
            shown,
            seen: 0,
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        let terminal = self.keys.as_mut().unwrap();
        terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// The user's side is closed, as when a window is.
    pub(crate) fn close(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        self.reader.take().unwrap().join().unwrap();
        self.keys = None;
    }

    /// Waits for the command's end, whatever it is.
    #[track_caller]
    pub(crate) fn ends(&mut self) {
        let until = Instant::now() + LIMIT;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "it goes on: {}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn resize(&self, size: (u16, u16)) {
        tcsetwinsize(&self.terminal, size_of(size)).unwrap();
    }

    /// As a shell has it for itself while its job stands still.
    pub(crate) fn is_the_shells(&self) {
        tcsetattr(&self.terminal, OptionalActions::Now, &self.sane).unwrap();
        self.expect_sane();
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits for its end, and for all that was shown until then: a mark of ours is behind it.
    #[track_caller]
    pub(crate) fn done(mut self) -> Done {
        self.ends();
        let mark = "[this is the end]";
        rustix::io::write(&self.terminal, mark.as_bytes()).unwrap();
        self.expect(mark);
        let text = self.text().replace(mark, "");
        Done {
            status: self.child.wait().unwrap(),
            stdout: text.clone(),
            stderr: text,
        }
    }

    /// Waits until it shows `text` after what was waited for before.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) {
        let until = Instant::now() + LIMIT;
        loop {
            let shown = self.shown.lock().unwrap().clone();
            let found = shown[self.seen..]
                .windows(text.len())
                .position(|window| window == text.as_bytes());
            if let Some(at) = found {
                self.seen += at + text.len();
                return;
            }
            assert!(
                Instant::now() < until,
                "no {text:?} in {}",
                String::from_utf8_lossy(&shown)
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for its end, after which the terminal is as it was.
    #[track_caller]
    pub(crate) fn ends_with(&mut self, code: i32) {
        let until = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "it goes on: {}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(status.code(), Some(code), "{}", self.text());
        self.expect_sane();
    }

    #[track_caller]
    pub(crate) fn expect_sane(&self) {
        let (before, now) = (&self.before, modes(&self.terminal));
        assert_eq!(
            String::from_utf8_lossy(before),
            String::from_utf8_lossy(&now)
        );
    }

    /// Whether keys are passed on one by one now.
    pub(crate) fn is_raw(&self) -> bool {
        modes(&self.terminal) != self.before
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
