//! Where the hostile program runs: a sandbox behind the wall, one without it, or the house itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cofferdam_lab::probe::{Outcome, Probe, Step, Task};

use crate::engine;
use crate::user::User;

/// A start that takes longer has failed.
const START: Duration = Duration::from_secs(40);
/// The proxy inside a sandbox behind the wall; without one it is the house's careless proxy.
pub(crate) const PROXY: &str = "127.0.0.1:3128";

pub(crate) struct Place {
    pub(crate) name: String,
    probe: Probe,
    socket: PathBuf,
    pub(crate) user: User,
    pub(crate) child: Child,
}

impl Place {
    /// `cofferdam run` with these options, its program waiting for tasks.
    pub(crate) fn start(user: User, name: &str, options: &[&str]) -> Self {
        Self::start_by(user, name, options, &[])
    }

    /// The same with words before the program, such as `env` and what it unsets.
    pub(crate) fn start_by(user: User, name: &str, options: &[&str], words: &[&str]) -> Self {
        let file = format!("{name}.sock");
        let mut arguments = vec!["run", "--head", "--name", name];
        arguments.extend_from_slice(options);
        arguments.extend_from_slice(engine::words(options));
        arguments.push("--");
        arguments.extend_from_slice(words);
        arguments.extend_from_slice(&["./probe", "--probe", "serve", &file]);
        let command = user.command(&arguments);
        Self::spawn(user, name, command)
    }

    /// The program on the host itself, with every privilege that this house has.
    pub(crate) fn without_sandbox(user: User, name: &str) -> Self {
        let mut command = Command::new("./probe");
        command.args(["--probe", "serve", &format!("{name}.sock")]);
        command.current_dir(&user.repository);
        Self::spawn(user, name, command)
    }

    fn spawn(user: User, name: &str, mut command: Command) -> Self {
        let socket = user.repository.join(format!("{name}.sock"));
        let said = fs::File::create(user.repository.join(format!("{name}.out"))).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .spawn()
            .unwrap();
        Self {
            name: name.to_owned(),
            probe: Probe::at(socket.clone()),
            socket,
            user,
            child,
        }
    }

    /// Waits until the program answers.
    pub(crate) fn ready(mut self) -> Self {
        let start = Instant::now();
        while !self.probe.is_up() {
            let ended = self.child.try_wait().unwrap();
            let late = start.elapsed() > START;
            assert!(
                ended.is_none() && !late,
                "{} does not start ({ended:?}):\n{}",
                self.name,
                self.said()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        self
    }

    /// What `cofferdam run` printed so far.
    pub(crate) fn said(&self) -> String {
        let path = self.user.repository.join(format!("{}.out", self.name));
        fs::read_to_string(path).unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn ask(&self, task: &Task) -> Outcome {
        self.probe
            .ask(task)
            .unwrap_or_else(|error| panic!("{}: {error}\n{}", self.name, self.said()))
    }

    /// As [`Self::ask`], where the sandbox may be gone.
    pub(crate) fn try_ask(&self, task: &Task) -> Option<Outcome> {
        self.probe.ask(task).ok()
    }

    /// Says something to `host` and `port` through the proxy.
    pub(crate) fn connect(&self, host: &str, port: u16, say: impl Into<Vec<u8>>) -> Outcome {
        let mut steps = vec![Step::say(say), Step::HearAll];
        let line = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
        steps.splice(..0, [Step::say(line), Step::Hear]);
        let to = PROXY.to_owned();
        self.ask(&Task::Tcp { to, steps })
    }

    /// The same as SOCKS5 with a name.
    pub(crate) fn socks(&self, host: &str, port: u16, say: impl Into<Vec<u8>>) -> Outcome {
        let length = u8::try_from(host.len()).unwrap();
        let mut wish = vec![5, 1, 0, 3, length];
        wish.extend(host.as_bytes());
        wish.extend(port.to_be_bytes());
        let steps = [
            Step::say([5_u8, 1, 0]),
            Step::Hear,
            Step::say(wish),
            Step::Hear,
            Step::say(say),
            Step::HearAll,
        ];
        let to = PROXY.to_owned();
        let steps = steps.to_vec();
        self.ask(&Task::Tcp { to, steps })
    }

    /// A request with the whole address in its first line, to the proxy.
    pub(crate) fn absolute(&self, host: &str, port: u16, path: &str) -> Outcome {
        let line = format!("http://{host}:{port}{path}");
        self.ask(&crate::trial::http(PROXY, &format!("{host}:{port}"), &line))
    }

    /// The host's number of the hostile program, and of the process that started it: a sandbox's first.
    pub(crate) fn processes(&self) -> (i32, i32) {
        let file = self.socket.file_name().unwrap().to_str().unwrap();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let path = entry.path();
            let Ok(line) = fs::read(path.join("cmdline")) else {
                continue;
            };
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            if words.first().is_some_and(|word| word.ends_with(b"/probe"))
                && words.get(3).is_some_and(|word| *word == file.as_bytes())
            {
                return (number(&path), parent(&path));
            }
        }
        panic!("{}: no process", self.name);
    }

    /// Ends it as a user would who interrupts the command, and waits for the end.
    pub(crate) fn end(mut self) {
        let _ = self.probe.ask(&Task::Exit);
        let start = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < START, "{} does not end", self.name);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn number(path: &Path) -> i32 {
    path.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

fn parent(path: &Path) -> i32 {
    let status = fs::read_to_string(path.join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    line.unwrap().trim().parse().unwrap()
}
