//! Fields of the file with their places, as every key reads them.

use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use super::content::{ContentError, Misplaced};
use super::yaml;

/// A key that is there, whatever it holds.
pub(super) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// What a key holds that is there. `empty`: how it would say nothing.
pub(super) fn value<'a, T>(
    found: &'a Spanned<Option<T>>,
    field: &str,
    empty: &'static str,
) -> Result<&'a T, Misplaced> {
    let value = found.value.as_ref();
    value.ok_or_else(|| wrong(found, field, ContentError::NoValue(empty)))
}

pub(super) fn wrong<T>(
    found: &Spanned<T>,
    field: impl Into<String>,
    problem: ContentError,
) -> Misplaced {
    Misplaced {
        at: yaml::position(found.referenced),
        field: field.into(),
        problem,
    }
}

/// The line of a value, from 1.
pub(super) fn line<T>(found: &Spanned<T>) -> u64 {
    yaml::position(found.referenced).line
}
