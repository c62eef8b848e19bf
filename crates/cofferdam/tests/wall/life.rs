//! One gateway for a home, whoever starts it and however it ends.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Barrier;

use cofferdam::wall::{Ask, Start, WallError};
use cofferdam_lab::skip;
use cofferdam_wall::control;

use crate::support::{House, block_on, is_gateway, kill, registered, until};

#[test]
fn it_starts_when_it_is_needed_and_not_before() {
    let house = House::new();
    let none = house.status(Start::Never);
    assert!(matches!(none, Err(WallError::NotRunning)), "{none:?}");
    assert!(!house.place().exists());
    assert!(house.status(Start::IfNeeded).unwrap().is_empty());
    assert!(is_gateway(house.gateway()));
    assert!(house.status(Start::Never).unwrap().is_empty());
}

#[test]
fn starters_at_once_share_one_gateway() {
    const STARTERS: usize = 6;
    let house = House::new();
    let start = Barrier::new(STARTERS);
    let (all_in, done) = (Barrier::new(STARTERS + 1), Barrier::new(STARTERS + 1));
    std::thread::scope(|scope| {
        for _ in 0..STARTERS {
            scope.spawn(|| {
                start.wait();
                block_on(async {
                    let kept = registered(&house.spec(&[])).await;
                    all_in.wait();
                    done.wait();
                    drop(kept);
                });
            });
        }
        all_in.wait();
        // A second gateway would have some of them.
        let status = house.status(Start::Never);
        done.wait();
        assert_eq!(status.unwrap().len(), STARTERS);
    });
}

#[test]
fn what_a_crash_leaves_is_in_nobodys_way() {
    let house = House::new();
    house.status(Start::IfNeeded).unwrap();
    let first = house.gateway();
    kill(first);
    assert!(house.place().join("socket").exists());
    let none = house.status(Start::Never);
    assert!(matches!(none, Err(WallError::NotRunning)), "{none:?}");
    house.status(Start::IfNeeded).unwrap();
    assert_ne!(house.gateway(), first);
}

#[test]
fn a_gateway_whose_home_is_gone_ends() {
    let house = House::new();
    house.status(Start::IfNeeded).unwrap();
    let gateway = house.gateway();
    fs::remove_dir_all(house.home.path()).unwrap();
    until("it ended", || !is_gateway(gateway));
}

/// Whoever starts it: what reads hostile bytes is not root.
#[test]
fn it_is_never_root() {
    let house = House::new();
    house.status(Start::IfNeeded).unwrap();
    let status = format!("/proc/{}/status", house.gateway().as_raw_nonzero());
    let status = fs::read_to_string(status).unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_ascii_whitespace()
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let own = rustix::process::getuid();
    for id in field("Uid:").iter().chain(&field("Gid:")) {
        assert_ne!(id, "0");
        if own.is_root() {
            assert!(id.parse::<u32>().unwrap() > 60_000, "{id}");
        }
    }
    if !own.is_root() {
        let own = own.as_raw().to_string();
        assert!(field("Uid:").iter().all(|id| *id == own));
    }
    assert_eq!(field("CapEff:"), ["0000000000000000"]);
    assert_eq!(field("CapPrm:"), ["0000000000000000"]);
    if own.is_root() {
        assert_eq!(field("Groups:"), Vec::<String>::new());
    }
}

/// Whoever could open the socket: only the owner is answered.
#[test]
fn others_are_not_answered() {
    if !rustix::process::getuid().is_root() {
        return skip!("only root can become somebody else");
    }
    let house = House::new();
    house.status(Start::IfNeeded).unwrap();
    for path in [
        house.dir.path().to_owned(),
        house.home.path().to_owned(),
        house.place(),
    ] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let socket = house.place().join("socket");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    let frame = control::encode(&Ask::Status).unwrap();
    let answered = |uid: Option<u32>| {
        std::thread::scope(|scope| {
            let asks = scope.spawn(|| {
                if let Some(uid) = uid.map(rustix::thread::Uid::from_raw) {
                    // Of this thread alone.
                    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
                }
                let mut stream = UnixStream::connect(&socket).unwrap();
                let asked = stream.write_all(&frame);
                asked.is_ok() && stream.read_exact(&mut [0u8]).is_ok()
            });
            asks.join().unwrap()
        })
    };
    assert!(answered(None));
    assert!(!answered(Some(1234)));
    // Not even the user that the gateway has become.
    let status = format!("/proc/{}", house.gateway().as_raw_nonzero());
    let runs_as = fs::read_to_string(format!("{status}/status")).unwrap();
    let line = runs_as.lines().find(|line| line.starts_with("Uid:"));
    let uid = line.unwrap().split_ascii_whitespace().nth(1).unwrap();
    assert!(!answered(Some(uid.parse().unwrap())));
}
