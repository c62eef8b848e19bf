//! What the user sees: styles, tables, the live view of a run, its summary, and JSON.

pub(crate) mod again;
pub(crate) mod facts;
pub(crate) mod from_here;
pub(crate) mod human;
pub(crate) mod json;
pub(crate) mod live;
pub(crate) mod opening;
pub(crate) mod output;
pub(crate) mod patch;
pub(crate) mod recovered;
pub(crate) mod rules;
pub(crate) mod shelf;
pub(crate) mod shell;
pub(crate) mod steps;
pub(crate) mod streams;
pub(crate) mod style;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod tasks;
pub(crate) mod traffic;
pub(crate) mod tty;
