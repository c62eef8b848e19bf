//! Where an ordinary user's own Podman is that no variable names: in the directory of their session.

use std::path::Path;
use std::process::Stdio;

use cofferdam_lab::skip;

use crate::containers::{SURROUNDINGS, World, making, own};
use crate::environment::{Done, TestEnvironment, finish};

/// By a command that knows its user's session, and no variable of an engine's.
#[track_caller]
fn cofferdam(world: &World, session: &Path, words: &[&str]) -> Done {
    let mut command = world.environment.command(words);
    command.env("XDG_RUNTIME_DIR", session);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().unwrap())
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the engine is where this machine's user has it"
)]
fn the_podman_of_a_session_is_where_its_sandboxes_are() {
    let host = std::env::var(SURROUNDINGS[1]).unwrap_or_default();
    let Some(socket) = host.strip_prefix("unix://") else {
        return skip!("Podman is not where CONTAINER_HOST says");
    };
    if rustix::process::geteuid().is_root() {
        return skip!("root's Podman is the machine's");
    }
    if let Err(why) = own("podman", &["info"]) {
        return skip!("podman: {why}");
    }
    let world = World {
        environment: TestEnvironment::with_repository(),
        engine: "podman",
    };
    let session = world.environment.home().join("session");
    std::fs::create_dir_all(session.join("podman")).unwrap();
    let place = session.join("podman/podman.sock");
    std::os::unix::fs::symlink(socket, &place).unwrap();
    let create = making("create", "podman", &["one", "--network", "none"]);
    cofferdam(&world, &session, &create).expect_code(0);
    let told = cofferdam(&world, &session, &["doctor", "--json"]);
    let findings: Vec<serde_json::Value> = serde_json::from_str(&told.stdout).unwrap();
    let found = findings.iter().find(|one| one["name"] == "podman").unwrap();
    let detail = found["detail"].as_str().unwrap();
    assert!(detail.contains(place.to_str().unwrap()), "{detail}");
    assert!(detail.contains(", rootless"), "{detail}");
    // Whoever is in no session any more finds it by what is written down.
    let nowhere = world.environment.home().join("nowhere");
    let done = cofferdam(&world, &nowhere, &["exec", "one", "--", "echo", "there"]);
    assert_eq!(done.expect_code(0).stdout, "there\n");
    cofferdam(&world, &nowhere, &["delete", "one"]).expect_code(0);
    world.environment.expect_clean();
}
