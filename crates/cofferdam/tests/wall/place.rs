//! The gateway's directory, wherever it is and whoever was there before.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use cofferdam::git::Git;
use cofferdam::names::SandboxId;
use cofferdam::session::manage;
use cofferdam::wall::{Start, WallError};
use cofferdam_lab::skip;
use tokio_util::sync::CancellationToken;

use crate::support::{House, block_on};

fn refuses(house: &House) {
    let refused = house.status(Start::IfNeeded);
    assert!(
        matches!(refused, Err(WallError::Directory { .. })),
        "{refused:?}"
    );
    assert!(!house.place().join("socket").exists());
}

#[test]
fn a_long_path_is_no_obstacle() {
    let house = House::below(Path::new(&"a-rather-long-name/".repeat(12)));
    assert!(house.place().as_os_str().len() > 200);
    house.status(Start::IfNeeded).unwrap();
    house.status(Start::Never).unwrap();
}

#[test]
fn everything_in_it_is_the_owners_alone() {
    let house = House::new();
    house.status(Start::IfNeeded).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&house.place()), 0o700);
    for name in ["socket", "lock", "stderr"] {
        assert_eq!(mode(&house.place().join(name)), 0o600, "{name}");
    }
}

#[test]
fn one_that_others_may_enter_is_refused() {
    let house = House::new();
    fs::create_dir_all(house.place()).unwrap();
    for mode in [0o755, 0o710, 0o701, 0o720, 0o702] {
        fs::set_permissions(house.place(), fs::Permissions::from_mode(mode)).unwrap();
        refuses(&house);
    }
    fs::set_permissions(house.place(), fs::Permissions::from_mode(0o700)).unwrap();
    house.status(Start::IfNeeded).unwrap();
}

#[test]
fn a_planted_link_is_refused() {
    let house = House::new();
    fs::create_dir_all(house.home.path()).unwrap();
    let elsewhere = house.dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&elsewhere, house.place()).unwrap();
    refuses(&house);
    fs::remove_file(house.place()).unwrap();
    fs::write(house.place(), "").unwrap();
    refuses(&house);
    fs::remove_file(house.place()).unwrap();

    // Nor is a file of it followed.
    fs::create_dir(house.place()).unwrap();
    fs::set_permissions(house.place(), fs::Permissions::from_mode(0o700)).unwrap();
    let precious = house.dir.path().join("precious");
    for name in ["lock", "stderr"] {
        fs::write(&precious, "kept").unwrap();
        symlink(&precious, house.place().join(name)).unwrap();
        assert!(house.status(Start::IfNeeded).is_err());
        assert_eq!(fs::read_to_string(&precious).unwrap(), "kept");
        fs::remove_file(house.place().join(name)).unwrap();
    }
    house.status(Start::IfNeeded).unwrap();
}

#[test]
fn one_of_another_user_is_refused() {
    if !rustix::process::getuid().is_root() {
        return skip!("only root can make what belongs to another user");
    }
    let house = House::new();
    fs::create_dir_all(house.place()).unwrap();
    fs::set_permissions(house.place(), fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(house.place(), Some(1234), None).unwrap();
    refuses(&house);
    std::os::unix::fs::chown(house.place(), Some(0), None).unwrap();
    house.status(Start::IfNeeded).unwrap();
}

#[test]
fn gc_removes_what_is_dead_and_old_alone() {
    let house = House::new();
    house.status(Start::IfNeeded).unwrap();
    let private = |path: &Path| {
        fs::create_dir(path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(path.join("lock"), "").unwrap();
    };
    let (dead, alive) = (house.home.gateway(998), house.home.gateway(999));
    private(&dead);
    private(&alive);
    let lock = fs::File::open(alive.join("lock")).unwrap();
    #[expect(clippy::disallowed_methods, reason = "as another process has it")]
    lock.lock().unwrap();
    let no_version = house.home.path().join("gateway-x");
    private(&no_version);
    let logs = house.home.network_logs();
    fs::create_dir(&logs).unwrap();
    let log = |days: u64| {
        let path = house.home.network_log(SandboxId::random().unwrap());
        let file = fs::File::create(&path).unwrap();
        let age = Duration::from_secs(days * 24 * 60 * 60);
        file.set_modified(SystemTime::now() - age).unwrap();
        path
    };
    let (old, young) = (log(31), log(29));
    let notes = logs.join("notes.txt");
    fs::write(&notes, "").unwrap();

    let gc = |dry_run| {
        let cancel = CancellationToken::new();
        let git = Git::new("git");
        let mut options = manage::GcOptions::default();
        options.dry_run = dry_run;
        let done = block_on(manage::gc(
            &house.home,
            &git,
            None,
            None,
            options,
            &|_| (),
            &cancel,
        ));
        let mut removed = done.unwrap().removed;
        removed.sort();
        removed
    };
    let mut both = [dead.display().to_string(), old.display().to_string()];
    both.sort();
    assert_eq!(gc(true), both);
    assert!(dead.exists() && old.exists());
    assert_eq!(gc(false), both);
    assert!(!dead.exists() && !old.exists());
    for kept in [&alive, &no_version, &young, &notes, &house.place()] {
        assert!(kept.exists(), "{}", kept.display());
    }
    house.status(Start::Never).unwrap();
}
