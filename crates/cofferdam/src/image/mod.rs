//! Images of ours: the base with all tools, and what a repository makes of it.
//!
//! Nothing of Cofferdam has to be in an image. These are here for what agents and people want to find: shells, languages,
//! agents. An image is built by an engine, from an archive that holds all that the build may read, with its network behind the wall.

mod agreed;
mod archive;
mod base;
mod build;
mod dockerfile;
mod newest;
mod repository;

use std::io;
use std::path::PathBuf;

pub use base::{Base, Built, Variant, Versions, base_has, build_base};
pub use build::Progress;
pub use newest::Web;
pub use repository::{STARTER, Source, build_repository, has_dockerfile};

use crate::fsx::FileError;
use crate::sandbox::SandboxError;
use crate::sandbox::engine::{BuildError, Kind};
use crate::wall::Refused;

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A tag or a version that was asked for cannot be used.
    #[error("{what} cannot be `{given}`: {reason}")]
    Unusable {
        /// With its article, such as "the tag" and "the version of codex".
        what: &'static str,
        /// As it was given.
        given: String,
        /// Why, as a sentence fragment.
        reason: &'static str,
    },
    /// Nobody could say what the newest version of a tool is.
    #[error("cannot find out which version of {tool} is the latest: {reason}")]
    Unresolved {
        /// The tool's name.
        tool: &'static str,
        /// Why, as a sentence fragment.
        reason: String,
    },
    /// There is no Dockerfile where it was looked for.
    #[error("there is no Dockerfile at {}", .0.display())]
    NoDockerfile(PathBuf),
    /// Something beside the Dockerfile that no build gets.
    #[error("{} {reason}", path.display())]
    Context {
        /// Absolute.
        path: PathBuf,
        /// A sentence fragment that follows the path.
        reason: String,
    },
    /// The build would not stay within its archive and its wall.
    #[error("{} has `{instruction}`: {reason}", path.display())]
    LeadsOut {
        /// The Dockerfile.
        path: PathBuf,
        /// What it says, safe for a terminal.
        instruction: String,
        /// Why, as a sentence fragment.
        reason: &'static str,
    },
    /// It is built on a base that the engine does not have.
    #[error("{engine} has no image `{base}`, which this one is built on")]
    NoBase {
        /// Which engine.
        engine: Kind,
        /// As the Dockerfile names it.
        base: String,
    },
    /// The commands of a Dockerfile run as they stand there: somebody has to have read them.
    #[error("nobody has said yet that the Dockerfile of this repository may run")]
    Untrusted(Box<Source>),
    /// What was said is of another Dockerfile, or of other files beside it.
    #[error("`{given}` is not the digest of what would be built")]
    OtherDigest {
        /// As it was given.
        given: String,
        /// What would be built.
        source_is: Box<Source>,
    },
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The archive for the engine could not be written.
    #[error("cannot pack what the image is built from: {0}")]
    Pack(#[source] io::Error),
    /// The engine did not do its part.
    #[error(transparent)]
    Engine(#[from] SandboxError),
    /// A step of the build failed.
    #[error("the build failed: {reason}")]
    Build {
        /// In the engine's words, safe for a terminal.
        reason: String,
        /// Whether it is the base that was built.
        base: bool,
        /// What its programs asked for, and the wall refused.
        refused: Vec<Refused>,
    },
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
}

impl From<BuildError> for ImageError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Engine(error) => Self::Engine(error),
            BuildError::Failed(reason) => Self::Build {
                reason,
                base: false,
                refused: Vec::new(),
            },
            BuildError::Cancelled => Self::Cancelled,
        }
    }
}

/// A tag of an image, as engines take it.
pub(crate) fn check_tag(tag: &str) -> Result<(), ImageError> {
    let first = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let other = |c: char| first(c) || c == '.' || c == '-';
    if tag.len() <= 128 && tag.starts_with(first) && tag.chars().all(other) {
        return Ok(());
    }
    Err(ImageError::Unusable {
        what: "the tag",
        given: tag.to_owned(),
        reason: "a tag has letters, digits, `_`, `.` and `-`, 128 at most, and begins with a letter, a digit or `_`",
    })
}
