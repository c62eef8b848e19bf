//! The environment inside: which of the caller's tools are offered, and the variables that programs
//! expect.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use cofferdam_guest::protocol::{SetupMount, Source};

use super::host::{DEFAULT_PATH, Host, search_entries, shown, usable_home};
use super::program::{self, Found, Gathering};
use crate::sandbox::spec::search_first;
use crate::sandbox::{HostProgram, SandboxSpec};

/// Where an entry of `PATH` below the caller's home comes from: entries that start with `entry` need
/// `parts` (all relative to home) and `variables` (a name, and a directory relative to home).
struct Tool {
    entry: &'static str,
    parts: &'static [&'static str],
    /// Directories that the tool wants to be there, and empty.
    empty: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
}

const TOOLS: &[Tool] = &[
    Tool {
        entry: ".cargo/bin",
        parts: &[".cargo/bin", ".rustup/toolchains", ".rustup/settings.toml"],
        empty: &[".rustup/update-hashes"],
        variables: &[("RUSTUP_HOME", ".rustup")],
    },
    Tool {
        entry: ".rustup/toolchains",
        parts: &[".rustup/toolchains"],
        empty: &[],
        variables: &[],
    },
    Tool {
        entry: ".pyenv",
        parts: &[".pyenv"],
        empty: &[],
        variables: &[("PYENV_ROOT", ".pyenv")],
    },
    Tool {
        entry: ".rbenv",
        parts: &[".rbenv"],
        empty: &[],
        variables: &[("RBENV_ROOT", ".rbenv")],
    },
    Tool {
        entry: ".nvm/versions",
        parts: &[".nvm/versions"],
        empty: &[],
        variables: &[],
    },
    Tool {
        entry: ".volta",
        parts: &[".volta/bin", ".volta/tools"],
        empty: &[],
        variables: &[("VOLTA_HOME", ".volta")],
    },
    Tool {
        entry: ".local/share/fnm",
        parts: &[".local/share/fnm"],
        empty: &[],
        variables: &[],
    },
    Tool {
        entry: ".local/bin",
        parts: &[
            ".local/bin",
            ".local/share/uv/tools",
            ".local/share/uv/python",
            ".local/share/pipx/venvs",
        ],
        empty: &[],
        variables: &[],
    },
    Tool {
        entry: ".linuxbrew",
        parts: &[".linuxbrew"],
        empty: &[],
        variables: &[],
    },
    Tool {
        entry: ".local/share/mise",
        parts: &[".local/share/mise"],
        empty: &[],
        variables: &[("MISE_DATA_DIR", ".local/share/mise")],
    },
    Tool {
        entry: ".local/share/pnpm",
        parts: &[".local/share/pnpm"],
        empty: &[],
        variables: &[],
    },
    Tool {
        entry: ".asdf",
        parts: &[".asdf"],
        empty: &[],
        variables: &[("ASDF_DATA_DIR", ".asdf")],
    },
    Tool {
        entry: ".bun/bin",
        parts: &[".bun/bin", ".bun/install/global"],
        empty: &[],
        variables: &[],
    },
    Tool {
        entry: ".deno/bin",
        parts: &[".deno/bin"],
        empty: &[],
        variables: &[],
    },
    Tool {
        entry: ".npm-global",
        parts: &[".npm-global"],
        empty: &[],
        variables: &[],
    },
    Tool {
        entry: ".yarn/bin",
        parts: &[".yarn/bin"],
        empty: &[],
        variables: &[],
    },
    Tool {
        entry: "go/bin",
        parts: &["go/bin"],
        empty: &[],
        variables: &[],
    },
    Tool {
        entry: ".ghcup/bin",
        parts: &[".ghcup/bin", ".ghcup/ghc"],
        empty: &[],
        variables: &[],
    },
    Tool {
        entry: ".sdkman/candidates",
        parts: &[".sdkman/candidates"],
        empty: &[],
        variables: &[],
    },
];

/// Homebrew's own home, which is nobody's.
const LINUXBREW: &str = "/home/linuxbrew";

/// What the caller's `PATH` brings into a sandbox.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Offered {
    pub(super) mounts: Vec<SetupMount>,
    pub(super) variables: BTreeMap<OsString, OsString>,
    pub(super) path: OsString,
}

/// Where the caller has a program, and whether a sandbox shows it. `None`: their `PATH` has no such program.
pub fn locate(program: &HostProgram, host: &Host<'_>) -> Option<Found> {
    let (mut offered, known) = by_the_list(host);
    let mut found = Gathering::new(host, &mut offered.mounts).program(program)?;
    found.for_all = known
        .iter()
        .any(|entry| program::is_program(&entry.join(&program.name)));
    Some(found)
}

/// Whether no sandbox can have a program of that name: neither the caller's `PATH` has one nor the system, and an
/// absolute path leads to none. Whether it may be shown is another question, for [`locate`].
pub(in crate::sandbox) fn is_nowhere(program: &OsStr, search_path: Option<&OsStr>) -> bool {
    let path = Path::new(program);
    if path.is_absolute() {
        return !path.starts_with("/workspace") && !program::is_program(path);
    }
    let mut places = search_entries(search_path).chain(search_entries(None));
    !program.as_bytes().contains(&b'/')
        && !places.any(|place| program::is_program(&place.join(path)))
}

pub(super) fn offered(host: &Host<'_>) -> Offered {
    let (mut offered, known) = by_the_list(host);
    let mut gathering = Gathering::new(host, &mut offered.mounts);
    for program in host.programs {
        gathering.program(program);
    }
    let needed = gathering.entries;
    let mut entries: Vec<&[u8]> = Vec::new();
    for entry in search_entries(host.search_path) {
        let wanted = needed.iter().filter(|(at, _)| at == entry);
        let own = wanted.map(|(_, directory)| directory.as_os_str().as_bytes());
        let itself = known.contains(&entry).then(|| entry.as_os_str().as_bytes());
        for entry in own.chain(itself) {
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
    }
    if entries.is_empty() {
        entries.push(DEFAULT_PATH.as_bytes());
    }
    offered.path = OsString::from_vec(entries.join(&b':'));
    offered
}

/// Tool directories, and the entries of `PATH` that lie in them or in the system.
fn by_the_list<'a>(host: &Host<'a>) -> (Offered, Vec<&'a Path>) {
    let mut offered = Offered::default();
    let home = usable_home(host.home);
    let entries = search_entries(host.search_path).filter(|path| {
        let below = [home, Some(Path::new(LINUXBREW))]
            .into_iter()
            .flatten()
            .find_map(|home| Some((home, path.strip_prefix(home).ok()?)));
        match below {
            Some((home, below)) => offer(&mut offered, home, below, host.unseen),
            None => program::is_system(path),
        }
    });
    let known = entries.collect();
    (offered, known)
}

fn offer(offered: &mut Offered, home: &Path, below: &Path, unseen: &[PathBuf]) -> bool {
    let Some(tool) = TOOLS.iter().find(|tool| below.starts_with(tool.entry)) else {
        return false;
    };
    for part in tool.parts {
        let path = home.join(part);
        if program::touches(&path, unseen) {
            continue;
        }
        let path = path.into_os_string().into_vec();
        let known = offered.mounts.iter().any(|mount| mount.target == path);
        if !known {
            offered.mounts.push(shown(Source::Path(path.clone()), path));
        }
    }
    for part in tool.empty {
        let target = home.join(part).into_os_string().into_vec();
        let mount = shown(Source::Nothing, target);
        if !offered.mounts.contains(&mount) {
            offered.mounts.push(mount);
        }
    }
    for (name, directory) in tool.variables {
        offered
            .variables
            .insert((*name).into(), home.join(directory).into());
    }
    true
}

/// The environment of every program in the sandbox.
pub(super) fn environment(spec: &SandboxSpec, offered: &Offered) -> BTreeMap<OsString, OsString> {
    let mut environment: BTreeMap<OsString, OsString> = [
        ("HOME", "/home/agent"),
        ("USER", "agent"),
        ("LOGNAME", "agent"),
        (
            "SHELL",
            if PathBuf::from("/bin/bash").exists() {
                "/bin/bash"
            } else {
                "/bin/sh"
            },
        ),
        ("LANG", "C.UTF-8"),
        ("TERM", "xterm-256color"),
    ]
    .into_iter()
    .map(|(name, value)| (name.into(), value.into()))
    .collect();
    environment.insert("PATH".into(), offered.path.clone());
    environment.extend(offered.variables.clone());
    environment.extend(spec.environment.clone());
    search_first(spec, &mut environment);
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(path: Option<&str>, home: Option<&str>) -> Offered {
        offered(&Host {
            search_path: path.map(OsStr::new),
            home: home.map(Path::new),
            ..Host::default()
        })
    }

    #[test]
    fn tools_below_home_by_the_list_and_nothing_else() {
        let path = "/home/u/.cargo/bin:/home/u/bin:/usr/bin:relative:/srv/x:/home/u/.nvm/versions/node/v1/bin:/home/u/.ssh:/usr/bin:/home/u/.cargo/bin/../../.ssh";
        let got = offer(Some(path), Some("/home/u"));
        assert_eq!(
            got.path,
            "/home/u/.cargo/bin:/usr/bin:/home/u/.nvm/versions/node/v1/bin"
        );
        let targets: Vec<_> = got
            .mounts
            .iter()
            .map(|m| String::from_utf8_lossy(&m.target).into_owned())
            .collect();
        assert_eq!(
            targets,
            [
                "/home/u/.cargo/bin",
                "/home/u/.rustup/toolchains",
                "/home/u/.rustup/settings.toml",
                "/home/u/.rustup/update-hashes",
                "/home/u/.nvm/versions"
            ]
        );
        assert!(got.mounts.iter().all(|m| m.optional && !m.writable));
        assert_eq!(got.variables[OsStr::new("RUSTUP_HOME")], "/home/u/.rustup");
    }

    #[test]
    fn without_a_home_or_path_there_are_the_system_programs() {
        assert_eq!(offer(None, None).path, DEFAULT_PATH);
        assert_eq!(offer(Some("/root/x"), None).path, DEFAULT_PATH);
        assert_eq!(offer(Some("/usr/bin"), Some("/")).path, "/usr/bin");
    }
}
