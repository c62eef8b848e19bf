//! What a command leaves open, and the configuration may say.

use std::fmt;
use std::num::NonZeroU32;

use crate::network::NetworkKind;
use crate::published::PublishedPort;
use crate::size;

/// One choice that a command leaves open. Each has one key in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Setting {
    /// Who makes sandboxes.
    Sandbox(ProviderKind),
    /// As an engine names it, of containers.
    Image(String),
    /// In bytes, swap included.
    Memory(u64),
    /// The most CPU time of a sandbox.
    Cpus(Cpus),
    /// The most processes of a sandbox.
    Processes(u64),
    /// Of this machine, which lead into a dev sandbox.
    Ports(Vec<PublishedPort>),
    /// The name of an agent, known or not.
    Agent(String),
    /// A model, as the agent names it.
    Model(String),
    /// How hard the model thinks, as the agent names it.
    Effort(String),
    /// Where a run's commits go.
    Strategy(Strategy),
    /// How often the agent is started at most.
    Iterations(NonZeroU32),
    /// What a sandbox may reach.
    Network(NetworkKind),
}

/// Where sandboxes are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Sandbox", rename_all = "lowercase"))]
pub enum ProviderKind {
    /// By Cofferdam itself, in namespaces.
    Native,
    /// In containers of Docker.
    Docker,
    /// In containers of Podman.
    Podman,
}

/// Where a run's commits go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename_all = "kebab-case"))]
pub enum Strategy {
    /// The agent works in the checkout, and its commits are on the branch there.
    Head,
    /// On a temporary branch, which is merged into the one that is checked out.
    MergeToHead,
}

/// A number of CPUs: finite, and at least 0.01.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cpus(f64);

/// Finite ones are equal to themselves.
impl Eq for Cpus {}

impl Cpus {
    /// None where there cannot be so many.
    pub fn new(number: f64) -> Option<Self> {
        (number.is_finite() && number >= 0.01).then_some(Self(number))
    }

    /// At least 0.01.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Setting {
    /// Its key in the file.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Sandbox(_) => "sandbox",
            Self::Image(_) => "image",
            Self::Memory(_) => "limits.memory",
            Self::Cpus(_) => "limits.cpus",
            Self::Processes(_) => "limits.pids",
            Self::Ports(_) => "ports",
            Self::Agent(_) => "run.agent",
            Self::Model(_) => "run.model",
            Self::Effort(_) => "run.effort",
            Self::Strategy(_) => "run.strategy",
            Self::Iterations(_) => "run.iterations",
            Self::Network(_) => "run.network",
        }
    }

    /// As people write it. [`fmt::Display`] is what is approved, and stays as it is.
    pub fn written(&self) -> String {
        match self {
            Self::Memory(bytes) => size::written(*bytes),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sandbox(place) => f.write_str(place.as_str()),
            Self::Image(text) | Self::Agent(text) | Self::Model(text) | Self::Effort(text) => {
                f.write_str(text)
            }
            Self::Memory(bytes) => write!(f, "{bytes} bytes"),
            Self::Cpus(cpus) => write!(f, "{}", cpus.0),
            Self::Processes(number) => write!(f, "{number}"),
            Self::Ports(ports) => {
                let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
                f.write_str(&ports.join(", "))
            }
            Self::Strategy(strategy) => f.write_str(strategy.as_str()),
            Self::Iterations(number) => write!(f, "{number}"),
            Self::Network(kind) => write!(f, "{kind}"),
        }
    }
}

impl ProviderKind {
    pub(super) const ALL: [Self; 3] = [Self::Native, Self::Docker, Self::Podman];

    /// As `--sandbox` calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

impl Strategy {
    pub(super) const ALL: [Self; 2] = [Self::Head, Self::MergeToHead];

    /// The name of the option, without its dashes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::MergeToHead => "merge-to-head",
        }
    }
}

/// Whether a text may stand for an image: a registry, a path, a tag, a digest.
pub fn is_image_name(text: &str) -> bool {
    let usable = |c: char| c.is_ascii_alphanumeric() || "._-/:@+".contains(c);
    !text.is_empty() && !text.starts_with(['-', '/', '.']) && text.chars().all(usable)
}
