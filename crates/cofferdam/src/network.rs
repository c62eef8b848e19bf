//! The choice of a sandbox's network, without what belongs to one: a provider can give it or not, `--network` names it,
//! a log says it. What carries rules or sockets for it is a type of its own and knows its kind.

use std::fmt;
use std::str::FromStr;

/// What a sandbox may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NetworkKind {
    /// Its own loopback and nothing else.
    None,
    /// Its own loopback, and through the gateway what its rules name.
    Allowlist,
    /// The host's own network: no wall at all.
    Open,
}

/// A text names no kind of network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is none of none, allowlist, open", .0.escape_debug())]
pub struct NoSuchKind(String);

impl NetworkKind {
    /// From the narrowest to the widest.
    pub const ALL: [Self; 3] = [Self::None, Self::Allowlist, Self::Open];

    /// As `--network` calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Allowlist => "allowlist",
            Self::Open => "open",
        }
    }
}

impl fmt::Display for NetworkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for NetworkKind {
    type Err = NoSuchKind;

    fn from_str(text: &str) -> Result<Self, NoSuchKind> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.as_str() == text)
            .ok_or_else(|| NoSuchKind(text.to_owned()))
    }
}
