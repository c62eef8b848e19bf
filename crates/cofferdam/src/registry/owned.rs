//! A state directory while its owner lives: the lock, and what only its holder may write.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::belongs::SameRepository;
use super::error::RegistryError;
use super::listing::{Entry, Listing, RECORD, list, read, read_dir};
use super::lock::{making, open_lock, take};
use super::record::{Phase, Record, Strategy};
use crate::fsx::FileError;
use crate::fsx::lock::{self, Held};
use crate::fsx::{self, Context};
use crate::home::Home;
use crate::names::Slug;
use crate::process;

/// How long one waits for another command that changes the same sandbox.
const TURN_LIMIT: Duration = Duration::from_secs(30);

/// One sandbox's state directory while this process owns it. Dropping it lets go of the lock.
#[derive(Debug)]
pub struct Owned {
    /// As it was last written.
    pub record: Record,
    directory: PathBuf,
    pub(super) lock: Held,
    /// Other locks that end with this.
    pub held: Option<Held>,
}

impl Owned {
    /// Makes the state directory, takes its lock and writes the first record, in this order. Nothing is made where another
    /// sandbox has the name or, but for those in the user's checkout, the branch.
    pub fn create(home: &Home, record: Record) -> Result<Self, RegistryError> {
        fsx::private_dir(home.path())?;
        fsx::private_dir(&home.state())?;
        let directory = home.sandbox(record.id);
        let making = making(home)?;
        // A name is the repository's, in whichever of its checkouts it was given.
        let same = SameRepository::new(&record.repository);
        let listing = list(home, None)?;
        let taken = (listing.entries.iter())
            .any(|entry| entry.record.name == record.name && same.has(&entry.record));
        if taken {
            return Err(RegistryError::NameTaken(record.name));
        }
        // Two that began at once have both seen the branch free.
        if let Some(by) = holder(home, &listing, &record, &same)
            && let Some(branch) = record.branch
        {
            return Err(RegistryError::BranchTaken { branch, by });
        }
        if let Some(unreadable) = listing.seems_called(record.name.as_str(), &same) {
            return Err(unreadable);
        }
        fsx::private_dir(&directory)?;
        let lock = open_lock(&directory, true)?;
        if !take(&lock, &directory)? {
            return Err(RegistryError::InUse(record.name));
        }
        let owned = Self {
            record,
            directory,
            lock: Held::new(lock),
            held: None,
        };
        owned.sign()?;
        owned.save()?;
        drop(making);
        Ok(owned)
    }

    /// Takes over a sandbox whose owner is dead or done.
    pub fn adopt(home: &Home, record: Record) -> Result<Self, RegistryError> {
        let directory = home.sandbox(record.id);
        let gone = |error| gone(&record.name, error);
        // Not made anew: who removes the directory now must find it empty.
        let lock = open_lock(&directory, false).map_err(gone)?;
        if !take(&lock, &directory)? {
            return Err(RegistryError::InUse(record.name));
        }
        let lock = Held::new(lock);
        // What was read before the lock was ours may be old.
        let record = read(&directory).map_err(gone)?;
        let owned = Self {
            record,
            directory,
            lock,
            held: None,
        };
        // Who only clears up is not told to stop.
        let path = owned.directory.join("lock");
        owned.lock.file().set_len(0).context("write", &path)?;
        Ok(owned)
    }

    /// The right to change the record of a sandbox that lives on, whose lock somebody else holds: one command at a time
    /// has it. `None`: another one kept it for the whole of [`TURN_LIMIT`].
    pub(crate) async fn turn(
        home: &Home,
        record: &Record,
        cancel: &CancellationToken,
    ) -> Result<Option<Self>, RegistryError> {
        let directory = home.sandbox(record.id);
        let path = directory.join("turn");
        let taken = tokio::select! {
            () = cancel.cancelled() => return Ok(None),
            taken = lock::take_within(&path, TURN_LIMIT) => taken,
        };
        let gone = |error| gone(&record.name, error);
        let Some(lock) = taken.map_err(|error| gone(error.into()))? else {
            return Ok(None);
        };
        let lock = Held::new(lock);
        // What was read before may be old.
        let record = read(&directory).map_err(gone)?;
        Ok(Some(Self {
            record,
            directory,
            lock,
            held: None,
        }))
    }

    /// Has nobody change its record by a [`Self::turn`] for as long as what is returned is there.
    pub(crate) async fn alone(&self) -> Result<Option<Held>, RegistryError> {
        let path = self.directory.join("turn");
        let taken = lock::take_within(&path, TURN_LIMIT).await;
        let gone = |error: FileError| gone(&self.record.name, error.into());
        Ok(taken.map_err(gone)?.map(Held::new))
    }

    /// Its lock, for another process to hold as well.
    pub(crate) fn lock(&mut self) -> Result<File, RegistryError> {
        let path = self.directory.join("lock");
        Ok(self.lock.share().context("share", &path)?)
    }

    /// Writes into the lock who lives off it, for [`owner`].
    fn sign(&self) -> Result<(), RegistryError> {
        use std::os::unix::fs::FileExt;
        let pid = std::process::id();
        let start = process::start_time_of(pid).unwrap_or_default();
        let path = self.directory.join("lock");
        let lock = self.lock.file();
        let signed = lock
            .set_len(0)
            .and_then(|()| lock.write_all_at(format!("{pid} {start}\n").as_bytes(), 0));
        Ok(signed.context("write", &path)?)
    }

    /// The sandbox's state directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes the record; readers see the old one or the new one.
    pub fn save(&self) -> Result<(), RegistryError> {
        let path = self.directory.join(RECORD);
        let bytes = serde_json::to_vec_pretty(&self.record).map_err(|e| RegistryError::Record {
            path: path.clone(),
            reason: e.to_string(),
        })?;
        Ok(fsx::write_private(&path, &bytes)?)
    }

    /// Writes down how far its life is. Fails where the record cannot be written; then it is as before.
    pub fn set_phase(&mut self, phase: Phase) -> Result<(), RegistryError> {
        self.record.phase = phase;
        self.save()
    }

    /// Removes the state directory: the sandbox is no more. The record goes last but one, the lock
    /// last, so that a death in between still shows it.
    pub fn forget(self) -> Result<(), RegistryError> {
        for entry in read_dir(&self.directory)? {
            if entry != RECORD && entry != "lock" {
                fsx::remove_tree_or_file(&self.directory.join(entry))?;
            }
        }
        fsx::remove_file_if_exists(&self.directory.join(RECORD))?;
        if fsx::remove_tree(&self.directory).is_ok() {
            return Ok(());
        }
        // A network file system keeps a name in it for what is open: the lock.
        let directory = self.directory.clone();
        drop(self);
        Ok(fsx::remove_tree(&directory)?)
    }
}

/// Who has the branch of a sandbox that is to be made, if it is no check's and not the checkout's own.
fn holder(
    home: &Home,
    listing: &Listing,
    record: &Record,
    same: &SameRepository<'_>,
) -> Option<Slug> {
    if record.is_check || record.strategy == Strategy::Head {
        return None;
    }
    let holds = |entry: &&Entry| {
        let other = &entry.record;
        other.branch.is_some()
            && other.branch == record.branch
            && same.has(other)
            && other.holds_branch_at(home, entry.in_use).is_some()
    };
    let found = listing.entries.iter().rev().find(holds);
    found.map(|entry| entry.record.name.clone())
}

/// Where its files are not there any more, neither is the sandbox.
fn gone(name: &Slug, error: RegistryError) -> RegistryError {
    match error {
        RegistryError::File(error) if error.is_not_found() => RegistryError::Gone(name.clone()),
        error => error,
    }
}
