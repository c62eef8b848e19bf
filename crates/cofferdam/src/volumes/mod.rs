//! Directories that outlive sandboxes and are shared by several: the shelf and the shells' history of a repository, the logins of
//! agents. A user's programs of any sandbox may have written what is in one.
//!
//! `volumes/NAME/` in Cofferdam's home has the `files`, which sandboxes see, and beside them what only we write.

mod contents;
mod error;
mod purpose;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use contents::{Held, Size};
pub use error::VolumeError;
pub use purpose::Purpose;

use crate::fsx::{self, Context, lock};
use crate::home::Home;
use crate::names::VolumeName;
use crate::path_json;
use crate::registry::{self, Record};

/// Who a volume belongs to.
const LABEL: &str = "volume.json";
const LABEL_LIMIT: u64 = 64 << 10;
/// The form that this version writes and reads.
const VERSION: u32 = 1;
const FILES: &str = "files";
/// In the directory of all volumes: one of them is made or removed at a time.
const LOCK: &str = ".lock";
/// Begins the name of one that is being removed. No volume's name begins with a dot.
const GOING: &str = ".going-";
/// How long another command may take that makes or removes one.
const OTHERS: Duration = Duration::from_secs(30);

/// One that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Volume {
    /// By which it is called.
    pub name: VolumeName,
    /// The checkout that it was made for; nothing where it is for all.
    pub repository: Option<PathBuf>,
    /// When somebody first wanted it.
    pub made: Timestamp,
    place: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Label {
    version: u32,
    #[serde(with = "path_json::optional_exact")]
    repository: Option<PathBuf>,
    made: Timestamp,
}

impl Volume {
    /// What sandboxes see of it, on this machine.
    pub fn files(&self) -> PathBuf {
        self.place.join(FILES)
    }

    /// A file beside what sandboxes see.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// How much is in it. Goes through all of it.
    pub fn size(&self) -> Result<Size, VolumeError> {
        Ok(contents::size(&self.files())?)
    }

    /// Writes what is in it as a tar archive: files, directories and symlinks, with their modes and times. What is neither is left
    /// out, and counted. No symlink is followed.
    pub fn export(&self, to: impl Write) -> Result<Held, VolumeError> {
        contents::export(&self.files(), to).map_err(|source| VolumeError::Export {
            name: self.name.clone(),
            source,
        })
    }
}

/// All that are there, by name.
pub fn list(home: &Home) -> Result<Vec<Volume>, VolumeError> {
    let directory = home.volumes();
    let entries = match std::fs::read_dir(&directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.context("list", &directory)?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let entry = entry.context("list", &directory)?;
        let Some(name) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        all.extend(find(home, &name)?);
    }
    all.sort_by(|one: &Volume, other| one.name.cmp(&other.name));
    Ok(all)
}

/// The one of this name; `None`: there is none, or it is being made.
pub fn find(home: &Home, name: &VolumeName) -> Result<Option<Volume>, VolumeError> {
    let place = home.volumes().join(name.as_str());
    let path = place.join(LABEL);
    let bytes = match fsx::read_bounded(&path, LABEL_LIMIT) {
        Err(error) if error.is_not_found() => return Ok(None),
        bytes => bytes?,
    };
    let label: Label =
        serde_json::from_slice(&bytes).map_err(|error| VolumeError::label(&path, error))?;
    if label.version != VERSION {
        let why = format!("it has format {} of another version", label.version);
        return Err(VolumeError::label(&path, why));
    }
    Ok(Some(Volume {
        name: name.clone(),
        repository: label.repository,
        made: label.made,
        place,
    }))
}

/// The one for this purpose, made where there is none. `repository`: the checkout. Two at once are one; one of another repository
/// with the same beginning of its digest has a longer name. Bounded: 30 s.
///
/// Whoever mounts it is in the registry before, with its name ([`named`]): then nobody removes it.
pub fn open(home: &Home, purpose: Purpose, repository: &Path) -> Result<Volume, VolumeError> {
    let _alone = alone(home)?;
    let name = name_of(home, purpose, repository)?;
    if let Some(volume) = find(home, &name)? {
        // Whoever was killed may have made the label and nothing else; and a program inside may have closed it.
        fsx::private_dir(&volume.files())?;
        let open = std::fs::Permissions::from_mode(0o700);
        let files = volume.files();
        std::fs::set_permissions(&files, open).context("open", &files)?;
        return Ok(volume);
    }
    let place = home.volumes().join(name.as_str());
    fsx::private_dir(&place)?;
    fsx::private_dir(&place.join(FILES))?;
    let label = Label {
        version: VERSION,
        repository: purpose.is_of_repository().then(|| repository.to_owned()),
        made: Timestamp::now(),
    };
    let path = place.join(LABEL);
    let bytes = serde_json::to_vec_pretty(&label);
    let bytes = bytes.map_err(|error| VolumeError::label(&path, error))?;
    fsx::write_private(&path, &bytes)?;
    Ok(Volume {
        name,
        repository: label.repository,
        made: label.made,
        place,
    })
}

/// Where the files of one are that is for all repositories, whether it is there or not.
pub fn place_of_all(home: &Home, purpose: Purpose) -> PathBuf {
    let names = purpose.names(Path::new("/"));
    let name = names.first().map_or("", VolumeName::as_str);
    home.volumes().join(name).join(FILES)
}

/// What [`open`] opens.
pub fn named(home: &Home, purpose: Purpose, repository: &Path) -> Result<VolumeName, VolumeError> {
    name_of(home, purpose, repository)
}

/// The name of the one that is this repository's, else the shortest that is nobody's.
fn name_of(home: &Home, purpose: Purpose, repository: &Path) -> Result<VolumeName, VolumeError> {
    let mut free = None;
    for name in purpose.names(repository) {
        match find(home, &name)? {
            Some(volume) if purpose.is_of_repository() => {
                if volume.repository.as_deref() == Some(repository) {
                    return Ok(name);
                }
            }
            Some(_) => return Ok(name),
            // A longer one is its own where a shorter one was another's then.
            None => free = free.or(Some(name)),
        }
    }
    free.ok_or_else(|| VolumeError::NoName(repository.to_owned()))
}

/// The sandboxes that have it, whether they run or not. What is in those of logins all dev sandboxes are given.
pub fn users(home: &Home, name: &VolumeName) -> Result<Vec<Record>, VolumeError> {
    let entries = registry::list(home, None)?.entries.into_iter();
    let records = entries.map(|entry| entry.record);
    let mut of_all = Purpose::ALL
        .into_iter()
        .filter(|purpose| !purpose.is_of_repository());
    let is_of_all = of_all.any(|purpose| purpose.names(Path::new("/")).contains(name));
    let uses = |record: &Record| {
        is_of_all && record.dev.is_some() || record.volumes.iter().any(|one| one.name == *name)
    };
    Ok(records.filter(uses).collect())
}

/// Removes one with all that is in it. One that a sandbox has is an error, whether that runs or not. Bounded: 30 s, and
/// as long as the files take.
pub fn remove(home: &Home, name: &VolumeName) -> Result<(), VolumeError> {
    let alone = alone(home)?;
    // `gc` says of what cannot be removed.
    let _ = clear(home);
    let Some(volume) = find(home, name)? else {
        return Err(VolumeError::Unknown(name.clone()));
    };
    let users = users(home, name)?;
    if !users.is_empty() {
        return Err(VolumeError::Used {
            name: name.clone(),
            by: users.into_iter().map(|record| record.name).collect(),
        });
    }
    // From here on it is gone, whenever this process dies; what is left of it goes with the next one.
    let going = home.volumes().join(format!("{GOING}{name}"));
    fsx::remove_tree(&going)?;
    std::fs::rename(&volume.place, &going).context("remove", &volume.place)?;
    fsx::remove_tree(&going)?;
    drop(alone);
    Ok(())
}

/// Removes what is left of those whose removal was cut short. Returns how many there were. Bounded: as [`remove`].
pub fn clear_away(home: &Home) -> Result<usize, VolumeError> {
    if !home.volumes().exists() {
        return Ok(0);
    }
    let _alone = alone(home)?;
    clear(home)
}

fn clear(home: &Home) -> Result<usize, VolumeError> {
    let directory = home.volumes();
    let mut cleared = 0;
    for entry in std::fs::read_dir(&directory).context("list", &directory)? {
        let entry = entry.context("list", &directory)?;
        if entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(GOING.as_bytes())
        {
            fsx::remove_tree(&entry.path())?;
            cleared += 1;
        }
    }
    Ok(cleared)
}

fn alone(home: &Home) -> Result<File, VolumeError> {
    let directory = home.volumes();
    fsx::private_dir(&directory)?;
    let path = directory.join(LOCK);
    let lock = lock::open(&path)?;
    if lock::hold_within(&lock, &path, OTHERS)? {
        return Ok(lock);
    }
    Err(VolumeError::Busy)
}
