//! A sandbox's place behind the wall while a supervisor keeps it.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use cofferdam::wall::supervisor::{Supervisor, SupervisorError, Wall};
use cofferdam::wall::{Start, WallError};

use super::world::{FOUND, REFUSED, RULES, Sandbox, carries, kept, kill, made};
use crate::support::{block_on, kill as kill_gateway, registered, until};

fn is_lost(wall: &Wall) -> bool {
    matches!(wall, Wall::Lost(_))
}

#[test]
fn what_is_handed_over_stays_carried_and_is_registered_once() {
    let sandbox = Sandbox::new(&RULES);
    block_on(async {
        let (supervisor, status, doors) = sandbox.handed_over().await;
        // This process has nothing of it any more.
        carries(doors);
        let gateway = sandbox.house.gateway();
        let behind = sandbox.house.behind(Start::Never).await.unwrap();
        let same = behind
            .iter()
            .filter(|one| one.sandbox == sandbox.spec.sandbox.to_string());
        // A second registration would have begun with a policy of its own.
        let policies: Vec<_> = same.map(|one| one.generation).collect();
        assert_eq!(policies.len(), 1, "{behind:?}");
        drop(supervisor);
        carries(doors);
        assert_eq!(sandbox.house.gateway(), gateway);
        assert_eq!(sandbox.status().await, Some(status));
    });
}

#[test]
fn a_registration_that_proves_is_not_handed_over() {
    let sandbox = Sandbox::new(&RULES);
    block_on(async {
        let (sockets, doors) = made();
        let registration = cofferdam::wall::Registration::register(&sandbox.spec, sockets);
        let refused = registration.await.unwrap().hand_over().await;
        assert!(matches!(refused, Err(WallError::Lost(_))), "{refused:?}");
        until("nobody listens", || {
            TcpStream::connect(doors.connections).is_err()
        });
    });
}

/// And the list is read anew each time.
#[test]
fn a_killed_gateway_is_replaced_with_the_rules_of_the_list() {
    let sandbox = Sandbox::new(&RULES);
    block_on(async {
        let (_, status, doors) = sandbox.handed_over().await;
        for rules in [&RULES[..], &RULES[..1], &RULES[..]] {
            // Not told to anybody: only the next gateway learns of it.
            drop(sandbox.write(rules).await);
            let gateway = sandbox.house.gateway();
            kill_gateway(gateway);
            carries(doors);
            let also = if rules.len() == 2 { FOUND } else { REFUSED };
            assert_eq!(doors.look_up("also.example.com"), also, "{rules:?}");
            assert_ne!(sandbox.house.gateway(), gateway);
            let now = sandbox
                .becomes("carried", |wall| *wall == Wall::Carried)
                .await;
            assert_eq!(now.process, status.process);
        }
        // It is the gateway's starter, and reaps it.
        let children = format!("/proc/{0}/task/{0}/children", status.process);
        let children = fs::read_to_string(children).unwrap();
        assert_eq!(children.split_ascii_whitespace().count(), 1, "{children}");
    });
}

/// So that its sandbox's rules can be changed again.
#[test]
fn a_gateway_that_nobody_finds_is_replaced() {
    let sandbox = Sandbox::new(&RULES);
    let first = block_on(async {
        let (_, _, doors) = sandbox.handed_over().await;
        let first = sandbox.house.gateway();
        let moved = sandbox.house.home.path().join("moved");
        fs::rename(sandbox.house.place(), moved).unwrap();
        // Nobody asks the supervisor anything.
        until("another one is there", || {
            sandbox.house.place().join("socket").exists()
        });
        carries(doors);
        assert_ne!(sandbox.house.gateway(), first);
        first
    });
    // It ends by itself when nobody has needed it for a while.
    if crate::support::is_gateway(first) {
        kill_gateway(first);
    }
}

/// Whose sandbox is still there. Its sockets are in its own hands.
#[test]
fn a_killed_supervisor_carries_nothing_until_it_is_replaced() {
    let sandbox = Sandbox::new(&RULES);
    block_on(async {
        drop(sandbox.write(&RULES).await);
        let (sockets, doors) = made();
        let guests = kept(&sockets);
        let registration = cofferdam::wall::Registration::register(&sandbox.spec, sockets);
        let registration = registration.await.unwrap();
        registration.open().await.unwrap();
        let wall = registration.hand_over().await.unwrap();
        let (_, first) = sandbox.start(Some(wall)).await.unwrap();
        carries(doors);
        assert!(sandbox.is_locked());

        kill(first.process);
        assert!(!sandbox.is_locked());
        assert!(sandbox.socket().exists());
        assert_eq!(sandbox.status().await, None);
        sandbox.are_behind(0).await;
        // The connection waits in the queue that the guest holds; the lookup gets no answer.
        assert_eq!(doors.look_up_once("allowed.example.com"), None);
        let waiting = TcpStream::connect(doors.connections).unwrap();
        waiting.set_nonblocking(true).unwrap();
        let read = std::io::Read::read(&mut &waiting, &mut [0]).unwrap_err();
        assert_eq!(read.kind(), std::io::ErrorKind::WouldBlock);

        let (_, second) = sandbox.replaced(guests).await.unwrap();
        assert_ne!(first.process, second.process);
        assert_eq!(second.wall, Some(Wall::Carried));
        carries(doors);
        assert!(sandbox.is_locked());
    });
}

#[test]
fn without_a_list_nothing_is_registered_and_the_status_says_why() {
    let sandbox = Sandbox::new(&RULES);
    block_on(async {
        let (sockets, doors) = made();
        let (supervisor, status) = sandbox.replaced(sockets).await.unwrap();
        let why = format!("{:?}", status.wall);
        assert!(is_lost(&status.wall.unwrap()), "{why}");
        assert!(why.contains("list of rules"), "{why}");
        assert_eq!(doors.look_up_once("allowed.example.com"), None);
        assert!(matches!(
            sandbox.house.behind(Start::Never).await,
            Err(WallError::NotRunning)
        ));
        // With one it is there again.
        let change = sandbox.write(&RULES).await;
        assert_eq!(supervisor.reload(&change).await.unwrap(), 0);
        carries(doors);
        drop(change);

        // What is written there is the list, or nothing is.
        let good = fs::read(sandbox.rules()).unwrap();
        let garbage: [(&[u8], u32, &str); 4] = [
            (b"", 0o600, "no list"),
            (&good[..good.len() - 1], 0o600, "no list"),
            (b"*", 0o600, "no list"),
            (&good, 0o620, "cannot be trusted"),
        ];
        for (bytes, mode, expected) in garbage {
            cofferdam::fsx::write_with_mode(&sandbox.rules(), bytes, mode).unwrap();
            fs::set_permissions(sandbox.rules(), fs::Permissions::from_mode(mode)).unwrap();
            kill_gateway(sandbox.house.gateway());
            let lost = sandbox.becomes("lost", is_lost).await;
            let why = format!("{:?}", lost.wall);
            assert!(why.contains(expected), "{why}");
            assert_eq!(doors.look_up_once("allowed.example.com"), None, "{why}");
            let change = sandbox.write(&RULES).await;
            supervisor.reload(&change).await.unwrap();
            carries(doors);
        }
        // Nor does one that was in force stay without its list.
        let change = cofferdam::wall::change::Change::begin(&sandbox.house.home)
            .await
            .unwrap();
        fs::remove_file(sandbox.rules()).unwrap();
        let refused = supervisor.reload(&change).await;
        assert!(
            matches!(refused, Err(SupervisorError::Refused(_))),
            "{refused:?}"
        );
        until("nobody carries it", || {
            doors.look_up_once("allowed.example.com").is_none()
        });
        assert!(is_lost(&sandbox.status().await.unwrap().wall.unwrap()));
    });
}

#[test]
fn a_reload_is_in_force_when_it_is_answered() {
    let sandbox = Sandbox::new(&RULES);
    block_on(async {
        let (supervisor, _, doors) = sandbox.handed_over().await;
        for _ in 0..5 {
            let change = sandbox.write(&RULES[..1]).await;
            supervisor.reload(&change).await.unwrap();
            assert_eq!(doors.look_up("also.example.com"), REFUSED);
            drop(change);
            let change = sandbox.write(&RULES).await;
            supervisor.reload(&change).await.unwrap();
            assert_eq!(doors.look_up("also.example.com"), FOUND);
        }
        // Many at once, and while the gateway ends.
        let change = sandbox.write(&RULES[..1]).await;
        kill_gateway(sandbox.house.gateway());
        let all = futures_util::future::join_all((0..8).map(|_| supervisor.reload(&change)));
        for one in all.await {
            one.unwrap();
        }
        assert_eq!(doors.look_up("also.example.com"), REFUSED);
        carries(doors);
    });
}

/// Rules that are read must be in force when the next change begins, as with a registration of the library's.
#[test]
fn nothing_is_registered_while_rules_change() {
    let sandbox = Sandbox::new(&RULES);
    block_on(async {
        let (_, _, doors) = sandbox.handed_over().await;
        let change = sandbox.write(&RULES).await;
        kill_gateway(sandbox.house.gateway());
        sandbox
            .becomes("recovering", |wall| *wall == Wall::Recovering)
            .await;
        for _ in 0..5 {
            assert_eq!(doors.look_up_once("allowed.example.com"), None);
        }
        sandbox.write_within(&change, &RULES[..1]).await;
        drop(change);
        carries(doors);
        assert_eq!(doors.look_up("also.example.com"), REFUSED);
    });
}

/// As with a registration of the library's.
#[test]
fn without_a_gateway_there_is_no_network() {
    let sandbox = Sandbox::new(&RULES);
    block_on(async {
        let (supervisor, _, doors) = sandbox.handed_over().await;
        let place = sandbox.house.place();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        kill_gateway(sandbox.house.gateway());
        let lost = sandbox.becomes("lost", is_lost).await;
        assert!(format!("{lost:?}").contains("trusted"), "{lost:?}");
        assert_eq!(doors.look_up_once("allowed.example.com"), None);
        fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
        let change = sandbox.write(&RULES).await;
        supervisor.reload(&change).await.unwrap();
        carries(doors);
    });
}

/// Addresses that programs remember from one gateway mean nothing to the next, whoever keeps the place by then.
#[test]
fn epochs_count_on_across_supervisors() {
    let sandbox = Sandbox::new(&RULES);
    block_on(async {
        drop(sandbox.write(&RULES).await);
        let (sockets, doors) = made();
        let guests = kept(&sockets);
        let mut found = vec![];
        let (_, first) = sandbox.replaced(sockets).await.unwrap();
        found.push(doors.address_of("allowed.example.com"));
        kill_gateway(sandbox.house.gateway());
        carries(doors);
        found.push(doors.address_of("allowed.example.com"));
        kill(first.process);
        let (_, second) = sandbox.replaced(guests).await.unwrap();
        found.push(doors.address_of("allowed.example.com"));
        assert_eq!(second.wall, Some(Wall::Carried));
        let mut different = found.clone();
        different.dedup();
        assert_eq!(different.len(), 3, "{found:?}");
    });
}

#[test]
fn a_sandbox_without_a_wall_is_kept_too() {
    let sandbox = Sandbox::new(&[]);
    block_on(async {
        let (supervisor, status) = sandbox.start(None).await.unwrap();
        assert_eq!(status.wall, Some(Wall::None));
        assert!(sandbox.is_locked());
        let change = sandbox.write(&[]).await;
        let refused = supervisor.reload(&change).await;
        assert!(
            matches!(refused, Err(SupervisorError::Refused(_))),
            "{refused:?}"
        );
        // No gateway runs for it.
        assert!(!sandbox.house.place().exists());
    });
}

/// The library's own way, as before, is not in the way.
#[test]
fn the_registration_of_a_command_lives_beside_it() {
    let sandbox = Sandbox::new(&RULES);
    block_on(async {
        let (_, _, kept) = sandbox.handed_over().await;
        let (registration, doors) = registered(&sandbox.house.spec(&["allowed.example.com"])).await;
        carries(kept);
        carries(doors);
        drop(registration);
        sandbox.are_behind(1).await;
        carries(kept);
        let found = Supervisor::connect(&sandbox.directory()).await.unwrap();
        assert!(found.is_some());
    });
}
