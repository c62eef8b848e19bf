//! What an engine says of an image.

use std::collections::BTreeMap;

/// An image that an engine has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Image {
    /// As the engine names it: a digest of its configuration.
    pub id: String,
    /// In bytes, with all that it is built on.
    pub size: u64,
    /// What it is marked with, by their names.
    pub labels: BTreeMap<String, String>,
}

/// The one that a sandbox gets.
#[derive(Debug, Clone, Default)]
pub(super) struct Chosen {
    pub(super) name: String,
    /// What it is whatever it is called; none of ours without a file in it, of which is known what it is.
    pub(super) id: Option<String>,
    /// `NAME=value` each.
    pub(super) variables: Vec<String>,
    /// Where it has directories that an engine makes for each container.
    pub(super) volumes: Vec<String>,
}

impl Chosen {
    /// It and no other: its name may be given to another one at any time.
    pub(super) fn exact(&self) -> &str {
        self.id.as_ref().unwrap_or(&self.name)
    }

    /// The one without a file.
    pub(super) fn empty(id: String) -> Self {
        Self {
            name: id,
            ..Self::default()
        }
    }
}
