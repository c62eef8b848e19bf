//! The right to change rules, which one process has at a time.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use cofferdam_wall::Rule;

use crate::fsx;
use crate::home::Home;
use crate::wall::WallError;
use crate::wall::allowed::{self, AddError, Added, Removed, Scope, Which};

/// A change holds its lock for moments; one that is held so long is held by a stopped process.
const LOCK_LIMIT: Duration = Duration::from_secs(20);

/// The right to change the rules of one home: files and gateway change together, one change after the
/// other, so that none is lost. A sandbox that registers holds it too: rules that it has read must be
/// those in force when it is there.
#[derive(Debug)]
pub struct Change {
    pub(super) home: Home,
    _lock: File,
}

impl Change {
    /// Waits for changes that others make. Bounded: 20 s.
    pub async fn begin(home: &Home) -> Result<Self, WallError> {
        fsx::private_dir(home.path())?;
        fsx::private_dir(&home.allowed())?;
        let path = lock_file(home);
        let lock = fsx::lock::take_within(&path, LOCK_LIMIT).await?;
        let lock = lock.ok_or(WallError::Busy(LOCK_LIMIT.as_secs()))?;
        let home = home.clone();
        Ok(Self { home, _lock: lock })
    }

    /// Keeps rules for `scope`. From now on they count for sandboxes that start.
    pub fn add(&self, scope: &Scope, rules: &[Rule]) -> Result<Added, AddError> {
        allowed::add(&self.home, scope, rules)
    }

    /// Takes rules of `scope` out of its file. From now on they count for no sandbox that starts.
    pub fn remove(&self, scope: &Scope, which: &[Which]) -> Result<Removed, AddError> {
        allowed::remove(&self.home, scope, which)
    }
}

/// Held while rules change, and while who registers a sandbox has read them.
pub(in crate::wall) fn lock_file(home: &Home) -> PathBuf {
    home.allowed().join("lock")
}
