//! The one place that reads the process environment: everything else gets values.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, stderr, stdout};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cofferdam::git::Git;
use cofferdam::home::Home;
use cofferdam::registry;
use cofferdam::sandbox::engine::Surroundings;
use cofferdam::session::{Caller, Watcher};

/// All that a process of ours has of the user's variables which may live longer than a secret should: where it finds home, engine
/// and git.
pub(crate) const LASTING: [&str; 8] = [
    "COFFERDAM_HOME",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "HOME",
    "PATH",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
];
/// The first word of the process that watches a checkout: no command of anybody's.
pub(crate) const WATCH: &str = "watch-checkout";

/// What the command takes from its surroundings.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    /// All variables, for agents that declare names of theirs.
    pub(crate) variables: BTreeMap<OsString, OsString>,
    /// `$HOME`, where it is an absolute path.
    pub(crate) user_home: Option<PathBuf>,
    /// `COFFERDAM_HOME`, or `.cofferdam` below the user's home.
    pub(crate) home: Home,
    /// The directory to work in: absolute.
    pub(crate) directory: PathBuf,
    /// The user's `git`, found in their `PATH`.
    pub(crate) git: Git,
    /// Where temporary directories go.
    pub(crate) temporary: PathBuf,
    pub(crate) colour: Colour,
    /// How this command was started: its name where `PATH` has it, else its path.
    program: PathBuf,
    /// Whether live output may move the cursor on standard error.
    pub(crate) live: bool,
    /// Columns of the terminal on standard output, 80 where there is none.
    pub(crate) columns: usize,
}

/// Where colour is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Colour {
    wanted: bool,
}

impl Colour {
    pub(crate) fn on_stdout(self) -> bool {
        self.wanted && stdout().is_terminal()
    }

    pub(crate) fn on_stderr(self) -> bool {
        self.wanted && stderr().is_terminal()
    }
}

/// The surroundings are not usable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EnvironmentError {
    #[error("cannot work in {}: {source}", path.display())]
    Directory {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("there is no place for Cofferdam's own files: HOME is not set to an absolute path")]
    NoHome,
    #[error("COFFERDAM_HOME is `{}`, which is not an absolute path", .0.display())]
    RelativeHome(PathBuf),
}

impl Environment {
    /// `directory` is the user's `-C`.
    pub(crate) fn read(directory: Option<&Path>) -> Result<Self, EnvironmentError> {
        #[expect(clippy::disallowed_methods, reason = "this is the one place")]
        let variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        let directory = directory.unwrap_or(Path::new("."));
        let directory = directory
            .canonicalize()
            .and_then(|path| path.read_dir().map(|_| path))
            .map_err(|source| EnvironmentError::Directory {
                path: directory.into(),
                source,
            })?;
        Self::from_variables(variables, directory)
    }

    /// What says where engines are.
    pub(crate) fn engines(&self) -> Surroundings {
        let set = |name: &str| {
            self.variables
                .get(OsStr::new(name))
                .filter(|value| !value.is_empty())
                .cloned()
        };
        Surroundings {
            docker_host: set("DOCKER_HOST"),
            docker_context: set("DOCKER_CONTEXT"),
            docker_config: set("DOCKER_CONFIG").map(PathBuf::from),
            container_host: set("CONTAINER_HOST"),
            runtime: set("XDG_RUNTIME_DIR").map(PathBuf::from),
            home: self.user_home.clone(),
        }
    }

    /// Through what the web is reached, as programs are usually told.
    pub(crate) fn proxy(&self) -> Option<String> {
        let names = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
        let set = |name: &&str| self.variables.get(OsStr::new(name));
        let named = names.iter().find_map(set)?.to_str()?;
        Some(named.to_owned()).filter(|named| !named.is_empty())
    }

    /// The path or the name by which others start this command.
    pub(crate) fn program(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// The word that starts this command again, from any directory.
    pub(crate) fn invocation(&self) -> String {
        crate::ui::shell::shell_word(&self.program)
    }

    fn from_variables(
        variables: BTreeMap<OsString, OsString>,
        directory: PathBuf,
    ) -> Result<Self, EnvironmentError> {
        let set = |name: &str| {
            variables
                .get(OsStr::new(name))
                .filter(|value| !value.is_empty())
        };
        let absolute = |name: &str| {
            set(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let user_home = absolute("HOME");
        let home = match (set("COFFERDAM_HOME").map(PathBuf::from), &user_home) {
            (Some(path), _) if path.is_absolute() => path,
            (Some(path), _) => return Err(EnvironmentError::RelativeHome(path)),
            (None, Some(home)) => home.join(".cofferdam"),
            (None, None) => return Err(EnvironmentError::NoHome),
        };
        let dumb = set("TERM").is_none_or(|term| term == "dumb");
        let colour = Colour {
            wanted: set("NO_COLOR").is_none() && !dumb,
        };
        let live = !dumb && stderr().is_terminal();
        let git = find_program("git", set("PATH").map(OsString::as_os_str));
        // Started as `target/release/cofferdam`, it is not found by its name.
        let path = set("PATH").map(OsString::as_os_str);
        let own = std::env::current_exe().ok();
        let program = match (own, find_program("cofferdam", path)) {
            (Some(own), Some(found)) if found.canonicalize().is_ok_and(|found| found == own) => {
                PathBuf::from("cofferdam")
            }
            (Some(own), _) => own,
            (None, _) => PathBuf::from("cofferdam"),
        };
        let temporary = absolute("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
        Ok(Self {
            git: Git::new(git.unwrap_or_else(|| "git".into())),
            home: Home::new(home),
            user_home,
            directory,
            temporary,
            colour,
            program,
            live,
            columns: columns(),
            variables,
        })
    }

    /// The top of the repository around the directory to work in; that directory itself where there is none.
    pub(crate) fn top(&self) -> &Path {
        let mut above = self.directory.ancestors();
        above
            // Git goes by an empty one.
            .find(|one| {
                let found = one.join(".git");
                found.is_file() || found.join("HEAD").symlink_metadata().is_ok()
            })
            .unwrap_or(&self.directory)
    }

    /// As if started in another directory.
    pub(crate) fn at(&self, directory: PathBuf) -> Self {
        Self {
            directory,
            ..self.clone()
        }
    }

    /// What no program that a sandbox shows may lie in, as a run in this directory has it.
    pub(crate) fn unseen(&self) -> Vec<PathBuf> {
        let top = self.top();
        // It only explains; a run that cannot read the records fails by itself.
        registry::unseen(&self.home, top, self.user_home.as_deref()).unwrap_or_default()
    }

    /// On whose behalf the library works: nobody listens to it yet, and nothing cancels it.
    pub(crate) fn caller(&self) -> Caller {
        let mut caller = Caller::new(self.home.clone());
        caller.git = self.git.clone();
        caller.user_home.clone_from(&self.user_home);
        caller.environment.clone_from(&self.variables);
        caller.watcher = self.watcher();
        caller
    }

    /// This program, as the process that watches a checkout.
    fn watcher(&self) -> Option<Watcher> {
        let known = self.variables.iter();
        let known =
            known.filter(|(name, _)| name.to_str().is_some_and(|name| LASTING.contains(&name)));
        let mut watcher = Watcher::new(std::env::current_exe().ok()?);
        watcher.arguments = vec![WATCH.into()];
        watcher.environment = known.map(|(k, v)| (k.clone(), v.clone())).collect();
        Some(watcher)
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
    }
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(stdout());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { 80 } else { columns }
}

/// The first executable `name` in absolute entries of `path`: a relative entry would run whatever
/// the current directory, perhaps an agent's worktree, holds.
fn find_program(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    std::env::split_paths(path?)
        .filter(|entry| entry.is_absolute())
        .map(|entry| entry.join(name))
        .find(|candidate| {
            candidate
                .metadata()
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Environment, EnvironmentError> {
        let variables = pairs
            .iter()
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        Environment::from_variables(variables, PathBuf::from("/"))
    }

    #[test]
    fn home_directories() {
        let found = read(&[("HOME", "/home/u")]).unwrap();
        assert_eq!(found.home.path(), Path::new("/home/u/.cofferdam"));
        let found = read(&[("HOME", "/home/u"), ("COFFERDAM_HOME", "/c")]).unwrap();
        assert_eq!(found.home.path(), Path::new("/c"));
        assert!(matches!(read(&[]), Err(EnvironmentError::NoHome)));
        assert!(matches!(
            read(&[("HOME", "x")]),
            Err(EnvironmentError::NoHome)
        ));
        let relative = read(&[("HOME", "/h"), ("COFFERDAM_HOME", "c")]);
        assert!(matches!(relative, Err(EnvironmentError::RelativeHome(_))));
    }

    #[test]
    fn programs_come_from_absolute_entries_only() {
        assert_eq!(
            find_program("sh", Some(OsStr::new("bin:/bin"))),
            Some("/bin/sh".into())
        );
        assert_eq!(
            find_program("no-such-program", Some(OsStr::new("/bin"))),
            None
        );
        assert_eq!(find_program("sh", None), None);
    }
}
