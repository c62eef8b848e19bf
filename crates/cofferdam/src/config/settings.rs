//! `sandbox`, `image`, `limits` and `run`: what counts where a command says nothing.

use std::num::{NonZeroU32, NonZeroU64};

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::content::{ContentError, Located, Misplaced};
#[cfg(test)]
use super::described;
use super::fields::{line, present, value, wrong};
use super::setting::{Cpus, ProviderKind, Setting, Strategy, is_image_name};
use crate::published::{PortError, together};
use crate::size::{LEAST_MEMORY, parse_size};

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(super) struct Limits {
    /// The most memory, swap included, such as 512m or 2g; 4m at least.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::size"))]
    memory: Option<Spanned<Option<String>>>,
    /// The most CPU time, in CPUs.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::cpus"))]
    cpus: Option<Spanned<Option<f64>>>,
    /// The most processes.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::count"))]
    pids: Option<Spanned<Option<u64>>>,
}

/// What `cofferdam run` does where its command line says nothing.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(super) struct Run {
    /// As `--agent` names it.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::word"))]
    agent: Option<Spanned<Option<String>>>,
    /// As the agent names it.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::word"))]
    model: Option<Spanned<Option<String>>>,
    /// As the agent names it.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::word"))]
    effort: Option<Spanned<Option<String>>>,
    /// Where commits go.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(with = "Strategy"))]
    strategy: Option<Spanned<Option<String>>>,
    /// How often the agent is started at most.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::count"))]
    iterations: Option<Spanned<Option<u32>>>,
    /// What its sandbox may reach: none, allowlist or open.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::network"))]
    network: Option<Spanned<Option<String>>>,
}

/// A key that may be there.
pub(super) type Key<T> = Option<Found<T>>;
/// One that is.
type Found<T> = Spanned<Option<T>>;

pub(super) fn located(
    sandbox: Option<&Found<String>>,
    image: Option<&Found<String>>,
    limits: Option<&Found<Limits>>,
    ports: Option<&Found<Vec<String>>>,
    run: Option<&Found<Run>>,
) -> Result<Vec<Located<Setting>>, Misplaced> {
    let mut all = Settings::default();
    all.read(sandbox, "sandbox", "sandbox: native", |name| {
        let found = ProviderKind::ALL
            .into_iter()
            .find(|place| place.as_str() == name);
        let found = found.ok_or(ContentError::NoneOf("native, docker, podman"));
        found.map(Setting::Sandbox)
    })?;
    all.read(image, "image", "image: debian:bookworm-slim", |name| {
        if is_image_name(name) {
            return Ok(Setting::Image(name.clone()));
        }
        Err(ContentError::Image)
    })?;
    if let Some(limits) = limits {
        let Limits { memory, cpus, pids } = value(limits, "limits", "limits: {}")?;
        all.read(memory.as_ref(), "limits.memory", "memory: 2g", |size| {
            let bytes = parse_size(size).ok_or(ContentError::Size)?;
            if bytes < LEAST_MEMORY {
                return Err(ContentError::Memory);
            }
            Ok(Setting::Memory(bytes))
        })?;
        all.read(cpus.as_ref(), "limits.cpus", "cpus: 1.5", |&number| {
            let found = Cpus::new(number).ok_or(ContentError::Cpus);
            found.map(Setting::Cpus)
        })?;
        all.read(pids.as_ref(), "limits.pids", "pids: 500", |&number| {
            let found = NonZeroU64::new(number).ok_or(ContentError::NotOne);
            found.map(|number| Setting::Processes(number.get()))
        })?;
    }
    all.read(ports, "ports", "ports: []", |all| {
        let ports: Result<_, PortError> = all.iter().map(|one| one.parse()).collect();
        Ok(Setting::Ports(together(ports?)?))
    })?;
    if let Some(run) = run {
        let run = value(run, "run", "run: {}")?;
        all.read(
            run.agent.as_ref(),
            "run.agent",
            "agent: claude-code",
            |name| word(name).map(Setting::Agent),
        )?;
        all.read(run.model.as_ref(), "run.model", "model: NAME", |name| {
            word(name).map(Setting::Model)
        })?;
        all.read(run.effort.as_ref(), "run.effort", "effort: high", |name| {
            word(name).map(Setting::Effort)
        })?;
        all.read(
            run.strategy.as_ref(),
            "run.strategy",
            "strategy: head",
            |name| {
                let mut known = Strategy::ALL.into_iter();
                let found = known.find(|strategy| strategy.as_str() == name);
                let found = found.ok_or(ContentError::NoneOf("head, merge-to-head"));
                found.map(Setting::Strategy)
            },
        )?;
        let iterations = run.iterations.as_ref();
        all.read(iterations, "run.iterations", "iterations: 3", |&number| {
            let found = NonZeroU32::new(number).ok_or(ContentError::NotOne);
            found.map(Setting::Iterations)
        })?;
        all.read(
            run.network.as_ref(),
            "run.network",
            "network: none",
            |name| {
                let found = name.parse();
                let found = found.map_err(|_| ContentError::NoneOf("none, allowlist, open"));
                found.map(Setting::Network)
            },
        )?;
    }
    Ok(all.0)
}

#[derive(Default)]
struct Settings(Vec<Located<Setting>>);

impl Settings {
    fn read<T>(
        &mut self,
        key: Option<&Found<T>>,
        field: &'static str,
        example: &'static str,
        meant: impl FnOnce(&T) -> Result<Setting, ContentError>,
    ) -> Result<(), Misplaced> {
        let Some(found) = key else {
            return Ok(());
        };
        let setting = meant(value(found, field, example)?);
        self.0.push(Located {
            value: setting.map_err(|problem| wrong(found, field, problem))?,
            line: line(found),
        });
        Ok(())
    }
}

/// What becomes an argument of a program.
fn word(text: &str) -> Result<String, ContentError> {
    if text.trim().is_empty() || text.starts_with('-') || text.contains(char::is_control) {
        return Err(ContentError::Word);
    }
    Ok(text.to_owned())
}
