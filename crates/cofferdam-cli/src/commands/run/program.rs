//! What to do where the agent's program could not be started: the next step depends on what the
//! user's own side holds under that name.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cofferdam::RunError;
use cofferdam::agent::{self, AGENTS, AgentOptions};
use cofferdam::registry::{self, Record};
use cofferdam::sandbox::native::{self, Host};
use cofferdam::sandbox::{HostProgram, SandboxError};
use cofferdam::session::{AgentFailure, RunErrorKind};

use super::arguments::Arguments;
use super::life::Life;
use crate::commands::doctor::agents::elsewhere;
use crate::commands::unstarted;
use crate::environment::Environment;
use crate::error::{CliError, hint_within};
use crate::ui::shell::shell_word;

/// Where the command was started, and what its sandbox sees of that.
#[derive(Debug)]
pub(super) struct Surroundings {
    directory: PathBuf,
    /// The top of the repository.
    top: PathBuf,
    /// The agent sees the checkout as it is, not only what is committed.
    checkout: bool,
    /// What a sandbox shows of the user's programs comes from these.
    search_path: Option<OsString>,
    home: Option<PathBuf>,
    unseen: Vec<PathBuf>,
    /// The engine's name, and the image whose programs it has, and none of this machine's, where it is in a container.
    image: Option<(&'static str, String)>,
    /// The one that the user named, where the agent is a program of theirs.
    program: Option<OsString>,
}

impl Surroundings {
    pub(super) fn new(arguments: &Arguments, environment: &Environment) -> Self {
        let directory = environment.directory.clone();
        let top = environment.top().to_owned();
        let checkout = arguments.strategy.head;
        let program = arguments.runs_command().then(|| arguments.command.first());
        Self {
            program: program.flatten().cloned(),
            directory,
            top,
            checkout,
            image: arguments.sandbox.container_image(),
            search_path: environment.variable("PATH").map(ToOwned::to_owned),
            home: environment.user_home.clone(),
            unseen: environment.unseen(),
        }
    }

    /// Adds the next step to an error about the agent's program.
    pub(super) fn explain(
        &self,
        error: RunError,
        life: &Life,
        environment: &Environment,
    ) -> CliError {
        let hint = match &error.kind {
            RunErrorKind::Sandbox(SandboxError::Program { program, fault, .. })
            | RunErrorKind::Agent {
                failure: AgentFailure::Sandbox(SandboxError::Program { program, fault, .. }),
                ..
            } => match there(life, &error, environment) {
                // The checkout says nothing of what is in a sandbox that was there before.
                Some(record) => unstarted::hint(program, *fault, &record, environment),
                None => self.hint(program),
            },
            RunErrorKind::Plan(plan) if matches!(life, Life::In(_)) => match hint_within(plan) {
                Some(hint) => hint,
                None => return CliError::Run(error),
            },
            RunErrorKind::Agent {
                failure: AgentFailure::Exit { detail, .. },
                ..
            } if !matches!(life, Life::In(_)) => match self.lonely(detail) {
                Some(hint) => hint,
                None => return CliError::Run(error),
            },
            _ => return CliError::Run(error),
        };
        CliError::Program {
            error: Box::new(error),
            hint,
        }
    }

    /// A program that missed something, and of which the sandbox shows one file alone.
    fn lonely(&self, said: &str) -> Option<String> {
        const MISSES: [&str; 4] = ["no such file", "not found", "no module", "cannot find"];
        let said = said.to_lowercase();
        let program = self.program.as_ref()?;
        let in_the_tree = !Path::new(program).is_absolute() && program.as_bytes().contains(&b'/');
        if in_the_tree || self.image.is_some() || !MISSES.iter().any(|words| said.contains(words)) {
            return None;
        }
        let wanted = HostProgram {
            name: program.clone(),
            directories: Vec::new(),
        };
        let file = native::locate(&wanted, &self.host())?.alone?;
        let beside = file.parent()?.read_dir().ok()?.count() > 1;
        beside.then(|| {
            format!(
                "of {} the sandbox shows that one file, nothing beside it: if it needs more, put it into the \
                 repository, or install it as a package",
                shell_word(&file)
            )
        })
    }

    fn host(&self) -> Host<'_> {
        Host {
            search_path: self.search_path.as_deref(),
            home: self.home.as_deref(),
            programs: &[],
            unseen: &self.unseen,
        }
    }

    fn hint(&self, program: &str) -> String {
        let path = Path::new(program);
        if let Some((engine, image)) = &self.image
            && (!program.contains('/') || path.is_absolute())
        {
            return format!(
                "{image} does not have it: take one that has, with `--image`, or build one with all tools with \
                 `cofferdam build-base --sandbox {engine}`"
            );
        }
        if !program.contains('/') {
            return if self.directory.join(path).is_file() {
                format!("for the file here write `./{program}`")
            } else {
                self.in_path(program)
            };
        }
        if path.is_absolute() {
            return match path.strip_prefix(&self.top) {
                Ok(below) => format!(
                    "the repository is at another path in the sandbox: write {}",
                    from_top(below)
                ),
                Err(_) => self.in_path(program),
            };
        }
        let path = path.strip_prefix(".").unwrap_or(path);
        match fs::metadata(self.top.join(path)) {
            Ok(found) => self.present(path, &found),
            Err(_) => self.absent(path),
        }
    }

    /// What this side has under a name that `PATH` knows, or at an absolute path.
    fn in_path(&self, program: &str) -> String {
        let agents = AGENTS.iter().filter(|kind| !kind.install.is_empty());
        let known = agents.filter_map(|kind| {
            let agent = agent::by_name(kind.name, AgentOptions::default()).ok()?;
            let directories = agent
                .program()
                .filter(|known| known.name == program)?
                .directories;
            let directories: Vec<PathBuf> = directories.iter().map(PathBuf::from).collect();
            Some((kind.install, directories))
        });
        let (install, directories) = known.into_iter().next().unzip();
        let wanted = HostProgram {
            name: program.into(),
            directories: directories.unwrap_or_default(),
        };
        let Some(found) = native::locate(&wanted, &self.host()) else {
            let with = install.map_or_else(String::new, |install| {
                format!(", for example with `{install}`")
            });
            return format!("install `{program}`{with}: nothing in your PATH has that name");
        };
        let place = shell_word(&found.path);
        match (&found.unshown, found.path.strip_prefix(&self.top)) {
            (Some(_), Ok(below)) => format!(
                "{place} is in the repository, where an agent may have put it: if you mean that one, write {}",
                from_top(below)
            ),
            (Some(why), Err(_)) => format!(
                "this machine has {place}, which no sandbox shows because {why}: {}",
                elsewhere(why)
            ),
            (None, _) => format!(
                "the sandbox shows {place}, but not everything that it needs: check its first line, and what it \
                 is linked with"
            ),
        }
    }

    /// The file is there on this side.
    fn present(&self, path: &Path, found: &fs::Metadata) -> String {
        let word = shell_word(path);
        if found.is_dir() {
            return format!("{word} is a directory: name a program in it");
        }
        if found.permissions().mode() & 0o111 == 0 {
            let mut hint = format!("make it executable with `chmod +x {word}`");
            if !self.checkout {
                let _ = write!(hint, ", then commit it or add `--copy {word}`");
            }
            return hint;
        }
        let interpreter = "check its first line: the program after `#!` must exist in the sandbox, \
                           and the line must not end in CR LF";
        if self.checkout {
            interpreter.to_owned()
        } else {
            format!(
                "the sandbox has committed files only: commit {word}, or add `--copy {word}`; \
                 if it is there, {interpreter}"
            )
        }
    }

    fn absent(&self, path: &Path) -> String {
        match self.directory.strip_prefix(&self.top) {
            Ok(below) if self.directory.join(path).exists() => format!(
                "the agent starts at the top of the repository: write {}",
                from_top(&below.join(path))
            ),
            _ => format!(
                "there is no {} in {}: check its name",
                shell_word(path),
                shell_word(&self.top)
            ),
        }
    }
}

/// What the sandbox is that the agent was to work in, where it was there before.
fn there(life: &Life, error: &RunError, environment: &Environment) -> Option<Record> {
    let within = matches!(life, Life::In(_));
    let id = error.kept.id.filter(|_| within)?;
    registry::load(&environment.home, id).ok()
}

fn from_top(below: &Path) -> String {
    format!("`{}`", shell_word(Path::new(".").join(below)))
}
