//! `on_sync`, `setup` and `gate.checks`: commands inside.

use serde::Deserialize;
use serde_saphyr::Spanned;

#[cfg(test)]
use super::content::MAX_CHECKS;
use super::content::{Check, ContentError, Located, Misplaced, SyncHook};
#[cfg(test)]
use super::described;
use super::fields::{line, present, value, wrong};
use super::named::{MOST, words};

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Hook", extend("required" = ["cmd"])))]
#[serde(deny_unknown_fields, default)]
pub(super) struct Entry {
    /// A line for `sh -c`.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::text"))]
    cmd: Option<Spanned<String>>,
    /// What it is called while it runs; the command unless given.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::text"))]
    name: Option<Spanned<String>>,
    /// As root of the container instead of the agent.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::switch"))]
    root: Option<Spanned<bool>>,
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Gate"))]
#[serde(deny_unknown_fields, default)]
pub(super) struct GateEntry {
    /// Commands that must succeed in a new sandbox of the commits' files, without network and variables, before a branch moves.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(with = "Vec<CheckEntry>", extend("maxItems" = MAX_CHECKS)))]
    pub(super) checks: Option<Spanned<Option<Vec<Spanned<CheckEntry>>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Check", extend("required" = ["cmd"])))]
#[serde(deny_unknown_fields, default)]
pub(super) struct CheckEntry {
    /// A line for `sh -c`.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::text"))]
    cmd: Option<Spanned<String>>,
    /// What it is called while it runs; the command unless given.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::text"))]
    name: Option<Spanned<String>>,
}

pub(super) fn located(
    index: usize,
    entry: &Spanned<Entry>,
) -> Result<Located<SyncHook>, Misplaced> {
    let field = |name: &str| format!("on_sync[{index}]{name}");
    let Entry { cmd, name, root } = &entry.value;
    let Some(cmd) = cmd else {
        return Err(wrong(entry, field(""), ContentError::Missing("cmd")));
    };
    Ok(Located {
        line: line(entry),
        value: SyncHook {
            command: command(cmd, field(".cmd"))?,
            name: named(name.as_ref(), field(".name"))?,
            root: root.as_ref().is_some_and(|root| root.value),
        },
    })
}

pub(super) fn check(
    index: usize,
    entry: &Spanned<CheckEntry>,
) -> Result<Located<Check>, Misplaced> {
    let field = |name: &str| format!("gate.checks[{index}]{name}");
    let CheckEntry { cmd, name } = &entry.value;
    let Some(cmd) = cmd else {
        return Err(wrong(entry, field(""), ContentError::Missing("cmd")));
    };
    Ok(Located {
        line: line(entry),
        value: Check {
            command: command(cmd, field(".cmd"))?,
            name: named(name.as_ref(), field(".name"))?,
        },
    })
}

pub(super) fn setup(found: &Spanned<Option<String>>) -> Result<Located<String>, Misplaced> {
    let command = value(found, "setup", "setup: npm ci")?;
    if !says_something(command) {
        return Err(wrong(found, "setup", ContentError::NoText));
    }
    if has_too_many_words(command) {
        return Err(wrong(found, "setup", ContentError::Words));
    }
    Ok(Located {
        line: line(found),
        value: command.clone(),
    })
}

fn command(found: &Spanned<String>, field: String) -> Result<String, Misplaced> {
    if has_too_many_words(&found.value) {
        return Err(wrong(found, field, ContentError::Words));
    }
    text(found, field)
}

/// Each may be a file, which whoever approves the command approves with it.
fn has_too_many_words(command: &str) -> bool {
    words(command).len() > MOST
}

fn named(name: Option<&Spanned<String>>, field: String) -> Result<Option<String>, Misplaced> {
    name.map(|name| text(name, field)).transpose()
}

fn text(found: &Spanned<String>, field: String) -> Result<String, Misplaced> {
    if !says_something(&found.value) {
        return Err(wrong(found, field, ContentError::NoText));
    }
    Ok(found.value.clone())
}

fn says_something(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains('\0')
}
