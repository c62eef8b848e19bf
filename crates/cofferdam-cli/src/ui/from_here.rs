//! Commands that texts name, as they are given from where the user stands.

use std::borrow::Cow;
use std::path::Path;
use std::sync::{LazyLock, PoisonError, RwLock};

use super::shell::shell_word;

/// The option that names the directory that this command works in, where the user does not stand there.
static THERE: RwLock<Option<String>> = RwLock::new(None);

/// The words after `cofferdam` that make it a command and no name.
static COMMANDS: LazyLock<Vec<String>> = LazyLock::new(crate::names);
/// What texts tell a user to do with git.
const OF_GIT: [&str; 6] = ["diff", "log", "merge", "restore", "stash", "status"];

/// From now on commands are named with this directory.
pub(crate) fn work_in(directory: &Path) {
    let mut there = THERE.write().unwrap_or_else(PoisonError::into_inner);
    *there = Some(format!("-C {}", shell_word(directory)));
}

/// The text with commands that do what it says where the user stands.
pub(crate) fn from_here(text: &str) -> Cow<'_, str> {
    let there = THERE.read().unwrap_or_else(PoisonError::into_inner);
    match &*there {
        None => Cow::Borrowed(text),
        Some(there) => Cow::Owned(placed(text, there)),
    }
}

fn placed(text: &str, there: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    loop {
        let of_ours = rest.find("cofferdam ").map(|at| (at, "cofferdam "));
        let of_git = rest.find("git ").map(|at| (at, "git "));
        let Some((at, program)) = of_ours.into_iter().chain(of_git).min() else {
            return out + rest;
        };
        let (before, after) = rest.split_at(at + program.len());
        let begins = !before[..at].ends_with(|c: char| c.is_alphanumeric() || "/-_.".contains(c));
        let mut words = after.split(|c: char| !c.is_ascii_lowercase() && c != '-');
        let word = words.next().unwrap_or_default();
        let is_command = match program {
            "git " => OF_GIT.contains(&word),
            _ => COMMANDS.iter().any(|name| name == word),
        };
        out.push_str(before);
        if begins && is_command {
            out.push_str(there);
            out.push(' ');
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_named_with_their_directory() {
        for (text, expected) in [
            ("see `cofferdam approve`", "see `cofferdam -C x approve`"),
            (
                "next: cofferdam merge a\n",
                "next: cofferdam -C x merge a\n",
            ),
            (
                "`cofferdam diff a`, then `cofferdam build-base`",
                "`cofferdam -C x diff a`, then `cofferdam -C x build-base`",
            ),
            (
                "git stash && git merge a",
                "git -C x stash && git -C x merge a",
            ),
            ("cofferdam gc", "cofferdam -C x gc"),
        ] {
            assert_eq!(placed(text, "-C x"), expected);
            assert_eq!(placed(expected, "-C x"), expected);
        }
        for text in [
            "",
            "another version of cofferdam may be at work",
            "cofferdam: the run goes on",
            "/opt/cofferdam run",
            "my-cofferdam run",
            "cofferdam",
            "cofferdam walks",
            "git -C y status",
            "a git directory",
            "legit merge",
        ] {
            assert_eq!(placed(text, "-C x"), text);
        }
    }
}
