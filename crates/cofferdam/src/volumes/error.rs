//! What goes wrong with volumes.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use crate::fsx::FileError;
use crate::names::{Slug, VolumeName};
use crate::registry::RegistryError;

/// Why something could not be done with a volume. Nothing in it is lost.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// Nobody has made one of that name.
    #[error("there is no volume `{0}`")]
    Unknown(VolumeName),
    /// It is not removed while a sandbox has it.
    #[error("volume `{name}` is used by {}", list(by))]
    Used {
        /// The volume's name.
        name: VolumeName,
        /// The sandboxes that have it.
        by: Vec<Slug>,
    },
    /// Another command makes or removes one.
    #[error("another command makes or removes a volume")]
    Busy,
    /// The label is not as Cofferdam writes it.
    #[error("{} cannot be read as the label of a volume: {reason}", path.display())]
    Label {
        /// The label's file.
        path: PathBuf,
        /// Why, as a sentence fragment.
        reason: String,
    },
    /// The archive could not be written to its end.
    #[error("cannot export volume `{name}`: {source}")]
    Export {
        /// The volume's name.
        name: VolumeName,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Every name that a volume of this repository could have is taken.
    #[error("every name for a volume of {} is another repository's", .0.display())]
    NoName(PathBuf),
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// What is known of sandboxes cannot be read.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl VolumeError {
    pub(super) fn label(path: &Path, reason: impl Display) -> Self {
        Self::Label {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}

fn list(names: &[Slug]) -> String {
    let shown = names.iter().map(|name| format!("`{name}`"));
    let shown: Vec<_> = shown.collect();
    match &*shown {
        [one] => format!("sandbox {one}"),
        several => format!("sandboxes {}", several.join(", ")),
    }
}
