//! The stage of the demonstration: a temporary directory with a small real repository, things worth
//! stealing, traps that show when they were sprung, and a listener.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use cofferdam::fsx::{self, FileError};
use cofferdam::names::SandboxId;
use cofferdam::process::{Invocation, ProcessError};
use cofferdam::text::printable;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::environment::Environment;
use crate::ui::shell::shell_word;

/// The scripted agent.
const AGENT: &str = include_str!("agent.sh");
const README: &str = "# sums\n\nSmall programs for small sums. `TODO.md` says which are missing.\n";
const TODO: &str = "# To do\n\n- [ ] add.sh\n- [ ] sub.sh\n- [ ] mul.sh\n";

/// The stage could not be set.
#[derive(Debug, thiserror::Error)]
pub(super) enum StageError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot make a place for the demonstration in {}: {source}", path.display())]
    Place {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("`git {command}` failed: {words}")]
    Git { command: String, words: String },
    #[error("cannot listen on 127.0.0.1: {0}")]
    Listen(std::io::Error),
}

/// Everything that the demonstration made. Dropping it removes the directory.
#[derive(Debug)]
pub(super) struct Stage {
    place: TempDir,
    git: PathBuf,
    path: OsString,
    /// A text that no output and no commit may contain.
    pub(super) secret: String,
    pub(super) listener: TcpListener,
    pub(super) port: u16,
}

impl Stage {
    pub(super) async fn set(
        environment: &Environment,
        cancel: &CancellationToken,
    ) -> Result<Self, StageError> {
        let failed = |source| StageError::Place {
            path: environment.temporary.clone(),
            source,
        };
        let place = tempfile::Builder::new()
            .prefix("cofferdam-demo-")
            .tempdir_in(&environment.temporary)
            .map_err(failed)?;
        let listener = TcpListener::bind("127.0.0.1:0").map_err(StageError::Listen)?;
        listener.set_nonblocking(true).map_err(StageError::Listen)?;
        let port = listener.local_addr().map_err(StageError::Listen)?.port();
        let secret = SandboxId::random().map_err(failed)?.to_string();
        let path = environment
            .variable("PATH")
            .map(OsString::from)
            .unwrap_or_default();
        let git = environment.git.program().to_owned();
        let stage = Self {
            place,
            git,
            path,
            secret,
            listener,
            port,
        };
        stage.fill(cancel).await?;
        Ok(stage)
    }

    async fn fill(&self, cancel: &CancellationToken) -> Result<(), StageError> {
        fsx::private_dir(&self.path_of("own"))?;
        fsx::private_dir(&self.path_of("home/.ssh"))?;
        fsx::private_dir(&self.path_of("outside"))?;
        fsx::write_private(&self.secret_file(), format!("{}\n", self.secret).as_bytes())?;
        let identity = "[user]\n\tname = You\n\temail = you@example.com\n";
        fsx::write_private(&self.path_of("home/.gitconfig"), identity.as_bytes())?;
        for repository in [self.repository(), self.unprotected()] {
            fsx::private_dir(&repository)?;
            self.git(
                &repository,
                &["init", "--quiet", "--initial-branch=main"],
                cancel,
            )
            .await?;
            let files = [
                ("README.md", README, 0o644),
                ("TODO.md", TODO, 0o644),
                ("agent.sh", AGENT, 0o755),
                (".gitignore", "/.cofferdam/\n", 0o644),
            ];
            for (name, text, mode) in files {
                fsx::write_with_mode(&repository.join(name), text.as_bytes(), mode)?;
            }
            self.git(&repository, &["add", "--all"], cancel).await?;
            self.git(
                &repository,
                &["commit", "--quiet", "--message=start"],
                cancel,
            )
            .await?;
        }
        Ok(())
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Where Cofferdam keeps its own files here.
    pub(super) fn own_files(&self) -> PathBuf {
        self.path_of("own")
    }

    pub(super) fn repository(&self) -> PathBuf {
        self.path_of("sums")
    }

    /// The same repository, where the agent's plants are put in place: they must fire there, or
    /// their silence elsewhere would mean nothing.
    pub(super) fn unprotected(&self) -> PathBuf {
        self.path_of("unprotected")
    }

    /// The home directory of the user who plays along here.
    pub(super) fn user_home(&self) -> PathBuf {
        self.path_of("home")
    }

    fn secret_file(&self) -> PathBuf {
        self.path_of("home/.ssh/id_ed25519")
    }

    /// A file outside of the worktree that the agent tries to write.
    pub(super) fn outside(&self) -> PathBuf {
        self.path_of("outside/owned")
    }

    /// A file of the system that the agent tries to write.
    pub(super) fn system() -> &'static Path {
        Path::new("/usr/bin/cofferdam-demo-was-here")
    }

    /// A host that no rule names, on the built-in list neither (RFC 2606: nobody can own it).
    pub(super) fn unnamed() -> &'static str {
        "collector.example"
    }

    /// Exists once `plant` has run on the host.
    pub(super) fn fired(&self, plant: &str) -> PathBuf {
        self.path_of(&format!("fired-{plant}"))
    }

    /// A line of shell that leaves a mark on the host where it runs on the host.
    pub(super) fn plant(&self, plant: &str) -> String {
        let mark = shell_word(self.fired(plant));
        format!(": 2>/dev/null >{mark}; exit 0 #")
    }

    /// What the agent is told.
    pub(super) fn variables(&self, user_home: &Path) -> BTreeMap<OsString, OsString> {
        let pairs: [(&str, OsString); 9] = [
            ("DEMO_HOME", user_home.into()),
            ("DEMO_SECRET", self.secret_file().into()),
            ("DEMO_OUTSIDE", self.outside().into()),
            ("DEMO_SYSTEM", Self::system().into()),
            ("DEMO_REPOSITORY", self.repository().into()),
            ("DEMO_HOOK", self.plant("hook").into()),
            ("DEMO_FSMONITOR", self.plant("fsmonitor").into()),
            ("DEMO_PORT", self.port.to_string().into()),
            ("DEMO_NAME", Self::unnamed().into()),
        ];
        pairs
            .into_iter()
            .map(|(key, value)| (key.into(), value))
            .collect()
    }

    /// Plain git as a user runs it, with the repository's hooks and configuration in force.
    pub(super) async fn git(
        &self,
        repository: &Path,
        arguments: &[&str],
        cancel: &CancellationToken,
    ) -> Result<String, StageError> {
        let done = self
            .call(&self.git, repository)
            .args(arguments)
            .run(cancel)
            .await?;
        if !done.exit.success() {
            let words = printable(String::from_utf8_lossy(&done.stderr).trim_end());
            return Err(StageError::Git {
                command: arguments.join(" "),
                words,
            });
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// A program of the host in the demonstration's environment.
    pub(super) fn call(&self, program: &Path, directory: &Path) -> Invocation {
        Invocation::new(program, directory)
            .env("PATH", &self.path)
            .env("HOME", self.user_home())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C")
    }

    /// Leaves the directory where it is and says where.
    pub(super) fn keep(self) -> PathBuf {
        self.place.keep()
    }
}
