//! The next step where something of this machine is not mounted.

use cofferdam::session::ExtraMountError;

use crate::ui::shell::shell_word;

pub(crate) fn mount_hint(error: &ExtraMountError) -> &'static str {
    match error {
        ExtraMountError::Words { .. } => {
            "for example `--mount ~/data`, `--mount ~/data:/mnt/in:rw`, or `--mount src=/a:b,dst=/mnt/b` where a path has a colon"
        }
        ExtraMountError::Count { .. } => "mount a directory that holds several of them",
        ExtraMountError::NoMounts { .. } => {
            "leave out `--mount`, or use `--sandbox native`, `docker` or `podman`"
        }
        ExtraMountError::Target { .. } => {
            "choose another place, for example `--mount SRC:/mnt/data` or `--mount SRC:~/data`"
        }
        ExtraMountError::Collision { .. } => {
            "give each a place of its own, for example `--mount SRC:/mnt/other`"
        }
        ExtraMountError::Missing { .. } => "make it, or correct the path",
        ExtraMountError::Unreachable { .. } => "name one that you can reach",
        ExtraMountError::Kind { .. } => "name a directory or a file with content",
        ExtraMountError::Moved { .. } => {
            "bring back what was there, or make another sandbox with `cofferdam create`"
        }
        ExtraMountError::Refused { .. } => {
            "name something further down, or copy what the agent needs to a directory of its own"
        }
        ExtraMountError::ReadOnly { .. } | ExtraMountError::Repository { .. } => {
            "leave out `:rw`, or name a directory made for it"
        }
        ExtraMountError::Agents { .. } => {
            "name the directory that it writes itself, or end that sandbox first"
        }
        ExtraMountError::Large { .. } => "name the directories further down that are needed",
        ExtraMountError::MountedBelow { .. } => {
            "name what is on one file system, each with a `--mount` of its own"
        }
        ExtraMountError::Scattered { .. } => {
            "name directories further down, or copy what the agent needs to one of its own"
        }
        ExtraMountError::Slow { .. } => {
            "see whether the disk or the server that it is on answers, or name directories further down"
        }
        ExtraMountError::Cancelled => "give the same command again",
        ExtraMountError::File(_) => "name one that can be looked through",
    }
}

/// Where the sandbox is there already: what it was made with stays as it is.
pub(super) fn of_one_that_is(name: &str, error: &ExtraMountError) -> String {
    let mend = match error {
        ExtraMountError::Missing { .. } | ExtraMountError::Moved { .. } => {
            "bring back what was there when the sandbox was made".to_owned()
        }
        ExtraMountError::Repository { at, .. } => format!(
            "look at what is there, and when nothing of it is needed: `rm -r {}`",
            shell_word(at)
        ),
        ExtraMountError::Slow { .. }
        | ExtraMountError::Unreachable { .. }
        | ExtraMountError::File(_) => "see to it that it can be read".to_owned(),
        ExtraMountError::Words { .. }
        | ExtraMountError::Count { .. }
        | ExtraMountError::NoMounts { .. }
        | ExtraMountError::Target { .. }
        | ExtraMountError::Collision { .. }
        | ExtraMountError::Kind { .. }
        | ExtraMountError::Refused { .. }
        | ExtraMountError::ReadOnly { .. }
        | ExtraMountError::Agents { .. }
        | ExtraMountError::Large { .. }
        | ExtraMountError::MountedBelow { .. }
        | ExtraMountError::Scattered { .. }
        | ExtraMountError::Cancelled => "remove or change there what is in the way".to_owned(),
    };
    format!(
        "{mend}; then `cofferdam start {name}`. Without a start, `cofferdam collect {name}` brings home what is committed in it, \
         `cofferdam diff --uncommitted {name}` shows what is not, and `cofferdam delete {name}` ends it"
    )
}
