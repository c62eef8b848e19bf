//! Dev sandboxes: a person lives in one, in a checkout or on one of its branches beside it. How they and what they have are called, and
//! whose turn it is to bring one up or down.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::error::RunErrorKind;
use super::options::Caller;
use super::plan::error::PlanError;
use crate::fsx::{self, FileError, lock};
use crate::names::{BranchName, NameError, RepoPath, Slug};
use crate::registry::{self, DevSandbox, Entry, Record, RegistryError, VolumeMount};
use crate::text::hex;
use crate::volumes::{self, Purpose, VolumeError};

/// What the first one of a checkout is called, and what begins the name of one on a branch.
const NAME: &str = "dev";
/// The longest name of a host: one DNS label.
const HOST: usize = 63;
/// Of a directory for a branch: what file systems take, with room for what git puts beside it.
const DIRECTORY: usize = 200;
/// How long another command may take that makes, starts or ends the same one.
const OTHERS: Duration = Duration::from_secs(120);
/// Where the shells' history is inside.
const HISTORY: &str = "/commandhistory";
/// Where the shelf is inside.
pub(super) const SHELF: &str = "/repo-shelf";
/// Where its working trees are.
const BRANCHES: &str = "/repo-shelf/worktrees";

/// Where the working tree of a branch is inside.
pub(super) fn worktree(branch: &BranchName) -> PathBuf {
    let name = sanitised(branch.as_str(), DIRECTORY, |_| true);
    Path::new(BRANCHES).join(name)
}

/// Where the programs of one start.
pub fn workdir(repository: &RepoPath, dev: &DevSandbox) -> PathBuf {
    match &dev.branch {
        Some(branch) => worktree(branch),
        None => Path::new("/workspace").join(repository.slug().as_str()),
    }
}

/// `cofferdam-<repo>-<hash8>`, with a branch `cofferdam-<repo>-<branch>-<hash8>`: of the host and of a container. Where it is too long
/// the repository's name gives way, then the branch's.
pub(super) fn hostname(repository: &RepoPath, dev: &DevSandbox) -> String {
    let hash = repository.hash8();
    let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let fixed = "cofferdam-".len() + 1 + hash.len();
    let branch = dev.branch.as_ref().map(|branch| {
        // A short name of the repository stays.
        sanitised(branch.as_str(), HOST - fixed - 9, usable)
    });
    let room = HOST - fixed - branch.as_ref().map_or(0, |branch| branch.len() + 1);
    let slug = repository.slug();
    let slug = &slug.as_str()[..slug.as_str().len().min(room)];
    let slug = slug.trim_end_matches('-');
    match branch {
        Some(branch) => format!("cofferdam-{slug}-{branch}-{hash}"),
        None => format!("cofferdam-{slug}-{hash}"),
    }
}

/// `/` and white space are `__`, as the documents have it (S3-118). A branch that would be called like another one, or that is too long,
/// has a digest of its name at the end.
fn sanitised(branch: &str, longest: usize, usable: impl Fn(char) -> bool) -> String {
    let mut name = String::new();
    let mut is_alone = !branch.contains("__");
    for c in branch.chars() {
        if c == '/' || c.is_whitespace() {
            is_alone &= c == '/';
            name.push_str("__");
        } else if usable(c) && !c.is_control() {
            name.push(c);
        } else {
            is_alone = false;
            name.push('-');
        }
    }
    if is_alone && name.len() <= longest {
        return name;
    }
    let digest = hex(&Sha256::digest(branch.as_bytes())[..4]);
    let mut room = longest.saturating_sub(digest.len() + 1).min(name.len());
    while !name.is_char_boundary(room) {
        room -= 1;
    }
    format!("{}-{digest}", &name[..room])
}

/// What it is called where no other sandbox of the repository is.
pub fn usual_name(dev: &DevSandbox) -> Result<Slug, NameError> {
    match &dev.branch {
        None => Slug::from_text(NAME),
        Some(branch) => Slug::from_text(&format!("{NAME}-{branch}")),
    }
}

/// The name by which `list` has it: the first that is free.
pub(super) fn name(
    caller: &Caller,
    repository: &RepoPath,
    dev: &DevSandbox,
) -> Result<Slug, RunErrorKind> {
    let usual = usual_name(dev).map_err(PlanError::from)?;
    for number in 1..100 {
        let name = if number == 1 {
            usual.clone()
        } else {
            let end = format!("-{number}");
            let room = Slug::MAX - end.len();
            let usual = usual.as_str();
            let name = format!("{}{end}", &usual[..usual.len().min(room)]);
            Slug::from_text(&name).map_err(PlanError::from)?
        };
        match registry::find(&caller.home, repository, name.as_str()) {
            Err(RegistryError::Unknown { .. }) => return Ok(name),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(usual)
}

/// What it has that outlives it.
pub(super) fn volumes(caller: &Caller, repository: &Path) -> Result<Vec<VolumeMount>, VolumeError> {
    let all = [(Purpose::History, HISTORY), (Purpose::Shelf, SHELF)];
    let all = all.into_iter().map(|(purpose, target)| {
        let name = volumes::named(&caller.home, purpose, repository)?;
        let target = PathBuf::from(target);
        Ok(VolumeMount { name, target })
    });
    all.collect()
}

/// Which purpose is mounted there.
pub(super) fn purpose(mount: &VolumeMount) -> Option<Purpose> {
    match mount.target.to_str() {
        Some(HISTORY) => Some(Purpose::History),
        Some(SHELF) => Some(Purpose::Shelf),
        _ => None,
    }
}

/// The one of this checkout that is for the same, while it is there. What is left of one whose maker died is cleared up by whoever makes
/// the next.
pub fn find(
    caller: &Caller,
    repository: &RepoPath,
    dev: &DevSandbox,
) -> Result<Option<Record>, RegistryError> {
    let listing = registry::list(&caller.home, Some(repository))?;
    let mut ours = listing.entries.into_iter().filter(|Entry { record, .. }| {
        record.dev.as_ref() == Some(dev) && record.repository == repository.as_path()
    });
    // There is one at most that lives on; what ended and kept something is no dev sandbox any more.
    Ok(ours.find(Entry::is_there).map(|entry| entry.record))
}

/// The right to make, start or end dev sandboxes of a checkout, which one command at a time has. `None`: another one does not give it
/// back within 120 s.
pub async fn turn(caller: &Caller, repository: &RepoPath) -> Result<Option<File>, FileError> {
    let directory = caller.home.turns();
    fsx::private_dir(&directory)?;
    let path = directory.join(format!("dev-{}", repository.hash8()));
    tokio::select! {
        () = caller.cancel.cancelled() => Ok(None),
        taken = lock::take_within(&path, OTHERS) => taken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(branch: &str) -> String {
        sanitised(branch, 40, |c| {
            c.is_ascii_alphanumeric() || "_.-".contains(c)
        })
    }

    #[test]
    fn branches_are_called_as_the_documents_say() {
        assert_eq!(of("main"), "main");
        assert_eq!(of("feature/one"), "feature__one");
        assert_eq!(of("a/b/c-d.e_f"), "a__b__c-d.e_f");
    }

    #[test]
    fn no_two_branches_are_called_alike() {
        let long = "x".repeat(80);
        let names = [
            "a/b",
            "a__b",
            "a__/b",
            "a/__b",
            "a@b",
            "a+b",
            "a-b",
            "ä/b",
            "ö/b",
            &long,
            &format!("{long}y"),
        ];
        let called: std::collections::BTreeSet<_> = names.iter().map(|name| of(name)).collect();
        assert_eq!(called.len(), names.len(), "{called:?}");
        assert!(called.iter().all(|name| name.len() <= 40), "{called:?}");
    }

    #[test]
    fn hosts_have_room_for_what_tells_them_apart() {
        let place = tempfile::tempdir().unwrap();
        for (directory, branch) in [
            ("repo".to_owned(), None),
            ("repo".to_owned(), Some("feature/one".to_owned())),
            ("r".repeat(90), Some("f".repeat(90))),
            ("r".repeat(90), None),
        ] {
            let path = place.path().join(&directory);
            std::fs::create_dir_all(&path).unwrap();
            let repository = RepoPath::resolve(&path).unwrap();
            let branch = branch.map(|branch| branch.parse().unwrap());
            let named = hostname(&repository, &DevSandbox { branch });
            assert!(named.len() <= HOST, "{named}");
            assert!(named.ends_with(&repository.hash8()), "{named}");
            assert!(named.starts_with("cofferdam-r"), "{named}");
        }
    }
}
