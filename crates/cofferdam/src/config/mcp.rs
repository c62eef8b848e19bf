//! `mcp`: what clients of the Model Context Protocol may name.

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::content::{ContentError, Located, Misplaced};
#[cfg(test)]
use super::described;
use super::fields::{line, present, wrong};

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Mcp"))]
#[serde(deny_unknown_fields, default)]
pub(super) struct Entry {
    /// Repositories that clients may name of a server that was started outside of any: these, and those below them.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::whole_paths"))]
    pub(super) repositories: Option<Spanned<Option<Vec<Spanned<String>>>>>,
}

pub(super) fn located(index: usize, entry: &Spanned<String>) -> Result<Located<String>, Misplaced> {
    let path = &entry.value;
    let problem = if path.contains('\0') {
        ContentError::NoPath
    } else if path.contains(['*', '?']) {
        ContentError::Pattern
    } else if !path.starts_with('/') && !path.starts_with("~/") {
        ContentError::NotWhole
    } else if path.split('/').any(|part| part == "..") {
        ContentError::Above
    } else {
        return Ok(Located {
            line: line(entry),
            value: path.clone(),
        });
    };
    Err(wrong(entry, format!("mcp.repositories[{index}]"), problem))
}
