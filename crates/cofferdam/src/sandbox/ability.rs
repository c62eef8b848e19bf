//! One thing that some sandboxes can do and others cannot.

use std::fmt;

/// What some sandboxes can do and others cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ability {
    /// Host directories are mounted into it.
    Mount,
    /// [`super::Sandbox::freeze`] and [`super::Sandbox::pause`].
    Pause,
    /// [`super::ExecRequest::terminal`].
    Terminal,
    /// [`super::Lifetime::UntilRemoved`], and all that goes with it: other processes open it, programs survive those
    /// that started them.
    Outlive,
    /// [`super::Sandbox::unpack`] and [`super::Sandbox::snapshot`].
    Files,
    /// Directories of the host lie over one another in it: [`super::MountSource::Layers`].
    Layers,
    /// There is a git inside, by which an isolated sandbox packs its agent's commits. Without it what the agent changed
    /// becomes one commit, made outside. Of providers that mount nobody asks it.
    Git,
    /// [`super::Sandbox::connect`].
    Ports,
    /// [`super::SandboxSpec::root`].
    Root,
}

impl fmt::Display for Ability {
    /// As it follows "cannot".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mount => "mount directories of the host",
            Self::Pause => "stop its programs for a while",
            Self::Terminal => "give a program a terminal",
            Self::Files => "take files in and tell which of them changed",
            Self::Layers => "lay directories over one another",
            Self::Git => "run git inside",
            Self::Root => "run commands as root inside",
            Self::Ports => "connect to a server inside",
            Self::Outlive => "keep a sandbox longer than the program that made it",
        })
    }
}
