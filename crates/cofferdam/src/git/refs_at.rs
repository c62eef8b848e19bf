//! What many references are at, by one call.

use std::collections::BTreeMap;

use tokio_util::sync::CancellationToken;

use super::command::GitError;
use super::{Oid, Repository};
use crate::names::{BranchName, SandboxId};

/// With more names, all branches are read.
const NAMES: usize = 500;

/// References as they were when they were read, by their full names.
#[derive(Debug, Default)]
pub struct RefsAt(BTreeMap<String, Oid>);

impl RefsAt {
    /// `names` are full, or end with a slash and stand for everything below.
    pub async fn read(
        repo: &Repository,
        mut names: Vec<String>,
        cancel: &CancellationToken,
    ) -> Result<Self, GitError> {
        // Without a name git lists all that there is.
        if names.is_empty() {
            return Ok(Self::default());
        }
        if names.len() > NAMES {
            names = vec!["refs/cofferdam/".to_owned(), "refs/heads/".to_owned()];
        }
        let text = repo
            .command()
            .args(["for-each-ref", "--format=%(objectname) %(refname)"])
            .args(names)
            .line(cancel)
            .await?;
        let read = |line: &str| {
            let (id, reference) = line.split_once(' ')?;
            Some((reference.to_owned(), id.parse().ok()?))
        };
        Ok(Self(text.lines().filter_map(read).collect()))
    }

    /// Where `reference`, by its full name, was; nothing where it was not there.
    pub fn get(&self, reference: &str) -> Option<&Oid> {
        self.0.get(reference)
    }

    /// `prefix` ends with a slash.
    pub fn below(&self, prefix: &str) -> impl Iterator<Item = (&str, &Oid)> {
        let all = self.0.iter().map(|(name, id)| (name.as_str(), id));
        all.filter(move |(name, _)| name.starts_with(prefix))
    }
}

/// The names of a sandbox's references: its own, and its branch.
pub fn names_of(id: SandboxId, branch: Option<&BranchName>) -> Vec<String> {
    let own = below_own(id);
    let branch = branch.map(BranchName::full);
    std::iter::once(own).chain(branch).collect()
}

/// Where a sandbox's own references are.
pub fn below_own(id: SandboxId) -> String {
    format!("refs/cofferdam/{id}/")
}
