use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use crate::fsx::FileError;
pub fn scan(_top: &Path) -> Result<BTreeSet<PathBuf>, FileError> { Ok(BTreeSet::new()) }
