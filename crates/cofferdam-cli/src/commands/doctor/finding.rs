//! What `cofferdam doctor` tells about one thing, for a person and for `--json`.

use cofferdam::sandbox::native::Status;
use serde::Serialize;

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) name: String,
    pub(super) status: Standing,
    pub(super) detail: String,
    pub(super) hint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<Agent>,
}

/// How it stands with that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Standing {
    Ok,
    Degraded,
    Missing,
    /// It is there, and cannot be used.
    Malformed,
    /// Not there, and nothing lacks without it.
    Absent,
}

impl From<Status> for Standing {
    fn from(status: Status) -> Self {
        match status {
            Status::Ok => Self::Ok,
            Status::Degraded => Self::Degraded,
            Status::Missing => Self::Missing,
        }
    }
}

impl Finding {
    pub(super) fn new(
        name: &str,
        status: Standing,
        detail: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            status,
            detail: detail.into(),
            hint: hint.into(),
            agent: None,
        }
    }
}

/// What `--json` has about an agent beside the rest.
#[derive(Debug, Serialize)]
pub(super) struct Agent {
    /// Where `PATH` finds its program.
    pub(super) path: Option<String>,
    /// Whether its program started in a sandbox.
    pub(super) visible: bool,
    pub(super) version: Option<String>,
    /// `login`, the variable that is its key, or null.
    pub(super) access: Option<String>,
}
