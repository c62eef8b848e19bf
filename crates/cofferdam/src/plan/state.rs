//! What of a plan has ended well, on disk, and whose turn it is to run it.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::PlanRunError;
use super::tasks::Plan;
use crate::fsx::lock::{self, Held, Lock};
use crate::fsx::{self, Context, FileError};
use crate::git::Oid;
use crate::home::Home;
use crate::names::{BranchName, RepoPath, Slug};
use crate::run_id::RunId;
use crate::text::hex;

/// The first had no [`Begun`].
const VERSION: u32 = 2;
const OLDEST: u32 = 1;
/// Bytes of such a file.
const LIMIT: u64 = 4 << 20;
/// So many plans are known; what is known of those that were run longest ago is forgotten.
const MOST: usize = 500;

/// One task that came as far as this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Known {
    /// As [`super::tasks::PlannedTask::content`].
    pub(super) content: String,
    pub(super) branch: BranchName,
    /// Of its first agent, which ended well.
    pub(super) run: Option<RunId>,
    /// The sandbox whose merging brings all of it.
    pub(super) sandbox: Slug,
    pub(super) commits: usize,
    /// Nothing of it is left to do.
    pub(super) done: bool,
}

/// How a task began that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Begun {
    /// As in [`Known::content`].
    pub(super) content: String,
    /// Where its branch was before the first try.
    pub(super) tip: Oid,
    /// The last one that left commits on the branch.
    pub(super) sandbox: Option<Slug>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    repository: PathBuf,
    plan: PathBuf,
    tasks: BTreeMap<Slug, Known>,
    #[serde(default)]
    begun: BTreeMap<Slug, Begun>,
}

/// Held as long as the plan is run.
#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    file: File,
    _lock: Held,
}

impl State {
    /// At once: whoever runs the same plan already keeps it.
    pub(super) fn open(
        home: &Home,
        repository: &RepoPath,
        plan: &Plan,
    ) -> Result<Self, PlanRunError> {
        let plans = home.plans();
        fsx::private_dir(home.path())?;
        fsx::private_dir(&plans)?;
        let name = name(repository.as_path(), &plan.identity);
        let lock = hold(&plans, &name)?.ok_or(PlanRunError::AtWork)?;
        // What cannot be removed now can be removed the next time.
        let _ = forget_oldest(&plans);
        let path = plans.join(format!("{name}.json"));
        let (tasks, begun) = read(&path)?.unwrap_or_default();
        Ok(Self {
            path,
            file: File {
                version: VERSION,
                repository: repository.as_path().to_owned(),
                plan: plan.identity.clone(),
                tasks,
                begun,
            },
            _lock: lock,
        })
    }

    /// What is known of a task with just this content.
    pub(super) fn known(&self, name: &Slug, content: &str) -> Option<&Known> {
        let known = self.file.tasks.get(name);
        known.filter(|known| known.content == content)
    }

    /// How a task with just this content began.
    pub(super) fn begun(&self, name: &Slug, content: &str) -> Option<&Begun> {
        let begun = self.file.begun.get(name);
        begun.filter(|begun| begun.content == content)
    }

    /// On disk before this returns.
    pub(super) fn put(&mut self, name: &Slug, known: Known) -> Result<(), FileError> {
        self.file.tasks.insert(name.clone(), known);
        self.save()
    }

    /// On disk before this returns.
    pub(super) fn put_begun(&mut self, name: &Slug, begun: Begun) -> Result<(), FileError> {
        self.file.begun.insert(name.clone(), begun);
        self.save()
    }

    /// It is done anew.
    pub(super) fn forget(&mut self, name: &Slug) -> Result<(), FileError> {
        let known = self.file.tasks.remove(name).is_some();
        let begun = self.file.begun.remove(name).is_some();
        if known || begun { self.save() } else { Ok(()) }
    }

    fn save(&self) -> Result<(), FileError> {
        let text = serde_json::to_vec_pretty(&self.file)
            .map_err(|error| FileError::new("write", &self.path, std::io::Error::other(error)))?;
        fsx::write_private(&self.path, &text)
    }
}

/// `None`: somebody else has it.
fn hold(plans: &Path, name: &str) -> Result<Option<Held>, FileError> {
    let path = plans.join(format!("{name}.lock"));
    loop {
        let file = lock::open(&path)?;
        if !lock::try_hold(&file, Lock::Exclusive, &path)? {
            return Ok(None);
        }
        let held = Held::new(file);
        // Who forgets a plan removes its lock too, while they hold it.
        let ours = held.file().metadata().context("look at", &path)?;
        match path.symlink_metadata() {
            Ok(there) if there.ino() == ours.ino() => return Ok(Some(held)),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(FileError::new("look at", path, error)),
        }
    }
}

/// But for those that are being run.
fn forget_oldest(plans: &Path) -> Result<(), FileError> {
    let mut known = Vec::new();
    for entry in std::fs::read_dir(plans).context("read", plans)? {
        let path = entry.context("read", plans)?.path();
        if path.extension().is_some_and(|kind| kind == "json")
            && let Ok(changed) = path.symlink_metadata().and_then(|found| found.modified())
        {
            known.push((changed, path));
        }
    }
    known.sort_unstable();
    let more = known.len().saturating_sub(MOST);
    for (_, path) in known.into_iter().take(more) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if let Some(_held) = hold(plans, &name)? {
            fsx::remove_file_if_exists(&path)?;
            fsx::remove_file_if_exists(&path.with_extension("lock"))?;
        }
    }
    Ok(())
}

/// The same plan of the same repository has the same.
fn name(repository: &Path, plan: &Path) -> String {
    let mut digest = Sha256::new();
    digest.update(repository.as_os_str().as_bytes());
    digest.update([0]);
    digest.update(plan.as_os_str().as_bytes());
    hex(&digest.finalize()[..8])
}

type Tasks = (BTreeMap<Slug, Known>, BTreeMap<Slug, Begun>);

fn read(path: &Path) -> Result<Option<Tasks>, PlanRunError> {
    let bytes = match fsx::read_bounded(path, LIMIT) {
        Err(error) if error.is_not_found() => return Ok(None),
        bytes => bytes?,
    };
    let unreadable = |why: String| PlanRunError::Unreadable {
        path: path.to_owned(),
        why,
    };
    let file: File =
        serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
    if !(OLDEST..=VERSION).contains(&file.version) {
        return Err(unreadable(
            "another version of cofferdam wrote it".to_owned(),
        ));
    }
    Ok(Some((file.tasks, file.begun)))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_oldest_are_forgotten_but_for_those_that_are_run() {
        let plans = tempfile::tempdir().unwrap();
        let plans = plans.path();
        for number in 0..MOST + 3 {
            let path = plans.join(format!("{number}.json"));
            fsx::write_private(&path, b"{}").unwrap();
            let age = Duration::from_secs(10_000 - number as u64);
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        let run = hold(plans, "1").unwrap();
        assert!(run.is_some() && hold(plans, "1").unwrap().is_none());
        drop(hold(plans, "0").unwrap());
        forget_oldest(plans).unwrap();
        let is_there = |name: &str| plans.join(name).exists();
        assert!(!is_there("0.json") && !is_there("0.lock"));
        assert!(is_there("1.json") && is_there("1.lock"));
        assert!(!is_there("2.json") && is_there("3.json"));
        // One that waited for a lock that has gone takes the next one.
        assert!(hold(plans, "0").unwrap().is_some());
        assert!(is_there("0.lock"));
    }
}
