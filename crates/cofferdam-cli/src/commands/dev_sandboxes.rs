//! The dev sandboxes of a checkout, and how a command means one of them.

use cofferdam::home::Home;
use cofferdam::names::RepoPath;
use cofferdam::registry::{self, Entry, Record, RegistryError};

use crate::environment::Environment;
use crate::ui::shell::{branch_option, shell_word};

/// A command that means this one by its checkout and its branch, as it is given from here.
pub(super) fn command(words: &str, record: &Record, environment: &Environment) -> String {
    let branch = branch_option(record.shelf_branch());
    let checkout = if record.repository == environment.top() {
        String::new()
    } else {
        format!(" {}", shell_word(&record.repository))
    };
    format!("cofferdam {words}{branch}{checkout}")
}

/// All that a checkout has.
pub(super) fn of_checkout(home: &Home, top: &RepoPath) -> Result<Vec<Record>, RegistryError> {
    let listing = registry::list(home, Some(top))?;
    let there = listing.entries.into_iter().filter(Entry::is_there);
    let is_its = |record: &Record| record.dev.is_some() && record.repository == top.as_path();
    Ok(there.map(|entry| entry.record).filter(is_its).collect())
}
