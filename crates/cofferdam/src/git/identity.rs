//! What of the user's own git configuration travels: name, email, and the few settings that decide
//! how files are compared. One git call that runs no program of the configuration.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::command::{Git, GitCommand, GitError};
use super::discovery::Start;
use super::repository::{Identity, Repository};
use super::steering::{COMMANDS, INCLUDES, READ, Steering};

/// The user's settings that matter here. Everything else of a configuration stays on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserConfig {
    /// Present where both name and email are set.
    pub identity: Option<Identity>,
    /// `core.excludesFile`, with `~/` resolved.
    pub excludes_file: Option<PathBuf>,
    /// `core.hooksPath` of the repository itself; the user's global one is not a repository's.
    pub hooks_path: Option<PathBuf>,
    /// What of it names programs and settings that may lie in a checkout.
    pub steering: Steering,
    /// Settings under `core.` that decide how a file compares to its blob: name and value.
    pub comparing: Vec<(String, String)>,
}

/// Settings of `core.` that the private clone takes over.
const COMPARING: [&str; 6] = [
    "autocrlf",
    "eol",
    "filemode",
    "ignorecase",
    "symlinks",
    "precomposeunicode",
];

/// Looks the user's name and email up, in the repository's and in their global configuration.
pub async fn identity(
    repo: &Repository,
    caller_home: Option<&Path>,
    cancel: &CancellationToken,
) -> Result<Option<Identity>, GitError> {
    Ok(user_config(repo, caller_home, cancel).await?.identity)
}

/// Reads all of [`UserConfig`] by one `git config` call.
pub async fn user_config(
    repo: &Repository,
    caller_home: Option<&Path>,
    cancel: &CancellationToken,
) -> Result<UserConfig, GitError> {
    read(repo.command(), caller_home, cancel).await
}

/// As [`user_config`], of the repository around `start`: it need not be found first.
pub async fn user_config_around(
    git: &Git,
    start: &Start,
    caller_home: Option<&Path>,
    cancel: &CancellationToken,
) -> Result<UserConfig, GitError> {
    read(git.anywhere(start.path()), caller_home, cancel).await
}

async fn read(
    mut call: GitCommand,
    caller_home: Option<&Path>,
    cancel: &CancellationToken,
) -> Result<UserConfig, GitError> {
    if let Some(home) = caller_home {
        // Reading names and paths is all that happens with the user's global configuration.
        call = call.env("HOME", home).without_env("GIT_CONFIG_GLOBAL");
    }
    let wanted = format!(
        "^(user\\.(name|email)|core\\.(excludesfile|hookspath|{})|{INCLUDES}|{COMMANDS}|{READ})$",
        COMPARING.join("|")
    );
    let done = call
        .args(["config", "--null", "--show-scope", "--get-regexp"])
        .arg(wanted)
        .answers(&[1])
        .run(cancel)
        .await?;
    Ok(parse(&done.stdout, caller_home))
}

/// Scope, NUL, key, LF, value, NUL, … in ascending precedence.
fn parse(output: &[u8], caller_home: Option<&Path>) -> UserConfig {
    let mut config = UserConfig::default();
    let (mut name, mut email) = (None, None);
    let mut fields = output.split(|&b| b == 0);
    while let (Some(scope), Some(pair)) = (fields.next(), fields.next()) {
        // Our own `-c` settings come back as scope `command`.
        if scope == b"command" {
            continue;
        }
        let (key, value) = match pair.iter().position(|&b| b == b'\n') {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            // A key without `=` is a true boolean.
            None => (pair, &b"true"[..]),
        };
        match key {
            b"user.name" => name = text(value),
            b"user.email" => email = text(value),
            b"core.excludesfile" => {
                config.excludes_file = path(value, caller_home);
                config.steering.read.extend(path(value, caller_home));
            }
            b"core.attributesfile" | b"core.worktree" | b"init.templatedir" => {
                config.steering.read.extend(path(value, caller_home));
            }
            _ if note_steering(&mut config.steering, key, value, caller_home) => {}
            b"core.hookspath" if matches!(scope, b"local" | b"worktree") => {
                config.hooks_path = path(value, caller_home);
            }
            _ => {
                let Some(setting) = key.strip_prefix(b"core.").and_then(text) else {
                    continue;
                };
                let Some(value) = text(value) else { continue };
                if COMPARING.contains(&setting.as_str()) {
                    config.comparing.retain(|(known, _)| *known != setting);
                    config.comparing.push((setting, value));
                }
            }
        }
    }
    config.identity = name
        .zip(email)
        .map(|(name, email)| Identity { name, email });
    config
}

/// Takes note of a setting that names a program or more settings. Whether that was all of it.
fn note_steering(
    steering: &mut Steering,
    key: &[u8],
    value: &[u8],
    caller_home: Option<&Path>,
) -> bool {
    let starts = |prefix: &[u8]| key.starts_with(prefix);
    if key == b"core.hookspath" {
        steering.hooks.extend(path(value, caller_home));
        // The repository's own is needed as such, too.
        return false;
    }
    let compared = key
        .strip_prefix(b"core.")
        .is_some_and(|name| COMPARING.iter().any(|known| known.as_bytes() == name));
    if starts(b"user.") || compared {
        return false;
    }
    if starts(b"include") {
        steering.includes.extend(path(value, caller_home));
    } else if !starts(b"alias.") || value.starts_with(b"!") {
        steering.commands.push(value.to_owned());
    }
    true
}

fn text(value: &[u8]) -> Option<String> {
    let value = std::str::from_utf8(value).ok()?.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

fn path(value: &[u8], caller_home: Option<&Path>) -> Option<PathBuf> {
    match value.strip_prefix(b"~/") {
        Some(rest) => caller_home.map(|home| home.join(OsStr::from_bytes(rest))),
        None if value.is_empty() => None,
        None => Some(PathBuf::from(OsStr::from_bytes(value))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_scopes_win_and_ours_are_ignored() {
        let output =
            b"global\0user.name\nGlobal\0global\0user.email\ng@x\0local\0user.name\nLocal\0\
            global\0core.hookspath\n/g\0local\0core.hookspath\n.husky/_\0\
            command\0core.hookspath\n/dev/null\0global\0core.excludesfile\n~/ignore\0\
            local\0core.filemode\nfalse\0global\0core.symlinks\0\
            global\0core.attributesfile\n/a\0global\0init.templatedir\n~/t\0local\0core.worktree\n../w\0";
        let config = parse(output, Some(Path::new("/home/u")));
        let identity = Identity {
            name: "Local".into(),
            email: "g@x".into(),
        };
        assert_eq!(config.identity, Some(identity));
        assert_eq!(config.hooks_path, Some(".husky/_".into()));
        assert_eq!(config.excludes_file, Some("/home/u/ignore".into()));
        let read = ["/home/u/ignore", "/a", "/home/u/t", "../w"].map(PathBuf::from);
        assert_eq!(config.steering.read, read);
        let settings = [
            ("filemode".into(), "false".into()),
            ("symlinks".into(), "true".into()),
        ];
        assert_eq!(config.comparing, settings);
        assert_eq!(parse(b"global\0user.name\nx\0", None).identity, None);
    }
}
