//! Where in a sandbox something of this machine may be. Pure.

use std::path::{Component, Path, PathBuf};

use super::error::{ExtraMountError, MOST};
use crate::registry::ExtraMount;
use crate::session::inside::AGENT_HOME;
use crate::text::printable_path;

/// Directories at the top that are the sandbox's own: the system's, the kernel's, the guest's, and where the repository is.
const OWN: [&str; 23] = [
    ".cofferdam",
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "lost+found",
    "nix",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "sys",
    "tmp",
    "usr",
    "var",
    "workspace",
    "repo-shelf",
];
/// What an agent's home has of Cofferdam's, of its shells, and of logins: written when a sandbox comes up, and nothing of it goes
/// to this machine.
const OWN_IN_HOME: [&str; 8] = [
    ".bashrc",
    ".claude",
    ".claude.json",
    ".codex",
    ".cofferdam-env",
    ".cofferdam-zsh-theme",
    ".oh-my-zsh",
    ".zshrc",
];

/// Whether all of them can be where they are wanted. A mount in another one would need a place there, made in a directory of
/// this machine: so none lies in another, whatever may be written.
pub(super) fn check(mounts: &[ExtraMount]) -> Result<(), ExtraMountError> {
    if mounts.len() > MOST {
        let count = mounts.len();
        return Err(ExtraMountError::Count { count });
    }
    for (at, ExtraMount { target, .. }) in mounts.iter().enumerate() {
        place(target).map_err(|why| ExtraMountError::Target {
            target: target.clone(),
            why,
        })?;
        let collides = |other: &&ExtraMount| {
            other.target.starts_with(target) || target.starts_with(&other.target)
        };
        if let Some(other) = mounts[..at].iter().find(collides) {
            return Err(ExtraMountError::Collision {
                one: other.target.clone(),
                other: target.clone(),
            });
        }
    }
    Ok(())
}

fn place(target: &Path) -> Result<(), String> {
    let mut parts = target.components();
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if parts.next() != Some(Component::RootDir) || !parts.clone().all(is_plain) {
        return Err("it is no plain absolute path".to_owned());
    }
    if let Ok(below) = target.strip_prefix(AGENT_HOME) {
        return in_home(below);
    }
    match parts.next() {
        None => Err("it is the sandbox's whole file system".to_owned()),
        Some(first) if OWN.iter().any(|own| first.as_os_str() == *own) => {
            let first = PathBuf::from("/").join(first);
            Err(format!("{} is the sandbox's own", printable_path(&first)))
        }
        Some(_) => Ok(()),
    }
}

/// A deeper one would have directories above it that are not the agent's.
fn in_home(below: &Path) -> Result<(), String> {
    match below.iter().collect::<Vec<_>>()[..] {
        [] => Err("it is the agent's whole home".to_owned()),
        [name] if OWN_IN_HOME.iter().any(|own| name == *own) => {
            Err("the sandbox has a file or directory of its own there".to_owned())
        }
        [_] => Ok(()),
        _ => Err("in the agent's home it must be right below `~/`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(targets: &[&str]) -> Result<(), String> {
        let mount = |target: &&str| ExtraMount {
            source: "/data".into(),
            target: target.into(),
            writable: true,
        };
        let all: Vec<_> = targets.iter().map(mount).collect();
        check(&all).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_the_sandboxes_own_stays() {
        for free in [
            "/mnt",
            "/mnt/data",
            "/data",
            "/srv/a/b",
            "/home/agent/x",
            "/usrlocal",
        ] {
            assert_eq!(checked(&[free]), Ok(()), "{free}");
        }
        for own in [
            "/",
            "/usr",
            "/usr/local/share/x",
            "/etc/passwd",
            "/proc/1",
            "/dev/shm/x",
            "/sys",
            "/run/x",
            "/tmp/x",
            "/var/tmp/x",
            "/lib64",
            "/workspace",
            "/workspace/repository",
            "/workspace/repository/.git",
            "/workspace/other",
            "/.cofferdam/git",
            "/.cofferdam/vault",
            "/.cofferdam/guest",
            "/home",
            "/home/agent",
            "/home/other/x",
            "/home/agent/.bashrc",
            "/home/agent/.claude",
            "/home/agent/a/b",
            "relative",
            "/mnt/../etc",
        ] {
            assert!(checked(&[own]).is_err(), "{own}");
        }
    }

    #[test]
    fn none_lies_in_another() {
        assert_eq!(checked(&["/mnt/a", "/mnt/b", "/mnt/ab"]), Ok(()));
        for two in [
            ["/mnt/a", "/mnt/a"],
            ["/mnt/a", "/mnt/a/b"],
            ["/mnt/a/b", "/mnt/a"],
        ] {
            let error = checked(&two).unwrap_err();
            assert!(
                error.starts_with("two mounts want the same place"),
                "{error}"
            );
        }
    }

    #[test]
    fn there_are_not_too_many() {
        let names: Vec<String> = (0..=MOST).map(|n| format!("/mnt/{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(checked(&names[1..]), Ok(()));
        let error = checked(&names).unwrap_err();
        assert!(error.starts_with("65 mounts are too many"), "{error}");
    }
}
