//! The one call of the YAML parser: bounded, strict, with line, column and field of what is wrong.

use serde::de::DeserializeOwned;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy};
use serde_saphyr::{Error, Location};

use super::content::{ContentError, Misplaced, Position};
use crate::text::{fit, printable_line};

/// So much of a message is kept: it may quote the file.
const MESSAGE: usize = 300;

/// Reads one document. Anchors, aliases and merge keys are refused: nothing here needs them, and bombs
/// are made of them.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Misplaced> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 8_000_000,
            max_nodes: 8_000_000,
            max_depth: 16,
            flow_nesting_limit: 16,
            max_documents: 1,
            max_aliases: 0,
            max_anchors: 0,
            max_merge_keys: 0,
            max_total_scalar_bytes: 32 << 20,
        },
        merge_keys: MergeKeyPolicy::Error,
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    };
    let mut track = serde_path_to_error::Track::new();
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |document| {
        T::deserialize(serde_path_to_error::Deserializer::new(document, &mut track))
    });
    read.map_err(|error| Misplaced {
        at: error
            .location()
            .map_or(Position { line: 1, column: 1 }, position),
        field: field(&track.path().to_string()),
        problem: ContentError::Yaml(message(&error)),
    })
}

pub(crate) fn position(location: Location) -> Position {
    Position {
        line: location.line().max(1),
        column: location.column().max(1),
    }
}

/// The path of a field as the file shows it: a value that knows its place has one level more.
fn field(path: &str) -> String {
    path.replace(".value", "")
        .replace(".?", "")
        .replace('?', "")
        .trim_start_matches('.')
        .to_owned()
}

/// In words for someone who wrote a file, not for someone who calls the parser.
fn message(error: &Error) -> String {
    let error = error.without_snippet();
    let said = match error {
        Error::UnknownAnchor { .. } => {
            "a value that begins with `*` needs quotes, as in \"*.example.com\"".to_owned()
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("`{key}` is given twice"),
        Error::NullIntoString { .. } => "it has no value".to_owned(),
        Error::InvalidScalar { .. } => "it is not a whole number".to_owned(),
        Error::Unexpected { expected, .. } => match *expected {
            "sequence start" => "it is not a list".to_owned(),
            "mapping start" => "it has no `key: value`".to_owned(),
            "string scalar" => "it is not text".to_owned(),
            other => format!("expected {other}"),
        },
        Error::Budget { breach, .. } => match breach {
            BudgetBreach::Anchors { .. } | BudgetBreach::Aliases { .. } => {
                "anchors and aliases are not read here".to_owned()
            }
            BudgetBreach::Documents { .. } => "a second document is not read here".to_owned(),
            _ => "it is too large or too deep".to_owned(),
        },
        Error::MergeKeyNotAllowed { .. } => "merge keys are not read here".to_owned(),
        _ => error.to_string(),
    };
    // The place is said before the message.
    let said = said
        .rsplit_once(" at line ")
        .map_or(said.as_str(), |(said, _)| said);
    fit(&printable_line(said), MESSAGE).into_owned()
}
