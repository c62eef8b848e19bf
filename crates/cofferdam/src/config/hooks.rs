//! `on_sync`: commands after a sync.

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::content::{ContentError, Located, Misplaced, SyncHook};
use super::fields::{line, present, wrong};

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Hook"))]
#[serde(deny_unknown_fields, default)]
pub(super) struct Entry {
    /// A line for `sh -c`.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(with = "String", required))]
    cmd: Option<Spanned<String>>,
    /// What it is called while it runs; the command unless given.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(with = "String"))]
    name: Option<Spanned<String>>,
    /// As root of the container instead of the agent.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(with = "bool"))]
    root: Option<Spanned<bool>>,
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
    let text = |found: &Spanned<String>, at: &str| {
        if found.value.trim().is_empty() || found.value.contains('\0') {
            return Err(wrong(found, field(at), ContentError::NoText));
        }
        Ok(found.value.clone())
    };
    Ok(Located {
        line: line(entry),
        value: SyncHook {
            command: text(cmd, ".cmd")?,
            name: name.as_ref().map(|name| text(name, ".name")).transpose()?,
            root: root.as_ref().is_some_and(|root| root.value),
        },
    })
}
