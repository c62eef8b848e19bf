//! Why a sandbox has the mode that it has, for whoever shows it.

use std::fmt;

use serde::{Serialize, Serializer};

/// Why a sandbox sees its files as it does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModeReason {
    /// By the kind of sandbox that the caller chose.
    Asked,
    /// The sandbox was there before.
    Made,
    /// The choice was open, and layers are possible: that is best.
    Possible,
    /// The strategy `head` is the host's directory itself.
    Head,
    /// A hook on the host needs a directory with all files.
    HostHook,
    /// The checkout leaves files out (`git sparse-checkout`), and a layer has all of a commit.
    Sparse,
    /// There can be no layers here, and why.
    Impossible(String),
}

impl fmt::Display for ModeReason {
    /// As it stands in brackets behind the mode.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("as asked"),
            Self::Made => f.write_str("as it was made"),
            Self::Possible => f.write_str("the default"),
            Self::Head => f.write_str("as the strategy is"),
            Self::HostHook => f.write_str("a hook on the host needs the directory"),
            Self::Sparse => f.write_str("as sparse as this checkout"),
            Self::Impossible(why) => write!(f, "layers are not possible here: {why}"),
        }
    }
}

impl Serialize for ModeReason {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
