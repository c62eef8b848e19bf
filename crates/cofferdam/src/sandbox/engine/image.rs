//! What an engine says of an image.

use std::collections::BTreeMap;

/// An image that an engine has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Image {
    pub id: String,
    /// In bytes, with all that it is built on.
    pub size: u64,
    pub labels: BTreeMap<String, String>,
}
