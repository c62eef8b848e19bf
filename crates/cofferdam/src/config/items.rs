//! `sync`, `hide` and `protect`: which files go in and to where, which stay out, and which stay as they are.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::content::{ContentError, Destination, Located, Misplaced, Owner, SyncRule};
#[cfg(test)]
use super::described;
use super::fields::{line, present, wrong};

const DEFAULT_MODE: u32 = 0o644;

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Sync", extend("required" = ["src", "dest"])))]
#[serde(deny_unknown_fields, default)]
pub(super) struct Entry {
    /// A file of this machine, or a pattern with `*`, `?` and `[…]`: absolute, below `~/`, or below the directory of
    /// this file (a repository's: its top).
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::source"))]
    src: Option<Spanned<String>>,
    /// Where it goes inside: absolute or below `~/`; a slash at its end means a directory.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::destination"))]
    dest: Option<Spanned<String>>,
    /// In octal digits; `0644` unless given.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::mode"))]
    mode: Option<Spanned<String>>,
    /// `agent:agent` unless given.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::owner"))]
    owner: Option<Spanned<String>>,
}

pub(super) fn located(
    index: usize,
    entry: &Spanned<Entry>,
) -> Result<Located<SyncRule>, Misplaced> {
    let field = |name: &str| format!("sync[{index}]{name}");
    let Entry {
        src,
        dest,
        mode,
        owner,
    } = &entry.value;
    let missing = |name| wrong(entry, field(""), ContentError::Missing(name));
    let src = src.as_ref().ok_or_else(|| missing("src"))?;
    let dest = dest.as_ref().ok_or_else(|| missing("dest"))?;
    if src.value.is_empty() || src.value.contains('\0') {
        return Err(wrong(src, field(".src"), ContentError::NoPath));
    }
    if src.value.starts_with('~') && !src.value.starts_with("~/") {
        return Err(wrong(src, field(".src"), ContentError::OtherHome));
    }
    let to = destination(&dest.value).map_err(|problem| wrong(dest, field(".dest"), problem))?;
    let mode = match mode {
        None => DEFAULT_MODE,
        Some(found) => {
            octal(&found.value).ok_or_else(|| wrong(found, field(".mode"), ContentError::Mode))?
        }
    };
    let owner = match owner {
        None => Owner::Agent,
        Some(found) => match &*found.value {
            "agent" | "agent:agent" => Owner::Agent,
            other if is_owner(other) => Owner::Other(other.to_owned()),
            _ => return Err(wrong(found, field(".owner"), ContentError::Owner)),
        },
    };
    Ok(Located {
        line: line(entry),
        value: SyncRule {
            src: src.value.clone(),
            dest: to,
            mode,
            owner,
        },
    })
}

/// Three digits, with or without a 0 before them: nobody is given another user's rights by a file that is copied.
fn octal(text: &str) -> Option<u32> {
    let digits = if text.len() == 4 {
        text.strip_prefix('0')?
    } else {
        text
    };
    let plain = digits.len() == 3 && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    plain.then(|| u32::from_str_radix(digits, 8).ok()).flatten()
}

fn is_owner(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.len() <= 32
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let (user, group) = text.split_once(':').unwrap_or((text, text));
    part(user) && part(group)
}

fn destination(text: &str) -> Result<Destination, ContentError> {
    let is_directory = text.ends_with('/');
    let (below_home, rest) = match text.strip_prefix("~/") {
        Some(rest) => (true, rest),
        None if text == "~" => return Err(ContentError::Destination),
        None => (
            false,
            text.strip_prefix('/').ok_or(ContentError::Destination)?,
        ),
    };
    if text.contains('\0') {
        return Err(ContentError::NoPath);
    }
    let mut path = PathBuf::new();
    for part in Path::new(rest).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            _ => return Err(ContentError::Above),
        }
    }
    if path.as_os_str().is_empty() && !is_directory {
        return Err(ContentError::Destination);
    }
    Ok(Destination {
        below_home,
        path,
        is_directory,
    })
}

/// A path below the top of a repository: what is there is looked at when a sandbox is made.
pub(super) fn below_top(
    key: &str,
    index: usize,
    entry: &Spanned<String>,
) -> Result<Located<PathBuf>, Misplaced> {
    let field = || format!("{key}[{index}]");
    let path = Path::new(&entry.value);
    if entry.value.is_empty() || entry.value.contains('\0') {
        return Err(wrong(entry, field(), ContentError::NoPath));
    }
    if entry.value.contains(['*', '?']) {
        return Err(wrong(entry, field(), ContentError::Pattern));
    }
    let is_below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    let names_something = path
        .components()
        .any(|part| matches!(part, Component::Normal(_)));
    if !names_something || !path.components().all(is_below) {
        return Err(wrong(entry, field(), ContentError::NotBelow));
    }
    Ok(Located {
        line: line(entry),
        value: path.to_owned(),
    })
}
