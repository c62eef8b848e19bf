//! The keys of a plan, and their places.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::error::PlanFault;
use crate::config::{ContentError, Position, position, read_yaml};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) tasks: Vec<Spanned<Task>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    pub(super) name: Spanned<String>,
    pub(super) prompt: Option<Spanned<String>>,
    pub(super) prompt_file: Option<Spanned<String>>,
    pub(super) args: Option<BTreeMap<String, String>>,
    pub(super) agent: Option<Spanned<String>>,
    pub(super) model: Option<Spanned<String>>,
    pub(super) effort: Option<Spanned<String>>,
    pub(super) branch: Option<Spanned<String>>,
    pub(super) base: Option<Spanned<String>>,
    pub(super) max_iterations: Option<Spanned<NonZeroU32>>,
    pub(super) after: Option<Vec<Spanned<String>>>,
    pub(super) review: Option<Spanned<Review>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Review {
    pub(super) prompt: Option<Spanned<String>>,
    pub(super) prompt_file: Option<Spanned<String>>,
    pub(super) args: Option<BTreeMap<String, String>>,
    pub(super) agent: Option<Spanned<String>>,
    pub(super) model: Option<Spanned<String>>,
    pub(super) effort: Option<Spanned<String>>,
}

/// What is wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misplaced {
    pub(super) at: Position,
    pub(super) field: String,
    pub(super) fault: PlanFault,
}

/// What the text of a plan says, not yet checked.
pub(super) fn parse(text: &str) -> Result<File, Misplaced> {
    read_yaml(text).map_err(|error| Misplaced {
        at: error.at,
        field: error.field,
        fault: match error.problem {
            ContentError::Yaml(said) if said.starts_with("unknown field") => {
                PlanFault::UnknownKey(said)
            }
            other => PlanFault::Yaml(other.to_string()),
        },
    })
}

pub(super) fn wrong<T>(
    found: &Spanned<T>,
    field: impl Into<String>,
    fault: PlanFault,
) -> Misplaced {
    Misplaced {
        at: position(found.referenced),
        field: field.into(),
        fault,
    }
}
