//! What there are volumes for, and how they are called.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::names::VolumeName;
use crate::text::hex;

/// So many bytes of the digest of a repository's path are in the name of a volume; the later ones where another repository has that.
const LENGTHS: [usize; 3] = [4, 8, 32];

/// What a volume is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The logins of Claude Code, of all sandboxes.
    Claude,
    /// The login of Codex and what `codex-init-config` writes, of all sandboxes.
    Codex,
    /// What was typed in the shells of a repository's sandboxes.
    History,
    /// A repository's branches that people work on beside its checkout.
    Shelf,
}

impl Purpose {
    /// In the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::History, Self::Shelf];

    /// Whether each checkout has its own.
    pub fn is_of_repository(self) -> bool {
        matches!(self, Self::History | Self::Shelf)
    }

    /// The one that is for all repositories and called so.
    pub fn called(name: &str) -> Option<Self> {
        let of_all = Self::ALL.into_iter().filter(|one| !one.is_of_repository());
        let mut named = of_all.filter(|one| {
            one.names(Path::new("/"))
                .iter()
                .any(|one| one.as_str() == name)
        });
        named.next()
    }

    /// Whether the volume is for this.
    pub fn is_called(self, volume: &super::Volume) -> bool {
        let repository = volume.repository.as_deref().unwrap_or(Path::new("/"));
        self.names(repository).contains(&volume.name)
    }

    /// The names that it can have, the usual one first.
    pub(super) fn names(self, repository: &Path) -> Vec<VolumeName> {
        let one = |name: &str| vec![VolumeName::known(name)];
        let digest = Sha256::digest(repository.as_os_str().as_bytes());
        let each = |name: &dyn Fn(&str) -> String| {
            let names = LENGTHS.map(|length| VolumeName::known(&name(&hex(&digest[..length]))));
            names.to_vec()
        };
        match self {
            Self::Claude => one("cofferdam-creds"),
            Self::Codex => one("cofferdam-codex-config"),
            Self::History => each(&|hash| format!("cofferdam-{hash}-history")),
            Self::Shelf => each(&|hash| format!("cofferdam-shelf-{hash}")),
        }
    }
}
