//! What the published schema says of values. The loader reads each scalar as what is asked for, in quotation marks or without: `755` is
//! a mode, `"1"` a number and `true` the text of a variable.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

use super::content::MAX_PATHS;
use crate::published::MOST_PORTS;

type With<'a> = &'a mut SchemaGenerator;

/// What text is read from.
fn scalar() -> serde_json::Value {
    json!(["string", "number", "boolean"])
}

/// Not blank.
pub(super) fn text(_: With<'_>) -> Schema {
    json_schema!({"type": scalar(), "pattern": r"\S"})
}

/// What becomes an argument of a program.
pub(super) fn word(_: With<'_>) -> Schema {
    let pattern = r"^[^-\x00-\x1f\x7f][^\x00-\x1f\x7f]*$";
    json_schema!({"type": scalar(), "minimum": 0, "pattern": pattern, "allOf": [{"pattern": r"\S"}]})
}

pub(super) fn source(_: With<'_>) -> Schema {
    json_schema!({"type": scalar(), "pattern": r"^([^~]|~/)"})
}

pub(super) fn destination(_: With<'_>) -> Schema {
    json_schema!({"type": "string", "pattern": r"^~?/", "not": {"pattern": r"(^|/)\.\.(/|$)"}})
}

pub(super) fn mode(_: With<'_>) -> Schema {
    json_schema!({"anyOf": [
        {"type": "string", "pattern": r"^0?[0-7]{3}$"},
        {"type": "integer", "minimum": 0, "maximum": 777},
    ]})
}

pub(super) fn owner(_: With<'_>) -> Schema {
    let pattern = r"^[A-Za-z0-9_-]{1,32}(:[A-Za-z0-9_-]{1,32})?$";
    json_schema!({"type": ["string", "integer", "boolean"], "pattern": pattern})
}

pub(super) fn variables(_: With<'_>) -> Schema {
    let value = r"^([^$]|$)|^\$\$|^\$([A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})$";
    json_schema!({
        "type": "object",
        "propertyNames": {"pattern": r"^[A-Za-z_][A-Za-z0-9_]*$"},
        "additionalProperties": {"type": scalar(), "pattern": value},
    })
}

/// Below the top of a repository.
pub(super) fn paths(_: With<'_>) -> Schema {
    json_schema!({"type": "array", "maxItems": MAX_PATHS, "items": {
        "type": scalar(),
        "pattern": r"^[^/*?][^*?]*$",
        "not": {"type": "string", "pattern": r"(^|/)\.\.(/|$)|^(\./*)+$"},
    }})
}

/// Absolute, or below the user's home.
pub(super) fn whole_paths(_: With<'_>) -> Schema {
    json_schema!({"type": "array", "maxItems": MAX_PATHS, "items": {
        "type": "string",
        "pattern": r"^~?/[^*?]*$",
        "not": {"pattern": r"(^|/)\.\.(/|$)"},
    }})
}

pub(super) fn host(_: With<'_>) -> Schema {
    json_schema!({"type": "string", "minLength": 1})
}

pub(super) fn ports(_: With<'_>) -> Schema {
    json_schema!({"type": "array", "minItems": 1, "items": {"anyOf": [
        {"type": "integer", "minimum": 1, "maximum": u16::MAX},
        {"type": "string", "pattern": r"^[1-9][0-9]{0,4}$"},
    ]}})
}

pub(super) fn published(_: With<'_>) -> Schema {
    json_schema!({"type": "array", "maxItems": MOST_PORTS, "items": {"anyOf": [
        {"type": "integer", "minimum": 1, "maximum": u16::MAX},
        {"type": "string", "pattern": r"^((127\.0\.0\.1|localhost):[1-9][0-9]{0,4}:|[1-9][0-9]{0,4}:)?[1-9][0-9]{0,4}$"},
    ]}})
}

pub(super) fn switch(_: With<'_>) -> Schema {
    json_schema!({"anyOf": [
        {"type": "boolean"},
        {"type": "string", "pattern": r"^([Tt]rue|TRUE|[Ff]alse|FALSE)$"},
    ]})
}

pub(super) fn image(_: With<'_>) -> Schema {
    let pattern = r"^[A-Za-z0-9_:@+][A-Za-z0-9._/:@+-]*$";
    json_schema!({"type": scalar(), "minimum": 0, "pattern": pattern})
}

pub(super) fn size(_: With<'_>) -> Schema {
    json_schema!({"anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^0*[1-9][0-9]*[kKmMgGtT]?[iI]?[bB]?$"},
    ]})
}

pub(super) fn cpus(_: With<'_>) -> Schema {
    json_schema!({"anyOf": [
        {"type": "number", "minimum": 0.01},
        {"type": "string", "pattern": r"^[0-9]*\.?[0-9]+$"},
    ]})
}

/// A whole number of at least 1.
pub(super) fn count(_: With<'_>) -> Schema {
    json_schema!({"anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^[1-9][0-9]*$"},
    ]})
}

pub(super) fn network(_: With<'_>) -> Schema {
    json_schema!({"type": "string", "enum": ["none", "allowlist", "open"]})
}
