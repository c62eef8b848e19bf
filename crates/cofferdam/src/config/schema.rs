//! The keys of the file, and what each becomes.

use std::collections::BTreeMap;

use cofferdam_wall::Origin;
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::content::{
    Config, ContentError, MAX_CHECKS, MAX_COMMANDS, MAX_PATHS, MAX_RULES, Misplaced,
};
#[cfg(test)]
use super::described;
use super::fields::{present, value, wrong};
use super::{firewall, hooks, items, mcp, settings, variables, yaml};

// Each field is there or not; one without a value is not the same as none.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "Cofferdam's config.yaml", extend("type" = ["object", "null"])))]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    /// Files of this machine that are copied into each sandbox.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(with = "Vec<items::Entry>", extend("maxItems" = MAX_RULES)))]
    sync: Option<Spanned<Option<Vec<Spanned<items::Entry>>>>>,
    /// Variables of programs inside: text as it is, or `$NAME` for one of this machine's.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::variables"))]
    env: Option<Spanned<Option<variables::Entries>>>,
    /// What sandboxes may reach.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(with = "firewall::Firewall"))]
    firewall: Option<Spanned<Option<firewall::Firewall>>>,
    /// Commands that run inside after each sync, one after the other.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(with = "Vec<hooks::Entry>", extend("maxItems" = MAX_COMMANDS)))]
    on_sync: Option<Spanned<Option<Vec<Spanned<hooks::Entry>>>>>,
    /// Files and directories of the repository that sandboxes do not see.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::paths"))]
    hide: Option<Spanned<Option<Vec<Spanned<String>>>>>,
    /// Files and directories of the repository that no commit of a sandbox may change.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::paths"))]
    protect: Option<Spanned<Option<Vec<Spanned<String>>>>>,
    /// A line for `sh -c` that runs once in each new sandbox, in the repository's files, before anybody works there.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::text"))]
    setup: Option<Spanned<Option<String>>>,
    /// What commits must pass.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(with = "hooks::GateEntry"))]
    gate: Option<Spanned<Option<hooks::GateEntry>>>,
    /// Where sandboxes are made; `native` unless given.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(with = "super::setting::ProviderKind"))]
    sandbox: settings::Key<String>,
    /// The image of containers.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::image"))]
    image: settings::Key<String>,
    /// What one sandbox may use.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(with = "settings::Limits"))]
    limits: settings::Key<settings::Limits>,
    /// Ports of this machine's loopback that lead into dev sandboxes, such as 3000, or 8080:80 for port 80 inside.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::published"))]
    ports: settings::Key<Vec<String>>,
    /// What `cofferdam run` does where its command line says nothing.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(with = "settings::Run"))]
    run: settings::Key<settings::Run>,
    /// What `cofferdam mcp` does; in the user's own file alone.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(with = "mcp::Entry"))]
    mcp: settings::Key<mcp::Entry>,
}

/// What the text of a config file says. An empty one says nothing. `origin`: of its rules.
pub(super) fn parse(text: &str, origin: Origin) -> Result<Config, Misplaced> {
    let File {
        sync,
        env,
        firewall,
        on_sync,
        hide,
        protect,
        setup,
        gate,
        sandbox,
        image,
        limits,
        ports,
        run,
        mcp,
    } = yaml::read::<Option<File>>(text)?.unwrap_or_default();
    Ok(Config {
        allow: match firewall {
            None => None,
            Some(found) => firewall::allow(value(&found, "firewall", "firewall: {}")?, origin)?,
        },
        sync: list(sync.as_ref(), "sync", "sync: []", MAX_RULES, items::located)?,
        env: match &env {
            None => BTreeMap::new(),
            Some(found) => variables::located(value(found, "env", "env: {}")?)?,
        },
        on_sync: list(
            on_sync.as_ref(),
            "on_sync",
            "on_sync: []",
            MAX_COMMANDS,
            hooks::located,
        )?,
        hide: list(
            hide.as_ref(),
            "hide",
            "hide: []",
            MAX_PATHS,
            |index, entry| items::below_top("hide", index, entry),
        )?,
        protect: list(
            protect.as_ref(),
            "protect",
            "protect: []",
            MAX_PATHS,
            |index, entry| items::below_top("protect", index, entry),
        )?,
        setup: setup.as_ref().map(hooks::setup).transpose()?,
        checks: match &gate {
            None => Vec::new(),
            Some(found) => {
                let checks = &value(found, "gate", "gate: {}")?.checks;
                list(
                    checks.as_ref(),
                    "gate.checks",
                    "checks: []",
                    MAX_CHECKS,
                    hooks::check,
                )?
            }
        },
        mcp_repositories: match &mcp {
            None => Vec::new(),
            Some(found) if origin != Origin::Global => {
                return Err(wrong(found, "mcp", ContentError::OnlyOwn));
            }
            Some(found) => {
                let repositories = &value(found, "mcp", "mcp: {}")?.repositories;
                list(
                    repositories.as_ref(),
                    "mcp.repositories",
                    "repositories: []",
                    MAX_PATHS,
                    mcp::located,
                )?
            }
        },
        settings: settings::located(
            sandbox.as_ref(),
            image.as_ref(),
            limits.as_ref(),
            ports.as_ref(),
            run.as_ref(),
        )?,
    })
}

/// The entries of a list that is there.
fn list<T, U>(
    found: Option<&Spanned<Option<Vec<Spanned<T>>>>>,
    name: &'static str,
    empty: &'static str,
    most: usize,
    one: impl Fn(usize, &Spanned<T>) -> Result<U, Misplaced>,
) -> Result<Vec<U>, Misplaced> {
    let Some(found) = found else {
        return Ok(Vec::new());
    };
    let entries = value(found, name, empty)?;
    if entries.len() > most {
        return Err(wrong(found, name, ContentError::MoreThan(most)));
    }
    let entries = entries.iter().enumerate();
    entries.map(|(index, entry)| one(index, entry)).collect()
}

/// As it is published. A default would be what nobody may write: nothing.
#[cfg(test)]
pub(super) fn published() -> serde_json::Value {
    let without_default = |schema: &mut schemars::Schema| drop(schema.remove("default"));
    let without_defaults = schemars::transform::RecursiveTransform(without_default);
    let settings = schemars::generate::SchemaSettings::draft07().with_transform(without_defaults);
    let schema = settings.into_generator().into_root_schema_for::<File>();
    schema.to_value()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// `COFFERDAM_UPDATE=1` writes it.
    #[test]
    fn the_published_schema_is_current() {
        let wanted = serde_json::to_string_pretty(&super::published()).unwrap() + "\n";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/config.schema.json");
        #[expect(
            clippy::disallowed_methods,
            reason = "the one switch that rewrites generated texts"
        )]
        if std::env::var_os("COFFERDAM_UPDATE").is_some() {
            crate::fsx::write_with_mode(&path, wanted.as_bytes(), 0o644).unwrap();
        }
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(published == wanted, "COFFERDAM_UPDATE=1 writes {path:?}");
    }
}
