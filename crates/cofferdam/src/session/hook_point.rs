//! When a hook runs and where, as its users name it.

use std::fmt;

use serde::Serialize;

/// A frontend has a hint for each: not `#[non_exhaustive]`, as no error with a next step for its user is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum HookPoint {
    /// On the host, in the worktree, before there is a sandbox.
    #[serde(rename = "host.onWorktreeReady")]
    WorktreeReady,
    /// On the host, in the directory that the sandbox works in, once it is up.
    #[serde(rename = "host.onSandboxReady")]
    HostSandboxReady,
    /// In the sandbox, once it is up.
    #[serde(rename = "sandbox.onSandboxReady")]
    SandboxReady,
    /// In the sandbox, once, before anybody works there: `setup` of config.yaml.
    #[serde(rename = "sandbox.setup")]
    Setup,
    /// In a sandbox of its own, before a branch moves: `gate.checks` of config.yaml.
    #[serde(rename = "sandbox.check")]
    Check,
    /// In the sandbox, after a sync: `on_sync` of config.yaml.
    #[serde(rename = "sandbox.onSync")]
    OnSync,
}

impl HookPoint {
    /// Whether it is in the sandbox, and not on the host.
    pub fn is_inside(self) -> bool {
        match self {
            Self::WorktreeReady | Self::HostSandboxReady => false,
            Self::SandboxReady | Self::OnSync | Self::Setup | Self::Check => true,
        }
    }
}

impl fmt::Display for HookPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::WorktreeReady => "host.onWorktreeReady",
            Self::HostSandboxReady => "host.onSandboxReady",
            Self::SandboxReady => "sandbox.onSandboxReady",
            Self::OnSync => "sandbox.onSync",
            Self::Setup => "sandbox.setup",
            Self::Check => "sandbox.check",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_names_that_texts_have() {
        for point in [
            HookPoint::WorktreeReady,
            HookPoint::HostSandboxReady,
            HookPoint::SandboxReady,
            HookPoint::OnSync,
            HookPoint::Setup,
            HookPoint::Check,
        ] {
            let json = serde_json::to_value(point).ok();
            assert_eq!(json, Some(point.to_string().into()));
            assert_eq!(point.is_inside(), point.to_string().starts_with("sandbox."));
        }
    }
}
