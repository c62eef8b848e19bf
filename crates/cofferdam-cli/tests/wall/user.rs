//! A user with a home and a repository, who starts `cofferdam` as from a shell.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cofferdam_lab::probe::{Outcome, Task};

use crate::engine;

#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) home: PathBuf,
    pub(crate) repository: PathBuf,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl User {
    /// With a fresh repository; the home may be there already.
    pub(crate) fn new(home: PathBuf, repository: PathBuf) -> Self {
        fs::create_dir_all(home.join("tmp")).unwrap();
        fs::create_dir_all(&repository).unwrap();
        let this = Self { home, repository };
        let probe = std::env::current_exe().unwrap();
        fs::copy(probe, this.repository.join("probe")).unwrap();
        // The program and what it leaves are no work: nothing of it is recorded or collected.
        let ignored = "/probe\n*.sock\n*.out\n";
        fs::write(this.repository.join(".gitignore"), ignored).unwrap();
        for words in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &["config", "user.name", "Test"],
            &["config", "user.email", "test@example.com"],
            &["add", ".gitignore"],
            &["commit", "--quiet", "--message=start"],
        ] {
            let output = this.sealed("git").args(words).output().unwrap();
            assert!(output.status.success(), "git {words:?}: {output:?}");
        }
        this
    }

    /// Another repository of the same home.
    pub(crate) fn beside(&self, repository: PathBuf) -> Self {
        Self::new(self.home.clone(), repository)
    }

    fn sealed(&self, program: &str) -> Command {
        // An ordinary user has the lab's capabilities: the command has none of them.
        let mut command = Command::new("setpriv");
        if !rustix::process::geteuid().is_root() {
            command.args(["--inh-caps=-all", "--ambient-caps=-all"]);
        }
        command
            .arg("--")
            .arg(program)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", &self.home)
            .env("TMPDIR", self.home.join("tmp"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .current_dir(&self.repository)
            .stdin(Stdio::null());
        if let Some((name, host)) = engine::variable() {
            command.env(name, host);
        }
        command
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.sealed(env!("CARGO_BIN_EXE_cofferdam"));
        command.args(arguments);
        command
    }

    /// Runs it to its end.
    pub(crate) fn cofferdam(&self, arguments: &[&str]) -> Done {
        let output = self.command(arguments).output().unwrap();
        Done {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// A run of its own for these tasks. No outcomes where the sandbox did not start.
    pub(crate) fn once(&self, options: &[&str], tasks: &[Task]) -> (Done, Vec<Outcome>) {
        let file = self.repository.join("once.out");
        let _ = fs::remove_file(&file);
        let tasks: Vec<String> = tasks
            .iter()
            .map(|task| serde_json::to_string(task).unwrap())
            .collect();
        let mut arguments = vec!["run", "--head"];
        arguments.extend_from_slice(options);
        arguments.extend_from_slice(engine::words(options));
        arguments.extend_from_slice(&["--", "./probe", "--probe", "do", "once.out"]);
        arguments.extend(tasks.iter().map(String::as_str));
        let done = self.cofferdam(&arguments);
        let lines = fs::read_to_string(&file).unwrap_or_default();
        let outcomes = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        (done, outcomes)
    }

    /// Writes the user's own configuration.
    pub(crate) fn configure(&self, text: impl AsRef<[u8]>) {
        let directory = self.home.join(".cofferdam");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("config.yaml"), text).unwrap();
    }

    pub(crate) fn path(&self, below_home: &str) -> PathBuf {
        self.home.join(Path::new(below_home))
    }
}
