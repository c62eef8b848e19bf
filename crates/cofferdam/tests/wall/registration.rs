//! A sandbox behind the gateway: it stays there when the gateway does not.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, Instant};

use cofferdam::wall::{self, Answer, Ask, Health, Registration, Start, WallError};

use crate::support::{Doors, House, LIMIT, block_on, kill, registered, sockets, until};

const REFUSED: Option<u8> = Some(3);
const FOUND: Option<u8> = Some(0);

/// What the sandbox's side knows follows what the gateway does: it is waited for.
async fn is_carried(registration: &Registration) {
    let mut health = registration.health();
    let carried = health.wait_for(|health| *health == Health::Carried);
    let carried = tokio::time::timeout(LIMIT, carried).await;
    carried.unwrap().unwrap();
}

async fn count(house: &House) -> usize {
    let asked = cofferdam::wall::ask(&house.home, &Ask::Status, Start::Never);
    match asked.await.unwrap() {
        Answer::Status(status) => status.len(),
        other => panic!("{other:?}"),
    }
}

/// The gateway carries so many sandboxes, soon.
async fn counts(house: &House, wanted: usize) {
    let began = Instant::now();
    while count(house).await != wanted {
        assert!(began.elapsed() < LIMIT, "never {wanted} sandboxes");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn carries(doors: Doors) {
    until("an allowed name is found", || {
        doors.look_up("allowed.example.com") == FOUND
    });
    assert_eq!(doors.look_up("other.example.com"), REFUSED);
}

#[test]
fn a_killed_gateway_is_replaced() {
    let house = House::new();
    block_on(async {
        let spec = house.spec(&["allowed.example.com"]);
        let (registration, doors) = registered(&spec).await;
        carries(doors);
        for _ in 0..3 {
            let first = house.gateway();
            kill(first);
            carries(doors);
            assert_ne!(house.gateway(), first);
            is_carried(&registration).await;
        }
        // The log goes on where it was.
        let log = fs::read_to_string(house.home.network_log(spec.sandbox)).unwrap();
        assert_eq!(log.matches("\"event\":\"sandbox\"").count(), 1);
        assert!(log.starts_with("{\"at\":"), "{log}");
        let mode = fs::metadata(house.home.network_log(spec.sandbox))
            .unwrap()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    });
}

/// So that its sandbox's rules can be changed again.
#[test]
fn a_gateway_that_nobody_finds_is_replaced() {
    let house = House::new();
    let first = block_on(async {
        let (registration, doors) = registered(&house.spec(&["allowed.example.com"])).await;
        carries(doors);
        let first = house.gateway();
        fs::rename(house.place(), house.home.path().join("moved")).unwrap();
        until("another one is there", || {
            house.place().join("socket").exists()
        });
        carries(doors);
        is_carried(&registration).await;
        counts(&house, 1).await;
        assert_ne!(house.gateway(), first);
        first
    });
    // It ends by itself when nobody has needed it for a while.
    if crate::support::is_gateway(first) {
        kill(first);
    }
}

#[test]
fn a_dropped_registration_ends_at_once() {
    let house = House::new();
    block_on(async {
        let (kept, _) = registered(&house.spec(&[])).await;
        let (dropped, doors) = registered(&house.spec(&[])).await;
        assert_eq!(count(&house).await, 2);
        drop(dropped);
        counts(&house, 1).await;
        until("nobody listens", || {
            TcpStream::connect(doors.connections).is_err()
        });
        drop(kept);
    });
}

#[test]
fn without_a_gateway_there_is_no_network() {
    let house = House::new();
    let spec = house.spec(&["allowed.example.com"]);
    block_on(async {
        let (registration, doors) = registered(&spec).await;
        carries(doors);
        // No gateway can be started from now on.
        fs::set_permissions(house.place(), fs::Permissions::from_mode(0o755)).unwrap();
        kill(house.gateway());
        let mut health = registration.health();
        let lost = health.wait_for(|health| matches!(health, Health::Lost(_)));
        let lost = tokio::time::timeout(LIMIT, lost).await;
        assert!(matches!(&*lost.unwrap().unwrap(), Health::Lost(why) if why.contains("trusted")));
        until("nobody listens", || {
            TcpStream::connect(doors.connections).is_err()
        });
        assert_eq!(doors.look_up_once("allowed.example.com"), None);
        assert!(wall::refused(&spec.home, spec.sandbox).await.is_err());
        fs::set_permissions(house.place(), fs::Permissions::from_mode(0o700)).unwrap();
    });
}

#[test]
fn a_gateway_that_ends_during_the_self_test_proves_nothing() {
    let house = House::new();
    block_on(async {
        let (sockets, doors) = sockets();
        let spec = house.spec(&["allowed.example.com"]);
        let registration = Registration::register(&spec, sockets).await.unwrap();
        assert_ne!(doors.look_up_once("allowed.example.com"), FOUND);
        kill(house.gateway());
        let opened = registration.open().await;
        assert!(
            matches!(opened, Err(WallError::Lost(_) | WallError::Ended(_))),
            "{opened:?}"
        );
        assert_ne!(doors.look_up_once("allowed.example.com"), FOUND);
    });
}
