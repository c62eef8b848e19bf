use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::fsx::write_private;

fn home() -> (tempfile::TempDir, Home) {
    let place = tempfile::tempdir().unwrap();
    let home = Home::new(place.path().join("home"));
    (place, home)
}

#[test]
fn one_is_made_once_and_found_again() {
    let (_place, home) = home();
    let (one, other) = (Path::new("/a/repo"), Path::new("/b/repo"));
    let shelf = open(&home, Purpose::Shelf, one).unwrap();
    write_private(&shelf.files().join("kept"), b"x").unwrap();
    assert_eq!(open(&home, Purpose::Shelf, one).unwrap(), shelf);
    assert_eq!(shelf.repository.as_deref(), Some(one));
    let names = |repository| Purpose::ALL.map(|of| named(&home, of, repository).unwrap());
    let (ours, theirs) = (names(one), names(other));
    assert_eq!(ours[..2], theirs[..2], "logins are everybody's");
    assert_ne!(ours[2], theirs[2]);
    assert_ne!(ours[3], theirs[3]);
    assert_eq!(ours[0].as_str(), "cofferdam-creds");
    assert_eq!(ours[1].as_str(), "cofferdam-codex-config");
    let hash = crate::names::RepoPath::resolve(Path::new("/"))
        .unwrap()
        .hash8();
    assert_eq!(
        named(&home, Purpose::History, Path::new("/"))
            .unwrap()
            .as_str(),
        format!("cofferdam-{hash}-history")
    );
    assert_eq!(
        named(&home, Purpose::Shelf, Path::new("/"))
            .unwrap()
            .as_str(),
        format!("cofferdam-shelf-{hash}")
    );
    let all: Vec<_> = list(&home)
        .unwrap()
        .into_iter()
        .map(|one| one.name)
        .collect();
    assert_eq!(all, [shelf.name]);
}

/// The name of this repository's is taken by one of another repository with the same beginning of its digest.
#[test]
fn a_look_alike_is_somebody_elses() {
    let (_place, home) = home();
    let shelf = open(&home, Purpose::Shelf, Path::new("/a/repo")).unwrap();
    let label = shelf.files().parent().unwrap().join(LABEL);
    let text = std::fs::read_to_string(&label).unwrap();
    write_private(&label, text.replace("/a/repo", "/else/where").as_bytes()).unwrap();
    let again = open(&home, Purpose::Shelf, Path::new("/a/repo")).unwrap();
    assert_ne!(again.name, shelf.name);
    assert!(
        again.name.as_str().starts_with(shelf.name.as_str()),
        "{}",
        again.name
    );
    assert_eq!(
        open(&home, Purpose::Shelf, Path::new("/a/repo")).unwrap(),
        again
    );
    // It keeps its own when the other one is gone.
    remove(&home, &shelf.name).unwrap();
    assert_eq!(
        open(&home, Purpose::Shelf, Path::new("/a/repo")).unwrap(),
        again
    );
}

#[test]
fn what_was_cut_short_is_made_whole() {
    let (_place, home) = home();
    let shelf = open(&home, Purpose::Shelf, Path::new("/a")).unwrap();
    std::fs::remove_dir(shelf.files()).unwrap();
    assert!(
        open(&home, Purpose::Shelf, Path::new("/a"))
            .unwrap()
            .files()
            .is_dir()
    );
    // A directory without a label is none.
    std::fs::create_dir(home.volumes().join("cofferdam-half")).unwrap();
    assert_eq!(list(&home).unwrap().len(), 1);
    // One that was being removed goes with the next one.
    std::fs::create_dir(home.volumes().join(format!("{GOING}{}", shelf.name))).unwrap();
    remove(&home, &shelf.name).unwrap();
    assert_eq!(list(&home).unwrap(), []);
    let left = std::fs::read_dir(home.volumes()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 2, "the lock and the half: {left:?}");
    assert!(matches!(
        remove(&home, &shelf.name),
        Err(VolumeError::Unknown(_))
    ));
}

#[test]
fn a_label_of_another_version_is_left_alone() {
    let (_place, home) = home();
    let shelf = open(&home, Purpose::Shelf, Path::new("/a")).unwrap();
    let label = shelf.files().parent().unwrap().join(LABEL);
    for text in [
        "{}",
        "not json",
        "{\"version\":2,\"repository\":null,\"made\":\"2026-01-01T00:00:00Z\"}",
    ] {
        write_private(&label, text.as_bytes()).unwrap();
        for done in [
            list(&home).map(drop),
            open(&home, Purpose::Shelf, Path::new("/a")).map(drop),
            remove(&home, &shelf.name),
        ] {
            assert!(
                matches!(done, Err(VolumeError::Label { .. })),
                "{text}: {done:?}"
            );
        }
        assert!(shelf.files().is_dir());
    }
}

/// What a program put there leads nobody out of it, neither by links nor by things that are no files.
#[test]
fn an_archive_holds_what_is_there_and_nothing_else() {
    let (place, home) = home();
    let shelf = open(&home, Purpose::Shelf, Path::new("/a")).unwrap();
    let (files, secret) = (shelf.files(), place.path().join("secret"));
    write_private(&secret, b"secret").unwrap();
    std::fs::create_dir(files.join("below")).unwrap();
    write_private(&files.join("below/file"), b"content").unwrap();
    symlink(&secret, files.join("link")).unwrap();
    symlink(place.path(), files.join("out")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(files.join("socket")).unwrap();
    let size = shelf.size().unwrap();
    assert_eq!(size.files, 4);
    let mut bytes = Vec::new();
    let held = shelf.export(&mut bytes).unwrap();
    assert_eq!((held.size.files, held.size.bytes, held.left_out), (3, 7, 1));
    let mut archive = tar::Archive::new(&*bytes);
    let mut seen: Vec<(String, Option<String>)> = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        let target = entry.link_name().unwrap();
        let target = target.map(|target| target.to_str().unwrap().to_owned());
        let mut text = String::new();
        std::io::Read::read_to_string(&mut entry, &mut text).unwrap();
        assert!(!text.contains("secret"), "{path}");
        seen.push((path, target));
    }
    seen.sort();
    let secret = secret.to_str().unwrap().to_owned();
    let out = place.path().to_str().unwrap().to_owned();
    assert_eq!(
        seen,
        [
            ("below".to_owned(), None),
            ("below/file".to_owned(), None),
            ("link".to_owned(), Some(secret)),
            ("out".to_owned(), Some(out)),
        ]
    );
}
