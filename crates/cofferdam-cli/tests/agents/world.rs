//! A user with a repository, a model on their machine, and a network policy that allows nothing but it.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use cofferdam_lab::model::{Model, Script, Seen};
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{HOST, KEY, Program};

/// A command that has not ended by then is taken for hung.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// The same of one that builds an image.
const LONG: Duration = Duration::from_secs(900);
/// What the user asks for. The model's script says what comes of it.
const PROMPT: &str = "Write `ONE` in src/lib.txt and commit it. When nothing is left to do, print on a \
                      line of its own:\n<promise>COMPLETE</promise>";

#[derive(Debug)]
pub(crate) struct World {
    place: TempDir,
    pub(crate) program: Program,
    model: Model,
    /// The user has the agent's key in their environment.
    pub(crate) has_key: bool,
    /// The user's home, and the entry of `PATH` that has the programs.
    home: PathBuf,
    entry: PathBuf,
    /// Variables that say where engines are.
    engines: Vec<(&'static str, OsString)>,
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
        let Self { stdout, stderr, .. } = &self;
        assert_eq!(self.status.code(), Some(code), "{stdout}\n---\n{stderr}");
        self
    }

    /// The lines of `--json` output.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let lines = self.stdout.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The last of them: the report.
    pub(crate) fn report(&self) -> Value {
        self.lines().pop().unwrap()
    }
}

impl World {
    pub(crate) fn new(program: Program, script: impl Into<Script>) -> Self {
        let place = tempfile::Builder::new()
            .prefix("cofferdam-test-")
            .tempdir()
            .unwrap();
        for name in ["cofferdam", "repository/src", "tmp"] {
            fs::create_dir_all(place.path().join(name)).unwrap();
        }
        let config = place.path().join("cofferdam/config.yaml");
        fs::write(config, "firewall:\n  allow: []\n").unwrap();
        let model = Model::start(script).unwrap();
        if let Some((path, settings)) = program.settings(model.port()) {
            let path = place.path().join("cofferdam/home").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, settings.to_string()).unwrap();
        }
        let this = Self {
            place,
            program,
            model,
            has_key: true,
            home: program.home(),
            entry: program.home().join(".npm-global/bin"),
            engines: Vec::new(),
        };
        fs::write(this.repository().join("src/lib.txt"), "one\ntwo\n").unwrap();
        this.git(&["init", "--quiet", "--initial-branch=main"]);
        this.git(&["config", "user.name", "Test"]);
        this.git(&["config", "user.email", "test@example.com"]);
        this.git(&["add", "--all"]);
        this.git(&["commit", "--quiet", "--message=start"]);
        this
    }

    /// Its engines are where this machine's user has them.
    pub(crate) fn with_engines(mut self) -> Self {
        let names = ["DOCKER_HOST", "CONTAINER_HOST"];
        let set = |name| Some((name, std::env::var_os(name)?));
        self.engines = names.into_iter().filter_map(set).collect();
        self
    }

    /// The user has the programs as symlinks in this directory of another home, and their packages in neither a
    /// tool directory nor an entry of their `PATH`.
    pub(crate) fn link_programs_in(&mut self, directory: &str) {
        self.home = self.place.path().join("home");
        let entry = self.home.join(directory);
        fs::create_dir_all(&entry).unwrap();
        for name in ["claude", "codex"] {
            let program = self.entry.join(name).canonicalize().unwrap();
            std::os::unix::fs::symlink(program, entry.join(name)).unwrap();
        }
        self.entry = entry;
    }

    pub(crate) fn repository(&self) -> PathBuf {
        self.place.path().join("repository")
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// What the model saw; every request fitted its script.
    #[track_caller]
    pub(crate) fn seen(&self) -> Seen {
        let seen = self.model.seen();
        assert!(seen.complaints.is_empty(), "{:?}", seen.complaints);
        seen
    }

    fn sealed(&self, program: &Path) -> Command {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.entry.display());
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", &self.home)
            .env("COFFERDAM_HOME", self.place.path().join("cofferdam"))
            .env("TMPDIR", self.place.path().join("tmp"))
            .env("TERM", "dumb")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .envs(self.engines.iter().cloned())
            .current_dir(self.repository())
            .stdin(Stdio::null());
        command
    }

    /// `cofferdam run` with the agent, its model allowed and known to it.
    pub(crate) fn start(&self, options: &[&str], arguments: &[String]) -> Child {
        let rule = format!("{HOST}:{}", self.model.port());
        let own = ["--name", "one", "--allow", &rule];
        self.start_with(&[&own, options].concat(), arguments)
    }

    /// `cofferdam continue` of a run, its model allowed and known to it.
    #[track_caller]
    pub(crate) fn go_on(&self, run: &str, options: &[&str]) -> Done {
        let rule = format!("{HOST}:{}", self.model.port());
        let mut command = self.with_model();
        command
            .args(["continue", "--json", run, "--allow", &rule])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    }

    fn with_model(&self) -> Command {
        let mut command = self.sealed(Path::new(env!("CARGO_BIN_EXE_cofferdam")));
        if self.has_key {
            command.env(self.program.key_variable(), KEY);
        }
        command.envs(self.program.variables(self.model.port()));
        command
    }

    fn start_with(&self, options: &[&str], arguments: &[String]) -> Child {
        let mut command = self.with_model();
        command
            .args(["run", "--json", "--agent", self.program.name()])
            .args(["--prompt", PROMPT])
            .args(self.program.model().map(|model| format!("--model={model}")))
            .args(options)
            .arg("--")
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// `cofferdam run` in a sandbox that is there; the user's configuration has to allow the model.
    #[track_caller]
    pub(crate) fn run_in(&self, sandbox: &str) -> Done {
        finish(self.start_with(&["--in", sandbox], &[]))
    }

    /// The user's configuration allows the model, and nothing else.
    pub(crate) fn allow_model(&self) {
        let config = self.place.path().join("cofferdam/config.yaml");
        let port = self.model.port();
        let text = format!("firewall: {{allow: [{{domain: {HOST}, ports: [{port}]}}]}}\n");
        fs::write(config, text).unwrap();
    }

    /// The same, to its end.
    #[track_caller]
    pub(crate) fn run(&self, options: &[&str]) -> Done {
        finish(self.start(options, &[]))
    }

    /// The home of programs on this machine itself.
    pub(crate) fn home_outside(&self) -> PathBuf {
        self.place.path().join("outside")
    }

    /// A program on this machine itself, which may write into a home of its own.
    pub(crate) fn outside(&self, program: &Path) -> Command {
        let home = self.home_outside();
        fs::create_dir_all(&home).unwrap();
        let mut command = self.sealed(program);
        command
            .env("HOME", home)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The program itself, outside of any sandbox, with its model.
    pub(crate) fn program_outside(&self) -> Command {
        let mut command = self.outside(&self.entry.join(self.program.command()));
        if let Some((path, settings)) = self.program.settings(self.model.port()) {
            let path = self.home_outside().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, settings.to_string().replace(HOST, "127.0.0.1")).unwrap();
        }
        let variables = self.program.variables(self.model.port()).into_iter();
        command
            .env(self.program.key_variable(), KEY)
            .envs(variables.map(|(name, value)| (name, value.replace(HOST, "127.0.0.1"))));
        if self.program == Program::Codex {
            let (_, settings) = self.program.impatient(self.model.port());
            let settings = settings.iter().map(|one| one.replace(HOST, "127.0.0.1"));
            command.args(settings).env("CODEX_API_KEY", KEY);
        }
        command
    }

    /// `cofferdam mcp --http`, at any port that is free.
    pub(crate) fn server(&self) -> Child {
        let mut command = self.sealed(Path::new(env!("CARGO_BIN_EXE_cofferdam")));
        command
            .args(["mcp", "--http", "127.0.0.1:0"])
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// The file with the word that it wants to hear.
    pub(crate) fn token(&self) -> PathBuf {
        self.place.path().join("cofferdam/mcp-token")
    }

    /// Another command of `cofferdam`.
    #[track_caller]
    pub(crate) fn cofferdam(&self, arguments: &[&str]) -> Done {
        let mut command = self.sealed(Path::new(env!("CARGO_BIN_EXE_cofferdam")));
        command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    }

    /// One that is to have a terminal, whose output is piped.
    pub(crate) fn on_a_terminal(&self, words: &str) -> Child {
        let command = format!("{} {words}", env!("CARGO_BIN_EXE_cofferdam"));
        let mut script = self.sealed(Path::new("script"));
        script
            .args([
                "--quiet",
                "--return",
                "--flush",
                "--command",
                &command,
                "/dev/null",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        script.spawn().unwrap()
    }

    /// `cofferdam interactive` with the agent on a terminal, its model allowed and known to it. What is typed is piped in, and what is
    /// shown is piped out.
    pub(crate) fn interactive(&self, options: &[&str]) -> Child {
        let rule = format!("{HOST}:{}", self.model.port());
        let words = [
            &[
                env!("CARGO_BIN_EXE_cofferdam"),
                "interactive",
                "--name",
                "one",
            ],
            &["--agent", self.program.name(), "--allow", &rule][..],
            options,
        ]
        .concat();
        // As a window of 40 lines has it.
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let line = format!("stty rows 40 cols 120; {}", words.join(" "));
        let mut script = Command::new("script");
        let command = self.with_model();
        script
            .args(["--quiet", "--return", "--flush", "--command", &line])
            .arg("/dev/null")
            .env_clear()
            .envs(
                command
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .env("TERM", "xterm-256color")
            .current_dir(self.repository())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        script.spawn().unwrap()
    }

    /// One that takes minutes.
    #[track_caller]
    pub(crate) fn long(&self, arguments: &[&str]) -> Done {
        let mut command = self.sealed(Path::new(env!("CARGO_BIN_EXE_cofferdam")));
        command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish_within(command.spawn().unwrap(), LONG)
    }

    /// The sandbox's network log.
    #[track_caller]
    pub(crate) fn network_log(&self) -> Vec<Value> {
        let done = self.cofferdam(&["net", "log", "one", "--json"]);
        done.expect_code(0).lines()
    }

    /// Plain git of the user, which must succeed; its output without the last line feed.
    #[track_caller]
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let mut git = self.sealed(Path::new("git"));
        let Output {
            status,
            stdout,
            stderr,
        } = git.args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "git {arguments:?}: {stderr}");
        String::from_utf8_lossy(&stdout).trim_end().to_owned()
    }

    /// Subjects on `main`, newest first.
    #[track_caller]
    pub(crate) fn subjects(&self) -> String {
        self.git(&["log", "--format=%s", "main"])
    }

    /// The same on the sandbox's branch, where the commits of a run stay that did not succeed.
    #[track_caller]
    pub(crate) fn kept(&self) -> String {
        assert_eq!(self.subjects(), "start");
        self.git(&["log", "--format=%s", "cofferdam/one"])
    }
}

/// Waits for a child whose output is piped. One that hangs is killed and fails the test.
#[track_caller]
pub(crate) fn finish(child: Child) -> Done {
    finish_within(child, LIMIT)
}

/// The same of one that may take longer.
#[track_caller]
pub(crate) fn finish_within(mut child: Child, limit: Duration) -> Done {
    let stdout = child.stdout.take().map(collect);
    let stderr = child.stderr.take().map(collect);
    let start = Instant::now();
    let mut hung = false;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > limit {
            hung = true;
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = |stream: Option<std::thread::JoinHandle<Vec<u8>>>| {
        let bytes = stream.map(|thread| thread.join().unwrap());
        String::from_utf8(bytes.unwrap_or_default()).unwrap()
    };
    let (stdout, stderr) = (text(stdout), text(stderr));
    assert!(
        !hung,
        "the command did not end within {limit:?}\n{stdout}\n---\n{stderr}"
    );
    Done {
        status,
        stdout,
        stderr,
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    })
}
