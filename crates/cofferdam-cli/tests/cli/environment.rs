//! A sealed environment: its own home, nothing inherited but `PATH`, no configuration but what a test puts into that home.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use cofferdam_lab::way::Mode;
use tempfile::TempDir;

use crate::containers::SURROUNDINGS;

/// A command that has not ended by then is taken for hung.
const LIMIT: Duration = Duration::from_mins(1);

/// A user with a repository.
#[derive(Debug)]
pub(crate) struct TestEnvironment {
    place: TempDir,
    /// What else their programs inherit.
    inherited: Vec<(&'static str, OsString)>,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self}");
        self
    }
}

/// The form of snapshots.
impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.status.code() {
            Some(code) => writeln!(f, "code: {code}")?,
            None => writeln!(f, "{}", self.status)?,
        }
        write!(f, "--- stdout\n{}", self.stdout)?;
        write!(f, "--- stderr\n{}", self.stderr)
    }
}

/// A sandbox that a test leaves ends once its record is gone, and what it writes until then would outlast one removal.
impl Drop for TestEnvironment {
    fn drop(&mut self) {
        let begun = Instant::now();
        while std::fs::remove_dir_all(self.place.path())
            .is_err_and(|error| error.kind() != std::io::ErrorKind::NotFound)
            && begun.elapsed() < Duration::from_secs(10)
        {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl TestEnvironment {
    /// A home and an empty directory for the repository.
    pub(crate) fn empty() -> Self {
        let place = tempfile::Builder::new()
            .prefix("cofferdam-test-")
            .tempdir()
            .unwrap();
        for name in ["home", "repository", "tmp"] {
            std::fs::create_dir(place.path().join(name)).unwrap();
        }
        Self {
            place,
            inherited: Vec::new(),
        }
    }

    /// With a repository: two files in one commit on `main`.
    pub(crate) fn with_repository() -> Self {
        let this = Self::empty();
        this.git(&["init", "--quiet", "--initial-branch=main"]);
        this.git(&["config", "user.name", "Test"]);
        this.git(&["config", "user.email", "test@example.com"]);
        this.write("README.md", "hello\n");
        this.write("src/lib.txt", "one\ntwo\n");
        this.git(&["add", "--all"]);
        this.git(&["commit", "--quiet", "--message=start"]);
        this
    }

    /// Their commands find the engines where this machine's user has them.
    #[expect(
        clippy::disallowed_methods,
        reason = "the engines are where this machine's user has them"
    )]
    pub(crate) fn knows_engines(&mut self) {
        let known = SURROUNDINGS.map(|name| Some((name, std::env::var_os(name)?)));
        self.inherited = known.into_iter().flatten().collect();
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.place.path().join("home")
    }

    /// What the user's own configuration says.
    pub(crate) fn configure(&self, text: &str) {
        let own = self.home().join(".cofferdam");
        cofferdam::fsx::private_dir(&own).unwrap();
        cofferdam::fsx::write_private(&own.join("config.yaml"), text.as_bytes()).unwrap();
    }

    pub(crate) fn repository(&self) -> PathBuf {
        self.place.path().join("repository")
    }

    pub(crate) fn temporary(&self) -> PathBuf {
        self.place.path().join("tmp")
    }

    /// A file of theirs, below their home.
    pub(crate) fn puts(&self, path: &str, text: &str) -> PathBuf {
        let path = self.home().join(path);
        cofferdam::fsx::private_dir(path.parent().unwrap()).unwrap();
        cofferdam::fsx::write_private(&path, text.as_bytes()).unwrap();
        path
    }

    /// Writes a file below the repository.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test's own file needs no private mode"
    )]
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.repository().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.repository().join(path)).unwrap()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "tests start the command as a shell does"
    )]
    fn sealed(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home())
            .env("TMPDIR", self.temporary())
            .env("TERM", "xterm")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(self.inherited.iter().map(|(name, value)| (name, value)))
            .current_dir(self.repository())
            .stdin(Stdio::null());
        command
    }

    /// Another program of the user's, in the repository.
    pub(crate) fn program(&self, name: &str) -> Command {
        self.sealed(Path::new(name))
    }

    /// The command under test, in the repository.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.sealed(Path::new(env!("CARGO_BIN_EXE_cofferdam")));
        command.args(arguments);
        command
    }

    /// Runs `cofferdam` to its end.
    #[track_caller]
    pub(crate) fn cofferdam(&self, arguments: &[&str]) -> Done {
        self.cofferdam_within(arguments, LIMIT)
    }

    /// The same of one that may take longer.
    #[track_caller]
    pub(crate) fn cofferdam_within(&self, arguments: &[&str], limit: Duration) -> Done {
        finish_within(
            self.command(arguments)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
            limit,
        )
    }

    /// The user has a program below their home; the directory that it is in, which is not in their `PATH`.
    pub(crate) fn has_program(&self, name: &str, text: &str) -> PathBuf {
        let bin = self.home().join("tools/bin");
        std::fs::create_dir_all(&bin).unwrap();
        cofferdam::fsx::write_with_mode(&bin.join(name), text.as_bytes(), 0o755).unwrap();
        bin
    }

    /// `cofferdam run OPTIONS -- sh -c SCRIPT`.
    #[track_caller]
    pub(crate) fn run(&self, options: &[&str], script: &str) -> Done {
        let mut arguments = vec!["run"];
        arguments.extend_from_slice(options);
        arguments.extend_from_slice(open_mode(options));
        arguments.extend_from_slice(&["--", "sh", "-c", script]);
        self.cofferdam(&arguments)
    }

    /// A line of bash in the repository.
    #[track_caller]
    pub(crate) fn shell(&self, line: &str) -> Done {
        let mut command = self.program("bash");
        command
            .args(["-c", line])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    }

    /// Plain git of the user, which must succeed; its output without the last line feed.
    #[track_caller]
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let Output {
            status,
            stdout,
            stderr,
        } = self
            .sealed(Path::new("git"))
            .args(arguments)
            .output()
            .unwrap();
        assert!(
            status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&stderr)
        );
        String::from_utf8_lossy(&stdout).trim_end().to_owned()
    }

    /// All references with what they name.
    pub(crate) fn references(&self) -> String {
        self.git(&["for-each-ref"])
    }

    /// Nothing is left that a run makes for itself, and the repository is whole.
    #[track_caller]
    pub(crate) fn expect_clean(&self) {
        self.git(&["fsck", "--strict"]);
        let worktrees = self.git(&["worktree", "list", "--porcelain"]);
        assert_eq!(worktrees.matches("worktree ").count(), 1, "{worktrees}");
        let state = self.home().join(".cofferdam/state");
        let left: Vec<_> = state
            .read_dir()
            .map(|found| found.flatten().collect())
            .unwrap_or_default();
        assert!(left.is_empty(), "{left:?}");
    }

    /// Nothing was made for a sandbox, not even the directories for it. That layers are possible may be noted.
    #[track_caller]
    pub(crate) fn expect_nothing_made(&self) {
        let home = self.home().join(".cofferdam");
        let trees = home.join("trees");
        let names = |directory: &Path| -> Vec<String> {
            let found = directory.read_dir().into_iter().flatten().flatten();
            found
                .map(|one| one.file_name().into_string().unwrap())
                .collect()
        };
        let found = names(&home);
        assert!(found.iter().all(|name| name == "trees"), "{found:?}");
        let found = names(&trees);
        let noted = |name: &String| name.starts_with("possible-");
        assert!(found.iter().all(noted), "{found:?}");
        assert!(!self.repository().join(".cofferdam").exists());
        assert_eq!(self.git(&["branch", "--list", "cofferdam/*"]), "");
    }

    /// Snapshot settings that hide what differs from run to run.
    pub(crate) fn snapshots(&self) -> insta::Settings {
        let mut settings = insta::Settings::clone_current();
        let place = self.place.path().to_str().unwrap();
        settings.add_filter(r"/allowed/[0-9a-f]{8}\b", "/allowed/[HASH8]");
        settings.add_filter(&place.replace('.', "\\."), "[PLACE]");
        for (pattern, shown) in [
            (r"\b[0-9a-f]{40}\b", "[COMMIT]"),
            (r"\b[0-9a-f]{10}\b", "[SHORT]"),
            (r"\b\d{8}-\d{6}-[0-9a-f]{6}\b", "[NAME]"),
            (r"\b\d+ ms\b", "[TIME]"),
            (r"\b\d+(\.\d)? s\b", "[TIME]"),
        ] {
            settings.add_filter(pattern, shown);
        }
        settings
    }
}

/// The mode of this pass, for a command that is given `options` and leaves it open. Layers are the product's own choice.
pub(crate) fn open_mode(options: &[&str]) -> &'static [&'static str] {
    let says = ["--mode", "--head", "--dev"];
    match Mode::of_this_pass() {
        _ if options.iter().any(|one| says.contains(one)) => &[],
        Mode::Layer => &[],
        Mode::Bind => &["--mode", "bind"],
        Mode::Copy => &["--mode", "copy"],
    }
}

/// Waits for a child whose output is piped. One that hangs is killed and fails the test.
#[track_caller]
pub(crate) fn finish(child: Child) -> Done {
    finish_within(child, LIMIT)
}

#[track_caller]
pub(crate) fn finish_within(mut child: Child, limit: Duration) -> Done {
    let stdout = child.stdout.take().map(collect);
    let stderr = child.stderr.take().map(collect);
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > limit {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the command did not end within {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = |stream: Option<std::thread::JoinHandle<Vec<u8>>>| {
        let bytes = stream
            .map(|thread| thread.join().unwrap())
            .unwrap_or_default();
        String::from_utf8(bytes).unwrap()
    };
    Done {
        status,
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// An `sh` script that commits one file for each name, with the name as its message.
pub(crate) fn commit_script(names: &[&str]) -> String {
    let mut script = "set -e\n".to_owned();
    for name in names {
        writeln!(
            script,
            "echo '{name}' > '{name}.txt'; git add '{name}.txt'; git commit -qm '{name}'"
        )
        .unwrap();
    }
    script
}

/// Compares a whole outcome with an inline snapshot.
macro_rules! check {
    ($environment:expr, $done:expr, @$snapshot:literal) => {
        $environment.snapshots().bind(|| insta::assert_snapshot!($done.to_string(), @$snapshot));
    };
}
pub(crate) use check;
