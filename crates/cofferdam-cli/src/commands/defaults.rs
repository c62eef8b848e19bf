//! What the configuration says where a command line says nothing.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use cofferdam::agent::AGENTS;
use cofferdam::config::{self, ProviderKind, Setting, Strategy, Valued};
use cofferdam::names::RepoPath;
use cofferdam::network::NetworkKind;
use cofferdam::published::PublishedPort;

use crate::environment::Environment;
use crate::error::CliError;

/// Each choice that a file makes.
#[derive(Debug, Default)]
pub(super) struct Defaults {
    pub(super) place: Option<ProviderKind>,
    pub(super) image: Option<String>,
    pub(super) memory: Option<u64>,
    pub(super) cpus: Option<f64>,
    pub(super) pids: Option<u64>,
    pub(super) ports: Option<Vec<PublishedPort>>,
    pub(super) agent: Option<Valued<String>>,
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    pub(super) strategy: Option<Strategy>,
    pub(super) iterations: Option<NonZeroU32>,
    pub(super) network: Option<NetworkKind>,
}

impl Defaults {
    /// Of the user's own file and what is approved of the repository's. A file that cannot be used says nothing, unless it says
    /// something of this: what is meant to bound a sandbox is not left out.
    pub(super) fn read(environment: &Environment) -> Result<Self, CliError> {
        let top = environment.top();
        let repository = RepoPath::resolve(top).ok();
        let of = repository.as_ref().map(|repository| (top, repository));
        let found = config::effective(&environment.home, of);
        if let Some(problem) = found.unread_setting() {
            return Err(CliError::Failed {
                message: format!("{problem}; it says where and how sandboxes are made"),
                hint: "mend it at that place: see `cofferdam config check`".to_owned(),
            });
        }
        Ok(Self::of(found.config.settings))
    }

    fn of(settings: BTreeMap<&'static str, Valued<Setting>>) -> Self {
        let mut defaults = Self::default();
        for one in settings.into_values() {
            match one.value {
                Setting::Sandbox(kind) => defaults.place = Some(kind),
                Setting::Image(name) => defaults.image = Some(name),
                Setting::Memory(bytes) => defaults.memory = Some(bytes),
                Setting::Cpus(cpus) => defaults.cpus = Some(cpus.get()),
                Setting::Processes(number) => defaults.pids = Some(number),
                Setting::Ports(ports) => defaults.ports = Some(ports),
                Setting::Agent(value) => {
                    let (source, line) = (one.source, one.line);
                    defaults.agent = Some(Valued {
                        value,
                        source,
                        line,
                    });
                }
                Setting::Model(name) => defaults.model = Some(name),
                Setting::Effort(name) => defaults.effort = Some(name),
                Setting::Strategy(strategy) => defaults.strategy = Some(strategy),
                Setting::Iterations(number) => defaults.iterations = Some(number),
                Setting::Network(kind) => defaults.network = Some(kind),
                _ => {}
            }
        }
        defaults
    }
}

/// There is an agent of that name.
pub(super) fn known(agent: &Valued<String>) -> Result<&str, CliError> {
    let Valued {
        value: agent,
        source,
        line,
    } = agent;
    if AGENTS.iter().any(|kind| kind.name == agent) {
        return Ok(agent);
    }
    let names: Vec<&str> = AGENTS.iter().map(|kind| kind.name).collect();
    Err(CliError::Failed {
        message: format!(
            "{}:{line}: run.agent: there is no agent `{}`",
            source.file(),
            agent.escape_debug()
        ),
        hint: format!("write one of {}", names.join(", ")),
    })
}
