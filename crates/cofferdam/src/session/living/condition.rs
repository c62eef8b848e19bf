//! How a living sandbox is.

use serde::Serialize;

/// How a living sandbox is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Condition {
    /// Its programs go on.
    Running,
    /// Everything in it stands still.
    Paused,
    /// No program of it lives; its files do.
    Stopped,
}
