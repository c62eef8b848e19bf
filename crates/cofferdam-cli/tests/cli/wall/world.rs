//! A service to reach, runs that go on while the test acts, and words for the agent's script.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::environment::{Done, TestEnvironment, finish};

/// What a healthy machine needs a small part of.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// Functions for the agent, all bounded. `ask HOST PORT` prints what the service greets with,
/// `until_file FILE` waits for the test, `until_ok COMMAND…` tries again and again.
pub(super) const WORDS: &str = r#"
ask() { timeout 10 bash -c 'exec 3<>"/dev/tcp/$0/$1" && read -r line <&3 && echo "$line"' "$1" "$2" 2>/dev/null; }
look_up() { getent hosts "$1" >/dev/null; }
until_ok() { for try in $(seq 2000); do if "$@"; then return 0; fi; sleep 0.05; done; echo "never: $*"; return 1; }
until_file() { until_ok test -e "$1"; }
"#;

/// Greets everyone who comes with `hello`, and then sends back what it gets.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) port: u16,
    greeted: Arc<AtomicUsize>,
}

impl Origin {
    pub(super) fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let greeted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&greeted);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || echo(stream));
            }
        });
        Self { port, greeted }
    }

    /// A port on which nobody listens.
    pub(super) fn unused_port() -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap().port()
    }

    /// So many connections arrived.
    pub(super) fn greeted(&self) -> usize {
        self.greeted.load(Ordering::SeqCst)
    }

    pub(super) fn rule(&self) -> String {
        format!("host.cofferdam.internal:{}", self.port)
    }
}

fn echo(mut stream: TcpStream) {
    let mut piece = [0; 1024];
    let mut greeted = stream.write_all(b"hello\n");
    while greeted.is_ok() {
        match stream.read(&mut piece) {
            Ok(count @ 1..) => greeted = stream.write_all(&piece[..count]),
            _ => return,
        }
    }
}

/// A script with [`WORDS`], in which `$PORT` is the port of `origin`.
pub(super) fn script(origin: &Origin, body: &str) -> String {
    let port = origin.port;
    format!("{WORDS}HOST=host.cofferdam.internal\nPORT={port}\n{body}\n")
}

/// A `cofferdam run` that goes on.
#[derive(Debug)]
pub(super) struct Running {
    child: Option<Child>,
    directory: PathBuf,
}

impl Running {
    /// `run --name NAME OPTIONS -- bash -c SCRIPT` in the repository. With `--head` the test and the agent see each
    /// other's files.
    pub(super) fn start(
        environment: &TestEnvironment,
        name: &str,
        options: &[&str],
        script: &str,
    ) -> Self {
        Self::start_in(
            environment,
            &environment.repository(),
            name,
            options,
            script,
        )
    }

    /// The same in another repository of that user.
    pub(super) fn start_in(
        environment: &TestEnvironment,
        directory: &Path,
        name: &str,
        options: &[&str],
        script: &str,
    ) -> Self {
        let arguments = run_arguments(name, options, script);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = environment.command(&arguments);
        command.current_dir(directory);
        Self::spawn(command, directory)
    }

    pub(super) fn spawn(mut command: Command, directory: &Path) -> Self {
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            child: Some(child),
            directory: directory.to_owned(),
        }
    }

    /// Waits until the agent, or the test, has made this file.
    #[track_caller]
    pub(super) fn wait_for(&mut self, file: &str) {
        let path = self.directory.join(file);
        let start = Instant::now();
        while !path.exists() {
            if let Some(status) = self.child.as_mut().unwrap().try_wait().unwrap() {
                let done = finish(self.child.take().unwrap());
                panic!("it ended with {status} before it made {file}: {done}");
            }
            assert!(start.elapsed() < LIMIT, "it never made {file}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Makes a file that the agent waits for.
    pub(super) fn tell(&self, file: &str) {
        cofferdam::fsx::write_with_mode(&self.directory.join(file), b"", 0o644).unwrap();
    }

    pub(super) fn kill(mut self, signal: Signal) -> Done {
        let child = self.child.take().unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        finish(child)
    }

    #[track_caller]
    pub(super) fn finish(mut self) -> Done {
        finish(self.child.take().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only of a test that failed.
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(super) fn run_arguments(name: &str, options: &[&str], script: &str) -> Vec<String> {
    let words = [
        &["run", "--name", name][..],
        options,
        &["--", "bash", "-c", script],
    ];
    words.concat().into_iter().map(str::to_owned).collect()
}

/// The same user's second repository.
pub(super) fn other_repository(environment: &TestEnvironment) -> PathBuf {
    let path = environment.temporary().join("other");
    let from = environment.repository();
    environment.git(&[
        "clone",
        "--quiet",
        from.to_str().unwrap(),
        path.to_str().unwrap(),
    ]);
    path
}

pub(super) fn state(environment: &TestEnvironment) -> PathBuf {
    environment.home().join(".cofferdam")
}

/// With a config that allows nothing, so that only what a test allows is open.
pub(super) fn closed() -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    write_config(&environment, "firewall: {allow: []}\n");
    environment
}

pub(super) fn write_config(environment: &TestEnvironment, text: &str) {
    let home = state(environment);
    cofferdam::fsx::private_dir(&home).unwrap();
    cofferdam::fsx::write_private(&home.join("config.yaml"), text.as_bytes()).unwrap();
}

/// The gateway's process, by what its lock says.
#[track_caller]
pub(super) fn gateway(environment: &TestEnvironment) -> Pid {
    let found: Vec<PathBuf> = std::fs::read_dir(state(environment))
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("gateway-")
        })
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    let text = std::fs::read_to_string(found[0].join("lock")).unwrap();
    let process = Pid::from_raw(text.trim_end().parse().unwrap()).unwrap();
    assert!(is_gateway(process), "{text}");
    process
}

pub(super) fn is_gateway(process: Pid) -> bool {
    std::fs::read(format!("/proc/{}/cmdline", process.as_raw_nonzero()))
        .is_ok_and(|line| line.starts_with(b"cofferdam-gateway\0"))
}

#[track_caller]
pub(super) fn until(what: &str, limit: Duration, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The entries of the log of `name`.
#[track_caller]
pub(super) fn entries(environment: &TestEnvironment, name: &str) -> Vec<serde_json::Value> {
    let done = environment
        .cofferdam(&["net", "log", name, "--json"])
        .expect_code(0);
    let lines = done.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
