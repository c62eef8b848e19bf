use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::listing::RECORD;
use super::*;
use crate::home::Home;
use crate::names::{RepoPath, SandboxId, Slug};

fn record(name: &str, repository: &Path) -> Record {
    Record {
        version: VERSION,
        id: SandboxId::random().unwrap(),
        name: Slug::from_text(name).unwrap(),
        repository: repository.to_owned(),
        common_dir: None,
        provider: "native".into(),
        image: None,
        mode: Mode::Bind,
        strategy: Strategy::Branch,
        branch: Some("work".parse().unwrap()),
        branch_is_ours: true,
        base: "1".repeat(40).parse().unwrap(),
        created: Timestamp::now(),
        phase: Phase::Creating,
        worktree: Some(repository.join("w")),
        made_directories: vec![],
        nested_before: vec![PathText(PathBuf::from("a/.git"))],
        adopted: Vec::new(),
        hidden: vec![PathText(PathBuf::from("secret"))],
        protected: Vec::new(),
        checked: false,
        is_check: false,
        on_host: false,
        kept: None,
        outcome: None,
        network: None,
        lifetime: Lifetime::Command,
        setup: Setup::Done,
        landed: None,
        landed_at: None,
        squashed: None,
        took_work: false,
        mounts: Vec::new(),
        volumes: Vec::new(),
        ports: Vec::new(),
        ports_configured: false,
        dev: None,
    }
}

#[test]
fn one_that_is_being_made_is_there_as_long_as_its_maker() {
    let mut record = record("one", Path::new("/repository"));
    record.setup = Setup::Making;
    for in_use in [true, false] {
        let record = record.clone();
        assert_eq!(Entry { record, in_use }.is_there(), in_use);
    }
}

#[test]
fn records_live_and_die_with_their_lock() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path().join("home"));
    let odd = dir.path().join(OsStr::from_bytes(b"sp ace\n\xff\\x41"));
    std::fs::create_dir(&odd).unwrap();
    let repo = RepoPath::resolve(&odd).unwrap();
    let mut owned = Owned::create(&home, record("one", repo.as_path())).unwrap();
    let entry = find(&home, &repo, "one").unwrap();
    assert!(entry.in_use);
    assert_eq!(entry.record, owned.record);
    assert!(matches!(
        Owned::adopt(&home, entry.record),
        Err(RegistryError::InUse(_))
    ));
    owned.set_phase(Phase::Active).unwrap();
    // Also where another thread is starting a program, which has all that is open until it executes.
    let being_started = owned.lock.file().try_clone().unwrap();
    drop(owned);
    let entry = find(&home, &repo, "one").unwrap();
    assert!(!entry.in_use);
    assert_eq!(entry.record.phase, Phase::Active);
    Owned::adopt(&home, entry.record).unwrap().forget().unwrap();
    drop(being_started);
    assert!(find(&home, &repo, "one").is_err());
    assert!(list(&home, None).unwrap().unfinished.is_empty());
}

#[test]
fn look_alikes_and_strangers_are_not_found() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path().join("home"));
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    std::fs::create_dir_all(&a).unwrap();
    std::fs::create_dir_all(&b).unwrap();
    let owned = Owned::create(&home, record("same", &a.canonicalize().unwrap())).unwrap();
    assert!(find(&home, &RepoPath::resolve(&b).unwrap(), "same").is_err());
    // A record moved under another id, a broken one and an empty directory.
    let other = home.sandbox(SandboxId::random().unwrap());
    std::fs::create_dir(&other).unwrap();
    std::fs::copy(owned.directory().join(RECORD), other.join(RECORD)).unwrap();
    let empty = home.sandbox(SandboxId::random().unwrap());
    std::fs::create_dir(&empty).unwrap();
    let listing = list(&home, None).unwrap();
    assert_eq!(listing.entries.len(), 1);
    assert_eq!(listing.unreadable.len(), 1);
    assert_eq!(listing.unfinished, vec![empty]);
}
