//! What lies in a mounted directory that no sandbox may have as it is: doors to programs outside, files that are also elsewhere,
//! repositories where it may be changed, and Cofferdam's own directories.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::error::ExtraMountError;
use super::source;
use crate::git::nested::{self, Found};
use crate::registry::ExtraMount;
use crate::session::{cover, place};
use crate::text::printable_path;

/// More files and directories are not looked through.
const MOST_LOOKED_AT: usize = 1_000_000;
/// So much of one kind is covered in one mount.
const MOST_COVERED: usize = 64;

/// Paths relative to the mount, each to be covered.
#[derive(Debug, Default)]
pub(super) struct Below {
    /// Sockets, pipes and devices.
    pub doors: Vec<PathBuf>,
    /// Files and directories that stay as they are.
    pub frozen: Vec<PathBuf>,
    /// `.cofferdam` directories, by their real places; none is in another.
    pub own: Vec<PathBuf>,
    /// Directories that cannot be looked through: programs outside may listen in them.
    pub closed: Vec<PathBuf>,
}

/// Looks through all of it. Blocks for as long as the kernel takes to list every directory.
pub(super) fn look(mount: &ExtraMount) -> Result<Below, ExtraMountError> {
    let path = &mount.source;
    if !path.is_dir() {
        let why = source::frozen(path).filter(|_| mount.writable);
        return match why {
            Some(why) => Err(read_only(path, why)),
            None => Ok(Below::default()),
        };
    }
    if let Some(at) = place::mounted_below(path)? {
        let path = path.clone();
        return Err(ExtraMountError::MountedBelow { path, at });
    }
    let found = nested::scan_whole(path, mount.writable, MOST_LOOKED_AT)?;
    let Some(found) = found else {
        return Err(ExtraMountError::Large {
            path: path.clone(),
            most: MOST_LOOKED_AT,
        });
    };
    judge(mount, found)
}

fn judge(mount: &ExtraMount, found: Found) -> Result<Below, ExtraMountError> {
    let path = &mount.source;
    let few = |what: &'static str, paths: &[PathBuf]| match paths {
        [first, ..] if paths.len() > MOST_COVERED => Err(ExtraMountError::Scattered {
            path: path.clone(),
            count: paths.len(),
            what,
            example: path.join(first),
        }),
        _ => Ok(()),
    };
    let mut frozen = Vec::new();
    if mount.writable {
        if let Some(git) = found.git.first() {
            let (path, at) = (path.clone(), path.join(git));
            return Err(ExtraMountError::Repository { path, at });
        }
        // Its owner's agent could open it and find what nobody has looked at.
        if let Some(closed) = found.closed.first() {
            let why = format!(
                "{} cannot be looked through",
                printable_path(&path.join(closed))
            );
            return Err(read_only(path, why));
        }
        let mut all = found.inodes.privileged.clone();
        all.extend(found.inodes.linked_outside());
        let Some(covered) = cover::cover(&all, MOST_COVERED) else {
            let all: Vec<PathBuf> = all.into_iter().collect();
            few(
                "files with other names or with rights of their owner's",
                &all,
            )?;
            return Ok(Below::default());
        };
        frozen = covered;
    }
    let own = own(path, &found.own)?;
    // Nothing of a directory that is covered is there to be covered.
    let shown = |path: &PathBuf| !own.iter().any(|own| path.starts_with(own));
    let doors: Vec<PathBuf> = found.doors.into_iter().filter(shown).collect();
    let closed: Vec<PathBuf> = found.closed.into_iter().filter(shown).collect();
    few("sockets, pipes or devices", &doors)?;
    few("directories of Cofferdam's own", &own)?;
    few("directories that cannot be looked through", &closed)?;
    Ok(Below {
        doors,
        frozen,
        own,
        closed,
    })
}

/// The real places of what is called `.cofferdam` below `top`: a link has its content by another name, and what lies outside is not
/// shown by it.
fn own(top: &Path, found: &[PathBuf]) -> Result<Vec<PathBuf>, ExtraMountError> {
    let mut places = BTreeSet::new();
    for path in found {
        let path = top.join(path);
        let Some(real) = path.canonicalize().ok().filter(|real| real.is_dir()) else {
            continue;
        };
        if top.starts_with(&real) {
            return Err(ExtraMountError::Refused {
                path: top.to_owned(),
                why: format!(
                    "Cofferdam takes it for a directory of its own, by the link {}",
                    printable_path(&path)
                ),
            });
        }
        places.extend(real.strip_prefix(top).map(Path::to_owned));
    }
    let mut places: Vec<PathBuf> = places.into_iter().collect();
    // A path sorts before what is below it.
    places.dedup_by(|later, kept| later.starts_with(kept));
    Ok(places)
}

fn read_only(path: &Path, why: String) -> ExtraMountError {
    ExtraMountError::ReadOnly {
        path: path.to_owned(),
        why,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn looked(path: &Path, writable: bool) -> Result<Below, String> {
        let mount = ExtraMount {
            source: path.to_owned(),
            target: "/mnt/x".into(),
            writable,
        };
        look(&mount).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_to_be_covered() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        fs::create_dir_all(top.join("a/.cofferdam")).unwrap();
        let _bound = UnixListener::bind(top.join("a/socket"));
        crate::fsx::write_private(&top.join("a/file"), b"x").unwrap();
        fs::hard_link(top.join("a/file"), dir.path().join("again")).unwrap();
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let below = looked(&top, false).unwrap();
        assert_eq!(below.doors, paths(&["a/socket"]));
        assert_eq!(below.own, paths(&["a/.cofferdam"]));
        assert_eq!(below.frozen, paths(&[]));
        assert_eq!(looked(&top, true).unwrap().frozen, paths(&["a/file"]));
        let error = looked(&top.join("a/file"), true).unwrap_err();
        assert!(error.contains("other names"), "{error}");
        assert!(looked(&top.join("a/file"), false).is_ok());
    }

    #[test]
    fn what_a_link_shows_as_our_own_is_covered_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap().join("top");
        for name in ["repo", "settings/deep", "other/.cofferdam/x", "a/b"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        let _bound = UnixListener::bind(top.join("settings/socket"));
        let link = |to: &str, at: &str| symlink(to, top.join(at)).unwrap();
        link("../settings", "repo/.cofferdam");
        link("../other/.cofferdam/x", "a/.cofferdam");
        link("nowhere", "settings/deep/.cofferdam");
        symlink(dir.path().join("elsewhere"), top.join("a/b/.cofferdam")).unwrap();
        fs::create_dir(dir.path().join("elsewhere")).unwrap();
        for writable in [false, true] {
            let below = looked(&top, writable).unwrap();
            let places = ["other/.cofferdam", "settings"].map(PathBuf::from);
            assert_eq!(below.own, places);
            assert!(below.doors.is_empty(), "{below:?}");
        }
        for to in ["../..", "../../top"] {
            fs::remove_file(top.join("a/.cofferdam")).unwrap();
            link(to, "a/.cofferdam");
            let error = looked(&top, false).unwrap_err();
            assert!(error.contains("a directory of its own"), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_looked_through_is_covered() {
        let found = Found {
            closed: vec!["a".into()],
            ..Found::default()
        };
        let mount = |writable| ExtraMount {
            source: "/x".into(),
            target: "/mnt/x".into(),
            writable,
        };
        let below = judge(&mount(false), found).unwrap();
        assert_eq!(below.closed, [PathBuf::from("a")]);
        let found = Found {
            closed: vec!["a".into()],
            ..Found::default()
        };
        assert!(judge(&mount(true), found).is_err());
    }

    #[test]
    fn a_repository_in_it_is_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["one/a/.git", "two/b/objects", "two/b/refs"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        crate::fsx::write_private(&dir.path().join("two/b/HEAD"), b"ref: refs/heads/x").unwrap();
        for name in ["one", "two"] {
            let path = dir.path().join(name);
            let error = looked(&path, true).unwrap_err();
            assert!(error.contains("a git repository is in it"), "{error}");
            assert!(looked(&path, false).is_ok());
        }
    }

    #[test]
    fn too_much_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let bound: Vec<_> = (0..=MOST_COVERED)
            .map(|n| UnixListener::bind(dir.path().join(n.to_string())).unwrap())
            .collect();
        let error = looked(dir.path(), false).unwrap_err();
        assert!(error.contains("65 sockets, pipes or devices"), "{error}");
        drop(bound);
    }
}
