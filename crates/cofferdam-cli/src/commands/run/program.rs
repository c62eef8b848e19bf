//! What to do where the agent's program could not be started: the next step depends on what the
//! user's own side holds under that name.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cofferdam::RunError;
use cofferdam::sandbox::SandboxError;
use cofferdam::session::{AgentFailure, RunErrorKind};

use super::arguments::{Arguments, FileMode};
use crate::environment::Environment;
use crate::error::CliError;
use crate::ui::steps::shell_word;

/// Where the command was started, and what its sandbox sees of that.
#[derive(Debug)]
pub(super) struct Place {
    directory: PathBuf,
    /// The top of the repository.
    top: PathBuf,
    /// The agent sees the checkout as it is, not only what is committed.
    checkout: bool,
}

impl Place {
    pub(super) fn new(arguments: &Arguments, environment: &Environment) -> Self {
        let directory = environment.directory.clone();
        let top = directory
            .ancestors()
            .find(|one| one.join(".git").exists())
            .unwrap_or(&directory)
            .to_owned();
        let checkout = arguments.mode == FileMode::Bind
            && !arguments.merge_to_head
            && arguments.branch.is_none();
        Self {
            directory,
            top,
            checkout,
        }
    }

    /// Adds the next step to an error about the agent's program.
    pub(super) fn explain(&self, error: RunError) -> CliError {
        let hint = match &error.kind {
            RunErrorKind::Agent {
                failure: AgentFailure::Sandbox(SandboxError::Program { program, .. }),
                ..
            } => self.hint(program),
            _ => return CliError::Run(error),
        };
        CliError::Program {
            error: Box::new(error),
            hint,
        }
    }

    fn hint(&self, program: &str) -> String {
        let path = Path::new(program);
        if !program.contains('/') {
            return if self.directory.join(path).is_file() {
                format!("for the file here write `./{program}`")
            } else {
                format!(
                    "install `{program}` for the whole system, in ~/.local/bin or in ~/.cargo/bin: \
                     of your home a sandbox sees only tool directories such as these"
                )
            };
        }
        if path.is_absolute() {
            return match path.strip_prefix(&self.top) {
                Ok(below) => format!(
                    "the repository is at another path in the sandbox: write {}",
                    from_top(below)
                ),
                Err(_) => format!(
                    "the sandbox does not see that path: copy the program into {}",
                    shell_word(&self.top)
                ),
            };
        }
        let path = path.strip_prefix(".").unwrap_or(path);
        match fs::metadata(self.top.join(path)) {
            Ok(found) => self.present(path, &found),
            Err(_) => self.absent(path),
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
                "a worktree holds committed files only: commit {word}, or add `--copy {word}`; \
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

fn from_top(below: &Path) -> String {
    format!("`{}`", shell_word(Path::new(".").join(below)))
}
