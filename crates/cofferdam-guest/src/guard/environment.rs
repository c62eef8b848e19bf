//! The variables that a command was started with.

use std::os::unix::ffi::OsStringExt;

use super::Word;

/// Names and values. Of those with the same name the last counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment(Vec<(Word, Word)>);

/// Those of this process.
#[expect(
    clippy::disallowed_methods,
    reason = "whoever calls git says by variables what git and its hooks do: this is the place that reads them"
)]
pub(crate) fn own() -> Environment {
    let all = std::env::vars_os();
    Environment(
        all.map(|(name, value)| (name.into_vec(), value.into_vec()))
            .collect(),
    )
}

impl Environment {
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        let mut latest = self.0.iter().rev();
        latest
            .find(|(other, _)| other == name.as_bytes())
            .map(|(_, value)| value.as_slice())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let all = self.0.iter();
        all.map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    pub(super) fn set(&mut self, name: &[u8], value: &[u8]) {
        self.0.push((name.to_vec(), value.to_vec()));
    }
}
