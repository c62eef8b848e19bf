//! The engines, and what one does otherwise than the other: a table, not a second client.

use std::fmt;

/// An engine that keeps containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Docker, or what speaks its interface under its name.
    Docker,
    /// Podman.
    Podman,
}

impl Kind {
    /// In the order in which they are looked for.
    pub const ALL: [Self; 2] = [Self::Docker, Self::Podman];

    /// As users name it: `--sandbox docker`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    /// The other direction.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The variable that says where its socket is.
    pub(super) fn variable(self) -> &'static str {
        match self {
            Self::Docker => "DOCKER_HOST",
            Self::Podman => "CONTAINER_HOST",
        }
    }

    /// Its socket below a user's runtime directory, and the machine's.
    pub(super) fn sockets(self) -> (&'static str, &'static str) {
        match self {
            Self::Docker => ("docker.sock", "/var/run/docker.sock"),
            Self::Podman => ("podman/podman.sock", "/run/podman/podman.sock"),
        }
    }

    /// What brings its socket up, for root and for an ordinary user.
    pub(super) fn start(self, root: bool) -> &'static str {
        match (self, root) {
            (Self::Docker, _) => "sudo systemctl start docker",
            (Self::Podman, true) => "systemctl start podman.socket",
            (Self::Podman, false) => "systemctl --user start podman.socket",
        }
    }

    /// Whether who joins another container's network has its hostname, and can have none of its own.
    pub(super) fn shares_hostname(self) -> bool {
        match self {
            Self::Docker => true,
            Self::Podman => false,
        }
    }

    /// The network of a container about which nobody says anything. To Podman a bridge is more than that where it is an ordinary
    /// user's, and one that could not be made once is in its own way from then on (4.3).
    pub(super) fn open_network(self) -> &'static str {
        match self {
            Self::Docker => "bridge",
            Self::Podman => "private",
        }
    }

    /// What no path of a mount may have in it. Podman writes mounts as a list of options with commas between them, and reads
    /// that again (4.3): what follows a comma in a name would be an option.
    pub(super) fn never_in_paths(self) -> &'static [char] {
        match self {
            Self::Docker => &[],
            Self::Podman => &[',', '"', '\n', '\r'],
        }
    }

    /// A file system in memory may have an owner (`uid=`). Podman refuses that (4.3), so there it is everybody's.
    pub(super) fn owns_tmpfs(self) -> bool {
        self == Self::Docker
    }

    /// Whoever administers the machine may have it give secrets of the machine's to every container (containers-mounts.conf(5)): some
    /// distributions do so by themselves.
    pub(super) fn gives_secrets(self) -> bool {
        self == Self::Podman
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Docker => "Docker",
            Self::Podman => "Podman",
        })
    }
}
